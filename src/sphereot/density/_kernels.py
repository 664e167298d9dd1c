"""Building blocks of kernel density estimates: blocks of pairs, sums of exponentials, a search for a maximum."""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy

__all__ = ["COINCIDENT", "log_sum_exp", "log_sum_exp_in_single", "maximizer", "normalized_float64", "row_blocks"]

COINCIDENT = 1e-14  # 1 - cosine: points closer than 1.4e-7 radians are at one location
_BLOCK_ENTRIES = 2**19  # of the matrix of points against points: 4 MB


def normalized_float64(points: Array) -> NDArray[np.float64]:
    """Points as a NumPy array, normalized in float64: a large kappa would show the rounding of lengths in float32."""
    values = to_numpy(points).astype(np.float64)
    normalized: NDArray[np.float64] = values / np.linalg.norm(values, axis=1, keepdims=True)
    return normalized


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Blocks of rows of a matrix whose number of entries is bounded."""
    step = max(1, _BLOCK_ENTRIES // n_columns)
    return (slice(start, start + step) for start in range(0, n_rows, step))


def log_sum_exp(exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of the sum of exponentials in each row; overwrites `exponents`."""
    largest = exponents.max(axis=1, keepdims=True)
    exponents -= largest
    np.exp(exponents, out=exponents)
    total: NDArray[np.float64] = largest[:, 0] + np.log(exponents.sum(axis=1))
    return total


def log_sum_exp_in_single(exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Like `log_sum_exp` with exponentials in float32, to 1e-6 and several times faster; overwrites `exponents`.

    The largest exponent is subtracted in float64: a term that counts has a small difference, which float32 resolves.
    """
    largest = exponents.max(axis=1, keepdims=True)
    exponents -= largest
    terms = exponents.astype(np.float32)
    np.exp(terms, out=terms)
    total: NDArray[np.float64] = largest[:, 0] + np.log(terms.sum(axis=1, dtype=np.float64))
    return total


def maximizer(function: Callable[[float], float], low: float, high: float) -> float:
    """Maximizer of a function with one peak in [low, high], by golden-section search to 0.01."""
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > 0.01:
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(right)
    return (low + high) / 2
