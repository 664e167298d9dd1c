"""Points from what holds them: tables, labeled arrays, geometries and sky coordinates become NumPy arrays.

None of the packages is imported here: an object of one shows that its package is loaded.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._support.column_names import listed, lonlat_order

__all__ = ["Columns", "as_plain_array", "is_table", "points_of_container", "stacked"]

Columns = str | int | Sequence[str | int]
"""Columns of coordinates: names or numbers; a single name may be a column of lists."""


@dataclass(frozen=True)
class _Table:
    """Columns of a table, by number."""

    names: list[str]
    values: Any  # callable (number) -> array (n,), or (n, d) for a column of lists

    def column(self, name: str, number: int) -> NDArray[Any]:
        """One column: numbers (n,) or vectors (n, d)."""
        values = np.asarray(self.values(number))
        text = values.dtype == object and len(values) > 0 and isinstance(values[0], str)
        if values.ndim == 2 or (values.dtype == object and not text):
            return stacked(f"{name}: column {self.names[number]!r}", values)
        if text or values.dtype.kind not in "fiu":
            kind = "text" if text else values.dtype
            raise TypeError(
                f"{name}: column {self.names[number]!r} holds {kind}, not numbers; name the columns of the coordinates "
                "with columns=."
            )
        return values.astype(np.float64) if values.dtype.kind in "iu" else values


def points_of_container(name: str, value: Any, columns: Columns | None = None) -> Any:
    """Points (n, d) of a container as a NumPy array; other values are returned unchanged.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    value : object
        A table (pandas, polars, Arrow, or with `__dataframe__`), a column of lists, a geopandas GeoSeries of points, an
        astropy SkyCoord, an xarray DataArray, or a `PointSet`.
    columns : str, int or sequence of them, optional
        Columns of the coordinates. By default longitude and latitude in degrees if two columns have such names, else
        the only column of lists, else all columns.
    """
    if _is_of(value, "geopandas"):
        points = _of_geometries(name, value)
    elif _is_of(value, "astropy") and hasattr(value, "cartesian"):
        points = _of_sky(value)
    elif _is_of(value, "xarray") and hasattr(value, "dims"):
        points = np.asarray(value.data)
    elif type(value).__name__ == "PointSet" and _is_of(value, "sphereot"):
        points = value.points
    else:
        table = _table_of(name, value)
        if table is not None:
            return _of_table(name, table, columns)
        points = None
    if columns is not None:
        raise TypeError(f"columns: got {columns!r}, but {name} is no table; leave columns out, or pass a DataFrame.")
    return value if points is None else points


def is_table(value: Any) -> bool:
    """Whether a value has named columns, which `columns` chooses from: a DataFrame, an Arrow table."""
    if any(_is_of(value, package) for package in ("geopandas", "astropy", "xarray")):
        return False
    if _is_of(value, "pandas") or _is_of(value, "polars"):
        return hasattr(type(value), "columns")  # of the type: a LazyFrame computes it, and warns
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__dataframe__")


def as_plain_array(name: str, value: Any) -> Any:
    """A NumPy array of an object with `__array__` or `__dlpack__`, such as a Series or a DataArray; else None."""
    if isinstance(value, type):
        return None
    if hasattr(value, "__array__"):
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        try:
            array = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(f"{name}: its memory cannot be read ({error}); copy it to the CPU first.") from error
    else:
        return None
    if array.dtype == object:
        return stacked(name, array) if array.ndim == 1 and len(array) else None
    return array


def stacked(name: str, vectors: Any) -> NDArray[np.floating[Any]]:
    """Vectors of one length, (n, d), from an array of two dimensions or a sequence of lists or arrays."""
    if isinstance(vectors, np.ndarray) and vectors.dtype != object:
        if vectors.ndim != 2:
            raise ValueError(f"{name}: shape is {vectors.shape}, but lists of numbers, or an array (n, d), are needed.")
        return _numbers(name, vectors)
    rows = list(vectors)
    if rows and isinstance(rows[0], str):
        raise ValueError(
            f"{name}: holds text, not lists of numbers; if it held lists before, tell Dask to keep them: "
            "dask.config.set({'dataframe.convert-string': False})."
        )
    for index, row in enumerate(rows):
        if row is None or np.ndim(row) != 1 or len(row) != len(rows[0]):
            got = "nothing" if row is None else f"shape {np.shape(row)}"
            raise ValueError(
                f"{name}: row {index} holds {got}, but all rows need lists of one length ({np.shape(rows[0])} in the "
                "first row); leave out such rows first."
            )
    return _numbers(name, np.array(rows)) if rows else np.empty((0, 0))


def _numbers(name: str, array: NDArray[Any]) -> NDArray[np.floating[Any]]:
    if array.dtype in (np.float32, np.float64):
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: holds {array.dtype}, not numbers.") from None


def _is_of(value: Any, package: str) -> bool:
    """Whether the class of a value, or one it is derived from, belongs to a package."""
    return package in sys.modules and any(
        kind.__module__.partition(".")[0] == package for kind in type(value).__mro__[:-1]
    )


# ---- tables ----


def _table_of(name: str, value: Any) -> _Table | None:
    """The columns of a table, or None if the value is none."""
    if _is_of(value, "pandas"):
        if not hasattr(value, "columns"):
            return None  # a Series
        return _Table([str(column) for column in value.columns], lambda k: value.iloc[:, k].to_numpy())
    if _is_of(value, "polars"):
        if hasattr(value, "collect"):
            raise TypeError(f"{name}: is a LazyFrame, which holds no values yet; pass {name}.collect().")
        if not hasattr(value, "columns"):
            return None
        return _Table(list(value.columns), lambda k: _polars_values(value.to_series(k)))
    if hasattr(value, "__arrow_c_stream__") or hasattr(value, "__dataframe__"):
        return _interchanged(name, value)
    return None


def _polars_values(series: Any) -> Any:
    """Values of a polars Series; lists and fixed-size arrays as rows."""
    if str(series.dtype).startswith(("List", "Array")):
        rows = np.empty(len(series), dtype=object)
        rows[:] = [None if row is None else np.asarray(row) for row in series.to_list()]
        return rows
    return series.to_numpy()


def _interchanged(name: str, value: Any) -> _Table | None:
    """A table of another library, through polars or pandas, whichever is installed."""
    try:
        import polars
    except ModuleNotFoundError:
        pass
    else:
        if hasattr(value, "__arrow_c_stream__"):
            frame = polars.DataFrame(value)
            return _Table(list(frame.columns), lambda k: _polars_values(frame.to_series(k)))
    if not hasattr(value, "__dataframe__"):
        return None
    try:
        from pandas.api.interchange import from_dataframe
    except ModuleNotFoundError:
        raise TypeError(
            f"{name}: got {type(value).__name__}, a table that pandas or polars can read; install one of them, or pass "
            "an array."
        ) from None
    return _table_of(name, from_dataframe(value))


def _of_table(name: str, table: _Table, columns: Columns | None) -> NDArray[np.floating[Any]]:
    if columns is not None:
        chosen = [columns] if isinstance(columns, str | int) else list(columns)
        numbers = [_column_number(name, table.names, column) for column in chosen]
        if len(numbers) == 2 and (order := lonlat_order([table.names[k] for k in numbers])) is not None:
            return _of_degrees(name, *(table.column(name, numbers[k]) for k in order))
        return _joined(name, table, numbers)
    if not table.names:
        raise ValueError(f"{name}: is a table without columns.")
    if (order := lonlat_order(table.names)) is not None:
        return _of_degrees(name, *(table.column(name, k) for k in order))
    lists = [k for k in range(len(table.names)) if _holds_lists(table, k)]
    if len(lists) == 1:
        return table.column(name, lists[0])
    if lists:
        raise ValueError(
            f"{name}: several columns hold lists ({listed([table.names[k] for k in lists])}); choose one with columns=."
        )
    return _joined(name, table, list(range(len(table.names))))


def _column_number(name: str, names: list[str], column: str | int) -> int:
    if isinstance(column, str) and column in names:
        if names.count(column) > 1:
            raise ValueError(f"columns: {name} has several columns {column!r}; rename them.")
        return names.index(column)
    if isinstance(column, int) and not isinstance(column, bool) and 0 <= column < len(names):
        return names.index(str(column)) if str(column) in names else column
    raise ValueError(f"columns: {name} has no column {column!r}; there are {listed(names)}.")


def _holds_lists(table: _Table, number: int) -> bool:
    values = np.asarray(table.values(number))
    if values.ndim == 2:
        return True
    return values.dtype == object and len(values) > 0 and np.ndim(values[0]) == 1


def _joined(name: str, table: _Table, numbers: list[int]) -> NDArray[np.floating[Any]]:
    parts = [table.column(name, k) for k in numbers]
    if len(parts) == 1:
        return parts[0] if parts[0].ndim == 2 else parts[0][:, None]
    if any(part.ndim == 2 for part in parts):
        raise ValueError(f"columns: {name} has lists and numbers among them; choose one column of lists, or numbers.")
    return np.stack(parts, axis=1)


# ---- degrees ----


def _of_degrees(name: str, longitude: NDArray[Any], latitude: NDArray[Any]) -> NDArray[np.float64]:
    """Unit vectors from longitudes and latitudes in degrees."""
    east, north = (np.asarray(values, np.float64) for values in (longitude, latitude))
    bad = ~(np.isfinite(east) & np.isfinite(north))
    if bad.any():
        raise ValueError(f"{name}: row {int(np.argmax(bad))} has no longitude or latitude; leave out such rows first.")
    if len(north) and np.max(np.abs(north)) > 90:
        row = int(np.argmax(np.abs(north)))
        raise ValueError(
            f"{name}: row {row} has a latitude of {north[row]:.6g} degrees, but the poles are at 90; name the columns, "
            "longitude first, with columns=."
        )
    east, north = east * (math.pi / 180), north * (math.pi / 180)
    return np.stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], axis=1)


def _of_geometries(name: str, value: Any) -> NDArray[np.float64]:
    """Unit vectors of a GeoSeries, or of the geometry of a GeoDataFrame."""
    series = value.geometry
    if not bool((series.geom_type == "Point").all()):
        kinds = listed(sorted({str(kind) for kind in series.geom_type.unique()}))
        raise TypeError(f"{name}: holds geometries other than points ({kinds}); pass {name}.centroid, for example.")
    if bool(series.is_empty.any()):
        raise ValueError(f"{name}: holds empty points; leave them out first.")
    if series.crs is not None and not series.crs.is_geographic:
        raise ValueError(
            f"{name}: its coordinates are not longitude and latitude but {series.crs.name}; pass {name}.to_crs(4326)."
        )
    return _of_degrees(name, series.x.to_numpy(), series.y.to_numpy())


def _of_sky(value: Any) -> NDArray[np.float64]:
    """Unit vectors of a SkyCoord, in the frame ICRS, so that samples in different frames can be compared."""
    frame = value.icrs if hasattr(value, "icrs") else value
    vectors = np.moveaxis(np.asarray(frame.cartesian.xyz.value, np.float64), 0, -1)
    unit: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit
