"""Kernel density estimates of samples projected on a great circle."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import backend_for

_GRID = 256  # number of turns at which densities are evaluated


@dataclass(frozen=True)
class ProjectedDensities:
    """Densities of the reference and of one window on a great circle.

    Attributes
    ----------
    turns : array, shape (G,)
        Equally spaced turns on the circle.
    reference, window : array, shape (G,)
        Densities per turn, 1 everywhere for the uniform distribution, estimated with Gaussian kernels that are wrapped
        around the circle. Both have the same bandwidth.
    bandwidth : float
        Standard deviation of the kernel, in turns.
    """

    turns: NDArray[np.float64]
    reference: NDArray[np.float64]
    window: NDArray[np.float64]
    bandwidth: float


def projected_densities(
    reference: NDArray[Any], window: NDArray[Any], frame: NDArray[np.floating[Any]]
) -> ProjectedDensities:
    """Densities of two validated samples (n, d) and (m, d) on the great circle of a frame (d, 2)."""
    turns = [
        backend_for(points).project(points, frame[None].astype(points.dtype, copy=False))[0].astype(np.float64)
        for points in (reference, window)
    ]
    bandwidth = max(map(_bandwidth, turns))
    on_grid = (np.arange(_GRID) + 0.5) / _GRID
    return ProjectedDensities(on_grid, _smooth(turns[0], bandwidth), _smooth(turns[1], bandwidth), bandwidth)


def histogram_densities(
    reference: NDArray[np.float64], window: NDArray[np.float64], n: int, m: int
) -> ProjectedDensities:
    """Densities of two samples of n and m points, given by the masses of bins (B,) of one great circle."""
    turns = (np.arange(len(reference)) + 0.5) / len(reference)
    bandwidth = max(_bandwidth(turns, mass, count) for mass, count in ((reference, n), (window, m)))
    on_grid = (np.arange(_GRID) + 0.5) / _GRID
    first, second = (_smooth(turns, bandwidth, mass) for mass in (reference, window))
    return ProjectedDensities(on_grid, first, second, bandwidth)


def _bandwidth(turns: NDArray[np.float64], mass: NDArray[np.float64] | None = None, n: int | None = None) -> float:
    """Bandwidth in turns: half the rule of thumb for one normal peak, so that several peaks stay separate."""
    n = len(turns) if n is None else n
    length = min(float(np.abs(np.average(np.exp(2j * np.pi * turns), weights=mass))), 1.0)
    spread = math.sqrt(-2 * math.log(length)) / (2 * math.pi) if length > 0 else math.inf
    return max(0.53 * min(spread, 1 / math.sqrt(12)) / math.pow(n, 0.2), 1 / _GRID)


def _smooth(
    turns: NDArray[np.float64], bandwidth: float, mass: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Kernel density on the grid: a histogram, multiplied with the kernel in Fourier space."""
    counts = np.bincount((turns * _GRID).astype(np.int64) % _GRID, mass, minlength=_GRID)
    decay = np.exp(-2 * (np.pi * bandwidth * np.arange(_GRID // 2 + 1)) ** 2)
    smooth: NDArray[np.float64] = np.fft.irfft(np.fft.rfft(counts / counts.sum()) * decay, _GRID) * _GRID
    return np.maximum(smooth, 0.0)
