"""JAX backend: the functions of the backend protocol, with gradients in the points and in the weights.

On the CPU the compiled kernel runs inside the JAX program; on other platforms, or without a kernel, `jax.numpy` code
does. JAX chooses when it lowers a program, so it works under `jit` too.
"""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp

from sphereot._arrays.libraries import Array, take_root
from sphereot._backends.array_api.backend import relabeled_costs as relabeled_costs
from sphereot._backends.array_api.backend import resampled_costs as resampled_costs
from sphereot._backends.array_api.backend import weight_gradients as weight_gradients
from sphereot._backends.array_api.circle import circle_cut, matched_pairs
from sphereot._backends.jax import callbacks, traced
from sphereot._backends.jax.devices import on_every_device
from sphereot._backends.protocol import Measure, Measures, Plan, Wanted

Gradients = tuple[tuple[Array | None, Array | None], ...]

project = jax.jit(traced.project)
_circle_cut = jax.jit(circle_cut, static_argnums=2)
_traced_pair_gradients = jax.jit(traced.pair_gradients, static_argnums=(2, 3))


def slice_costs(measures: Measures, frames: Array, p: float) -> Array:
    """W_p^p on each great circle, shape (L,); not differentiable."""
    return _slice_costs(*on_every_device((tuple(measures), frames)), p)


def mean_cost(measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
    """SSW_p^p: the mean of W_p^p over the great circles; with `root` SSW_p."""
    measures, frames = on_every_device((tuple(measures), frames))
    return take_root(_cost(measures, frames, p), p, root)


def pair_cost(measure: Measure, *, unbiased: bool = False) -> Array:
    """SSW_2^2 to the uniform distribution without slices: the double sum of K_d over all pairs of points."""
    return _pair_cost(on_every_device(measure), unbiased)


def pairwise_costs(measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
    """`mean_cost` of the pairs i < j of several measures, in lexicographic order."""
    measures, frames = on_every_device((tuple(measures), frames))
    return take_root(_pairwise(measures, frames, p), p, root)


def circle_costs(measures: Measures, p: float) -> Array:
    """W_p^p on the circle, row by row, shape (B,): between two measures, or of one to the uniform measure."""
    measures = on_every_device(tuple(measures))
    rows = tuple(Measure(u, None if a is None else jnp.broadcast_to(a, u.shape)) for u, a in measures)
    return _cost(rows, None, p)


def circle_plan(u: Measure, v: Measure, p: float) -> Plan:
    """The optimal coupling of two measures on the circle, each given as one row of turns."""
    u, v = on_every_device((u, v))
    cut = _circle_cut(u, v, p)
    return Plan(*matched_pairs(u, v, cut), circle_costs([u, v], p)[0], cut[0])


# ---- which implementation ----


def _on_platform(
    kernel: Callable[..., Any],
    array_code: Callable[..., Any],
    measures: Measures,
    frames: Array | None,
    *static: Any,
) -> Any:
    """A function of `callbacks` (the kernel) on the CPU, and its counterpart in `traced` elsewhere."""

    def on_cpu(measures: Measures, frames: Array | None) -> Any:
        return kernel(measures, frames, *static)

    def elsewhere(*arrays: Any) -> Any:
        # Without the barrier, XLA takes minutes to sort the slices of a constant measure while it compiles.
        measures, frames = jax.lax.optimization_barrier(arrays)
        return array_code(measures, frames, *static)

    if not callbacks.available:
        return elsewhere(measures, frames)
    return jax.lax.platform_dependent(measures, frames, cpu=on_cpu, default=elsewhere)


@partial(jax.jit, static_argnums=2)
def _value(measures: Measures, frames: Array | None, p: float) -> Array:
    return _on_platform(callbacks.costs, traced.costs, measures, frames, p)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
@partial(jax.jit, static_argnums=(2, 3))
def _value_and_gradients(
    measures: Measures, frames: Array | None, p: float, wanted: tuple[Wanted, ...]
) -> tuple[Array, Gradients]:
    value_and_gradients: tuple[Array, Gradients] = _on_platform(
        callbacks.gradients, traced.gradients, measures, frames, p, wanted
    )
    return value_and_gradients


@partial(jax.jit, static_argnums=1)
def _pair_value(measure: Measure, unbiased: bool) -> Array:
    return _on_platform(callbacks.pair_cost, traced.pair_cost, (measure,), None, unbiased)


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
@partial(jax.jit, static_argnums=(1, 2))
def _pair_value_and_gradients(
    measure: Measure, unbiased: bool, wanted: Wanted
) -> tuple[Array, tuple[Array | None, Array | None]]:
    value_and_gradients: tuple[Array, tuple[Array | None, Array | None]] = _on_platform(
        callbacks.pair_gradients, traced.pair_gradients, (measure,), None, unbiased, wanted
    )
    return value_and_gradients


@partial(jax.custom_jvp, nondiff_argnums=(2,))
@partial(jax.jit, static_argnums=2)
def _slice_costs(measures: Measures, frames: Array, p: float) -> Array:
    return _on_platform(callbacks.slice_costs, traced.slice_costs, measures, frames, p)


@_value_and_gradients.defjvp
def _no_second_derivative(*_: Any) -> Any:
    raise NotImplementedError(
        "Costs on great circles have first derivatives only, because the matching changes by jumps, but a gradient was "
        "differentiated again (jax.hessian, or grad of grad). If the inner gradient is a constant, compute it at "
        "jax.lax.stop_gradient(x). sphereot.ssw_uniform(x, method='exact') has second derivatives."
    )


@_pair_value_and_gradients.defjvp
def _pair_second_derivative(
    unbiased: bool, wanted: Wanted, primals: tuple[Measure], tangents: tuple[Measure]
) -> tuple[Any, Any]:
    """JVP rule of the gradients: the kernel has first derivatives, `jax.numpy` code those of every order."""
    return jax.jvp(lambda measure: _traced_pair_gradients((measure,), None, unbiased, wanted), primals, tangents)


@_slice_costs.defjvp
def _no_derivative_by_slice(*_: Any) -> Any:
    raise NotImplementedError("costs of single slices have no derivative; differentiate sphereot.ssw, their mean.")


# ---- derivatives ----


# The rules are forward-mode, and linear in the tangents: JAX transposes them, so that reverse mode works too.


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _cost(measures: Measures, frames: Array | None, p: float) -> Array:
    """The mean cost over frames, or the costs (B,) of rows of turns where `frames` is None.

    The frames are constants to differentiation.
    """
    return _value(measures, frames, p)


def _cost_jvp(p: float, primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    """JVP rule: value and gradients in one call; only gradients whose tangent may be nonzero are computed."""
    (measures, frames), (moves, _) = primals, tangents
    wanted = tuple(Wanted(_moves(x), a is not None and _moves(a)) for x, a in moves)
    value, gradients = _value_and_gradients(measures, frames, p, wanted)
    slope = jnp.zeros_like(value)
    for pair, pair_moves in zip(gradients, moves, strict=True):
        for gradient, move in zip(pair, pair_moves, strict=True):
            if gradient is not None:
                # A sum over each row of turns; over all where the cost is a mean.
                slope = slope + jnp.sum(gradient * move, axis=tuple(range(value.ndim, gradient.ndim)))
    return value, slope


def _moves(tangent: Any) -> bool:
    return not isinstance(tangent, jax.custom_derivatives.SymbolicZero)


_cost.defjvp(_cost_jvp, symbolic_zeros=True)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _pair_cost(measure: Measure, unbiased: bool) -> Array:
    return _pair_value(measure, unbiased)


def _pair_cost_jvp(unbiased: bool, primals: tuple[Measure], tangents: tuple[Measure]) -> tuple[Array, Array]:
    (measure,), (moves,) = primals, tangents
    wanted = Wanted(_moves(moves.points), moves.weights is not None and _moves(moves.weights))
    value, gradient = _pair_value_and_gradients(measure, unbiased, wanted)
    slope = jnp.zeros_like(value)
    for part, move in zip(gradient, moves, strict=True):
        if part is not None:
            slope = slope + jnp.sum(part * move)
    return value, slope


_pair_cost.defjvp(_pair_cost_jvp, symbolic_zeros=True)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
@partial(jax.jit, static_argnums=2)
def _pairwise(measures: Measures, frames: Array, p: float) -> Array:
    return _on_platform(callbacks.pairwise_means, traced.pairwise_means, measures, frames, p)


@_pairwise.defjvp
def _pairwise_jvp(p: float, primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    measures, frames = primals

    def pair_by_pair(measures: Measures) -> Array:
        return jnp.stack([_cost(pair, frames, p) for pair in combinations(measures, 2)])

    value, slope = jax.jvp(pair_by_pair, (measures,), tangents[:1])
    return value, slope
