"""Outlines of regions on a grid of longitudes and latitudes, as lines on the sphere."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy

__all__ = ["as_regions", "is_region", "outlines"]

_LEVEL = 0.5  # of values at the outline, halfway between inside and outside
_ROUNDS = 2  # of cutting corners
_STRAIGHTENING = 12  # steps: enough for stairs of some 10 cells; more would make polygons of curves
_MEANS = 2  # of neighboring vertices, which make corners round
_MAX_SHIFT = 0.45  # cells: an outline stays between the centers of the cells that it divides
_FEW = 16  # vertices: the outline of a few cells would shrink to a point


def as_regions(regions: Any) -> NDArray[np.float64]:
    """Regions as numbers, 1 and -1 inside and 0 elsewhere or between these, shape (n_lat, n_lon)."""
    array = to_numpy(regions) if hasattr(regions, "__dlpack__") else np.asarray(regions)
    if array.ndim != 2 or min(array.shape) < 2:
        raise ValueError(f"regions: got shape {array.shape}, but regions on a map need shape (n_lat, n_lon).")
    values = array.astype(np.float64)
    is_wrong = ~(np.abs(values) <= 1)  # NaN too
    if is_wrong.any():
        got = array[is_wrong][0].item()
        raise ValueError(f"regions: got the value {got!r}; give 1 and -1 in regions, and 0 elsewhere.")
    return values


def is_region(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The cells inside of the outlines."""
    return values > _LEVEL


def outlines(values: NDArray[Any]) -> list[NDArray[np.float64]]:
    """Lines of longitude and latitude, in degrees, around the cells with `values`, shape (n_lat, n_lon), above 1/2.

    Where values change gradually, lines run where they are 1/2. Where they are 0 and 1 alone, lines run between the
    centers of cells, with straightened stairs and round corners. Across the date line, lines end and begin again.
    """
    values = values.astype(np.float64)
    inside = is_region(values)
    if inside.all() or not inside.any():
        return []
    rows, columns = values.shape
    latitude = np.concatenate([[-90.0], 180 * (np.arange(rows) + 0.5) / rows - 90, [90.0]])
    longitude = 360 * (np.arange(columns + 1) + 0.5) / columns - 180
    padded = np.pad(np.pad(values, ((1, 1), (0, 0)), mode="edge"), ((0, 0), (0, 1)), mode="wrap")
    contours = Figure().add_subplot().contour(longitude, latitude, padded, levels=[_LEVEL])
    lines = [np.asarray(line, np.float64) for line in contours.allsegs[0]]
    if np.any((values > 0) & (values < 1)):
        return lines
    cell = np.array([360 / columns, 180 / rows])
    return [_rounded(_straightened(line, cell)) for line in lines]


def _straightened(line: NDArray[np.float64], cell: NDArray[np.float64]) -> NDArray[np.float64]:
    """A line with slopes in place of stairs (constrained elastic surface nets, Gibson, 1998).

    Each vertex moves between the two centers of cells where it lies, toward the line through its neighbors; the ends of
    an open line stay.
    """
    if len(line) < _FEW:
        return line
    is_closed = bool(np.array_equal(line[0], line[-1]))
    # Halfway between two centers in one direction, a vertex is on a center in the other, where it must stay.
    cells = (line + np.array([180.0, 90.0])) / cell
    free = np.where(np.abs(cells - np.rint(cells)) < 0.25, _MAX_SHIFT * cell, 0.0)
    if not is_closed:
        free[[0, -1]] = 0.0
    moved = line
    for _ in range(_STRAIGHTENING):
        before, after = _neighbors(moved, is_closed)
        # Neighbors are at different distances, so that their mean would bend straight lines.
        span = (after - before)[:, ::-1]
        is_across = np.abs(span) > 1e-9 * cell.max()
        share = np.where(is_across, (moved - before)[:, ::-1] / np.where(is_across, span, 1.0), 0.5)
        target = before + np.clip(share, 0.0, 1.0) * (after - before)
        moved = np.clip((moved + target) / 2, line - free, line + free)
    for _ in range(_MEANS):
        before, after = _neighbors(moved, is_closed)
        moved = (before + 2 * moved + after) / 4
    return moved


def _neighbors(line: NDArray[np.float64], is_closed: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The vertices before and after each; the ends of an open line are their own neighbors."""
    before, after = np.concatenate([line[:1], line[:-1]]), np.concatenate([line[1:], line[-1:]])
    if is_closed:  # the first vertex is repeated at the end
        before[0], after[-1] = line[-2], line[1]
    else:
        after[0], before[-1] = line[0], line[-1]
    return before, after


def _rounded(line: NDArray[np.float64]) -> NDArray[np.float64]:
    """A line with its corners cut off (Chaikin, 1974); the ends of an open line stay."""
    is_closed = bool(np.array_equal(line[0], line[-1]))
    for _ in range(_ROUNDS):
        before, after = line[:-1], line[1:]
        cut = np.stack([0.75 * before + 0.25 * after, 0.25 * before + 0.75 * after], axis=1).reshape(-1, 2)
        line = np.concatenate([cut, cut[:1]]) if is_closed else np.concatenate([line[:1], cut, line[-1:]])
    return line
