"""Validation of the rows of a file: which can be points, and errors that name the file and the line."""

import math
import warnings
from typing import Any

import numpy as np

from sphereot._arrays.unit_length import unit_length_tolerance
from sphereot.datasets.point_file import Batch, PointFile

__all__ = ["as_unit_rows", "raise_for_first_invalid", "require_not_swapped", "valid_rows", "warn_of_radians"]

_WARNED_BY_FROM_LONLAT = 100  # rows, or more


def valid_rows(batch: Batch, lonlat: bool) -> np.ndarray[Any, Any]:
    """Mask (n,) of the rows that can be points: finite, not zero, within the range of degrees, weight at least 0.

    Examples
    --------
    >>> valid_rows(Batch(np.array([[10.0, 91.0], [10.0, 45.0], [np.nan, 1.0]]), None, range(3)), lonlat=True)
    array([False,  True, False])
    """
    values = batch.values
    valid: np.ndarray[Any, Any] = np.isfinite(values).all(axis=1)
    if lonlat:
        with np.errstate(invalid="ignore"):
            valid &= (np.abs(values[:, 0]) <= 360) & (np.abs(values[:, 1]) <= 90)
    else:
        valid &= values.any(axis=1)
    if batch.weights is not None:
        with np.errstate(invalid="ignore"):
            valid &= np.isfinite(batch.weights) & (batch.weights >= 0)
    return valid


def require_not_swapped(point_file: PointFile, batch: Batch, drop_bad: bool) -> None:
    """Raise if longitude and latitude are swapped, since dropping invalid rows would then drop half the earth."""
    beyond = np.abs(batch.values[:, 1]) > 90
    if drop_bad and _looks_swapped(batch) and beyond.mean() > 0.05:
        raise ValueError(
            f"{point_file.path}: {int(beyond.sum())} latitudes are beyond 90 degrees and no longitude is; the columns "
            f"{point_file.columns[1]!r} and {point_file.columns[0]!r} seem to be swapped; fix the file."
        )


def warn_of_radians(point_file: PointFile, lonlat: np.ndarray[Any, Any]) -> None:
    """Warn if the few longitudes and latitudes of a short file could all be radians.

    A place that is uniformly distributed on the earth is within these limits with probability 0.001.
    """
    if 2 <= len(lonlat) < _WARNED_BY_FROM_LONLAT and bool((np.abs(lonlat) <= (2 * math.pi, math.pi / 2)).all()):
        warnings.warn(
            f"{point_file.path}: no longitude is beyond 2 pi and no latitude beyond pi / 2, as if they were in "
            "radians, but degrees are expected; convert radians first, e.g. with numpy.rad2deg.",
            UserWarning,
            stacklevel=2,
        )


def raise_for_first_invalid(point_file: PointFile, batch: Batch, valid: np.ndarray[Any, Any]) -> None:
    """Raise an error that says what is wrong with the first invalid row of a batch."""
    k = int(np.argmin(valid))
    values, row = batch.values[k], int(batch.rows[k])
    remedy = "fix the row, or drop such rows with drop_bad=True (--drop-bad)."
    where = f"{point_file.path}, {point_file.locate(row)}"
    not_finite = np.flatnonzero(~np.isfinite(values))
    if not_finite.size:
        raise ValueError(f"{where}: {_nan_message(point_file, row, int(not_finite[0]))}; {remedy}")
    if point_file.lonlat:
        beyond = _beyond_limit(values)
        if beyond is not None:
            name, value, limit = beyond
            if name == "latitude" and _looks_swapped(batch):
                remedy = f"the columns may be swapped: name them in the order longitude, latitude; or {remedy}"
            raise ValueError(f"{where}: the {name} is {value:.6g}, beyond {limit} degrees; {remedy}")
    elif not values.any():
        raise ValueError(f"{where}: is the zero vector, which has no direction; {remedy}")
    weight = float("nan") if batch.weights is None else float(batch.weights[k])
    if weight < 0:
        raise ValueError(f"{where}: the weight is {weight:.6g}, but weights cannot be negative; {remedy}")
    raise ValueError(f"{where}: {_nan_message(point_file, row, -1)}; {remedy}")


def as_unit_rows(point_file: PointFile, batch: Batch) -> np.ndarray[Any, Any]:
    """Rows of unit length as float32 or float64, or an error that names the first row of another length.

    Half precision keeps lengths to two or three digits; such rows are normalized in float32.
    """
    values = batch.values
    half = values.dtype == np.float16
    values = values.astype(np.float32) if half else values
    tolerance = unit_length_tolerance(float(np.finfo(values.dtype).eps), half=half)
    with np.errstate(over="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
    is_unit = np.abs(lengths - 1) <= tolerance
    if not is_unit.all():
        k = int(np.argmin(is_unit))
        remedy = "pass normalize=True (--normalize) if only directions matter"
        if values.shape[1] == 2:
            remedy = (
                "pass lonlat=True (--lonlat) if the two columns are a longitude and a latitude, or normalize=True "
                "(--normalize) if they are directions in the plane, points on a circle"
            )
        where = f"{point_file.path}, {point_file.locate(int(batch.rows[k]))}"
        raise ValueError(f"{where}: has length {lengths[k]:.4g}, but points must be unit vectors; {remedy}.")
    return values / lengths[:, None] if half else values


def _beyond_limit(lonlat: np.ndarray[Any, Any]) -> tuple[str, float, int] | None:
    """Name, value and limit of the latitude or longitude that is beyond it."""
    for column, name, limit in ((1, "latitude", 90), (0, "longitude", 360)):
        if abs(lonlat[column]) > limit:
            return name, float(lonlat[column]), limit
    return None


def _nan_message(point_file: PointFile, row: int, column: int) -> str:
    """What is wrong with a value that was read as NaN."""
    names = point_file.columns or ("",)
    # A list-typed column has one name for all coordinates.
    name = point_file.weights_name if column == -1 else names[min(column, len(names) - 1)]
    text = point_file.quote(row, column)
    if text is None:
        return f"{name!r} {point_file.nan_message}" if column == -1 else point_file.nan_message
    quoted = text if len(text) <= 40 else text[:37] + "..."
    return f"{name!r} is missing" if not text.strip() else f"{name!r} is {quoted!r}, not a finite number"


def _looks_swapped(batch: Batch) -> bool:
    """Whether some latitudes are beyond 90 degrees but no longitude is."""
    return not bool((np.abs(batch.values[:, 0]) > 90).any()) and bool((np.abs(batch.values[:, 1]) > 90).any())
