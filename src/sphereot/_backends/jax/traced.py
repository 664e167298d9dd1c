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

from sphereot._arrays.libraries import Array, wide_dtype
from sphereot._backends.array_api.circle import (
    Atoms,
    atoms_in_units,
    optimal_cut,
    power_difference,
    row_costs,
)
from sphereot._backends.array_api.pairs import block_sum, cost_of_sum, row_blocks, shares_of, unit_points
from sphereot._backends.array_api.projection import TURNS_PER_BLOCK
from sphereot._backends.native.wanted import Wanted
from sphereot._backends.protocol import Measure, Measures, n_atoms

__all__ = [
    "costs",
    "gradients",
    "pair_cost",
    "pair_gradients",
    "pairwise_means",
    "project",
    "slice_costs",
]

Gradients = tuple[tuple[Array | None, Array | None], ...]


def costs(measures: Measures, frames: Array | None, p: float) -> Array:
    """W_p^p of rows of turns, (B,), where `frames` is None; else the mean over the slices of points."""
    if frames is None:
        return row_costs(measures, p)

    def of_block(block: Array) -> Array:
        return jnp.sum(row_costs(_sliced(measures, block), p))

    return _summed(of_block, frames, measures) / frames.shape[0]


def gradients(measures: Measures, frames: Array | None, p: float, wanted: Sequence[Wanted]) -> tuple[Array, Gradients]:
    """`costs`, and the gradients in the points and weights of each measure; None where not wanted."""
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

    mean: tuple[Array, Gradients] = jax.tree.map(lambda t: t / frames.shape[0], _summed(of_block, frames, measures))
    return mean


def slice_costs(measures: Measures, frames: Array, p: float) -> Array:
    """W_p^p on each great circle, (L,)."""
    blocks, rest = _blocks(frames, measures)
    last = row_costs(_sliced(measures, rest), p)
    if not len(blocks):
        return last
    costs = jax.lax.map(lambda block: row_costs(_sliced(measures, block), p), blocks)
    return jnp.concat([jnp.reshape(costs, (-1,)), last])


def pairwise_means(measures: Measures, frames: Array, p: float) -> Array:
    """Means over the slices of the costs of the pairs i < j, in order; each measure is projected once per block."""

    def of_block(block: Array) -> Array:
        rows = _sliced(measures, block)
        return jnp.stack([jnp.sum(row_costs(pair, p)) for pair in combinations(rows, 2)])

    mean: Array = _summed(of_block, frames, measures) / frames.shape[0]
    return mean


def pair_cost(measures: Measures, frames: None, unbiased: bool) -> Array:
    """SSW_2^2 of one measure to the uniform distribution, without slices."""
    (measure,) = measures
    points, shares = unit_points(measure.points), shares_of(measure)
    # A block of rows is computed again for the derivative, so that never all pairs are held.
    sums = [jax.checkpoint(partial(block_sum, rows=rows))(points, shares) for rows in row_blocks(points)]
    return cost_of_sum(jnp.sum(jnp.stack(sums)), shares, unbiased)


def pair_gradients(
    measures: Measures, frames: None, unbiased: bool, wanted: Wanted
) -> tuple[Array, tuple[Array | None, Array | None]]:
    """`pair_cost`, and its gradients in points and weights; None where not wanted."""
    value, pull_back = jax.vjp(lambda measure: pair_cost((measure,), frames, unbiased), measures[0])
    ((by_points, by_weights),) = pull_back(jnp.ones_like(value))
    return value, (by_points if wanted.points else None, by_weights if wanted.weights else None)


def project(x: Array, frames: Array) -> Array:
    """Turns (L, n) of points (n, d) on the great circles of frames (L, d, 2); a point orthogonal to one gets turn 0.

    The turn of q = U^T x has the gradient (-q_2, q_1) / (2 pi |q|^2). Where q is only rounding it has no direction, and
    no gradient; close to that, a bounded one.
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


# ---- rows of turns, one circle per row ----


def _row_gradients(measures: Measures, p: float, wanted: Sequence[Wanted]) -> tuple[Array, Gradients]:
    """Costs (B,) of rows of turns (B, n) with weights (B, n), and their gradients."""
    turns, weights = zip(*measures, strict=True)

    def values(turns: Sequence[Array], weights: Sequence[Array | None]) -> Array:
        return row_costs(tuple(map(Measure, turns, weights)), p)

    value, pull_back = jax.vjp(values, turns, weights)
    by_turns, by_weights = pull_back(jnp.ones_like(value))
    if len(measures) == 2 and any(wants.weights for wants in wanted):
        by_weights = _weight_gradients(measures, p)
    return value, tuple(
        (du if wants.points else None, da if wants.weights else None)
        for du, da, wants in zip(by_turns, by_weights, wanted, strict=True)
    )


def _weight_gradients(measures: Measures, p: float) -> tuple[Array, Array]:
    """The gradients of the cost between two measures in their weights: the dual potentials."""
    (u, a), (v, b) = measures
    source, target, unit = atoms_in_units(u, v, a, b)
    cut = optimal_cut(source, target, unit, p)
    return _potential(source, target, unit, cut, p, a), _potential(target, source, unit, -cut, p, b)


def _potential(x: Atoms, y: Atoms, unit: int, cut: Array, p: float, weights: Array | None) -> Array:
    """The derivative of the cost in the weights of `x`, (B, n), in the order of the input.

    Neighbors x_i, x_{i+1} that share a y differ in their potential by what the two pay for it. Where a level of x meets
    one of y they share none: any step from what they pay for the y after that level to what they pay for the one before
    is optimal there. At the best cut there is at least one such level, and the steps around the whole circle must add
    up to 0.
    """
    wide = wide_dtype(x.turn)
    turn, y_turn = x.turn.astype(wide), y.turn.astype(wide)
    next_turn = jnp.concat([turn[:, 1:], turn[:, :1] + 1], axis=-1)
    reached = jnp.broadcast_to(x.level, x.turn.shape) + cut
    y_level = jnp.broadcast_to(y.level, y.turn.shape)

    def step(reached: Array, lap: Array, side: str) -> Array:
        search = jax.vmap(lambda levels, sought: jnp.searchsorted(levels, sought, side=side))
        paid_for = jnp.take_along_axis(y_turn, search(y_level, reached - lap * unit), axis=-1) + lap.astype(wide)
        return power_difference(jnp, paid_for, turn, next_turn, p)

    # The level within its lap: in (0, 1] for the y before it, and in [0, 1) for the y after it.
    before, after = step(reached, -(-reached // unit) - 1, "left"), step(reached, reached // unit, "right")
    short = -jnp.sum(after, axis=-1, keepdims=True)
    room = jnp.sum(before - after, axis=-1, keepdims=True)
    share = jnp.clip(short / jnp.where(room > 0, room, 1), 0, 1)
    steps = after + share * (before - after)
    potential = jnp.cumulative_sum(steps, axis=-1) - steps
    mass = jnp.diff(x.level, axis=-1, prepend=0).astype(wide) / unit
    centered = potential - jnp.sum(mass * potential, axis=-1, keepdims=True)
    total = 1 if weights is None else jnp.sum(weights.astype(wide), axis=-1, keepdims=True)
    return jnp.take_along_axis(centered / total, jnp.argsort(x.order, axis=-1), axis=-1).astype(x.turn.dtype)


# ---- block by block ----


def _sliced(measures: Measures, block: Array) -> Measures:
    """The measures on the great circles of a block."""
    return _rows(measures, [project(x, block) for x, _ in measures])


def _rows(measures: Measures, turns: Sequence[Array]) -> Measures:
    """The measures on the circle: turns (L, n) with the same weights in each row."""
    return tuple(
        Measure(u, None if weights is None else jnp.broadcast_to(weights, u.shape))
        for u, (_, weights) in zip(turns, measures, strict=True)
    )


def _summed(of_block: Callable[[Array], Any], frames: Array, measures: Measures) -> Any:
    """The sum of `of_block` over blocks of slices, whatever arrays it gives."""

    def add(total: Any, block: Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, of_block(block)), None

    blocks, rest = _blocks(frames, measures)
    last = of_block(rest)
    return jax.lax.scan(add, last, blocks)[0] if len(blocks) else last


def _blocks(frames: Array, measures: Measures) -> tuple[Array, Array]:
    """The frames as blocks of one size, (k, size, d, 2), and the rest, at least one and at most `size` frames."""
    n_slices = frames.shape[0]
    max_size = max(1, TURNS_PER_BLOCK // n_atoms(measures))
    size = math.ceil(n_slices / math.ceil(n_slices / max_size))
    count = math.ceil(n_slices / size) - 1
    return jnp.reshape(frames[: count * size], (count, size, *frames.shape[1:])), frames[count * size :]
