"""Epochs of mini-batches in random order, with a progress bar, from which a killed training resumes in mid-epoch."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from sphereot._support.atomic_write import reason_of
from sphereot._support.checkpoints import CheckpointStore, StateFile, require_same_work, store_name
from sphereot._support.errors import DivergenceError
from sphereot._support.progress import Progress, progress_bar

__all__ = ["LastGoodParameters", "Stateful", "require_finite", "run_epochs"]


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
    sums: list[float] = field(default_factory=list)
    order: Tensor | None = None
    stopped: bool = False


def run_epochs(
    step: Callable[[Tensor], Sequence[float]],
    n: int,
    *,
    epochs: int,
    batch_size: int,
    generator: torch.Generator,
    states: Mapping[str, Stateful],
    work: Mapping[str, Any] | None = None,
    store: CheckpointStore | None = None,
    progress: Progress = False,
    after_epoch: Callable[[int, list[float]], bool] | None = None,
) -> list[list[float]]:
    """Call `step` with the rows of every mini-batch of every epoch.

    Parameters
    ----------
    step : callable (rows) -> numbers
        Takes one step of the optimizer on the images of these rows; returns the parts of the loss.
    n : int
        The number of images.
    epochs, batch_size : int
        A last batch of a single image is left out: batch normalization needs two.
    generator : torch.Generator
        Source of the order of images; `step` may draw from it too. Layers and augmentations that draw from torch's
        global random state on the CPU, such as dropout, are seeded by it; that state is put back at the end.
    states : mapping of str to Stateful
        What a resumed training must restore: the model, the optimizer, a schedule.
    work : mapping, optional
        What the training depends on: settings, and digests of data. A saved state of other work is an error.
    store : CheckpointStore, optional
        Where the state is saved after every batch (`StateFile` writes every few seconds), and loaded from at the start.
    progress : bool or callable
        Show a progress bar; or a function to call with the number of batches done and the total.
    after_epoch : callable (epoch, means) -> bool, optional
        Called after every epoch with the number of epochs done and the means of the parts; True ends the training.

    Raises
    ------
    DivergenceError
        If a part of the loss is not finite, before the step that it would lead to: `step` must raise it by
        `require_finite`. Its `result` are the means of the epochs before.

    Returns
    -------
    list of lists of float
        The means of the parts, epoch by epoch.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch.minibatches import run_epochs
    >>> generator = torch.Generator().manual_seed(0)
    >>> run_epochs(lambda rows: [float(len(rows))], 10, epochs=2, batch_size=4, generator=generator, states={})
    [[3.3333333333333335], [3.3333333333333335]]
    """
    n_batches = _batch_count(n, batch_size)
    history: list[list[float]] = []
    position = _Position()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed())
        if store is not None and (state := store.load()) is not None:
            history, position = _restore(state, states, generator, work or {}, store_name(store))
        done = position.epoch * n_batches + position.batch
        with progress_bar(progress, "training", epochs * n_batches, done) as show:
            while position.epoch < epochs and not position.stopped:
                if position.order is None:
                    position.order = torch.randperm(n, generator=generator)
                while position.batch < n_batches:
                    rows = position.order[position.batch * batch_size : (position.batch + 1) * batch_size]
                    parts = _parts(step, rows, history)
                    sums = position.sums or [0.0] * len(parts)
                    position.sums = [total + part for total, part in zip(sums, parts, strict=True)]
                    position.batch += 1
                    show(position.epoch * n_batches + position.batch)
                    if store is not None and position.batch < n_batches:
                        store.save(partial(_state, states, generator, work or {}, history, position))
                history.append([total / n_batches for total in position.sums])
                position = _Position(epoch=position.epoch + 1)
                position.stopped = after_epoch is not None and after_epoch(position.epoch, history[-1])
                if store is not None:
                    is_last = position.stopped or position.epoch == epochs
                    _save(store, partial(_state, states, generator, work or {}, history, position), at_once=is_last)
    return history


def require_finite(parts: Mapping[str, float], lr: float) -> None:
    """Raise a DivergenceError unless all parts of a loss, by name, are finite."""
    if not all(map(math.isfinite, parts.values())):
        listed = ", ".join(f"{name} {value:g}" for name, value in parts.items())
        raise DivergenceError(
            f"the loss is not finite ({listed}): the learning rate lr={lr:g} is too large; give a smaller one. The "
            "model has the last parameters that gave a finite loss."
        )


class LastGoodParameters:
    """Copies of parameters as they were when the loss was finite, to go back to when it no longer is.

    Parameters
    ----------
    parameters : iterable of tensor
        The parameters that are trained.

    Examples
    --------
    >>> import torch
    >>> parameter = torch.ones(2)
    >>> last_good = LastGoodParameters([parameter])
    >>> last_good.remember()
    >>> parameter.fill_(torch.nan)
    tensor([nan, nan])
    >>> last_good.restore()
    >>> parameter
    tensor([1., 1.])
    """

    def __init__(self, parameters: Iterable[Tensor]):
        self._parameters = [parameter.detach() for parameter in parameters]
        self._copies: list[Tensor] | None = None

    def remember(self) -> None:
        """Copy the parameters."""
        if self._copies is None:
            self._copies = [parameter.clone() for parameter in self._parameters]
        torch._foreach_copy_(self._copies, self._parameters)

    def restore(self) -> None:
        """Give the parameters the values of the last copy, if there is one."""
        if self._copies is not None:
            torch._foreach_copy_(self._parameters, self._copies)


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


def _parts(step: Callable[[Tensor], Sequence[float]], rows: Tensor, history: list[list[float]]) -> Sequence[float]:
    try:
        return step(rows)
    except DivergenceError as error:
        error.result = history
        raise


def _state(
    states: Mapping[str, Stateful],
    generator: torch.Generator,
    work: Mapping[str, Any],
    history: list[list[float]],
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


def _restore(
    state: Any, states: Mapping[str, Stateful], generator: torch.Generator, work: Mapping[str, Any], name: str
) -> tuple[list[list[float]], _Position]:
    """Load what `_state` returned."""
    if not isinstance(state, Mapping):
        raise ValueError(f"{name}: holds no state of a training; remove the file to start again.")
    require_same_work(name, state.get("work"), work)
    try:
        for key, part in states.items():
            part.load_state_dict(state["states"][key])
        generator.set_state(state["generator"])
        torch.random.set_rng_state(state["global"])
        return [list(means) for means in state["history"]], _Position(**state["position"])
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise ValueError(
            f"{name}: its state does not fit this model ({reason_of(error)}); remove the file to start again."
        ) from error
