"""SSW_p^p between two samples, and between a sample and the uniform measure (Algorithm 1, Section 3.2)."""

from collections.abc import Mapping
from typing import Any, overload

import numpy as np

from sphereot._arrays.libraries import Array, take_root, without_gradient
from sphereot._arrays.types import ArrayT, Frames, Method, Numbers, NumpyPoints, Points, Seed, UniformMethod
from sphereot._arrays.validation import (
    as_frames,
    as_method,
    as_order,
    as_samples,
    as_slice_count,
)
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures
from sphereot.slicing.circles import draw_great_circles


@overload
def ssw(
    x: NumpyPoints,
    y: Points,
    *,
    p: float = ...,
    x_weights: Numbers | None = ...,
    y_weights: Numbers | None = ...,
    n_projections: int | None = ...,
    projections: Frames | None = ...,
    method: Method = ...,
    seed: Seed = ...,
    root: bool = ...,
) -> Any: ...


@overload
def ssw(
    x: ArrayT,
    y: Points,
    *,
    p: float = ...,
    x_weights: Numbers | None = ...,
    y_weights: Numbers | None = ...,
    n_projections: int | None = ...,
    projections: Frames | None = ...,
    method: Method = ...,
    seed: Seed = ...,
    root: bool = ...,
) -> ArrayT: ...


def ssw(
    x: Points,
    y: Points,
    *,
    p: float = 2,
    x_weights: Numbers | None = None,
    y_weights: Numbers | None = None,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: Method = "iid",
    seed: Seed = None,
    root: bool = False,
) -> Any:
    """Spherical Sliced-Wasserstein distance between two samples, SSW_p^p (Algorithm 1).

    Parameters
    ----------
    x : array, shape (n, d)
        Unit vectors: the first sample. Tables, SkyCoord, GeoSeries and other containers of points are read too; see
        `sphereot.sphere.from_table`.
    y : array, shape (m, d)
        Unit vectors: the second sample, of the same array library and device.
    p : float
        Order, from 1 to 16. Above 4 the computation and the result are in float64.
    x_weights, y_weights : array, shape (n,) and (m,), optional
        Nonnegative weights, scaled to a total of 1. By default those that a `PointSet` holds, else equal weights.
    n_projections : int, optional
        The number L of great circles to average over; 200 by default.
    projections : array, shape (L, d, 2), optional
        The great circles themselves, as `great_circles` gives; by default they are drawn.
    method : {"iid", "orthogonal", "quasi"}
        How great circles are drawn: independently as in Algorithm 1, or placed so that the mean over them varies less;
        see `great_circles`.
    seed : int, generator or None
        Source of the great circles: an int, a generator of the array's own library (numpy Generator, torch.Generator,
        JAX key), or None for new ones each time. Global random state is neither read nor changed. Under `jax.jit`,
        which would draw once and keep the circles, None is an error: pass a key, or an int for fixed circles.
    root : bool
        Return the distance SSW_p = (SSW_p^p)^(1/p) instead.

    Returns
    -------
    array, shape ()
        SSW_p^p in turns to the power p, of the inputs' library, device and dtype (float32 for half types,
        float64 for orders above 4).

    See Also
    --------
    ssw_estimate : with its Monte-Carlo standard error, or to a tolerance.
    ssw_uniform : against the uniform measure, with no sample of it.
    pairwise_ssw : all distances among several samples.

    Notes
    -----
    SSW_p is a pseudo-distance (Proposition 5). On each great circle the cost is exact; the only approximation is the
    mean over L circles, whose error falls like 1 / sqrt(L). Multiply `root=True` values by 2 pi for radians.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> rng = np.random.default_rng(0)
    >>> x = sphereot.sphere.normalize(rng.normal(size=(500, 3)))
    >>> y = sphereot.sphere.normalize(rng.normal(size=(400, 3)) + [1, 0, 0])
    >>> bool(sphereot.ssw(x, x, seed=0) == 0)
    True
    >>> bool(sphereot.ssw(x, y, seed=0) > 0.01)
    True
    """
    p = as_order(p)
    measures = two_measures(x, y, x_weights, y_weights, p)
    points = measures[0].points
    frames = frames_for(points, n_projections, projections, seed, method)
    return backend_for(points).mean_cost(measures, frames, p, root=root)


@overload
def ssw_uniform(
    x: NumpyPoints,
    *,
    p: float = ...,
    weights: Numbers | None = ...,
    n_projections: int | None = ...,
    projections: Frames | None = ...,
    method: UniformMethod = ...,
    seed: Seed = ...,
    root: bool = ...,
    unbiased: bool = ...,
) -> np.floating[Any]: ...


@overload
def ssw_uniform(
    x: ArrayT,
    *,
    p: float = ...,
    weights: Numbers | None = ...,
    n_projections: int | None = ...,
    projections: Frames | None = ...,
    method: UniformMethod = ...,
    seed: Seed = ...,
    root: bool = ...,
    unbiased: bool = ...,
) -> ArrayT: ...


def ssw_uniform(
    x: Points,
    *,
    p: float = 2,
    weights: Numbers | None = None,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: UniformMethod = "iid",
    seed: Seed = None,
    root: bool = False,
    unbiased: bool = False,
) -> Any:
    """SSW_p^p between a sample and the uniform measure on the sphere.

    The projection of the uniform measure on a great circle is uniform (Section 4), so no sample of it is needed, and
    for p = 2 the cost on each circle has a closed form (Proposition 1).

    Parameters
    ----------
    x : array, shape (n, d)
        Unit vectors.
    p : float
        Order, from 1 to 16.
    weights : array, shape (n,), optional
        Nonnegative weights, scaled to a total of 1; equal weights by default.
    method : {"iid", "orthogonal", "quasi", "exact"}
        How great circles are drawn, as in `ssw`; or "exact", for p = 2, the mean over all great circles without
        drawing any: a double sum over the points (`uniform_kernel`), in O(n^2 d) time and no n x n array.
    n_projections, projections, seed, root
        As in `ssw`; great circles and seeds have no meaning for `method="exact"`.
    unbiased : bool
        With `method="exact"`: leave out the pairs of a point with itself. For a sample of a distribution the result is
        then an unbiased estimate of SSW_2^2 of that distribution, 0 in the mean for uniform points, whatever n is; it
        may be negative.

    Returns
    -------
    array, shape ()
        SSW_p^p in turns to the power p.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> pole = np.array([[0.0, 0.0, 1.0]])  # one point: every slice is a single atom
    >>> round(float(sphereot.ssw_uniform(pole, seed=0)), 6) == round(1 / 12, 6)
    True
    >>> corners = np.concatenate([np.eye(3), -np.eye(3)])
    >>> print(f"{sphereot.ssw_uniform(corners, method='exact'):.6f}")
    0.004057
    """
    p = as_order(p)
    measure = Measure(*as_samples({"x": x}, {"weights": weights}, p=p)[0])
    points = measure.points
    if method == "exact":
        given = {"n_projections": n_projections, "projections": projections, "seed": seed}
        require_exact_options(p, points.shape[0], root, unbiased, given)
        return take_root(backend_for(points).pair_cost(measure, unbiased=unbiased), p, root)
    if unbiased:
        raise ValueError(f"unbiased: got True with method={method!r}, but it needs method='exact'.")
    frames = frames_for(points, n_projections, projections, seed, method)
    return backend_for(points).mean_cost((measure,), frames, p, root=root)


def two_measures(x: Any, y: Any, x_weights: Any, y_weights: Any, p: float) -> list[Measure]:
    """Validate two samples and their weights."""
    pairs = as_samples({"x": x, "y": y}, {"x_weights": x_weights, "y_weights": y_weights}, p=p)
    return [Measure(*pair) for pair in pairs]


def without_gradients(measures: Measures) -> Measures:
    """Detached measures: an estimate with its standard error has no gradient."""
    return [
        Measure(without_gradient(points), None if weights is None else without_gradient(weights))
        for points, weights in measures
    ]


def frames_for(x: Array, n_projections: int | None, projections: Array | None, seed: Any, method: Any = "iid") -> Array:
    """Frames (L, d, 2) for points `x`: `projections` validated, or newly drawn."""
    method = as_method(method)
    if projections is None:
        return draw_great_circles(as_slice_count(n_projections), x.shape[1], method, seed, x)
    frames = as_frames(projections, x)
    as_slice_count(n_projections, frames)
    return without_gradient(frames)  # no backend differentiates in the circles themselves


def require_exact_options(p: float, n: int, root: bool, unbiased: bool, given: Mapping[str, Any]) -> None:
    """Raise unless the options of a distance to the uniform distribution fit `method="exact"`.

    Parameters
    ----------
    p, n, root, unbiased
        The order, the number of points, and options of `ssw_uniform`.
    given : mapping
        Options that concern great circles, by name; None where not given.
    """
    if p != 2:
        raise ValueError(f"p: got {p:g}, but method='exact' is for p = 2; give p=2, or another method.")
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}: got a value, but method='exact' draws no great circles; leave {name} out.")
    if unbiased and root:
        raise ValueError("root: got True with unbiased=True, whose value may be negative; leave one of them out.")
    if unbiased and n < 2:
        raise ValueError(f"x: got {n} point, but unbiased=True needs at least 2; give more points.")
