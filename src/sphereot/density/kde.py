"""Kernel density estimates on the sphere with the von Mises-Fisher kernel.

    f(x) = sum over i of w_i C_d(kappa) exp(kappa <x, x_i>),   kappa = 1 / h^2

For small h the kernel is nearly a Gaussian of standard deviation h, in radians, on the tangent space of its point.
"""

import math
from numbers import Real
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import Columns
from sphereot._arrays.libraries import Array, is_numpy, to_kind, to_numpy
from sphereot._arrays.types import ArrayT, Bandwidth, Numbers, Points
from sphereot._arrays.validation import as_int, as_points, as_points_or_table, own_weights, require_same_dim
from sphereot._support.scikit_learn import ScikitLearnDensity, not_fitted_error, seed_or_random_state
from sphereot.density._component_estimator import weighted_mean
from sphereot.density._kernels import COINCIDENT, log_sum_exp, maximizer, normalized_float64
from sphereot.density._near_components import near_components
from sphereot.density._vmf import fit_concentration, log_bessel, sample_around, scaled_log_normalizer
from sphereot.density._weights import fit_weights

__all__ = ["SphericalKDE"]

_CV_POINTS = 1000
_WIDEST = 3.0  # radians: so wide a kernel is flat


class SphericalKDE(ScikitLearnDensity):
    """Kernel density estimate with the von Mises-Fisher kernel, on a sphere of any dimension.

    Parameters
    ----------
    bandwidth : float, {"cv", "rule-of-thumb"} or None
        Bandwidth h of the kernel in radians, or how `fit` chooses it. ``"cv"``, also for None, maximizes the
        leave-one-out likelihood. ``"rule-of-thumb"`` is optimal for one von Mises-Fisher distribution
        (Garcia-Portugues, 2013): faster, but too large for a distribution with several modes, and unbounded if their
        mean is zero.
    weights : array, shape (n,), optional
        Nonnegative weights of the points of `fit`, scaled to a total of 1; equal by default.
    columns : str, int or sequence of them, optional
        Columns of the coordinates in a table: names or numbers, as in `sphereot.ssw`; longitude and latitude in degrees
        become unit vectors. `fit` then needs a table; the other methods take arrays of unit vectors too.

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
    n_features_in_ : int
        Dimension d of the space around the sphere.

    Notes
    -----
    Points may be arrays of any library, and densities are returned in the library of the points at which they are
    evaluated. NumPy computes in float64, without gradients, in blocks of the matrix of all pairs of points.

    Cross-validation uses at most 1000 points, a random subset with a fixed seed, and scales the bandwidth to the size
    of the sample by the rate n^(-1 / (d + 3)). Points at the same location are left out together: otherwise rounded or
    repeated data would make the bandwidth zero.

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

    def __init__(
        self,
        bandwidth: Bandwidth | None = None,
        weights: Numbers | None = None,
        *,
        columns: Columns | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.weights = weights
        self.columns = columns

    def fit(self, x: Points, y: None = None, sample_weight: Numbers | None = None) -> "SphericalKDE":
        """Fit the estimate to points: store them, and choose the bandwidth if it is not given.

        Parameters
        ----------
        x : array, shape (n, d)
            Unit vectors.
        y : None
            Ignored; present for the API of scikit-learn.
        sample_weight : array, shape (n,), optional
            Nonnegative weights of the points, scaled to a total of 1; by default those of the constructor.

        Returns
        -------
        SphericalKDE
            This estimate.

        Raises
        ------
        ValueError
            If the bandwidth is not positive, or cannot be chosen because all points are at the same location.
        """
        sample_weight = own_weights(sample_weight, x)
        rows = as_points("x", x, self.columns, weighted=True)
        weights = fit_weights(self.weights, sample_weight, rows)
        points = normalized_float64(rows)
        masses = np.full(len(points), 1.0) if weights is None else to_numpy(weights).astype(np.float64)
        masses = masses / masses.max()  # the sum of very large weights would overflow
        self.points_ = points[masses > 0]
        self.weights_ = masses[masses > 0] / masses.sum()
        self.n_features_in_ = points.shape[1]
        self.bandwidth_ = _chosen_bandwidth(self.bandwidth, self.points_, self.weights_)
        self.concentration_ = self.bandwidth_**-2
        return self

    @overload
    def log_density(self, points: NDArray[Any]) -> NDArray[Any]: ...

    @overload
    def log_density(self, points: ArrayT) -> ArrayT: ...

    @overload
    def log_density(self, points: Points) -> Any: ...

    def log_density(self, points: Points) -> Any:
        """Log-density at points.

        Parameters
        ----------
        points : array, shape (m, d)
            Unit vectors.

        Returns
        -------
        array, shape (m,)
            Log-density against the surface measure of the sphere, in the library of `points`.
        """
        return self._log_density(self._as_points(points))

    score_samples = log_density

    @overload
    def density(self, points: NDArray[Any]) -> NDArray[Any]: ...

    @overload
    def density(self, points: ArrayT) -> ArrayT: ...

    @overload
    def density(self, points: Points) -> Any: ...

    def density(self, points: Points) -> Any:
        """Density at points; see `log_density`."""
        at = self._as_points(points)
        values = np.exp(to_numpy(self._log_density(at)))
        return values if is_numpy(at) else to_kind(values, at)

    def _log_density(self, points: Array) -> Array:
        """`log_density` of validated points."""
        at = normalized_float64(points)
        values = np.empty(len(at))
        log_weights = np.log(self.weights_)
        concentrations = np.full(len(log_weights), self.concentration_)
        for rows, columns in near_components(at, self.points_, concentrations, log_weights):
            exponents = at[rows] @ self.points_[columns].T
            exponents -= 1.0
            exponents *= self.concentration_
            exponents += log_weights[columns]
            values[rows] = log_sum_exp(exponents)
        values += scaled_log_normalizer(self.n_features_in_, self.concentration_)
        return values if is_numpy(points) else to_kind(values, points)

    def score(self, x: Points, y: None = None, sample_weight: Numbers | None = None) -> float:
        """Mean log-density of the points `x`, shape (m, d): the larger, the better the estimate fits them.

        `sample_weight`, shape (m,), are nonnegative weights of the points in the mean; equal by default.
        """
        points = self._as_points(x, "x")
        return weighted_mean(to_numpy(self._log_density(points)), sample_weight, points)

    def sample(
        self,
        n: int = 1,
        seed: int | np.random.Generator | None = None,
        *,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
    ) -> NDArray[np.float64]:
        """Draw points from the estimate.

        Parameters
        ----------
        n : int
            Number of points.
        seed : int, numpy Generator or None
            Source of randomness; no global random state is read or changed.
        random_state : int, numpy RandomState, numpy Generator or None
            scikit-learn's name for `seed`; give one of them.

        Returns
        -------
        array, shape (n, d)
            Unit vectors.
        """
        self._require_fit()
        n = as_int("n", n, 1, "the number of points")
        generator = np.random.default_rng(seed_or_random_state(seed, random_state))
        centers = self.points_[generator.choice(len(self.points_), size=n, p=self.weights_)]
        return sample_around(centers, self.concentration_, generator)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters by name, for the API of scikit-learn."""
        return {"bandwidth": self.bandwidth, "weights": self.weights, "columns": self.columns}

    def set_params(self, **params: Any) -> "SphericalKDE":
        """Change constructor parameters; the next `fit` uses them."""
        for name, value in params.items():
            if name not in self.get_params():
                raise ValueError(
                    f"{name} is not a parameter of SphericalKDE; choose from bandwidth, weights and columns."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        columns = "" if self.columns is None else f", columns={self.columns!r}"
        return f"SphericalKDE(bandwidth={self.bandwidth!r}{columns})"

    def _as_points(self, points: Points, name: str = "points") -> Array:
        self._require_fit()
        at = as_points_or_table(name, points, self.columns)
        require_same_dim(name, at, "the fitted sample", self.points_)
        return at

    def _require_fit(self) -> None:
        if not hasattr(self, "points_"):
            raise not_fitted_error("This SphericalKDE has no points yet; call fit(x) first.")


# ---- bandwidths ----


def _chosen_bandwidth(bandwidth: Any, points: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    if isinstance(bandwidth, Real) and not isinstance(bandwidth, bool):
        if not 0 < float(bandwidth) < math.inf:
            raise ValueError(
                f"bandwidth: got {bandwidth}, but the width of the kernel must be positive and finite, in radians; "
                "give such a number, or None for cross-validation."
            )
        return float(bandwidth)
    if bandwidth is None or (isinstance(bandwidth, str) and bandwidth == "cv"):
        return _cross_validated(points, weights)
    if isinstance(bandwidth, str) and bandwidth == "rule-of-thumb":
        return _rule_of_thumb(points, weights)
    raise ValueError(
        f"bandwidth: got {bandwidth!r}, which is unknown; give a number of radians, 'cv' or 'rule-of-thumb'."
    )


def _rule_of_thumb(points: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Bandwidth of least asymptotic mean integrated squared error for a von Mises-Fisher distribution."""
    dim = points.shape[1]
    resultant = float(np.linalg.norm(weights @ points))
    if resultant >= 1 - COINCIDENT:
        raise ValueError(_NO_SPREAD)
    q = dim - 1  # dimension of the sphere, the notation of Garcia-Portugues
    kappa = max(fit_concentration(dim, resultant), 1e-9)
    n = 1 / float(np.sum(weights**2))
    top = math.log(4 * math.sqrt(math.pi)) + 2 * log_bessel((q - 1) / 2, kappa)
    first = math.log(2 * q) + log_bessel((q + 1) / 2, 2 * kappa)
    second = math.log((2 + q) * kappa) + log_bessel((q + 3) / 2, 2 * kappa)
    bottom = (q + 1) / 2 * math.log(kappa) + math.log(n) + float(np.logaddexp(first, second))
    return math.exp((top - bottom) / (4 + q))


def _cross_validated(points: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Bandwidth of largest leave-one-out likelihood, on a subset of the points if there are many."""
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
        return float(weights @ (others - log_left)) + scaled_log_normalizer(dim, kappa)

    spacing = float(np.quantile(np.sqrt(2 * nearest), 0.1))
    widths = np.linspace(math.log(spacing / 4), math.log(_WIDEST), 24)
    best = int(np.argmax([likelihood(float(width)) for width in widths]))
    width = maximizer(likelihood, float(widths[max(best - 1, 0)]), float(widths[min(best + 1, len(widths) - 1)]))
    return float(math.exp(width) * size ** (-1 / (dim + 3)))


_NO_SPREAD = (
    "bandwidth: all points are at one location, so it cannot be chosen from them; give a number of radians, e.g. "
    "bandwidth=0.1."
)
