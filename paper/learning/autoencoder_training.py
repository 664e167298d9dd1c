"""Training of a spherical autoencoder by Adam on mini-batches, with a progress bar and checkpoints."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from paper.learning.minibatches import Means, run_epochs
from sphereot._arrays.validation import as_int, as_positive
from sphereot._support.checkpoints import Callback, CheckpointStore, DivergenceError, asks_to_stop, digest
from sphereot._support.extras import Progress
from sphereot.torch.latent import SphericalAutoencoder, evaluation_mode, require_unit_interval, sample_prior


@dataclass
class TrainingHistory:
    """Losses of a training: means over the batches of each epoch.

    Attributes
    ----------
    reconstruction, divergence : list of float
        One value per epoch; the divergence without its weight.
    """

    reconstruction: list[float] = field(default_factory=list)
    divergence: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.reconstruction)


def train(
    model: SphericalAutoencoder,
    images: Tensor,
    *,
    epochs: int,
    batch_size: int = 500,
    lr: float = 1e-3,
    seed: int = 0,
    checkpoint: CheckpointStore | str | os.PathLike[str] | None = None,
    optimizer: Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer] | None = None,
    progress: Progress = False,
    callback: Callback | None = None,
) -> TrainingHistory:
    """Train an autoencoder in place.

    Parameters
    ----------
    model : SphericalAutoencoder
        What to train.
    images : tensor or array, shape (n, channels, height, width)
        Floating-point images; with the default reconstruction loss, in [0, 1]. Batches are moved to the device and
        dtype of the model. For data that do not fit into memory, write a loop around `model.losses`.
    epochs, batch_size, lr
        Passes through the data, images per step, and learning rate of Adam; the defaults are those of the paper for
        MNIST. The last batch of an epoch can be smaller; one of a single image is left out.
    seed : int
        Source of the order of images, the slices, and the samples of the prior.
    checkpoint : path or CheckpointStore, optional
        Where the state is saved every ten seconds. If the file exists, training continues from it, and ends with the
        same numbers as without the interruption. The file is removed when the training is complete.
    optimizer : callable (parameters) -> torch.optim.Optimizer, optional
        Makes the optimizer, instead of Adam with the learning rate `lr`.
    progress : bool or callable
        Show a progress bar; or a function to call with the number of batches done and the total.
    callback : callable (epoch, loss, model), optional
        Called after every epoch with the mean loss; training stops early if it returns True.

    Returns
    -------
    TrainingHistory

    Raises
    ------
    DivergenceError
        If the loss is not finite; the model has the last parameters that gave a finite loss. Its `result` is the
        history of the epochs before.

    Notes
    -----
    Convolutions of the paper's networks take half the time on the CPU if channels are the last dimension in memory, so
    the model is converted to that memory format.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.autoencoder_training import train
    >>> from paper.learning.networks import paper_networks
    >>> from sphereot.torch import SphericalAutoencoder, UniformityLoss
    >>> networks = paper_networks(28, 3, width=0.25, seed=0)
    >>> model = SphericalAutoencoder(*networks, UniformityLoss(n_projections=50), weight=10.0, latent_dim=3)
    >>> images = torch.rand(40, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    >>> history = train(model, images, epochs=2, batch_size=20)
    >>> len(history.reconstruction)
    2
    """
    epochs, batch_size = as_int("epochs", epochs, 1, "epochs"), as_int("batch_size", batch_size, 2, "the batch size")
    lr, seed = as_positive("lr", lr, "a learning rate"), as_int("seed", seed, 0, "a seed")
    images = _validated_images(images, model)
    generator = torch.Generator().manual_seed(seed)
    memory_format = torch.contiguous_format
    if images.ndim == 4:
        memory_format = torch.channels_last
        _to_channels_last(model)
    make = partial(torch.optim.Adam, lr=lr) if optimizer is None else optimizer
    like = next(model.parameters())
    work: dict[str, Any] = {}
    if checkpoint is not None:
        work = {"batch_size": batch_size, "lr": lr, "seed": seed, "images": digest(_bytes(images))}
        work |= _description(model)

    def loss(rows: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        batch = images[rows].to(like.device, like.dtype).contiguous(memory_format=memory_format)
        losses = model.losses(batch, seed=generator)
        return losses.total, {"reconstruction": losses.reconstruction, "divergence": losses.divergence}

    modes = {part: part.training for part in model.modules()}

    def after_epoch(epoch: int, means: Means) -> bool:
        stops = asks_to_stop(callback, epoch, means["reconstruction"] + model.weight * means["divergence"], model)
        for part, mode in modes.items():  # a callback may have switched to evaluation mode
            part.training = mode
        return stops

    if not model.training:
        model.train()
        modes = dict.fromkeys(modes, True)
    try:
        means = run_epochs(
            loss,
            len(images),
            make(model.parameters()),
            epochs=epochs,
            batch_size=batch_size,
            generator=generator,
            states={"model": model, "weight": _WeightState(model)},
            work=work,
            checkpoint=checkpoint,
            progress=progress,
            after_epoch=after_epoch,
        )
    except DivergenceError as error:
        error.result = _history(error.result)
        raise
    return _history(means)


def encode_all(model: SphericalAutoencoder, images: Tensor, batch_size: int = 1000) -> Tensor:
    """Codes of many images, (n, d), in evaluation mode and without gradients.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.autoencoder_training import encode_all
    >>> from paper.learning.networks import paper_networks
    >>> from sphereot.torch import SphericalAutoencoder, UniformityLoss
    >>> networks = paper_networks(28, 3, width=0.25, seed=0)
    >>> model = SphericalAutoencoder(*networks, UniformityLoss(n_projections=50), weight=10.0, latent_dim=3)
    >>> encode_all(model, torch.rand(5, 1, 28, 28)).shape
    torch.Size([5, 3])
    """
    with torch.no_grad(), evaluation_mode(model):
        return torch.cat([model.encode(batch) for batch in _batches(model, images, batch_size)])


def reconstruction_error(model: SphericalAutoencoder, images: Tensor, batch_size: int = 1000) -> float:
    """Mean reconstruction error of many images, in evaluation mode and without gradients.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.autoencoder_training import reconstruction_error
    >>> from paper.learning.networks import paper_networks
    >>> from sphereot.torch import SphericalAutoencoder, UniformityLoss
    >>> networks = paper_networks(28, 3, width=0.25, seed=0)
    >>> model = SphericalAutoencoder(*networks, UniformityLoss(n_projections=50), weight=10.0, latent_dim=3)
    >>> reconstruction_error(model, torch.rand(5, 1, 28, 28)) > 0
    True
    """
    total = 0.0
    with torch.no_grad(), evaluation_mode(model):
        for batch in _batches(model, images, batch_size):
            total += float(model.reconstruction_loss(model(batch), batch)) * len(batch)
    return total / len(images)


def _batches(model: SphericalAutoencoder, images: Any, batch_size: int) -> Iterator[Tensor]:
    """Batches on the device and in the dtype of a model."""
    like = next(model.parameters(), torch.empty(0))
    for batch in torch.as_tensor(images).split(batch_size):
        yield batch.to(like.device, like.dtype)


def _history(means: list[Means]) -> TrainingHistory:
    return TrainingHistory([mean["reconstruction"] for mean in means], [mean["divergence"] for mean in means])


class _WeightState:
    """The weight of the divergence as a state: a callback may change it in the course of a training."""

    def __init__(self, model: SphericalAutoencoder):
        self._model = model

    def state_dict(self) -> float:
        return self._model.weight

    def load_state_dict(self, weight: float) -> None:
        self._model.weight = weight


def _to_channels_last(model: SphericalAutoencoder) -> None:
    if all(parameter.ndim <= 4 for parameter in model.parameters()):  # the format is of four dimensions
        model.to(memory_format=torch.channels_last)


def _description(model: SphericalAutoencoder) -> dict[str, Any]:
    """What a training depends on besides its own settings."""
    shapes = "".join(f"{name}{tuple(p.shape)}" for name, p in model.named_parameters())
    prior = "uniform"
    if not model.prior_is_uniform:
        assert model.prior is not None
        points = sample_prior(model.prior, 16, torch.Generator().manual_seed(0))
        prior = digest(points.numpy(force=True))
    return {
        "networks": digest(np.frombuffer(shapes.encode(), np.uint8)),
        "weight": model.weight,
        "divergence": _name(model.divergence),
        "reconstruction": _name(model.reconstruction),
        "prior": prior,
    }


def _name(part: Any) -> str:
    """A short name of a loss: its text, the name of a function, or a module with its options."""
    if isinstance(part, str):
        return part
    if isinstance(part, torch.nn.Module):
        return f"{type(part).__name__}({part.extra_repr()})"
    return str(getattr(part, "__qualname__", type(part).__name__))


def _bytes(images: Tensor) -> Any:
    """The memory of images as bytes, of any dtype."""
    return images.detach().cpu().contiguous().view(torch.uint8).numpy()


def _validated_images(images: Any, model: SphericalAutoencoder) -> Tensor:
    if isinstance(images, np.ndarray):
        images = torch.from_numpy(images)
    if not isinstance(images, Tensor):
        raise TypeError(
            f"images: got {type(images).__name__}; give a tensor or an array of all images. For a DataLoader, write a "
            "loop: model.losses(batch).total.backward(), then a step of your optimizer."
        )
    if model.reconstruction == "bce":
        require_unit_interval("images", images, " for binary cross-entropy, or choose reconstruction='mse'")
    if images.ndim < 2 or len(images) < 2:
        raise ValueError(f"images: shape is {tuple(images.shape)}, but at least 2 images (n, ...) are needed.")
    if not images.is_floating_point() or not bool(torch.isfinite(images).all()):
        raise ValueError("images: hold NaN, infinity or integers; give finite floating-point numbers.")
    return images
