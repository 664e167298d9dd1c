"""Kernel density estimates on the sphere with the von Mises-Fisher kernel.

    f(x) = sum over i of w_i C_d(kappa_i) exp(kappa_i <x, x_i>),   kappa_i = 1 / h_i^2

For small h the kernel is nearly a Gaussian of standard deviation h, in radians, on the tangent space of its point.

`SphericalKDE` uses one bandwidth h for all points. `AdaptiveKDE` uses h_i = c r_i / sqrt(d - 1), with r_i the distance
from x_i to its k-th nearest other location: kernels are narrow in dense regions, and wide in sparse regions. The mass
of a kernel of bandwidth h is near the distance h sqrt(d - 1), so c is about 1 in any dimension.
"""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array
from sphereot._arrays.random import numpy_generator
from sphereot._arrays.types import Numbers, Points
from sphereot._arrays.validation import as_int, as_positive
from sphereot.density._estimator import ComponentModel, DensityModel
from sphereot.density.components import (
    COINCIDENT,
    Floats,
    VonMisesFisherComponents,
    fit_concentrations,
    group_by_location,
    log_bessel,
    log_sum_exp,
    maximizer,
    neighbor_distances,
    normalized_float64,
    row_blocks,
    sample_around,
    scaled_log_normalizer,
)

Bandwidth: TypeAlias = float | Literal["cv", "rule-of-thumb"]
"""Bandwidth of a kernel estimate in radians, or how it is chosen; see `SphericalKDE`."""

_CV_POINTS = 1000
WIDEST = 3.0  # radians: a kernel of this width is flat

_NEIGHBORS = (1, 2, 3, 5, 8, 16, 32)
_SCALES = (0.25, 0.5, 1.0, 2.0)
_CV_LOCATIONS = 1000
_LEAST = 1e-6  # radians: a narrower kernel would magnify the rounding of cosines


class SphericalKDE(DensityModel):
    """Kernel density estimate with the von Mises-Fisher kernel, on a sphere of any dimension.

    Parameters
    ----------
    bandwidth : float, {"cv", "rule-of-thumb"} or None, default None
        Bandwidth h of the kernel in radians, or the method to choose it. ``"cv"`` (the same as None) maximizes the
        leave-one-out likelihood. ``"rule-of-thumb"`` is faster, and optimal for one von Mises-Fisher distribution
        (Garcia-Portugues, 2013). It is too large for a distribution with several modes.
    weights : array, shape (n,), optional
        Nonnegative weights of the points of `fit`, scaled to a total of 1; equal by default.

    Attributes
    ----------
    bandwidth_ : float
        Bandwidth h in radians.
    concentration_ : float
        kappa = 1 / h^2.
    points_ : array, shape (n, d)
        The points with positive weight, unit vectors in float64.
    weights_ : array, shape (n,)
        Weights of `points_`, with a total of 1.

    Notes
    -----
    Cross-validation uses a random subset of at most 1000 points, with a fixed seed. The bandwidth is then scaled to the
    size of the sample by the rate n^(-1 / (d + 3)). Points at the same location are left out together: otherwise
    repeated points would make the bandwidth zero.

    References
    ----------
    E. Garcia-Portugues, Exact risk improvement of bandwidth selectors for kernel density estimation with directional
    data, Electronic Journal of Statistics 7 (2013).

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> from sphereot.density import SphericalKDE
    >>> x = sphere.normalize(np.random.default_rng(0).normal(size=(500, 3)) + [2, 0, 0])
    >>> kde = SphericalKDE().fit(x)
    >>> kde.density(np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])).round(2)
    array([0.55, 0.01])
    """

    _model = "kde"

    def __init__(self, bandwidth: Bandwidth | None = None, weights: Numbers | None = None) -> None:
        self.bandwidth = bandwidth
        self.weights = weights

    def fit(self, x: Points, y: None = None, sample_weight: Numbers | None = None) -> Self:
        """Store unit vectors, shape (n, d), and choose the bandwidth if it is not given.

        `sample_weight`, shape (n,), contains nonnegative weights; by default the weights of the constructor. `y` is
        ignored. Choosing a bandwidth requires points at two or more locations.
        """
        self.points_, self.weights_ = self._weighted_sample(x, self.weights, sample_weight)
        self.n_features_in_ = self.points_.shape[1]
        rule = "cv" if self.bandwidth is None else self.bandwidth
        if isinstance(rule, str) and rule in ("cv", "rule-of-thumb"):
            choose = cross_validated_bandwidth if rule == "cv" else _rule_of_thumb
            self.bandwidth_ = choose(self.points_, self.weights_)
        elif isinstance(rule, Real) and not isinstance(rule, bool) and 0 < float(rule) < math.inf:
            self.bandwidth_ = float(rule)
        else:
            raise ValueError(f"bandwidth must be a positive number of radians, 'cv' or 'rule-of-thumb', got {rule!r}.")
        self.concentration_ = self.bandwidth_**-2
        return self

    def _log_density(self, points: Array) -> Floats:
        concentrations = np.full(len(self.weights_), self.concentration_)
        kernels = VonMisesFisherComponents(self.points_, concentrations, self.weights_)
        return kernels.log_density(normalized_float64(points), np.float64)

    def _sample(self, n: int, seed: Any) -> Floats:
        generator = numpy_generator(seed)
        centers = self.points_[generator.choice(len(self.points_), size=n, p=self.weights_)]
        return sample_around(centers, self.concentration_, generator)

    def _arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {"points": self.points_, "weights": self.weights_}, {"bandwidth_": self.bandwidth_}

    def _restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        shape, dim = arrays["points"].shape, values["dim"]
        if len(shape) != 2 or shape[1] != dim:
            raise ValueError(f"points: shape is {shape}, but dim is {dim}")
        # The bandwidth is stored as a number, however it was chosen.
        fitted = SphericalKDE(float(values["bandwidth_"])).fit(arrays["points"], sample_weight=arrays["weights"])
        self.points_, self.weights_ = fitted.points_, fitted.weights_
        self.bandwidth_, self.concentration_ = fitted.bandwidth_, fitted.concentration_


# ---- bandwidths ----


def _rule_of_thumb(points: Floats, weights: Floats) -> float:
    """Compute the bandwidth with the least asymptotic squared error for a von Mises-Fisher distribution."""
    dim = points.shape[1]
    resultant = float(np.linalg.norm(weights @ points))
    if resultant >= 1 - COINCIDENT:
        raise ValueError(_NO_SPREAD)
    q = dim - 1  # dimension of the sphere, the notation of Garcia-Portugues
    kappa = max(float(fit_concentrations(dim, np.array([resultant]))[0]), 1e-9)
    n = 1 / float(np.sum(weights**2))
    top = math.log(4 * math.sqrt(math.pi)) + 2 * log_bessel((q - 1) / 2, kappa)
    first = math.log(2 * q) + log_bessel((q + 1) / 2, 2 * kappa)
    second = math.log((2 + q) * kappa) + log_bessel((q + 3) / 2, 2 * kappa)
    bottom = (q + 1) / 2 * math.log(kappa) + math.log(n) + float(np.logaddexp(first, second))
    return math.exp((top - bottom) / (4 + q))


def cross_validated_bandwidth(points: Floats, weights: Floats) -> float:
    """Find the bandwidth of largest leave-one-out likelihood, on a subset of the points if there are many."""
    n, dim = points.shape
    size = 1.0
    if n > _CV_POINTS:
        part = np.random.default_rng(0).permutation(n)[:_CV_POINTS]
        points, weights = points[part], weights[part] / weights[part].sum()
        size = n / _CV_POINTS
    gap = 1.0 - points @ points.T
    apart = gap > COINCIDENT
    if not np.all(np.any(apart, axis=1)):
        raise ValueError(_NO_SPREAD)
    gap[~apart] = np.inf
    nearest = gap.min(axis=1, keepdims=True)
    gap -= nearest
    log_left = np.log(apart @ weights)

    def likelihood(log_width: float) -> float:
        kappa = math.exp(-2 * log_width)
        others = np.log(np.exp(-kappa * gap) @ weights) - kappa * nearest[:, 0]
        return float(weights @ (others - log_left) + scaled_log_normalizer(dim, kappa))

    spacing = float(np.quantile(np.sqrt(2 * nearest), 0.1))
    widths = np.linspace(math.log(spacing / 4), math.log(WIDEST), 24)
    best = int(np.argmax([likelihood(float(width)) for width in widths]))
    width = maximizer(likelihood, float(widths[max(best - 1, 0)]), float(widths[min(best + 1, len(widths) - 1)]))
    return float(math.exp(width) * size ** (-1 / (dim + 3)))


_NO_SPREAD = (
    "bandwidth cannot be chosen, because all points are at one location. Give a number of radians, e.g. bandwidth=0.1."
)


# ---- adaptive ----


class AdaptiveKDE(ComponentModel):
    """Kernel density estimate with the von Mises-Fisher kernel, and narrower kernels in dense regions.

    Parameters
    ----------
    neighbors : int, optional
        Number k of neighbors: the bandwidth at a location is proportional to its distance to the k-th nearest other
        location (or to the farthest, if there are fewer). By default chosen among 1, 2, 3, 5, 8, 16 and 32.
    scale : float, optional
        Factor c of the bandwidths, about 1; chosen by default.
    weights : array, shape (n,), optional
        Nonnegative weights of the points of `fit`, scaled to a total of 1; equal by default.

    Attributes
    ----------
    neighbors_, scale_ : int, float
        The number of neighbors and the factor.
    bandwidths_ : array, shape (n,)
        Bandwidth at each point of positive weight, in radians; at least 1e-6.
    components_ : VonMisesFisherComponents
        The kernels: points with positive weight, concentrations 1 / h^2 and weights.

    Notes
    -----
    `neighbors` and `scale`, if not given, maximize the likelihood of at most 1000 locations that are left out, one at a
    time with all its points. This is exact without a fit for every location: where a neighbor is removed, the next one
    takes its place. Points are at one location if their coordinates agree to seven decimals.

    References
    ----------
    L. Breiman, W. Meisel, E. Purcell, Variable kernel estimates of multivariate densities, Technometrics 19 (1977).

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> from sphereot.density import AdaptiveKDE
    >>> x = sphere.normalize(np.random.default_rng(0).normal(size=(500, 3)) + [2, 0, 0])
    >>> dense, sparse = AdaptiveKDE().fit(x).density(np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]))
    >>> bool(dense > 0.4), bool(sparse < 0.01)
    (True, True)
    """

    _model = "adaptive"
    _fitted_values = ("neighbors_", "scale_")

    def __init__(
        self, neighbors: int | None = None, scale: float | None = None, weights: Numbers | None = None
    ) -> None:
        self.neighbors = neighbors
        self.scale = scale
        self.weights = weights

    def fit(self, x: Points, y: None = None, sample_weight: Numbers | None = None) -> Self:
        """Store unit vectors, shape (n, d), at two or more locations, and choose the bandwidths.

        `sample_weight` is as in `SphericalKDE.fit`. `y` is ignored.
        """
        points, masses = self._weighted_sample(x, self.weights, sample_weight)
        neighbors, scale = self.neighbors, self.scale
        if neighbors is not None:
            neighbors = as_int("neighbors", neighbors, 1, "the number of neighbors")
        if scale is not None:
            scale = as_positive("scale", scale, "the factor of the bandwidths")
        sample = _Sample(points, masses, (neighbors or max(_NEIGHBORS)) + 1)
        self.neighbors_, self.scale_ = sample.choose_settings(neighbors, scale)
        self.bandwidths_ = sample.bandwidths(self.neighbors_, self.scale_)[sample.location]
        self.components_ = VonMisesFisherComponents(points, self.bandwidths_**-2, masses)
        self.n_features_in_ = points.shape[1]
        return self

    def _restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        super()._restore(arrays, values)
        self.bandwidths_ = self.components_.concentrations**-0.5


def adaptive_bandwidths(points: Floats, settings: Sequence[tuple[int, float]]) -> list[Floats]:
    """Compute the bandwidth at each point for pairs of `neighbors` and `scale`, with one search for neighbors."""
    sample = _Sample(points, np.full(len(points), 1 / len(points)), max(neighbors for neighbors, _ in settings))
    return [sample.bandwidths(neighbors, scale)[sample.location] for neighbors, scale in settings]


class _Sample:
    """Points with weights, their locations, and the distances of locations to their neighbors."""

    def __init__(self, points: Floats, weights: Floats, neighbors: int):
        first, self.location = group_by_location(points)
        self.weights, self.locations = weights, points[first]
        self.masses = np.bincount(self.location, weights)
        self.distances = neighbor_distances(self.locations, max(1, min(neighbors, len(first) - 1)))
        if not np.all(np.isfinite(self.distances[:, 0])):
            raise ValueError(
                "x must have points at two or more locations, because their distances define the bandwidths, got one. "
                "Use SphericalKDE with a number of radians."
            )

    def bandwidths(self, neighbors: int, scale: float) -> Floats:
        """Compute the bandwidth of each location."""
        finite = np.isfinite(self.distances).sum(axis=1)
        column = np.minimum(neighbors, finite) - 1
        chosen = np.take_along_axis(self.distances, column[:, None], axis=1)[:, 0]
        widths: Floats = np.maximum(scale * chosen / math.sqrt(self.locations.shape[1] - 1), _LEAST)
        return widths

    def left_out(self, neighbors: int, scale: float, rows: NDArray[np.intp]) -> Floats:
        """Compute log-densities at locations `rows`, each from the points at all other locations."""
        dim = self.locations.shape[1]
        radius = self.distances[:, min(neighbors, self.distances.shape[1]) - 1]
        near, far = (self.bandwidths(k, scale) ** -2 for k in (neighbors, neighbors + 1))
        log_masses = np.log(self.masses)
        # If the location left out is one of the k nearest, the next neighbor takes its place.
        factors = [log_masses + scaled_log_normalizer(dim, kappa) for kappa in (near, far)]
        values = np.empty(len(rows))
        for block in row_blocks(len(rows), len(self.locations)):
            gap = 1.0 - self.locations[rows[block]] @ self.locations.T
            is_neighbor = np.sqrt(2.0 * np.maximum(gap, 0.0)) <= radius * (1 + 1e-12)
            exponents = factors[0] - near * gap
            left, right = np.nonzero(is_neighbor)
            exponents[left, right] = factors[1][right] - far[right] * gap[left, right]
            exponents[np.arange(len(exponents)), rows[block]] = -np.inf
            values[block] = log_sum_exp(exponents, np.float32)
        total: Floats = values - np.log1p(-self.masses[rows])
        return total

    def choose_settings(self, neighbors: int | None, scale: float | None) -> tuple[int, float]:
        """Choose the number of neighbors and the factor that are not given, by the likelihood of locations left out."""
        n = len(self.locations)
        if n < 3 or (neighbors is not None and scale is not None):  # of two locations, none can be left out
            return neighbors or 1, scale or 1.0
        rows = np.sort(np.random.default_rng(0).permutation(n)[:_CV_LOCATIONS])
        masses = self.masses[rows] / self.masses[rows].sum()

        def likelihood(k: int, factor: float) -> float:
            return float(masses @ self.left_out(k, factor, rows))

        counts = [k for k in _NEIGHBORS if k <= n - 2] if neighbors is None else [neighbors]
        scales = _SCALES if scale is None else (scale,)
        values = {(k, factor): likelihood(k, factor) for k in counts for factor in scales}
        best: tuple[int, float] = max(values, key=lambda pair: values[pair])
        if scale is not None:
            return best
        low, high = math.log(best[1] / 2), math.log(best[1] * 2)
        return best[0], math.exp(maximizer(lambda value: likelihood(best[0], math.exp(value)), low, high))
