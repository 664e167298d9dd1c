"""ResNet18 for images of 32x32 pixels, with a projection to the sphere (Appendix C.7)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sphereot._arrays.validation import as_int

_CIFAR10_MEAN = (0.4915, 0.4822, 0.4466)
_CIFAR10_STD = (0.2470, 0.2435, 0.2616)


class ResNet18(nn.Module):
    """ResNet18 that starts with a 3x3 convolution of stride 1 and no pooling, as usual for small images.

    Images are standardized, encoded to features, and projected to the sphere S^{d-1} by a linear layer without bias and
    normalization.

    Parameters
    ----------
    latent_dim : int
        Dimension d of the embeddings; 3 in the paper's table.
    width : int
        Channels of the first stage; 64 in ResNet18. The next stages have 2, 4 and 8 times as many.
    n_features : int
        The number of features before the projection; 1024 in the paper.
    mean, std : sequence of float
        Of the channels, to standardize; those of CIFAR10 by default. Their number is that of the channels.
    seed : int, optional
        Makes the initial weights reproducible; torch's global random state is not changed.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.resnet import ResNet18
    >>> encoder = ResNet18(latent_dim=3, width=8, seed=0)
    >>> images = torch.rand(2, 3, 32, 32)
    >>> encoder(images).shape, encoder.features(images).shape
    (torch.Size([2, 3]), torch.Size([2, 1024]))
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        latent_dim: int = 3,
        width: int = 64,
        n_features: int = 1024,
        *,
        mean: Sequence[float] = _CIFAR10_MEAN,
        std: Sequence[float] = _CIFAR10_STD,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.latent_dim = as_int("latent_dim", latent_dim, 2, "the dimension of the embeddings")
        self.n_features = as_int("n_features", n_features, 1, "the number of features")
        width = as_int("width", width, 1, "the number of channels")
        if len(mean) != len(std) or not all(value > 0 for value in std):
            raise ValueError(f"mean, std: got {mean!r} and {std!r}; give one each per channel, the latter positive.")
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("std", torch.tensor(std)[:, None, None])
        with torch.random.fork_rng(devices=[]):
            if seed is None:
                torch.seed()
            else:
                torch.manual_seed(seed)
            self.layers = _layers(len(mean), width, n_features)
            self.projection = nn.Linear(n_features, latent_dim, bias=False)

    def features(self, images: Tensor) -> Tensor:
        """Features (n, n_features) of images (n, channels, height, width) in [0, 1]."""
        if images.ndim != 4 or images.shape[1] != len(self.mean):
            raise ValueError(
                f"images: shape is {tuple(images.shape)}, but this network takes (n, {len(self.mean)}, height, width)."
            )
        standardized = (images - self.mean) / self.std
        return self.layers(standardized)

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings on the sphere, (n, latent_dim)."""
        return nn.functional.normalize(self.projection(self.features(images)), dim=1)


class _Block(nn.Module):
    """Two 3x3 convolutions next to a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def _layers(channels: int, width: int, n_features: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    inputs = width
    for factor, stride in ((1, 1), (2, 2), (4, 2), (8, 2)):
        layers += [_Block(inputs, factor * width, stride), _Block(factor * width, factor * width, 1)]
        inputs = factor * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, n_features), nn.ReLU())
