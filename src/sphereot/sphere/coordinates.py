"""Read points from tables; convert longitude and latitude, spherical angles, and stereographic coordinates."""

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

# This many locations are data, which are unlikely to lie all in one small part of the sea.
_MANY = 100


def from_table(table: Points, *, columns: Columns | None = None, normalize: bool = False) -> NDArray[np.floating[Any]]:
    """Read unit vectors from a table or another container of points, as all functions that accept points do.

    Parameters
    ----------
    table : object
        A pandas or polars DataFrame, an xarray Dataset, or any table with `__dataframe__` or `__arrow_c_stream__`. Also
        a Series of lists; an xarray DataArray, shape (n, d); geopandas points (GeoSeries, GeoDataFrame,
        `points_from_xy`); an astropy SkyCoord, Table or QTable; a `PointSet` or `EarthData` of `sphereot.datasets`; an
        object with `__array__` or `__dlpack__`.
    columns : str, int or sequence of these, optional
        Names or numbers of the columns that contain the coordinates, or the name of one column of lists. The labels of
        the last dimension of a DataArray are treated like column names. By default, two columns named like longitude
        and latitude in degrees (lon, longitude, decimalLongitude, ra, ...; lat, latitude, decimalLatitude, dec, ...)
        are used. Without them, the only column of lists is used, and otherwise all columns. Angles with an astropy unit
        are converted, and other units raise an error. A column of SkyCoord is treated like a column of lists.
    normalize : bool, default False
        Scale the rows to unit length.

    Returns
    -------
    NumPy array, shape (n, d)
        Unit vectors. Sky coordinates are converted to the frame ICRS.

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.from_table([[3.0, 4.0], [0.0, 2.0]], normalize=True)
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    points = points_of_container("table", table, columns)
    array = as_vectors("table", points)
    return np.asarray(as_points("table", scale_to_unit(array) if normalize else array))


@overload
def from_lonlat(lonlat: ArrayT, latitude: ArrayT | NumpyArrayLike | None = ...) -> ArrayT: ...


@overload
def from_lonlat(lonlat: Vectors, latitude: ArrayLike | None = ...) -> Any: ...


def from_lonlat(lonlat: Vectors, latitude: ArrayLike | None = None) -> Any:
    """Convert longitudes and latitudes in degrees to unit vectors of S^2.

    Parameters
    ----------
    lonlat : array, shape (..., 2)
        Longitudes (any number) and latitudes (-90 to 90, otherwise a ValueError) in degrees, in this order. East and
        north are positive. If `latitude` is given, only the longitudes, shape (...). Tables, points of geopandas and
        sky coordinates are accepted; columns named lon, lat, ... are found in any order. Angles with an astropy unit
        are converted.
    latitude : array, shape (...), optional
        Latitudes as a separate array: ``from_lonlat(lon, lat)``. The shapes must broadcast.

    Returns
    -------
    array, shape (..., 3)
        Unit vectors. The axes point to longitude 0 on the equator, to 90 degrees east, and to the north pole.

    Warns
    -----
    UserWarning
        If 100 or more locations contain no number larger than 2 pi, and therefore are probably in radians. In degrees,
        all of them would lie within 6.3 degrees of longitude 0 on the equator, off the coast of Africa.

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.from_lonlat([[0.0, 0.0], [90.0, 0.0], [0.0, -90.0]]).round(12) + 0.0
    array([[ 1.,  0.,  0.],
           [ 0.,  1.,  0.],
           [ 0.,  0., -1.]])
    """
    if latitude is None:
        degrees = as_lonlat("lonlat", lonlat)
        if degrees.ndim < 1 or degrees.shape[-1] != 2:
            raise ValueError(
                f"lonlat must have shape (..., 2), got {tuple(degrees.shape)}. Pass two arrays as "
                "from_lonlat(lon, lat)."
            )
        east, north = degrees[..., 0], degrees[..., 1]
    else:
        east, north = _broadcast_angles("deg", longitude=lonlat, latitude=latitude)
    xp = namespace(east)
    largest, farthest = (None if 0 in a.shape else peek(xp.max(xp.abs(a))) for a in (east, north))
    if largest is not None and farthest is not None:
        if farthest > 90:
            raise ValueError(
                f"lonlat must have latitudes from -90 to 90, got {farthest:.6g} degrees from the equator. The order is "
                "longitude, latitude."
            )
        count = math.prod(east.shape)
        if count >= _MANY and max(largest, farthest) <= 2 * math.pi:
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
    """Convert unit vectors of S^2 to longitudes and latitudes in degrees, the inverse of `from_lonlat`.

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
    >>> from sphereot import sphere
    >>> sphere.to_lonlat([[0.0, -1.0, 0.0], [0.6, 0.0, 0.8]]).round(3)
    array([[-90.  ,   0.  ],
           [  0.  ,  53.13]])
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
    """Convert spherical coordinates (colatitude and azimuth) to unit vectors of S^2.

    Parameters
    ----------
    theta : array
        Colatitudes in radians: 0 at the north pole, pi at the south pole. Angles with an astropy unit are converted.
    phi : array
        Azimuths in radians, counterclockwise from the first axis. The shapes must broadcast.

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
    colatitude, azimuth = _broadcast_angles("rad", theta=theta, phi=phi)
    xp = namespace(colatitude)
    ring = xp.sin(colatitude)
    return xp.stack([ring * xp.cos(azimuth), ring * xp.sin(azimuth), xp.cos(colatitude)], axis=-1)


def to_spherical(x: Vectors) -> tuple[Any, Any]:
    """Convert unit vectors of S^2 to spherical coordinates, the inverse of `from_spherical`.

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
    >>> theta, phi = sphere.to_spherical([0.0, 1.0, 0.0])
    >>> float(theta / np.pi), float(phi / np.pi)
    (0.5, 0.5)
    """
    points = _on_s2(x)
    return namespace(points).atan2(safe_norm(points[..., :2])[..., 0], points[..., 2]), _azimuth(points)


def stereographic(x: Vectors) -> Any:
    """Project the sphere S^{d-1}, except one point, stereographically onto R^{d-1}.

    Parameters
    ----------
    x : array, shape (..., d)
        Unit vectors. The point (-1, 0, ..., 0), whose image is infinite, raises a ValueError. Under a trace, its image
        is NaN.

    Returns
    -------
    array, shape (..., d-1)
        rho(x) = x_{2:d} / (1 + x_1).

    Notes
    -----
    This is the formula of the paper (appendix on normalizing flows), with the inverse `inverse_stereographic`. The
    inverse printed in the paper, (2 u, |u|^2 - 1) / (|u|^2 + 1), belongs to x_{1:d-1} / (1 - x_d) instead.

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.stereographic([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]])
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
            "x must not contain the point (-1, 0, ..., 0), which the stereographic projection maps to infinity. Remove "
            "it, or rotate the points first."
        )
    # 1 + x_1 = |x_{2:d}|^2 / (1 - x_1) on the sphere: no digits are lost near the pole.
    scale = xp.where(near_pole, (1 - first) / xp.where(near_pole, squares, 1 + 0 * squares), 1 / (1 + xp.abs(first)))
    return rest * scale


def inverse_stereographic(u: ArrayLike) -> Any:
    """Map R^{d-1} to the sphere S^{d-1} by the inverse of `stereographic`.

    Parameters
    ----------
    u : array, shape (..., d-1)
        Finite vectors.

    Returns
    -------
    array, shape (..., d)
        Unit vectors (1 - |u|^2, 2 u) / (1 + |u|^2). The image of the origin is (1, 0, ..., 0).

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.inverse_stereographic([[0.0, 0.0], [0.6, 0.8]]).round(12)
    array([[1. , 0. , 0. ],
           [0. , 0.6, 0.8]])
    """
    vectors = as_reals("u", u)
    if vectors.ndim < 1 or vectors.shape[-1] < 1:
        raise ValueError(f"u must have shape (..., d-1) with d-1 of at least 1, got {tuple(vectors.shape)}.")
    xp = namespace(vectors)
    length = safe_norm(vectors)
    far = length > 1
    # With 1 / |u| in place of |u| outside the unit ball, no square overflows.
    inverse = 1 / xp.where(far, length, xp.ones_like(length))
    square = xp.where(far, inverse, length) ** 2
    first = xp.where(far, square - 1, 1 - square) / (1 + square)
    rest = 2 * (vectors * inverse) * inverse / (1 + square)
    return xp.concat([first, rest], axis=-1)


def _broadcast_angles(unit: str, **angles: Any) -> list[Array]:
    """Validate and broadcast two arrays of angles in `unit`. A number gets the library of the other array."""

    def read(name: str, value: Any) -> Array:
        return as_reals(name, value, one_is_vector=True, unit=unit)

    (first_name, first), (second_name, second) = angles.items()
    if isinstance(first, Real):
        first = first + 0 * read(second_name, second)
    elif isinstance(second, Real):
        second = second + 0 * read(first_name, first)
    first, second = as_same_kind(**{first_name: read(first_name, first), second_name: read(second_name, second)})
    xp = namespace(first, second)
    dtype = xp.result_type(first, second)
    try:
        return list(xp.broadcast_arrays(xp.astype(first, dtype), xp.astype(second, dtype)))
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            f"{' and '.join(angles)} have shapes {tuple(first.shape)} and {tuple(second.shape)}, which do not "
            "broadcast; give one of each for every point."
        ) from error


def _azimuth(x: Array) -> Array:
    """Return the angle around the third axis in radians, 0 at the poles, with a finite gradient."""
    xp = namespace(x)
    on_axis = (x[..., 0] == 0) & (x[..., 1] == 0)
    return xp.where(on_axis, 0 * x[..., 0], xp.atan2(x[..., 1], xp.where(on_axis, 1 + 0 * x[..., 0], x[..., 0])))


def _on_s2(x: Any) -> Array:
    x = as_unit_vectors("x", x)
    if x.shape[-1] != 3:
        raise ValueError(f"x must have points on S^2, shape (..., 3), got dimension {x.shape[-1]}.")
    return x
