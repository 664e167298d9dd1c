"""Ties: statistics that are equal in exact arithmetic must count as equal after rounding too.

A p-value counts the values of the null sample that are at least the observed one. Where symmetry makes values equal,
that count would depend on rounding. Setting ties to the observed value can only raise a p-value, so a test keeps its
level. The tolerances are far below the spread of a null sample that has any spread, so it keeps its power.
"""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["cost_tolerance", "p_value", "standardized", "with_ties"]

# A turn is rounded when its point is projected, and again to the grid: a few units each, for two atoms of a pair.
_UNITS = 16
# A spread below this fraction of the mean is rounding, in float32 too.
_NO_SPREAD = 1e-5


def cost_tolerance(rounding: float, p: float, terms: int) -> float:
    """Largest relative difference that rounding makes between two equal values of SSW_p^p.

    `rounding` is the machine epsilon of the points' dtype: a distance with relative error e gives (1 - e)^p times the
    cost. A sum of `terms` nonnegative numbers adds at most one epsilon of float64 for each.
    """
    return -math.expm1(p * math.log1p(-_UNITS * rounding)) + terms * float(np.finfo(np.float64).eps)


def with_ties(null: NDArray[np.float64], observed: float, tolerance: float) -> NDArray[np.float64]:
    """The null sample, with values within the relative tolerance of the observed value set to it.

    >>> with_ties(np.array([0.1, 0.3 - 1e-16, 0.5]), 0.3, 1e-15)
    array([0.1, 0.3, 0.5])
    """
    return np.where(np.abs(null - observed) <= tolerance * abs(observed), observed, null)


def p_value(observed: float, null: NDArray[np.float64]) -> float:
    """P-value (1 + number of null values of at least `observed`) / (1 + number of null values)."""
    return (1 + int(np.sum(null >= observed))) / (1 + len(null))


def standardized(value: float, mean: float, deviation: float) -> float:
    """(value - mean) / deviation; if the deviation is 0, 0 for value = mean and infinity with its sign otherwise.

    >>> standardized(3.0, 2.0, 0.5), standardized(2.0, 2.0, 0.0), standardized(2.0, 2.0 + 4e-16, 4e-16)
    (2.0, 0.0, 0.0)
    """
    if deviation > _NO_SPREAD * abs(mean):
        return (value - mean) / deviation
    if abs(value - mean) <= _NO_SPREAD * abs(mean):
        return 0.0
    return math.copysign(math.inf, value - mean)
