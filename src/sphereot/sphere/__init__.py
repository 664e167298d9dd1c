"""Geometry of the sphere S^{d-1}: exponential and logarithm map, distance, Fréchet mean, coordinates.

Points are unit vectors, and tangent vectors are orthogonal to them. All functions accept arrays of any library with any
leading dimensions, which broadcast. They are differentiable if the library is, also at equal points and at antipodes.
Tables and other containers of points are read as in `from_table`; the result is a NumPy array. Lengths are in radians.
"""

from sphereot.sphere.coordinates import (
    from_lonlat,
    from_spherical,
    from_table,
    inverse_stereographic,
    stereographic,
    to_lonlat,
    to_spherical,
)
from sphereot.sphere.maps import (
    exp,
    frechet_mean,
    geodesic_distance,
    log,
    normalize,
    parallel_transport,
    random_uniform,
    to_tangent,
)

__all__ = [
    "exp",
    "frechet_mean",
    "from_lonlat",
    "from_spherical",
    "from_table",
    "geodesic_distance",
    "inverse_stereographic",
    "log",
    "normalize",
    "parallel_transport",
    "random_uniform",
    "stereographic",
    "to_lonlat",
    "to_spherical",
    "to_tangent",
]
