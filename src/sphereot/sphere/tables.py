"""Points on the sphere from tables and other containers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import Columns, points_of_container
from sphereot._arrays.types import Points
from sphereot._arrays.validation import as_points, as_vectors
from sphereot._support.keyword_options import options_by_name
from sphereot.sphere.maps import normalize as normalized

__all__ = ["from_table"]


@options_by_name
def from_table(table: Points, *, columns: Columns | None = None, normalize: bool = False) -> NDArray[np.floating[Any]]:
    """Unit vectors of a table or of another container of points, as all functions that take points read them.

    Parameters
    ----------
    table : object
        A pandas or polars DataFrame, an xarray Dataset, or any table with `__dataframe__` or `__arrow_c_stream__`; a
        Series of lists; an xarray DataArray, shape (n, d); geopandas points (GeoSeries, GeoDataFrame,
        `points_from_xy`); an astropy SkyCoord, Table or QTable; a `PointSet` or `EarthData` of `sphereot.datasets`;
        anything with `__array__` or `__dlpack__`.
    columns : str, int or sequence of them, optional
        The columns of the coordinates, by name or number; or the name of one column of lists. By default longitude and
        latitude in degrees if exactly two columns have such names (lon, longitude, decimalLongitude, ra, ...; lat,
        latitude, decimalLatitude, dec, ...), else the only column of lists, else all columns. Angles with a unit of
        astropy are converted, and other units are refused; a column of SkyCoord counts as one of lists. The labels of
        the last dimension of a DataArray are read like the names of columns. Functions of several samples apply
        `columns` to the tables among them, or accept one list for each:
        ``columns=(["lon", "lat"], ["x", "y", "z"])``, with None for an array.
    normalize : bool
        Scale the rows to unit length.

    Returns
    -------
    array, shape (n, d)
        Unit vectors, a NumPy array. Sky coordinates are those of the frame ICRS.

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.from_table([[3.0, 4.0], [0.0, 2.0]], normalize=True)
    array([[0.6, 0.8],
           [0. , 1. ]])

    With pandas, columns that are named so are longitude and latitude in degrees:

    >>> import pandas as pd  # doctest: +SKIP
    >>> cities = pd.DataFrame({"name": ["Quito", "Oslo"], "lat": [-0.2, 59.9], "lon": [-78.5, 10.7]})  # doctest: +SKIP
    >>> sphere.from_table(cities).shape  # doctest: +SKIP
    (2, 3)
    """
    points = points_of_container("table", table, columns)
    array = as_vectors("table", points)
    return np.asarray(as_points("table", normalized(array) if normalize else array))
