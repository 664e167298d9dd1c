"""Fréchet distance between two sets of images in the space of a feature network."""

import torch
from torch import Tensor, nn

from paper.learning.features import InceptionFeatures
from sphereot._arrays.validation import as_int
from sphereot._support.extras import require
from sphereot.torch.latent import evaluation_mode, require_unit_interval


class FrechetDistance:
    """Fréchet distance to a fixed set of real images, whose features are computed once.

    The features of both sets are described by their means and covariance matrices; the value is the squared
    2-Wasserstein distance between the normal distributions with these (torchmetrics).

    Parameters
    ----------
    real : tensor, shape (n, channels, height, width)
        Images in [0, 1], at least 2.
    features : module
        A feature network of `paper.learning.features`, or any module from images to vectors (n, num_features) with the
        attributes `num_features` and `label`.
    batch_size : int
        The number of images per call of the network.

    Attributes
    ----------
    label : str
        "FID" with Inception features; otherwise "Fréchet distance (...)", with the name of the features.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.features import LeNet
    >>> from paper.learning.frechet import FrechetDistance
    >>> images = torch.rand(50, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    >>> distance = FrechetDistance(images, LeNet())
    >>> distance.label, abs(round(distance(images), 3))
    ('Fréchet distance (LeNet features)', 0.0)
    """

    def __init__(self, real: Tensor, features: nn.Module, batch_size: int = 250) -> None:
        require("torchmetrics", "FrechetDistance", extra="paper")
        from torchmetrics.image.fid import FrechetInceptionDistance

        if not isinstance(getattr(features, "num_features", None), int) or not hasattr(features, "label"):
            raise TypeError(
                f"features: got {type(features).__name__}, but a module with the attributes num_features (an int) and "
                "label (its name) is needed."
            )
        self.batch_size = as_int("batch_size", batch_size, 1, "the batch size")
        is_inception = isinstance(features, InceptionFeatures)
        self.label = "FID" if is_inception else f"Fréchet distance ({features.label})"
        self._like = next(features.parameters(), torch.empty(0))
        self._metric = FrechetInceptionDistance(
            feature=_EvaluatedFeatures(features), normalize=True, reset_real_features=False
        ).to(self._like.device)
        self._add("real", real, is_real=True)

    def __call__(self, generated: Tensor) -> float:
        """Distance of generated images (m, channels, height, width), in [0, 1], from the real ones."""
        self._metric.reset()
        self._add("generated", generated, is_real=False)
        return float(self._metric.compute())

    def _add(self, name: str, images: Tensor, *, is_real: bool) -> None:
        images = torch.as_tensor(images)
        require_unit_interval(name, images)
        if images.ndim != 4 or len(images) < 2:
            raise ValueError(f"{name}: shape is {tuple(images.shape)}, but at least 2 images (n, c, h, w) are needed.")
        with torch.no_grad():
            for batch in images.split(self.batch_size):
                self._metric.update(batch.to(self._like.device, self._like.dtype), real=is_real)


class _EvaluatedFeatures(nn.Module):
    """Features in evaluation mode, regardless of the mode of the network; their number is checked."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.num_features = network, network.num_features

    def forward(self, images: Tensor) -> Tensor:
        with evaluation_mode(self.network):
            features = self.network(images)
        if tuple(features.shape) != (len(images), self.num_features):
            raise ValueError(
                f"features: returned shape {tuple(features.shape)} for {len(images)} images, but num_features is "
                f"{self.num_features}; correct the attribute."
            )
        return features


def frechet_distance(real: Tensor, generated: Tensor, features: nn.Module, batch_size: int = 250) -> float:
    """Fréchet distance between two sets of images; see `FrechetDistance`.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.features import LeNet
    >>> from paper.learning.frechet import frechet_distance
    >>> images = torch.rand(60, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    >>> frechet_distance(images, images / 2, LeNet()) > 0
    True
    """
    return FrechetDistance(real, features, batch_size)(generated)
