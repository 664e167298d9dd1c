"""Training of a normalizing flow on the full batch, with history, checkpoints and early stopping."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sphereot._support.atomic_write import reason_of
from sphereot._support.checkpoints import Callback, CheckpointStore, DivergenceError, asks_to_stop, store_name
from sphereot.density.objectives import OBJECTIVES, CircleSampling
from sphereot.flows import Flow

__all__ = ["History", "log_likelihood", "train"]

_BLOCK = 1 << 14  # points at a time where no gradients are needed


@dataclass
class History:
    """Losses and validation likelihoods of a training, epoch by epoch.

    Attributes
    ----------
    losses : list of float
        The loss before each step.
    validation : list of (int, float)
        The number of epochs done, and the mean negative log-likelihood of the validation points then.
    """

    losses: list[float] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)

    @property
    def best(self) -> tuple[int, float]:
        """The epoch with the best validation likelihood, and its value."""
        return min(self.validation, key=lambda pair: pair[1])


def train(
    flow: Flow,
    x: Tensor,
    *,
    loss: str,
    epochs: int,
    lr: float,
    final_lr: float | None = None,
    circles: CircleSampling,
    validation: Tensor | None = None,
    validate_every: int = 50,
    patience: int | None = None,
    start: Mapping[str, Any] | None = None,
    checkpoint: CheckpointStore | None = None,
    callback: Callback | None = None,
) -> History:
    """Fit the parameters of a flow to points (n, d), in place, by Adam on the full batch.

    Parameters
    ----------
    loss : {"ssw", "sw", "nll", "ssw+nll"}
        The objective.
    lr, final_lr : float
        Learning rates of the first and of the last epoch; between them they change by equal factors.
    circles : CircleSampling
        How SSW and SW draw great circles or directions, anew in every epoch.
    validation : tensor, optional
        Points whose likelihood is computed every `validate_every` epochs. With `patience`, training
        stops after so many epochs without improvement, and the flow has its best parameters at the end.
    start : mapping, optional
        The state to resume from, as saved to `checkpoint`.
    checkpoint : CheckpointStore, optional
        Where the state is saved after every epoch but the last.
    callback : callable (epoch, loss, flow), optional
        Called after every epoch; training stops early if it returns True.
    """
    objective = OBJECTIVES[loss]
    optimizer = torch.optim.Adam(flow.parameters(), lr=lr)
    history, best, done = History(), None, 0
    if start is not None:
        try:
            history, best, done = _restore(start, flow, optimizer, circles.generator)
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            name = "checkpoint" if checkpoint is None else store_name(checkpoint)
            raise ValueError(
                f"{name}: its state does not fit this training ({reason_of(error)}); remove the file to start again "
                "(--fresh)."
            ) from error
    last_good = copy.deepcopy(flow.state_dict())
    for epoch in range(done + 1, epochs + 1):
        optimizer.param_groups[0]["lr"] = _rate(lr, lr if final_lr is None else final_lr, epoch, epochs)
        optimizer.zero_grad()
        value = objective(flow, x, circles)
        loss_value = value.item()
        if not math.isfinite(loss_value):
            flow.load_state_dict(last_good)
            raise DivergenceError(
                f"the loss is {loss_value} in epoch {epoch}: the learning rate lr={lr:g} is too large; give a smaller "
                "one. The model has the last parameters that gave a finite loss.",
                history,
            )
        _copy_into(last_good, flow)
        value.backward()
        optimizer.step()
        history.losses.append(loss_value)
        if validation is not None and (epoch % validate_every == 0 or epoch == epochs):
            history.validation.append((epoch, -log_likelihood(flow, validation)))
            if history.best[0] == epoch:
                best = copy.deepcopy(flow.state_dict())
        if asks_to_stop(callback, epoch, loss_value, flow):
            break
        if patience is not None and history.validation and epoch - history.best[0] >= patience:
            break
        if checkpoint is not None and epoch < epochs:
            checkpoint.save(partial(_state, flow, optimizer, circles.generator, history, best, epoch))
    if patience is not None and best is not None:
        flow.load_state_dict(best)
    return history


def _rate(first: float, last: float, epoch: int, epochs: int) -> float:
    """Learning rate of epoch 1, ..., epochs: a geometric sequence from the first to the last."""
    return first if epochs == 1 else float(first * (last / first) ** ((epoch - 1) / (epochs - 1)))


def log_likelihood(flow: Flow, x: Tensor) -> float:
    """Mean log-density of points (n, d)."""
    with torch.no_grad():
        total = sum(float(flow.log_prob(block).double().sum()) for block in torch.split(x, _BLOCK))
    return total / len(x)


def _state(
    flow: Flow, optimizer: torch.optim.Optimizer, generator: torch.Generator, history: History, best: Any, epoch: int
) -> dict[str, Any]:
    return {
        "flow": flow.state_dict(),
        "optimizer": optimizer.state_dict(),
        "generator": generator.get_state(),
        "losses": history.losses,
        "validation": [list(pair) for pair in history.validation],
        "best": best,
        "epoch": epoch,
    }


def _restore(
    state: Mapping[str, Any], flow: Flow, optimizer: torch.optim.Optimizer, generator: torch.Generator
) -> tuple[History, Any, int]:
    """Load what `_state` returned; returns the history, the best parameters and the number of epochs done."""
    done, losses = state["epoch"], state["losses"]
    parameters = list(flow.parameters())
    for k, moments in state["optimizer"]["state"].items():
        for tensor in (moments["exp_avg"], moments["exp_avg_sq"]):
            if tensor.shape != parameters[k].shape or not bool(torch.isfinite(tensor).all()):
                raise ValueError("the optimizer's state is that of another flow, or damaged")
    if len(losses) != done:
        raise ValueError(f"there are {len(losses)} losses of {done} epochs")
    flow.load_state_dict(state["flow"])
    optimizer.load_state_dict(state["optimizer"])
    generator.set_state(state["generator"])
    return History(list(losses), [(int(epoch), value) for epoch, value in state["validation"]]), state["best"], done


def _copy_into(state: dict[str, Tensor], flow: Flow) -> None:
    for name, tensor in flow.state_dict().items():
        state[name].copy_(tensor)
