"""Rayleigh, Bingham and Giné statistics of uniformity on the sphere (Mardia and Jupp, Chapter 10).

Each is scaled so that its distribution under uniformity hardly depends on the number of points. Points are normalized
in float64 first, block by block: the statistics would show the rounding of lengths in float32.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["bingham", "gine", "rayleigh"]

Points = NDArray[np.floating[Any]]

_PAIRS_PER_BLOCK = 1 << 22
_NUMBERS_PER_BLOCK = 1 << 22


def rayleigh(x: Points) -> float:
    """Rayleigh statistic d n |mean|^2, approximately chi-square with d degrees of freedom.

    It detects a mean direction and nothing else.
    """
    n, dim = x.shape
    mean = sum(np.sum(block, axis=0) for block in _unit_blocks(x)) / n
    return float(dim * n * (mean @ mean))


def bingham(x: Points) -> float:
    """Bingham statistic n d (d + 2) / 2 (tr(S^2) - 1/d), with S the mean of x x^T.

    It is approximately chi-square with (d - 1)(d + 2) / 2 degrees of freedom, and detects second moments alone, as of
    points around an axis or in a band.
    """
    n, dim = x.shape
    scatter = sum(block.T @ block for block in _unit_blocks(x)) / n
    return float(n * dim * (dim + 2) / 2 * (np.sum(scatter * scatter) - 1 / dim))


def gine(x: Points) -> float:
    """Giné statistic F_n = 4 A_n + G_n of the angles psi_ij of all pairs: it detects every departure from uniformity.

    A_n = n/4 - sum of psi_ij / (pi n), Ajne's statistic, detects what is not symmetric under x -> -x, and
    G_n = n/2 - (d - 1) / (2n) (Gamma((d-1)/2) / Gamma(d/2))^2 sum of sin(psi_ij) what is; sums over i < j.
    """
    n, dim = x.shape
    x = np.concatenate(list(_unit_blocks(x)))
    angles = sines = 0.0
    step = max(1, _PAIRS_PER_BLOCK // n)
    for start in range(0, n, step):
        cosines = np.clip(x[start : start + step] @ x[start:].T, -1.0, 1.0)
        np.copyto(cosines, 1.0, where=_not_above_diagonal(cosines.shape))  # an angle of 0 adds nothing
        angles += float(np.sum(np.arccos(cosines)))
        sines += float(np.sum(np.sqrt(1.0 - cosines * cosines)))
    ajne = n / 4 - angles / (math.pi * n)
    gamma_ratio = math.exp(math.lgamma((dim - 1) / 2) - math.lgamma(dim / 2))
    even = n / 2 - (dim - 1) / (2 * n) * gamma_ratio**2 * sines
    return float(4 * ajne + even)


def _unit_blocks(x: Points) -> Iterator[NDArray[np.float64]]:
    """Points in float64, of length 1, block by block."""
    step = max(1, _NUMBERS_PER_BLOCK // x.shape[1])
    for start in range(0, len(x), step):
        block = x[start : start + step].astype(np.float64)
        block /= np.linalg.norm(block, axis=1, keepdims=True)
        yield block


def _not_above_diagonal(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    rows, columns = shape
    return np.arange(columns)[None, :] <= np.arange(rows)[:, None]
