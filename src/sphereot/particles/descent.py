"""Gradient flow of particles, one step at a time."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sphereot._arrays.types import Method
from sphereot._arrays.validation import (
    as_int,
    as_method,
    as_order,
    as_points,
    as_slice_count,
    require_same_dim,
    require_same_kind,
)
from sphereot._backends.protocol import Measure
from sphereot._backends.torch.backend import mean_cost
from sphereot.optim.riemannian import RiemannianAdam, RiemannianSGD
from sphereot.slicing.drawing import draw_frames

__all__ = ["OPTIMIZERS", "ParticleFlow"]

OPTIMIZERS = {"sgd": 10.0, "momentum": 1.0, "adam": 0.02}
"""The optimizers by name, with the step size that each takes by default."""

_MOMENTUM = 0.9


class ParticleFlow:
    """Gradient flow of particles on the SSW distance to samples or to the uniform distribution, step by step.

    Parameters
    ----------
    targets : sequence of tensors, shapes (m_j, d)
        Unit vectors: one sample, several for their barycenter, or none for the uniform distribution.
    start : tensor, shape (n, d)
        Unit vectors: the initial particles.
    weights : sequence of floats, optional
        Weights of the targets in their barycenter, scaled to a total of 1; equal by default.
    optimizer : {"sgd", "momentum", "adam"}
        `RiemannianSGD`, the same with a momentum of 0.9, or `RiemannianAdam`.
    step_size : float or callable, optional
        As in `sphereot.gradient_flow`; a callable is called with the index of the step.
    retraction : {"exp", "normalize"}
        As in `RiemannianSGD`.
    p, n_projections
        As in `sphereot.ssw`.
    method : {"iid", "orthogonal", "quasi"}
        How great circles are drawn, anew for every step; as in `sphereot.great_circles`.
    batch_size : int, optional
        Compare with this many points of each target, drawn anew for every step; with all by default.
    seed : int
        Random numbers of a step depend on the seed and on the index of the step alone.
    validated : bool
        The unit length of targets and start was checked before, and is not checked again.

    Attributes
    ----------
    particles : tensor, shape (n, d)
        The current particles.
    losses : list of float
        The loss before each step.
    optimizer : torch.optim.Optimizer
        Its `step_length` is the root mean square of the last step over the particles, in radians.

    Notes
    -----
    A step goes x_i <- exp(-step_size n grad_i), where n grad_i is the velocity of the gradient flow of measures at x_i:
    the gradient in a particle has a factor 1/n, its mass, which would make the step size depend on their number.

    Examples
    --------
    >>> import torch
    >>> from sphereot import sphere
    >>> from sphereot.particles import ParticleFlow
    >>> start = sphere.random_uniform(50, 3, seed=0, like=torch.zeros(1))
    >>> flow = ParticleFlow([sphere.normalize(start + torch.tensor([1.0, 0.0, 0.0]))], start, seed=0)
    >>> for _ in range(30):
    ...     _ = flow.step()
    >>> flow.losses[-1] < 0.01 * flow.losses[0]
    True
    """

    def __init__(
        self,
        targets: Sequence[Tensor],
        start: Tensor,
        *,
        weights: Sequence[float] | None = None,
        optimizer: Literal["sgd", "momentum", "adam"] = "sgd",
        step_size: float | Callable[[int], float] | None = None,
        retraction: Literal["exp", "normalize"] = "exp",
        p: float = 2,
        n_projections: int | None = None,
        method: Method = "iid",
        batch_size: int | None = None,
        seed: int = 0,
        validated: bool = False,
    ) -> None:
        if not validated:
            start = as_points("start", start)
            targets = [_as_target(f"target[{j}]", target, start) for j, target in enumerate(targets)]
        self.particles = start.detach().clone().requires_grad_()
        self.targets = [target.detach().to(start.dtype) for target in targets]
        self.weights = _as_shares(weights, len(self.targets))
        self.p, self.n_projections = as_order(p), as_slice_count(n_projections)
        self.method, self.seed = as_method(method), as_int("seed", seed, 0, "the seed")
        self.batch_size = None if batch_size is None else as_int("batch_size", batch_size, 1, "a batch")
        if optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer: got {optimizer!r}; choose one of {', '.join(map(repr, OPTIMIZERS))}.")
        self._step_size = OPTIMIZERS[optimizer] if step_size is None else step_size
        self.losses: list[float] = []
        group = [{"params": [self.particles], "validated": True}]
        if optimizer == "adam":
            self.optimizer: Any = RiemannianAdam(group, self.step_size, retraction=retraction)
        else:
            momentum = _MOMENTUM if optimizer == "momentum" else 0.0
            self.optimizer = RiemannianSGD(group, self.step_size, momentum=momentum, retraction=retraction)

    @property
    def step_size(self) -> float:
        """The size of the next step."""
        size = self._step_size(len(self.losses)) if callable(self._step_size) else self._step_size
        if isinstance(size, bool) or not isinstance(size, int | float) or not 0 < size < math.inf:
            raise ValueError(f"step_size: got {size!r}, but it must be positive and finite; give such a number.")
        return float(size)

    def step(self) -> float:
        """Take one step, and return the loss before it.

        Raises
        ------
        FloatingPointError
            If the loss or its gradient is not finite, or the step explodes. The particles do not move then.
        """
        size, before = self.step_size, self.particles.detach().clone()
        loss = self._loss(np.random.default_rng([self.seed, len(self.losses)]))
        (gradient,) = torch.autograd.grad(loss, self.particles)
        value = float(loss.detach())
        if not (math.isfinite(value) and bool(torch.isfinite(gradient).all())):
            raise FloatingPointError(f"the loss is {value} or its gradient not finite")
        self.particles.grad = gradient * len(self.particles)
        for group in self.optimizer.param_groups:
            group["lr"] = size
        self.optimizer.step()
        length = self.optimizer.step_length
        # Particles that start far from their target may rightly move a quarter turn at once, but the loss falls then.
        farthest = math.pi / 2 if self.losses and value > self.losses[0] else math.pi
        if not length <= farthest:
            with torch.no_grad():
                self.particles.copy_(before)
            raise FloatingPointError(
                f"particles would move by {length:.3g} radians in one step, with a loss of {value:.3g}"
            )
        self.losses.append(value)
        return value

    def state_dict(self) -> dict[str, Any]:
        """The state from which `load_state_dict` of a flow with the same arguments resumes, with the same numbers."""
        return {
            "particles": self.particles.detach().clone(),
            "losses": list(self.losses),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state that `state_dict` returned."""
        if state["particles"].shape != self.particles.shape:
            raise ValueError(
                f"state: got particles of shape {tuple(state['particles'].shape)}, but this flow has shape "
                f"{tuple(self.particles.shape)}; make the flow with the same arguments."
            )
        with torch.no_grad():
            self.particles.copy_(state["particles"])
        self.losses = list(state["losses"])
        self.optimizer.load_state_dict(state["optimizer"])

    def _loss(self, rng: np.random.Generator) -> Tensor:
        x = self.particles
        frames = draw_frames(self.n_projections, x.shape[1], self.method, rng, x)
        if not self.targets:
            return mean_cost((Measure(x),), frames, self.p)
        costs = [mean_cost((Measure(x), Measure(self._batch(y, rng))), frames, self.p) for y in self.targets]
        return costs[0] if len(costs) == 1 else sum(w * c for w, c in zip(self.weights, costs, strict=True))

    def _batch(self, target: Tensor, rng: np.random.Generator) -> Tensor:
        if self.batch_size is None or self.batch_size >= len(target):
            return target
        chosen = rng.choice(len(target), self.batch_size, replace=False, shuffle=False)
        return target[torch.from_numpy(chosen).to(target.device)]


def _as_target(name: str, target: Tensor, start: Tensor) -> Tensor:
    points: Tensor = as_points(name, target)
    require_same_kind(**{name: points, "start": start})
    require_same_dim(name, points, "start", start)
    return points


def _as_shares(weights: Sequence[float] | None, count: int) -> list[float]:
    """Validate the weights of `count` targets, and scale them to a total of 1."""
    if weights is None:
        return [1.0 / count] * count if count else []
    values = [float(weight) for weight in weights]
    if len(values) != count:
        raise ValueError(f"weights: got {len(values)} for {count} target samples; give one weight per sample.")
    if not all(0 <= weight < math.inf for weight in values) or sum(values) == 0:
        raise ValueError(
            f"weights: got {values}, but weights must be finite, at least 0, and not all zero; give such numbers."
        )
    return [weight / sum(values) for weight in values]
