"""Costs with their gradients in one call of the compiled kernel, without an array of slices times points.

The envelope theorem holds the cut, so the gradient in the points is that of the matched pairs, and the gradient in the
weights is the dual potential. Gradients that are not requested are not computed, and are None.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import native
from sphereot._backends.native.inputs import LARGEST_DIM_BY_SLICE, Floats, blocks, from_turns
from sphereot._backends.protocol import Measure, Measures
from sphereot._backends.uniform_kernel import LARGEST, variance_polynomials

# Gradients are added up per group of slices, and each group needs an array of its own. In low dimension these arrays
# are small. Where the kernel projects several slices at a time (see `blocks`), shorter groups are not worth a thread.
SLICES_PER_GROUP_BY_TILE = 100
GROUP_BYTES = 64 << 20
MAX_GROUPS = 16
# Each group of tiles has gradients of its own, (n, d), which are added up at the end.
GROUP_BYTES_OF_PAIRS = 32 << 20
TILE_SIZE = 64
PAIRS_PER_POINT = 4  # as many pairs take about the time in which the kernel sorts one point

Gradient: TypeAlias = tuple[Floats | None, NDArray[np.float64] | None]
"""The gradient in the points of a measure and the gradient in its weights."""


@dataclass(frozen=True)
class Wanted:
    """Which gradients of a measure to compute."""

    points: bool
    weights: bool


def circle_gradients(measures: Measures, p: float, wanted: Sequence[Wanted]) -> tuple[Floats, list[Gradient]]:
    """W_p^p (B,) of each row, as `circle_costs`, and its gradients in turns and weights, (B, n) for each measure."""
    turns = measures[0].points
    out = np.empty(turns.shape[0])
    gradients = [_row_gradients(measure.points, wants) for measure, wants in zip(measures, wanted, strict=True)]
    differentiate = native.kernel.differentiate if len(measures) == 2 else native.kernel.differentiate_uniform
    threads = native.threads_for(sum(measure.points.size for measure in measures))
    arrays = [array for pair in gradients for array in pair]
    differentiate(*from_turns(measures), p, 1.0, len(out), threads, out, *arrays)
    return out.astype(turns.dtype, copy=False), gradients


def mean_gradients(
    measures: Measures, frames: Floats, p: float, wanted: Sequence[Wanted]
) -> tuple[float, list[Gradient]]:
    """SSW_p^p, as `mean_cost`, and its gradients in points (n, d) and weights (n,) of each measure."""
    n_slices, dim = len(frames), measures[0].points.shape[1]
    call = native.kernel.differentiate if len(measures) == 2 else native.kernel.differentiate_uniform
    costs = np.empty(n_slices)
    atoms = sum(len(x) for x, _ in measures)
    total: list[Gradient] = []
    for block, sliced, planar in blocks(measures, frames, with_gradients=True):
        count = block.stop - block.start
        planes: Sequence[Floats | None] = planar or [None] * len(measures)
        outputs = [_output(x, plane, wants) for (x, _), plane, wants in zip(measures, planes, wanted, strict=True)]
        groups = _groups(count, dim, measures, bool(planar))
        threads = native.threads_for(count * atoms, dim)
        gradients = [array for pair in outputs for array in pair]
        call(*sliced, p, 1.0 / n_slices, groups, threads, costs[block], *gradients)
        if planar:
            outputs = [(_pulled_back(points, frames[block]), weights) for points, weights in outputs]
        total = [_added(*pairs) for pairs in zip(total, outputs, strict=True)] if total else outputs
    return float(np.add.reduce(costs)) / n_slices, total


def _output(x: Floats, planar: Floats | None, wanted: Wanted) -> Gradient:
    """Allocate the arrays of the requested gradients."""
    points = None
    if wanted.points:  # The gradient of a planar point overwrites the point, which the kernel does not read again.
        points = np.empty(x.shape, x.dtype) if planar is None else planar
    return points, np.empty(len(x)) if wanted.weights else None


def _pulled_back(planar: Floats | None, frames: Floats) -> Floats | None:
    """Gradient in the points from that in the planar points U^T x: the sum over slices of U times the latter."""
    if planar is None:
        return None
    rows = frames.transpose(0, 2, 1).reshape(-1, frames.shape[1])
    points: Floats = planar.reshape(len(rows), -1).T @ rows
    return points


def _added(first: Gradient, second: Gradient) -> Gradient:
    points, weights = (None if a is None or b is None else a + b for a, b in zip(first, second, strict=True))
    return points, weights


def _groups(n_slices: int, dim: int, measures: Measures, planar: bool) -> int:
    """The number of partial sums over slices; it depends on sizes alone, so threads cannot change a result."""
    if planar:
        return min(MAX_GROUPS, n_slices)
    size = sum(int(x.nbytes) for x, _ in measures)
    by_length = MAX_GROUPS if dim <= LARGEST_DIM_BY_SLICE else -(-n_slices // SLICES_PER_GROUP_BY_TILE)
    return min(n_slices, max(2, min(MAX_GROUPS, by_length, GROUP_BYTES // size)))


def _row_gradients(u: Floats, wanted: Wanted) -> tuple[Any, Any]:
    return np.empty(u.shape, u.dtype) if wanted.points else None, np.empty(u.shape) if wanted.weights else None


# ---- all pairs of points ----


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
    groups = _groups_of_tiles(n, dim, x.itemsize) if wanted.points else min(MAX_GROUPS, -(-n // TILE_SIZE))
    threads = native.threads_for(n * n // PAIRS_PER_POINT)
    cost = native.kernel.sum_pairs(x, weights, smooth, logarithmic, groups, threads, gradient, potentials)
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


def _groups_of_tiles(n: int, dim: int, itemsize: int) -> int:
    """The number of partial sums. It depends on sizes alone, so that threads cannot change a result."""
    tiles = -(-n // TILE_SIZE)
    by_memory = max(2, GROUP_BYTES_OF_PAIRS // (n * dim * itemsize))
    return int(min(max(2, tiles // 4), MAX_GROUPS, by_memory, tiles * (tiles + 1) // 2))
