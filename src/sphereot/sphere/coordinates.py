"""Points from tables; coordinates: longitude and latitude, spherical angles, the stereographic projection."""

import math
import warnings
from numbers import Real
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import Columns, points_of_container
from sphereot._arrays.libraries import Array, namespace, peek
from sphereot._arrays.types import ArrayLike, ArrayT, NumpyArrayLike, Points, Vectors
from sphereot._arrays.validation import as_lonlat, as_points, as_reals, as_same_kind, as_unit_vectors, as_vectors
from sphereot.sphere.maps import normalize as scale_to_unit
from sphereot.sphere.maps import safe_norm

# From so many locations on, they are data, which are unlikely to lie all in one small part of the sea.
_MANY = 100


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
        the last dimension of a DataArray are read like the names of columns.
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
    return np.asarray(as_points("table", scale_to_unit(array) if normalize else array))


@overload
def from_lonlat(lonlat: ArrayT, latitude: ArrayT | NumpyArrayLike | None = ...) -> ArrayT: ...


@overload
def from_lonlat(lonlat: Vectors, latitude: ArrayLike | None = ...) -> Any: ...


def from_lonlat(lonlat: Vectors, latitude: ArrayLike | None = None) -> Any:
    """Unit vectors of S^2 from longitudes and latitudes in degrees.

    Parameters
    ----------
    lonlat : array, shape (..., 2)
        Longitude, any, and latitude, in [-90, 90], in degrees, in this order; the columns of a table with the usual
        names (lon, lat, ...) may come in any order, and beside others. Points of geopandas and sky coordinates have
        them too. East and north are positive. With `latitude`, the longitudes alone, shape (...). Angles with a unit
        of astropy are converted.
    latitude : array, shape (...), optional
        Latitudes, if they are a separate array: ``from_lonlat(lon, lat)``. The shape must broadcast with that of the
        longitudes.

    Returns
    -------
    array, shape (..., 3)
        Unit vectors: the first axis points to longitude 0 on the equator, the second to 90 degrees east, the third to
        the north pole.

    Raises
    ------
    ValueError
        For latitudes beyond 90 degrees, which often are longitudes in the wrong column.

    Warns
    -----
    UserWarning
        If there are 100 locations or more and no number is larger than 2 pi, so that they are probably in radians: in
        degrees they would all be within 6.3 degrees of longitude 0 on the equator, off the coast of Africa.

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.from_lonlat([[0.0, 0.0], [90.0, 0.0], [0.0, -90.0]]).round(12) + 0.0
    array([[ 1.,  0.,  0.],
           [ 0.,  1.,  0.],
           [ 0.,  0., -1.]])
    >>> sphere.from_lonlat(90.0, [0.0, 90.0]).round(12)
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    if latitude is None:
        degrees = as_lonlat("lonlat", lonlat)
        if degrees.ndim < 1 or degrees.shape[-1] != 2:
            raise ValueError(
                f"lonlat: got shape {tuple(degrees.shape)}, but longitudes and latitudes need shape (..., 2); "
                "pass two arrays as from_lonlat(lon, lat)."
            )
        east, north = degrees[..., 0], degrees[..., 1]
    else:
        east, north = _broadcast_pair("longitude", lonlat, "latitude", latitude, unit="deg")
    xp = namespace(east)
    if 0 not in east.shape:
        largest, farthest = peek(xp.max(xp.abs(east))), peek(xp.max(xp.abs(north)))
        if farthest is not None and farthest > 90:
            raise ValueError(
                f"lonlat: got a latitude of {farthest:.6g} degrees from the equator, but the poles are at 90; the "
                "order is longitude, latitude."
            )
        count = math.prod(east.shape)
        if largest is not None and farthest is not None and count >= _MANY and max(largest, farthest) <= 2 * math.pi:
            warnings.warn(
                f"from_lonlat: all {count} longitudes and latitudes are within 2 pi of 0, as if they were in radians, "
                "but degrees are expected; convert radians first, e.g. with numpy.rad2deg.",
                UserWarning,
                stacklevel=2,
            )
    east, north = east * (math.pi / 180), north * (math.pi / 180)
    ring = xp.cos(north)
    return xp.stack([ring * xp.cos(east), ring * xp.sin(east), xp.sin(north)], axis=-1)


@overload
def to_lonlat(x: ArrayT) -> ArrayT: ...


@overload
def to_lonlat(x: Vectors) -> Any: ...


def to_lonlat(x: Vectors) -> Any:
    """Longitudes and latitudes, in degrees, of unit vectors of S^2; the inverse of `from_lonlat`.

    Parameters
    ----------
    x : array, shape (..., 3)
        Unit vectors.

    Returns
    -------
    array, shape (..., 2)
        Longitudes in [-180, 180), 0 at the poles, and latitudes in [-90, 90].

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> sphere.to_lonlat(np.array([[0.0, -1.0, 0.0], [0.6, 0.0, 0.8], [-1.0, 0.0, 0.0]])).round(3)
    array([[ -90.  ,    0.  ],
           [   0.  ,   53.13],
           [-180.  ,    0.  ]])
    """
    points = _on_s2(x)
    xp = namespace(points)
    longitude = _azimuth(points) * (180 / math.pi)
    longitude = xp.where(longitude >= 180, longitude - 360, longitude)
    latitude = xp.atan2(points[..., 2], safe_norm(points[..., :2])[..., 0]) * (180 / math.pi)
    return xp.stack([longitude, latitude], axis=-1)


@overload
def from_spherical(theta: ArrayT, phi: ArrayT | NumpyArrayLike) -> ArrayT: ...


@overload
def from_spherical(theta: ArrayLike, phi: ArrayLike) -> Any: ...


def from_spherical(theta: ArrayLike, phi: ArrayLike) -> Any:
    """Unit vectors of S^2 from spherical coordinates (colatitude and azimuth).

    Parameters
    ----------
    theta : array
        Colatitude in radians: 0 at the north pole, pi at the south pole. Angles with a unit of astropy are converted.
    phi : array
        Azimuth in radians, counterclockwise from the first axis; of a shape that broadcasts with `theta`.

    Returns
    -------
    array, shape (..., 3)
        (sin(theta) cos(phi), sin(theta) sin(phi), cos(theta)).

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> sphere.from_spherical(np.pi / 2, np.array([0.0, np.pi / 2])).round(12)
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """
    colatitude, azimuth = _broadcast_pair("theta", theta, "phi", phi, unit="rad")
    xp = namespace(colatitude)
    ring = xp.sin(colatitude)
    return xp.stack([ring * xp.cos(azimuth), ring * xp.sin(azimuth), xp.cos(colatitude)], axis=-1)


@overload
def to_spherical(x: ArrayT) -> tuple[ArrayT, ArrayT]: ...


@overload
def to_spherical(x: Vectors) -> tuple[Any, Any]: ...


def to_spherical(x: Vectors) -> tuple[Any, Any]:
    """Spherical coordinates of unit vectors of S^2; the inverse of `from_spherical`.

    Parameters
    ----------
    x : array, shape (..., 3)
        Unit vectors.

    Returns
    -------
    theta : array, shape (...)
        Colatitudes in [0, pi], in radians.
    phi : array, shape (...)
        Azimuths in (-pi, pi], in radians; 0 at the poles.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> theta, phi = sphere.to_spherical(np.array([0.0, 1.0, 0.0]))
    >>> float(theta / np.pi), float(phi / np.pi)
    (0.5, 0.5)
    """
    points = _on_s2(x)
    return namespace(points).atan2(safe_norm(points[..., :2])[..., 0], points[..., 2]), _azimuth(points)


@overload
def stereographic(x: ArrayT) -> ArrayT: ...


@overload
def stereographic(x: Vectors) -> Any: ...


def stereographic(x: Vectors) -> Any:
    """Stereographic projection of the sphere S^{d-1}, without one point, onto R^{d-1}.

    Parameters
    ----------
    x : array, shape (..., d)
        Unit vectors other than (-1, 0, ..., 0), whose image would be infinite.

    Returns
    -------
    array, shape (..., d-1)
        rho(x) = x_{2:d} / (1 + x_1).

    Raises
    ------
    ValueError
        If the point (-1, 0, ..., 0) is among them. Under a trace its image is NaN.

    Notes
    -----
    The formula of the paper (appendix on normalizing flows). The inverse printed there, (2 u, |u|^2 - 1) / (|u|^2 + 1),
    has its pole on the last axis and so inverts x_{1:d-1} / (1 - x_d) instead; `inverse_stereographic` inverts this
    function.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> sphere.stereographic(np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]))
    array([[0. , 0. ],
           [0.6, 0.8]])
    """
    points = as_unit_vectors("x", x)
    xp = namespace(points)
    first, rest = points[..., :1], points[..., 1:]
    squares = xp.sum(rest**2, axis=-1, keepdims=True)
    near_pole = first < 0
    if 0 not in points.shape and peek(xp.min(xp.where(near_pole, squares, 1 + 0 * squares))) == 0:
        raise ValueError(
            "x: got the point (-1, 0, ..., 0), which the stereographic projection maps to infinity; remove it, or "
            "rotate the points first."
        )
    # 1 + x_1 = |x_{2:d}|^2 / (1 - x_1) on the sphere: no digits are lost near the pole.
    scale = xp.where(near_pole, (1 - first) / xp.where(near_pole, squares, 1 + 0 * squares), 1 / (1 + xp.abs(first)))
    return rest * scale


@overload
def inverse_stereographic(u: ArrayT) -> ArrayT: ...


@overload
def inverse_stereographic(u: ArrayLike) -> Any: ...


def inverse_stereographic(u: ArrayLike) -> Any:
    """Inverse stereographic projection, from R^{d-1} to the sphere S^{d-1}.

    Parameters
    ----------
    u : array, shape (..., d-1)
        Finite vectors.

    Returns
    -------
    array, shape (..., d)
        Unit vectors (1 - |u|^2, 2 u) / (1 + |u|^2); the origin goes to (1, 0, ..., 0).

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> sphere.inverse_stereographic(np.array([[0.0, 0.0], [0.6, 0.8]])).round(12)
    array([[1. , 0. , 0. ],
           [0. , 0.6, 0.8]])
    """
    vectors = as_reals("u", u)
    if vectors.ndim < 1 or vectors.shape[-1] < 1:
        raise ValueError(
            f"u: got shape {tuple(vectors.shape)}, but vectors need shape (..., d-1), with d-1 at least 1."
        )
    xp = namespace(vectors)
    length = safe_norm(vectors)
    far = length > 1
    # With 1 / |u| in place of |u| outside the unit ball, no square overflows.
    inverse = 1 / xp.where(far, length, xp.ones_like(length))
    square = xp.where(far, inverse, length) ** 2
    first = xp.where(far, square - 1, 1 - square) / (1 + square)
    rest = 2 * (vectors * inverse) * inverse / (1 + square)
    return xp.concat([first, rest], axis=-1)


def _broadcast_pair(first_name: str, first: Any, second_name: str, second: Any, *, unit: str) -> tuple[Array, Array]:
    """Broadcast two arrays of angles in `unit`; a plain number goes with arrays of every library."""
    if isinstance(first, Real):
        first = first + 0 * as_reals(second_name, second, one_is_vector=True, unit=unit)
    elif isinstance(second, Real):
        second = second + 0 * as_reals(first_name, first, one_is_vector=True, unit=unit)
    first, second = (
        as_reals(name, value, one_is_vector=True, unit=unit)
        for name, value in ((first_name, first), (second_name, second))
    )
    first, second = as_same_kind(**{first_name: first, second_name: second})
    xp = namespace(first, second)
    dtype = xp.result_type(first, second)
    try:
        pair = xp.broadcast_arrays(xp.astype(first, dtype), xp.astype(second, dtype))
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            f"{first_name} and {second_name} have shapes {tuple(first.shape)} and {tuple(second.shape)}, which do not "
            "broadcast; give one of each for every point."
        ) from error
    return pair[0], pair[1]


def _azimuth(x: Array) -> Array:
    """Angle around the third axis in radians; 0 at the poles, with a finite gradient."""
    xp = namespace(x)
    on_axis = (x[..., 0] == 0) & (x[..., 1] == 0)
    return xp.where(on_axis, 0 * x[..., 0], xp.atan2(x[..., 1], xp.where(on_axis, 1 + 0 * x[..., 0], x[..., 0])))


def _on_s2(x: Any) -> Array:
    x = as_unit_vectors("x", x)
    if x.shape[-1] != 3:
        raise ValueError(
            f"x: got points in dimension {x.shape[-1]}, but these coordinates are for S^2; give shape (..., 3)."
        )
    return x
