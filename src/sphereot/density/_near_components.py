"""Which components count near which points: on S^2, narrow kernels need be summed over a neighborhood alone."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot.density._kernels import row_blocks

__all__ = ["near_components"]

_POINTS_PER_TILE = 256
_FEWEST_POINTS, _FEWEST_COMPONENTS = 1024, 256  # below, all pairs take no longer
_NEGLIGIBLE = 36.0  # terms below exp(-36) of the sum, all of them together

Floats = NDArray[np.float64]


def near_components(
    points: Floats, means: Floats, concentrations: Floats, log_factors: Floats
) -> Iterator[tuple[Any, Any]]:
    """Yield blocks of points and the components that count there; the others add less than 1e-15 of the density.

    Parameters
    ----------
    points, means : array, shape (m, d) and (k, d)
        Unit vectors in float64: where the density is evaluated, and the directions of the components.
    concentrations, log_factors : array, shape (k,)
        The log of a component at x is log_factor - concentration (1 - <x, mean>).

    Yields
    ------
    rows, columns
        Indices or slices of points and of components; the rows of all blocks together are all points.
    """
    if points.shape[1] != 3 or len(points) < _FEWEST_POINTS or len(means) < _FEWEST_COMPONENTS:
        for rows in row_blocks(len(points), len(means)):
            yield rows, slice(None)
        return
    for tile in _tiles(points):
        columns = _counting(points[tile], means, concentrations, log_factors)
        for rows in row_blocks(len(tile), len(columns)):
            yield tile[rows], columns


def _tiles(points: Floats) -> list[NDArray[np.intp]]:
    """Indices of points in bands of latitude that are cut into pieces about as wide as high."""
    height = np.sqrt(4 * np.pi * _POINTS_PER_TILE / len(points))
    n_bands = max(1, int(np.ceil(np.pi / height)))
    latitude = np.arcsin(np.clip(points[:, 2], -1.0, 1.0))
    band = np.minimum(((latitude / np.pi + 0.5) * n_bands).astype(np.int64), n_bands - 1)
    middle = np.pi * ((np.arange(n_bands) + 0.5) / n_bands - 0.5)
    pieces = np.maximum(1, np.round(2 * np.pi * np.cos(middle) / height)).astype(np.int64)
    turn = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) + 0.5
    piece = np.minimum((turn * pieces[band]).astype(np.int64), pieces[band] - 1)
    tile = np.concatenate([[0], np.cumsum(pieces)[:-1]])[band] + piece
    order = np.argsort(tile, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(tile[order])) + 1)


def _counting(points: Floats, means: Floats, concentrations: Floats, log_factors: Floats) -> NDArray[np.intp]:
    """Indices of the components that count at some point of a tile."""
    center = points.sum(axis=0)
    length = float(np.linalg.norm(center))
    if length < 1e-6 * len(points):
        return np.arange(len(means))
    center /= length
    radius = np.arccos(np.clip(np.min(points @ center), -1.0, 1.0)) + 1e-7
    distance = np.arccos(np.clip(means @ center, -1.0, 1.0))
    nearest = log_factors - concentrations * (1 - np.cos(np.maximum(distance - radius, 0.0)))
    farthest = log_factors - concentrations * (1 - np.cos(np.minimum(distance + radius, np.pi)))
    # At every point of the tile the density is at least the largest of the least values of single components.
    return np.flatnonzero(nearest > farthest.max() - _NEGLIGIBLE - np.log(len(means)))
