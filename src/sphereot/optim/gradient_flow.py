"""SSW gradient flows: move particles to a sample, to the uniform distribution, or to a barycenter.

`gradient_flow` runs one from start to end, and `ParticleFlow` takes one step at a time. PyTorch, which computes the
gradients, is imported only when they are called.
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
_OPTIMIZERS = {"sgd": 10.0, "momentum": 1.0, "adam": 0.02}  # and the step size that each takes by default
_MOMENTUM = 0.9


@dataclass(frozen=True)
class FlowResult(Generic[ResultT]):
    """Result of `gradient_flow`: particles, losses and snapshots.

    Attributes
    ----------
    particles : array, shape (n, d)
        Unit vectors: the final particles, in the library and dtype of the target.
    losses : NumPy array, shape (steps,)
        SSW_p^p before each step, on the great circles of that step; for a barycenter, the weighted mean.
    converged : bool
        Whether the tolerance was met; False if all steps were taken, or a callback stopped the flow.
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

    Needs PyTorch.

    Parameters
    ----------
    target : array, shape (m, d); list or tuple of such arrays; "uniform" or None
        A sample of unit vectors; several samples, for their barycenter, which minimizes the weighted mean of the
        distances to them; or the uniform distribution.
    n_particles : int, optional
        Number of particles; by default that of the (first) sample, or 500 for the uniform distribution.
    start : array, shape (n, d), optional
        Unit vectors: the initial particles; by default drawn from the uniform distribution. If they or the samples are
        arrays of JAX, beside NumPy arrays, all become arrays of JAX.
    dim : int, optional
        Dimension d of the ambient space, for the uniform distribution without a `start`.
    weights : sequence of floats, optional
        Weights of the samples in their barycenter, scaled to a total of 1; equal by default.
    steps : int
        The maximum number of steps.
    step_size : float or callable, optional
        Step size, or a function of the index of the step (from 0) that returns it. Radians per unit of the gradient of
        SSW_p^p, in turns to the power p, for "sgd" (10 by default) and "momentum" (1); radians for "adam" (0.02).
    optimizer : {"sgd", "momentum", "adam"}
        Riemannian gradient descent, with a momentum of 0.9, or Riemannian Adam; see `sphereot.optim`.
    retraction : {"exp", "normalize"}
        Follow geodesics; or add the step and normalize, which is projected gradient descent.
    p, n_projections
        Order of the distance and number of great circles, as in `ssw`.
    method : {"iid", "orthogonal", "quasi"}
        How the great circles of each step are drawn, as in `great_circles`.
    batch_size : int, optional
        Compare with this many points of each sample, drawn anew for every step; with all of them by default.
    seed : int, generator or None
        Where the random numbers come from, as in `ssw`.
    tol : float, optional
        Stop when the mean loss of the last 50 steps is not less than 1 - `tol` times that of the 50 before them.
    snapshots : sequence of ints
        Numbers of steps after which to store the particles; 0 is the start.
    callback : callable (step, loss, particles), optional
        Called after each step with the number of steps taken, the loss before the last of them as a float, and the
        particles after it. The flow stops early if it returns True.
    progress : bool or callable (done, total)
        Show a progress bar, which needs rich (``pip install 'sphereot[cli]'``); or a function that is called with the
        number of steps taken and their total.

    Returns
    -------
    FlowResult
        With `.particles`, `.losses`, `.steps`, `.converged` and `.snapshots`.

    Raises
    ------
    DivergenceError
        If the loss is not finite or the step explodes; its `result` has the last good particles.

    Notes
    -----
    Each step moves particle i by x_i <- exp(-step_size n grad_i SSW_p^p), where the factor n, the inverse of its mass,
    makes the step size independent of the number of particles. The Hessian of SSW_2^2 is about 2 / (2 pi)^2 in any
    dimension, so that steps above some 30 overshoot. With fresh great circles for each step this is stochastic descent:
    the particles of a flow to a sample of another size, or in batches, keep moving by an amount that grows with the
    step size; decrease it, e.g. ``step_size=lambda k: 10 / (1 + k / 100)``, for a finer result.

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
        raise ValueError(f"tol: got {tol}, but a number between 0 and 1 is needed; give e.g. 0.01.")
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
            raise ValueError(
                f"weights: got {len(values)} for {len(self.targets)} target samples; give one weight per sample."
            )
        if not all(0 <= weight < math.inf for weight in values) or (values and sum(values) == 0):
            raise ValueError(
                f"weights: got {values}, but weights must be finite, at least 0, and not all zero; give such numbers."
            )
        self.weights = [weight / sum(values) for weight in values]
        self.p, self.n_projections = as_order(p), as_slice_count(n_projections)
        self.method, self.seed = as_method(method), as_int("seed", seed, 0, "the seed")
        self.batch_size = None if batch_size is None else as_int("batch_size", batch_size, 1, "a batch")
        if optimizer not in _OPTIMIZERS:
            raise ValueError(f"optimizer: got {optimizer!r}; choose one of {', '.join(map(repr, _OPTIMIZERS))}.")
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
            raise ValueError(f"step_size: got {size!r}, but it must be positive and finite; give such a number.")
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
        # Particles that start far from their target may rightly move a quarter turn at once, but the loss falls then.
        farthest = math.pi / 2 if self.losses and value > self.losses[0] else math.pi
        if not length <= farthest:
            self.particles.detach().copy_(before)
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
    """Validate the arguments: the samples (none for the uniform distribution), the start, and an array like these."""
    if isinstance(target, str) and target != "uniform":
        raise ValueError(f"target: got {target!r}; give samples, or 'uniform' for the uniform distribution.")
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
                raise ValueError(f"{name}: got {given}, but start has shape {tuple(points.shape)}; leave {name} out.")
        return samples, namespace(points).astype(points, like.dtype), like
    if not samples and dim is None:
        raise ValueError(
            "dim: got None, but the uniform distribution needs a sphere; give dim, e.g. dim=3 for S^2, or start."
        )
    if samples and dim is not None and dim != samples[0].shape[1]:
        raise ValueError(f"dim: got {dim}, but target has points in dimension {samples[0].shape[1]}; leave dim out.")
    count = n_particles if n_particles is not None else samples[0].shape[0] if samples else _PARTICLES
    count = as_int("n_particles", count, 1, "the number of particles")
    points = random_uniform(count, dim if dim is not None else samples[0].shape[1], seed=seed, like=like)
    return samples, points, like


def _tensor(points: Array) -> Any:
    import torch

    return points if is_torch(points) else torch.from_numpy(np.array(to_numpy(points)))


def _int_seed(seed: Any, like: Array) -> int:
    """Convert a seed of any kind to an int; a generator goes on after what the start has drawn from it."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    if seed is None:
        return int(np.random.default_rng().integers(2**63))
    if is_own_generator(seed):
        bits = to_numpy(normal_source(seed, like)((4,))).astype(np.float64)
        return int(np.random.SeedSequence(bits.view(np.uint32).tolist()).generate_state(1, np.uint64)[0] >> 1)
    normal_source(seed)  # raises for what is no seed
    return int(seed)
