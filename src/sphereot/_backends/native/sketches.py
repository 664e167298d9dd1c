"""Sketches in the compiled kernel: counting points in bins, and distances between histograms on great circles."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import native
from sphereot._backends.native import Floats

PAIR_BYTES = 64 << 20

Words = NDArray[np.uint64]


def count_points(
    points: Floats,
    frames: NDArray[np.float64],
    weights: tuple[Words, Words] | None,
    near_squares: list[float],
    mass: Words,
    moment: Words,
    near: Words,
) -> None:
    """Add points (n, d) to counts (limbs, L, B) and (limbs, L, 3) in place; `weights` are the limbs of each weight."""
    high, low = (None, None) if weights is None else weights
    # Counting takes about an eighth of the time of sorting.
    threads = native.threads_for(len(frames) * len(points) // 8, points.shape[1])
    native.kernel.count_points(points, frames, high, low, near_squares, threads, mass, moment, near)


def histogram(mass: NDArray[Any], moment: NDArray[Any]) -> Any:
    """Bins (L, B) as the kernel's input: counts and sums of offsets in uint64, or masses and moments in float64."""
    return native.kernel.histogram(np.ascontiguousarray(mass), np.ascontiguousarray(moment))


def level_distances(
    measures: Sequence[Any], n_slices: int
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """W_1 of all pairs i < j of histograms: lower bounds and widths of the bounds, in blocks (slices, pairs)."""
    count = max(2, len(measures))
    pairs = count * (count - 1) // 2
    size = max(8, PAIR_BYTES // (16 * pairs))
    for first in range(0, n_slices, size):
        block = min(size, n_slices - first)
        cost, excess = np.empty((block, pairs)), np.empty((block, pairs))
        native.kernel.level_distances(list(measures), first, native.threads_for(block * pairs * 4096), cost, excess)
        yield cost, excess


def transport_distances(x: Any, y: Any, p: float, n_slices: int) -> NDArray[np.float64]:
    """W_p^p between atoms at the means of the bins, and what its error bound needs, (4, L); see `SketchBackend`."""
    out = np.zeros((4, n_slices))
    native.kernel.transport_distances(x, y, p, native.threads_for(n_slices * 4096), out)
    return out
