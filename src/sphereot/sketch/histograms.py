"""Histograms on great circles as masses and mean offsets, and their distances with the array API.

The compiled kernel computes the same distances faster, and for p = 2 a smaller bound (cpp/sketch/transport.hpp).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.array_api import backend as array_api
from sphereot._backends.array_api.circle import row_distances
from sphereot._backends.protocol import Measure
from sphereot.sketch.bins import Bins
from sphereot.sketch.bounds import Displacements
from sphereot.sketch.fixed_point import to_float
from sphereot.sketch.layout import OFFSET_BITS

__all__ = ["Histogram", "cells_of", "histogram_of", "level_distances", "transport_distances"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Histogram:
    """A measure on L great circles.

    Attributes
    ----------
    mass : array, shape (L, B)
        Mass of each bin; the sum is 1 on each circle.
    offset : array, shape (L, B)
        Mean offset in the bin, in (0, 1); 1/2 where it is empty.
    spread : array, shape (L, B)
        The largest variance that the offsets can have, o (1 - o); 0 for a bin of a single point.
    """

    mass: Floats
    offset: Floats
    spread: Floats


def cells_of(bins: Bins) -> tuple[NDArray[Any], NDArray[Any]]:
    """Masses and moments (L, B) of a sketch of one group: integers, or float64 with weights."""
    if bins.weighted:
        return to_float(bins.mass[0]), to_float(bins.moment[0])
    return bins.mass[0, 0], bins.moment[0, 0]


def histogram_of(bins: Bins) -> Histogram:
    """Histogram of a sketch of one group."""
    mass, moment = (to_float(array[0]) for array in (bins.mass, bins.moment))
    offset = np.divide(moment, mass, out=np.full_like(mass, 0.5), where=mass > 0)
    if not bins.weighted:
        offset = np.where(mass > 0, offset / (1 << OFFSET_BITS), offset)
    offset = np.where(mass > 0, np.minimum(offset + 0.5 / (1 << OFFSET_BITS), 1.0), offset)
    single = (mass == 0) | ((mass == 1) & (not bins.weighted))
    spread = np.where(single, 0.0, offset * (1 - offset))
    return Histogram(mass / np.sum(mass, axis=1, keepdims=True), offset, spread)


def _levels(histogram: Histogram) -> tuple[Floats, Floats, Floats]:
    """Cumulative masses before and after each bin, and the mean over the bin of the cumulative distribution."""
    after = np.minimum(np.cumsum(histogram.mass, axis=1), 1.0)
    before = after - histogram.mass
    return before, after, before + histogram.mass * (1 - histogram.offset)


def level_distances(parts: Sequence[Histogram]) -> Iterator[tuple[Floats, Floats]]:
    """As `sphereot._backends.native.sketches.level_distances`: W_1 is in [cost, cost + excess]."""
    if len(parts) == 1:
        bins = parts[0].mass.shape[1]
        even = np.full_like(parts[0].mass, 1.0 / bins)
        parts = [parts[0], Histogram(even, np.full_like(even, 0.5), np.zeros_like(even))]
    levels = [_levels(part) for part in parts]
    pairs = [_level_distance(levels[i], levels[j]) for i in range(len(levels)) for j in range(i + 1, len(levels))]
    yield np.stack([cost for cost, _ in pairs], axis=1), np.stack([excess for _, excess in pairs], axis=1)


def _level_distance(x: tuple[Floats, Floats, Floats], y: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats]:
    gap = x[2] - y[2]
    bins = gap.shape[1]
    alpha = np.partition(gap, bins // 2, axis=1)[:, bins // 2, None]
    # D - alpha is between -below and above in a bin, and has this mean.
    below, above, mean = alpha - (x[0] - y[1]), (x[1] - y[0]) - alpha, gap - alpha
    both = np.minimum(below * (above - mean), above * (below + mean))
    crossing = (below > 0) & (above > 0) & (both > 0)
    excess = np.divide(2 * both, below + above, out=np.zeros_like(both), where=crossing)
    return np.sum(np.abs(mean), axis=1) / bins, np.sum(excess, axis=1) / bins


def transport_distances(parts: Sequence[Histogram], p: float, root: bool) -> tuple[Floats, Displacements]:
    """W_p^p, or W_p with `root`, on each great circle between atoms at the bin means, and their displacements.

    One histogram is compared with the uniform measure. The ranges for p = 2 are those of any cut: the largest value of
    mass and o (1 - o).
    """
    bins = parts[0].mass.shape[1]
    measures = [Measure((np.arange(bins) + part.offset) / bins, part.mass) for part in parts]
    costs: Floats = row_distances(measures, p) if root else array_api.circle_costs(measures, p)
    moved = []
    for part in parts:
        o = part.offset
        largest = np.where(part.spread > 0, (1 - o) * o**p + o * (1 - o) ** p, 0.0)
        moved.append(np.sum(part.mass * largest, axis=1))
    if len(parts) == 1:
        ranges = np.sum(parts[0].mass ** 2 * parts[0].spread, axis=1)
        return costs, Displacements(moved[0], np.zeros_like(costs), ranges)
    ranges = np.sum([np.max(part.mass * part.spread, axis=1) for part in parts], axis=0)
    return costs, Displacements(moved[0], moved[1], ranges)
