"""Containers of points: tables, labeled arrays, geometries and sky coordinates become NumPy arrays.

None of the packages is imported here: an object of a package shows that it is loaded.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._support.text import listed, lonlat_order

Columns = str | int | Sequence[str | int]
"""Columns of coordinates: names or numbers; a single name may be a column of lists."""

_CHOOSE = "Name the columns of the coordinates with columns= of sphereot.sphere.from_table"
_OWN = ("EarthData", "PointSet")


@dataclass(frozen=True)
class _Table:
    """Columns of a table, by number."""

    names: list[str]
    values: Any  # callable (number) -> array (n,), or (n, d) for a column of lists
    dims: list[str] | None = None  # dimension of the rows of each column, where they may differ
    data: list[int] | None = None  # columns that can be coordinates if none are named; None for all

    def column(self, name: str, number: int, unit: str | None = None) -> NDArray[Any]:
        """One column: numbers (n,) or vectors (n, d); angles with a unit are converted to `unit`."""
        column = self.values(number)
        if _is_sky(column):
            return _of_sky(column)
        values = np.asarray(without_unit(f"{name}: column {self.names[number]!r}", column, unit))
        if _is_of(column, "astropy") and np.any(mask := getattr(column, "mask", False)):
            values = np.where(mask, np.nan, values)
        text = values.dtype == object and len(values) > 0 and isinstance(values[0], str)
        if values.ndim == 2 or (values.dtype == object and not text):
            return stacked(f"{name}: column {self.names[number]!r}", values)
        if text or values.dtype.kind not in "fiu":
            kind = "text" if text else values.dtype
            raise TypeError(f"{name}: column {self.names[number]!r} must hold numbers, got {kind}. {_CHOOSE}.")
        return values.astype(np.float64) if values.dtype.kind in "iu" else values


def points_of_container(name: str, value: Any, columns: Columns | None = None) -> Any:
    """Points (n, d) of a container as a NumPy array; other values are returned unchanged.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    value : object
        A table (pandas, polars, Arrow, an xarray Dataset, or with `__dataframe__`), a column of lists, geopandas points
        (GeoSeries, GeoDataFrame, GeometryArray), an astropy SkyCoord, an xarray DataArray, a `PointSet` or `EarthData`.
    columns : str, int or sequence of them, optional
        Columns of the coordinates. By default longitude and latitude in degrees if two columns have such names, else
        the only column of lists, else all columns.
    """
    return points_and_names(name, value, columns)[0]


def points_and_names(name: str, value: Any, columns: Columns | None = None) -> tuple[Any, list[str]]:
    """`points_of_container`, and the names of the columns if all columns of a table were used as coordinates."""
    if columns is not None or not _has_geometry(value):
        table = _table_of(name, value)
        if table is not None:
            return _of_table(name, table, columns)
    if columns is not None:
        raise TypeError(f"columns: got {columns!r}, but {name} is not a table. Leave columns out, or pass a DataFrame.")
    degrees = _degrees_of(name, value)
    if degrees is not None:
        return _of_degrees(name, *degrees), []
    if _is_sky(value):
        return _of_sky(value), []
    if _is_of(value, "xarray") and hasattr(value, "dims"):
        return np.asarray(value.data), []
    return (value.points if _is_own(value) else value), []


def lonlat_of_container(name: str, value: Any) -> Any:
    """Longitudes and latitudes in degrees, (n, 2), of a container that names them; other values are unchanged."""
    pair = None
    if not _has_geometry(value) and (table := _table_of(name, value)) is not None:
        pair = _named_degrees(name, table)
        if pair is None:
            return _joined(name, table, _unnamed(name, table), "deg")
    elif _is_sky(value):
        place = _icrs(value).spherical
        pair = np.asarray(place.lon.deg), np.asarray(place.lat.deg)
    else:
        pair = _degrees_of(name, value)
    return value if pair is None else np.stack(pair, axis=-1)


def numbers_of_table(name: str, value: Any, *, one_is_vector: bool = False, unit: str | None = None) -> Any:
    """Numbers (n, k) of a table, or (n,) of a single column if `one_is_vector`; other values are returned unchanged."""
    table = None if _has_geometry(value) else _table_of(name, value)
    if table is None:
        return value
    numbers = _joined(name, table, _unnamed(name, table), unit)
    return numbers[:, 0] if one_is_vector and numbers.shape[1] == 1 else numbers


def without_unit(name: str, value: Any, unit: str | None = None) -> Any:
    """Numbers of a value with a unit of astropy: angles in `unit`, or numbers without a dimension if it is None.

    Values without a unit are returned unchanged; other units are an error.
    """
    if isinstance(value, list | tuple) and value and _is_of(value[0], "astropy") and hasattr(value[0], "unit"):
        value = sys.modules["astropy.units"].Quantity(value)
    if not _is_of(value, "astropy") or getattr(value, "unit", None) is None:
        return value
    quantity = value.quantity if hasattr(value, "quantity") else value
    try:
        return np.asarray(quantity.to_value("" if unit is None else unit))
    except (TypeError, ValueError):  # astropy's error is one of these, depending on its version
        found = str(value.unit) or "1"
    if unit is None:
        raise TypeError(
            f"{name} must have no unit, got {found}. Convert longitudes and latitudes with "
            "sphereot.sphere.from_lonlat, or drop the unit with .value."
        )
    raise TypeError(f"{name} must be an angle, got the unit {found}. Convert it, or drop the unit with .value.")


def weights_of_container(value: Any) -> Any:
    """Weights (n,) of a container of points, such as a `PointSet`; None if there are none."""
    return getattr(value, "weights", None) if _is_own(value) else None


def is_table(value: Any) -> bool:
    """Whether a value has named columns, which `columns` chooses from: a DataFrame, an Arrow table, a Dataset."""
    if _is_of(value, "xarray"):
        return hasattr(value, "data_vars")
    if _is_of(value, "astropy"):
        return hasattr(value, "colnames") and hasattr(value, "columns")
    if any(_is_of(value, package) for package in ("pandas", "polars", "geopandas")):
        return hasattr(type(value), "columns")  # of the type: a LazyFrame computes it, and warns
    # A column of Arrow has the stream too, but is an array.
    return hasattr(value, "__dataframe__") or (hasattr(value, "__arrow_c_stream__") and not hasattr(value, "__array__"))


def dimensions(value: Any) -> int:
    """Number of dimensions of numbers in any container: 2 for a table, a Series of lists or a list of lists."""
    if is_table(value) or _is_own(value) or _is_of(value, "geopandas"):
        return 2
    if isinstance(value, list | tuple):
        return 1 + dimensions(value[0]) if value else 1
    if _is_sky(value):
        return int(value.ndim) + 1
    array: Any = value
    if not hasattr(value, "ndim") and hasattr(value, "__array__"):
        array = np.asarray(value)
    elif not hasattr(value, "ndim"):
        array = as_plain_array("points", value)
    if array is None:
        return 0
    holds_objects = str(getattr(array, "dtype", "")) == "object" and 0 not in (array.ndim, len(array))
    return 1 + dimensions(np.asarray(array)[0]) if holds_objects else int(array.ndim)


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
            raise TypeError(f"{name}: its memory cannot be read ({error}). Copy it to the CPU first.") from error
    else:
        return None
    if array.dtype == object:
        return stacked(name, array) if array.ndim == 1 and len(array) else None
    return array


def stacked(name: str, vectors: Any) -> NDArray[np.floating[Any]]:
    """Vectors of one length, (n, d), from an array of two dimensions or a sequence of lists or arrays."""
    if isinstance(vectors, np.ndarray) and vectors.dtype != object:
        if vectors.ndim != 2:
            raise ValueError(f"{name} must be lists of numbers, or an array (n, d), got shape {vectors.shape}.")
        return _numbers(name, vectors)
    rows = list(vectors)
    if rows and isinstance(rows[0], str):
        raise ValueError(
            f"{name} must hold lists of numbers, got text. Tell Dask to keep lists: "
            "dask.config.set({'dataframe.convert-string': False})."
        )
    for index, row in enumerate(rows):
        if row is None or np.ndim(row) != 1 or len(row) != len(rows[0]):
            got = "nothing" if row is None else f"shape {np.shape(row)}"
            raise ValueError(
                f"{name}: all rows must be lists of one length, got {got} in row {index} and shape {np.shape(rows[0])} "
                "in the first row. Leave out such rows."
            )
    return _numbers(name, np.array(rows)) if rows else np.empty((0, 0))


def _numbers(name: str, array: NDArray[Any]) -> NDArray[np.floating[Any]]:
    if array.dtype in (np.float32, np.float64):
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers, got {array.dtype}.") from None


def _is_of(value: Any, package: str) -> bool:
    """Whether the class of a value, or one of its base classes, belongs to a package."""
    return package in sys.modules and any(
        kind.__module__.partition(".")[0] == package for kind in type(value).__mro__[:-1]
    )


def _is_own(value: Any) -> bool:
    """Whether a value is a dataset of this package, whose points are an attribute."""
    return type(value).__name__ in _OWN and _is_of(value, "sphereot")


def _is_sky(value: Any) -> bool:
    return _is_of(value, "astropy") and hasattr(value, "cartesian")


def _has_geometry(value: Any) -> bool:
    """Whether a value of geopandas has points: all but a GeoDataFrame without an active geometry."""
    return _is_of(value, "geopandas") and getattr(value, "active_geometry_name", "") is not None


# ---- tables ----


def _table_of(name: str, value: Any) -> _Table | None:
    """The columns of a table, or None if the value is not a table."""
    if not is_table(value):
        return None
    if _is_of(value, "dask"):
        raise TypeError(
            f"{name} is a Dask DataFrame, which holds no values yet. Pass {name}.compute(), or summarize it with "
            "sphereot.sketch.dask.sketch."
        )
    if _is_of(value, "xarray"):
        return _dataset_table(value)
    if _is_of(value, "astropy"):
        return _Table(list(value.colnames), lambda k: value.columns[k])
    if _is_of(value, "pandas"):
        return _Table([str(column) for column in value.columns], lambda k: value.iloc[:, k].to_numpy())
    if _is_of(value, "polars"):
        if hasattr(value, "collect"):
            raise TypeError(f"{name} is a LazyFrame, which holds no values yet. Pass {name}.collect().")
        return _Table(list(value.columns), lambda k: _polars_values(value.to_series(k)))
    return _interchanged(name, value)


def _dataset_table(value: Any) -> _Table:
    """Variables and coordinates of an xarray Dataset; coordinates are used only by name."""
    variables = {str(key): variable for key, variable in value.variables.items() if variable.ndim in (1, 2)}
    names = list(variables)
    return _Table(
        names,
        lambda k: variables[names[k]].values,
        dims=[str(variable.dims[0]) for variable in variables.values()],
        data=[names.index(str(key)) for key in value.data_vars if str(key) in variables],
    )


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
            f"{name}: got {type(value).__name__}, a table that pandas or polars can read. Install one of them, or pass "
            "an array."
        ) from None
    return _table_of(name, from_dataframe(value))


def _of_table(name: str, table: _Table, columns: Columns | None) -> tuple[NDArray[np.floating[Any]], list[str]]:
    """Points of a table, and the names of its columns if all were used as coordinates."""
    if columns is not None:
        chosen = [columns] if isinstance(columns, str | int) else list(columns)
        numbers = [_column_number(name, table.names, column) for column in chosen]
        if len(numbers) == 2 and (order := lonlat_order([table.names[k] for k in numbers])) is not None:
            return _of_degrees(name, *_pair(name, table, [numbers[k] for k in order])), []
        return _joined(name, table, numbers), []
    degrees = _named_degrees(name, table)
    if degrees is not None:
        return _of_degrees(name, *degrees), []
    numbers = _unnamed(name, table)
    return _joined(name, table, numbers), [] if _holds_lists(table, numbers[0]) else [table.names[k] for k in numbers]


def _named_degrees(name: str, table: _Table) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Columns of longitude and latitude, if exactly one column has a name of each."""
    order = lonlat_order(table.names)
    return None if order is None else _pair(name, table, list(order))


def _pair(name: str, table: _Table, numbers: list[int]) -> tuple[NDArray[Any], NDArray[Any]]:
    _require_same_rows(name, table, numbers)
    first, second = numbers
    return table.column(name, first, "deg"), table.column(name, second, "deg")


def _require_same_rows(name: str, table: _Table, numbers: list[int]) -> None:
    if table.dims is None:
        return
    dims = list(dict.fromkeys(table.dims[k] for k in numbers))
    if len(dims) > 1:
        raise ValueError(
            f"{name}: the variables {listed([table.names[k] for k in numbers])} must be along one dimension for all "
            f"points, got {dims}. Pass {name}.stack(point={dims}), or choose others with columns= of "
            "sphereot.sphere.from_table."
        )


def _column_number(name: str, names: list[str], column: str | int) -> int:
    if isinstance(column, str) and column in names:
        if names.count(column) > 1:
            raise ValueError(f"columns: {name} has several columns {column!r}. Rename them.")
        return names.index(column)
    if isinstance(column, int) and not isinstance(column, bool) and 0 <= column < len(names):
        return names.index(str(column)) if str(column) in names else column
    raise ValueError(f"columns: {name} has no column {column!r}. It has {listed(names)}.")


def _holds_lists(table: _Table, number: int) -> bool:
    column = table.values(number)
    if _is_sky(column):
        return True
    values = np.asarray(column)
    if values.ndim == 2:
        return True
    return values.dtype == object and len(values) > 0 and np.ndim(values[0]) == 1


def _unnamed(name: str, table: _Table) -> list[int]:
    """Columns of the coordinates if none are named: the only column of lists, else all."""
    numbers = list(range(len(table.names))) if table.data is None else table.data
    if not numbers:
        raise ValueError(f"{name} must have columns, got an empty table.")
    lists = [k for k in numbers if _holds_lists(table, k)]
    if len(lists) > 1:
        raise ValueError(
            f"{name}: several columns hold lists ({listed([table.names[k] for k in lists])}). Choose one with "
            "columns= of sphereot.sphere.from_table."
        )
    return lists or numbers


def _joined(name: str, table: _Table, numbers: list[int], unit: str | None = None) -> NDArray[np.floating[Any]]:
    """Columns of numbers side by side, or one column of lists; for `unit` see `without_unit`."""
    _require_same_rows(name, table, numbers)
    parts = [table.column(name, k, unit) for k in numbers]
    if len(parts) == 1:
        return parts[0] if parts[0].ndim == 2 else parts[0][:, None]
    if any(part.ndim == 2 for part in parts):
        raise ValueError(f"columns: {name} has lists and numbers in them. Choose one column of lists, or numbers.")
    return np.stack(parts, axis=1)


# ---- degrees ----


def _of_degrees(name: str, longitude: NDArray[Any], latitude: NDArray[Any]) -> NDArray[np.float64]:
    """Unit vectors (..., 3) from longitudes and latitudes in degrees."""
    east, north = (np.asarray(values, np.float64) for values in (longitude, latitude))
    bad = ~(np.isfinite(east) & np.isfinite(north))
    if bad.any():
        raise ValueError(f"{name}: row {int(np.argmax(bad))} has no longitude or latitude. Leave out such rows.")
    if north.size and np.max(np.abs(north)) > 90:
        row = int(np.argmax(np.abs(north)))
        raise ValueError(
            f"{name}: row {row} has a latitude of {north.flat[row]:.6g} degrees, but the poles are at 90. Name the "
            "columns, longitude first, with columns= of sphereot.sphere.from_table."
        )
    east, north = east * (math.pi / 180), north * (math.pi / 180)
    return np.stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], axis=-1)


def _degrees_of(name: str, value: Any) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Longitudes and latitudes of geometries, or of a DataArray with their names on its last dimension; else None."""
    if _is_of(value, "geopandas"):
        return _of_geometries(name, value)
    if not (_is_of(value, "xarray") and hasattr(value, "dims") and value.ndim > 0):
        return None
    for coordinate in value.coords.values():
        if coordinate.dims == value.dims[-1:]:
            order = lonlat_order([str(label) for label in coordinate.values])
            if order is not None:
                numbers = np.asarray(value.data)
                return numbers[..., order[0]], numbers[..., order[1]]
    return None


def _of_geometries(name: str, value: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Longitudes and latitudes of a GeoSeries or GeometryArray, or of the geometry of a GeoDataFrame."""
    series = value.geometry if hasattr(value, "geometry") else sys.modules["geopandas"].GeoSeries(value)
    missing = (series.isna() | series.is_empty).to_numpy()
    if missing.any():
        raise ValueError(f"{name}: row {int(np.argmax(missing))} has no point. Leave out such rows.")
    if not bool((series.geom_type == "Point").all()):
        kinds = listed(sorted({str(kind) for kind in series.geom_type.unique()}))
        raise TypeError(f"{name} must hold points, got other geometries ({kinds}). Pass {name}.centroid, for example.")
    if series.crs is not None and not series.crs.is_geographic:
        raise ValueError(f"{name} must be in longitude and latitude, got {series.crs.name}. Pass {name}.to_crs(4326).")
    return series.x.to_numpy(), series.y.to_numpy()


def _of_sky(value: Any) -> NDArray[np.float64]:
    """Unit vectors of a SkyCoord, in the frame ICRS, so that samples in different frames can be compared."""
    vectors = np.moveaxis(np.asarray(_icrs(value).cartesian.xyz.value, np.float64), 0, -1)
    unit: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit


def _icrs(value: Any) -> Any:
    return value.icrs if hasattr(value, "icrs") else value
