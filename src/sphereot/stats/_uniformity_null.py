"""Distributions of statistics of uniformity for n independent uniform points, without simulation.

n SSW_2^2 and the statistics of Rayleigh, Bingham and Giné are Sobolev statistics: mean values of a kernel over all
pairs of points. As n grows they tend to sum_l lambda_l chi2(m_l), with the eigenvalues of the kernel and their
multiplicities. For every n the mean is that of the limit, and the variance 1 - 1/n times that of the limit. So the
distribution of n SSW_2^2 and of Giné's statistic is taken to be the limit, scaled about its mean. For Rayleigh's and
Bingham's, whose limits are chi-square, there are corrections of the order 1/n (Jupp, 2001), which are closer.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sphereot._support.uniform_kernel import gegenbauer_eigenvalues, kernel_value
from sphereot.stats._weighted_chi2 import WeightedChiSquares

__all__ = [
    "bingham_tail_probability",
    "gine_limit",
    "gine_tail_probability",
    "limit_distribution",
    "null_distribution",
    "null_tail_probability",
    "rayleigh_tail_probability",
]

_DEGREES = 4096  # weights of higher degree change the variance by 1e-9 of itself at most
_SKEWNESS_OF_REMAINDER = 1e-9
_SMALLEST = math.ulp(0.0)  # a probability that is not 0 is given as at least this


@lru_cache(maxsize=64)
def limit_distribution(dim: int) -> WeightedChiSquares:
    """The limit of n SSW_2^2 for uniform points on S^{d-1}, as n grows."""
    spectrum = gegenbauer_eigenvalues(dim, _DEGREES)
    return _sobolev_limit(spectrum.eigenvalues, spectrum.multiplicities, spectrum.shares, mean=1 / 12)


@lru_cache(maxsize=64)
def gine_limit(dim: int) -> WeightedChiSquares:
    """The limit of Giné's statistic for uniform points on S^{d-1}, as n grows.

    The kernel is 2/pi arcsin(cos) + 1/2 - sin / (2 E sin) of the angle. Its odd part is 16 times that of K_d. The
    eigenvalue of sin for the degree l = 2 j is E sin (-1/2)_j (1/2)_j / ((d/2 + 1/2)_j (d/2 - 1/2)_j).
    """
    spectrum = gegenbauer_eigenvalues(dim, _DEGREES)
    j = np.arange(1, _DEGREES // 2 + 1)
    # By logarithms, like the eigenvalues of K_d: in many dimensions they are less than any float. The first factor,
    # with the minus sign of the kernel, is 1/4 / ((d + 1)/2 (d - 1)/2).
    ratios = np.concatenate([[0.5], j[1:] - 1.5]) * (j - 0.5) / ((j + (dim - 1) / 2) * (j + (dim - 3) / 2))
    log_even = np.cumsum(np.log(ratios)) - math.log(2.0)
    # Degrees whose eigenvalue of K_d is less than any float contribute nothing here either.
    none = np.full(_DEGREES, np.inf)
    log_multiplicities = np.log(spectrum.shares) - np.log(
        spectrum.eigenvalues, out=none, where=spectrum.eigenvalues > 0
    )
    eigenvalues, shares = 16.0 * spectrum.eigenvalues, 16.0 * spectrum.shares
    eigenvalues[1::2] = np.exp(log_even)
    shares[1::2] = np.exp(log_even + log_multiplicities[1::2])
    return _sobolev_limit(eigenvalues, spectrum.multiplicities, shares, mean=1.5)


def _sobolev_limit(
    eigenvalues: NDArray[np.float64],
    multiplicities: NDArray[np.float64],
    shares: NDArray[np.float64],
    mean: float,
) -> WeightedChiSquares:
    """sum_l lambda_l chi2(m_l) with this mean: the first degrees one by one, and a gamma variable for the others."""
    squares = eigenvalues * shares
    # The remainder has the right mean and variance; its third cumulant is less than what would change a probability.
    cubes_beyond = np.cumsum((squares * eigenvalues)[::-1])[::-1]
    count = int(np.argmax(8 * cubes_beyond < _SKEWNESS_OF_REMAINDER * (2 * np.sum(squares)) ** 1.5))
    return WeightedChiSquares.with_remainder(
        eigenvalues[:count],
        multiplicities[:count],
        mean=mean - float(np.sum(shares[:count])),
        variance=2.0 * float(np.sum(squares[count:])),
    )


def null_distribution(n: int, dim: int, standard_error: float = 0.0) -> WeightedChiSquares:
    """The distribution of n SSW_2^2 for n uniform points: the limit with the variance that n points have.

    Parameters
    ----------
    n : int
        Number of points, at least 2.
    dim : int
        Dimension d of the space around the sphere, at least 2.
    standard_error : float
        Of an estimate of the statistic, whose variance is added.

    Returns
    -------
    WeightedChiSquares
    """
    limit = limit_distribution(dim)
    return limit.scaled_about_mean(math.sqrt(1 - 1 / n + standard_error**2 / limit.variance))


def null_tail_probability(statistic: float, n: int, dim: int, standard_error: float = 0.0) -> float:
    """The probability that n SSW_2^2 is at least `statistic`, for n uniform points on S^{d-1}.

    Exact for n = 1 and 2, an approximation from n = 3 on: `docs/uniformity.md` has the levels that were measured. A
    probability that is less than any float is given as the smallest one, 5e-324.

    Parameters
    ----------
    statistic : float
        n SSW_2^2, the sum of K_d over all pairs (i, j), i = j included, over n.
    n : int
        Number of points.
    dim : int
        Dimension d of the space around the sphere, at least 2.
    standard_error : float
        Of `statistic`, if it is an estimate.

    Returns
    -------
    float

    Examples
    --------
    The critical value of Watson's U^2 at 5 %, for many points:

    >>> round(null_tail_probability(0.187, 10**6, 2), 3)
    0.05
    """
    if n == 1:
        return 1.0
    if n == 2:
        return max(_SMALLEST, _probability_of_angle(_angle_of_value(statistic - 1 / 12, dim), dim))
    return max(_SMALLEST, null_distribution(n, dim, standard_error).survival(statistic))


def rayleigh_tail_probability(statistic: float, n: int, dim: int) -> float:
    """The probability that Rayleigh's statistic is at least `statistic`: chi-square with an error of order 1 / n^2."""
    corrected = (1 - 1 / (2 * n)) * statistic + statistic**2 / (2 * n * (dim + 2))
    return _chi_square_tail(corrected, dim)


def bingham_tail_probability(statistic: float, n: int, dim: int) -> float:
    """The probability that Bingham's statistic is at least `statistic`: chi-square with an error of order 1 / n^2.

    The correction is a cubic polynomial that falls for large values. Four standard deviations above the mean it goes
    on as a straight line.
    """
    freedom = (dim - 1) * (dim + 2) / 2
    divisor = 3 * (dim + 4) * (dim * dim + dim + 2)
    b0 = (2 * dim * dim + 3 * dim + 4) / (6 * (dim + 4))
    b1 = -(4 * dim * dim + 3 * dim - 4) / divisor
    b2 = 4 * (dim * dim - 4) / (divisor * (dim * dim + dim + 6))
    s = min(statistic, freedom + 4 * math.sqrt(2 * freedom))
    slope = max(0.0, 1 - (b0 + 2 * b1 * s + 3 * b2 * s * s) / n)
    corrected = s * (1 - (b0 + b1 * s + b2 * s * s) / n) + slope * (statistic - s)
    return _chi_square_tail(corrected, freedom)


def gine_tail_probability(statistic: float, n: int, dim: int) -> float:
    """The probability that Giné's statistic is at least `statistic`, for n uniform points."""
    return max(_SMALLEST, gine_limit(dim).scaled_about_mean(math.sqrt(1 - 1 / n)).survival(statistic))


def _chi_square_tail(x: float, freedom: float) -> float:
    return max(_SMALLEST, WeightedChiSquares(np.ones(1), np.array([freedom])).survival(x))


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
