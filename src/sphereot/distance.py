"""Spherical Sliced-Wasserstein: the mean, over great circles, of the optimal transport cost on each (Section 3.2).

    SSW_p^p(mu, nu) = E_U [ W_p^p(P^U mu, P^U nu) ]

The functions here return SSW_p^p, as Algorithm 1 does: it is smooth at zero, and its Monte-Carlo mean is unbiased.
Lengths are in turns of the great circle (2 pi radians are 1).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from statistics import NormalDist
from typing import Any

from sphereot._arrays.libraries import Array, device, namespace, without_gradient
from sphereot._arrays.orders import LARGEST_PLAIN_ORDER
from sphereot._arrays.random import normal_source
from sphereot._arrays.validation import (
    as_frames,
    as_order,
    as_points,
    as_slice_count,
    as_weights,
    as_whole_number,
    require_same_dim,
    require_same_kind,
)
from sphereot._backends import path_for
from sphereot._support.calls import options_by_name
from sphereot.slicing.circles import great_circles, independent_frames

__all__ = ["SSWEstimate", "is_rooted_at_once", "pairwise_ssw", "ssw", "ssw_estimate", "ssw_uniform", "two_measures"]


@options_by_name
def ssw(
    x: Array,
    y: Array,
    *,
    p: float = 2,
    x_weights: Array | None = None,
    y_weights: Array | None = None,
    n_projections: int | None = None,
    projections: Array | None = None,
    seed: Any = None,
    root: bool = False,
) -> Array:
    """Spherical Sliced-Wasserstein distance between two samples, SSW_p^p (Algorithm 1).

    Parameters
    ----------
    x : array, shape (n, d)
        Unit vectors: the first sample.
    y : array, shape (m, d)
        Unit vectors: the second sample, of the same array library and device.
    p : float
        Order, from 1 to 1000. SSW_p^p of a large order is a tiny number, and 0 below the range of its dtype (1e-38 in
        float32); use `root=True` there, which is right for all orders.
    x_weights, y_weights : array, shape (n,) and (m,), optional
        Nonnegative weights, scaled to a total of 1; equal weights by default.
    n_projections : int, optional
        The number L of great circles to average over; 200 by default.
    projections : array, shape (L, d, 2), optional
        The great circles themselves, as `great_circles` gives; drawn independently by default.
    seed : int, generator or None
        Source of the great circles: an int, a generator of the array's own library (numpy Generator, torch.Generator,
        JAX key), or None for new ones each time. Global random state is neither read nor changed. Under `jax.jit`,
        which would draw once and keep the circles, None is an error: pass a key, or an int for fixed circles.
    root : bool
        Return the distance SSW_p = (SSW_p^p)^(1/p) instead.

    Returns
    -------
    array, shape ()
        SSW_p^p in turns to the power p, of the inputs' library, device and dtype (float32 for half types).

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
    p, x, y, a, b = two_measures(x, y, p, x_weights, y_weights)
    frames = _frames(x, n_projections, projections, seed)
    if is_rooted_at_once(p, root):
        return path_for(x).mean_distance(x, y, a, b, frames, p)
    return _rooted(path_for(x).mean_cost(x, y, a, b, frames, p), p, root)


@options_by_name
def ssw_uniform(
    x: Array,
    *,
    p: float = 2,
    weights: Array | None = None,
    n_projections: int | None = None,
    projections: Array | None = None,
    seed: Any = None,
    root: bool = False,
) -> Array:
    """SSW_p^p between a sample and the uniform measure on the sphere.

    The projection of the uniform measure on a great circle is uniform (Section 4), so no sample of it is needed, and
    for p = 2 the cost on each circle has a closed form (Proposition 1).

    Parameters
    ----------
    x : array, shape (n, d)
        Unit vectors.
    p : float
        Order, from 1 to 1000.
    weights : array, shape (n,), optional
        Nonnegative weights, scaled to a total of 1; equal weights by default.
    n_projections, projections, seed, root
        As in `ssw`.

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
    """
    p, x = as_order(p), as_points("x", x)
    a = as_weights("weights", weights, "x", x)
    frames = _frames(x, n_projections, projections, seed)
    if is_rooted_at_once(p, root):
        return path_for(x).mean_distance_uniform(x, a, frames, p)
    return _rooted(path_for(x).mean_cost_uniform(x, a, frames, p), p, root)


@dataclass(frozen=True)
class SSWEstimate:
    """A Monte-Carlo estimate of SSW_p^p with its uncertainty.

    Attributes
    ----------
    value : float
        The mean of the slice costs.
    standard_error : float
        The standard error of that mean over the draw of great circles; NaN for a single slice.
    slice_costs : array, shape (L,)
        W_p^p on each great circle.
    p : float
        The order.
    """

    value: float
    standard_error: float
    slice_costs: Array
    p: float

    @property
    def n_projections(self) -> int:
        """The number L of great circles."""
        return int(self.slice_costs.shape[0])

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """An interval that holds SSW_p^p of these points with probability `level`, by the central limit theorem.

        It speaks of the choice of great circles only, not of the points being a sample of something larger.
        """
        if not isinstance(level, Real) or not 0 < level < 1:
            raise ValueError(f"level: got {level!r}, but a probability strictly between 0 and 1 is needed.")
        half = NormalDist().inv_cdf(0.5 + level / 2) * self.standard_error
        return max(self.value - half, 0.0), self.value + half

    def __str__(self) -> str:
        return f"{self.value:.6g} ± {self.standard_error:.2g} ({self.n_projections} slices, p = {self.p:g})"


@options_by_name
def ssw_estimate(
    x: Array,
    y: Array | None = None,
    *,
    p: float = 2,
    x_weights: Array | None = None,
    y_weights: Array | None = None,
    n_projections: int | None = None,
    projections: Array | None = None,
    seed: Any = None,
    rtol: float | None = None,
    max_projections: int = 100_000,
) -> SSWEstimate:
    """SSW_p^p with its Monte-Carlo standard error, optionally to a relative tolerance.

    Parameters
    ----------
    x, y : array, shape (n, d) and (m, d)
        Unit vectors. Without `y`, the estimate is against the uniform measure.
    p, x_weights, y_weights, projections, seed
        As in `ssw`. The standard error takes the slices as independent draws, which `projections` should then be.
    n_projections : int, optional
        The number of great circles, 200 by default; with `rtol`, how many to begin with.
    rtol : float, optional
        Draw more great circles, twice as many each time, until the standard error is at most `rtol` times the value.
    max_projections : int
        Never use more than this many; the result then says what was reached.

    Returns
    -------
    SSWEstimate
        With `.value`, `.standard_error`, `.slice_costs`, `.n_projections` and `.confidence_interval(level)`.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> rng = np.random.default_rng(0)
    >>> x = sphereot.sphere.normalize(rng.normal(size=(300, 3)) + [0, 0, 1])
    >>> estimate = sphereot.ssw_estimate(x, seed=1, rtol=0.01)
    >>> estimate.standard_error <= 0.01 * estimate.value
    True
    """
    if y is None:
        if y_weights is not None:
            raise ValueError("y_weights: given without y; pass y too, or leave y_weights out.")
        p, x = as_order(p), as_points("x", x)
        a = as_weights("x_weights", x_weights, "x", x)
    else:
        p, x, y, a, b = two_measures(x, y, p, x_weights, y_weights)
        b = None if b is None else without_gradient(b)
    # A number with its error is no loss.
    x, y, a = (
        without_gradient(x),
        None if y is None else without_gradient(y),
        None if a is None else without_gradient(a),
    )
    path = path_for(x)

    def costs(frames: Array) -> Array:
        return path.slice_costs_uniform(x, a, frames, p) if y is None else path.slice_costs(x, y, a, b, frames, p)

    if rtol is None:
        return _estimate(costs(_frames(x, n_projections, projections, seed)), p)
    if projections is not None:
        raise ValueError("rtol: cannot be met with fixed projections; give n_projections or nothing instead.")
    if not isinstance(rtol, Real) or not 0 < rtol < math.inf:
        raise ValueError(f"rtol: got {rtol!r}, but a positive number is needed.")
    most = as_whole_number("max_projections", max_projections, 1, "the most great circles to draw")
    draw = normal_source(seed, x)
    xp, dim = namespace(x), x.shape[1]
    found = costs(independent_frames(draw, min(as_slice_count(n_projections), most), dim))
    while True:
        estimate = _estimate(found, p)
        count = estimate.n_projections
        if estimate.standard_error <= rtol * estimate.value or count >= most:
            return estimate
        found = xp.concat([found, costs(independent_frames(draw, min(count, most - count), dim))])


@options_by_name
def pairwise_ssw(
    measures: Sequence[Array],
    *,
    p: float = 2,
    weights: Sequence[Array | None] | None = None,
    n_projections: int | None = None,
    projections: Array | None = None,
    seed: Any = None,
    root: bool = False,
) -> Array:
    """SSW_p^p between all pairs of several samples, on shared great circles.

    Parameters
    ----------
    measures : sequence of N arrays, shapes (n_i, d)
        Unit vectors; or one array of shape (N, n, d).
    p : float
        Order, from 1 to 1000.
    weights : sequence of N arrays, shapes (n_i,), or None
        Nonnegative weights of each sample; None stands for equal weights, of all or of one.
    n_projections, projections, seed, root
        As in `ssw`.

    Returns
    -------
    array, shape (N, N)
        Symmetric, with zeros on the diagonal. Each sample is projected and sorted once a slice.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> rng = np.random.default_rng(0)
    >>> samples = [sphereot.sphere.normalize(rng.normal(size=(100, 3)) + [k, 0, 0]) for k in range(3)]
    >>> d = sphereot.pairwise_ssw(samples, seed=0)
    >>> bool(d[0, 2] > d[0, 1]), bool(d[0, 1] == d[1, 0])
    (True, True)
    """
    p = as_order(p)
    count = len(measures)
    if count == 0:
        raise ValueError("measures: there are none; give at least one sample.")
    if weights is not None and len(weights) != count:
        raise ValueError(f"weights: {len(weights)} given for {count} measures; give one array, or None, for each.")
    names = [f"measures[{i}]" for i in range(count)]
    points = [as_points(name, measures[i]) for i, name in enumerate(names)]
    require_same_kind(**dict(zip(names, points, strict=True)))
    for name, x in zip(names, points, strict=True):
        require_same_dim(names[0], points[0], name, x)
    xp = namespace(points[0])
    dtype = xp.result_type(*points)
    points = [xp.astype(x, dtype, copy=False) for x in points]
    each = [
        as_weights(f"weights[{i}]", None if weights is None else weights[i], name, points[i])
        for i, name in enumerate(names)
    ]
    frames = _frames(points[0], n_projections, projections, seed)
    if count == 1:
        return xp.zeros((1, 1), dtype=dtype, device=device(points[0]))
    path, pairs = path_for(points[0]), list(zip(points, each, strict=True))
    if is_rooted_at_once(p, root):
        costs = xp.astype(path.pairwise_distances(pairs, frames, p), dtype)
    else:
        costs = _rooted(xp.astype(path.summed_pairwise_costs(pairs, frames, p) / frames.shape[0], dtype), p, root)
    # Entry (i, j) of the square is the cost of its pair; a zero in front serves the diagonal.
    place = [[0] * count for _ in range(count)]
    for k, (i, j) in enumerate(combinations(range(count), 2), start=1):
        place[i][j] = place[j][i] = k
    flat = xp.asarray([k for row in place for k in row], device=device(costs))
    return xp.reshape(xp.take(xp.concat([xp.zeros_like(costs[:1]), costs]), flat), (count, count))


def two_measures(
    x: Array, y: Array, p: float, x_weights: Array | None, y_weights: Array | None
) -> tuple[float, Array, Array, Array | None, Array | None]:
    """The validated arguments of a comparison, both point sets in their common dtype."""
    p = as_order(p)
    x, y = as_points("x", x), as_points("y", y)
    require_same_kind(x=x, y=y)
    require_same_dim("x", x, "y", y)
    xp = namespace(x)
    dtype = xp.result_type(x, y)
    x, y = xp.astype(x, dtype, copy=False), xp.astype(y, dtype, copy=False)
    return p, x, y, as_weights("x_weights", x_weights, "x", x), as_weights("y_weights", y_weights, "y", y)


def _frames(x: Array, n_projections: int | None, projections: Array | None, seed: Any) -> Array:
    if projections is None:
        return great_circles(as_slice_count(n_projections), x.shape[1], seed=seed, like=x)
    frames = as_frames(projections, x)
    as_slice_count(n_projections, frames)
    return without_gradient(frames)  # on no path are the circles themselves differentiated


def is_rooted_at_once(p: float, root: bool) -> bool:
    """Whether SSW_p is wanted of an order so large that SSW_p^p may vanish: paths compute it without that, then."""
    return root and p > LARGEST_PLAIN_ORDER


def _rooted(value: Array, p: float, root: bool) -> Array:
    if not root or p == 1:
        return value
    # The root has no derivative at 0; gradients there are 0, the limit of those of SSW_p^p.
    xp = namespace(value)
    positive = value > 0
    rooted = xp.where(positive, xp.where(positive, value, xp.ones_like(value)) ** (1.0 / p), xp.zeros_like(value))
    return rooted[()] if rooted.ndim == 0 else rooted


def _estimate(costs: Array, p: float) -> SSWEstimate:
    xp = namespace(costs)
    count = costs.shape[0]
    value = float(xp.mean(costs))
    deviation = float(xp.std(costs, correction=1.0)) if count > 1 else math.nan
    return SSWEstimate(value, deviation / math.sqrt(count), costs, p)
