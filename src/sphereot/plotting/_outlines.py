"""Outlines of regions on a grid of longitudes and latitudes, as lines on the sphere."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy

__all__ = ["as_regions", "outlines"]

_ROUNDS = 2  # of cutting corners: steps of cells are then no longer seen


def as_regions(regions: Any) -> NDArray[np.int8]:
    """Regions as integers 1, -1 and 0, shape (n_lat, n_lon)."""
    array = to_numpy(regions) if hasattr(regions, "__dlpack__") else np.asarray(regions)
    if array.ndim != 2 or min(array.shape) < 2:
        raise ValueError(f"regions: got shape {array.shape}, but regions on a map need shape (n_lat, n_lon).")
    values = set(np.unique(array).tolist())
    if not values <= {-1, 0, 1}:
        got = next(value for value in values if value not in (-1, 0, 1))
        raise ValueError(f"regions: got the value {got!r}; give 1 and -1 in regions, and 0 elsewhere.")
    return array.astype(np.int8)


def outlines(inside: NDArray[np.bool_]) -> list[NDArray[np.float64]]:
    """Lines of longitude and latitude, in degrees, around the cells that are `inside`, shape (n_lat, n_lon).

    They run between the centers of cells, with rounded corners; across the date line, they end and begin again.
    """
    if inside.all() or not inside.any():
        return []
    rows, columns = inside.shape
    latitude = np.concatenate([[-90.0], 180 * (np.arange(rows) + 0.5) / rows - 90, [90.0]])
    longitude = 360 * (np.arange(columns + 1) + 0.5) / columns - 180
    padded = np.pad(np.pad(inside, ((1, 1), (0, 0)), mode="edge"), ((0, 0), (0, 1)), mode="wrap").astype(np.float64)
    contours = Figure().add_subplot().contour(longitude, latitude, padded, levels=[0.5])
    return [_rounded(np.asarray(line, np.float64)) for line in contours.allsegs[0]]


def _rounded(line: NDArray[np.float64]) -> NDArray[np.float64]:
    """A line with its corners cut off (Chaikin, 1974); the ends of an open line stay."""
    is_closed = bool(np.array_equal(line[0], line[-1]))
    for _ in range(_ROUNDS):
        before, after = line[:-1], line[1:]
        cut = np.stack([0.75 * before + 0.25 * after, 0.25 * before + 0.75 * after], axis=1).reshape(-1, 2)
        line = np.concatenate([cut, cut[:1]]) if is_closed else np.concatenate([line[:1], cut, line[-1:]])
    return line
