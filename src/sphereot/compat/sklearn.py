"""Steps for scikit-learn pipelines that map data to the sphere: from any rows, or from longitude and latitude.

`expected_failed_checks` lists the checks of `sklearn.utils.estimator_checks` that estimators on a sphere cannot pass.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sphereot._arrays.types import ArrayLike
from sphereot._support.text import lonlat_order
from sphereot.density import DensityModel
from sphereot.sphere import from_lonlat, normalize, to_lonlat

__all__ = ["LonLat", "UnitNorm", "expected_failed_checks"]


class UnitNorm(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Step that scales rows to unit length, for estimators on the sphere.

    In contrast to `sklearn.preprocessing.Normalizer`, a row of zeros raises an error, since it has no direction.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sphereot.compat.sklearn import UnitNorm
    >>> from sphereot.density import SphericalKDE
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
        """Return unit vectors (n, d)."""
        check_is_fitted(self, "n_features_in_")
        rows = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        nonzero = rows.any(axis=1)
        if not nonzero.all():
            row = int(np.argmin(nonzero))
            raise ValueError(f"X must not contain rows of zeros, which have no direction, got one in row {row}.")
        return np.asarray(normalize(rows))


class LonLat(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Step that converts two columns, longitude and latitude in degrees, to unit vectors of S^2, and back.

    Columns of a DataFrame named like longitude and latitude (lon, longitude, ra, ...; lat, latitude, dec, ...) may come
    in any order. Otherwise the longitude is the first column.

    Examples
    --------
    >>> from sphereot.compat.sklearn import LonLat
    >>> LonLat().fit_transform([[90.0, 0.0], [0.0, 90.0]]).round(12) + 0.0
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """

    def fit(self, X: ArrayLike, y: None = None) -> "LonLat":
        """Check that there are two columns."""
        self._degrees(X, reset=True)
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return unit vectors (n, 3)."""
        check_is_fitted(self, "n_features_in_")
        return np.asarray(from_lonlat(self._degrees(X, reset=False)))

    def inverse_transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the longitudes and latitudes (n, 2), in degrees, of unit vectors (n, 3)."""
        check_is_fitted(self, "n_features_in_")
        return np.asarray(to_lonlat(np.asarray(X, np.float64)))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Return the names of the three coordinates."""
        return np.array(["x", "y", "z"], dtype=object)

    def _degrees(self, X: ArrayLike, *, reset: bool) -> NDArray[np.float64]:
        degrees = validate_data(self, X, dtype=np.float64, reset=reset)
        if degrees.shape[1] != 2:
            raise ValueError(f"X must have two columns, longitude and latitude, got {degrees.shape[1]}.")
        order = lonlat_order([str(name) for name in getattr(self, "feature_names_in_", [])])
        return np.asarray(degrees if order is None else degrees[:, list(order)])


_ZERO_ROW = "passes a row of zeros, which has no direction and raises an error"
_ANY_LENGTH = "passes rows that are not unit vectors, which raises an error; with rows scaled by UnitNorm it passes"
_ANY_COLUMNS = "passes columns that are not longitude and latitude in degrees, which raises an error"

_CHECKS_WITH_ANY_ROWS = [
    "check_dict_unchanged", "check_dont_overwrite_parameters", "check_estimators_nan_inf", "check_estimators_pickle",
    "check_f_contiguous_array_estimator", "check_fit2d_predict1d", "check_fit_idempotent", "check_fit_score_takes_y",
    "check_methods_sample_order_invariance", "check_methods_subset_invariance", "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
]  # fmt: skip
_OF_DENSITIES = {
    "check_complex_data": "complex points raise a TypeError, as in all of sphereot",
    "check_dtype_object": "arrays of objects raise a TypeError, as in all of sphereot",
    "check_estimators_dtypes": _ZERO_ROW,
    "check_estimators_empty_data_messages": "the message about missing coordinates has other words",
    "check_fit2d_1feature": "a sphere needs two coordinates; the message says so in other words",
    "check_fit2d_1sample": "passes a row that is not a unit vector; and one point has no bandwidth",
    "check_n_features_in_after_fitting": "the message about another dimension has other words",
} | dict.fromkeys(
    [
        *_CHECKS_WITH_ANY_ROWS,
        "check_all_zero_sample_weights_error",
        "check_estimators_fit_returns_self",
        "check_estimators_overwrite_params",
        "check_fit_check_is_fitted",
        "check_n_features_in",
        "check_readonly_memmap_input",
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weights_list",
        "check_sample_weights_not_an_array",
        "check_sample_weights_not_overwritten",
        "check_sample_weights_pandas_series",
        "check_sample_weights_shape",
    ],
    _ANY_LENGTH,
)
_OF_LONLAT = dict.fromkeys(
    [
        *_CHECKS_WITH_ANY_ROWS,
        "check_dtype_object",
        "check_estimators_dtypes",
        "check_fit2d_1feature",
        "check_fit2d_1sample",
        "check_n_features_in_after_fitting",
        "check_transformer_data_not_an_array",
        "check_transformer_general",
        "check_transformer_preserve_dtypes",
    ],
    _ANY_COLUMNS,
)


def expected_failed_checks(estimator: object) -> dict[str, str]:
    """List the checks of scikit-learn that an estimator of sphereot cannot pass, with the reasons.

    These checks pass vectors of any length and dimension, but points on a sphere are unit vectors.

    Parameters
    ----------
    estimator : estimator
        An estimator of `sphereot.density`, `UnitNorm`, `LonLat`, or a subclass.

    Returns
    -------
    dict of str to str
        Reasons by the names of the checks. It is empty for other estimators.

    Notes
    -----
    Pass the dict to `check_estimator`, and this function itself to `parametrize_with_checks`, both of scikit-learn 1.6
    or later. Estimators cannot declare these checks by a tag.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.utils.estimator_checks import check_estimator
    >>> from sphereot.compat.sklearn import expected_failed_checks
    >>> from sphereot.density import SphericalKDE
    >>> kde = SphericalKDE()
    >>> with warnings.catch_warnings(action="ignore"):
    ...     results = check_estimator(kde, expected_failed_checks=expected_failed_checks(kde))
    >>> any(result["status"] == "failed" for result in results)
    False
    """
    if isinstance(estimator, DensityModel):
        weighted = "sample_weight" in inspect.signature(estimator.fit).parameters
        reasons = {check: reason for check, reason in _OF_DENSITIES.items() if weighted or "weight" not in check}
        if hasattr(estimator, "predict"):
            reasons["check_fit2d_predict1d"] = "the message about a single vector has other words"
        return reasons
    if isinstance(estimator, LonLat):
        return dict(_OF_LONLAT)
    return {"check_estimators_dtypes": _ZERO_ROW} if isinstance(estimator, UnitNorm) else {}
