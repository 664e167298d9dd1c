"""NumPy backend: the functions of the backend protocol, computed by the compiled kernel."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import take_root
from sphereot._backends.array_api.circle import plan_of_cut
from sphereot._backends.native.blocks import PLANAR_BYTES, Floats, blocks, from_turns
from sphereot._backends.native.calls import kernel, threads_for
from sphereot._backends.native.frames import Frames, frame_count
from sphereot._backends.native.pairs import pair_cost
from sphereot._backends.native.permutations import relabeled_costs
from sphereot._backends.native.resamples import resampled_costs
from sphereot._backends.protocol import Measure, Measures, Plan, n_atoms

__all__ = [
    "circle_costs",
    "circle_plan",
    "mean_cost",
    "pair_cost",
    "pairwise_costs",
    "project",
    "relabeled_costs",
    "resampled_costs",
    "slice_costs",
]


def project(x: Floats, frames: Floats) -> Floats:
    """Turns (L, n) of points (n, d) on the great circles of frames (L, d, 2)."""
    out = np.empty((frames.shape[0], x.shape[0]), x.dtype)
    for block, (sliced,), _ in blocks([Measure(x)], frames):
        kernel().turns(sliced, threads_for(out[block].size, x.shape[1]), out[block])
    return out


def slice_costs(measures: Measures, frames: Frames, p: float) -> NDArray[np.float64]:
    """W_p^p on each great circle, shape (L,): between two measures, or of one to the uniform measure."""
    out = np.empty(frame_count(frames))
    atoms, dim = n_atoms(measures), measures[0].points.shape[1]
    solve = kernel().costs if len(measures) == 2 else kernel().costs_uniform
    for block, sliced, _ in blocks(measures, frames):
        solve(*sliced, p, threads_for(out[block].size * atoms, dim), out[block])
    return out


def mean_cost(measures: Measures, frames: Frames, p: float, *, root: bool = False) -> Any:
    """SSW_p^p: the mean of W_p^p over the great circles; with `root` SSW_p."""
    dtype = measures[0].points.dtype.type
    return take_root(dtype(np.mean(slice_costs(measures, frames, p))), p, root)


def pairwise_costs(measures: Measures, frames: Floats, p: float, *, root: bool = False) -> Floats:
    """`mean_cost` of the pairs i < j, in order; each measure is projected and sorted once per slice."""
    dtype = measures[0].points.dtype
    total = np.zeros(len(measures) * (len(measures) - 1) // 2)
    for costs in _pairwise_rows(measures, frames, p):
        total += costs
    means: Floats = take_root((total / frames.shape[0]).astype(dtype, copy=False), p, root)
    return means


def circle_costs(measures: Measures, p: float) -> Floats:
    """W_p^p on the circle, row by row, shape (B,): between two measures, or of one to the uniform measure."""
    turns = measures[0].points
    out = np.empty(turns.shape[0])
    threads = threads_for(sum(measure.points.size for measure in measures))
    if len(measures) == 1:
        kernel().costs_uniform(*from_turns(measures), p, threads, out)
    else:
        kernel().costs(*from_turns(measures), p, threads, out)
    return out.astype(turns.dtype, copy=False)


def circle_plan(u: Measure, v: Measure, p: float) -> Plan:
    """The optimal coupling of two measures on the circle, each given as one row of turns."""
    # A turn just below 1 may round to 0 on the kernel's grid. That is the same point of the circle, but it is then the
    # first atom instead of the last, and a cut counts from the first.
    u, v = (Measure(_on_grid(turns), weights) for turns, weights in (u, v))
    cut = np.empty(1)  # float64, like the levels whose difference it is
    kernel().cuts(*from_turns([u, v]), p, threads_for(u.points.size + v.points.size), cut)
    return plan_of_cut(u, v, cut, circle_costs([u, v], p))


def _on_grid(turns: Floats) -> Floats:
    """Turns (B, n) rounded to the grid of the kernel, in [0, 1)."""
    out = np.empty(turns.shape, turns.dtype)
    kernel().turns(*from_turns([Measure(turns)]), threads_for(turns.size), out)
    return out


def _pairwise_rows(measures: Measures, frames: Floats, p: float) -> Iterator[NDArray[np.float64]]:
    """Yield the costs of all pairs per slice; summed slice by slice, the result does not depend on the blocks."""
    pairs = len(measures) * (len(measures) - 1) // 2
    atoms = n_atoms(measures)
    for block, sliced, _ in blocks(measures, frames, max_slices=max(1, PLANAR_BYTES // (8 * pairs))):
        out = np.empty((block.stop - block.start, pairs))
        kernel().costs_pairwise(sliced, p, threads_for(out.shape[0] * atoms, frames.shape[1]), out)
        yield from out
