"""Statistics that are equal in exact arithmetic, but not after rounding: they must count as equal in a test.

A p-value counts the values of the null sample that are at least the observed one. Where symmetry makes values equal,
rounding would decide that count. Setting ties to the observed value can only raise a p-value, so a test keeps its
level; and the tolerances here are far below the spread of a null sample that has any, so that it keeps its power.
"""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["cost_tolerance", "p_value", "standardized", "with_ties"]

# A turn is rounded when its point is projected, and again to the grid: a few units each, for two atoms of a pair.
_UNITS = 16
# A null sample with a smaller spread, relative to its mean, has none but rounding, in float32 too.
_NO_SPREAD = 1e-5


def cost_tolerance(rounding: float, p: float, terms: int) -> float:
    """The relative difference that rounding explains between two equal values of SSW_p^p.

    `rounding` is the unit of rounding of the points' floating type: a distance that is off by a relative e makes the
    cost (1 - e)^p of what it should be. A sum of `terms` nonnegative numbers adds at most one unit of float64 for each.
    """
    return -math.expm1(p * math.log1p(-_UNITS * rounding)) + terms * float(np.finfo(np.float64).eps)


def with_ties(null: NDArray[np.float64], observed: float, tolerance: float) -> NDArray[np.float64]:
    """The null sample, with values that are within the relative tolerance of the observed one set to it.

    >>> with_ties(np.array([0.1, 0.3 - 1e-16, 0.5]), 0.3, 1e-15)
    array([0.1, 0.3, 0.5])
    """
    return np.where(np.abs(null - observed) <= tolerance * abs(observed), observed, null)


def p_value(observed: float, null: NDArray[np.float64]) -> float:
    """(1 + number of values at least as large as the observed one) / (1 + number of values)."""
    return (1 + int(np.sum(null >= observed))) / (1 + len(null))


def standardized(value: float, mean: float, deviation: float) -> float:
    """By how many standard deviations a value exceeds the mean; 0 for a tie with a null sample that has no spread.

    >>> standardized(3.0, 2.0, 0.5), standardized(2.0, 2.0, 0.0), standardized(2.0, 2.0 + 4e-16, 4e-16)
    (2.0, 0.0, 0.0)
    """
    if deviation > _NO_SPREAD * abs(mean):
        return (value - mean) / deviation
    if abs(value - mean) <= _NO_SPREAD * abs(mean):
        return 0.0
    return math.copysign(math.inf, value - mean)
