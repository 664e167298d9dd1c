"""Training of a normalizing flow on the full batch, with history, checkpoints and early stopping."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sphereot._arrays.types import UniformMethod
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure
from sphereot._support.atomic_write import reason_of
from sphereot._support.checkpoints import Callback, DivergenceError, LastGood, run_steps
from sphereot._support.extras import Progress
from sphereot.flows import Flow
from sphereot.slicing.drawing import draw_frames
from sphereot.torch.euclidean import sliced_wasserstein

BLOCK = 1 << 14  # points at a time in computations without gradients


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
        """The epoch with the best validation likelihood, and the mean negative log-likelihood then."""
        return min(self.validation, key=lambda pair: pair[1])


def train(
    flow: Flow,
    x: Tensor,
    *,
    loss: str,
    epochs: int,
    lr: float,
    final_lr: float,
    n_projections: int,
    method: UniformMethod,
    generator: torch.Generator,
    validation: Tensor | None = None,
    validate_every: int = 50,
    patience: int | None = None,
    start: Mapping[str, Any] | None = None,
    name: str = "checkpoint",
    save: Callable[[Callable[[], Any]], None] | None = None,
    progress: Progress = False,
    callback: Callback | None = None,
) -> History:
    """Fit the parameters of a flow to points (n, d), in place, by Adam on the full batch.

    The settings are those of `FlowDensity`, except:

    Parameters
    ----------
    validation : tensor, optional
        Points whose likelihood is computed every `validate_every` epochs. With `patience`, training stops after this
        number of epochs without improvement, and the flow has its best parameters at the end.
    start : mapping, optional
        The state to resume from, as passed to `save`; `name` is the name of its file.
    save : callable, optional
        Called after every epoch except the last with a function that returns the state.
    """
    optimizer = torch.optim.Adam(flow.parameters(), lr=lr)
    history, best = History(), None
    if start is not None:
        try:
            parameters = list(flow.parameters())
            for k, moments in start["optimizer"]["state"].items():
                for tensor in (moments["exp_avg"], moments["exp_avg_sq"]):
                    if tensor.shape != parameters[k].shape or not bool(torch.isfinite(tensor).all()):
                        raise ValueError("the state of the optimizer is damaged, or belongs to another flow")
            if len(start["losses"]) != start["epoch"]:
                raise ValueError(f"there are {len(start['losses'])} losses of {start['epoch']} epochs")
            flow.load_state_dict(start["flow"])
            optimizer.load_state_dict(start["optimizer"])
            generator.set_state(start["generator"])
            history.losses += start["losses"]
            history.validation += [(int(epoch), value) for epoch, value in start["validation"]]
            best = start["best"]
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise ValueError(
                f"{name}: its state does not fit this training ({reason_of(error)}); remove the file to start again "
                "(--fresh)."
            ) from error
    last_good = LastGood(flow.state_dict().values())

    def take(epoch: int) -> float:
        nonlocal best
        optimizer.param_groups[0]["lr"] = learning_rate(lr, final_lr, epoch, epochs)
        optimizer.zero_grad()
        value = evaluate_loss(loss, flow, x, n_projections, method, generator)
        loss_value = float(value.detach())
        if not math.isfinite(loss_value):
            last_good.restore()
            raise DivergenceError(
                f"the loss is {loss_value} in epoch {epoch}: the learning rate lr={lr:g} is too large; give a smaller "
                "one. The model has the last parameters with a finite loss.",
                history,
            )
        last_good.keep()
        value.backward()
        optimizer.step()
        history.losses.append(loss_value)
        if validation is not None and (epoch % validate_every == 0 or epoch == epochs):
            with torch.no_grad():
                blocks = torch.split(validation, BLOCK)
                total = sum(float(flow.log_prob(block).double().sum()) for block in blocks)
            history.validation.append((epoch, -total / len(validation)))
            if history.best[0] == epoch:
                best = copy.deepcopy(flow.state_dict())
        return loss_value

    def has_settled() -> bool:
        return patience is not None and bool(history.validation) and len(history.losses) - history.best[0] >= patience

    def state() -> dict[str, Any]:
        return {
            "flow": flow.state_dict(),
            "optimizer": optimizer.state_dict(),
            "generator": generator.get_state(),
            "losses": history.losses,
            "validation": [list(pair) for pair in history.validation],
            "best": best,
            "epoch": len(history.losses),
        }

    run_steps(
        take,
        epochs,
        label="epochs",
        done=len(history.losses),
        progress=progress,
        callback=callback,
        state=lambda: flow,
        settled=has_settled,
        save=None if save is None else lambda: save(state),
    )
    if patience is not None and best is not None:
        flow.load_state_dict(best)
    return history


def learning_rate(first: float, last: float, epoch: int, epochs: int) -> float:
    """Compute the learning rate of an epoch, from 1: a geometric sequence from the first to the last."""
    return first if epochs == 1 else float(first * (last / first) ** ((epoch - 1) / (epochs - 1)))


def evaluate_loss(
    loss: str, flow: Flow, x: Tensor, n_projections: int, method: UniformMethod, generator: torch.Generator
) -> Tensor:
    """Compute the loss of a flow at points (n, d).

    "nll" is the mean negative log-likelihood. "sw" is the Euclidean SW_2^2 between the transformed points and a sample
    of the base of the same size. "ssw" is SSW_2^2 of the transformed points to the uniform distribution (Proposition
    1). "ssw+nll" is a sum, in one pass of the flow.
    """
    if loss == "nll":
        return -flow.log_prob(x).mean()
    if loss == "sw":
        prior = flow.base.sample((len(x),), seed=generator)
        return sliced_wasserstein(flow.transform(x), prior, n_projections, generator)
    if loss == "ssw":
        return _ssw_to_uniform(flow.transform(x), n_projections, method, generator)
    z, log_det = flow.transform.forward_and_log_det(x)
    likelihood = (flow.base.log_prob(z) + log_det).mean()
    return _ssw_to_uniform(z, n_projections, method, generator) - likelihood


def _ssw_to_uniform(z: Tensor, n_projections: int, method: UniformMethod, generator: torch.Generator) -> Tensor:
    # `ssw_uniform` would validate in every epoch, but a flow maps unit vectors to unit vectors unless it diverged.
    value: Tensor
    if not torch.isfinite(z.detach()).all():
        value = z.sum()  # not finite either, which `train` reports
    elif method == "exact":
        value = backend_for(z).pair_cost(Measure(z))
    else:
        frames = draw_frames(n_projections, z.shape[-1], method, generator, z)
        value = backend_for(z).mean_cost((Measure(z),), frames, 2.0)
    return value
