"""Von Mises-Fisher densities in NumPy, and their weighted sums: values, samples and fits.

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
from sphereot._support.bessel import bessel_ratio_slope, log_mean_exponential
from sphereot.sphere.maps import log_area

COINCIDENT = 1e-14  # 1 - cosine: points closer than 1.4e-7 radians are at one location
_BLOCK_ENTRIES = 2**19  # of the matrix of points against points: 4 MB
_POINTS_PER_TILE = 256
_FEWEST_POINTS, _FEWEST_COMPONENTS = 1024, 256  # below, all pairs are as fast
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

    means: Floats
    concentrations: Floats
    weights: Floats

    @classmethod
    def average(
        cls, parts: Iterable["VonMisesFisherComponents"], weights: Iterable[float]
    ) -> "VonMisesFisherComponents":
        """Average several densities, with weights that are scaled to a total of 1."""
        pairs = list(zip(parts, weights, strict=True))
        total = sum(weight for _, weight in pairs)
        return cls(
            np.concatenate([part.means for part, _ in pairs]),
            np.concatenate([part.concentrations for part, _ in pairs]),
            np.concatenate([part.weights * (weight / total) for part, weight in pairs]),
        )

    def log_density(self, points: Floats, precision: type[np.floating[Any]] = np.float32) -> Floats:
        """Compute the log-density at unit vectors in float64, shape (m, d).

        With the default precision of exponentials, float32, the error is 1e-6; it is faster than float64.
        """
        values = np.empty(len(points))
        log_factors = np.log(self.weights) + scaled_log_normalizer(self.means.shape[1], self.concentrations)
        for rows, columns in near_components(points, self.means, self.concentrations, log_factors):
            exponents = points[rows] @ self.means[columns].T
            exponents -= 1.0
            exponents *= self.concentrations[columns]
            exponents += log_factors[columns]
            values[rows] = log_sum_exp(exponents, precision)
        return values

    def sample(self, n: int, generator: np.random.Generator) -> Floats:
        """Draw unit vectors, shape (n, d)."""
        rows = generator.choice(len(self.means), size=n, p=self.weights)
        return sample_around(self.means[rows], self.concentrations[rows], generator)


def kernel_log_densities(points: Floats, centers: Floats, concentrations: Iterable[Floats]) -> Floats:
    """Compute log-densities of several kernel estimates with the same centers, to 1e-6; shape (m, estimates).

    Points (m, d) and centers (n, d) are unit vectors in float64; centers have equal weights. Each estimate has an array
    of concentrations, shape (n,).
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


# ---- the von Mises-Fisher distribution of one mean ----


def scaled_log_normalizer(dim: int, kappa: float | Floats) -> Any:
    """Compute log(C_d(kappa)) + kappa for one or more kappa: the largest value of the log-density.

    It does not overflow or underflow, as C_d(kappa) does.

    >>> math.isclose(scaled_log_normalizer(3, 0.0), -math.log(4 * math.pi))
    True
    """
    return -log_area(dim) - log_mean_exponential(np.asarray(kappa, np.float64), dim, scaled=True)


def log_bessel(order: float, kappa: float) -> float:
    """log(I_order(kappa) exp(-kappa)) of the modified Bessel function, for kappa > 0 and an integer 2 order."""
    mean = float(log_mean_exponential(np.float64(kappa), round(2 * order) + 2, scaled=True))
    return order * math.log(0.5 * kappa) - math.lgamma(order + 1) + mean


def mean_cosine(dim: int, kappa: float) -> float:
    """Mean of <x, mean> under vMF(mean, kappa): the ratio I_{d/2}(kappa) / I_{d/2-1}(kappa)."""
    return kappa * float(bessel_ratio_slope(np.float64(kappa), dim))


def fit_concentrations(dim: int, resultants: Floats, largest: float = math.inf) -> Floats:
    """Maximum-likelihood kappas in [0, largest] for mean vectors of lengths `resultants` in [0, 1]."""
    # The mean cosine increases with kappa. A resultant above the mean cosine of the largest kappa is at the bound.
    bounded = resultants < (mean_cosine(dim, largest) if math.isfinite(largest) else 1.0)
    inside = np.where(bounded & (resultants > 0), resultants, 0.5)
    # Start from the approximation of Banerjee et al. (2005), then take Newton steps (Sra, 2012).
    kappa = inside * (dim - inside**2) / (1 - inside**2)
    for _ in range(20):
        ratio = kappa * bessel_ratio_slope(kappa, dim)
        step = (ratio - inside) / (1 - ratio**2 - (dim - 1) / kappa * ratio)
        kappa = np.maximum(kappa / 10, kappa - step)
        if np.all(np.abs(step) <= 1e-10 * kappa):
            break
    fitted: Floats = np.where(bounded, np.where(resultants > 0, np.minimum(kappa, largest), 0.0), largest)
    return fitted


def sample_around(means: Floats, kappa: float | Floats, generator: np.random.Generator) -> Floats:
    """Draw one point of vMF(mean, kappa) for each row of `means`, shape (n, d); one kappa, or one per row."""
    n, dim = means.shape
    # Rejection (Wood, 1994) draws gaps 1 - <x, mean>, which keep their digits for large kappa.
    if isinstance(kappa, np.ndarray):
        gap, open_rows = np.empty(n), np.arange(n)
        while len(open_rows):
            proposed, log_accept = _propose(dim, kappa[open_rows], generator)
            is_accepted = np.log(generator.random(len(open_rows))) <= log_accept
            gap[open_rows[is_accepted]] = proposed[is_accepted]
            open_rows = open_rows[~is_accepted]
    else:
        gap = np.empty(0)
        while len(gap) < n:
            tries = int(1.6 * (n - len(gap))) + 16
            proposed, log_accept = _propose(dim, np.full(tries, kappa), generator)
            gap = np.concatenate([gap, proposed[np.log(generator.random(tries)) <= log_accept]])
        gap = gap[:n]
    tangent = generator.standard_normal((n, dim))
    tangent -= np.sum(tangent * means, axis=1, keepdims=True) * means
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    points = (1 - gap)[:, None] * means + np.sqrt(gap * (2 - gap))[:, None] * tangent
    scaled: Floats = points / np.linalg.norm(points, axis=1, keepdims=True)
    return scaled


def _propose(dim: int, kappa: Floats, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Proposed values of 1 - <x, mean>, one per kappa, and the logarithms of their probabilities of acceptance."""
    half = (dim - 1) / 2
    b = half / (kappa + np.hypot(kappa, half))
    mode_gap = 2 * b / (1 + b)
    z = generator.beta(half, half, len(kappa))
    gap = 2 * b * z / (1 - (1 - b) * z)
    # log acceptance: kappa (t - t0) + (d - 1) log((1 - t0 t) / (1 - t0^2)), with t = 1 - gap and t0 = 1 - mode_gap.
    shift = mode_gap - gap
    log_accept = kappa * shift + (dim - 1) * np.log1p(-(1 - mode_gap) * shift / (mode_gap * (2 - mode_gap)))
    return gap, log_accept


# ---- components near points ----


def near_components(
    points: Floats, means: Floats, concentrations: Floats, log_factors: Floats
) -> Iterator[tuple[Any, Any]]:
    """Yield blocks of points, and the components that are not negligible there; the rest is below 1e-15 of the density.

    The logarithm of a component at x is log_factor - concentration (1 - <x, mean>). A block is a pair of indices or
    slices, of points and of components. Each point is in one block.
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
    """Select the components that are not negligible at all points of a tile."""
    center = points.sum(axis=0)
    length = float(np.linalg.norm(center))
    if length < 1e-6 * len(points):
        return np.arange(len(means))
    center /= length
    radius = np.arccos(np.clip(np.min(points @ center), -1.0, 1.0)) + 1e-7
    distance = np.arccos(np.clip(means @ center, -1.0, 1.0))
    nearest = log_factors - concentrations * (1 - np.cos(np.maximum(distance - radius, 0.0)))
    farthest = log_factors - concentrations * (1 - np.cos(np.minimum(distance + radius, np.pi)))
    # At every point of the tile, the density is at least the lower bound of any single component.
    return np.flatnonzero(nearest > farthest.max() - _NEGLIGIBLE - np.log(len(means)))


# ---- building blocks ----


def normalized_float64(points: Array) -> Floats:
    """Normalize points in float64, in NumPy: a large kappa would magnify the rounding of lengths in float32."""
    values = to_numpy(points).astype(np.float64)
    normalized: Floats = values / np.linalg.norm(values, axis=1, keepdims=True)
    return normalized


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Divide the rows of a matrix into blocks with a bounded number of entries."""
    step = max(1, _BLOCK_ENTRIES // n_columns)
    return (slice(start, start + step) for start in range(0, n_rows, step))


def log_sum_exp(exponents: Floats, dtype: Any = np.float64) -> Floats:
    """Compute the logarithm of the sum of exponentials in each row; overwrites `exponents`.

    Exponentials in float32 are several times faster, with an error of 1e-6.
    """
    largest = exponents.max(axis=1, keepdims=True)
    exponents -= largest
    terms = exponents.astype(dtype, copy=False)
    np.exp(terms, out=terms)
    total: Floats = largest[:, 0] + np.log(terms.sum(axis=1, dtype=np.float64))
    return total


def maximizer(function: Callable[[float], float], low: float, high: float) -> float:
    """Find the maximizer of a function with one peak in [low, high], by golden-section search to 0.01."""
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

    Returns the index of the first point of each location, shape (k,), and the location of each point, shape (n,).

    >>> group_by_location(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))[1]
    array([0, 1, 0])
    """
    rounded = np.round(points, 7) + 0.0  # no negative zeros
    _, first, location = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    return first, location.reshape(-1)


def neighbor_distances(locations: Floats, neighbors: int) -> Floats:
    """Compute distances (chords) from distinct locations, shape (k, d), to their nearest other locations.

    The result, shape (k, neighbors), is in rising order, and infinite if there are fewer other locations.
    """
    distances = np.full((len(locations), neighbors), np.inf)
    count = min(neighbors, len(locations) - 1)
    if count < 1:
        return distances
    for rows in row_blocks(len(locations), len(locations)):
        gap = 1.0 - locations[rows] @ locations.T
        gap[gap <= COINCIDENT] = np.inf  # itself, or a point moved by rounding
        gap.partition(count - 1, axis=1)
        distances[rows, :count] = np.sqrt(2.0 * np.sort(gap[:, :count], axis=1))
    return distances
