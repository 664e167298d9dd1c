"""Costs and their gradients in `jax.numpy`: for accelerators, and where the kernel is not built.

The costs are those of `sphereot._portable`, where automatic differentiation sees the displacements of the matched pairs
(the envelope theorem). What JAX needs beyond that stands here: a projection whose derivative is finite everywhere, the
dual potentials that are the gradient in the weights, and a loop over blocks of slices that compiles once.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp

from sphereot._libraries import Array
from sphereot._native.gradients import Wanted
from sphereot._portable.circle import (
    _Atoms,
    _atoms_in_units,
    _cut,
    _power_difference,
    _wide,
    circle_cost,
    circle_cost_uniform,
)
from sphereot._portable.slices import TURNS_A_BLOCK

__all__ = ["costs", "gradients", "pairwise_sums", "project", "slice_costs"]

Measures = Sequence[tuple[Array, Array | None]]
Gradients = tuple[tuple[Array | None, Array | None], ...]


def costs(measures: Measures, frames: Array | None, p: float) -> Array:
    """W_p^p of rows of turns, (B,), where `frames` is None; else the mean over the slices of points."""
    if frames is None:
        return _row_costs(measures, p)
    return _summed(lambda block: jnp.sum(_sliced_costs(measures, block, p)), frames, measures) / frames.shape[0]


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
    last = _sliced_costs(measures, rest, p)
    if not len(blocks):
        return last
    first = jax.lax.map(lambda block: _sliced_costs(measures, block, p), blocks)
    return jnp.concat([jnp.reshape(first, (-1,)), last])


def pairwise_sums(measures: Measures, frames: Array, p: float) -> Array:
    """Sums over the slices of the costs of the pairs i < j, in order; each measure is projected once a block."""

    def of_block(block: Array) -> Array:
        rows = _rows(measures, [project(x, block) for x, _ in measures])
        return jnp.stack([jnp.sum(_row_costs(pair, p)) for pair in combinations(rows, 2)])

    return _summed(of_block, frames, measures)


def project(x: Array, frames: Array) -> Array:
    """Turns (L, n) of points (n, d) on the great circles of frames (L, d, 2); a point orthogonal to one gets turn 0.

    The turn of q = U^T x has the gradient (-q_2, q_1) / (2 pi |q|^2). Where q is only rounding it has no direction, and
    no gradient.
    """
    # Accelerators would round the factors of a product to half precision; a turn needs all its digits.
    planar = jnp.matmul(x, frames, precision=jax.lax.Precision.HIGHEST)
    q1, q2 = planar[..., 0], planar[..., 1]
    clear = q1 * q1 + q2 * q2 > 64 * float(jnp.finfo(x.dtype).eps) ** 2
    # Both branches of a `where` are differentiated: the one not meant must be harmless too.
    turns = jnp.atan2(jnp.where(clear, q2, 0), jnp.where(clear, q1, 1)) * (0.5 / math.pi)
    turns = turns + jnp.where(turns < 0, 1, 0).astype(x.dtype)
    return turns - jnp.where(turns >= 1, 1, 0).astype(x.dtype)  # -1e-9 + 1 rounds to 1


# ---- on one circle a row ----


def _row_costs(measures: Measures, p: float) -> Array:
    if len(measures) == 1:
        return circle_cost_uniform(*measures[0], p)
    (u, a), (v, b) = measures
    return circle_cost(u, v, a, b, p)


def _row_gradients(measures: Measures, p: float, wanted: Sequence[Wanted]) -> tuple[Array, Gradients]:
    """Costs (B,) of rows of turns (B, n) with weights (B, n), and their gradients."""
    turns, weights = zip(*measures, strict=True)

    def values(turns: Sequence[Array], weights: Sequence[Array | None]) -> Array:
        return _row_costs(tuple(zip(turns, weights, strict=True)), p)

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
    source, target, unit = _atoms_in_units(u, v, a, b)
    cut = _cut(source, target, unit, p)
    return _potential(source, target, unit, cut, p, a), _potential(target, source, unit, -cut, p, b)


def _potential(x: _Atoms, y: _Atoms, unit: int, cut: Array, p: float, weights: Array | None) -> Array:
    """The derivative of the cost in the weights of `x`, (B, n), in the order of the input.

    Neighbors x_i, x_{i+1} that share a y differ in their potential by what the two pay for it. Where a level of x meets
    one of y they share none: any step from what they pay for the y after that level to what they pay for the one before
    is optimal there. The best cut has at least one such place, and the steps around the whole circle must add up to 0.
    """
    wide = _wide(jnp, x.turn)
    turn, y_turn = x.turn.astype(wide), y.turn.astype(wide)
    next_turn = jnp.concat([turn[:, 1:], turn[:, :1] + 1], axis=-1)
    reached = jnp.broadcast_to(x.level, x.turn.shape) + cut
    y_level = jnp.broadcast_to(y.level, y.turn.shape)

    def step(lap: Array, side: str) -> Array:
        search = jax.vmap(lambda levels, sought: jnp.searchsorted(levels, sought, side=side))
        paid_for = jnp.take_along_axis(y_turn, search(y_level, reached - lap * unit), axis=-1) + lap.astype(wide)
        return _power_difference(jnp, paid_for, turn, next_turn, p)

    # The level within its lap: in (0, 1] for the y before it, and in [0, 1) for the y after it.
    before, after = step(-(-reached // unit) - 1, "left"), step(reached // unit, "right")
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


def _sliced_costs(measures: Measures, block: Array, p: float) -> Array:
    return _row_costs(_rows(measures, [project(x, block) for x, _ in measures]), p)


def _rows(measures: Measures, turns: Sequence[Array]) -> Measures:
    """The measures on the circle: turns (L, n) with the same weights in each row."""
    return tuple(
        (u, None if weights is None else jnp.broadcast_to(weights, u.shape))
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
    most = max(1, TURNS_A_BLOCK // sum(x.shape[0] for x, _ in measures))
    size = math.ceil(n_slices / math.ceil(n_slices / most))
    count = math.ceil(n_slices / size) - 1
    return jnp.reshape(frames[: count * size], (count, size, *frames.shape[1:])), frames[count * size :]
