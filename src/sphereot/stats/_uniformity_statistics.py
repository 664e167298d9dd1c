"""Statistics of uniformity on the sphere: SSW_2^2 to the uniform distribution, Rayleigh, Bingham and Giné.

SSW_2^2 is the mean over all great circles. Up to `MAX_POINTS_IN_PAIRS` points it is the exact double sum over pairs; on
the circle it is the cost on one great circle. For larger samples, the more precise of two methods estimates it: groups
of great circles, or harmonics and blocks of pairs; see :doc:`/background/uniformity`.

The classical statistics (Mardia and Jupp, Chapter 10) are scaled so that their distributions under uniformity hardly
depend on the number of points. Points are normalized in float64 first, because the statistics would show the rounding
of lengths in float32.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure
from sphereot._backends.uniform_kernel import LARGEST
from sphereot.distance.estimates import mean_and_error
from sphereot.slicing import great_circles
from sphereot.stats._kernel_spectrum import gegenbauer_eigenvalues
from sphereot.stats._uniformity_null import DEGREES, SMALLEST, WeightedChiSquares, sobolev_limit

MAX_POINTS_IN_PAIRS = 20_000
GROUPS, CIRCLES_PER_GROUP = 8, 128
# The standard error of all these circles over the null's deviation, as measured, is about this times the root of d.
_ERROR_OF_CIRCLES = 0.018
_PAIRS_IN_BLOCKS = 500_000_000
_LEAST_BLOCKS = 16
_FEW_DEGREES = 64  # of the harmonics that decide between the methods; only their order of magnitude matters
_PAIRS_PER_BLOCK = 1 << 22
_NUMBERS_PER_BLOCK = 1 << 22

Points = NDArray[np.floating[Any]]


class UniformStatistic(NamedTuple):
    """SSW_2^2 to the uniform distribution, its standard error (0 if it is exact), and the great circles that were used.

    `slice_costs` (L,) are W_2^2 on the great circles `frames` (L, d, 2); both are empty for sums over pairs.
    """

    value: float
    standard_error: float
    slice_costs: NDArray[np.float64]
    frames: NDArray[np.floating[Any]]


def uniform_statistic(points: Points, generator: np.random.Generator) -> UniformStatistic:
    """Compute SSW_2^2 of validated points (n, d). Only more than `MAX_POINTS_IN_PAIRS` points need random numbers."""
    n, dim = points.shape
    if dim == 2:
        # All great circles of a circle are the circle itself, and the cost does not depend on the frame.
        frames = np.eye(2)[None]
        costs = _slice_costs(points.astype(np.float64, copy=False), frames)
        return UniformStatistic(float(costs[0]), 0.0, costs, frames)
    if n <= MAX_POINTS_IN_PAIRS:
        # In double precision: the statistic, n times the cost, would show rounding that is the same for all pairs.
        value = float(backend_for(points).pair_cost(Measure(points.astype(np.float64, copy=False))))
        return UniformStatistic(value, 0.0, np.empty(0), np.empty((0, dim, 2)))
    spectrum = gegenbauer_eigenvalues(dim, _FEW_DEGREES)
    variances = spectrum.eigenvalues * spectrum.shares
    error_of_blocks = math.sqrt(float(np.sum(variances[2:]) / np.sum(variances)) * n / _block_size(n))
    circles_are_better = error_of_blocks > _ERROR_OF_CIRCLES * math.sqrt(dim)
    return estimate_by_circles(points, generator) if circles_are_better else estimate_by_blocks(points, generator)


def even_statistic(points: Points) -> float:
    """Compute the even part of SSW_2^2: the double sum of (K_d(gamma) + K_d(pi - gamma)) / 2 over pairs of points.

    On the circle it is a fourth of SSW_2^2 after all angles are doubled, because B2(2t) = 2 (B2(t) + B2(t + 1/2)).
    """
    points = points.astype(np.float64, copy=False)
    if points.shape[1] == 2:
        x, y = points.T
        doubled = np.stack([x * x - y * y, 2 * x * y], axis=1)
        return float(_slice_costs(doubled / np.linalg.norm(doubled, axis=1, keepdims=True), np.eye(2)[None])[0]) / 4
    backend, measure = backend_for(points), Measure(points)
    return float(backend.pair_cost(measure, even_weight=2.0)) - float(backend.pair_cost(measure))


def estimate_by_circles(points: Points, generator: np.random.Generator) -> UniformStatistic:
    """Estimate SSW_2^2 by independent groups of great circles."""
    dim = points.shape[1]
    groups = [great_circles(CIRCLES_PER_GROUP, dim, method="quasi", seed=generator) for _ in range(GROUPS)]
    costs = np.stack([_slice_costs(points, frames.astype(points.dtype)) for frames in groups])
    value, error = mean_and_error(np.ones(GROUPS), costs.mean(axis=1))
    return UniformStatistic(float(value), float(error), costs.reshape(-1), np.concatenate(groups))


def estimate_by_blocks(points: Points, generator: np.random.Generator) -> UniformStatistic:
    """Estimate SSW_2^2 by the degrees 1 and 2 of all points, and by pairs within blocks for all other degrees."""
    n, dim = points.shape
    # The blocks are random, because the points of a file may be sorted.
    blocks = np.array_split(generator.permutation(n), max(1, n // _block_size(n)))
    rests = []
    for indices in blocks:
        block = points[indices].astype(np.float64)
        rests.append(float(backend_for(block).pair_cost(Measure(block), unbiased=True)) - _first_degrees(block))
    mean, deviation = float(np.mean(rests)), float(np.std(rests, ddof=1))
    # Means within blocks leave out the pairs of a point with itself, which `value` contains.
    value = LARGEST / n + (1 - 1 / n) * (_first_degrees(points) + mean)
    error = (1 - 1 / n) * deviation / math.sqrt(len(blocks))
    return UniformStatistic(value, error, np.empty(0), np.empty((0, dim, 2)))


def _block_size(n: int) -> int:
    return max(2, min(2 * _PAIRS_IN_BLOCKS // n, n // _LEAST_BLOCKS))


def _first_degrees(points: Points) -> float:
    """Compute the part of degrees 1 and 2 of SSW_2^2, without the pairs of a point with itself."""
    n, dim = points.shape
    first, second = map(float, gegenbauer_eigenvalues(dim, 2).eigenvalues)
    centered = first * (rayleigh(points) - dim) + second * (bingham(points) - (dim - 1) * (dim + 2) / 2)
    return float(centered / (n - 1))


def _slice_costs(points: Points, frames: Points) -> NDArray[np.float64]:
    return np.asarray(backend_for(points).slice_costs([Measure(points)], frames, 2.0), dtype=np.float64)


def rayleigh(x: Points) -> float:
    """Compute the Rayleigh statistic d n |mean|^2, approximately chi-square with d degrees of freedom.

    It detects a mean direction only.
    """
    n, dim = x.shape
    mean = sum(np.sum(block, axis=0) for block in _unit_blocks(x)) / n
    return float(dim * n * (mean @ mean))


def bingham(x: Points) -> float:
    """Compute the Bingham statistic n d (d + 2) / 2 (tr(S^2) - 1/d), with S the mean of x x^T.

    It is approximately chi-square with (d - 1)(d + 2) / 2 degrees of freedom. It detects second moments only, such as
    those of points around an axis or in a band.
    """
    n, dim = x.shape
    scatter = sum(block.T @ block for block in _unit_blocks(x)) / n
    return float(n * dim * (dim + 2) / 2 * (np.sum(scatter * scatter) - 1 / dim))


def gine(x: Points) -> float:
    """Compute the Giné statistic F_n = 4 A_n + G_n. It detects every departure from uniformity.

    With psi_ij the angles of the pairs i < j, A_n = n/4 - sum of psi_ij / (pi n) is Ajne's statistic, and
    G_n = n/2 - (d - 1) / (2n) (Gamma((d-1)/2) / Gamma(d/2))^2 sum of sin(psi_ij).
    """
    n, dim = x.shape
    x = np.concatenate(list(_unit_blocks(x)))
    angles = sines = 0.0
    step = max(1, _PAIRS_PER_BLOCK // n)
    for start in range(0, n, step):
        cosines = np.clip(x[start : start + step] @ x[start:].T, -1.0, 1.0)
        np.copyto(cosines, 1.0, where=np.tri(*cosines.shape, dtype=np.bool_))  # an angle of 0 adds nothing
        angles += float(np.sum(np.arccos(cosines)))
        sines += float(np.sum(np.sqrt(1.0 - cosines * cosines)))
    ajne = n / 4 - angles / (math.pi * n)
    gamma_ratio = math.exp(math.lgamma((dim - 1) / 2) - math.lgamma(dim / 2))
    even = n / 2 - (dim - 1) / (2 * n) * gamma_ratio**2 * sines
    return float(4 * ajne + even)


def _unit_blocks(x: Points) -> Iterator[NDArray[np.float64]]:
    """Yield blocks of points in float64, of length 1."""
    step = max(1, _NUMBERS_PER_BLOCK // x.shape[1])
    for start in range(0, len(x), step):
        block = x[start : start + step].astype(np.float64)
        block /= np.linalg.norm(block, axis=1, keepdims=True)
        yield block


def rayleigh_tail_probability(statistic: float, n: int, dim: int) -> float:
    """Compute the probability of at least this statistic: chi-square, corrected to an error of order 1 / n^2."""
    corrected = (1 - 1 / (2 * n)) * statistic + statistic**2 / (2 * n * (dim + 2))
    return _chi_square_tail(corrected, dim)


def bingham_tail_probability(statistic: float, n: int, dim: int) -> float:
    """Compute the probability of at least this statistic: chi-square, corrected to an error of order 1 / n^2.

    The correction is a cubic polynomial up to four standard deviations above the mean, and then a straight line.
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
    """Compute the probability that Giné's statistic is at least `statistic`, for n uniform points."""
    return max(SMALLEST, gine_limit(dim).scaled_about_mean(math.sqrt(1 - 1 / n)).survival(statistic))


def _chi_square_tail(x: float, freedom: float) -> float:
    return max(SMALLEST, WeightedChiSquares(np.ones(1), np.array([freedom])).survival(x))


@lru_cache(maxsize=64)
def gine_limit(dim: int) -> WeightedChiSquares:
    """Return the limit of Giné's statistic for uniform points on S^{d-1}, as n grows.

    The kernel is 2/pi arcsin(cos) + 1/2 - sin / (2 E sin) of the angle. Its odd part is 16 times that of K_d. The
    eigenvalue of sin for the degree l = 2 j is E sin (-1/2)_j (1/2)_j / ((d/2 + 1/2)_j (d/2 - 1/2)_j).
    """
    spectrum = gegenbauer_eigenvalues(dim, DEGREES)
    j = np.arange(1, DEGREES // 2 + 1)
    # Logarithms, because in many dimensions the eigenvalues are smaller than any float. The first factor, with the
    # minus sign of the kernel, is 1/4 / ((d + 1)/2 (d - 1)/2).
    ratios = np.concatenate([[0.5], j[1:] - 1.5]) * (j - 0.5) / ((j + (dim - 1) / 2) * (j + (dim - 3) / 2))
    log_even = np.cumsum(np.log(ratios)) - math.log(2.0)
    # Degrees with an eigenvalue of K_d smaller than any float contribute nothing here either.
    logs = np.log(spectrum.eigenvalues, out=np.full(DEGREES, np.inf), where=spectrum.eigenvalues > 0)
    log_multiplicities = np.log(spectrum.shares) - logs
    eigenvalues, shares = 16.0 * spectrum.eigenvalues, 16.0 * spectrum.shares
    eigenvalues[1::2] = np.exp(log_even)
    shares[1::2] = np.exp(log_even + log_multiplicities[1::2])
    return sobolev_limit(eigenvalues, spectrum.multiplicities, shares, mean=1.5)


CLASSICAL: dict[str, tuple[Callable[[Points], float], Callable[[float, int, int], float]]] = {
    "Rayleigh": (rayleigh, rayleigh_tail_probability),
    "Bingham": (bingham, bingham_tail_probability),
    "Giné": (gine, gine_tail_probability),
}
"""The classical statistics of points, and their tail probabilities for a statistic, n and d."""
