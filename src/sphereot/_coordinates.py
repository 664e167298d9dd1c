"""Coordinates on the sphere: longitude and latitude, spherical angles, the stereographic projection."""

import math
from numbers import Real
from typing import Any

from sphereot._libraries import Array, namespace, peek
from sphereot._norms import safe_norm
from sphereot.arrays import as_reals, as_unit_vectors, require_same_kind

__all__ = [
    "from_lonlat",
    "from_spherical",
    "inverse_stereographic",
    "stereographic",
    "to_lonlat",
    "to_spherical",
]


def from_lonlat(lonlat: Array) -> Array:
    """Unit vectors of places on a globe.

    Parameters
    ----------
    lonlat : array, shape (..., 2)
        Longitude, any, and latitude, in [-90, 90], in degrees, in this order. East and north are positive.

    Returns
    -------
    array, shape (..., 3)
        Unit vectors: the first axis points to longitude 0 on the equator, the second to 90 degrees east, the third to
        the north pole.

    Raises
    ------
    ValueError
        For latitudes beyond the poles, which often are longitudes in the wrong place.

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.from_lonlat([[0.0, 0.0], [90.0, 0.0], [0.0, -90.0]]).round(12) + 0.0
    array([[ 1.,  0.,  0.],
           [ 0.,  1.,  0.],
           [ 0.,  0., -1.]])
    """
    degrees = as_reals("lonlat", lonlat)
    if degrees.ndim < 1 or degrees.shape[-1] != 2:
        raise ValueError(
            f"lonlat: shape is {tuple(degrees.shape)}, but longitudes and latitudes are an array of shape (..., 2)."
        )
    xp = namespace(degrees)
    if 0 not in degrees.shape:
        farthest = peek(xp.max(xp.abs(degrees[..., 1])))
        if farthest is not None and farthest > 90:
            raise ValueError(
                f"lonlat: a latitude is {farthest:.6g} degrees from the equator, but the poles are at 90; the "
                "order is longitude, latitude."
            )
    radians = degrees * (math.pi / 180)
    longitude, latitude = radians[..., 0], radians[..., 1]
    ring = xp.cos(latitude)
    return xp.stack([ring * xp.cos(longitude), ring * xp.sin(longitude), xp.sin(latitude)], axis=-1)


def to_lonlat(x: Array) -> Array:
    """Longitude and latitude, in degrees, of points on S^2; the inverse of `from_lonlat`.

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
    x = _on_s2(x)
    xp = namespace(x)
    longitude = _azimuth(x) * (180 / math.pi)
    longitude = xp.where(longitude >= 180, longitude - 360, longitude)
    latitude = xp.atan2(x[..., 2], safe_norm(x[..., :2])[..., 0]) * (180 / math.pi)
    return xp.stack([longitude, latitude], axis=-1)


def from_spherical(theta: Array, phi: Array) -> Array:
    """Unit vectors of S^2 from spherical angles.

    Parameters
    ----------
    theta : array
        Colatitude in radians: 0 at the north pole, pi at the south pole.
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
    if isinstance(theta, Real):
        theta = theta + 0 * as_reals("phi", phi)  # a plain number goes with arrays of every library
    elif isinstance(phi, Real):
        phi = phi + 0 * as_reals("theta", theta)
    theta, phi = as_reals("theta", theta), as_reals("phi", phi)
    require_same_kind(theta=theta, phi=phi)
    xp = namespace(theta, phi)
    try:
        theta, phi = xp.broadcast_arrays(theta, phi)
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            f"theta and phi have shapes {tuple(theta.shape)} and {tuple(phi.shape)}, which do not broadcast."
        ) from error
    ring = xp.sin(theta)
    return xp.stack([ring * xp.cos(phi), ring * xp.sin(phi), xp.cos(theta)], axis=-1)


def to_spherical(x: Array) -> tuple[Array, Array]:
    """Spherical angles of points on S^2; the inverse of `from_spherical`.

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
    x = _on_s2(x)
    return namespace(x).atan2(safe_norm(x[..., :2])[..., 0], x[..., 2]), _azimuth(x)


def stereographic(x: Array) -> Array:
    """Stereographic projection of the sphere S^{d-1}, without one point, on R^{d-1}.

    Parameters
    ----------
    x : array, shape (..., d)
        Unit vectors other than (-1, 0, ..., 0), which would go to infinity.

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
    The formula of the paper (appendix on normalizing flows). The inverse that is printed there has its pole on the
    last axis, (2 u, |u|^2 - 1) / (|u|^2 + 1), and so inverts x_{1:d-1} / (1 - x_d) instead; `inverse_stereographic` is
    the true inverse of this function.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> sphere.stereographic(np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]))
    array([[0. , 0. ],
           [0.6, 0.8]])
    """
    x = as_unit_vectors("x", x)
    xp = namespace(x)
    first, rest = x[..., :1], x[..., 1:]
    squares = xp.sum(rest**2, axis=-1, keepdims=True)
    near_pole = first < 0
    if 0 not in x.shape and peek(xp.min(xp.where(near_pole, squares, 1 + 0 * squares))) == 0:
        raise ValueError(
            "x: holds the point (-1, 0, ..., 0), which the stereographic projection sends to infinity; remove it, or "
            "rotate the points first."
        )
    # 1 + x_1 = |x_{2:d}|^2 / (1 - x_1) on the sphere: no digits are lost near the pole.
    scale = xp.where(near_pole, (1 - first) / xp.where(near_pole, squares, 1 + 0 * squares), 1 / (1 + xp.abs(first)))
    return rest * scale


def inverse_stereographic(u: Array) -> Array:
    """The inverse of `stereographic`: from R^{d-1} to the sphere S^{d-1}.

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
    u = as_reals("u", u)
    if u.ndim < 1 or u.shape[-1] < 1:
        raise ValueError(f"u: shape is {tuple(u.shape)}, but vectors are an array of shape (..., d-1).")
    xp = namespace(u)
    length = safe_norm(u)
    far = length > 1
    # With 1 / |u| in place of |u| outside the unit ball, no square leaves the range.
    inverse = 1 / xp.where(far, length, xp.ones_like(length))
    square = xp.where(far, inverse, length) ** 2
    first = xp.where(far, square - 1, 1 - square) / (1 + square)
    rest = 2 * (u * inverse) * inverse / (1 + square)
    return xp.concat([first, rest], axis=-1)


def _azimuth(x: Array) -> Array:
    xp = namespace(x)
    on_axis = (x[..., 0] == 0) & (x[..., 1] == 0)
    return xp.where(on_axis, 0 * x[..., 0], xp.atan2(x[..., 1], xp.where(on_axis, 1 + 0 * x[..., 0], x[..., 0])))


def _on_s2(x: Any) -> Array:
    x = as_unit_vectors("x", x)
    if x.shape[-1] != 3:
        raise ValueError(
            f"x: points are in dimension {x.shape[-1]}, but these coordinates are for S^2, an array of shape (..., 3)."
        )
    return x
