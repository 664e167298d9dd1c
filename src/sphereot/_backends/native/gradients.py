"""Costs together with their gradients, in one call of the kernel; never an array of slices by points.

The envelope theorem holds the cut, so the gradient in the points is that of the matched pairs, and the gradient in the
weights is the dual potential. What is not wanted is not computed, and comes back as None.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.orders import power_mean
from sphereot._backends.native.calls import kernel, threads_for
from sphereot._backends.native.costs import (
    LARGEST_DIM_BY_SLICE,
    Floats,
    Measure,
    blocks,
    rows_of_weights,
    slice_distances,
)
from sphereot._backends.native.frames import Frames, as_array

__all__ = [
    "Wanted",
    "circle_gradients",
    "circle_gradients_uniform",
    "distance_gradients",
    "distance_gradients_uniform",
    "mean_gradients",
    "mean_gradients_uniform",
]

# Slices are added up in groups, each of which needs a sum of its own. In low dimension sums are small; in tiles of
# slices (see `blocks`) a group should be long, and a thread is not worth starting for less.
SLICES_A_GROUP_BY_TILE = 100
GROUP_BYTES = 64 << 20
MOST_GROUPS = 16

Gradient = tuple[Floats | None, NDArray[np.float64] | None]


@dataclass(frozen=True)
class Wanted:
    """Which gradients of a measure to compute."""

    points: bool
    weights: bool


def circle_gradients(
    u: Floats, v: Floats, a: Floats | None, b: Floats | None, p: float, wanted: Sequence[Wanted]
) -> tuple[Floats, Gradient, Gradient]:
    """W_p^p (B,) of each row, and its gradients in turns and weights, (B, n) and (B, m)."""
    measures = [kernel().from_turns(np.ascontiguousarray(t), rows_of_weights(w)) for t, w in ((u, a), (v, b))]
    out = np.empty(u.shape[0])
    (du, da), (dv, db) = (_row_gradients(t, wants) for t, wants in zip((u, v), wanted, strict=True))
    kernel().differentiate(*measures, p, 1.0, len(out), threads_for(u.size + v.size), out, du, da, dv, db)
    return out.astype(u.dtype, copy=False), (du, da), (dv, db)


def circle_gradients_uniform(u: Floats, a: Floats | None, p: float, wanted: Wanted) -> tuple[Floats, Gradient]:
    """W_p^p (B,) of each row against the uniform measure, and its gradients in turns and weights, (B, n)."""
    out = np.empty(u.shape[0])
    du, da = _row_gradients(u, wanted)
    measure = kernel().from_turns(np.ascontiguousarray(u), rows_of_weights(a))
    kernel().differentiate_uniform(measure, p, 1.0, len(out), threads_for(u.size), out, du, da)
    return out.astype(u.dtype, copy=False), (du, da)


def mean_gradients(
    x: Floats,
    y: Floats,
    a: Floats | None,
    b: Floats | None,
    frames: Floats,
    p: float,
    wanted: Sequence[Wanted],
    unit: float = 1.0,
) -> tuple[float, Gradient, Gradient]:
    """The mean over slices of W_p^p, and its gradients in points (n, d), (m, d) and weights (n,), (m,).

    Of large orders (see `sphereot._arrays.orders`) it may be wanted in a unit of length: that of (W_p / unit)^p.
    """
    value, (gradient_x, gradient_y) = _mean_gradients([(x, a), (y, b)], frames, p, wanted, unit)
    return value, gradient_x, gradient_y


def mean_gradients_uniform(
    x: Floats, a: Floats | None, frames: Frames, p: float, wanted: Wanted, unit: float = 1.0
) -> tuple[float, Gradient]:
    """The mean over slices of W_p^p to the uniform measure, and its gradients in points (n, d) and weights (n,)."""
    value, (gradient,) = _mean_gradients([(x, a)], frames, p, [wanted], unit)
    return value, gradient


def distance_gradients(
    x: Floats, y: Floats, a: Floats | None, b: Floats | None, frames: Floats, p: float, wanted: Sequence[Wanted]
) -> tuple[float, Gradient, Gradient]:
    """The root of order p of the mean over slices of W_p^p, for large orders, and its gradients."""
    value, (gradient_x, gradient_y) = _distance_gradients([(x, a), (y, b)], frames, p, wanted)
    return value, gradient_x, gradient_y


def distance_gradients_uniform(
    x: Floats, a: Floats | None, frames: Frames, p: float, wanted: Wanted
) -> tuple[float, Gradient]:
    """The same to the uniform measure."""
    value, (gradient,) = _distance_gradients([(x, a)], frames, p, [wanted])
    return value, gradient


def _distance_gradients(
    measures: Sequence[Measure], frames: Frames, p: float, wanted: Sequence[Wanted]
) -> tuple[float, list[Gradient]]:
    """In two calls: the distance is the unit in which neither the mean cost nor its gradients vanish."""
    distance = float(power_mean(slice_distances(measures, frames, p), p))
    mean, total = _mean_gradients(measures, frames, p, wanted, distance or 1.0)
    # At 0 the root has no derivative; gradients there are 0.
    factor = distance / p * mean ** (1.0 / p - 1.0) if distance > 0 else 0.0
    return distance, [(_times(points, factor), _times(weights, factor)) for points, weights in total]


def _times(gradient: Any, factor: float) -> Any:
    return None if gradient is None else gradient * factor


def _mean_gradients(
    measures: Sequence[Measure], frames: Frames, p: float, wanted: Sequence[Wanted], unit: float
) -> tuple[float, list[Gradient]]:
    n_slices, dim, _ = frames.shape
    call = kernel().differentiate if len(measures) == 2 else kernel().differentiate_uniform
    costs = np.empty(n_slices)
    atoms = sum(len(x) for x, _ in measures)
    total: list[Gradient] = []
    for block, sliced, planar in blocks(measures, frames, with_gradients=True):
        count = block.stop - block.start
        places: Sequence[Floats | None] = planar or [None] * len(measures)
        outputs = [_output(x, place, wants) for (x, _), place, wants in zip(measures, places, wanted, strict=True)]
        groups = _groups(count, dim, measures, bool(planar))
        threads = threads_for(count * atoms, dim)
        gradients = [array for pair in outputs for array in pair]
        call(*sliced, p, 1.0 / n_slices, groups, threads, costs[block], *gradients, unit)
        if planar:
            outputs = [(_led_back(points, as_array(frames[block])), weights) for points, weights in outputs]
        total = [_added(*pairs) for pairs in zip(total, outputs, strict=True)] if total else outputs
    return float(np.add.reduce(costs)) / n_slices, total


def _output(x: Floats, planar: Floats | None, wanted: Wanted) -> Gradient:
    """Arrays for the gradients that are wanted."""
    points = None
    if wanted.points:  # That of a planar point takes the place of the point, which the kernel has done with by then.
        points = np.empty(x.shape, x.dtype) if planar is None else planar
    return points, np.empty(len(x)) if wanted.weights else None


def _led_back(planar: Floats | None, frames: Floats) -> Floats | None:
    """The sum over slices of U times the gradient of the planar points."""
    if planar is None:
        return None
    rows = frames.transpose(0, 2, 1).reshape(-1, frames.shape[1])
    points: Floats = planar.reshape(len(rows), -1).T @ rows
    return points


def _added(one: Gradient, other: Gradient) -> Gradient:
    points, weights = (None if a is None or b is None else a + b for a, b in zip(one, other, strict=True))
    return points, weights


def _groups(n_slices: int, dim: int, measures: Sequence[Measure], planar: bool) -> int:
    """How many sums the slices are shared out over: a matter of sizes alone, so threads cannot show in a result."""
    if planar:
        return min(MOST_GROUPS, n_slices)
    size = sum(x.nbytes for x, _ in measures)
    most = MOST_GROUPS if dim <= LARGEST_DIM_BY_SLICE else -(-n_slices // SLICES_A_GROUP_BY_TILE)
    return min(n_slices, max(2, min(MOST_GROUPS, most, GROUP_BYTES // size)))


def _row_gradients(u: Floats, wanted: Wanted) -> tuple[Any, Any]:
    return np.empty(u.shape, u.dtype) if wanted.points else None, np.empty(u.shape) if wanted.weights else None
