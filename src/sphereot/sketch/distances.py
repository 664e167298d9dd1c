"""Distances between sketches, and of a sketch to the uniform distribution, with error bounds.

All bounds are of |SSW_p(sketches) - SSW_p(points)| on the great circles of the sketch, in turns (docs/sketch.md has the
proofs).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import sketch_backend
from sphereot.sketch.bins import WEIGHT_UNIT, Bins, to_float
from sphereot.sketch.layout import Layout

# The solvers round cumulative masses: at most this much mass is matched with a wrong atom, half a turn away.
MASS_ERROR = 2.0**-38

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SketchDistance:
    """A distance computed from sketches.

    Attributes
    ----------
    value : float
        SSW_p in turns.
    error_bound : float
        The distance of the points themselves, on the same great circles, differs from `value` by at most this.
    p : float
        The order.
    """

    value: float
    error_bound: float
    p: float

    @property
    def cost(self) -> float:
        """SSW_p^p, as `sphereot.ssw` gives it without `root=True`."""
        return float(self.value**self.p)


@dataclass(frozen=True)
class PairwiseSketchDistances:
    """All distances among k sketches.

    Attributes
    ----------
    value : array, shape (k, k)
        SSW_p in turns; symmetric, 0 on the diagonal.
    error_bound : array, shape (k, k)
        Bounds of the errors of `value`; 0 on the diagonal.
    p : float
        The order.
    """

    value: Floats
    error_bound: Floats
    p: float

    @property
    def cost(self) -> Floats:
        """SSW_p^p."""
        costs: Floats = self.value**self.p
        return costs


def distance(x: Bins, y: Bins | None, layout: Layout, p: float) -> SketchDistance:
    """SSW_p between two sketches of one group each, or of one to the uniform distribution, with its error bound."""
    parts = [x] if y is None else [x, y]
    if p == 1:
        values, bounds = level_distances(parts, layout)
        return SketchDistance(float(values[0]), float(bounds[0]), p)
    backend = sketch_backend()
    measures = [backend.histogram(*part.cells) for part in parts]
    costs, *moved, ranges = backend.transport_distances(
        measures[0], measures[1] if len(measures) == 2 else None, p, layout.n_projections
    )
    value = _take_root(float(np.mean(costs)), p)
    # Triangle inequality: SSW_p between each measure and its bin means, by Minkowski's inequality over slices.
    bound = sum(_take_root(float(np.mean(part)), p) for part in moved) / layout.bins
    if p == 2:  # the dual potentials bound SSW_2^2 by value^2 - below and value^2 + above
        width = 1.0 / layout.bins
        below = 2 * width * float(np.mean(ranges))
        above = below + width**2 * float(np.mean((np.sqrt(moved[0]) + np.sqrt(moved[1])) ** 2))
        bound = min(bound, max(_take_root(value**2 + above, 2) - value, value - _take_root(value**2 - below, 2)))
    bound += sum(_rounding_of_points(part, layout, p) for part in parts) + _rounding_of_solver(value, p)
    return SketchDistance(value, bound, p)


def level_distances(parts: Sequence[Bins], layout: Layout) -> tuple[Floats, Floats]:
    """SSW_1 of all pairs, or of one sketch to the uniform distribution, and error bounds."""
    backend = sketch_backend()
    blocks = backend.level_distances([backend.histogram(*part.cells) for part in parts], layout.n_projections)
    cost: Any = 0.0
    excess: Any = 0.0
    for costs, excesses in blocks:
        for row, wide in zip(costs, excesses, strict=True):  # one after the other: blocks do not change the sum
            cost, excess = cost + row, excess + wide
    moved = np.array([_rounding_of_points(part, layout, 1) for part in parts])
    i, j = np.triu_indices(len(parts), 1)
    both = moved if len(parts) == 1 else moved[i] + moved[j]
    return cost / layout.n_projections, excess / layout.n_projections + both + _rounding_of_solver(0.0, 1)


def _take_root(mean: float, p: float) -> float:
    """The p-th root of a number that is not negative, up to rounding."""
    return float(max(mean, 0.0) ** (1.0 / p))


def _rounding_of_points(bins: Bins, layout: Layout, p: float) -> float:
    """Bound of SSW_p between the points of a sketch of one group, and the same points as their bins know them.

    It covers the rounding of coordinates, turns, offsets and weights; points near the poles of a circle move farther.
    """
    near = to_float(bins.near[0])  # (L, 3)
    total = float(np.sum(to_float(bins.mass[0])[0]))
    shares = -np.diff(np.concatenate([np.full((len(near), 1), total), near, np.zeros((len(near), 1))], axis=1)) / total
    moved = layout.displacements()
    largest = float(np.max(moved[shares.T > 0]))
    bound = largest * _take_root(float(np.mean(np.sum(shares.T * (moved / largest) ** p, axis=0))), p)
    if bins.weighted:
        bound += 0.5 * _take_root(float(bins.n[0]) * WEIGHT_UNIT / total, p)
    return bound


def _rounding_of_solver(value: float, p: float) -> float:
    """Bound of the error of SSW_p by the rounding of masses and sums in the solver."""
    if p == 1:
        return MASS_ERROR
    # The cost may change by MASS_ERROR (2^-p + cost); in units of the larger term, because powers underflow.
    least = 0.5 * MASS_ERROR ** (1.0 / p)
    unit = max(value, least)
    added = (least / unit) ** p + MASS_ERROR * (value / unit) ** p
    power = (value / unit) ** p
    above = unit * (power + added) ** (1.0 / p) - value
    below = value - unit * max(power - added, 0.0) ** (1.0 / p)
    return float(max(above, below)) + 2.0**-50
