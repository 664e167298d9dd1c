"""Error bounds of distances between sketches (docs/sketch.md has the proofs).

All bounds are of |SSW_p(sketches) - SSW_p(points)| on the great circles of the sketch, in turns.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sphereot.sketch.bins import Bins
from sphereot.sketch.fixed_point import WEIGHT_UNIT, to_float
from sphereot.sketch.layout import Layout

__all__ = ["Displacements", "first_order", "power_root", "rounding_of_points", "rounding_of_solver", "second_order"]

# The solvers round cumulative masses: at most this much mass is matched with a wrong atom, half a turn away.
MASS_ERROR = 2.0**-38

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Displacements:
    """How far the points of both measures can be from the means of their bins, on each great circle.

    Attributes
    ----------
    x, y : array, shape (L,)
        The largest W_p^p between a measure and its bin means, in widths of a bin; 0 for the uniform measure.
    ranges : array, shape (L,)
        For p = 2, the sum over bins of mass, o (1 - o) and range of partners, of both measures.
    """

    x: Floats
    y: Floats
    ranges: Floats


def power_root(mean: float, p: float) -> float:
    """The p-th root of a number that is not negative, up to rounding."""
    return float(max(mean, 0.0) ** (1.0 / p))


def rounding_of_points(bins: Bins, layout: Layout, p: float) -> float:
    """Bound of SSW_p between the points of a sketch of one group, and the same points as their bins know them.

    It covers the rounding of coordinates, turns, offsets and weights; points near the poles of a circle move farther.
    """
    near = to_float(bins.near[0])  # (L, 3)
    total = float(np.sum(to_float(bins.mass[0])[0]))
    shares = -np.diff(np.concatenate([np.full((len(near), 1), total), near, np.zeros((len(near), 1))], axis=1)) / total
    moved = layout.displacements()
    largest = float(np.max(moved[shares.T > 0]))
    bound = largest * power_root(float(np.mean(np.sum(shares.T * (moved / largest) ** p, axis=0))), p)
    if bins.weighted:
        bound += 0.5 * power_root(float(bins.n[0]) * WEIGHT_UNIT / total, p)
    return bound


def rounding_of_solver(value: float, p: float) -> float:
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


def first_order(displacements: Displacements, bins: int, p: float) -> float:
    """Triangle inequality: SSW_p between each measure and its bin means, by Minkowski's inequality over slices."""
    return sum(power_root(float(np.mean(part)), p) for part in (displacements.x, displacements.y)) / bins


def second_order(value: float, displacements: Displacements, bins: int) -> float:
    """Bound for p = 2 by the dual potentials: SSW_2^2 is between value^2 - below and value^2 + above."""
    width = 1.0 / bins
    below = 2 * width * float(np.mean(displacements.ranges))
    above = below + width**2 * float(np.mean((np.sqrt(displacements.x) + np.sqrt(displacements.y)) ** 2))
    return max(power_root(value**2 + above, 2) - value, value - power_root(value**2 - below, 2))
