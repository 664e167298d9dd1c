"""Locations of a sample on the sphere: which points coincide, and how far the next locations are."""

import numpy as np
from numpy.typing import NDArray

from sphereot.density._kernels import COINCIDENT, row_blocks

__all__ = ["group_by_location", "neighbor_distances"]

_DECIMALS = 7


def group_by_location(points: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Group points whose coordinates agree to seven decimals (0.6 m on the earth).

    Returns
    -------
    first : array of int, shape (k,)
        Index of the first point of each location.
    location : array of int, shape (n,)
        Index of the location of each point.

    Examples
    --------
    >>> group_by_location(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))[1]
    array([0, 1, 0])
    """
    rounded = np.round(points, _DECIMALS) + 0.0  # no negative zeros
    _, first, location = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    return first, location.reshape(-1)


def neighbor_distances(locations: NDArray[np.float64], neighbors: int) -> NDArray[np.float64]:
    """Distances (chords) of distinct locations, shape (k, d), to their nearest other ones.

    Returns
    -------
    array, shape (k, neighbors)
        In rising order; infinite where there are fewer other locations.
    """
    distances = np.full((len(locations), neighbors), np.inf)
    count = min(neighbors, len(locations) - 1)
    if count < 1:
        return distances
    for rows in row_blocks(len(locations), len(locations)):
        gap = 1.0 - locations[rows] @ locations.T
        gap[gap <= COINCIDENT] = np.inf  # itself, or a point that rounding alone has moved
        gap.partition(count - 1, axis=1)
        distances[rows, :count] = np.sqrt(2.0 * np.sort(gap[:, :count], axis=1))
    return distances
