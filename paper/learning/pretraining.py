"""Pretraining of an encoder on two views, and the supervised baseline, both by SGD with a cosine schedule."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from paper.learning.augmentations import Augmentation
from paper.learning.minibatches import Means, run_epochs
from sphereot._arrays.validation import as_int, as_positive, as_weight_factor
from sphereot._support.checkpoints import (
    Callback,
    CheckpointStore,
    DivergenceError,
    NotFiniteError,
    asks_to_stop,
    digest,
)
from sphereot._support.extras import Progress


@dataclass
class PretrainingHistory:
    """Losses of a training, means over the batches of each epoch; a classifier has no parts.

    Attributes
    ----------
    loss, alignment, uniformity : list of float
        One value per epoch.
    """

    loss: list[float] = field(default_factory=list)
    alignment: list[float] = field(default_factory=list)
    uniformity: list[float] = field(default_factory=list)


def pretrain(
    encoder: nn.Module,
    images: Tensor,
    loss: nn.Module,
    *,
    epochs: int,
    augmentation: Augmentation | None = None,
    batch_size: int = 512,
    lr: float = 0.05,
    momentum: float = 0.9,
    weight_decay: float = 1e-3,
    seed: int = 0,
    checkpoint: CheckpointStore | str | os.PathLike[str] | None = None,
    progress: Progress = False,
    callback: Callback | None = None,
) -> PretrainingHistory:
    """Train an encoder on two augmented views of every image, in place.

    Parameters
    ----------
    encoder : module
        From images to unit vectors (n, d).
    images : tensor or array, shape (n, channels, height, width)
        In [0, 1].
    loss : module
        `sphereot.torch.AlignmentUniformityLoss`, `NTXentLoss`, or another module with a method
        `forward_components(view_a, view_b)` that returns `LossParts`.
    epochs : int
        Passes through the data.
    augmentation : Augmentation, optional
        How views are made; by default `Augmentation` for the size and channels of the images.
    batch_size, lr, momentum, weight_decay
        Of stochastic gradient descent, with the paper's defaults; the learning rate falls to 0 along a cosine, epoch by
        epoch, as in the paper's public code.
    seed : int
        Source of the order of images and of the augmentations.
    checkpoint : path or CheckpointStore, optional
        Where the state is saved every ten seconds. If the file exists, training continues from it, and ends with the
        same numbers. A seeded loss is part of the state. The file is removed when the training is complete.
    progress : bool or callable
        Show a progress bar; or a function to call with the number of batches done and the total.
    callback : callable (epoch, loss, encoder), optional
        Called after every epoch with the mean loss; training stops early if it returns True.

    Returns
    -------
    PretrainingHistory

    Raises
    ------
    DivergenceError
        If the loss is not finite; the encoder has the last parameters that gave a finite loss. Its `result` is the
        history of the epochs before.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.pretraining import pretrain
    >>> from paper.learning.resnet import ResNet18
    >>> from sphereot.torch import AlignmentUniformityLoss
    >>> encoder = ResNet18(latent_dim=3, width=4, n_features=16, seed=0)
    >>> images = torch.rand(16, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    >>> history = pretrain(encoder, images, AlignmentUniformityLoss(weight=20.0), epochs=1, batch_size=8)
    >>> len(history.loss), len(history.uniformity)
    (1, 1)
    """
    images = _as_images(images)
    augment = augmentation or Augmentation(images.shape[-1], images.shape[1])
    settings = _Settings(epochs, batch_size, lr, momentum, weight_decay, seed)

    def parts(batch: Tensor, rows: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        view_a, view_b = augment.two_views(batch, seed=generator)
        # One pass over both views: batch normalization then has the statistics of all.
        embeddings = encoder(torch.cat([view_a, view_b]).contiguous(memory_format=torch.channels_last))
        if not bool(embeddings.detach().isfinite().all()):
            raise NotFiniteError("the encoder returned NaN or infinity")
        components = loss.forward_components(*embeddings.chunk(2))
        return dict(zip(("loss", "alignment", "uniformity"), components, strict=True))

    states = {"encoder": encoder, "loss": loss} if isinstance(loss, nn.Module) else {"encoder": encoder}
    work = {"loss": " ".join(repr(loss).split()), "augmentation": " ".join(repr(augment).split())[:200]}
    return _run(encoder, images, parts, settings, states, work, checkpoint, progress, callback)


def train_classifier(
    encoder: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    augmentation: Augmentation | None = None,
    batch_size: int = 512,
    lr: float = 0.05,
    momentum: float = 0.9,
    weight_decay: float = 1e-3,
    seed: int = 0,
    checkpoint: CheckpointStore | str | os.PathLike[str] | None = None,
    progress: Progress = False,
    callback: Callback | None = None,
) -> PretrainingHistory:
    """Train an encoder together with a linear classifier of its embeddings: the supervised baseline of the paper.

    Parameters
    ----------
    labels : tensor or array, shape (n,)
        Classes, integers starting at 0.
    encoder, images, epochs, augmentation, batch_size, lr, momentum, weight_decay, seed, checkpoint, progress, callback
        As in `pretrain`; one augmented view of every image is classified.
    """
    images = _as_images(images)
    classes = torch.as_tensor(labels)
    if classes.shape != (len(images),) or classes.is_floating_point():
        raise ValueError(f"labels: shape is {tuple(classes.shape)}, but {len(images)} integers are needed.")
    augment = augmentation or Augmentation(images.shape[-1], images.shape[1])
    settings = _Settings(epochs, batch_size, lr, momentum, weight_decay, seed)
    dim = embed_all(encoder, images[:2]).shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        classifier = nn.Linear(dim, int(classes.max()) + 1)

    def parts(batch: Tensor, rows: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        view = augment(batch, seed=generator).contiguous(memory_format=torch.channels_last)
        return {"loss": nn.functional.cross_entropy(classifier(encoder(view)), classes[rows])}

    states = {"encoder": encoder, "classifier": classifier}
    work = {"loss": "cross-entropy", "augmentation": " ".join(repr(augment).split())[:200]}
    return _run(encoder, images, parts, settings, states, work, checkpoint, progress, callback)


def embed_all(
    function: Callable[[Tensor], Tensor], images: Tensor, *, module: nn.Module | None = None, batch_size: int = 500
) -> Tensor:
    """Values of a function of many images, such as an encoder or its `features`, without gradients.

    Parameters
    ----------
    function : callable
        From images (n, channels, height, width) to vectors.
    images : tensor or array
        In [0, 1].
    module : module, optional
        What to switch to evaluation mode meanwhile; by default `function`, or the module that it is a method of.
    batch_size : int
        Images per call.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.pretraining import embed_all
    >>> from paper.learning.resnet import ResNet18
    >>> encoder = ResNet18(latent_dim=3, width=4, seed=0)
    >>> embed_all(encoder.features, torch.rand(5, 3, 32, 32)).shape
    torch.Size([5, 1024])
    """
    owner = module or (function if isinstance(function, nn.Module) else getattr(function, "__self__", None))
    modes = {} if owner is None else {part: part.training for part in owner.modules()}
    for part in modes:
        part.training = False
    try:
        with torch.no_grad():
            return torch.cat([function(batch) for batch in _batches(images, batch_size)])
    finally:
        for part, mode in modes.items():
            part.training = mode


@dataclass(frozen=True)
class _Settings:
    """Settings of the optimizer, validated."""

    epochs: int
    batch_size: int
    lr: float
    momentum: float
    weight_decay: float
    seed: int

    def __post_init__(self) -> None:
        as_int("epochs", self.epochs, 1, "epochs")
        as_int("batch_size", self.batch_size, 2, "the batch size")
        as_int("seed", self.seed, 0, "a seed")
        as_positive("lr", self.lr, "a learning rate")
        for name in ("momentum", "weight_decay"):
            as_weight_factor(name, getattr(self, name), f"the {name.replace('_', ' ')}")


def _run(
    encoder: nn.Module,
    images: Tensor,
    parts: Callable[[Tensor, Tensor, torch.Generator], dict[str, Tensor]],
    settings: _Settings,
    states: dict[str, Any],
    work: dict[str, Any],
    checkpoint: CheckpointStore | str | os.PathLike[str] | None,
    progress: Progress,
    callback: Callback | None,
) -> PretrainingHistory:
    """Epochs of steps on the part "loss" of `parts(batch, rows, generator)`."""
    generator = torch.Generator().manual_seed(settings.seed)
    for parameter in encoder.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    trained = [p for part in states.values() if isinstance(part, nn.Module) for p in part.parameters()]
    optimizer = torch.optim.SGD(trained, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.epochs)
    if checkpoint is not None:
        work = vars(settings) | work | {"images": digest(images.numpy(force=True))}

    def loss(rows: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        values = parts(images[rows], rows, generator)
        return values["loss"], values

    def after_epoch(epoch: int, means: Means) -> bool:
        schedule.step()
        stops = asks_to_stop(callback, epoch, means["loss"], encoder)
        encoder.train()
        return stops

    encoder.train()
    try:
        means = run_epochs(
            loss,
            len(images),
            optimizer,
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            generator=generator,
            states=states | {"schedule": schedule},
            work=work,
            checkpoint=checkpoint,
            progress=progress,
            after_epoch=after_epoch,
        )
    except DivergenceError as error:
        error.result = _history(error.result)
        raise
    return _history(means)


def _history(means: list[Means]) -> PretrainingHistory:
    """The parts of the loss by epoch; a classifier has the loss alone."""
    names = means[0] if means else ()
    return PretrainingHistory(**{name: [mean[name] for mean in means] for name in names})


def _as_images(images: Any) -> Tensor:
    tensor = torch.from_numpy(images) if isinstance(images, np.ndarray) else images
    if not isinstance(tensor, Tensor):
        raise TypeError(f"images: got {type(images).__name__}; give a tensor or an array of all images.")
    if tensor.ndim != 4 or len(tensor) < 2 or not tensor.is_floating_point():
        raise ValueError(
            f"images: shape is {tuple(tensor.shape)} and dtype {tensor.dtype}, but floats (n, channels, height, width) "
            "are needed; divide integers by 255."
        )
    least, largest = (float(value) for value in torch.aminmax(tensor))
    if not (least >= 0.0 and largest <= 1.0):
        raise ValueError(f"images: values are between {least:.9g} and {largest:.9g}, but [0, 1] is needed.")
    return tensor


def _batches(images: Any, batch_size: int) -> Iterator[Tensor]:
    for batch in torch.as_tensor(images).split(batch_size):
        yield batch.contiguous(memory_format=torch.channels_last)
