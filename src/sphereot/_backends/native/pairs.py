"""SSW_2 to the uniform distribution without slices, by the kernel: all pairs of points, each once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.native.calls import kernel, threads_for
from sphereot._backends.native.wanted import Gradient, Wanted
from sphereot._backends.protocol import Measure
from sphereot._support.uniform_kernel import LARGEST, variance_polynomials

__all__ = ["pair_cost", "pair_gradients"]

# Each group of tiles has gradients of its own, (n, d), which are added up at the end.
MAX_GROUPS = 16
GROUP_BYTES = 32 << 20
TILE_SIZE = 64
PAIRS_PER_POINT = 4  # as many pairs take about the time in which the kernel sorts one point


def pair_cost(measure: Measure, *, unbiased: bool = False) -> Any:
    """SSW_2^2 to the uniform distribution: the double sum of K_d, in the dtype of the points."""
    value, _ = pair_gradients(measure, Wanted(False, False), unbiased=unbiased)
    return measure.points.dtype.type(value)


def pair_gradients(measure: Measure, wanted: Wanted, *, unbiased: bool = False) -> tuple[float, Gradient]:
    """`pair_cost` with its gradients in points and weights; None where not wanted."""
    x, raw_weights = np.ascontiguousarray(measure.points), measure.weights
    n, dim = x.shape
    smooth, logarithmic = (
        np.asarray(coefficients) / (8 * np.pi**2) for coefficients in variance_polynomials(dim, x.dtype == np.float64)
    )
    total = 1.0 if raw_weights is None else float(np.sum(raw_weights, dtype=np.float64))
    weights = None if raw_weights is None else np.asarray(raw_weights, np.float64) / total
    gradient = np.empty_like(x) if wanted.points else None
    potentials = np.empty(n) if wanted.weights else None
    groups = _groups(n, dim, x.itemsize) if wanted.points else min(MAX_GROUPS, -(-n // TILE_SIZE))
    threads = threads_for(n * n // PAIRS_PER_POINT)
    cost = kernel().sum_pairs(x, weights, smooth, logarithmic, groups, threads, gradient, potentials)
    shares = np.full(n, 1.0 / n) if weights is None else weights
    squares = float(np.sum(shares * shares))
    slope = None if potentials is None else 2 * potentials
    if unbiased:
        # Without the terms i = j, which are known, and scaled to a total weight of 1.
        rest = 1.0 - squares
        cost = (cost - LARGEST * squares) / rest
        gradient = None if gradient is None else gradient / x.dtype.type(rest)
        slope = None if slope is None else (slope - 2 * shares * (LARGEST - cost)) / rest
    return cost, (gradient, None if slope is None else _of_raw_weights(slope, shares, total))


def _of_raw_weights(slope: NDArray[np.float64], shares: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The gradient in weights of any total, from the one in weights of total 1."""
    centered: NDArray[np.float64] = (slope - np.sum(shares * slope)) / total
    return centered


def _groups(n: int, dim: int, itemsize: int) -> int:
    """The number of partial sums. It depends on sizes alone, so that threads cannot change a result."""
    tiles = -(-n // TILE_SIZE)
    by_memory = max(2, GROUP_BYTES // (n * dim * itemsize))
    return int(min(max(2, tiles // 4), MAX_GROUPS, by_memory, tiles * (tiles + 1) // 2))
