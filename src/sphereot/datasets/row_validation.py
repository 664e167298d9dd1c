"""From rows of a file to points: what a row must be, and what is said of one that is not."""

from typing import Any

import numpy as np

from sphereot._arrays.unit_length import unit_length_tolerance
from sphereot.datasets.point_file import Batch, Source

__all__ = ["as_unit", "refuse_first", "require_not_swapped", "usable"]


def usable(batch: Batch, lonlat: bool) -> np.ndarray[Any, Any]:
    """Which rows (n,) can be points: finite, with a direction or a place, and with a weight of at least 0.

    Examples
    --------
    >>> usable(Batch(np.array([[10.0, 91.0], [10.0, 45.0], [np.nan, 1.0]]), None, range(3)), lonlat=True)
    array([False,  True, False])
    """
    values = batch.values
    good: np.ndarray[Any, Any] = np.isfinite(values).all(axis=1)
    if lonlat:
        with np.errstate(invalid="ignore"):
            good &= (np.abs(values[:, 0]) <= 360) & (np.abs(values[:, 1]) <= 90)
    else:
        good &= values.any(axis=1)
    if batch.weights is not None:
        with np.errstate(invalid="ignore"):
            good &= np.isfinite(batch.weights) & (batch.weights >= 0)
    return good


def require_not_swapped(source: Source, batch: Batch, drop_bad: bool) -> None:
    """Raise where longitude and latitude have changed places, so that dropping rows would drop half the earth."""
    beyond = np.abs(batch.values[:, 1]) > 90
    if drop_bad and _looks_swapped(batch) and beyond.mean() > 0.05:
        raise ValueError(
            f"{source.path}: {int(beyond.sum())} latitudes are beyond 90 degrees and no longitude is; the columns "
            f"{source.columns[1]!r} and {source.columns[0]!r} seem to be swapped: mend the file."
        )


def refuse_first(source: Source, batch: Batch, good: np.ndarray[Any, Any]) -> None:
    """Raise for the first row of the batch that is not good."""
    k = int(np.argmin(good))
    values, row = batch.values[k], int(batch.rows[k])
    remedy = "mend the row, or drop such rows with drop_bad=True (--drop-bad)."
    where = f"{source.path}, {source.locate(row)}"
    broken = np.flatnonzero(~np.isfinite(values))
    if broken.size:
        raise ValueError(f"{where}: {_absent(source, row, int(broken[0]))}; {remedy}")
    if source.lonlat:
        for column, name, most in ((1, "latitude", 90), (0, "longitude", 360)):
            if abs(values[column]) > most:
                hint = "the columns may be swapped: name them in the order longitude, latitude; or " * (
                    column == 1 and _looks_swapped(batch)
                )
                raise ValueError(f"{where}: the {name} is {values[column]:.6g}, beyond {most} degrees; {hint}{remedy}")
    elif not values.any():
        raise ValueError(f"{where}: is the zero vector, which has no direction; {remedy}")
    weight = float("nan") if batch.weights is None else float(batch.weights[k])
    if weight < 0:
        raise ValueError(f"{where}: the weight is {weight:.6g}, but weights cannot be negative; {remedy}")
    raise ValueError(f"{where}: {_absent(source, row, -1)}; {remedy}")


def as_unit(source: Source, batch: Batch) -> np.ndarray[Any, Any]:
    """Rows of unit length as float32 or float64, or an error that names the first that is not.

    Half precision keeps lengths to two or three digits; such rows are rounded anew to unit length in float32.
    """
    values = batch.values
    half = values.dtype == np.float16
    values = values.astype(np.float32) if half else values
    tolerance = unit_length_tolerance(float(np.finfo(values.dtype).eps), half=half)
    with np.errstate(over="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
    fit = np.abs(lengths - 1) <= tolerance
    if not fit.all():
        k = int(np.argmin(fit))
        places = ", or lonlat=True (--lonlat) for longitudes and latitudes" if values.shape[1] == 2 else ""
        where = f"{source.path}, {source.locate(int(batch.rows[k]))}"
        raise ValueError(
            f"{where}: has length {lengths[k]:.4g}, but points must be unit vectors; pass normalize=True (--normalize) "
            f"if only directions matter{places}."
        )
    return values / lengths[:, None] if half else values


def _absent(source: Source, row: int, column: int) -> str:
    names = source.columns or ("",)
    # A list-typed column has one name for all coordinates.
    name = source.weights_name if column == -1 else names[min(column, len(names) - 1)]
    text = source.quote(row, column)
    if text is None:
        return f"{name!r} {source.absent}" if column == -1 else source.absent
    shown = text if len(text) <= 40 else text[:37] + "..."
    return f"{name!r} is missing" if not text.strip() else f"{name!r} is {shown!r}, not a finite number"


def _looks_swapped(batch: Batch) -> bool:
    return not bool((np.abs(batch.values[:, 0]) > 90).any()) and bool((np.abs(batch.values[:, 1]) > 90).any())
