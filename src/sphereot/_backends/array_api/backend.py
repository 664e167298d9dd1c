"""Array-API backend: the functions of the backend protocol, for any library and device.

It shares no code with the compiled kernel, so that each can be tested against the other.
"""

from collections.abc import Callable
from itertools import combinations

from sphereot._arrays.libraries import Array, namespace
from sphereot._arrays.orders import LARGEST_PLAIN_ORDER, costs_of, power_mean, rooted
from sphereot._backends.array_api.circle import circle_cut, plan_of_cut, row_costs, row_distances
from sphereot._backends.array_api.pairs import pair_cost
from sphereot._backends.array_api.permutations import relabeled_costs
from sphereot._backends.array_api.projection import blocks, on_circles, project
from sphereot._backends.array_api.resamples import resampled_costs
from sphereot._backends.protocol import Measure, Measures, Plan

__all__ = [
    "circle_costs",
    "circle_plan",
    "mean_cost",
    "pair_cost",
    "pairwise_costs",
    "project",
    "relabeled_costs",
    "resampled_costs",
    "slice_costs",
]


def slice_costs(measures: Measures, frames: Array, p: float) -> Array:
    """W_p^p on each great circle, shape (L,): between two measures, or of one to the uniform measure."""
    if p > LARGEST_PLAIN_ORDER:
        return costs_of(_by_slice(row_distances, measures, frames, p), p)
    return _by_slice(row_costs, measures, frames, p)


def mean_cost(measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
    """SSW_p^p: the mean of W_p^p over the great circles; with `root` SSW_p, accurate for every order."""
    if p > LARGEST_PLAIN_ORDER:
        distance = power_mean(_by_slice(row_distances, measures, frames, p), p)
        return distance if root else distance**p
    return rooted(namespace(frames).mean(slice_costs(measures, frames, p)), p, root)


def pairwise_costs(measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
    """`mean_cost` of the pairs i < j, in order; each measure is projected once per block of slices."""
    xp = namespace(frames)
    if p > LARGEST_PLAIN_ORDER and root:
        return xp.stack([mean_cost(pair, frames, p, root=True) for pair in combinations(measures, 2)])
    sums = []
    for block in blocks(frames, measures):
        projected = on_circles(measures, block)
        sums.append(xp.stack([xp.sum(row_costs(pair, p)) for pair in combinations(projected, 2)]))
    return rooted(xp.sum(xp.stack(sums), axis=0) / frames.shape[0], p, root)


def circle_costs(measures: Measures, p: float) -> Array:
    """W_p^p on the circle, row by row, shape (B,): between two measures, or of one to the uniform measure."""
    return row_costs(measures, p)


def circle_plan(u: Measure, v: Measure, p: float) -> Plan:
    """The optimal coupling of two measures on the circle, each given as one row of turns."""
    cut = circle_cut(u.points, v.points, u.weights, v.weights, p)
    return plan_of_cut(u, v, cut, circle_costs([u, v], p))


def _by_slice(of_rows: Callable[[Measures, float], Array], measures: Measures, frames: Array, p: float) -> Array:
    """Apply `of_rows` to the projections on each great circle, block by block; shape (L,)."""
    return namespace(frames).concat([of_rows(on_circles(measures, block), p) for block in blocks(frames, measures)])
