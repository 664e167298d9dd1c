"""Inputs of the kernel: measures on blocks of great circles within bounded memory, and frames that it draws itself."""

import secrets
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import native
from sphereot._backends.protocol import Measures

Floats: TypeAlias = NDArray[np.floating[Any]]

# Three ways to project, chosen by measured speed. In low dimension, slice by slice. In higher dimension, several slices
# at a time while the points fit into the cache. For more points, slice by slice again, or, where the dimension is high
# enough to pay for the memory, by a matrix product in NumPy.
LARGEST_DIM_BY_SLICE = 8
MAX_COORDINATES_BY_TILE = 1 << 20
LARGEST_DIM_WITHOUT_PRODUCT = 48
PLANAR_BYTES = 32 << 20
MIN_SLICES_PER_CALL = 8


def blocks(
    measures: Measures, frames: Floats, *, max_slices: int | None = None, with_gradients: bool = False
) -> Iterator[tuple[slice, list[Any], list[Floats]]]:
    """Yield (block, sliced measures, planar points if they were computed) for consecutive blocks of slices.

    The number of slices per block is at most `max_slices`. It depends on the sizes of the arrays alone, never on the
    number of threads.
    """
    n_slices, first = len(frames), measures[0].points
    dim = first.shape[1]
    atoms = sum(len(x) for x, _ in measures)
    weights = [weight_rows(a) for _, a in measures]
    by_slice = dim <= LARGEST_DIM_BY_SLICE
    by_tile = not by_slice and dim * atoms <= MAX_COORDINATES_BY_TILE
    by_product = not by_tile and dim > (LARGEST_DIM_BY_SLICE if with_gradients else LARGEST_DIM_WITHOUT_PRODUCT)
    size = n_slices if max_slices is None else min(n_slices, max_slices)
    if by_product:
        size = min(size, max(PLANAR_BYTES // (2 * atoms * first.itemsize), MIN_SLICES_PER_CALL))
    points = [np.ascontiguousarray(x) if by_tile or by_product else coordinate_rows(x) for x, _ in measures]
    for start in range(0, n_slices, size):
        block = slice(start, min(start + size, n_slices))
        block_frames = np.ascontiguousarray(frames[block])
        planar: list[Floats] = []
        if by_tile:
            sliced = [native.kernel.from_rows(x, block_frames, a) for x, a in zip(points, weights, strict=True)]
        elif by_product:
            rows = block_frames.transpose(0, 2, 1).reshape(-1, dim)
            planar = [(rows @ x.T).reshape(-1, 2, len(x)) for x in points]
            sliced = [native.kernel.from_planar(q, a) for q, a in zip(planar, weights, strict=True)]
        else:
            sliced = [native.kernel.from_points(x, block_frames, a) for x, a in zip(points, weights, strict=True)]
        yield block, sliced, planar


def coordinate_rows(x: Floats) -> Floats:
    """Transpose points (n, d) to contiguous rows of coordinates (d, n)."""
    out = np.empty(x.shape[::-1], x.dtype)
    native.kernel.transpose(np.ascontiguousarray(x), out)
    return out


def weight_rows(weights: Floats | None) -> NDArray[np.float64] | None:
    """Convert weights to the kernel's input: contiguous rows of float64."""
    return None if weights is None else np.ascontiguousarray(np.atleast_2d(weights), dtype=np.float64)


def from_turns(measures: Measures) -> list[Any]:
    """Convert measures on the circle, given as rows of turns, to the kernel's input."""
    return [native.kernel.from_turns(np.ascontiguousarray(turns), weight_rows(weights)) for turns, weights in measures]


def random_frames(n_frames: int, dim: int, seed: int | None = None) -> NDArray[np.float32]:
    """Draw independent frames (L, d, 2), in half the time that NumPy or torch need for normal numbers alone.

    The seed is not that of `great_circles`; None stands for the entropy of the operating system.
    """
    frames = np.empty((n_frames, dim, 2), np.float32)
    native.kernel.random_frames(
        secrets.randbits(64) if seed is None else seed, 0, frames, native.threads_for(frames.size // 2)
    )
    return frames
