"""Slices in array-API terms: any library and device. Same functions as `sphereot._native.slices`."""

import math
from collections.abc import Iterator, Sequence

from sphereot._libraries import Array, full_precision, namespace
from sphereot._portable.circle import circle_cost, circle_cost_uniform, circle_cut

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

circle_costs = circle_cost
circle_costs_uniform = circle_cost_uniform
circle_cuts = circle_cut

# Turns held at once, over all measures: a few dozen arrays of this many numbers bound the memory.
TURNS_A_BLOCK = 1 << 21


def on_grid(u: Array) -> Array:
    """Turns as this path sees them: as they are."""
    return u


def project(x: Array, frames: Array) -> Array:
    """Turns (L, n) of points (n, d) on the great circles of frames (L, d, 2)."""
    xp = namespace(x, frames)
    with full_precision(x):
        planar = xp.matmul(x, frames)  # (L, n, 2)
    first, second = planar[..., 0], planar[..., 1]
    # A point orthogonal to the plane, to rounding, gets turn 0 and no gradient; that of atan2 would be infinite.
    orthogonal = first * first + second * second <= 64 * float(xp.finfo(x.dtype).eps) ** 2
    first = xp.where(orthogonal, xp.ones_like(first), first)
    second = xp.where(orthogonal, xp.zeros_like(second), second)
    turns = xp.atan2(second, first) * (0.5 / math.pi)
    turns = xp.where(turns < 0, turns + 1.0, turns)
    return xp.where(turns >= 1.0, xp.zeros_like(turns), turns)  # -1e-9 + 1 rounds to 1


def slice_costs(x: Array, y: Array, a: Array | None, b: Array | None, frames: Array, p: float) -> Array:
    """W_p^p between the projections of two measures on each great circle, shape (L,)."""
    costs = [
        circle_cost(project(x, block), project(y, block), _row(a), _row(b), p)
        for block in _blocks(frames, x.shape[0] + y.shape[0])
    ]
    return namespace(x).concat(costs)


def slice_costs_uniform(x: Array, a: Array | None, frames: Array, p: float) -> Array:
    """W_p^p between the projection of a measure on each great circle and the uniform measure, shape (L,)."""
    costs = [circle_cost_uniform(project(x, block), _row(a), p) for block in _blocks(frames, x.shape[0])]
    return namespace(x).concat(costs)


def mean_cost(x: Array, y: Array, a: Array | None, b: Array | None, frames: Array, p: float) -> Array:
    """The mean of `slice_costs`."""
    return namespace(x).mean(slice_costs(x, y, a, b, frames, p))


def mean_cost_uniform(x: Array, a: Array | None, frames: Array, p: float) -> Array:
    """The mean of `slice_costs_uniform`."""
    return namespace(x).mean(slice_costs_uniform(x, a, frames, p))


def summed_pairwise_costs(measures: Sequence[tuple[Array, Array | None]], frames: Array, p: float) -> Array:
    """Sums over all slices of the costs of the pairs i < j, in order; each measure is projected once a block."""
    xp = namespace(frames)
    blocks = []
    for block in _blocks(frames, sum(x.shape[0] for x, _ in measures)):
        turns = [project(x, block) for x, _ in measures]
        blocks.append(
            xp.stack(
                [
                    xp.sum(circle_cost(turns[i], turns[j], _row(measures[i][1]), _row(measures[j][1]), p))
                    for i in range(len(measures))
                    for j in range(i + 1, len(measures))
                ]
            )
        )
    return xp.sum(xp.stack(blocks), axis=0)


def _blocks(frames: Array, atoms: int) -> Iterator[Array]:
    size = max(1, TURNS_A_BLOCK // atoms)
    for start in range(0, frames.shape[0], size):
        yield frames[start : min(start + size, frames.shape[0]), ...]


def _row(weights: Array | None) -> Array | None:
    return None if weights is None else weights[None, :]
