"""Densities on the sphere that are weighted sums of von Mises-Fisher densities: values and samples.

    f(x) = sum over i of w_i C_d(kappa_i) exp(kappa_i <x, mean_i>)

Every term integrates to 1, so f does if the weights add up to 1. A term with kappa_i = 0 is the uniform distribution.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy
from sphereot.density._vmf import sample_around, scaled_log_normalizer

COINCIDENT = 1e-14  # 1 - cosine: points closer than 1.4e-7 radians are at one location
_BLOCK_ENTRIES = 2**19  # of the matrix of points against points: 4 MB
_POINTS_PER_TILE = 256
_FEWEST_POINTS, _FEWEST_COMPONENTS = 1024, 256  # below, all pairs take no longer
_NEGLIGIBLE = 36.0  # terms below exp(-36) of the sum, all of them together

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class VonMisesFisherComponents:
    """Weighted sum of von Mises-Fisher densities, in float64.

    Attributes
    ----------
    means : array, shape (k, d)
        Unit vectors.
    concentrations : array, shape (k,)
        kappa of each component, at least 0.
    weights : array, shape (k,)
        Positive, with a total of 1.

    Examples
    --------
    >>> components = VonMisesFisherComponents(np.eye(3)[:2], np.array([0.0, 50.0]), np.array([0.2, 0.8]))
    >>> np.exp(components.log_density(np.eye(3))).round(3)
    array([0.016, 6.382, 0.016])
    """

    means: NDArray[np.float64]
    concentrations: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def average(
        cls, parts: Iterable["VonMisesFisherComponents"], weights: Iterable[float]
    ) -> "VonMisesFisherComponents":
        """The average of several densities: their components together, with products of weights."""
        pairs = list(zip(parts, weights, strict=True))
        total = sum(weight for _, weight in pairs)
        return cls(
            np.concatenate([part.means for part, _ in pairs]),
            np.concatenate([part.concentrations for part, _ in pairs]),
            np.concatenate([part.weights * (weight / total) for part, weight in pairs]),
        )

    def log_density(self, points: Floats) -> Floats:
        """Log-density at unit vectors in float64, shape (m, d), to 1e-6, in blocks of pairs with components."""
        values = np.empty(len(points))
        log_factors = np.log(self.weights) + scaled_log_normalizer(self.means.shape[1], self.concentrations)
        for rows, columns in near_components(points, self.means, self.concentrations, log_factors):
            exponents = points[rows] @ self.means[columns].T
            exponents -= 1.0
            exponents *= self.concentrations[columns]
            exponents += log_factors[columns]
            values[rows] = log_sum_exp(exponents, np.float32)
        return values

    def sample(self, n: int, generator: np.random.Generator) -> Floats:
        """Draw unit vectors, shape (n, d)."""
        rows = generator.choice(len(self.means), size=n, p=self.weights)
        return sample_around(self.means[rows], self.concentrations[rows], generator)


def kernel_log_densities(points: Floats, centers: Floats, concentrations: Iterable[Floats]) -> Floats:
    """Log-densities of several kernel estimates with the same centers, to 1e-6, in blocks of all pairs.

    Parameters
    ----------
    points : array, shape (m, d)
        Where to evaluate, unit vectors in float64.
    centers : array, shape (n, d)
        Unit vectors in float64, of equal weight.
    concentrations : iterable of arrays, shape (n,)
        kappa of each center, one array per estimate.

    Returns
    -------
    array, shape (m, number of estimates)
    """
    kappas = list(concentrations)
    log_factors = [scaled_log_normalizer(centers.shape[1], kappa) - np.log(len(centers)) for kappa in kappas]
    values = np.empty((len(points), len(kappas)))
    for rows in row_blocks(len(points), len(centers)):
        gap = points[rows] @ centers.T
        gap -= 1.0
        for k, (kappa, log_factor) in enumerate(zip(kappas, log_factors, strict=True)):
            exponents = gap * kappa
            exponents += log_factor
            values[rows, k] = log_sum_exp(exponents, np.float32)
    return values


# ---- components near points ----


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
    for tile in _cut_into_tiles(points):
        columns = _select(points[tile], means, concentrations, log_factors)
        for rows in row_blocks(len(tile), len(columns)):
            yield tile[rows], columns


def _cut_into_tiles(points: Floats) -> list[NDArray[np.intp]]:
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


def _select(points: Floats, means: Floats, concentrations: Floats, log_factors: Floats) -> NDArray[np.intp]:
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


# ---- building blocks ----


def normalized_float64(points: Array) -> Floats:
    """Points as a NumPy array, normalized in float64: a large kappa would show the rounding of lengths in float32."""
    values = to_numpy(points).astype(np.float64)
    normalized: Floats = values / np.linalg.norm(values, axis=1, keepdims=True)
    return normalized


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Blocks of rows of a matrix whose number of entries is bounded."""
    step = max(1, _BLOCK_ENTRIES // n_columns)
    return (slice(start, start + step) for start in range(0, n_rows, step))


def log_sum_exp(exponents: Floats, dtype: Any = np.float64) -> Floats:
    """Logarithm of the sum of exponentials in each row; overwrites `exponents`.

    With exponentials in float32 the result is exact to 1e-6, and several times faster: a term that counts has a small
    difference to the largest exponent, which float32 resolves.
    """
    largest = exponents.max(axis=1, keepdims=True)
    exponents -= largest
    terms = exponents.astype(dtype, copy=False)
    np.exp(terms, out=terms)
    total: Floats = largest[:, 0] + np.log(terms.sum(axis=1, dtype=np.float64))
    return total


def maximizer(function: Callable[[float], float], low: float, high: float) -> float:
    """Maximizer of a function with one peak in [low, high], by golden-section search to 0.01."""
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > 0.01:
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(right)
    return (low + high) / 2


# ---- locations ----


def group_by_location(points: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
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
    rounded = np.round(points, 7) + 0.0  # no negative zeros
    _, first, location = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    return first, location.reshape(-1)


def neighbor_distances(locations: Floats, neighbors: int) -> Floats:
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
