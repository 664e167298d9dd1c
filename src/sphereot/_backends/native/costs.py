"""The kernel's functions on NumPy arrays: the native path.

Same functions, arguments and results as `sphereot._backends.array_api.costs`; everything is validated before it gets
here.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.orders import LARGEST_PLAIN_ORDER, costs_of, power_mean, unit_of
from sphereot._backends.native.calls import kernel, threads_for
from sphereot._backends.native.frames import Frames, FramesToDraw, as_array

__all__ = [
    "blocks",
    "circle_costs",
    "circle_costs_uniform",
    "circle_cuts",
    "coordinate_rows",
    "mean_cost",
    "mean_cost_uniform",
    "mean_distance",
    "mean_distance_uniform",
    "on_grid",
    "pairwise_distances",
    "project",
    "rows_of_weights",
    "slice_costs",
    "slice_costs_uniform",
    "slice_distances",
    "summed_pairwise_costs",
]

Floats = NDArray[np.floating[Any]]
Measure = tuple[Floats, Floats | None]

# The kernel projects slice by slice in low dimension. Beyond, it does so for several slices at a time while the points
# stay in its cache; for more points slice by slice again, or from some dimension on a matrix product by NumPy.
LARGEST_DIM_BY_SLICE = 8
MOST_COORDINATES_BY_TILE = 1 << 20
LARGEST_DIM_WITHOUT_PRODUCT = 48
PLANAR_BYTES = 32 << 20
LEAST_SLICES_A_CALL = 8


def circle_costs(u: Floats, v: Floats, a: Floats | None, b: Floats | None, p: float) -> Floats:
    """W_p^p on the circle, row by row: turns (B, n) and (B, m), weights (B or 1, n) and (B or 1, m) or None."""
    return _solve_circles("costs", u, v, a, b, p).astype(u.dtype, copy=False)


def circle_cuts(u: Floats, v: Floats, a: Floats | None, b: Floats | None, p: float) -> NDArray[np.float64]:
    """The optimal cut of each row, in units of mass; in double precision, as the levels it is a difference of."""
    return _solve_circles("cuts", u, v, a, b, p)


def _solve_circles(
    name: str, u: Floats, v: Floats, a: Floats | None, b: Floats | None, p: float
) -> NDArray[np.float64]:
    x, y = (kernel().from_turns(np.ascontiguousarray(turns), rows_of_weights(w)) for turns, w in ((u, a), (v, b)))
    out = np.empty(u.shape[0])
    getattr(kernel(), name)(x, y, p, threads_for(u.size + v.size), out)
    return out


def on_grid(u: Floats) -> Floats:
    """Turns (B, n) as the kernel sees them: in [0, 1), on the grid that it counts in.

    A turn just below 1 may round to 0. It stays where it is on the circle, but comes first instead of last, and a cut
    counts from the first.
    """
    out = np.empty(u.shape, u.dtype)
    kernel().turns(kernel().from_turns(np.ascontiguousarray(u), None), threads_for(u.size), out)
    return out


def circle_costs_uniform(u: Floats, a: Floats | None, p: float) -> Floats:
    """W_p^p between each row of turns (B, n) and the uniform measure on the circle."""
    x = kernel().from_turns(np.ascontiguousarray(u), rows_of_weights(a))
    out = np.empty(u.shape[0])
    kernel().costs_uniform(x, p, threads_for(u.size), out)
    return out.astype(u.dtype, copy=False)


def project(x: Floats, frames: Floats) -> Floats:
    """Turns (L, n) of points (n, d) on the great circles of frames (L, d, 2)."""
    out = np.empty((frames.shape[0], x.shape[0]), x.dtype)
    for block, (sliced,), _ in blocks([(x, None)], frames):
        kernel().turns(sliced, threads_for(out[block].size, x.shape[1]), out[block])
    return out


def slice_costs(
    x: Floats, y: Floats, a: Floats | None, b: Floats | None, frames: Floats, p: float
) -> NDArray[np.float64]:
    """W_p^p between the projections of two measures on each great circle, shape (L,)."""
    measures = [(x, a), (y, b)]
    return costs_of(slice_distances(measures, frames, p), p) if p > LARGEST_PLAIN_ORDER else _solve(measures, frames, p)


def slice_costs_uniform(x: Floats, a: Floats | None, frames: Frames, p: float) -> NDArray[np.float64]:
    """W_p^p between the projection of a measure on each great circle and the uniform measure, shape (L,)."""
    measures = [(x, a)]
    return costs_of(slice_distances(measures, frames, p), p) if p > LARGEST_PLAIN_ORDER else _solve(measures, frames, p)


def slice_distances(measures: Sequence[Measure], frames: Frames, p: float) -> NDArray[np.float64]:
    """W_p on each great circle between two measures, or between one and the uniform measure, shape (L,)."""
    return _solve(measures, frames, p, root=True)


def _solve(measures: Sequence[Measure], frames: Frames, p: float, root: bool = False) -> NDArray[np.float64]:
    out = np.empty(frames.shape[0])
    atoms = sum(len(x) for x, _ in measures)
    call = kernel().costs if len(measures) == 2 else kernel().costs_uniform
    for block, sliced, _ in blocks(measures, frames):
        call(*sliced, p, threads_for(out[block].size * atoms, frames.shape[1]), out[block], root)
    return out


def mean_cost(x: Floats, y: Floats, a: Floats | None, b: Floats | None, frames: Floats, p: float) -> Any:
    """The mean of the slices' W_p^p, in the dtype of the points."""
    return x.dtype.type(np.mean(_solve([(x, a), (y, b)], frames, p)))


def mean_cost_uniform(x: Floats, a: Floats | None, frames: Frames, p: float) -> Any:
    """The mean of the slices' W_p^p to the uniform measure, in the dtype of the points."""
    return x.dtype.type(np.mean(_solve([(x, a)], frames, p)))


def mean_distance(x: Floats, y: Floats, a: Floats | None, b: Floats | None, frames: Floats, p: float) -> Any:
    """The root of order p of `mean_cost`, for large orders: right where the mean itself vanishes."""
    return x.dtype.type(power_mean(slice_distances([(x, a), (y, b)], frames, p), p))


def mean_distance_uniform(x: Floats, a: Floats | None, frames: Frames, p: float) -> Any:
    """The root of order p of `mean_cost_uniform`, for large orders."""
    return x.dtype.type(power_mean(slice_distances([(x, a)], frames, p), p))


def summed_pairwise_costs(measures: Sequence[Measure], frames: Floats, p: float) -> NDArray[np.float64]:
    """Sums over all slices of the costs of the pairs i < j, in order; each measure is sorted once a slice."""
    total = np.zeros(len(measures) * (len(measures) - 1) // 2)
    for costs in _pairwise_rows(measures, frames, p):
        total += costs
    return total


def pairwise_distances(measures: Sequence[Measure], frames: Floats, p: float) -> NDArray[np.float64]:
    """`mean_distance` of the pairs i < j, in order; each measure is sorted once a slice."""
    largest = total = np.zeros(len(measures) * (len(measures) - 1) // 2)
    for distances in _pairwise_rows(measures, frames, p, root=True):
        before, largest = largest, np.maximum(largest, distances)
        unit = unit_of(largest)
        total = total * (before / unit) ** p + (distances / unit) ** p
    result: NDArray[np.float64] = largest * (total / frames.shape[0]) ** (1.0 / p)
    return result


def _pairwise_rows(
    measures: Sequence[Measure], frames: Floats, p: float, root: bool = False
) -> Iterator[NDArray[np.float64]]:
    """The costs of all pairs on one slice after another: added in this order, blocks do not show in a sum."""
    pairs = len(measures) * (len(measures) - 1) // 2
    atoms = sum(len(x) for x, _ in measures)
    for block, sliced, _ in blocks(measures, frames, most=max(1, PLANAR_BYTES // (8 * pairs))):
        out = np.empty((block.stop - block.start, pairs))
        kernel().costs_pairwise(sliced, p, threads_for(out.shape[0] * atoms, frames.shape[1]), out, root)
        yield from out


def blocks(
    measures: Sequence[Measure], frames: Frames, *, most: int | None = None, with_gradients: bool = False
) -> Iterator[tuple[slice, list[Any], list[Floats]]]:
    """The measures on one block of slices after another, and their planar points if made, within bounded memory.

    How many slices make a block depends on the sizes alone, never on the number of threads.
    """
    n_slices, dim, _ = frames.shape
    atoms = sum(len(x) for x, _ in measures)
    weights = [rows_of_weights(a) for _, a in measures]
    by_slice = dim <= LARGEST_DIM_BY_SLICE
    by_tile = not by_slice and dim * atoms <= MOST_COORDINATES_BY_TILE
    by_product = not by_tile and dim > (LARGEST_DIM_BY_SLICE if with_gradients else LARGEST_DIM_WITHOUT_PRODUCT)
    size = max(PLANAR_BYTES // (2 * atoms * frames.itemsize), LEAST_SLICES_A_CALL) if by_product else n_slices
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


def rows_of_weights(weights: Floats | None) -> NDArray[np.float64] | None:
    """Weights as the kernel takes them: rows of doubles."""
    return None if weights is None else np.ascontiguousarray(np.atleast_2d(weights), dtype=np.float64)
