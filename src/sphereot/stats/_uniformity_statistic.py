"""SSW_2^2 of a sample to the uniform distribution, as the mean over all great circles, for samples of every size.

Up to `MAX_POINTS_IN_PAIRS` points it is the exact double sum over pairs; on the circle, one slice. For larger samples
it is estimated, with a standard error, by the more precise of two ways:

- Great circles in independent groups. Their error, relative to the spread under uniformity, grows with the dimension.
- Harmonics and blocks of pairs, for many dimensions. The parts of degrees 1 and 2, which have nearly all of the spread
  there, are those of Rayleigh's and Bingham's statistics: exact for the whole sample. The rest is a mean over the pairs
  within random blocks of points.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure
from sphereot._support.uniform_kernel import LARGEST, gegenbauer_eigenvalues
from sphereot.distance.replicates import mean_and_error
from sphereot.slicing.circles import great_circles
from sphereot.stats._classical import bingham, rayleigh

__all__ = ["MAX_POINTS_IN_PAIRS", "UniformStatistic", "uniform_statistic"]

MAX_POINTS_IN_PAIRS = 20_000
GROUPS, CIRCLES_PER_GROUP = 8, 128
# Standard error of so many circles over the null's deviation, as measured, is about this times the root of d.
_ERROR_OF_CIRCLES = 0.018
_PAIRS_IN_BLOCKS = 500_000_000
_LEAST_BLOCKS = 16
_DEGREES = 64  # of the harmonics that are looked at; only their order of magnitude matters


class UniformStatistic(NamedTuple):
    """SSW_2^2 to the uniform distribution.

    Attributes
    ----------
    value : float
        SSW_2^2.
    standard_error : float
        Of `value`; 0 where it is exact.
    slice_costs : array, shape (L,)
        W_2^2 on the great circles that were used; none for sums over pairs.
    frames : array, shape (L, d, 2)
        These great circles.
    """

    value: float
    standard_error: float
    slice_costs: NDArray[np.float64]
    frames: NDArray[np.floating[Any]]


def uniform_statistic(points: NDArray[Any], generator: np.random.Generator) -> UniformStatistic:
    """SSW_2^2 of validated points (n, d); only more than `MAX_POINTS_IN_PAIRS` of them need random numbers."""
    n, dim = points.shape
    if dim == 2:
        # All great circles of a circle are the circle itself, and the cost does not depend on the frame.
        frames = np.eye(2)[None]
        costs = _slice_costs(points.astype(np.float64, copy=False), frames)
        return UniformStatistic(float(costs[0]), 0.0, costs, frames)
    if n <= MAX_POINTS_IN_PAIRS:
        # In double precision: the statistic, n times the cost, would show rounding that is alike for all pairs.
        value = float(backend_for(points).pair_cost(Measure(points.astype(np.float64, copy=False))))
        return UniformStatistic(value, 0.0, np.empty(0), np.empty((0, dim, 2)))
    return _by_circles(points, generator) if _circles_are_better(n, dim) else _by_blocks(points, generator)


def _circles_are_better(n: int, dim: int) -> bool:
    spectrum = gegenbauer_eigenvalues(dim, _DEGREES)
    variances = spectrum.eigenvalues * spectrum.shares
    rest = math.sqrt(float(np.sum(variances[2:]) / np.sum(variances)))
    error_of_blocks: float = rest * math.sqrt(n / _block_size(n))
    return error_of_blocks > _ERROR_OF_CIRCLES * math.sqrt(dim)


def _by_circles(points: NDArray[Any], generator: np.random.Generator) -> UniformStatistic:
    dim = points.shape[1]
    groups = [great_circles(CIRCLES_PER_GROUP, dim, method="quasi", seed=generator) for _ in range(GROUPS)]
    costs = np.stack([_slice_costs(points, frames.astype(points.dtype)) for frames in groups])
    value, error = mean_and_error(np.ones(GROUPS), costs.mean(axis=1))
    return UniformStatistic(float(value), float(error), costs.reshape(-1), np.concatenate(groups))


def _by_blocks(points: NDArray[Any], generator: np.random.Generator) -> UniformStatistic:
    n, dim = points.shape
    # At random, because the points of a file may be in an order.
    blocks = np.array_split(generator.permutation(n), max(1, n // _block_size(n)))
    rests = []
    for indices in blocks:
        block = points[indices].astype(np.float64)
        rests.append(float(backend_for(block).pair_cost(Measure(block), unbiased=True)) - _first_degrees(block))
    mean, deviation = float(np.mean(rests)), float(np.std(rests, ddof=1))
    # Without the pairs of a point with itself, as the means within blocks; then with them.
    unbiased = _first_degrees(points) + mean
    return UniformStatistic(
        LARGEST / n + (1 - 1 / n) * unbiased,
        (1 - 1 / n) * deviation / math.sqrt(len(blocks)),
        np.empty(0),
        np.empty((0, dim, 2)),
    )


def _block_size(n: int) -> int:
    return max(2, min(2 * _PAIRS_IN_BLOCKS // n, n // _LEAST_BLOCKS))


def _first_degrees(points: NDArray[Any]) -> float:
    """The part of degrees 1 and 2 of SSW_2^2, without the pairs of a point with itself."""
    n, dim = points.shape
    first, second = map(float, gegenbauer_eigenvalues(dim, 2).eigenvalues)
    centered = first * (rayleigh(points) - dim) + second * (bingham(points) - (dim - 1) * (dim + 2) / 2)
    per_pair: float = centered / (n - 1)
    return per_pair


def _slice_costs(points: NDArray[Any], frames: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(backend_for(points).slice_costs([Measure(points)], frames, 2.0), dtype=np.float64)
