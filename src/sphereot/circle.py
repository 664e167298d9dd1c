"""Exact optimal transport on the circle R/Z (Section 3.1).

The circle is measured in turns: coordinates in [0, 1), any real number taken modulo 1, and the distance of two points
is min(|a - b|, 1 - |a - b|). "Exact" means the true minimum up to rounding: there is no epsilon and no iteration limit.
"""

from dataclasses import dataclass
from typing import Any, Generic, overload

from sphereot._arrays.libraries import Array, device, namespace
from sphereot._arrays.types import ArrayLike, ArrayT, NumpyArrayLike, ResultT, ScalarT
from sphereot._arrays.validation import as_circle_weights, as_order, as_same_kind, as_turns, in_precision_of_order
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure

__all__ = ["CirclePlan", "transport_plan", "wasserstein", "wasserstein_uniform"]


# NumPy gives a number for one circle and an array for several.
@overload
def wasserstein(
    u: NumpyArrayLike,
    v: ArrayLike,
    *,
    p: float = ...,
    u_weights: ArrayLike | None = ...,
    v_weights: ArrayLike | None = ...,
) -> Any: ...


@overload
def wasserstein(
    u: ArrayT,
    v: ArrayLike,
    *,
    p: float = ...,
    u_weights: ArrayLike | None = ...,
    v_weights: ArrayLike | None = ...,
) -> ArrayT: ...


def wasserstein(
    u: ArrayLike, v: ArrayLike, *, p: float = 2, u_weights: ArrayLike | None = None, v_weights: ArrayLike | None = None
) -> Any:
    """W_p^p between discrete measures on the circle.

    Parameters
    ----------
    u : array, shape (..., n)
        Atoms of the first measure, in turns.
    v : array, shape (..., m)
        Atoms of the second measure, in turns. Leading dimensions of `u` and `v` broadcast.
    p : float
        Order, from 1 to 16. Above 4 the computation and the result are in float64.
    u_weights, v_weights : array, shape (n,) or (..., n), and (m,) or (..., m), optional
        Nonnegative weights, scaled to a total of 1; equal weights by default.

    Returns
    -------
    array, shape (...,)
        W_p^p (not rooted), in turns to the power p.

    See Also
    --------
    transport_plan : which atom goes where.
    wasserstein_uniform : against the uniform measure.

    Notes
    -----
    W_p^p is the minimum over the cut alpha of the integral of |F^-1(t) - G^-1(t + alpha)|^p, which is convex and
    piecewise affine, so that its minimum is found exactly. For p = 1 it is the level-median formula of the paper, taken
    over the whole circle.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import circle
    >>> round(float(circle.wasserstein(np.array([0.2]), np.array([0.9]), p=1)), 12)  # the short way round
    0.3
    >>> circle.wasserstein(np.array([[0.1, 0.5], [0.0, 0.25]]), np.array([0.5, 0.1])).round(6)
    array([0.     , 0.03625])
    """
    p = as_order(p)
    first, second = _two_measures(as_turns("u", u), as_turns("v", v), u_weights, v_weights, p)
    shape, u_rows, v_rows = _flat_batches(first, second)
    atoms = first.points
    if 0 in shape:
        return namespace(atoms).zeros(shape, dtype=atoms.dtype, device=device(atoms))
    costs = backend_for(atoms).circle_costs((u_rows, v_rows), p)
    return namespace(costs).reshape(costs, shape) if shape else costs[0]


@overload
def wasserstein_uniform(u: NumpyArrayLike, *, p: float = ..., weights: ArrayLike | None = ...) -> Any: ...


@overload
def wasserstein_uniform(u: ArrayT, *, p: float = ..., weights: ArrayLike | None = ...) -> ArrayT: ...


def wasserstein_uniform(u: ArrayLike, *, p: float = 2, weights: ArrayLike | None = None) -> Any:
    """W_p^p between a discrete measure on the circle and the uniform measure.

    Parameters
    ----------
    u : array, shape (..., n)
        Atoms, in turns.
    p : float
        Order, from 1 to 16. For p = 2 the value has a closed form (Proposition 1), here with weights too.
    weights : array, shape (n,) or (..., n), optional
        Nonnegative weights, scaled to a total of 1; equal weights by default.

    Returns
    -------
    array, shape (...,)
        W_p^p (not rooted), in turns to the power p.

    Examples
    --------
    n evenly spaced atoms each move 1/n of the mass by at most half of that: W_2^2 = 1 / (12 n^2).

    >>> import numpy as np
    >>> from sphereot import circle
    >>> round(float(circle.wasserstein_uniform(np.arange(10) / 10) * 12 * 10**2), 9)
    1.0
    """
    p = as_order(p)
    atoms = in_precision_of_order(as_turns("u", u), p)
    shape, rows = _flat_batches(Measure(atoms, as_circle_weights("weights", weights, "u", atoms)))
    if 0 in shape:
        return namespace(atoms).zeros(shape, dtype=atoms.dtype, device=device(atoms))
    costs = backend_for(atoms).circle_costs((rows,), p)
    return namespace(costs).reshape(costs, shape) if shape else costs[0]


@dataclass(frozen=True)
class CirclePlan(Generic[ResultT, ScalarT]):
    """An optimal transport plan on the circle, as a list of pairs of atoms.

    Attributes
    ----------
    source, target : array of int, shape (k,)
        `mass[i]` goes from atom `source[i]` of u to atom `target[i]` of v.
    mass : array, shape (k,)
        Positive masses with a total of 1; k is at most n + m.
    cost : array, shape ()
        W_p^p.
    cut : array, shape ()
        The cut alpha: level t of u is matched with level t + alpha of v.
    """

    source: ResultT
    target: ResultT
    mass: ResultT
    cost: ScalarT
    cut: ScalarT


@overload
def transport_plan(
    u: NumpyArrayLike,
    v: ArrayLike,
    *,
    p: float = ...,
    u_weights: ArrayLike | None = ...,
    v_weights: ArrayLike | None = ...,
) -> CirclePlan: ...


@overload
def transport_plan(
    u: ArrayT,
    v: ArrayLike,
    *,
    p: float = ...,
    u_weights: ArrayLike | None = ...,
    v_weights: ArrayLike | None = ...,
) -> CirclePlan[ArrayT, ArrayT]: ...


def transport_plan(
    u: ArrayLike, v: ArrayLike, *, p: float = 2, u_weights: ArrayLike | None = None, v_weights: ArrayLike | None = None
) -> CirclePlan:
    """Optimal transport plan between two discrete measures on the circle.

    Parameters
    ----------
    u : array, shape (n,)
        Atoms of the first measure, in turns.
    v : array, shape (m,)
        Atoms of the second measure, in turns.
    p : float
        Order, from 1 to 16.
    u_weights, v_weights : array, shape (n,) and (m,), optional
        Nonnegative weights, scaled to a total of 1; equal weights by default.

    Returns
    -------
    CirclePlan
        The sparse coupling, its cost and its cut.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import circle
    >>> plan = circle.transport_plan(np.array([0.05, 0.5]), np.array([0.45, 0.95]))
    >>> [(int(s), int(t), float(m)) for s, t, m in zip(plan.source, plan.target, plan.mass)]
    [(0, 1, 0.5), (1, 0, 0.5)]
    >>> round(float(plan.cost), 6)  # (0.1**2 + 0.05**2) / 2
    0.00625
    """
    p = as_order(p)
    atoms = {"u": as_turns("u", u), "v": as_turns("v", v)}
    for name, turns in atoms.items():
        if turns.ndim != 1:
            raise ValueError(
                f"{name}: shape is {tuple(turns.shape)}, but a plan needs one pair of measures, shape (n,)."
            )
    first, second = _two_measures(atoms["u"], atoms["v"], u_weights, v_weights, p)
    _, u_row, v_row = _flat_batches(first, second)
    return CirclePlan(*backend_for(first.points).circle_plan(u_row, v_row, p))


def _two_measures(u: Array, v: Array, u_weights: Any, v_weights: Any, p: float) -> tuple[Measure, Measure]:
    """Measures of one library and dtype, from atoms and weights that may be None."""
    u, v = as_same_kind(u=u, v=v)
    xp = namespace(u)
    dtype = xp.result_type(u, v)
    u, v = (in_precision_of_order(xp.astype(t, dtype), p) for t in (u, v))
    a = as_circle_weights("u_weights", u_weights, "u", u)
    b = as_circle_weights("v_weights", v_weights, "v", v)
    return Measure(u, a), Measure(v, b)


def _flat_batches(*measures: Measure) -> Any:
    """The common leading shape, and each (turns, weights) as rows: turns (B, n), weights (B, n) or (1, n)."""
    xp = namespace(measures[0][0])
    lead: tuple[int, ...] = ()
    for turns, weights in measures:
        lead = _broadcast(lead, tuple(turns.shape[:-1]))
        if weights is not None:
            lead = _broadcast(lead, tuple(weights.shape[:-1]))

    def rows(array: Array) -> Array:
        return xp.reshape(xp.broadcast_to(array, (*lead, array.shape[-1])), (-1, array.shape[-1]))

    flat = [
        Measure(rows(turns), weights if weights is None else weights[None, :] if weights.ndim == 1 else rows(weights))
        for turns, weights in measures
    ]
    return lead, *flat


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    size = max(len(left), len(right))
    shape = []
    for i, j in zip((1,) * (size - len(left)) + left, (1,) * (size - len(right)) + right, strict=True):
        if i != j and 1 not in (i, j):
            raise ValueError(f"leading shapes {left} and {right} of the measures do not broadcast against each other.")
        shape.append(j if i == 1 else i)
    return tuple(shape)
