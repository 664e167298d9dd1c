"""Quantiles of Student's t distribution, for intervals from a few replicates."""

import math
from statistics import NormalDist

from sphereot._support.bisection import bisect

__all__ = ["t_quantile"]

_LARGEST_SUM = 200  # Beyond, the expansion in 1 / degrees of freedom has an error below 1e-7.


def t_quantile(level: float, degrees_of_freedom: int) -> float:
    """The t with P(|T| <= t) = `level`, for T with an integer number of degrees of freedom.

    >>> round(t_quantile(0.95, 7), 4)
    2.3646
    """
    if degrees_of_freedom > _LARGEST_SUM:
        return _expansion(-NormalDist().inv_cdf((1 - level) / 2), degrees_of_freedom)
    angle = bisect(lambda theta: _probability(theta, degrees_of_freedom) - level, 0.0, math.pi / 2)
    return math.sqrt(degrees_of_freedom) * math.tan(angle)


def _probability(theta: float, degrees_of_freedom: int) -> float:
    """P(|T| <= sqrt(dof) tan(theta)), a finite sum of powers of cos(theta) (Abramowitz and Stegun, 26.7.3 and 4)."""
    sine, cosine = math.sin(theta), math.cos(theta)
    is_odd = degrees_of_freedom % 2 == 1
    total, term = 0.0, cosine if is_odd else 1.0
    for k in range(2 + is_odd, degrees_of_freedom + 1, 2):
        total += term
        term *= cosine * cosine * (k - 1) / k
    return 2 / math.pi * (theta + sine * total) if is_odd else sine * total


def _expansion(z: float, degrees_of_freedom: int) -> float:
    """Cornish and Fisher's expansion about the normal quantile."""
    inverse = 1 / degrees_of_freedom
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term * inverse**k for k, term in enumerate(terms))
