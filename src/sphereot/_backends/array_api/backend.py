"""Array-API backend: the functions of the backend protocol, for any library and device.

It shares no code with the compiled kernel, so that each can be tested against the other.
"""

from itertools import combinations

from sphereot._arrays.libraries import Array, namespace, take_root
from sphereot._backends.array_api.circle import circle_cut, plan_of_cut, row_costs
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
    return namespace(frames).concat([row_costs(on_circles(measures, block), p) for block in blocks(frames, measures)])


def mean_cost(measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
    """SSW_p^p: the mean of W_p^p over the great circles; with `root` SSW_p."""
    return take_root(namespace(frames).mean(slice_costs(measures, frames, p)), p, root)


def pairwise_costs(measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
    """`mean_cost` of the pairs i < j, in order; each measure is projected once per block of slices."""
    xp = namespace(frames)
    sums = []
    for block in blocks(frames, measures):
        projected = on_circles(measures, block)
        sums.append(xp.stack([xp.sum(row_costs(pair, p)) for pair in combinations(projected, 2)]))
    return take_root(xp.sum(xp.stack(sums), axis=0) / frames.shape[0], p, root)


def circle_costs(measures: Measures, p: float) -> Array:
    """W_p^p on the circle, row by row, shape (B,): between two measures, or of one to the uniform measure."""
    return row_costs(measures, p)


def circle_plan(u: Measure, v: Measure, p: float) -> Plan:
    """The optimal coupling of two measures on the circle, each given as one row of turns."""
    cut = circle_cut(u.points, v.points, u.weights, v.weights, p)
    return plan_of_cut(u, v, cut, circle_costs([u, v], p))
