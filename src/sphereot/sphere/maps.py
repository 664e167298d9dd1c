"""Exponential and logarithm map, geodesic distance, parallel transport and Fréchet mean on the sphere."""

import math
import warnings
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, device, namespace, peek
from sphereot._arrays.random import normal_source
from sphereot._arrays.types import ArrayLike, ArrayT, Numbers, NumpyArrayLike, NumpyVectors, Points, Seed, Vectors
from sphereot._arrays.validation import (
    as_int,
    as_points,
    as_positive,
    as_reals,
    as_same_kind,
    as_unit_vectors,
    as_vectors,
    as_weights,
    own_weights,
    require_broadcast,
    require_same_dim,
)

_MAX_STEPS = 1000
_TRACED_STEPS = 50


@overload
def normalize(x: ArrayT) -> ArrayT: ...


@overload
def normalize(x: Vectors) -> Any: ...


def normalize(x: Vectors) -> Any:
    """Scale vectors to unit length.

    Parameters
    ----------
    x : array, shape (..., d)
        Nonzero, finite vectors; others raise a ValueError. Tables and other containers are read as in `from_table`:
        columns of longitude and latitude become unit vectors.

    Returns
    -------
    array, shape (..., d)
        Unit vectors of the same directions. The result for a container is a NumPy array.

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.normalize([[3.0, 4.0]])
    array([[0.6, 0.8]])
    """
    vectors = as_vectors("x", x)
    xp = namespace(vectors)
    # Scaling first keeps the squares of very long and very short vectors within range.
    vectors = vectors / xp.max(xp.abs(vectors), axis=-1, keepdims=True)
    return vectors / xp.linalg.vector_norm(vectors, axis=-1, keepdims=True)


@overload
def random_uniform(n: int, dim: int, *, seed: Seed = ..., like: None = ...) -> NDArray[np.float64]: ...


@overload
def random_uniform(n: int, dim: int, *, seed: Seed = ..., like: ArrayT) -> ArrayT: ...


def random_uniform(n: int, dim: int, *, seed: Seed = None, like: ArrayT | None = None) -> Any:
    """Draw points from the uniform distribution on the sphere.

    Parameters
    ----------
    n : int
        Number of points, at least 1.
    dim : int
        Dimension d of the space that contains the sphere S^{d-1}, at least 2.
    seed : int, generator or None, default None
        Seed, as in `sphereot.ssw`.
    like : array, optional
        Array whose library, floating type and device the points get. The default is NumPy, float64.

    Returns
    -------
    array, shape (n, d)
        Unit vectors.

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.random_uniform(5, 3, seed=0).shape
    (5, 3)
    """
    n = as_int("n", n, 1, "the number of points")
    dim = as_int("dim", dim, 2, "the dimension of the space around the sphere")
    return normalize(normal_source(seed, like)((n, dim)))


def to_tangent(x: Vectors, v: ArrayLike) -> Any:
    """Project vectors orthogonally onto the tangent spaces at points: v - <x, v> x.

    Parameters
    ----------
    x : array, shape (..., d)
        Unit vectors.
    v : array, shape (..., d)
        Any vectors, for example Euclidean gradients.

    Returns
    -------
    array, shape (..., d)
        Vectors orthogonal to `x`.

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.to_tangent([0.0, 0.0, 1.0], [1.0, 2.0, 3.0])
    array([1., 2., 0.])
    """
    return _point_and_tangent(x, v)[1]


@overload
def exp(x: ArrayT, v: ArrayT | NumpyArrayLike) -> ArrayT: ...


@overload
def exp(x: Vectors, v: ArrayLike) -> Any: ...


def exp(x: Vectors, v: ArrayLike) -> Any:
    """Follow a geodesic from `x` with velocity `v` for unit time (exponential map).

    Parameters
    ----------
    x : array, shape (..., d)
        Unit vectors.
    v : array, shape (..., d)
        Tangent vectors at `x`, in radians. The component along `x` has no effect. For a Euclidean gradient,
        ``exp(x, -step * gradient)`` is therefore a step of Riemannian gradient descent.

    Returns
    -------
    array, shape (..., d)
        Unit vectors cos(|v|) x + sin(|v|) v / |v|.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> sphere.exp([1.0, 0.0, 0.0], [0.0, np.pi / 2, 0.0]).round(12)
    array([0., 1., 0.])
    """
    return _exp(*_point_and_tangent(x, v))


def log(x: Vectors, y: Vectors) -> Any:
    """Return the velocity of the shortest geodesic that reaches `y` from `x` in unit time (logarithm map).

    Parameters
    ----------
    x, y : array, shape (..., d)
        Unit vectors.

    Returns
    -------
    array, shape (..., d)
        Tangent vectors at `x`, whose length is the distance to `y` in radians. Antipodes have shortest geodesics in all
        directions; the returned one goes toward the axis on which `x` has its smallest coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> sphere.log([1.0, 0.0], [0.0, 1.0]) / np.pi
    array([0. , 0.5])
    """
    return _log(*_two_points(x, y))


@overload
def geodesic_distance(x: ArrayT, y: ArrayT | NumpyVectors) -> ArrayT: ...


@overload
def geodesic_distance(x: Vectors, y: Vectors) -> Any: ...


def geodesic_distance(x: Vectors, y: Vectors) -> Any:
    """Compute geodesic distances between points on the sphere: the lengths of the shortest arcs, in radians.

    Parameters
    ----------
    x, y : array, shape (..., d)
        Unit vectors, compared in pairs. For all pairs of points (n, d) and (m, d), pass ``x[:, None]`` and ``y[None]``.

    Returns
    -------
    array, shape (...)
        Distances 2 atan2(|x - y|, |x + y|) in [0, pi] (after W. Kahan): exactly 0 for equal points. Unlike
        arccos(<x, y>), they are as accurate as the coordinates for tiny distances and near antipodes too. The gradient
        at equal points and at antipodes is zero.

    Examples
    --------
    >>> from sphereot import sphere
    >>> print(sphere.geodesic_distance([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0], [1.0, 1e-12]]))
    [0.00000000e+00 1.57079633e+00 1.00000000e-12]
    """
    return _distance(*_two_points(x, y))[..., 0]


@overload
def parallel_transport(x: ArrayT, y: ArrayT | NumpyVectors, v: ArrayT | NumpyArrayLike) -> ArrayT: ...


@overload
def parallel_transport(x: Vectors, y: Vectors, v: ArrayLike) -> Any: ...


def parallel_transport(x: Vectors, y: Vectors, v: ArrayLike) -> Any:
    """Transport tangent vectors in parallel from `x` to `y`, along the shortest geodesic.

    Parameters
    ----------
    x, y : array, shape (..., d)
        Unit vectors.
    v : array, shape (..., d)
        Tangent vectors at `x`. The component along `x` has no effect.

    Returns
    -------
    array, shape (..., d)
        Tangent vectors at `y`. Between antipodes, the geodesic is that of `log`.

    Notes
    -----
    The transport is the reflection in the hyperplane orthogonal to x + y, which maps x to -y. It is an isometry in
    rounded arithmetic too, unlike the usual formula v - <y, v> / (1 + <x, y>) (x + y) near antipodes.

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.parallel_transport([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 2.0, 1.0]).round(12)
    array([-2.,  0.,  1.])
    """
    start, end = _two_points(x, y)
    start, tangent = _point_and_tangent(start, v)
    xp = namespace(start)
    middle, length = _normalize_nonzero(start + end)
    middle = xp.where(length == 0, _some_tangent(start), middle)
    return tangent - 2 * xp.sum(middle * tangent, axis=-1, keepdims=True) * middle


@overload
def frechet_mean(
    x: ArrayT, *, weights: Numbers | None = ..., tolerance: float | None = ..., max_steps: int | None = ...
) -> ArrayT: ...


@overload
def frechet_mean(
    x: Points, *, weights: Numbers | None = ..., tolerance: float | None = ..., max_steps: int | None = ...
) -> Any: ...


def frechet_mean(
    x: Points, *, weights: Numbers | None = None, tolerance: float | None = None, max_steps: int | None = None
) -> Any:
    """Find the point that minimizes the mean squared geodesic distance to a sample (Fréchet mean).

    Parameters
    ----------
    x : array, shape (n, d)
        Unit vectors.
    weights : array, shape (n,), optional
        Nonnegative weights, rescaled to sum to 1. By default, all points have the same weight.
    tolerance : float, optional
        Length of a step, in radians, at which to stop; 64 units of rounding by default.
    max_steps : int, default 1000
        Largest number of steps. Under a trace (jax.jit, torch.compile), the length of a step is not known. Exactly
        `max_steps` steps are computed then, 50 by default.

    Returns
    -------
    array, shape (d,)
        A unit vector.

    Raises
    ------
    ValueError
        If the Euclidean mean of the points is zero, as for antipodes: then all directions are equivalent.

    Warns
    -----
    RuntimeWarning
        If points are farther than a quarter of a turn from the mean, which then need not be unique. Also if `max_steps`
        steps did not reach the tolerance.

    Notes
    -----
    The method is Riemannian gradient descent m <- exp_m(sum of w_i log_m(x_i)), from the normalized Euclidean mean.
    Steps of length one never overshoot, since the Hessian of half the squared distance on a sphere is at most one. The
    mean is unique if all points are less than a quarter of a turn from it (Afsari, 2011).

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.frechet_mean([[1.0, 0.0], [0.0, 1.0]]).round(4)
    array([0.7071, 0.7071])
    """
    weights = own_weights(weights, x)
    points = as_points("x", x, weighted=True)
    share = as_weights("weights", weights, "x", points)
    steps = None if max_steps is None else as_int("max_steps", max_steps, 1, "the number of steps")
    xp = namespace(points)
    rounding = float(xp.finfo(points.dtype).eps)
    tolerance = as_positive("tolerance", 64 * rounding if tolerance is None else tolerance, "the length of a step")
    if share is None:
        share = xp.ones(points.shape[0], dtype=points.dtype, device=device(points))
    share = xp.astype(share / xp.max(share), points.dtype)
    share = (share / xp.sum(share))[:, None]
    mean, length = _normalize_nonzero(xp.sum(share * points, axis=0))
    mean_length = peek(length[0])
    if mean_length is not None and mean_length <= 1e3 * rounding:
        raise ValueError(
            "x must have a unique Fréchet mean, but their Euclidean mean is zero, as for antipodes. "
            "Change the sample or its weights."
        )
    step_length: float | None = None
    for _ in range(steps or (_TRACED_STEPS if mean_length is None else _MAX_STEPS)):
        step = xp.sum(share * _log(mean, points), axis=0)
        mean = _exp(mean, _tangent_part(mean, step))
        step_length = peek(safe_norm(step)[0])
        if step_length is not None and step_length <= tolerance:
            break
    farthest = peek(xp.max(xp.where(share > 0, _distance(mean, points), 0 * share)))
    problem = None
    if step_length is not None and step_length > tolerance:
        problem = f"the last step was {step_length:.2g} radians long; give more max_steps or a wider tolerance"
    # A little more than a quarter of a turn, so that rounding does not warn for an octant or a circle.
    elif farthest is not None and farthest > 1.5708:
        problem = f"a point is {farthest:.3g} radians, more than a quarter of a turn, from the mean; others may exist"
    if problem:
        warnings.warn(f"frechet_mean: {problem}.", RuntimeWarning, stacklevel=2)
    return mean


def log_area(dim: int) -> float:
    """Compute the logarithm of the surface area of S^{d-1} in R^d, 2 pi^{d/2} / Gamma(d/2).

    >>> math.isclose(math.exp(log_area(3)), 4 * math.pi)
    True
    """
    return math.log(2.0) + 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim)


def safe_norm(v: Array) -> Array:
    """Compute Euclidean norms (..., 1) of vectors (..., d) without overflow. The gradient at 0 is 0."""
    xp = namespace(v)
    largest = xp.max(xp.abs(v), axis=-1, keepdims=True)
    zero = largest == 0
    scale = xp.where(zero, xp.ones_like(largest), largest)
    # Both branches of a `where` are differentiated, and 0 times infinity is NaN: the root must not see zero at all.
    squares = xp.where(zero, xp.ones_like(largest), xp.sum((v / scale) ** 2, axis=-1, keepdims=True))
    return xp.where(zero, xp.zeros_like(largest), scale * xp.sqrt(squares))


def _normalize_nonzero(v: Array) -> tuple[Array, Array]:
    """Scale vectors (..., d) to unit length, except zero vectors, and return their norms (..., 1) too."""
    xp = namespace(v)
    length = safe_norm(v)
    return v / xp.where(length == 0, xp.ones_like(length), length), length


def _distance(x: Array, y: Array) -> Array:
    """Geodesic distances with a last axis of length 1: 2 atan2(|x - y|, |x + y|)."""
    return 2 * namespace(x).atan2(safe_norm(x - y), safe_norm(x + y))


def _tangent_part(x: Array, v: Array) -> Array:
    """Component of `v` orthogonal to `x`."""
    return v - namespace(x).sum(x * v, axis=-1, keepdims=True) * x


def _exp(x: Array, v: Array) -> Array:
    xp = namespace(x)
    length = safe_norm(v)
    # sin(t) / t times v, whose gradient at v = 0 is that of v itself, unlike sin(t) times a direction.
    sinc = xp.where(length == 0, xp.ones_like(length), xp.sin(length) / xp.where(length == 0, 1 + 0 * length, length))
    moved = xp.cos(length) * x + sinc * v
    return moved / xp.linalg.vector_norm(moved, axis=-1, keepdims=True)  # rounding must not add up over many steps


def _log(x: Array, y: Array) -> Array:
    xp = namespace(x)
    distance = _distance(x, y)
    # y, y - x and y + x have the same tangent part: the shorter of the last two loses the fewest digits.
    near = xp.where(xp.sum(x * y, axis=-1, keepdims=True) > 0, y - x, y + x)
    # Twice, since near an antipode what the first pass leaves along x may be as large as the tangent part.
    tangent = _tangent_part(x, _tangent_part(x, near))
    sine = safe_norm(tangent)
    here = sine == 0
    scale = xp.where(here, xp.ones_like(sine), distance / xp.where(here, xp.ones_like(sine), sine))
    at_antipode = here & (distance > 1)
    return xp.where(at_antipode, distance * _some_tangent(x), scale * tangent)


def _some_tangent(x: Array) -> Array:
    """Unit tangent vectors at `x`, toward the axis on which it has its smallest coordinate."""
    xp = namespace(x)
    smallest = xp.argmin(xp.abs(x), axis=-1, keepdims=True)
    axis = xp.astype(xp.arange(x.shape[-1], device=device(x)) == smallest, x.dtype)
    tangent = _tangent_part(x, axis)
    return tangent / xp.linalg.vector_norm(tangent, axis=-1, keepdims=True)


def _two_points(x: Array, y: Array) -> tuple[Array, Array]:
    x, y = as_unit_vectors("x", x), as_unit_vectors("y", y)
    x, y = as_same_kind(x=x, y=y)
    require_same_dim("x", x, "y", y)
    require_broadcast("x", x, "y", y, "points go in pairs, row by row; for all pairs pass x[:, None] and y[None]")
    return x, y


def _point_and_tangent(x: Array, v: Array) -> tuple[Array, Array]:
    """Validated points, and the tangent parts of validated vectors at these points."""
    x, v = as_unit_vectors("x", x), as_reals("v", v, unit="rad")
    x, v = as_same_kind(x=x, v=v)
    dim = x.shape[-1]
    if v.ndim < 1 or v.shape[-1] != dim:
        raise ValueError(f"v must have shape (..., {dim}), as its points, got {tuple(v.shape)}.")
    require_broadcast("x", x, "v", v, "give one vector for each point, or one point for all vectors")
    return x, _tangent_part(x, v)
