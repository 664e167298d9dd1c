"""Epochs of mini-batches in random order, with a progress bar, from which a killed training resumes in mid-epoch."""

import copy
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor

from sphereot._support.atomic_write import reason_of
from sphereot._support.checkpoints import (
    CheckpointStore,
    DivergenceError,
    NotFiniteError,
    StateFile,
    require_same_work,
    store_name,
)
from sphereot._support.extras import Progress, progress_bar

Means = dict[str, float]
"""Parts of a loss by name."""


class Stateful(Protocol):
    """A module, an optimizer or a schedule: what has a state to save."""

    def state_dict(self) -> Any:
        """The state."""

    def load_state_dict(self, state: Any) -> Any:
        """Restore a state."""


@dataclass
class _Position:
    """Where a training is: epochs done, batches done of the current one with their sums, the order of its rows."""

    epoch: int = 0
    batch: int = 0
    sums: Means = field(default_factory=dict)
    order: Tensor | None = None
    stopped: bool = False

    def add(self, parts: Means) -> None:
        """Count a batch with the parts of its loss."""
        self.sums = {name: self.sums.get(name, 0.0) + part for name, part in parts.items()}
        self.batch += 1


def run_epochs(
    loss: Callable[[Tensor], tuple[Tensor, Mapping[str, Tensor]]],
    n: int,
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int,
    batch_size: int,
    generator: torch.Generator,
    states: Mapping[str, Stateful],
    work: Mapping[str, Any] | None = None,
    checkpoint: CheckpointStore | str | os.PathLike[str] | None = None,
    progress: Progress = False,
    after_epoch: Callable[[int, Means], bool] | None = None,
) -> list[Means]:
    """Minimize a loss by a step of an optimizer for every mini-batch of every epoch.

    Parameters
    ----------
    loss : callable (rows) -> (total, parts)
        The loss of the images of these rows, to be minimized, and its parts by name, to be recorded; scalar tensors.
    n : int
        The number of images.
    optimizer : torch.optim.Optimizer
        Takes the steps; part of what is restored.
    epochs, batch_size : int
        A last batch of a single image is left out: batch normalization needs two.
    generator : torch.Generator
        Source of the order of images; `loss` may draw from it too. Layers and augmentations that draw from torch's
        global random state on the CPU, such as dropout, are seeded by it; that state is put back at the end.
    states : mapping of str to Stateful
        What else a resumed training must restore: the model, a schedule.
    work : mapping, optional
        What the training depends on: settings, and digests of data. A saved state of other work is an error.
    checkpoint : path or CheckpointStore, optional
        Where the state is saved after every batch (a file every ten seconds), and loaded from at the start. A file is
        removed at the end, and when the loss is not finite.
    progress : bool or callable
        Show a progress bar; or a function to call with the number of batches done and the total.
    after_epoch : callable (epoch, means) -> bool, optional
        Called after every epoch with the number of epochs done and the means of the parts; True ends the training.

    Returns
    -------
    list of dicts of float
        The means of the parts by name, epoch by epoch.

    Raises
    ------
    DivergenceError
        If a part of the loss is not finite. The parameters are then the last that gave a finite loss; `result` has the
        means of the epochs before.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.minibatches import run_epochs
    >>> x, w = torch.arange(10.0), torch.zeros((), requires_grad=True)
    >>> def loss(rows):
    ...     error = (x[rows] - w).square().mean()
    ...     return error, {"error": error}
    >>> optimizer, generator = torch.optim.SGD([w], lr=0.1), torch.Generator().manual_seed(0)
    >>> means = run_epochs(loss, 10, optimizer, epochs=30, batch_size=5, generator=generator, states={})
    >>> abs(w.item() - 4.5) < 1, means[-1]["error"] < means[0]["error"]
    (True, True)
    """
    file = StateFile(Path(checkpoint)) if isinstance(checkpoint, str | os.PathLike) else None
    store: Any = checkpoint if file is None else file
    state = partial(_state, states=dict(states) | {"optimizer": optimizer}, generator=generator, work=work or {})
    steps = _Steps(loss, optimizer)
    n_batches = _batch_count(n, batch_size)
    history: list[Means] = []
    position = _Position()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed())
        if store is not None and (saved := store.load()) is not None:
            history, position = _restore(saved, state.keywords, store_name(store))
        done = position.epoch * n_batches + position.batch
        with progress_bar(progress, "training", epochs * n_batches, done) as show:
            while position.epoch < epochs and not position.stopped:
                if position.order is None:
                    position.order = torch.randperm(n, generator=generator)
                while position.batch < n_batches:
                    rows = position.order[position.batch * batch_size : (position.batch + 1) * batch_size]
                    try:
                        position.add(steps.take(rows))
                    except DivergenceError as error:
                        error.result = history
                        if file is not None:
                            file.remove()  # it would diverge again, and block a training with a smaller learning rate
                        raise
                    show(position.epoch * n_batches + position.batch)
                    if store is not None and position.batch < n_batches:
                        store.save(partial(state, history=history, position=position))
                history.append({name: total / n_batches for name, total in position.sums.items()})
                position = _Position(epoch=position.epoch + 1)
                position.stopped = after_epoch is not None and after_epoch(position.epoch, history[-1])
                if store is not None:
                    is_last = position.stopped or position.epoch == epochs
                    _save(store, partial(state, history=history, position=position), at_once=is_last)
    if file is not None:
        file.remove()
    return history


class _Steps:
    """Steps of an optimizer, which go back to the last parameters with a finite loss when it no longer is.

    Parameters
    ----------
    loss : callable (rows) -> (total, parts)
        As in `run_epochs`.
    optimizer : torch.optim.Optimizer
        Takes the steps.
    """

    def __init__(
        self, loss: Callable[[Tensor], tuple[Tensor, Mapping[str, Tensor]]], optimizer: torch.optim.Optimizer
    ) -> None:
        self._loss, self._optimizer = loss, optimizer
        self._parameters = [p.detach() for group in optimizer.param_groups for p in group["params"]]
        self._last_good: list[Tensor] | None = None

    def take(self, rows: Tensor) -> Means:
        """Take a step; the parts of the loss before it."""
        self._optimizer.zero_grad()
        try:
            total, parts = self._loss(rows)
            values = {name: part.item() for name, part in parts.items()}
        except NotFiniteError as error:
            self._fail(str(error), error)
        if not all(map(math.isfinite, values.values())):
            self._fail(", ".join(f"{name} {value:g}" for name, value in values.items()))
        if self._last_good is None:
            self._last_good = [parameter.clone() for parameter in self._parameters]
        torch._foreach_copy_(self._last_good, self._parameters)
        total.backward()
        self._optimizer.step()
        return values

    def _fail(self, reason: str, cause: Exception | None = None) -> NoReturn:
        if self._last_good is not None:
            torch._foreach_copy_(self._parameters, self._last_good)
        group = self._optimizer.param_groups[0]
        lr = group.get("initial_lr", group["lr"])
        raise DivergenceError(
            f"the loss is not finite ({reason.rstrip('.')}): the learning rate lr={lr:g} is too large; give a smaller "
            "one. The model has the last parameters that gave a finite loss."
        ) from cause


def _batch_count(n: int, batch_size: int) -> int:
    """Number of batches of an epoch, without a last batch of one."""
    whole, rest = divmod(n, batch_size)
    return whole + 1 if rest > 1 else whole


def _save(store: CheckpointStore, state: Callable[[], Any], *, at_once: bool) -> None:
    """Save a state; `at_once` even if the file was written a moment ago."""
    if not at_once or not isinstance(store, StateFile):
        store.save(state)
        return
    every, store.every = store.every, 0.0
    try:
        store.save(state)
    finally:
        store.every = every


def _state(
    *,
    states: Mapping[str, Stateful],
    generator: torch.Generator,
    work: Mapping[str, Any],
    history: list[Means],
    position: _Position,
) -> dict[str, Any]:
    # A copy: a store may keep it while the training goes on.
    return copy.deepcopy(
        {
            "work": dict(work),
            "states": {name: part.state_dict() for name, part in states.items()},
            "generator": generator.get_state(),
            "global": torch.random.get_rng_state(),
            "history": history,
            "position": vars(position),
        }
    )


def _restore(saved: Any, current: Mapping[str, Any], name: str) -> tuple[list[Means], _Position]:
    """Load what `_state` returned into the states and the generator of `current`."""
    if not isinstance(saved, Mapping):
        raise ValueError(f"{name}: holds no state of a training; remove the file to start again.")
    require_same_work(name, saved.get("work"), current["work"])
    try:
        for key, part in current["states"].items():
            part.load_state_dict(saved["states"][key])
        current["generator"].set_state(saved["generator"])
        torch.random.set_rng_state(saved["global"])
        return [dict(means) for means in saved["history"]], _Position(**saved["position"])
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise ValueError(
            f"{name}: its state does not fit this model ({reason_of(error)}); remove the file to start again."
        ) from error
