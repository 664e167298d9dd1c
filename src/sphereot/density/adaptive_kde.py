"""Kernel density estimate with a bandwidth of its own at every location.

    f(x) = sum over i of w_i C_d(kappa_i) exp(kappa_i <x, x_i>),   kappa_i = 1 / h_i^2,   h_i = c r_i / sqrt(d - 1)

with r_i the distance of x_i to its k-th nearest other location: kernels are narrow where points are dense, and wide
where they are rare. A kernel of bandwidth h has its mass near the distance h sqrt(d - 1), so c is about 1 in any
dimension.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import Columns
from sphereot._arrays.types import Numbers, Points
from sphereot._arrays.validation import as_int, as_points, as_positive, own_weights
from sphereot.density._component_estimator import ComponentEstimator
from sphereot.density._kernels import log_sum_exp_in_single, maximizer, normalized_float64, row_blocks
from sphereot.density._vmf import scaled_log_normalizers
from sphereot.density._weights import fit_weights, scaled_weights
from sphereot.density.components import VonMisesFisherComponents
from sphereot.density.locations import group_by_location, neighbor_distances

__all__ = ["AdaptiveKDE", "adaptive_bandwidths"]

_NEIGHBORS = (1, 2, 3, 5, 8, 16, 32)
_SCALES = (0.25, 0.5, 1.0, 2.0)
_CV_LOCATIONS = 1000
_LEAST = 1e-6  # radians: a narrower kernel would show the rounding of cosines


class AdaptiveKDE(ComponentEstimator):
    """Kernel density estimate with the von Mises-Fisher kernel, narrow where points are dense.

    Parameters
    ----------
    neighbors : int, optional
        The bandwidth at a location is in proportion to its distance to the k-th nearest other location; chosen among 1,
        2, 3, 5, 8, 16 and 32 by default. With fewer locations than that, the farthest one counts.
    scale : float, optional
        Factor c of the bandwidths, about 1; chosen by default.
    weights : array, shape (n,), optional
        Nonnegative weights of the points of `fit`, scaled to a total of 1; equal by default.
    columns : str, int or sequence of them, optional
        Columns of the coordinates in a table: names or numbers, as in `sphereot.ssw`; longitude and latitude in degrees
        become unit vectors. `fit` then needs a table; the other methods take arrays of unit vectors too.

    Attributes
    ----------
    neighbors_, scale_ : int, float
        The number of neighbors and the factor.
    bandwidths_ : array, shape (n,)
        Bandwidth at each point of positive weight, in radians; at least 1e-6.
    components_ : VonMisesFisherComponents
        The kernels: points with positive weight, concentrations 1 / h^2 and weights.
    n_features_in_ : int
        Dimension d of the space around the sphere.

    Notes
    -----
    What is not given maximizes the likelihood of locations that are left out: a location with all its points is
    removed, and the bandwidths of the others follow. This is exact, without a fit for every location, as a removed
    neighbor makes the next one count. At most 1000 locations are left out, a random subset with a fixed seed.

    Points are at one location if they agree to seven decimals. Neighbors are counted among locations, so that repeated
    points do not make a bandwidth zero.

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

    def __init__(
        self,
        neighbors: int | None = None,
        scale: float | None = None,
        weights: Numbers | None = None,
        *,
        columns: Columns | None = None,
    ) -> None:
        self.neighbors = neighbors
        self.scale = scale
        self.weights = weights
        self.columns = columns

    def fit(self, x: Points, y: None = None, sample_weight: Numbers | None = None) -> "AdaptiveKDE":
        """Fit the estimate to points: choose the bandwidths.

        Parameters
        ----------
        x : array, shape (n, d)
            Unit vectors, at two locations or more.
        y : None
            Ignored; present for the API of scikit-learn.
        sample_weight : array, shape (n,), optional
            Nonnegative weights of the points, scaled to a total of 1; by default those of the constructor.

        Returns
        -------
        AdaptiveKDE
            This estimate.

        Raises
        ------
        ValueError
            Also if all points are at the same location.
        """
        sample_weight = own_weights(sample_weight, x)
        rows = as_points("x", x, self.columns, weighted=True)
        weights = scaled_weights(fit_weights(self.weights, sample_weight, rows), len(rows))
        neighbors = (
            None if self.neighbors is None else as_int("neighbors", self.neighbors, 1, "the number of neighbors")
        )
        scale = None if self.scale is None else as_positive("scale", self.scale, "the factor of the bandwidths")
        points = normalized_float64(rows)[weights > 0]
        sample = _Sample(points, weights[weights > 0], max(_NEIGHBORS) + 1 if neighbors is None else neighbors + 1)
        self.neighbors_, self.scale_ = _chosen(sample, neighbors, scale)
        self.bandwidths_ = sample.bandwidths(self.neighbors_, self.scale_)[sample.location]
        self.components_ = VonMisesFisherComponents(points, self.bandwidths_**-2, sample.weights)
        self.n_features_in_ = points.shape[1]
        return self


def adaptive_bandwidths(
    points: NDArray[np.float64], settings: Sequence[tuple[int, float]]
) -> list[NDArray[np.float64]]:
    """Bandwidths at each point for several numbers of neighbors and scales, with one search for neighbors.

    Parameters
    ----------
    points : array, shape (n, d)
        Unit vectors in float64.
    settings : sequence of (int, float)
        `neighbors` and `scale` of `AdaptiveKDE`.
    """
    sample = _Sample(points, np.full(len(points), 1 / len(points)), max(neighbors for neighbors, _ in settings))
    return [sample.bandwidths(neighbors, scale)[sample.location] for neighbors, scale in settings]


class _Sample:
    """Points with weights, their locations, and the distances between these."""

    def __init__(self, points: NDArray[np.float64], weights: NDArray[np.float64], neighbors: int):
        first, self.location = group_by_location(points)
        self.weights, self.locations = weights, points[first]
        self.masses = np.bincount(self.location, weights)
        self.distances = neighbor_distances(self.locations, max(1, min(neighbors, len(first) - 1)))
        if not np.all(np.isfinite(self.distances[:, 0])):
            raise ValueError(
                "x: all points are at one location, so that no bandwidth follows from their distances; give points at "
                "two locations or more, or a number of radians to SphericalKDE."
            )

    def bandwidths(self, neighbors: int, scale: float) -> NDArray[np.float64]:
        """Bandwidth of each location."""
        finite = np.isfinite(self.distances).sum(axis=1)
        column = np.minimum(neighbors, finite) - 1
        chosen = np.take_along_axis(self.distances, column[:, None], axis=1)[:, 0]
        widths: NDArray[np.float64] = np.maximum(scale * chosen / math.sqrt(self.locations.shape[1] - 1), _LEAST)
        return widths

    def left_out(self, neighbors: int, scale: float, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Log-densities at locations `rows`, each by the estimate of the points at all other locations."""
        dim = self.locations.shape[1]
        radius = self.distances[:, min(neighbors, self.distances.shape[1]) - 1]
        near, far = (self.bandwidths(k, scale) ** -2 for k in (neighbors, neighbors + 1))
        log_masses = np.log(self.masses)
        # Where the location left out is one of the k nearest, the next neighbor takes its place.
        factors = [log_masses + scaled_log_normalizers(dim, kappa) for kappa in (near, far)]
        values = np.empty(len(rows))
        for block in row_blocks(len(rows), len(self.locations)):
            gap = 1.0 - self.locations[rows[block]] @ self.locations.T
            is_neighbor = np.sqrt(2.0 * np.maximum(gap, 0.0)) <= radius * (1 + 1e-12)
            exponents = factors[0] - near * gap
            left, right = np.nonzero(is_neighbor)
            exponents[left, right] = factors[1][right] - far[right] * gap[left, right]
            exponents[np.arange(len(exponents)), rows[block]] = -np.inf
            values[block] = log_sum_exp_in_single(exponents)
        total: NDArray[np.float64] = values - np.log1p(-self.masses[rows])
        return total


def _chosen(sample: _Sample, neighbors: int | None, scale: float | None) -> tuple[int, float]:
    """Number of neighbors and factor of largest likelihood of locations left out, where they are not given."""
    n = len(sample.locations)
    if neighbors is not None and scale is not None:
        return neighbors, scale
    if n < 3:  # nothing can be left out
        return neighbors or 1, scale or 1.0
    rows = np.sort(np.random.default_rng(0).permutation(n)[:_CV_LOCATIONS])
    masses = sample.masses[rows] / sample.masses[rows].sum()

    def likelihood(k: int, factor: float) -> float:
        return float(masses @ sample.left_out(k, factor, rows))

    counts = [k for k in _NEIGHBORS if k <= n - 2] if neighbors is None else [neighbors]
    scales = _SCALES if scale is None else (scale,)
    values = {(k, factor): likelihood(k, factor) for k in counts for factor in scales}
    best: tuple[int, float] = max(values, key=lambda pair: values[pair])
    if scale is not None:
        return best
    low, high = math.log(best[1] / 2), math.log(best[1] * 2)
    return best[0], math.exp(maximizer(lambda value: likelihood(best[0], math.exp(value)), low, high))
