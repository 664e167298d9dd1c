"""Distances between sketches, and of a sketch to the uniform distribution, with error bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.orders import LARGEST_PLAIN_ORDER, power_mean
from sphereot._backends import native
from sphereot._backends.native import sketches as native_sketches
from sphereot.sketch import histograms
from sphereot.sketch.bins import Bins
from sphereot.sketch.bounds import (
    Displacements,
    first_order,
    power_root,
    rounding_of_points,
    rounding_of_solver,
    second_order,
)
from sphereot.sketch.layout import Layout

__all__ = ["SketchDistance", "distance", "distance_to_uniform", "level_distances"]

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


def distance(x: Bins, y: Bins, layout: Layout, p: float) -> SketchDistance:
    """SSW_p between two sketches of one group each, with its error bound."""
    if p == 1:
        values, bounds = level_distances([x, y], layout)
        return SketchDistance(float(values[0]), float(bounds[0]), p)
    return _transport_distance([x, y], layout, p)


def distance_to_uniform(x: Bins, layout: Layout, p: float) -> SketchDistance:
    """SSW_p between a sketch of one group and the uniform distribution, with its error bound."""
    if p == 1:
        values, bounds = level_distances([x], layout)
        return SketchDistance(float(values[0]), float(bounds[0]), p)
    return _transport_distance([x], layout, p)


def level_distances(parts: Sequence[Bins], layout: Layout) -> tuple[Floats, Floats]:
    """SSW_1 of all pairs, or of one sketch to the uniform distribution, and error bounds."""
    if native.available:
        measures = [native_sketches.histogram(*histograms.cells_of(part)) for part in parts]
        blocks = native_sketches.level_distances(measures, layout.n_projections)
    else:
        blocks = histograms.level_distances([histograms.histogram_of(part) for part in parts])
    cost: Any = 0.0
    excess: Any = 0.0
    for costs, excesses in blocks:
        for row, wide in zip(costs, excesses, strict=True):  # one after the other: blocks do not change the sum
            cost, excess = cost + row, excess + wide
    moved = np.array([rounding_of_points(part, layout, 1) for part in parts])
    i, j = np.triu_indices(len(parts), 1)
    both = moved if len(parts) == 1 else moved[i] + moved[j]
    return cost / layout.n_projections, excess / layout.n_projections + both + rounding_of_solver(0.0, 1)


def _transport_distance(parts: Sequence[Bins], layout: Layout, p: float) -> SketchDistance:
    root = p > LARGEST_PLAIN_ORDER
    if native.available:
        measures = [native_sketches.histogram(*histograms.cells_of(part)) for part in parts]
        y = measures[1] if len(measures) == 2 else None
        costs, *rest = native_sketches.transport_distances(measures[0], y, p, root, layout.n_projections)
        displacements = Displacements(*rest)
    else:
        costs, displacements = histograms.transport_distances(
            [histograms.histogram_of(part) for part in parts], p, root
        )
    value = float(power_mean(costs, p)) if root else power_root(float(np.mean(costs)), p)
    bound = first_order(displacements, layout.bins, p)
    if p == 2:
        bound = min(bound, second_order(value, displacements, layout.bins))
    bound += sum(rounding_of_points(part, layout, p) for part in parts) + rounding_of_solver(value, p)
    return SketchDistance(value, bound, p)
