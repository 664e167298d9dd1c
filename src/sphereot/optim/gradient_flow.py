"""SSW gradient flows: move particles to a sample, to the uniform distribution, or to a barycenter.

`gradient_flow` runs a flow from start to end, and `ParticleFlow` takes one step at a time. Both need PyTorch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import dimensions
from sphereot._arrays.libraries import Array, is_torch, namespace, to_kind, to_numpy
from sphereot._arrays.random import is_own_generator, normal_source
from sphereot._arrays.types import Method, Points, ResultT, Seed
from sphereot._arrays.validation import (
    as_int,
    as_method,
    as_order,
    as_points,
    as_same_kind,
    as_slice_count,
    require_same_dim,
    require_same_kind,
)
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure
from sphereot._support.checkpoints import Callback, DivergenceError, run_steps
from sphereot._support.extras import Progress, require
from sphereot.slicing.drawing import draw_frames
from sphereot.sphere import random_uniform

if TYPE_CHECKING:
    from torch import Tensor

_PARTICLES = 500
_WINDOW = 50
_OPTIMIZERS = {"sgd": 10.0, "momentum": 1.0, "adam": 0.02}  # and their default step sizes
_MOMENTUM = 0.9


@dataclass(frozen=True)
class FlowResult(Generic[ResultT]):
    """Result of `gradient_flow`: particles, losses and snapshots.

    Attributes
    ----------
    particles : array, shape (n, d)
        The final particles, unit vectors in the library and dtype of the target.
    losses : NumPy array, shape (steps,)
        SSW_p^p before each step, on the great circles of that step. For a barycenter, the weighted mean.
    converged : bool
        Whether the tolerance was reached. False if all steps were taken, or a callback stopped the flow.
    snapshots : mapping of int to array, shape (n, d)
        The particles after the requested numbers of steps.
    """

    particles: ResultT
    losses: NDArray[np.float64]
    converged: bool
    snapshots: Mapping[int, ResultT]

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        return len(self.losses)

    def __str__(self) -> str:
        end = f", last loss {self.losses[-1]:.4g}" if self.steps else ""
        return f"{self.particles.shape[0]} particles after {self.steps} steps{end}, converged: {self.converged}"


def gradient_flow(
    target: Points | Sequence[Points] | Literal["uniform"] | None,
    *,
    n_particles: int | None = None,
    start: Points | None = None,
    dim: int | None = None,
    weights: Sequence[float] | None = None,
    steps: int = 500,
    step_size: float | Callable[[int], float] | None = None,
    optimizer: Literal["sgd", "momentum", "adam"] = "sgd",
    retraction: Literal["exp", "normalize"] = "exp",
    p: float = 2,
    n_projections: int | None = None,
    method: Method = "iid",
    batch_size: int | None = None,
    seed: Seed = None,
    tol: float | None = None,
    snapshots: Sequence[int] = (),
    callback: Callback | None = None,
    progress: Progress = False,
) -> FlowResult:
    """Move particles along the gradient flow of their SSW distance to a target (Section 5.1, Appendix C.3).

    It requires PyTorch.

    Parameters
    ----------
    target : array, shape (m, d); list or tuple of such arrays; "uniform" or None
        A sample of unit vectors; several samples, for their barycenter, which minimizes the weighted mean of the
        distances to them; or the uniform distribution ("uniform" or None).
    n_particles : int, optional
        Number of particles. By default the size of the (first) sample, or 500 for the uniform distribution.
    start : array, shape (n, d), optional
        The initial particles, unit vectors. By default they are drawn from the uniform distribution. JAX arrays can be
        combined with NumPy arrays; the result is then a JAX array.
    dim : int, optional
        Dimension d of the space around the sphere, for the uniform distribution without a `start`.
    weights : sequence of floats, optional
        Weights of the samples in their barycenter, rescaled to sum to 1. By default, all samples have the same weight.
    steps : int, default 500
        Largest number of steps.
    step_size : float or callable, optional
        Step size, or a function that returns it for the index of a step, from 0. The default is 10 for "sgd" and 1 for
        "momentum" (radians per unit of the gradient of SSW_p^p, in turns^p), and 0.02 for "adam" (radians).
    optimizer : {"sgd", "momentum", "adam"}, default "sgd"
        Riemannian gradient descent, the same with a momentum of 0.9, or Riemannian Adam; see `sphereot.optim`.
    retraction : {"exp", "normalize"}, default "exp"
        Follow geodesics, or add the step and normalize (projected gradient descent).
    p : float, default 2
        Order of the distance, between 1 and 16.
    n_projections : int, optional
        Number of great circles, new in each step; 200 by default.
    method : {"iid", "orthogonal", "quasi"}, default "iid"
        How to draw the great circles; see `great_circles`.
    batch_size : int, optional
        Number of random points of each sample to compare with in a step. By default, all points are used.
    seed : int, generator or None, default None
        Seed, as in `ssw`.
    tol : float, optional
        Stop when the mean loss of the last 50 steps is at least 1 - `tol` times the mean loss of the 50 steps before.
    snapshots : sequence of ints, default ()
        Numbers of steps after which to store the particles; 0 is the start.
    callback : callable (step, loss, particles), optional
        Called after each step with the number of steps taken, the loss before the last step as a float, and the
        particles after it. The flow stops early if it returns True.
    progress : bool or callable (done, total), default False
        Show a progress bar, which needs rich (``pip install 'sphereot[cli]'``), or call a function with the number of
        steps taken and their total.

    Returns
    -------
    FlowResult
        Particles, losses and snapshots.

    Raises
    ------
    DivergenceError
        If the loss is not finite or the step explodes. The attribute `result` contains the last valid particles.

    Notes
    -----
    Each step moves particle i by x_i <- exp(-step_size n grad_i SSW_p^p). The factor n is the inverse of the mass of a
    particle, and makes the step size independent of their number. The Hessian of SSW_2^2 is about 2 / (2 pi)^2 in any
    dimension, so steps above about 30 overshoot. New great circles or batches in each step make this a stochastic
    descent, in which the particles keep moving by an amount that grows with the step size. For a finer result, decrease
    the step size, e.g. ``step_size=lambda k: 10 / (1 + k / 100)``.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> rng = np.random.default_rng(0)
    >>> y = sphereot.sphere.normalize(rng.normal(size=(200, 3)) + [2, 0, 0])
    >>> result = sphereot.gradient_flow(y, n_particles=100, steps=40, n_projections=50, seed=0)
    >>> print(result.particles.shape, bool(result.losses[-1] < 0.02 * result.losses[0]))
    (100, 3) True
    """
    samples, points, like = _samples_and_start(target, start, n_particles, dim, seed)
    require("torch", "sphereot.gradient_flow")
    max_steps = as_int("steps", steps, 0, "the number of steps")
    at_steps = {as_int("snapshots", step, 0, "the number of steps of a snapshot") for step in snapshots}
    if tol is not None and not 0 < tol < 1:
        raise ValueError(f"tol must be strictly between 0 and 1, got {tol}.")
    descent = ParticleFlow(
        [_tensor(sample) for sample in samples],
        _tensor(points),
        weights=weights,
        optimizer=optimizer,
        step_size=step_size,
        retraction=retraction,
        p=p,
        n_projections=n_projections,
        method=method,
        batch_size=batch_size,
        seed=_int_seed(seed, like),
        validated=True,
    )

    def particles() -> Array:
        now = descent.particles.detach().clone()
        return now if is_torch(like) else to_kind(to_numpy(now), like)

    stored = {0: particles()} if 0 in at_steps else {}

    def result(converged: bool) -> FlowResult:
        return FlowResult(particles(), np.asarray(descent.losses), converged, stored)

    def take(step: int) -> float:
        try:
            loss = descent.step()
        except FloatingPointError as error:
            raise DivergenceError(
                f"the flow diverged in step {step} with step_size {descent.step_size:g}: {error}. Give a smaller "
                f"step_size; `result` of this error has the particles after {step - 1} steps.",
                result(converged=False),
            ) from error
        if step in at_steps:
            stored[step] = particles()
        return loss

    def has_settled() -> bool:
        recent = descent.losses[-2 * _WINDOW :]
        return (
            tol is not None
            and len(recent) == 2 * _WINDOW
            and (sum(recent[_WINDOW:]) >= (1.0 - tol) * sum(recent[:_WINDOW]))
        )

    settled = run_steps(
        take, max_steps, label="flow", progress=progress, callback=callback, state=particles, settled=has_settled
    )
    return result(converged=settled)


class ParticleFlow:
    """Gradient flow of particles on the SSW distance to samples or to the uniform distribution, step by step.

    Parameters
    ----------
    targets : sequence of tensors, shapes (m_j, d)
        One sample of unit vectors, several for their barycenter, or none for the uniform distribution.
    start : tensor, shape (n, d)
        The initial particles, unit vectors.
    weights, optimizer, step_size, retraction, p, n_projections, method, batch_size : optional
        As in `sphereot.gradient_flow`.
    seed : int, default 0
        Seed. The random numbers of a step depend only on the seed and on the index of the step.
    validated : bool, default False
        Whether the unit length of targets and start was checked before, and need not be checked again.

    Attributes
    ----------
    particles : tensor, shape (n, d)
        The current particles.
    losses : list of float
        The loss before each step.
    optimizer : torch.optim.Optimizer
        `RiemannianSGD` or `RiemannianAdam`. Its `step_length` is the root mean square of the last step over the
        particles, in radians.

    Examples
    --------
    >>> import torch
    >>> from sphereot import sphere
    >>> from sphereot.optim import ParticleFlow
    >>> start = sphere.random_uniform(50, 3, seed=0, like=torch.zeros(1))
    >>> flow = ParticleFlow([sphere.normalize(start + torch.tensor([1.0, 0.0, 0.0]))], start, seed=0)
    >>> for _ in range(30):
    ...     _ = flow.step()
    >>> flow.losses[-1] < 0.01 * flow.losses[0]
    True
    """

    def __init__(
        self,
        targets: "Sequence[Tensor]",
        start: "Tensor",
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
        require("torch", "sphereot.optim.ParticleFlow")
        from sphereot.optim.riemannian import RiemannianAdam, RiemannianSGD

        if not validated:
            start = as_points("start", start)
            targets = [as_points(f"target[{j}]", target) for j, target in enumerate(targets)]
            for j, target in enumerate(targets):
                require_same_kind(**{f"target[{j}]": target, "start": start})
                require_same_dim(f"target[{j}]", target, "start", start)
        self.particles = start.detach().clone().requires_grad_()
        self.targets = [target.detach().to(start.dtype) for target in targets]
        values = [1.0] * len(self.targets) if weights is None else [float(weight) for weight in weights]
        if len(values) != len(self.targets):
            raise ValueError(f"weights must have one entry per target sample ({len(self.targets)}), got {len(values)}.")
        if not all(0 <= weight < math.inf for weight in values) or (values and sum(values) == 0):
            raise ValueError(f"weights must be finite, at least 0, and not all zero, got {values}.")
        self.weights = [weight / sum(values) for weight in values]
        self.p, self.n_projections = as_order(p), as_slice_count(n_projections)
        self.method, self.seed = as_method(method), as_int("seed", seed, 0, "the seed")
        self.batch_size = None if batch_size is None else as_int("batch_size", batch_size, 1, "a batch")
        if optimizer not in _OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(map(repr, _OPTIMIZERS))}, got {optimizer!r}.")
        self._step_size = _OPTIMIZERS[optimizer] if step_size is None else step_size
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
            raise ValueError(f"step_size must be positive and finite, got {size!r}.")
        return float(size)

    def step(self) -> float:
        """Take one step, and return the loss before it.

        Raises
        ------
        FloatingPointError
            If the loss or its gradient is not finite, or the step explodes. The particles do not move then.
        """
        import torch

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
        # Particles far from their target can move by more than a quarter turn, but then the loss decreases.
        farthest = math.pi / 2 if self.losses and value > self.losses[0] else math.pi
        if not length <= farthest:
            self.particles.detach().copy_(before)
            raise FloatingPointError(
                f"particles would move by {length:.3g} radians in one step, with a loss of {value:.3g}"
            )
        self.losses.append(value)
        return value

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which `load_state_dict` of a flow with the same arguments resumes identically."""
        return {
            "particles": self.particles.detach().clone(),
            "losses": list(self.losses),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state that `state_dict` returned."""
        if state["particles"].shape != self.particles.shape:
            raise ValueError(
                f"state must have particles of shape {tuple(self.particles.shape)}, got "
                f"{tuple(state['particles'].shape)}. Make the flow with the same arguments."
            )
        self.particles.detach().copy_(state["particles"])
        self.losses = list(state["losses"])
        self.optimizer.load_state_dict(state["optimizer"])

    def _loss(self, rng: np.random.Generator) -> "Tensor":
        x, backend = self.particles, backend_for(self.particles)
        frames = draw_frames(self.n_projections, x.shape[1], self.method, rng, x)
        if not self.targets:
            return backend.mean_cost((Measure(x),), frames, self.p)
        costs = [backend.mean_cost((Measure(x), Measure(self._batch(y, rng))), frames, self.p) for y in self.targets]
        return costs[0] if len(costs) == 1 else sum(w * c for w, c in zip(self.weights, costs, strict=True))

    def _batch(self, target: "Tensor", rng: np.random.Generator) -> "Tensor":
        if self.batch_size is None or self.batch_size >= len(target):
            return target
        return target[rng.choice(len(target), self.batch_size, replace=False, shuffle=False)]


def _samples_and_start(
    target: Any, start: Any, n_particles: int | None, dim: int | None, seed: Any
) -> tuple[list[Array], Array, Array]:
    """Validate the samples (none for the uniform distribution) and the start; also return an array like them."""
    if isinstance(target, str) and target != "uniform":
        raise ValueError(f"target must contain samples or be 'uniform', got {target!r}.")
    named: dict[str, Any] = {}
    if target is not None and not isinstance(target, str):
        several = isinstance(target, list | tuple) and len(target) > 0 and dimensions(target[0]) == 2
        named = {f"target[{j}]": sample for j, sample in enumerate(target)} if several else {"target": target}
    n_samples = len(named)
    named |= {} if start is None else {"start": start}
    checked = {name: as_points(name, value) for name, value in named.items()}
    arrays = as_same_kind(**checked) if checked else []
    for name, array in zip(checked, arrays, strict=True):
        require_same_dim(next(iter(checked)), arrays[0], name, array)
    samples = arrays[:n_samples]
    # The widest dtype of the samples is that of the particles.
    like = np.zeros(1) if not arrays else arrays[-1]
    if samples:
        dtype = namespace(*samples).result_type(*samples)
        like = next(sample for sample in samples if sample.dtype == dtype)
    if start is not None:
        points = arrays[-1]
        for name, given, actual in (("n_particles", n_particles, points.shape[0]), ("dim", dim, points.shape[1])):
            if given is not None and given != actual:
                raise ValueError(
                    f"{name} must match start, whose shape is {tuple(points.shape)}, got {given}. Leave it out."
                )
        return samples, namespace(points).astype(points, like.dtype), like
    if not samples and dim is None:
        raise ValueError("dim must be given for the uniform distribution without start, got None. Use dim=3 for S^2.")
    if samples and dim is not None and dim != samples[0].shape[1]:
        raise ValueError(f"dim must be the dimension of target ({samples[0].shape[1]}), got {dim}. Leave dim out.")
    count = n_particles if n_particles is not None else samples[0].shape[0] if samples else _PARTICLES
    count = as_int("n_particles", count, 1, "the number of particles")
    points = random_uniform(count, dim if dim is not None else samples[0].shape[1], seed=seed, like=like)
    return samples, points, like


def _tensor(points: Array) -> Any:
    import torch

    return points if is_torch(points) else torch.from_numpy(np.array(to_numpy(points)))


def _int_seed(seed: Any, like: Array) -> int:
    """Convert a seed of any kind to an int. A generator has already drawn the start."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    if seed is None:
        return int(np.random.default_rng().integers(2**63))
    if is_own_generator(seed):
        bits = to_numpy(normal_source(seed, like)((4,))).astype(np.float64)
        return int(np.random.SeedSequence(bits.view(np.uint32).tolist()).generate_state(1, np.uint64)[0] >> 1)
    normal_source(seed)  # raises an error for anything that is not a seed
    return int(seed)
