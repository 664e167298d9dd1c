"""Slices in array-API terms: any library and device. Same functions as `sphereot._backends.native.costs`."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from sphereot._arrays.libraries import Array, full_precision, is_double, namespace, without_gradient
from sphereot._arrays.orders import LARGEST_PLAIN_ORDER, costs_of, power_mean
from sphereot._backends.array_api.circle import (
    circle_cost,
    circle_cost_uniform,
    circle_cut,
    circle_distance,
    circle_distance_uniform,
)

__all__ = [
    "circle_costs",
    "circle_costs_uniform",
    "circle_cuts",
    "mean_cost",
    "mean_cost_uniform",
    "mean_distance",
    "mean_distance_uniform",
    "on_grid",
    "pairwise_distances",
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
    square = first * first + second * second
    # A point orthogonal to the plane, to rounding, gets turn 0 and no gradient; that of atan2 would be infinite.
    orthogonal = square <= 64 * float(xp.finfo(x.dtype).eps) ** 2
    first = xp.where(orthogonal, xp.ones_like(first), first)
    second = xp.where(orthogonal, xp.zeros_like(second), second)
    turns = xp.atan2(second, first) * (0.5 / math.pi)
    if is_double(x):
        # The kernel's bound on the gradient (cpp/solvers/gradients.hpp): within 2^-20 of the pole it is scaled by
        # (|q| 2^20)^2. In single precision all of that is rounding, and has no gradient already.
        held = without_gradient(turns)
        scale = without_gradient(xp.where(square < 2.0**-40, square * 2.0**40, xp.ones_like(square)))
        turns = held + scale * (turns - held)
    turns = xp.where(turns < 0, turns + 1.0, turns)
    return xp.where(turns >= 1.0, xp.zeros_like(turns), turns)  # -1e-9 + 1 rounds to 1


def slice_costs(x: Array, y: Array, a: Array | None, b: Array | None, frames: Array, p: float) -> Array:
    """W_p^p between the projections of two measures on each great circle, shape (L,)."""
    if p > LARGEST_PLAIN_ORDER:
        return costs_of(_slice_distances(x, y, a, b, frames, p), p)
    costs = [
        circle_cost(project(x, block), project(y, block), _row(a), _row(b), p)
        for block in _blocks(frames, x.shape[0] + y.shape[0])
    ]
    return namespace(x).concat(costs)


def slice_costs_uniform(x: Array, a: Array | None, frames: Array, p: float) -> Array:
    """W_p^p between the projection of a measure on each great circle and the uniform measure, shape (L,)."""
    if p > LARGEST_PLAIN_ORDER:
        return costs_of(_slice_distances_uniform(x, a, frames, p), p)
    costs = [circle_cost_uniform(project(x, block), _row(a), p) for block in _blocks(frames, x.shape[0])]
    return namespace(x).concat(costs)


def mean_cost(x: Array, y: Array, a: Array | None, b: Array | None, frames: Array, p: float) -> Array:
    """The mean of the slices' W_p^p."""
    if p > LARGEST_PLAIN_ORDER:
        return mean_distance(x, y, a, b, frames, p) ** p
    return namespace(x).mean(slice_costs(x, y, a, b, frames, p))


def mean_cost_uniform(x: Array, a: Array | None, frames: Array, p: float) -> Array:
    """The mean of the slices' W_p^p to the uniform measure."""
    if p > LARGEST_PLAIN_ORDER:
        return mean_distance_uniform(x, a, frames, p) ** p
    return namespace(x).mean(slice_costs_uniform(x, a, frames, p))


def mean_distance(x: Array, y: Array, a: Array | None, b: Array | None, frames: Array, p: float) -> Array:
    """The root of order p of `mean_cost`, for large orders: right where the mean itself vanishes."""
    return power_mean(_slice_distances(x, y, a, b, frames, p), p)


def mean_distance_uniform(x: Array, a: Array | None, frames: Array, p: float) -> Array:
    """The root of order p of `mean_cost_uniform`, for large orders."""
    return power_mean(_slice_distances_uniform(x, a, frames, p), p)


def pairwise_distances(measures: Sequence[tuple[Array, Array | None]], frames: Array, p: float) -> Array:
    """`mean_distance` of the pairs i < j, in order."""
    pairs = combinations(measures, 2)
    return namespace(frames).stack([mean_distance(x, y, a, b, frames, p) for (x, a), (y, b) in pairs])


def _slice_distances(x: Array, y: Array, a: Array | None, b: Array | None, frames: Array, p: float) -> Array:
    blocks = _blocks(frames, x.shape[0] + y.shape[0])
    distances = [circle_distance(project(x, block), project(y, block), _row(a), _row(b), p) for block in blocks]
    return namespace(x).concat(distances)


def _slice_distances_uniform(x: Array, a: Array | None, frames: Array, p: float) -> Array:
    blocks = _blocks(frames, x.shape[0])
    return namespace(x).concat([circle_distance_uniform(project(x, block), _row(a), p) for block in blocks])


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
