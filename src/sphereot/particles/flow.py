"""SSW gradient flows: move particles to a sample, to the uniform distribution, or to a barycenter.

`gradient_flow` takes arrays of any library and imports PyTorch, which computes the gradients, only when it is called.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, overload

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import SampleColumns, dimensions
from sphereot._arrays.libraries import Array, is_torch, namespace, to_kind, to_numpy
from sphereot._arrays.random import is_own_generator, normal_source
from sphereot._arrays.types import ArrayT, Method, NumpyPoints, Points, ResultT, Seed
from sphereot._arrays.validation import as_int, as_same_kind, as_samples, require_same_dim
from sphereot._support.checkpoints import Callback, DivergenceError, asks_to_stop
from sphereot._support.extras import Progress, progress_bar, require
from sphereot.sphere import random_uniform

__all__ = ["FlowResult", "gradient_flow"]

_PARTICLES = 500
_WINDOW = 50


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


@overload
def gradient_flow(
    target: NumpyPoints | Sequence[NumpyPoints] | Literal["uniform"] | None,
    *,
    n_particles: int | None = ...,
    start: NumpyPoints | None = ...,
    dim: int | None = ...,
    weights: Sequence[float] | None = ...,
    steps: int = ...,
    step_size: float | Callable[[int], float] | None = ...,
    optimizer: Literal["sgd", "momentum", "adam"] = ...,
    retraction: Literal["exp", "normalize"] = ...,
    p: float = ...,
    n_projections: int | None = ...,
    method: Method = ...,
    batch_size: int | None = ...,
    seed: Seed = ...,
    tol: float | None = ...,
    snapshots: Sequence[int] = ...,
    callback: Callback | None = ...,
    progress: Progress = ...,
    columns: SampleColumns | None = ...,
) -> FlowResult[NDArray[Any]]: ...


@overload
def gradient_flow(
    target: ArrayT | NumpyPoints | Sequence[ArrayT | NumpyPoints] | Literal["uniform"] | None,
    *,
    n_particles: int | None = ...,
    start: ArrayT | NumpyPoints | None = ...,
    dim: int | None = ...,
    weights: Sequence[float] | None = ...,
    steps: int = ...,
    step_size: float | Callable[[int], float] | None = ...,
    optimizer: Literal["sgd", "momentum", "adam"] = ...,
    retraction: Literal["exp", "normalize"] = ...,
    p: float = ...,
    n_projections: int | None = ...,
    method: Method = ...,
    batch_size: int | None = ...,
    seed: Seed = ...,
    tol: float | None = ...,
    snapshots: Sequence[int] = ...,
    callback: Callback | None = ...,
    progress: Progress = ...,
    columns: SampleColumns | None = ...,
) -> FlowResult[ArrayT]: ...


@overload
def gradient_flow(
    target: Points | Sequence[Points] | Literal["uniform"] | None,
    *,
    n_particles: int | None = ...,
    start: Points | None = ...,
    dim: int | None = ...,
    weights: Sequence[float] | None = ...,
    steps: int = ...,
    step_size: float | Callable[[int], float] | None = ...,
    optimizer: Literal["sgd", "momentum", "adam"] = ...,
    retraction: Literal["exp", "normalize"] = ...,
    p: float = ...,
    n_projections: int | None = ...,
    method: Method = ...,
    batch_size: int | None = ...,
    seed: Seed = ...,
    tol: float | None = ...,
    snapshots: Sequence[int] = ...,
    callback: Callback | None = ...,
    progress: Progress = ...,
    columns: SampleColumns | None = ...,
) -> FlowResult: ...


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
    columns: SampleColumns | None = None,
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
    columns : str, int or sequence of them, optional
        For samples and a start in tables, as in `ssw`; a list for each of the samples, and the start if there is one.

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
    samples, given, like = _samples(target, start, columns)
    points = _start(samples, given, n_particles, dim, seed, like)
    require("torch", "sphereot.gradient_flow")
    from sphereot.particles.descent import ParticleFlow

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

    with progress_bar(progress, "flow", max_steps) as show:
        for taken in range(1, max_steps + 1):
            try:
                loss = descent.step()
            except FloatingPointError as error:
                raise DivergenceError(
                    f"the flow diverged in step {taken} with step_size {descent.step_size:g}: {error}. Give a smaller "
                    f"step_size; `result` of this error has the particles after {taken - 1} steps.",
                    result(converged=False),
                ) from error
            if taken in at_steps:
                stored[taken] = particles()
            show(taken)
            if tol is not None and _has_settled(descent.losses, tol):
                return result(converged=True)
            if callback is not None and asks_to_stop(callback, taken, loss, particles()):
                break
    return result(converged=False)


def _samples(target: Any, start: Any, columns: SampleColumns | None) -> tuple[list[Array], Array | None, Array]:
    """Validate target and start: the samples, none for the uniform distribution, the start, and an array like these."""
    named: dict[str, Any] = {}
    if isinstance(target, str) and target != "uniform":
        raise ValueError(f"target: got {target!r}; give samples, or 'uniform' for the uniform distribution.")
    if target is not None and not isinstance(target, str):
        several = isinstance(target, list | tuple) and len(target) > 0 and dimensions(target[0]) == 2
        named = {f"target[{j}]": sample for j, sample in enumerate(target)} if several else {"target": target}
    names = [*named] if start is None else [*named, "start"]
    values = as_samples(columns, **(named if start is None else named | {"start": start}))
    arrays = as_same_kind(**dict(zip(names, values, strict=True))) if values else []
    for name, array in zip(names, arrays, strict=True):
        require_same_dim(names[0], arrays[0], name, array)
    samples, given = arrays[: len(named)], None if start is None else arrays[-1]
    if not samples:
        return [], given, np.zeros(1) if given is None else given
    # The widest dtype of the samples is that of the particles.
    dtype = namespace(*samples).result_type(*samples)
    return samples, given, next(sample for sample in samples if sample.dtype == dtype)


def _start(
    samples: list[Array], start: Array | None, n_particles: int | None, dim: int | None, seed: Any, like: Array
) -> Array:
    if start is not None:
        for name, given, actual in (("n_particles", n_particles, start.shape[0]), ("dim", dim, start.shape[1])):
            if given is not None and given != actual:
                raise ValueError(f"{name}: got {given}, but start has shape {tuple(start.shape)}; leave {name} out.")
        return namespace(start).astype(start, like.dtype)
    if not samples and dim is None:
        raise ValueError(
            "dim: got None, but the uniform distribution needs a sphere; give dim, e.g. dim=3 for S^2, or start."
        )
    if samples and dim is not None and dim != samples[0].shape[1]:
        raise ValueError(f"dim: got {dim}, but target has points in dimension {samples[0].shape[1]}; leave dim out.")
    count = n_particles if n_particles is not None else samples[0].shape[0] if samples else _PARTICLES
    count = as_int("n_particles", count, 1, "the number of particles")
    return random_uniform(count, dim if dim is not None else samples[0].shape[1], seed=seed, like=like)


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


def _has_settled(losses: list[float], tol: float) -> bool:
    if len(losses) < 2 * _WINDOW:
        return False
    return sum(losses[-_WINDOW:]) >= (1.0 - tol) * sum(losses[-2 * _WINDOW : -_WINDOW])
