"""Exact optimal transport on the circle R/Z (Section 3.1).

Positions on the circle are in turns (1 turn = 360 degrees), modulo 1. The distance of two points is
min(|a - b|, 1 - |a - b|). The optimal cost is exact up to rounding: there is no regularization and no iteration limit.
"""

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Generic, overload

from sphereot._arrays.libraries import Array, device, namespace
from sphereot._arrays.types import ArrayLike, ArrayT, NumpyArrayLike, ResultT, ScalarT
from sphereot._arrays.validation import as_order, as_same_kind, as_turns, as_weights, in_precision_of_order
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures

__all__ = ["CirclePlan", "transport_plan", "wasserstein", "wasserstein_uniform"]


# With NumPy, the result is a number for one circle and an array for several.
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
    """Compute W_p^p between two discrete measures on the circle.

    Parameters
    ----------
    u : array, shape (..., n)
        Atoms of the first measure: positions on the circle, in turns.
    v : array, shape (..., m)
        Atoms of the second measure, in turns. The leading dimensions of `u` and `v` broadcast.
    p : float, default 2
        Order of the distance, between 1 and 16. Above 4, the computation and the result are in float64.
    u_weights, v_weights : array, shape (n,) or (..., n), and (m,) or (..., m), optional
        Nonnegative weights, rescaled to sum to 1. By default, all atoms have the same weight.

    Returns
    -------
    array, shape (...,)
        W_p^p in turns to the power p.

    See Also
    --------
    transport_plan : The optimal coupling of the atoms.
    wasserstein_uniform : Distance to the uniform distribution.

    Notes
    -----
    W_p^p is the minimum over the cut alpha of the integral of |F^-1(t) - G^-1(t + alpha)|^p. The integral is convex and
    piecewise affine in alpha, so its minimum is found exactly. For p = 1, this is the level-median formula of the
    paper, over the whole circle.

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
    return _compute_costs(_two_measures(as_turns("u", u), as_turns("v", v), u_weights, v_weights, p), p)


@overload
def wasserstein_uniform(u: NumpyArrayLike, *, p: float = ..., weights: ArrayLike | None = ...) -> Any: ...


@overload
def wasserstein_uniform(u: ArrayT, *, p: float = ..., weights: ArrayLike | None = ...) -> ArrayT: ...


def wasserstein_uniform(u: ArrayLike, *, p: float = 2, weights: ArrayLike | None = None) -> Any:
    """Compute W_p^p between a discrete measure on the circle and the uniform distribution.

    Parameters
    ----------
    u : array, shape (..., n)
        Atoms: positions on the circle, in turns.
    p : float, default 2
        Order of the distance, between 1 and 16. For p = 2 the value has a closed form (Proposition 1), with weights
        too.
    weights : array, shape (n,) or (..., n), optional
        Nonnegative weights, rescaled to sum to 1. By default, all atoms have the same weight.

    Returns
    -------
    array, shape (...,)
        W_p^p in turns to the power p.

    Examples
    --------
    The mass 1/n of each of n evenly spaced atoms moves by at most 1/(2n) turns, and W_2^2 = 1 / (12 n^2):

    >>> import numpy as np
    >>> from sphereot import circle
    >>> round(float(circle.wasserstein_uniform(np.arange(10) / 10) * 12 * 10**2), 9)
    1.0
    """
    p = as_order(p)
    atoms = in_precision_of_order(as_turns("u", u), p)
    return _compute_costs([Measure(atoms, as_weights("weights", weights, "u", atoms, by_row=True))], p)


@dataclass(frozen=True)
class CirclePlan(Generic[ResultT, ScalarT]):
    """Optimal transport plan on the circle, as a list of pairs of atoms.

    Attributes
    ----------
    source, target : array of int, shape (k,)
        `mass[i]` moves from atom `source[i]` of u to atom `target[i]` of v.
    mass : array, shape (k,)
        Positive masses with a total of 1; k is at most n + m.
    cost : array, shape ()
        W_p^p.
    cut : array, shape ()
        The cut alpha: cumulative weight t of u is matched with cumulative weight t + alpha of v.
    """

    source: ResultT
    target: ResultT
    mass: ResultT
    cost: ScalarT
    cut: ScalarT


def transport_plan(
    u: ArrayT | NumpyArrayLike,
    v: ArrayLike,
    *,
    p: float = 2,
    u_weights: ArrayLike | None = None,
    v_weights: ArrayLike | None = None,
) -> CirclePlan[ArrayT, ArrayT]:
    """Compute an optimal transport plan between two discrete measures on the circle.

    Parameters
    ----------
    u, v : array, shape (n,) and (m,)
        Atoms of the two measures: positions on the circle, in turns.
    p, u_weights, v_weights
        Order and weights, as in `wasserstein`; weights have the shapes (n,) and (m,).

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
            raise ValueError(f"{name} must have shape (n,), because a plan is for one pair, got {tuple(turns.shape)}.")
    measures = _two_measures(atoms["u"], atoms["v"], u_weights, v_weights, p)
    _, u_row, v_row = _flatten_batches(measures)
    return CirclePlan(*backend_for(u_row.points).circle_plan(u_row, v_row, p))


def _two_measures(u: Array, v: Array, u_weights: Any, v_weights: Any, p: float) -> list[Measure]:
    """Measures of one library and dtype, from atoms and weights that may be None."""
    u, v = as_same_kind(u=u, v=v)
    dtype = namespace(u).result_type(u, v)
    u, v = (in_precision_of_order(namespace(u).astype(t, dtype), p) for t in (u, v))
    return [
        Measure(u, as_weights("u_weights", u_weights, "u", u, by_row=True)),
        Measure(v, as_weights("v_weights", v_weights, "v", v, by_row=True)),
    ]


def _compute_costs(measures: Measures, p: float) -> Array:
    """W_p^p of each row of one or two batches of measures."""
    shape, *rows = _flatten_batches(measures)
    atoms = measures[0].points
    if 0 in shape:
        return namespace(atoms).zeros(shape, dtype=atoms.dtype, device=device(atoms))
    costs = backend_for(atoms).circle_costs(rows, p)
    return namespace(costs).reshape(costs, shape) if shape else costs[0]


def _flatten_batches(measures: Measures) -> Any:
    """The common leading shape, and each (turns, weights) as rows: turns (B, n), weights (B, n) or (1, n)."""
    xp = namespace(measures[0].points)
    lead: tuple[int, ...] = ()
    for array in (array for measure in measures for array in measure if array is not None):
        lead = _broadcast(lead, tuple(array.shape[:-1]))

    def rows(array: Array) -> Array:
        return xp.reshape(xp.broadcast_to(array, (*lead, array.shape[-1])), (-1, array.shape[-1]))

    flat = [
        Measure(rows(turns), weights if weights is None else weights[None, :] if weights.ndim == 1 else rows(weights))
        for turns, weights in measures
    ]
    return lead, *flat


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    shape = []
    for i, j in zip_longest(left[::-1], right[::-1], fillvalue=1):
        if i != j and 1 not in (i, j):
            raise ValueError(f"The leading shapes of the measures must broadcast, got {left} and {right}.")
        shape.append(j if i == 1 else i)
    return tuple(shape[::-1])
