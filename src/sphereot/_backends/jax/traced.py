"""Costs and gradients in `jax.numpy`, for accelerators and installations without the compiled kernel.

The costs are those of `sphereot._backends.array_api`, where automatic differentiation sees the displacements of the
matched pairs (the envelope theorem). This module adds what JAX needs beyond that: a projection whose derivative is
finite everywhere, the dual potentials that are the gradient in the weights, and a loop over blocks of slices that
compiles once.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp

from sphereot._arrays.libraries import Array
from sphereot._backends.array_api.backend import (
    TURNS_PER_BLOCK,
    block_sum,
    circle_costs,
    cost_of_sum,
    row_blocks,
    shares_of,
    unit_points,
)
from sphereot._backends.array_api.circle import weight_gradients
from sphereot._backends.protocol import Measure, Measures, PairOptions, Wanted, n_atoms

Gradients = tuple[tuple[Array | None, Array | None], ...]


def costs_and_gradients(
    measures: Measures, frames: Array | None, p: float, pairs: PairOptions | None, wanted: Sequence[Wanted]
) -> tuple[Array, Gradients]:
    """A cost and its gradients in points and weights of each measure; a gradient that is not wanted is None.

    The cost is the mean over the great circles of frames, or the costs of rows of turns if there are no frames, or the
    cost of all pairs of points if `pairs` is not None.
    """
    if pairs is not None:
        return _with_gradients(partial(_pair_cost, options=pairs), measures, wanted)
    if frames is None:
        return _row_gradients(measures, p, wanted)

    def of_block(block: Array) -> tuple[Array, Gradients]:
        turns, pull_backs = zip(*(jax.vjp(lambda x: project(x, block), x) for x, _ in measures), strict=True)
        values, by_turns = _row_gradients(_rows(measures, turns), p, wanted)
        by_points = tuple(
            (None if du is None else pull_back(du)[0], None if da is None else jnp.sum(da, axis=0))
            for (du, da), pull_back in zip(by_turns, pull_backs, strict=True)
        )
        return jnp.sum(values), by_points

    mean: tuple[Array, Gradients] = jax.tree.map(lambda t: t / frames.shape[0], _sum_blocks(of_block, frames, measures))
    return mean


def slice_costs(measures: Measures, frames: Array, p: float) -> Array:
    """W_p^p on each great circle, (L,)."""
    blocks, rest = _split(frames, measures)
    last = circle_costs(_slice(measures, rest), p)
    if not len(blocks):
        return last
    costs = jax.lax.map(lambda block: circle_costs(_slice(measures, block), p), blocks)
    return jnp.concat([jnp.reshape(costs, (-1,)), last])


def pairwise_costs(measures: Measures, frames: Array, p: float) -> Array:
    """Means over the slices of the costs of the pairs i < j, in order; each measure is projected once per block."""

    def of_block(block: Array) -> Array:
        rows = _slice(measures, block)
        return jnp.stack([jnp.sum(circle_costs(pair, p)) for pair in combinations(rows, 2)])

    mean: Array = _sum_blocks(of_block, frames, measures) / frames.shape[0]
    return mean


def project(x: Array, frames: Array) -> Array:
    """Turns (L, n) of points (n, d) on the great circles of frames (L, d, 2); a point orthogonal to one gets turn 0.

    The turn of q = U^T x has the gradient (-q_2, q_1) / (2 pi |q|^2). If q is only rounding it has no direction, and no
    gradient; near that, the gradient is bounded.
    """
    # Accelerators would round the factors of a product to half precision; a turn needs all its digits.
    planar = jnp.matmul(x, frames, precision=jax.lax.Precision.HIGHEST)
    q1, q2 = planar[..., 0], planar[..., 1]
    square = q1 * q1 + q2 * q2
    clear = square > 64 * float(jnp.finfo(x.dtype).eps) ** 2
    # Both branches of a `where` are differentiated: the unused one must have a finite derivative too.
    turns = jnp.atan2(jnp.where(clear, q2, 0), jnp.where(clear, q1, 1)) * (0.5 / math.pi)
    if x.dtype == jnp.float64:
        # The kernel's bound on the gradient (cpp/solvers/gradients.hpp): within 2^-20 of the pole it is scaled by
        # (|q| 2^20)^2. In single precision all of that is rounding, and has no gradient already.
        constant, scale = jax.lax.stop_gradient((turns, jnp.minimum(square * 2.0**40, 1)))
        turns = constant + scale * (turns - constant)
    turns = turns + jnp.where(turns < 0, 1, 0).astype(x.dtype)
    return turns - jnp.where(turns >= 1, 1, 0).astype(x.dtype)  # -1e-9 + 1 rounds to 1


# ---- costs with gradients ----


def _pair_cost(measures: Measures, options: PairOptions) -> Array:
    points, shares = unit_points(measures[0].points), shares_of(measures[0])
    # A block of rows is computed again for the derivative, so that memory never holds all pairs.
    even_weight = options.even_weight
    sums = [
        jax.checkpoint(partial(block_sum, rows=rows, even_weight=even_weight))(points, shares)
        for rows in row_blocks(points)
    ]
    return cost_of_sum(jnp.sum(jnp.stack(sums)), shares, *options)


def _row_gradients(measures: Measures, p: float, wanted: Sequence[Wanted]) -> tuple[Array, Gradients]:
    """Costs (B,) of rows of turns (B, n) with weights (B, n), and their gradients."""
    value, gradients = _with_gradients(partial(circle_costs, p=p), measures, wanted)
    if len(measures) == 2 and any(wants.weights for wants in wanted):
        potentials = weight_gradients(measures[0], measures[1], p)
        gradients = tuple(
            (du, None if da is None else potential) for (du, da), potential in zip(gradients, potentials, strict=True)
        )
    return value, gradients


def _with_gradients(
    cost: Callable[[Measures], Array], measures: Measures, wanted: Sequence[Wanted]
) -> tuple[Array, Gradients]:
    """A cost and the gradients of its sum by automatic differentiation."""
    if not any(map(any, wanted)):
        return cost(measures), ((None, None),) * len(measures)
    value, pull_back = jax.vjp(cost, tuple(measures))
    (gradients,) = pull_back(jnp.ones_like(value))
    return value, tuple(
        (by_points if wants.points else None, by_weights if wants.weights else None)
        for (by_points, by_weights), wants in zip(gradients, wanted, strict=True)
    )


# ---- block by block ----


def _slice(measures: Measures, block: Array) -> Measures:
    """The measures on the great circles of a block."""
    return _rows(measures, [project(x, block) for x, _ in measures])


def _rows(measures: Measures, turns: Sequence[Array]) -> Measures:
    """The measures on the circle: turns (L, n) with the same weights in each row."""
    return tuple(
        Measure(u, None if weights is None else jnp.broadcast_to(weights, u.shape))
        for u, (_, weights) in zip(turns, measures, strict=True)
    )


def _sum_blocks(of_block: Callable[[Array], Any], frames: Array, measures: Measures) -> Any:
    """The sum of `of_block`, a tree of arrays, over blocks of slices."""

    def add(total: Any, block: Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, of_block(block)), None

    blocks, rest = _split(frames, measures)
    last = of_block(rest)
    return jax.lax.scan(add, last, blocks)[0] if len(blocks) else last


def _split(frames: Array, measures: Measures) -> tuple[Array, Array]:
    """The frames as blocks of one size, (k, size, d, 2), and the rest, at least one and at most `size` frames."""
    n_slices = frames.shape[0]
    max_size = max(1, TURNS_PER_BLOCK // n_atoms(measures))
    size = math.ceil(n_slices / math.ceil(n_slices / max_size))
    count = math.ceil(n_slices / size) - 1
    return jnp.reshape(frames[: count * size], (count, size, *frames.shape[1:])), frames[count * size :]
