"""Training of a spherical autoencoder by Adam on mini-batches, with a progress bar and checkpoints."""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sphereot._arrays.validation import as_int
from sphereot._support.callbacks import Callback, asks_to_stop
from sphereot._support.checkpoints import CheckpointStore, StateFile, digest
from sphereot._support.errors import DivergenceError
from sphereot._support.progress import Progress
from sphereot.autoencoders.autoencoder import SphericalAutoencoder, evaluation_mode, require_unit_interval
from sphereot.torch.minibatches import require_finite, run_epochs

__all__ = ["TrainingHistory", "encode_all", "reconstruction_error", "train"]


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
    progress: Progress = False,
    callback: Callback | None = None,
) -> TrainingHistory:
    """Train an autoencoder in place.

    Parameters
    ----------
    model : SphericalAutoencoder
        What to train.
    images : tensor, shape (n, channels, height, width)
        Floating-point images; with the default reconstruction loss, in [0, 1].
    epochs, batch_size, lr
        Passes through the data, images per step, and learning rate of Adam; the defaults are those of the paper for
        MNIST. The last batch of an epoch can be smaller; one of a single image is left out.
    seed : int
        Source of the order of images, the slices, and the samples of the prior.
    checkpoint : path or CheckpointStore, optional
        Where the state is saved every few seconds. If the file exists, training continues from it, and ends with the
        same numbers as without the interruption. The file stays: a finished training is not repeated.
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
        If the loss is not finite; the model has the parameters of the step before.

    Notes
    -----
    Convolutions of the paper's networks take half the time on the CPU if channels are the last dimension in memory, so
    the model is converted to that memory format.

    Examples
    --------
    >>> import torch
    >>> from sphereot.autoencoders import SphericalAutoencoder, UniformSSW, paper_networks, train
    >>> model = SphericalAutoencoder(*paper_networks(28, 3, width=0.25, seed=0), UniformSSW(50), weight=10.0)
    >>> images = torch.rand(40, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    >>> history = train(model, images, epochs=2, batch_size=20)
    >>> len(history.reconstruction)
    2
    """
    epochs, batch_size = as_int("epochs", epochs, 1, "epochs"), as_int("batch_size", batch_size, 2, "the batch size")
    if isinstance(lr, bool) or not isinstance(lr, int | float) or not 0 < lr < math.inf:
        raise ValueError(f"lr: got {lr!r}, but a learning rate is a positive number.")
    seed = as_int("seed", seed, 0, "a seed")
    images = _validated_images(images, model)
    store = StateFile(Path(checkpoint)) if isinstance(checkpoint, str | os.PathLike) else checkpoint
    generator = torch.Generator().manual_seed(seed)
    model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    device = next(model.parameters()).device
    memory_format = torch.channels_last if images.ndim == 4 else torch.contiguous_format
    work: dict[str, Any] = {}
    if store is not None:
        settings = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "seed": seed}
        work = settings | {"model": repr(model), "images": digest(images.numpy(force=True))}

    def step(rows: Tensor) -> list[float]:
        batch = images[rows].to(device).contiguous(memory_format=memory_format)
        return _step(model, optimizer, batch, generator, lr)

    def after_epoch(epoch: int, means: list[float]) -> bool:
        stops = asks_to_stop(callback, epoch, means[0] + model.weight * means[1], model)
        model.train()  # a callback may have switched to evaluation mode
        return stops

    model.train()
    try:
        means = run_epochs(
            step,
            len(images),
            epochs=epochs,
            batch_size=batch_size,
            generator=generator,
            states={"model": model, "optimizer": optimizer},
            work=work,
            store=store,
            progress=progress,
            after_epoch=after_epoch,
        )
    except DivergenceError as error:
        error.result = _history(error.result)
        raise
    return _history(means)


def encode_all(model: SphericalAutoencoder, images: Tensor, batch_size: int = 1000) -> Tensor:
    """Codes of many images, (n, d), in evaluation mode and without gradients."""
    with torch.no_grad(), evaluation_mode(model):
        return torch.cat([model.encode(batch) for batch in images.split(batch_size)])


def reconstruction_error(model: SphericalAutoencoder, images: Tensor, batch_size: int = 1000) -> float:
    """Mean reconstruction error of many images, in evaluation mode and without gradients."""
    total = 0.0
    with torch.no_grad(), evaluation_mode(model):
        for batch in images.split(batch_size):
            total += float(model.reconstruction_loss(model(batch), batch)) * len(batch)
    return total / len(images)


def _history(means: list[list[float]]) -> TrainingHistory:
    return TrainingHistory([mean[0] for mean in means], [mean[1] for mean in means])


def _step(
    model: SphericalAutoencoder, optimizer: torch.optim.Optimizer, batch: Tensor, generator: torch.Generator, lr: float
) -> list[float]:
    """One step of the optimizer; the two parts of the loss before it."""
    optimizer.zero_grad()
    losses = model.losses(batch, seed=generator)
    values = [losses.reconstruction.item(), losses.divergence.item()]
    require_finite(dict(zip(("reconstruction", "divergence"), values, strict=True)), lr)
    losses.total.backward()
    optimizer.step()
    return values


def _validated_images(images: Tensor, model: SphericalAutoencoder) -> Tensor:
    if not isinstance(images, Tensor):
        raise TypeError(f"images: got {type(images).__name__}; give a torch tensor, torch.as_tensor(images).")
    if model.reconstruction == "bce":
        require_unit_interval("images", images)
    if images.ndim < 2 or len(images) < 2:
        raise ValueError(f"images: shape is {tuple(images.shape)}, but at least 2 images (n, ...) are needed.")
    if not images.is_floating_point() or not bool(torch.isfinite(images).all()):
        raise ValueError("images: hold NaN, infinity or integers; give finite floating-point numbers.")
    return images
