"""The spherical and circular distances of POT (package `ot`), with its names, arguments and conventions.

Replace ``from ot import sliced_wasserstein_sphere`` by ``from sphereot.compat.pot import sliced_wasserstein_sphere``.
With an int as seed, the great circles are those of POT, and the values agree up to the error of POT's solvers.
"""

from typing import Any, overload

import numpy as np

from sphereot._arrays.libraries import Array, is_torch, namespace, take_root, to_kind
from sphereot._arrays.types import ArrayLike, ArrayT, Frames, Numbers, Points, Seed
from sphereot._arrays.validation import as_reals, as_same_kind, as_vectors
from sphereot.circle import transport_plan, wasserstein, wasserstein_uniform
from sphereot.distance import ssw, ssw_uniform
from sphereot.slicing import project
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
    """Compute SSW_p between two samples, as `ot.sliced_wasserstein_sphere`.

    Parameters
    ----------
    X_s, X_t : array, shape (n, d) and (m, d)
        Unit vectors. In contrast to POT, tables and other containers of points are accepted too; see
        `sphereot.sphere.from_table`.
    a, b : array, shape (n,) and (m,), optional
        Weights, rescaled to sum to 1. POT does not rescale them.
    n_projections : int, default 50
        Number of great circles, ignored if `projections` is given.
    p : float, default 2
        Order of the distance, at least 1.
    projections : array, shape (n_projections, d, 2), optional
        Frames of the great circles.
    seed : int, RandomState, generator or None, default None
        Seed of the great circles. An int gives the great circles of POT.
    log : bool, default False
        Also return a dict with `projections` and `projected_emds`, which is W_p^p on each great circle.
    root : bool, default True
        Return SSW_p. If False, return SSW_p^p.

    Returns
    -------
    array, shape (), or a pair of this array and the dict

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot.compat.pot import sliced_wasserstein_sphere
    >>> float(sliced_wasserstein_sphere(np.eye(3), np.eye(3), seed=0))
    0.0
    """
    x, y = as_same_kind(X_s=_read_points("X_s", X_s), X_t=_read_points("X_t", X_t))
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"X_s, X_t: points have {x.shape[-1]} and {y.shape[-1]} coordinates; give points of equal dimension."
        )
    frames = _draw_frames(x, n_projections, seed) if projections is None else projections
    if not log:
        return ssw(x, y, p=p, x_weights=a, y_weights=b, projections=frames, root=root)
    costs = wasserstein(project(x, frames), project(y, frames), p=p, u_weights=a, v_weights=b)
    return take_root(namespace(costs).mean(costs), p, root), {"projections": frames, "projected_emds": costs}


def sliced_wasserstein_sphere_unif(
    X_s: Points,
    a: Numbers | None = None,
    n_projections: int = 50,
    projections: Frames | None = None,
    seed: "Seed | np.random.RandomState" = None,
    log: bool = False,
    root: bool = True,
) -> Any:
    """Compute SSW_2 between a sample and the uniform distribution, as `ot.sliced_wasserstein_sphere_unif`.

    The parameters are those of `sliced_wasserstein_sphere`. `sphereot.ssw_uniform(x, method="exact")` is the mean over
    all great circles, without drawing any.
    """
    x = _read_points("X_s", X_s)
    frames = _draw_frames(x, n_projections, seed) if projections is None else projections
    if not log:
        return ssw_uniform(x, weights=a, projections=frames, root=root)
    costs = wasserstein_uniform(project(x, frames), weights=a)
    return take_root(namespace(costs).mean(costs), 2, root), {"projections": frames, "projected_emds": costs}


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
    """Compute W_p^p between samples on the circle, as `ot.wasserstein_circle`.

    Parameters
    ----------
    u_values, v_values : array, shape (n,) or (n, B), and (m,) or (m, B)
        Angular positions in turns, modulo 1. Each column is a sample.
    u_weights, v_weights : array, shape (n,) or (n, B), and (m,) or (m, B), optional
        Weights, rescaled to sum to 1. POT does not rescale them.
    p : float, default 1
        Order of the distance, at least 1.
    Lm, Lp, tm, tp, eps, require_sort
        Ignored. They are settings of POT's search; the solution here is exact.

    Returns
    -------
    array, shape (B,)
        W_p^p for each pair of columns. B is 1 for a single pair.

    Examples
    --------
    >>> from sphereot.compat.pot import wasserstein_circle
    >>> wasserstein_circle([0.2, 0.5, 0.8], [0.4, 0.5, 0.7]).round(12)
    array([0.1])
    """
    u, v, a, b = _read_samples(u_values, v_values, u_weights, v_weights)
    return wasserstein(u, v, p=p, u_weights=a, v_weights=b)


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
    """Compute W_p^p between samples on the circle, as `ot.binary_search_circle`: `wasserstein_circle` with a log.

    With `log`, also return a dict with `optimal_theta`, shape (B,): the cut of an optimal matching, which is not unique
    in general.
    """
    u, v, a, b = _read_samples(u_values, v_values, u_weights, v_weights)
    costs = wasserstein(u, v, p=p, u_weights=a, v_weights=b)
    if not log:
        return costs
    cuts = []
    for k in range(u.shape[0]):
        weights = [None if array is None else array[k] if array.ndim == 2 else array for array in (a, b)]
        cuts.append(transport_plan(u[k], v[k], p=p, u_weights=weights[0], v_weights=weights[1]).cut)
    return costs, {"optimal_theta": namespace(costs).stack(cuts)}


@overload
def semidiscrete_wasserstein2_unif_circle(u_values: ArrayT, u_weights: ArrayLike | None = ...) -> ArrayT: ...


@overload
def semidiscrete_wasserstein2_unif_circle(u_values: ArrayLike, u_weights: ArrayLike | None = ...) -> Any: ...


def semidiscrete_wasserstein2_unif_circle(u_values: ArrayLike, u_weights: ArrayLike | None = None) -> Any:
    """Compute W_2^2 to the uniform distribution on the circle, as `ot.semidiscrete_wasserstein2_unif_circle`.

    Parameters
    ----------
    u_values : array, shape (n,) or (n, B)
        Angular positions in turns, modulo 1. Each column is a sample.
    u_weights : array, shape (n,) or (n, B), optional
        Weights. POT sorts the positions but not their weights, and returns wrong values for weighted positions that are
        not sorted.

    Returns
    -------
    array, shape (B,)

    Examples
    --------
    >>> from sphereot.compat.pot import semidiscrete_wasserstein2_unif_circle
    >>> semidiscrete_wasserstein2_unif_circle([[0.0], [0.2], [0.4]]).round(8)
    array([0.02111111])
    """
    return wasserstein_uniform(_read_rows("u_values", u_values), weights=_read_weights("u_weights", u_weights))


def _read_samples(
    u: ArrayLike, v: ArrayLike, a: ArrayLike | None, b: ArrayLike | None
) -> tuple[Array, Array, Array | None, Array | None]:
    """Positions and weights with one sample per row."""
    first, second = _read_rows("u_values", u), _read_rows("v_values", v)
    if first.shape[0] != second.shape[0]:
        raise ValueError(
            f"u_values, v_values: there are {first.shape[0]} and {second.shape[0]} measures, one per column; give both "
            "the same number of columns."
        )
    return first, second, _read_weights("u_weights", a), _read_weights("v_weights", b)


def _read_rows(name: str, values: ArrayLike) -> Array:
    numbers = as_reals(name, values)
    if numbers.ndim not in (1, 2):
        raise ValueError(f"{name}: shape is {tuple(numbers.shape)}, but one measure per column needs (n,) or (n, B).")
    return (numbers[None, :] if numbers.ndim == 1 else numbers.T) % 1


def _read_weights(name: str, weights: ArrayLike | None) -> Array | None:
    numbers = None if weights is None else as_reals(name, weights)
    return numbers if numbers is None or numbers.ndim == 1 else numbers.T


def _read_points(name: str, value: Points) -> Array:
    """Points whose squared length is 1 to four digits, as in POT, scaled to unit length."""
    points = as_vectors(name, value)
    if points.ndim != 2:
        raise ValueError(f"{name}: shape is {tuple(points.shape)}, but points are rows of an array of shape (n, d).")
    xp = namespace(points)
    if bool(xp.any(xp.abs(xp.sum(points * points, axis=-1) - 1) > _TOLERANCE)):
        raise ValueError(f"{name}: the points are not on the sphere; scale them to unit length first.")
    return normalize(points)


def _draw_frames(points: Array, count: int, seed: Any) -> Array:
    """Draw great circles as POT does: by the QR decomposition of normal numbers of the array library."""
    shape = (count, int(points.shape[-1]), 2)
    if is_torch(points):
        import torch

        generator = seed if isinstance(seed, torch.Generator) else torch.Generator(device=points.device)
        if seed is None:
            generator.seed()
        elif seed is not generator:
            generator.manual_seed(int(seed))
        normals = torch.randn(shape, generator=generator, dtype=points.dtype, device=points.device)
        return torch.linalg.qr(normals)[0]
    source = seed if isinstance(seed, np.random.RandomState | np.random.Generator) else np.random.RandomState(seed)
    return to_kind(np.linalg.qr(source.standard_normal(shape))[0], points)
