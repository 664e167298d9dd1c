"""Costs with their gradients in one call of the compiled kernel, without an array of slices times points.

The envelope theorem holds the cut, so the gradient in the points is that of the matched pairs, and the gradient in the
weights is the dual potential. Gradients that are not requested are not computed, and are None.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sphereot._backends.native.blocks import LARGEST_DIM_BY_SLICE, Floats, blocks, from_turns
from sphereot._backends.native.calls import kernel, threads_for
from sphereot._backends.native.frames import Frames, as_array, frame_block, frame_count
from sphereot._backends.native.wanted import Gradient, Wanted
from sphereot._backends.protocol import Measures, n_atoms

__all__ = ["Gradient", "Wanted", "circle_gradients", "mean_gradients"]

# Gradients are added up per group of slices, and each group needs an array of its own. In low dimension these arrays
# are small. Where the kernel projects several slices at a time (see `blocks`), shorter groups are not worth a thread.
SLICES_PER_GROUP_BY_TILE = 100
GROUP_BYTES = 64 << 20
MAX_GROUPS = 16


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
    measures: Measures, frames: Frames, p: float, wanted: Sequence[Wanted]
) -> tuple[float, list[Gradient]]:
    """SSW_p^p, as `mean_cost`, and its gradients in points (n, d) and weights (n,) of each measure."""
    n_slices, dim = frame_count(frames), measures[0].points.shape[1]
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
        call(*sliced, p, 1.0 / n_slices, groups, threads, costs[block], *gradients)
        if planar:
            block_frames = as_array(frame_block(frames, block))
            outputs = [(_pulled_back(points, block_frames), weights) for points, weights in outputs]
        total = [_added(*pairs) for pairs in zip(total, outputs, strict=True)] if total else outputs
    return float(np.add.reduce(costs)) / n_slices, total


def _output(x: Floats, planar: Floats | None, wanted: Wanted) -> Gradient:
    """Allocate the arrays of the requested gradients."""
    points = None
    if wanted.points:  # The gradient of a planar point overwrites the point, which the kernel does not read again.
        points = np.empty(x.shape, x.dtype) if planar is None else planar
    return points, np.empty(len(x)) if wanted.weights else None


def _pulled_back(planar: Floats | None, frames: Floats) -> Floats | None:
    """Gradient in the points from that in the planar points U^T x: the sum over slices of U times the latter."""
    if planar is None:
        return None
    rows = frames.transpose(0, 2, 1).reshape(-1, frames.shape[1])
    points: Floats = planar.reshape(len(rows), -1).T @ rows
    return points


def _added(first: Gradient, second: Gradient) -> Gradient:
    points, weights = (None if a is None or b is None else a + b for a, b in zip(first, second, strict=True))
    return points, weights


def _groups(n_slices: int, dim: int, measures: Measures, planar: bool) -> int:
    """The number of partial sums over slices; it depends on sizes alone, so threads cannot change a result."""
    if planar:
        return min(MAX_GROUPS, n_slices)
    size = sum(int(x.nbytes) for x, _ in measures)
    by_length = MAX_GROUPS if dim <= LARGEST_DIM_BY_SLICE else -(-n_slices // SLICES_PER_GROUP_BY_TILE)
    return min(n_slices, max(2, min(MAX_GROUPS, by_length, GROUP_BYTES // size)))


def _row_gradients(u: Floats, wanted: Wanted) -> tuple[Any, Any]:
    return np.empty(u.shape, u.dtype) if wanted.points else None, np.empty(u.shape) if wanted.weights else None
