"""Measures as the kernel takes them: on one block of slices after another, within bounded memory."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.native.calls import kernel
from sphereot._backends.native.frames import Frames, FramesToDraw, as_array
from sphereot._backends.protocol import Measures, n_atoms

__all__ = ["LARGEST_DIM_BY_SLICE", "PLANAR_BYTES", "Floats", "blocks", "coordinate_rows", "from_turns", "weight_rows"]

Floats: TypeAlias = NDArray[np.floating[Any]]

# The kernel projects slice by slice in low dimension. Beyond, it does so for several slices at a time while the points
# stay in its cache; for more points slice by slice again, or from some dimension on a matrix product by NumPy.
LARGEST_DIM_BY_SLICE = 8
MOST_COORDINATES_BY_TILE = 1 << 20
LARGEST_DIM_WITHOUT_PRODUCT = 48
PLANAR_BYTES = 32 << 20
LEAST_SLICES_PER_CALL = 8


def blocks(
    measures: Measures, frames: Frames, *, most: int | None = None, with_gradients: bool = False
) -> Iterator[tuple[slice, list[Any], list[Floats]]]:
    """Yield (block, sliced measures, planar points if they were computed) block by block, within bounded memory.

    How many slices make a block depends on the sizes alone, never on the number of threads.
    """
    n_slices, dim, _ = frames.shape
    atoms = n_atoms(measures)
    weights = [weight_rows(a) for _, a in measures]
    by_slice = dim <= LARGEST_DIM_BY_SLICE
    by_tile = not by_slice and dim * atoms <= MOST_COORDINATES_BY_TILE
    by_product = not by_tile and dim > (LARGEST_DIM_BY_SLICE if with_gradients else LARGEST_DIM_WITHOUT_PRODUCT)
    size = max(PLANAR_BYTES // (2 * atoms * frames.itemsize), LEAST_SLICES_PER_CALL) if by_product else n_slices
    size = min(size, most or n_slices)
    points = [np.ascontiguousarray(x) if by_tile or by_product else coordinate_rows(x) for x, _ in measures]
    for start in range(0, n_slices, size):
        block = slice(start, min(start + size, n_slices))
        planar: list[Floats] = []
        if by_tile:
            sliced = [_from_rows(x, frames[block], a) for x, a in zip(points, weights, strict=True)]
        elif by_product:
            rows = as_array(frames[block]).transpose(0, 2, 1).reshape(-1, dim)
            planar = [(rows @ x.T).reshape(-1, 2, len(x)) for x in points]
            sliced = [kernel().from_planar(q, a) for q, a in zip(planar, weights, strict=True)]
        else:
            part = np.ascontiguousarray(as_array(frames[block]))
            sliced = [kernel().from_points(x, part, a) for x, a in zip(points, weights, strict=True)]
        yield block, sliced, planar


def _from_rows(x: Floats, frames: Frames, weights: NDArray[np.float64] | None) -> Any:
    if isinstance(frames, FramesToDraw):
        return kernel().from_rows_drawn(x, len(frames), frames.seed, frames.first, weights)
    return kernel().from_rows(x, np.ascontiguousarray(frames), weights)


def coordinate_rows(x: Floats) -> Floats:
    """Points (n, d) as rows of coordinates (d, n)."""
    out = np.empty(x.shape[::-1], x.dtype)
    kernel().transpose(np.ascontiguousarray(x), out)
    return out


def weight_rows(weights: Floats | None) -> NDArray[np.float64] | None:
    """Weights as the kernel takes them: rows of doubles."""
    return None if weights is None else np.ascontiguousarray(np.atleast_2d(weights), dtype=np.float64)


def from_turns(measures: Measures) -> list[Any]:
    """Measures on the circle, rows of turns, as the kernel takes them."""
    return [kernel().from_turns(np.ascontiguousarray(turns), weight_rows(weights)) for turns, weights in measures]
