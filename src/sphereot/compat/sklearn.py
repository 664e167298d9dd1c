"""Steps of scikit-learn pipelines that bring data to the sphere: unit vectors of rows, or of longitude and latitude."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sphereot._arrays.types import ArrayLike
from sphereot._support.column_names import lonlat_order
from sphereot.sphere import from_lonlat, to_lonlat

__all__ = ["LonLat", "UnitNorm"]


class UnitNorm(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scale rows to unit length, for estimators on the sphere.

    In contrast to `sklearn.preprocessing.Normalizer` a row of zeros, which has no direction, is an error.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sphereot.compat.sklearn import UnitNorm
    >>> from sphereot.stats import SphericalKDE
    >>> x = np.random.default_rng(0).normal(size=(100, 4))
    >>> pipeline = make_pipeline(UnitNorm(), SphericalKDE(bandwidth=0.3)).fit(x)
    >>> pipeline.score_samples(x).shape
    (100,)
    """

    def fit(self, X: ArrayLike, y: None = None) -> "UnitNorm":
        """Remember the number of columns."""
        validate_data(self, X, dtype=[np.float64, np.float32])
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Unit vectors (n, d)."""
        check_is_fitted(self, "n_features_in_")
        rows = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        scale = np.max(np.abs(rows), axis=1, keepdims=True)  # squares of large and small numbers stay in range
        if not scale.all():
            row = int(np.argmin(scale))
            raise ValueError(f"X: row {row} is the zero vector, which has no direction; remove such rows.")
        rows = rows / scale
        unit: NDArray[np.floating[Any]] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


class LonLat(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Unit vectors of S^2 from two columns, longitude and latitude in degrees, and back.

    Columns of a DataFrame with the usual names (lon, longitude, ra, ...; lat, latitude, dec, ...) may come in any
    order; others, and arrays, have longitude first.

    Examples
    --------
    >>> from sphereot.compat.sklearn import LonLat
    >>> step = LonLat()
    >>> step.fit_transform([[90.0, 0.0], [0.0, 90.0]]).round(12) + 0.0
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """

    def fit(self, X: ArrayLike, y: None = None) -> "LonLat":
        """Check that there are two columns."""
        self._degrees(X, reset=True)
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Unit vectors (n, 3)."""
        check_is_fitted(self, "n_features_in_")
        return np.asarray(from_lonlat(self._degrees(X, reset=False)))

    def inverse_transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Longitudes and latitudes (n, 2) in degrees, of unit vectors (n, 3)."""
        check_is_fitted(self, "n_features_in_")
        return np.asarray(to_lonlat(np.asarray(X, np.float64)))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Names of the three coordinates."""
        return np.array(["x", "y", "z"], dtype=object)

    def _degrees(self, X: ArrayLike, *, reset: bool) -> NDArray[np.float64]:
        degrees = validate_data(self, X, dtype=np.float64, reset=reset)
        if degrees.shape[1] != 2:
            raise ValueError(f"X: has {degrees.shape[1]} columns, but two are needed, longitude and latitude.")
        order = lonlat_order([str(name) for name in getattr(self, "feature_names_in_", [])])
        return np.asarray(degrees if order is None else degrees[:, list(order)])
