"""The spherical and circular distances of POT (package `ot`), with its names, arguments and conventions.

Replace ``from ot import sliced_wasserstein_sphere`` by ``from sphereot.compat.pot import sliced_wasserstein_sphere``.
An int seed draws the great circles that POT draws from it, so that values agree up to what POT does not solve exactly.
"""

from typing import Any, overload

import numpy as np

from sphereot import circle
from sphereot._arrays.libraries import Array, is_torch, namespace, to_kind
from sphereot._arrays.types import ArrayLike, ArrayT, Frames, Numbers, Points, Seed
from sphereot._arrays.validation import as_reals, as_same_kind, as_vectors
from sphereot.distance import ssw, ssw_uniform
from sphereot.slicing.circles import project
from sphereot.sphere import normalize

__all__ = [
    "binary_search_circle",
    "semidiscrete_wasserstein2_unif_circle",
    "sliced_wasserstein_sphere",
    "sliced_wasserstein_sphere_unif",
    "wasserstein_circle",
]

_TOLERANCE = 1e-4  # of squared lengths, as in POT


def sliced_wasserstein_sphere(
    X_s: Points,
    X_t: Points,
    a: Numbers | None = None,
    b: Numbers | None = None,
    n_projections: int = 50,
    p: float = 2,
    projections: Frames | None = None,
    seed: "Seed | np.random.RandomState" = None,
    log: bool = False,
    root: bool = True,
) -> Any:
    """SSW_p between two samples, as `ot.sliced_wasserstein_sphere`.

    Parameters
    ----------
    X_s, X_t : array, shape (n, d) and (m, d)
        Unit vectors. Unlike POT, tables and other containers of points are read too; see `sphereot.sphere.from_table`.
    a, b : array, shape (n,) and (m,), optional
        Weights, scaled to a total of 1. POT does not scale them.
    n_projections : int
        Number of great circles; not used if `projections` is given.
    p : float
        Order, from 1 on.
    projections : array, shape (n_projections, d, 2), optional
        Frames of the great circles.
    seed : int, RandomState, generator or None
        Source of the great circles. An int gives those of POT.
    log : bool
        Also return a dict with `projections` and `projected_emds`, W_p^p on each great circle.
    root : bool
        Return SSW_p; SSW_p^p if False.

    Returns
    -------
    array, shape (), or a pair of it and the dict

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot.compat.pot import sliced_wasserstein_sphere
    >>> x = np.random.default_rng(0).normal(size=(20, 5))
    >>> x /= np.linalg.norm(x, axis=1, keepdims=True)
    >>> float(sliced_wasserstein_sphere(x, x, seed=0))
    0.0
    """
    first, second = as_same_kind(X_s=_rows_of_points("X_s", X_s), X_t=_rows_of_points("X_t", X_t))
    if first.shape[-1] != second.shape[-1]:
        raise ValueError(f"X_s, X_t: points have {first.shape[-1]} and {second.shape[-1]} coordinates; give as many.")
    x, y = _on_the_sphere("X_s", first), _on_the_sphere("X_t", second)
    frames = _frames(x, n_projections, seed) if projections is None else projections
    if not log:
        return ssw(x, y, p=p, x_weights=a, y_weights=b, projections=frames, root=root)
    costs = circle.wasserstein(project(x, frames), project(y, frames), p=p, u_weights=a, v_weights=b)
    return _rooted_mean(costs, p, root), {"projections": frames, "projected_emds": costs}


def sliced_wasserstein_sphere_unif(
    X_s: Points,
    a: Numbers | None = None,
    n_projections: int = 50,
    projections: Frames | None = None,
    seed: "Seed | np.random.RandomState" = None,
    log: bool = False,
    root: bool = True,
) -> Any:
    """SSW_2 between a sample and the uniform distribution, as `ot.sliced_wasserstein_sphere_unif`.

    Parameters are those of `sliced_wasserstein_sphere`. `sphereot.ssw_uniform(x, method="exact")` is the mean over all
    great circles, without drawing any.
    """
    x = _on_the_sphere("X_s", _rows_of_points("X_s", X_s))
    frames = _frames(x, n_projections, seed) if projections is None else projections
    if not log:
        return ssw_uniform(x, weights=a, projections=frames, root=root)
    costs = circle.wasserstein_uniform(project(x, frames), weights=a)
    return _rooted_mean(costs, 2, root), {"projections": frames, "projected_emds": costs}


@overload
def wasserstein_circle(
    u_values: ArrayT,
    v_values: ArrayT,
    u_weights: ArrayLike | None = ...,
    v_weights: ArrayLike | None = ...,
    p: float = ...,
    Lm: float = ...,
    Lp: float = ...,
    tm: float = ...,
    tp: float = ...,
    eps: float = ...,
    require_sort: bool = ...,
) -> ArrayT: ...


@overload
def wasserstein_circle(
    u_values: ArrayLike,
    v_values: ArrayLike,
    u_weights: ArrayLike | None = ...,
    v_weights: ArrayLike | None = ...,
    p: float = ...,
    Lm: float = ...,
    Lp: float = ...,
    tm: float = ...,
    tp: float = ...,
    eps: float = ...,
    require_sort: bool = ...,
) -> Any: ...


def wasserstein_circle(
    u_values: ArrayLike,
    v_values: ArrayLike,
    u_weights: ArrayLike | None = None,
    v_weights: ArrayLike | None = None,
    p: float = 1,
    Lm: float = 10,
    Lp: float = 10,
    tm: float = -1,
    tp: float = 1,
    eps: float = 1e-6,
    require_sort: bool = True,
) -> Any:
    """W_p^p between measures on the circle, as `ot.wasserstein_circle`.

    Parameters
    ----------
    u_values, v_values : array, shape (n,) or (n, B), and (m,) or (m, B)
        Positions in turns, one pair of measures per column; taken modulo 1.
    u_weights, v_weights : array, shape (n,) or (n, B), and (m,) or (m, B), optional
        Weights, scaled to a total of 1. POT does not scale them.
    p : float
        Order, from 1 on.
    Lm, Lp, tm, tp, eps, require_sort
        Settings of POT's search; the solution here is exact, and they are not used.

    Returns
    -------
    array, shape (B,)
        W_p^p; B is 1 for one pair.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot.compat.pot import wasserstein_circle
    >>> wasserstein_circle(np.array([0.2, 0.5, 0.8]), np.array([0.4, 0.5, 0.7])).round(12)
    array([0.1])
    """
    u, v, a, b = _batches(u_values, v_values, u_weights, v_weights)
    return circle.wasserstein(u, v, p=p, u_weights=a, v_weights=b)


def binary_search_circle(
    u_values: ArrayLike,
    v_values: ArrayLike,
    u_weights: ArrayLike | None = None,
    v_weights: ArrayLike | None = None,
    p: float = 1,
    Lm: float = 10,
    Lp: float = 10,
    tm: float = -1,
    tp: float = 1,
    eps: float = 1e-6,
    require_sort: bool = True,
    log: bool = False,
) -> Any:
    """W_p^p between measures on the circle, as `ot.binary_search_circle`: `wasserstein_circle` with a log.

    With `log`, also a dict with `optimal_theta`, shape (B,): the cut of an optimal matching. It is not unique in
    general.
    """
    u, v, a, b = _batches(u_values, v_values, u_weights, v_weights)
    costs = circle.wasserstein(u, v, p=p, u_weights=a, v_weights=b)
    if not log:
        return costs
    cuts = []
    for k in range(u.shape[0]):
        weights = [None if array is None else array[k] if array.ndim == 2 else array for array in (a, b)]
        cuts.append(circle.transport_plan(u[k], v[k], p=p, u_weights=weights[0], v_weights=weights[1]).cut)
    return costs, {"optimal_theta": namespace(costs).stack(cuts)}


@overload
def semidiscrete_wasserstein2_unif_circle(u_values: ArrayT, u_weights: ArrayLike | None = ...) -> ArrayT: ...


@overload
def semidiscrete_wasserstein2_unif_circle(u_values: ArrayLike, u_weights: ArrayLike | None = ...) -> Any: ...


def semidiscrete_wasserstein2_unif_circle(u_values: ArrayLike, u_weights: ArrayLike | None = None) -> Any:
    """W_2^2 between measures on the circle and the uniform one, as `ot.semidiscrete_wasserstein2_unif_circle`.

    Parameters
    ----------
    u_values : array, shape (n,) or (n, B)
        Positions in turns, one measure per column; taken modulo 1.
    u_weights : array, shape (n,) or (n, B), optional
        Weights. POT sorts the positions but not their weights, so that its value is wrong for weighted positions that
        are not in order.

    Returns
    -------
    array, shape (B,)

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot.compat.pot import semidiscrete_wasserstein2_unif_circle
    >>> semidiscrete_wasserstein2_unif_circle(np.array([[0.0], [0.2], [0.4]])).round(8)
    array([0.02111111])
    """
    return circle.wasserstein_uniform(_rows("u_values", u_values), weights=_rows_of_weights("u_weights", u_weights))


def _batches(
    u: ArrayLike, v: ArrayLike, a: ArrayLike | None, b: ArrayLike | None
) -> tuple[Array, Array, Array | None, Array | None]:
    """Positions and weights with one measure per row."""
    first, second = _rows("u_values", u), _rows("v_values", v)
    if first.shape[0] != second.shape[0]:
        raise ValueError(
            f"u_values, v_values: there are {first.shape[0]} and {second.shape[0]} measures, one per column; give as "
            "many."
        )
    return first, second, _rows_of_weights("u_weights", a), _rows_of_weights("v_weights", b)


def _rows(name: str, values: ArrayLike) -> Array:
    numbers = as_reals(name, values)
    if numbers.ndim not in (1, 2):
        raise ValueError(f"{name}: shape is {tuple(numbers.shape)}, but one measure per column needs (n,) or (n, B).")
    return (numbers[None, :] if numbers.ndim == 1 else numbers.T) % 1


def _rows_of_weights(name: str, weights: ArrayLike | None) -> Array | None:
    numbers = None if weights is None else as_reals(name, weights)
    return numbers if numbers is None or numbers.ndim == 1 else numbers.T


def _rows_of_points(name: str, value: Points) -> Array:
    points = as_vectors(name, value)
    if points.ndim != 2:
        raise ValueError(f"{name}: shape is {tuple(points.shape)}, but points are rows of an array of shape (n, d).")
    return points


def _on_the_sphere(name: str, points: Array) -> Array:
    """Points whose squared length is 1 to four digits, as POT takes them, scaled to unit length."""
    xp = namespace(points)
    if bool(xp.any(xp.abs(xp.sum(points * points, axis=-1) - 1) > _TOLERANCE)):
        raise ValueError(f"{name}: the points are not on the sphere; scale them to unit length first.")
    return normalize(points)


def _frames(points: Array, count: int, seed: Any) -> Array:
    """Great circles as POT draws them: the QR decomposition of normal numbers from its source for the library."""
    shape = (count, int(points.shape[-1]), 2)
    if is_torch(points):
        import torch

        generator = seed
        if not isinstance(seed, torch.Generator):
            generator = torch.Generator(device=points.device)
            if seed is None:
                generator.seed()
            else:
                generator.manual_seed(int(seed))
        normals = torch.randn(shape, generator=generator, dtype=points.dtype, device=points.device)
        return torch.linalg.qr(normals)[0]
    source = seed if isinstance(seed, np.random.RandomState | np.random.Generator) else np.random.RandomState(seed)
    return to_kind(np.linalg.qr(source.standard_normal(shape))[0], points)


def _rooted_mean(costs: Array, p: float, root: bool) -> Array:
    mean = namespace(costs).mean(costs)
    return mean ** (1 / p) if root else mean
