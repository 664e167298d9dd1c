"""Costs together with their gradients, in one call of the kernel; never an array of slices by points.

The envelope theorem holds the cut, so the gradient in the points is that of the matched pairs, and the gradient in the
weights is the dual potential. What is not wanted is not computed, and comes back as None.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.orders import power_mean
from sphereot._backends.native.backend import slice_distances
from sphereot._backends.native.blocks import LARGEST_DIM_BY_SLICE, Floats, blocks, from_turns
from sphereot._backends.native.calls import kernel, threads_for
from sphereot._backends.native.frames import Frames, as_array
from sphereot._backends.protocol import Measures, n_atoms

__all__ = ["Gradient", "Wanted", "circle_gradients", "distance_gradients", "mean_gradients"]

# Slices are added up in groups, each of which needs a sum of its own. In low dimension sums are small; in tiles of
# slices (see `blocks`) a group should be long, and a thread is not worth starting for less.
SLICES_PER_GROUP_BY_TILE = 100
GROUP_BYTES = 64 << 20
MOST_GROUPS = 16

Gradient: TypeAlias = tuple[Floats | None, NDArray[np.float64] | None]
"""The gradient in the points of a measure and the gradient in its weights."""


@dataclass(frozen=True)
class Wanted:
    """Which gradients of a measure to compute."""

    points: bool
    weights: bool


def circle_gradients(measures: Measures, p: float, wanted: Sequence[Wanted]) -> tuple[Floats, list[Gradient]]:
    """W_p^p (B,) of each row, as `circle_costs`, and its gradients in turns and weights, (B, n) for each measure."""
    turns = measures[0].points
    out = np.empty(turns.shape[0])
    gradients = [_row_gradients(measure.points, wants) for measure, wants in zip(measures, wanted, strict=True)]
    differentiate = kernel().differentiate if len(measures) == 2 else kernel().differentiate_uniform
    threads = threads_for(sum(measure.points.size for measure in measures))
    arrays = [array for pair in gradients for array in pair]
    differentiate(*from_turns(measures), p, 1.0, len(out), threads, out, *arrays)
    return out.astype(turns.dtype, copy=False), gradients


def mean_gradients(
    measures: Measures, frames: Frames, p: float, wanted: Sequence[Wanted], unit: float = 1.0
) -> tuple[float, list[Gradient]]:
    """SSW_p^p, as `mean_cost`, and its gradients in points (n, d) and weights (n,) of each measure.

    Of large orders (see `sphereot._arrays.orders`) it may be wanted in a unit of length: that of (W_p / unit)^p.
    """
    n_slices, dim, _ = frames.shape
    call = kernel().differentiate if len(measures) == 2 else kernel().differentiate_uniform
    costs = np.empty(n_slices)
    atoms = n_atoms(measures)
    total: list[Gradient] = []
    for block, sliced, planar in blocks(measures, frames, with_gradients=True):
        count = block.stop - block.start
        planes: Sequence[Floats | None] = planar or [None] * len(measures)
        outputs = [_output(x, plane, wants) for (x, _), plane, wants in zip(measures, planes, wanted, strict=True)]
        groups = _groups(count, dim, measures, bool(planar))
        threads = threads_for(count * atoms, dim)
        gradients = [array for pair in outputs for array in pair]
        call(*sliced, p, 1.0 / n_slices, groups, threads, costs[block], *gradients, unit)
        if planar:
            outputs = [(_pulled_back(points, as_array(frames[block])), weights) for points, weights in outputs]
        total = [_added(*pairs) for pairs in zip(total, outputs, strict=True)] if total else outputs
    return float(np.add.reduce(costs)) / n_slices, total


def distance_gradients(
    measures: Measures, frames: Frames, p: float, wanted: Sequence[Wanted]
) -> tuple[float, list[Gradient]]:
    """SSW_p, for large orders, and its gradients.

    In two calls: the distance is the unit in which neither the mean cost nor its gradients vanish.
    """
    distance = float(power_mean(slice_distances(measures, frames, p), p))
    mean, total = mean_gradients(measures, frames, p, wanted, distance or 1.0)
    # At 0 the root has no derivative; gradients there are 0.
    factor = distance / p * mean ** (1.0 / p - 1.0) if distance > 0 else 0.0
    return distance, [(_times(points, factor), _times(weights, factor)) for points, weights in total]


def _times(gradient: Any, factor: float) -> Any:
    return None if gradient is None else gradient * factor


def _output(x: Floats, planar: Floats | None, wanted: Wanted) -> Gradient:
    """Arrays for the gradients that are wanted."""
    points = None
    if wanted.points:  # That of a planar point takes the place of the point, which the kernel has done with by then.
        points = np.empty(x.shape, x.dtype) if planar is None else planar
    return points, np.empty(len(x)) if wanted.weights else None


def _pulled_back(planar: Floats | None, frames: Floats) -> Floats | None:
    """The sum over slices of U times the gradient of the planar points."""
    if planar is None:
        return None
    rows = frames.transpose(0, 2, 1).reshape(-1, frames.shape[1])
    points: Floats = planar.reshape(len(rows), -1).T @ rows
    return points


def _added(first: Gradient, second: Gradient) -> Gradient:
    points, weights = (None if a is None or b is None else a + b for a, b in zip(first, second, strict=True))
    return points, weights


def _groups(n_slices: int, dim: int, measures: Measures, planar: bool) -> int:
    """The number of partial sums over slices. It depends on sizes alone, so that threads cannot change a result."""
    if planar:
        return min(MOST_GROUPS, n_slices)
    size = sum(int(x.nbytes) for x, _ in measures)
    most = MOST_GROUPS if dim <= LARGEST_DIM_BY_SLICE else -(-n_slices // SLICES_PER_GROUP_BY_TILE)
    return min(n_slices, max(2, min(MOST_GROUPS, most, GROUP_BYTES // size)))


def _row_gradients(u: Floats, wanted: Wanted) -> tuple[Any, Any]:
    return np.empty(u.shape, u.dtype) if wanted.points else None, np.empty(u.shape) if wanted.weights else None
