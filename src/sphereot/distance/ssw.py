"""SSW_p^p between two samples, and between a sample and the uniform distribution (Algorithm 1, Section 3.2)."""

from collections.abc import Mapping
from typing import Any, overload

import numpy as np

from sphereot._arrays.libraries import take_root, without_gradient
from sphereot._arrays.types import ArrayT, Frames, Method, Numbers, NumpyPoints, Points, Seed, UniformMethod
from sphereot._arrays.validation import as_order, as_samples, as_weight_factor
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures
from sphereot.slicing.circles import frames_for


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
    """Compute the Spherical Sliced-Wasserstein distance between two samples (Algorithm 1).

    The samples are projected onto L great circles. The optimal transport cost of order p is computed exactly on each
    great circle, and the L costs are averaged. The result is SSW_p^p, which is differentiable at zero. Pass
    ``root=True`` to get the distance SSW_p.

    Parameters
    ----------
    x : array, shape (n, d)
        First sample, one unit vector per row. Tables and other containers of points are accepted too; see
        `sphereot.sphere.from_table`.
    y : array, shape (m, d)
        Second sample. It must be from the same array library and on the same device as `x`. NumPy arrays can be
        combined with JAX arrays.
    p : float, default 2
        Order of the distance, between 1 and 16. Above 4, the computation and the result are in float64.
    x_weights, y_weights : array, shape (n,) and (m,), optional
        Nonnegative weights of the points, rescaled to sum to 1. By default, all points have the same weight, unless
        the sample is a `PointSet` with weights.
    n_projections : int, optional
        Number L of great circles, 200 by default. Leave it out if `projections` is given.
    projections : array, shape (L, d, 2), optional
        Great circles to use instead of random ones, as returned by `great_circles`.
    method : {"iid", "orthogonal", "quasi"}, default "iid"
        How to draw the great circles: independently as in Algorithm 1, or spread evenly, which reduces the variance of
        the result; see `great_circles`.
    seed : int, generator or None, default None
        Seed of the great circles: an int, or a generator of the array library (`numpy.random.Generator`,
        `torch.Generator`, or a JAX key). With None, every call draws new great circles. Global random state is never
        used. Under `jax.jit`, None raises an error: pass a JAX key, or an int to keep the same great circles.
    root : bool, default False
        If True, return the distance SSW_p = (SSW_p^p)^(1/p).

    Returns
    -------
    array, shape ()
        SSW_p^p, or SSW_p if ``root=True``. Lengths are in turns (1 turn = 360 degrees), so SSW_p is at most 0.5.
        The result has the array library, device and dtype of the inputs (float32 for half precision).

    See Also
    --------
    ssw_estimate : The same distance with a standard error, or to a given tolerance.
    ssw_uniform : Distance between a sample and the uniform distribution.
    pairwise_ssw : Distances between all pairs of several samples.

    Notes
    -----
    SSW_p is a pseudo-distance (Proposition 5). The mean over L great circles is an unbiased estimate of the mean over
    all great circles. Its error decreases as 1 / sqrt(L) for ``method="iid"``.

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
    measures = as_measures({"x": x, "y": y}, {"x_weights": x_weights, "y_weights": y_weights}, p)
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
    even_weight: float = ...,
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
    even_weight: float = ...,
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
    even_weight: float = 1.0,
) -> Any:
    """Compute SSW_p^p between a sample and the uniform distribution on the sphere.

    The projection of the uniform distribution on a great circle is uniform (Section 4), so no second sample is needed.
    For p = 2 the cost on each great circle has a closed form (Proposition 1).

    Parameters
    ----------
    x : array, shape (n, d)
        Unit vectors.
    p : float, default 2
        Order of the distance, between 1 and 16.
    weights : array, shape (n,), optional
        Nonnegative weights, rescaled to sum to 1. By default, all points have the same weight.
    n_projections, projections, seed, root
        Great circles and result, as in `ssw`. Leave out great circles and seed for `method="exact"`.
    method : {"iid", "orthogonal", "quasi", "exact"}, default "iid"
        How to draw the great circles, as in `ssw`. For p = 2, "exact" computes the mean over all great circles without
        drawing any: a double sum over the points (`uniform_kernel`), in O(n^2 d) time and no n x n array.
    unbiased : bool, default False
        With `method="exact"`, leave out the pairs of a point with itself. For a sample, the result is then an unbiased
        estimate of SSW_2^2 of its distribution. It may be negative, and its mean is 0 for uniform points.
    even_weight : float, default 1
        With `method="exact"`, factor of the part of SSW_2^2 that comes from differences which are symmetric under
        x -> -x, such as points near a great subsphere. SSW_2^2 itself hardly sees these in high dimension.

    Returns
    -------
    array, shape ()
        SSW_p^p in turns to the power p, or SSW_p in turns if ``root=True``.

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
    even_weight = as_weight_factor("even_weight", even_weight, "the factor of the even part")
    [measure] = as_measures({"x": x}, {"weights": weights}, p)
    points = measure.points
    if method == "exact":
        given = {"n_projections": n_projections, "projections": projections, "seed": seed}
        require_exact_options(p, points.shape[0], root, unbiased, given)
        return take_root(backend_for(points).pair_cost(measure, unbiased=unbiased, even_weight=even_weight), p, root)
    if unbiased or even_weight != 1:
        raise ValueError(f"unbiased and even_weight: got a value with method={method!r}. Pass method='exact'.")
    frames = frames_for(points, n_projections, projections, seed, method)
    return backend_for(points).mean_cost((measure,), frames, p, root=root)


def as_measures(samples: Mapping[str, Any], weights: Mapping[str, Any], p: float) -> list[Measure]:
    """Validate named samples with their named weights."""
    return [Measure(*pair) for pair in as_samples(samples, weights, p=p)]


def detach(measures: Measures) -> Measures:
    """The measures without gradients, which an estimate with its standard error does not have."""
    return [Measure(without_gradient(x), None if a is None else without_gradient(a)) for x, a in measures]


def require_exact_options(p: float, n: int, root: bool, unbiased: bool, given: Mapping[str, Any]) -> None:
    """Raise an error unless the options fit `method="exact"`; `given` are the options for great circles, by name."""
    if p != 2:
        raise ValueError(f"p: got {p:g}, but method='exact' is for p = 2. Pass p=2, or another method.")
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}: got a value, but method='exact' draws no great circles. Leave {name} out.")
    if unbiased and root:
        raise ValueError("root: got True with unbiased=True, whose value may be negative. Leave out one of them.")
    if unbiased and n < 2:
        raise ValueError(f"x: unbiased=True needs at least 2 points, got {n}.")
