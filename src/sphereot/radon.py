"""Spherical Radon transform, its dual, and the hemispherical transform (Section 3.3 and its appendix).

The Radon transform of a density is the density of its projections on great circles, and SSW compares such densities
(Proposition 3). At the position z on the great circle of U, it integrates over all points that project there: half of a
great subsphere around Uz (Proposition 6). Functions on the sphere are Python functions of unit vectors, and integrals
are Gauss rules on the half subsphere.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, namespace, to_kind
from sphereot._arrays.types import ArrayT, Frames, NumpyArrayLike, NumpyPoints, ResultT, Seed, SupportsDLPack
from sphereot._arrays.validation import as_frames, as_int, as_points, as_slice_count, as_turns, require_same_kind
from sphereot.slicing import great_circles, project
from sphereot.sphere.maps import log_area

__all__ = ["IntegrationSet", "dual_radon_transform", "hemispherical_transform", "integration_set", "radon_transform"]

_HIGHEST_PRODUCT_DIM = 5  # of the half sphere: the Radon transform of S^5 integrates over halves of S^4
_NODES = {4: 40, 5: 16}  # by dimension of the half sphere, so that a product rule has at most 131,072 nodes; else 48
_COORDINATES_PER_CALL = 1 << 22  # of the function: 32 MB


def radon_transform(
    f: Callable[[Any], SupportsDLPack],
    projections: Frames,
    turns: ArrayT | NumpyArrayLike,
    *,
    n_nodes: int | None = None,
    n_directions: int = 2048,
    seed: Seed = 0,
) -> ArrayT:
    """Compute the spherical Radon transform: integrals of a function over points with the same projection.

    Parameters
    ----------
    f : function of an array of unit vectors, shape (..., d) -> (...)
        A density with respect to the surface measure of S^{d-1}, or any other function.
    projections : array, shape (L, d, 2)
        Orthonormal frames U of the great circles, as returned by `sphereot.great_circles`.
    turns : array, shape (n,) or (L, n)
        Positions z on the great circles, in turns: the same for all great circles, or separate ones for each.
    n_nodes : int, optional
        Number of Gauss nodes in each angle of the half subsphere; the last angle has twice this number. For d up to 6,
        polynomials of degree up to 2 n_nodes - 1 are integrated exactly. The default is 40 for d = 5, 16 for d = 6, and
        else 48.
    n_directions, seed : int, default 2048; int, generator or None, default 0
        For d of 7 or more: the smallest number of directions orthogonal to the great circle, and the seed of their
        random rotations. See Notes.

    Returns
    -------
    array, shape (L, n)
        For a density f, the density of its projection with respect to turns: 1 if f is uniform. Divide by 2 pi for
        densities in radians.

    Notes
    -----
    The transform is

        R f(z, U) = 2 pi int f(x) <x, Uz> dx   over   {x in S^{d-1} : P^U(x) = z},

    with the surface measure of the half great subsphere. The paper's equation has an integral over S^{d-1} with an
    indicator, whose support has measure zero. Its Propositions 2 and 3 need the disintegration of the surface measure
    along P^U. This requires the weight <x, Uz> = |U^T x|, the inverse of the length of the gradient of the projection
    (coarea formula). The factor 2 pi is for turns.

    The transform of an even function has period half a turn; the transform of an odd function changes sign after half a
    turn. A continuous function with transform 0 is 0. Proof: fix a hyperplane F and let e = Uz vary over its
    directions. The even part of f on F has cosine transform 0, so it is 0, and f is odd. Then the integrals of f(x) x
    over all great subspheres vanish. The Minkowski-Funk transform is injective on even functions, so every f(x) x_i is
    0. The kernel in Proposition 4 therefore contains no continuous density. Its condition "null over all hyperplanes"
    concerns the density on each hyperplane, because every measure with a density is null there.

    For d of 7 or more, a product rule would have too many nodes. The polar angle keeps its Gauss rule. The directions
    orthogonal to the great circle are the axes of randomly rotated orthonormal bases. They integrate polynomials of
    degree 3 exactly and other functions without bias, with an error that falls like 1 / sqrt(n_directions). For von
    Mises-Fisher densities and 2048 directions, the median error relative to the peak is about 1e-5 for kappa = 1 and
    0.03 for kappa = 10 (``python -m benchmarks.radon``). For concentrated densities in high dimensions, project a
    sample instead. Up to d = 5, the error is below 1e-12 for kappa up to 100.
    `sphereot.distributions.projected_von_mises_fisher_density` is the transform of these densities in any dimension.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot.radon import radon_transform
    >>> equator = np.eye(3)[None, :, :2]
    >>> turns = np.array([0.0, 0.25, 0.5])
    >>> radon_transform(lambda x: np.full(x.shape[:-1], 1 / (4 * np.pi)), equator, turns).round(12)
    array([[1., 1., 1.]])
    >>> radon_transform(lambda x: x[..., 0] ** 2, equator, turns).round(12) / (4 * np.pi)
    array([[0.66666667, 0.        , 0.66666667]])
    """
    given = as_turns("turns", turns)
    frames = _as_frames("projections", projections, given)
    count, dim, _ = frames.shape
    if given.ndim > 2 or (given.ndim == 2 and given.shape[0] != count):
        raise ValueError(
            f"turns must have shape (n,) or ({count}, n) for {count} projections, got {tuple(given.shape)}."
        )
    rule = _rule(dim - 1, 1, n_nodes, n_directions, seed)
    xp = namespace(given)
    sides = _complement(frames)
    each = xp.broadcast_to(given, (count, given.shape[-1]))
    poles = [_on_circle(frames[i, :, :], each[i, :]) for i in range(count)]
    transform: ArrayT = 2.0 * math.pi * xp.stack([_integrals(f, poles[i], sides[i, :, :], rule) for i in range(count)])
    return transform


def dual_radon_transform(
    g: Callable[[Any, Any], SupportsDLPack],
    x: ArrayT | NumpyPoints,
    *,
    n_projections: int | None = None,
    projections: Frames | None = None,
    seed: Seed = None,
) -> ArrayT:
    """Compute the dual Radon transform (back-projection): the mean of a function over the projections of a point.

    Parameters
    ----------
    g : function of turns, shape (L, n), and frames, shape (L, d, 2), to values, shape (L, n)
        A function g(z, U) on the circle times V_{d,2}.
    x : array, shape (n, d)
        Unit vectors.
    n_projections, projections, seed
        Great circles and their seed, as in `sphereot.ssw`; drawn independently by default.

    Returns
    -------
    array, shape (n,)
        R* g(x), the mean of g(P^U(x), U) over the great circles.

    Notes
    -----
    R* is the dual of the Radon transform (Proposition 2): the mean over U of the integral of R f(z, U) g(z, U) over one
    turn equals the integral of f(x) R* g(x) over the sphere. This holds for each great circle, and so for the mean over
    any set of great circles.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot.radon import dual_radon_transform
    >>> equator = np.eye(3)[None, :, :2]
    >>> x = np.array([[0.6, 0.0, 0.8], [0.0, -1.0, 0.0]])
    >>> dual_radon_transform(lambda turns, frames: np.cos(2 * np.pi * turns), x, projections=equator).round(12)
    array([ 1., -0.])
    """
    points = as_points("x", x)
    if projections is None:
        frames = great_circles(as_slice_count(n_projections), points.shape[1], seed=seed, like=points)
    else:
        frames = as_frames(projections, points)
        as_slice_count(n_projections, frames)
    turns = project(points, frames)
    means: ArrayT = namespace(points).mean(_check_shape("g", g(turns, frames), tuple(turns.shape)), axis=0)
    return means


def hemispherical_transform(
    f: Callable[[Any], SupportsDLPack],
    directions: ArrayT | NumpyPoints,
    *,
    n_nodes: int | None = None,
    n_directions: int = 2048,
    seed: Seed = 0,
) -> ArrayT:
    """Compute the hemispherical transform: integrals of a function over hemispheres.

    Parameters
    ----------
    f : function of an array of unit vectors, shape (..., d) -> (...)
        Integrated with respect to the surface measure of S^{d-1}.
    directions : array, shape (n, d)
        Unit vectors: the centers of the hemispheres.
    n_nodes, n_directions, seed
        Integration rule, as in `radon_transform`; the product rule is used up to d = 5.

    Returns
    -------
    array, shape (n,)
        H f(x), the integral of f(y) over {y : <x, y> > 0}.

    Notes
    -----
    The Radon transform is a weighted hemispherical transform one dimension below (Proposition 7): with an orthonormal
    basis B, shape (d, d-1), of the hyperplane F of Proposition 6,

        R f(z, U) = 2 pi H[y -> f(By) <y, B^T Uz>](B^T Uz)   on S^{d-2}.

    The paper prints it without the weight, like R. For an even function, H f is half of its total integral in every
    direction (Rubin, 1999). So H does not distinguish even functions of the same total, but R does.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot.radon import hemispherical_transform
    >>> hemispherical_transform(lambda y: 1 + y[..., 2], np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])) / np.pi
    array([3., 2.])
    """
    centers = as_points("directions", directions)
    rule = _rule(centers.shape[1], 0, n_nodes, n_directions, seed)
    sides = _complement(centers[:, :, None])
    each = [_integrals(f, centers[i : i + 1, :], sides[i, :, :], rule) for i in range(centers.shape[0])]
    transform: ArrayT = namespace(centers).concat(each)
    return transform


@dataclass(frozen=True)
class IntegrationSet(Generic[ResultT]):
    """Nodes and weights of an integration rule on half of a sphere or great subsphere.

    Attributes
    ----------
    points : array, shape (N, d)
        Unit vectors.
    weights : array, shape (N,)
        The integral of f is the sum of weights * f(points).
    """

    points: ResultT
    weights: ResultT


def integration_set(
    frame: ArrayT | Sequence[Sequence[float]],
    turn: float,
    *,
    n_nodes: int | None = None,
    n_directions: int = 2048,
    seed: Seed = 0,
) -> IntegrationSet[ArrayT]:
    """Return the integration rule on the half great subsphere {x : P^U(x) = z} of the Radon transform (Proposition 6).

    Parameters
    ----------
    frame : array, shape (d, 2)
        Orthonormal frame U.
    turn : float
        Position z on the great circle, in turns.
    n_nodes, n_directions, seed
        Integration rule, as in `radon_transform`.

    Returns
    -------
    IntegrationSet
        Points and weights.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot.radon import integration_set
    >>> half_circle = integration_set(np.eye(3)[:, :2], 0.25, n_nodes=2)  # around (0, 1, 0), from pole to pole
    >>> half_circle.points.round(2)
    array([[ 0.  ,  0.4 ,  0.92],
           [ 0.  ,  0.4 , -0.92],
           [ 0.  ,  0.91,  0.4 ],
           [ 0.  ,  0.91, -0.4 ]])
    >>> bool(np.isclose(np.sum(half_circle.weights), 4 * np.pi))  # the area of the sphere, for turns
    True
    """
    frames = _as_frames("frame", frame, None)
    rule = _rule(frames.shape[1] - 1, 1, n_nodes, n_directions, seed)
    pole = _on_circle(frames[0, :, :], to_kind(as_turns("turn", [float(turn)]), frames))
    points = _nodes_around(rule, pole, _complement(frames)[0, :, :])[0, :, :]
    return IntegrationSet(points, 2.0 * math.pi * to_kind(rule.weights, frames))


def _integrals(f: Callable[[Array], Array], poles: Array, sides: Array, rule: IntegrationSet) -> Array:
    """Integrals of f around each of the poles, (n, d); the columns of `sides`, (d, m - 1), are orthogonal to all."""
    xp = namespace(poles)
    weights = to_kind(rule.weights, poles)
    step = max(1, _COORDINATES_PER_CALL // (rule.weights.size * poles.shape[1]))
    integrals = []
    for start in range(0, poles.shape[0], step):
        points = _nodes_around(rule, poles[start : min(start + step, poles.shape[0]), :], sides)
        integrals.append(xp.sum(_check_shape("f", f(points), tuple(points.shape[:-1])) * weights, axis=-1))
    return xp.concat(integrals)


def _nodes_around(rule: IntegrationSet, poles: Array, sides: Array) -> Array:
    """Nodes of a rule around the first axis of R^m, moved to each of the poles: shape (n, N, d)."""
    xp = namespace(poles)
    heights, offsets = to_kind(rule.points[:, :1], poles), to_kind(rule.points[:, 1:], poles)
    return heights * poles[:, None, :] + xp.matmul(offsets, xp.matrix_transpose(sides))


def _rule(dim: int, moment: int, n_nodes: int | None, n_directions: int, seed: Any) -> IntegrationSet:
    """Rule for y_1^moment times the surface measure on the half y_1 > 0 of S^{dim-1}."""
    n_nodes = as_int("n_nodes", _NODES.get(dim, 48) if n_nodes is None else n_nodes, 1, "the number of nodes")
    n_directions = as_int("n_directions", n_directions, 1, "the number of directions")
    if dim == 1:  # On the circle S^1 one point projects to each turn: itself.
        return IntegrationSet(np.ones((1, 1)), np.ones(1))
    heights, polar_weights = _gauss_in_cosine(n_nodes, moment, dim - 2, math.pi / 2)
    if dim <= _HIGHEST_PRODUCT_DIM:
        directions, direction_weights = _product_rule(dim - 1, n_nodes)
    else:
        # Axes, in both directions, of randomly rotated orthonormal bases: at least `n_directions` nodes on S^{dim-2}.
        block = (dim - 1) // 2 if dim % 2 == 1 else dim - 1  # planes per orthogonal block, to have complete bases
        planes = block * -(-n_directions // (4 * block))
        frames = great_circles(planes, dim - 1, method="orthogonal", seed=seed)
        axes = np.moveaxis(frames, 1, 2).reshape(-1, dim - 1)
        directions = np.concatenate([axes, -axes])
        direction_weights = np.full(2 * len(axes), math.exp(log_area(dim - 1)) / (2 * len(axes)))
    return IntegrationSet(_cones(heights, directions), np.outer(polar_weights, direction_weights).reshape(-1))


def _product_rule(dim: int, n_nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights on S^{dim-1}, exact for polynomials of degree up to 2 n_nodes - 1."""
    if dim == 1:
        return np.array([[1.0], [-1.0]]), np.ones(2)
    if dim == 2:
        angle = np.pi * np.arange(2 * n_nodes) / n_nodes
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1), np.full(2 * n_nodes, np.pi / n_nodes)
    heights, weights = _gauss_in_cosine(n_nodes, 0, dim - 2, math.pi)
    around, around_weights = _product_rule(dim - 1, n_nodes)
    return _cones(heights, around), np.outer(weights, around_weights).reshape(-1)


def _cones(heights: NDArray[np.float64], directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vectors for all pairs of a height along the first axis and a direction orthogonal to it."""
    lengths = np.sqrt(1.0 - heights**2)
    orthogonal = np.multiply.outer(lengths, directions).reshape(-1, directions.shape[1])
    return np.concatenate([np.repeat(heights, len(directions))[:, None], orthogonal], axis=1)


@lru_cache(maxsize=64)
def _gauss_in_cosine(n: int, moment: int, power: int, end: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gauss rule in r = cos(phi) for the weight r^moment sin(phi)^power dphi on 0 < phi < end.

    The Lanczos process on a fine rule in phi gives the recurrence of the orthogonal polynomials, and the eigenvalues
    of its matrix the nodes and weights (Golub and Welsch, 1969). In phi the weight is smooth for every power.
    """
    phi, fine = np.polynomial.legendre.leggauss(2 * n + 200)
    phi, fine = (phi + 1) * end / 2, fine * end / 2
    fine = fine * np.cos(phi) ** moment * np.sin(phi) ** power
    total = np.sum(fine)
    basis = [np.sqrt(fine / total)]
    diagonal, off_diagonal = np.empty(n), np.empty(n)
    for k in range(n):
        following = np.cos(phi) * basis[k]
        diagonal[k] = basis[k] @ following
        for _ in range(2):  # twice, to be orthogonal to rounding
            previous = np.asarray(basis)
            following = following - (previous @ following) @ previous
        off_diagonal[k] = np.linalg.norm(following)
        basis.append(following / off_diagonal[k])
    matrix = np.diag(diagonal) + np.diag(off_diagonal[: n - 1], 1) + np.diag(off_diagonal[: n - 1], -1)
    nodes, vectors = np.linalg.eigh(matrix)
    return nodes, total * vectors[0] ** 2


def _on_circle(frame: Array, turns: Array) -> Array:
    """Points Uz of the great circle at the turns, shape (n, d)."""
    xp = namespace(frame)
    angle = 2.0 * math.pi * (turns - xp.floor(turns))
    return xp.matmul(xp.stack([xp.cos(angle), xp.sin(angle)], axis=-1), xp.matrix_transpose(frame))


def _complement(frames: Array) -> Array:
    """Orthonormal bases, shape (L, d, d - k), of the orthogonal complements of the frames (L, d, k)."""
    q, _ = namespace(frames).linalg.qr(frames, mode="complete")
    return q[:, :, frames.shape[2] :]


def _as_frames(name: str, value: Any, like: Array | None) -> Array:
    """Frames (L, d, 2), or one as (1, d, 2) if the argument is a `frame`."""
    array = np.asarray(value) if isinstance(value, list | tuple) else value
    shape = tuple(np.shape(array))
    expected = "(L, d, 2)" if name == "projections" else "(d, 2)"
    if len(shape) != expected.count(",") + 1 or shape[-1] != 2 or 0 in shape or shape[-2] < 2:
        raise ValueError(f"{name} must have shape {expected} with d at least 2, got {shape}.")
    array = array if len(shape) == 3 else array[None, :, :]
    if like is not None:
        require_same_kind(**{"turns": like, name: array})
    frames = as_frames(array, array[:, :, 0], name)
    return frames if like is None else namespace(frames).astype(frames, like.dtype, copy=False)


def _check_shape(name: str, values: Any, expected: tuple[int, ...]) -> Array:
    """Values of the function `name`, of the expected shape."""
    shape = tuple(np.shape(values))
    if shape != expected:
        raise ValueError(f"{name} must return values of shape {expected}, got {shape}.")
    return values
