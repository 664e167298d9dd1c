"""NumPy backend: the functions of the backend protocol, computed by the compiled kernel."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import take_root
from sphereot._backends import native
from sphereot._backends.array_api.circle import plan_of_cut
from sphereot._backends.native.gradients import Wanted, mean_gradients, pair_gradients
from sphereot._backends.native.inputs import PLANAR_BYTES, Floats, blocks, from_turns
from sphereot._backends.protocol import Labelings, Measure, Measures, Plan, Repeats

# Points times permutations per call of the kernel: some seconds on one core, so that progress can be reported.
POINTS_PER_CALL = 1_000_000_000
MIN_SLICES_PER_CALL = 8


def project(x: Floats, frames: Floats) -> Floats:
    """Turns (L, n) of points (n, d) on the great circles of frames (L, d, 2)."""
    out = np.empty((frames.shape[0], x.shape[0]), x.dtype)
    for block, (sliced,), _ in blocks([Measure(x)], frames):
        native.kernel.turns(sliced, native.threads_for(out[block].size, x.shape[1]), out[block])
    return out


def slice_costs(measures: Measures, frames: Floats, p: float) -> NDArray[np.float64]:
    """W_p^p on each great circle, shape (L,): between two measures, or of one to the uniform measure."""
    out = np.empty(len(frames))
    atoms, dim = sum(len(x) for x, _ in measures), measures[0].points.shape[1]
    solve = native.kernel.costs if len(measures) == 2 else native.kernel.costs_uniform
    for block, sliced, _ in blocks(measures, frames):
        solve(*sliced, p, native.threads_for(out[block].size * atoms, dim), out[block])
    return out


def mean_cost(measures: Measures, frames: Floats, p: float, *, root: bool = False) -> Any:
    """SSW_p^p: the mean of W_p^p over the great circles; with `root` SSW_p."""
    dtype = measures[0].points.dtype.type
    value = dtype(np.mean(slice_costs(measures, frames, p)))
    return take_root(value, p, root) if root else value


def pair_cost(measure: Measure, *, unbiased: bool = False) -> Any:
    """SSW_2^2 to the uniform distribution: the double sum of K_d, in the dtype of the points."""
    value, _ = pair_gradients(measure, Wanted(False, False), unbiased=unbiased)
    return measure.points.dtype.type(value)


def weight_gradients(measures: Measures, frames: Floats, p: float) -> list[NDArray[np.float64]]:
    """The gradients (n,) of `mean_cost` in the weights of each measure, ones by default."""
    weighted = [Measure(x, np.ones(len(x)) if a is None else a) for x, a in measures]
    _, gradients = mean_gradients(weighted, frames, p, [Wanted(points=False, weights=True)] * len(measures))
    return [by_weights for _, by_weights in gradients if by_weights is not None]


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
    threads = native.threads_for(sum(measure.points.size for measure in measures))
    if len(measures) == 1:
        native.kernel.costs_uniform(*from_turns(measures), p, threads, out)
    else:
        native.kernel.costs(*from_turns(measures), p, threads, out)
    return out.astype(turns.dtype, copy=False)


def circle_plan(u: Measure, v: Measure, p: float) -> Plan:
    """The optimal coupling of two measures on the circle, each given as one row of turns."""
    # A turn just below 1 may round to 0 on the kernel's grid. That is the same point of the circle, but it is then the
    # first atom instead of the last, and a cut counts from the first.
    u, v = (Measure(_on_grid(turns), weights) for turns, weights in (u, v))
    cut = np.empty(1)  # float64, like the levels whose difference it is
    native.kernel.cuts(*from_turns([u, v]), p, native.threads_for(u.points.size + v.points.size), cut)
    return plan_of_cut(u, v, cut, circle_costs([u, v], p))


def relabeled_costs(
    pool: Floats, labelings: Labelings, frames: Floats, p: float
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """W_p^p on each great circle between the two samples that each labeling makes of a pooled sample (N, d).

    Yields blocks of great circles with their costs under all labelings, shape (block, n_labelings).
    """
    bits, count, n_first = labelings
    work = count * len(pool)
    max_slices = min(POINTS_PER_CALL // work, PLANAR_BYTES // (8 * count))
    for block, (sliced,), _ in blocks([Measure(pool)], frames, max_slices=max(max_slices, MIN_SLICES_PER_CALL)):
        out = np.empty((block.stop - block.start, count))
        native.kernel.costs_relabeled(sliced, n_first, bits, p, native.threads_for(len(out) * work), out)
        yield block, out


def resampled_costs(measures: Measures, repeats: Sequence[Repeats], frames: Floats, p: float) -> NDArray[np.float64]:
    """W_p^p on each great circle for each resample of one or two measures, shape (L, B)."""
    counts = [np.ascontiguousarray(rows, dtype=np.uint32) for rows in repeats]
    sizes = [int(rows[0].sum()) for rows in counts]
    n_resamples = len(counts[0])
    solve = native.kernel.costs_resampled if len(measures) == 2 else native.kernel.costs_uniform_resampled
    plain = [Measure(points) for points, _ in measures]
    out = np.empty((frames.shape[0], n_resamples))
    for block, sliced, _ in blocks(plain, frames, max_slices=max(1, PLANAR_BYTES // (8 * n_resamples))):
        arguments = [part for triple in zip(sliced, counts, sizes, strict=True) for part in triple]
        solve(*arguments, p, native.threads_for(out[block].size * sum(sizes)), out[block])
    return out


def _on_grid(turns: Floats) -> Floats:
    """Turns (B, n) rounded to the grid of the kernel, in [0, 1)."""
    out = np.empty(turns.shape, turns.dtype)
    native.kernel.turns(*from_turns([Measure(turns)]), native.threads_for(turns.size), out)
    return out


def _pairwise_rows(measures: Measures, frames: Floats, p: float) -> Iterator[NDArray[np.float64]]:
    """Yield the costs of all pairs per slice; summed slice by slice, the result does not depend on the blocks."""
    pairs = len(measures) * (len(measures) - 1) // 2
    atoms = sum(len(x) for x, _ in measures)
    for block, sliced, _ in blocks(measures, frames, max_slices=max(1, PLANAR_BYTES // (8 * pairs))):
        out = np.empty((block.stop - block.start, pairs))
        native.kernel.costs_pairwise(sliced, p, native.threads_for(out.shape[0] * atoms, frames.shape[1]), out)
        yield from out
