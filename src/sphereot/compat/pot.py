"""The spherical and circular distances of POT (package `ot`), with its names, arguments and conventions.

Replace ``from ot import sliced_wasserstein_sphere`` by ``from sphereot.compat.pot import sliced_wasserstein_sphere``.
With an int as seed, the great circles are those of POT, and the values agree up to the error of POT's solvers.
"""

from typing import Any

import numpy as np

from sphereot._arrays.libraries import Array, is_torch, namespace, take_root, to_kind
from sphereot._arrays.types import ArrayLike, Frames, Numbers, Points, Seed
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
        Number of great circles. It is ignored if `projections` is given.
    p : float, default 2
        Order of the distance, between 1 and 16.
    projections : array, shape (L, d, 2), optional
        Great circles to use, as returned by `sphereot.great_circles`.
    seed : int, RandomState, generator or None, default None
        Seed of the great circles. An int gives the great circles of POT.
    log : bool, default False
        Also return a dict with `projections` and `projected_emds`, which is W_p^p on each great circle.
    root : bool, default True
        Return SSW_p. If False, return SSW_p^p.

    Returns
    -------
    array, shape (), or a pair of this array and the dict
        SSW_p in turns, or SSW_p^p if ``root=False``.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot.compat.pot import sliced_wasserstein_sphere
    >>> float(sliced_wasserstein_sphere(np.eye(3), np.eye(3), seed=0))
    0.0
    """
    x, y = as_same_kind(X_s=_read_points("X_s", X_s), X_t=_read_points("X_t", X_t))
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"X_s and X_t must have the same number of coordinates, got {x.shape[-1]} and {y.shape[-1]}.")
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

    See `sliced_wasserstein_sphere` for the parameters and the result. `sphereot.ssw_uniform(x, method="exact")` is the
    mean over all great circles, without drawing any.
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
        Order of the distance, between 1 and 16.
    Lm, Lp, tm, tp, eps, require_sort
        Settings of POT's search, which are ignored: the solution here is exact.

    Returns
    -------
    array, shape (B,)
        W_p^p for each pair of columns, in turns to the power p. B is 1 for a single pair.

    Examples
    --------
    >>> from sphereot.compat.pot import wasserstein_circle
    >>> wasserstein_circle([0.2, 0.5, 0.8], [0.4, 0.5, 0.7]).round(12)
    array([0.1])
    """
    return binary_search_circle(u_values, v_values, u_weights, v_weights, p)


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
    """Compute W_p^p between samples on the circle, as `ot.binary_search_circle`.

    See `wasserstein_circle` for the parameters and the result. With ``log=True``, also return a dict with
    `optimal_theta`, shape (B,): the cut of an optimal matching, which is not unique in general.
    """
    u, v = _read_rows("u_values", u_values), _read_rows("v_values", v_values)
    a, b = _read_weights("u_weights", u_weights), _read_weights("v_weights", v_weights)
    if u.shape[0] != v.shape[0]:
        raise ValueError(
            "u_values and v_values must have the same number of columns, one for each sample, got "
            f"{u.shape[0]} and {v.shape[0]}."
        )
    costs = wasserstein(u, v, p=p, u_weights=a, v_weights=b)
    if not log:
        return costs
    cuts = []
    for k in range(u.shape[0]):
        mass, other = (array[k] if array is not None and array.ndim == 2 else array for array in (a, b))
        cuts.append(transport_plan(u[k], v[k], p=p, u_weights=mass, v_weights=other).cut)
    return costs, {"optimal_theta": namespace(costs).stack(cuts)}


def semidiscrete_wasserstein2_unif_circle(u_values: ArrayLike, u_weights: ArrayLike | None = None) -> Any:
    """Compute W_2^2 to the uniform distribution on the circle, as `ot.semidiscrete_wasserstein2_unif_circle`.

    Parameters
    ----------
    u_values : array, shape (n,) or (n, B)
        Angular positions in turns, modulo 1. Each column is a sample.
    u_weights : array, shape (n,) or (n, B), optional
        Weights, rescaled to sum to 1. If positions are not sorted, POT assigns the weights to the wrong positions.

    Returns
    -------
    array, shape (B,)
        W_2^2 in turns squared.

    Examples
    --------
    >>> from sphereot.compat.pot import semidiscrete_wasserstein2_unif_circle
    >>> semidiscrete_wasserstein2_unif_circle([[0.0], [0.2], [0.4]]).round(8)
    array([0.02111111])
    """
    return wasserstein_uniform(_read_rows("u_values", u_values), weights=_read_weights("u_weights", u_weights))


def _read_rows(name: str, values: ArrayLike) -> Array:
    """Return angular positions in [0, 1) with one sample per row."""
    numbers = as_reals(name, values)
    if numbers.ndim not in (1, 2):
        raise ValueError(
            f"{name} must have shape (n,), or (n, B) with one sample per column, got {tuple(numbers.shape)}."
        )
    return (numbers[None, :] if numbers.ndim == 1 else numbers.T) % 1


def _read_weights(name: str, weights: ArrayLike | None) -> Array | None:
    numbers = None if weights is None else as_reals(name, weights)
    return numbers if numbers is None or numbers.ndim == 1 else numbers.T


def _read_points(name: str, value: Points) -> Array:
    """Scale points to unit length if their squared length is 1 to four digits, as in POT."""
    points = as_vectors(name, value)
    if points.ndim != 2:
        raise ValueError(f"{name} must have shape (n, d), with one point per row, got {tuple(points.shape)}.")
    xp = namespace(points)
    if bool(xp.any(xp.abs(xp.sum(points * points, axis=-1) - 1) > _TOLERANCE)):
        raise ValueError(f"{name} must be unit vectors, got other lengths. Use sphereot.sphere.normalize first.")
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
