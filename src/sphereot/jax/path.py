"""Slice functions for JAX arrays, with gradients in the points and in the weights.

On the CPU the compiled kernel runs inside the JAX program; on other platforms, or without a kernel, `jax.numpy` code
does. The choice falls when a program is lowered, so it holds under `jit` too.

On a CPU the kernel is 5 to 85 times faster than `jax.numpy` (float32, S^2, p = 2, jitted; milliseconds for the value /
for value and gradient in the points, best of many; 2 cores, jax 0.10.2, 2026-11-15):

=====================  ===========  =============
n = m, slices          kernel       `jax.numpy`
=====================  ===========  =============
64, 50                 0.12 / 0.16  0.83 / 0.85
500, 200               0.61 / 0.88  37 / 36
10,000, 200            11 / 17      956 / 1,006
=====================  ===========  =============

The kernel's own time, called with NumPy arrays, is 0.09 / 0.11, 0.54 / 0.78 and 10 / 17.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp

from sphereot._libraries import Array
from sphereot._native.gradients import Wanted
from sphereot._portable import slices as _portable
from sphereot.jax import _host, _traced

__all__ = [
    "circle_costs",
    "circle_costs_uniform",
    "circle_cuts",
    "mean_cost",
    "mean_cost_uniform",
    "on_grid",
    "project",
    "slice_costs",
    "slice_costs_uniform",
    "summed_pairwise_costs",
]

Measures = Sequence[tuple[Array, Array | None]]
Gradients = tuple[tuple[Array | None, Array | None], ...]

on_grid = _portable.on_grid
project = jax.jit(_traced.project)
circle_cuts = jax.jit(_portable.circle_cuts, static_argnums=4)


def mean_cost(x: Array, y: Array, a: Array | None, b: Array | None, frames: Array, p: float) -> Array:
    """The mean of `slice_costs`."""
    return _cost(((x, a), (y, b)), frames, p)


def mean_cost_uniform(x: Array, a: Array | None, frames: Array, p: float) -> Array:
    """The mean of `slice_costs_uniform`."""
    return _cost(((x, a),), frames, p)


def circle_costs(u: Array, v: Array, a: Array | None, b: Array | None, p: float) -> Array:
    """W_p^p on the circle, row by row: turns (B, n) and (B, m), weights (B or 1, n) and (B or 1, m) or None."""
    return _cost(((u, _in_rows(a, u)), (v, _in_rows(b, v))), None, p)


def circle_costs_uniform(u: Array, a: Array | None, p: float) -> Array:
    """W_p^p between each row of turns (B, n) and the uniform measure on the circle."""
    return _cost(((u, _in_rows(a, u)),), None, p)


def slice_costs(x: Array, y: Array, a: Array | None, b: Array | None, frames: Array, p: float) -> Array:
    """W_p^p between the projections of two measures on each great circle, shape (L,); not differentiable."""
    return _slice_costs(((x, a), (y, b)), frames, p)


def slice_costs_uniform(x: Array, a: Array | None, frames: Array, p: float) -> Array:
    """W_p^p between the projection of a measure and the uniform measure, shape (L,); not differentiable."""
    return _slice_costs(((x, a),), frames, p)


def _in_rows(weights: Array | None, turns: Array) -> Array | None:
    return None if weights is None else jnp.broadcast_to(weights, turns.shape)


# ---- which implementation ----


def _on_platform(name: str, measures: Measures, frames: Array | None, *static: Any) -> Any:
    """The function `name` of the kernel on the CPU, and of `_traced` elsewhere."""

    def native(measures: Measures, frames: Array | None) -> Any:
        return getattr(_host, name)(measures, frames, *static)

    def traced(measures: Measures, frames: Array | None) -> Any:
        # Without the barrier, XLA takes minutes to sort the slices of a constant measure while it compiles.
        return getattr(_traced, name)(*jax.lax.optimization_barrier((measures, frames)), *static)

    if not _host.available:
        return traced(measures, frames)
    return jax.lax.platform_dependent(measures, frames, cpu=native, default=traced)


@partial(jax.jit, static_argnums=2)
def _value(measures: Measures, frames: Array | None, p: float) -> Array:
    return _on_platform("costs", measures, frames, p)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
@partial(jax.jit, static_argnums=(2, 3))
def _value_and_gradients(
    measures: Measures, frames: Array | None, p: float, wanted: tuple[Wanted, ...]
) -> tuple[Array, Gradients]:
    found: tuple[Array, Gradients] = _on_platform("gradients", measures, frames, p, wanted)
    return found


@partial(jax.custom_jvp, nondiff_argnums=(2,))
@partial(jax.jit, static_argnums=2)
def _slice_costs(measures: Measures, frames: Array, p: float) -> Array:
    return _on_platform("slice_costs", measures, frames, p)


@_value_and_gradients.defjvp
def _no_second_derivative(*_: Any) -> Any:
    raise NotImplementedError(
        "sphereot has first derivatives only, but a gradient was differentiated again (jax.hessian, or grad of grad). "
        "If the inner gradient is meant as a constant, take it at jax.lax.stop_gradient(x)."
    )


@_slice_costs.defjvp
def _no_derivative_by_slice(*_: Any) -> Any:
    raise NotImplementedError("costs of single slices have no derivative; differentiate sphereot.ssw, their mean.")


# ---- derivatives ----


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _cost(measures: Measures, frames: Array | None, p: float) -> Array:
    """The mean cost over frames, or the costs (B,) of rows of turns where `frames` is None.

    The frames are constants to differentiation: their cotangent is zero.
    """
    return _value(measures, frames, p)


def _forward(measures: Any, frames: Any, p: float) -> tuple[Array, Gradients]:
    """Value and gradients from one call; the leaves come with the flag whether anybody asks for their gradient."""
    wanted = tuple(Wanted(x.perturbed, a is not None and a.perturbed) for x, a in measures)
    measures, frames = jax.tree.map(lambda leaf: leaf.value, (measures, frames))
    return _value_and_gradients(measures, frames, p, wanted)


def _backward(p: float, gradients: Gradients, upstream: Any) -> tuple[Any, None]:
    if isinstance(upstream, jax.custom_derivatives.SymbolicZero):
        upstream = jnp.zeros(upstream.shape, upstream.dtype)
    # A factor for each row of turns; one for all where the cost is a mean.
    factor = upstream[:, None] if upstream.ndim else upstream
    return jax.tree.map(lambda gradient: factor * gradient, gradients), None


_cost.defvjp(_forward, _backward, symbolic_zeros=True)


def summed_pairwise_costs(measures: Sequence[tuple[Array, Array | None]], frames: Array, p: float) -> Array:
    """Sums over all slices of the costs of the pairs i < j, in order."""
    return _pairwise(tuple(measures), frames, p)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
@partial(jax.jit, static_argnums=2)
def _pairwise(measures: Measures, frames: Array, p: float) -> Array:
    return _on_platform("pairwise_sums", measures, frames, p)


def _pairwise_forward(measures: Measures, frames: Array, p: float) -> tuple[Array, Any]:
    def pair_by_pair(measures: Measures) -> Array:
        return frames.shape[0] * jnp.stack([_cost(pair, frames, p) for pair in combinations(measures, 2)])

    value, pull_back = jax.vjp(pair_by_pair, measures)
    return value, pull_back


def _pairwise_backward(p: float, pull_back: Callable[[Array], tuple[Any]], upstream: Array) -> tuple[Any, None]:
    return pull_back(upstream)[0], None


_pairwise.defvjp(_pairwise_forward, _pairwise_backward)
