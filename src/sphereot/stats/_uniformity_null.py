"""The distribution of n SSW_2^2 to the uniform distribution, for n independent uniform points.

As n grows it tends to sum_l lambda_l chi2(m_l), with the eigenvalues of the kernel K_d and their multiplicities. For
every n the mean is 1/12, as that of the limit, and the variance 1 - 1/n times that of the limit. So the distribution
for n points is taken to be the limit, scaled about its mean; for two points it is known exactly.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sphereot._support.uniform_kernel import gegenbauer_eigenvalues, kernel_value
from sphereot.stats._weighted_chi2 import WeightedChiSquares

__all__ = ["limit_distribution", "null_distribution", "null_tail_probability"]

_DEGREES = 4096  # weights of higher degree change the variance by 1e-9 of itself at most
_SKEWNESS_OF_REMAINDER = 1e-9


@lru_cache(maxsize=64)
def limit_distribution(dim: int) -> WeightedChiSquares:
    """The limit of n SSW_2^2 for uniform points on S^{d-1}, as n grows."""
    spectrum = gegenbauer_eigenvalues(dim, _DEGREES)
    squares = spectrum.eigenvalues * spectrum.shares
    # The remainder has the right mean and variance; its third cumulant is less than what would change a probability.
    cubes_beyond = np.cumsum((squares * spectrum.eigenvalues)[::-1])[::-1]
    count = int(np.argmax(8 * cubes_beyond < _SKEWNESS_OF_REMAINDER * (2 * np.sum(squares)) ** 1.5))
    return WeightedChiSquares.with_remainder(
        spectrum.eigenvalues[:count],
        spectrum.multiplicities[:count],
        mean=1 / 12 - float(np.sum(spectrum.shares[:count])),
        variance=2.0 * float(np.sum(squares[count:])),
    )


def null_distribution(n: int, dim: int) -> WeightedChiSquares:
    """The distribution of n SSW_2^2 for n uniform points: the limit with the variance that n points have.

    Parameters
    ----------
    n : int
        Number of points, at least 2.
    dim : int
        Dimension d of the space around the sphere, at least 2.

    Returns
    -------
    WeightedChiSquares
    """
    return limit_distribution(dim).scaled_about_mean(math.sqrt(1 - 1 / n))


def null_tail_probability(statistic: float, n: int, dim: int) -> float:
    """The probability that n SSW_2^2 is at least `statistic`, for n uniform points on S^{d-1}.

    Exact for n = 2, an approximation from n = 3 on: `docs/uniformity.md` has the levels that were measured.

    Parameters
    ----------
    statistic : float
        n SSW_2^2, the sum of K_d over all pairs (i, j), i = j included, over n.
    n : int
        Number of points, at least 2.
    dim : int
        Dimension d of the space around the sphere, at least 2.

    Returns
    -------
    float

    Examples
    --------
    The critical value of Watson's U^2 at 5 %, for many points:

    >>> round(null_tail_probability(0.187, 10**6, 2), 3)
    0.05
    """
    if n == 2:
        return _probability_of_angle(_angle_of_value(statistic - 1 / 12, dim), dim)
    return null_distribution(n, dim).survival(statistic)


def _angle_of_value(value: float, dim: int) -> float:
    """The angle at which K_d, which falls, has the value; 0 or pi beyond its range."""
    low, high = 0.0, math.pi
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float(kernel_value(np.array(math.sin(middle / 2) ** 2), dim)) > value:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _probability_of_angle(angle: float, dim: int) -> float:
    """The probability that two uniform points have at most this angle."""
    if angle > math.pi / 2:
        return 1.0 - _probability_of_angle(math.pi - angle, dim)
    nodes, weights = _unit_interval_rule(dim)
    total = _sine_powers(nodes * (math.pi / 2), dim) @ weights * (math.pi / 2)
    return float(0.5 * (_sine_powers(nodes * angle, dim) @ weights) * angle / total)


def _sine_powers(angles: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    powers: NDArray[np.float64] = np.sin(angles) ** (dim - 2)
    return powers


def _unit_interval_rule(dim: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights on [0, 1], of the tanh-sinh rule: sin^(d-2) may be concentrated at the end."""
    step = min(0.05, 0.3 / math.sqrt(dim))
    u = np.arange(-3.2, 3.2 + step / 2, step)
    nodes = 1 / (1 + np.exp(-math.pi * np.sinh(u)))
    return nodes, step * math.pi * np.cosh(u) * nodes * (1 - nodes)
