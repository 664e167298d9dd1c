"""NumPy backend: the functions of the backend protocol, computed by the compiled kernel."""

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import take_root
from sphereot._backends import native
from sphereot._backends.array_api.circle import matched_pairs
from sphereot._backends.native import Floats
from sphereot._backends.protocol import Labelings, Measure, Measures, PairOptions, Plan, Repeats, Wanted, n_atoms
from sphereot._backends.uniform_kernel import largest_value, variance_polynomials

# Points times permutations per call of the kernel: some seconds on one core, so that progress can be reported.
POINTS_PER_CALL = 1_000_000_000
# Three ways to project, chosen by measured speed. In low dimension, slice by slice. In higher dimension, several slices
# at a time if the points fit into the cache. For more points, slice by slice again, or, if the dimension is high enough
# to pay for the memory, by a matrix product in NumPy.
LARGEST_DIM_BY_SLICE = 8
MAX_COORDINATES_BY_TILE = 1 << 20
LARGEST_DIM_WITHOUT_PRODUCT = 48
PLANAR_BYTES = 32 << 20
MIN_SLICES_PER_CALL = 8
# Gradients are added up per group of slices or pairs, and each group needs its own array.
SLICES_PER_GROUP_BY_TILE = 100  # if the kernel projects several slices at a time; shorter groups are not worth a thread
GROUP_BYTES = 64 << 20
GROUP_BYTES_OF_PAIRS = 32 << 20
MAX_GROUPS = 16
TILE_SIZE = 64
PAIRS_PER_POINT = 4  # this number of pairs takes about the time in which the kernel sorts one point

Gradient: TypeAlias = tuple[Floats | None, NDArray[np.float64] | None]
"""The gradient in the points of a measure and the gradient in its weights."""


def project(x: Floats, frames: Floats) -> Floats:
    """Turns (L, n) of points (n, d) on the great circles of frames (L, d, 2)."""
    out = np.empty((frames.shape[0], x.shape[0]), x.dtype)
    for block, (sliced,), _ in blocks([Measure(x)], frames):
        native.kernel.turns(sliced, native.threads_for(out[block].size, x.shape[1]), out[block])
    return out


def slice_costs(measures: Measures, frames: Floats, p: float) -> NDArray[np.float64]:
    """W_p^p on each great circle, shape (L,): between two measures, or of one to the uniform measure."""
    out = np.empty(len(frames))
    atoms, dim = n_atoms(measures), frames.shape[1]
    solve = native.kernel.costs if len(measures) == 2 else native.kernel.costs_uniform
    for block, sliced, _ in blocks(measures, frames):
        solve(*sliced, p, native.threads_for(out[block].size * atoms, dim), out[block])
    return out


def mean_cost(measures: Measures, frames: Floats, p: float, *, root: bool = False) -> Any:
    """SSW_p^p: the mean of W_p^p over the great circles; with `root` SSW_p."""
    dtype = measures[0].points.dtype.type
    value = dtype(np.mean(slice_costs(measures, frames, p)))
    return take_root(value, p, root) if root else value


def pair_cost(measure: Measure, *, unbiased: bool = False, even_weight: float = 1.0) -> Any:
    """SSW_2^2 to the uniform distribution: the double sum of K_d, in the dtype of the points."""
    value, _ = pair_gradients(measure, Wanted(False, False), PairOptions(unbiased, even_weight))
    return measure.points.dtype.type(value)


def weight_gradients(measures: Measures, frames: Floats, p: float) -> list[NDArray[np.float64]]:
    """The gradients (n,) of `mean_cost` in the weights of each measure, ones by default."""
    weighted = [Measure(x, np.ones(len(x)) if a is None else a) for x, a in measures]
    _, gradients = mean_gradients(weighted, frames, p, [Wanted(points=False, weights=True)] * len(measures))
    return [by_weights for _, by_weights in gradients if by_weights is not None]


def pairwise_costs(measures: Measures, frames: Floats, p: float, *, root: bool = False) -> Floats:
    """`mean_cost` of the pairs i < j, in order; each measure is projected and sorted once per slice."""
    total = np.zeros(len(measures) * (len(measures) - 1) // 2)
    for block, sliced, _ in blocks(measures, frames, max_slices=max(1, PLANAR_BYTES // (8 * len(total)))):
        costs = np.empty((block.stop - block.start, len(total)))
        threads = native.threads_for(len(costs) * n_atoms(measures), frames.shape[1])
        native.kernel.costs_pairwise(sliced, p, threads, costs)
        for row in costs:  # added slice by slice, so that the sum does not depend on the blocks
            total += row
    means: Floats = take_root((total / len(frames)).astype(measures[0].points.dtype, copy=False), p, root)
    return means


def circle_costs(measures: Measures, p: float) -> Floats:
    """W_p^p on the circle, row by row, shape (B,): between two measures, or of one to the uniform measure."""
    turns = measures[0].points
    out = np.empty(turns.shape[0])
    solve = native.kernel.costs if len(measures) == 2 else native.kernel.costs_uniform
    solve(*from_turns(measures), p, native.threads_for(sum(u.size for u, _ in measures)), out)
    return out.astype(turns.dtype, copy=False)


def circle_plan(u: Measure, v: Measure, p: float) -> Plan:
    """The optimal coupling of two measures on the circle, each given as one row of turns."""
    # A turn just below 1 may round to 0 on the kernel's grid. The atom is then the first instead of the last, and a cut
    # counts from the first.
    on_grid = []
    for turns, weights in (u, v):
        rounded = np.empty(turns.shape, turns.dtype)
        native.kernel.turns(*from_turns([Measure(turns)]), native.threads_for(turns.size), rounded)
        on_grid.append(Measure(rounded, weights))
    cut = np.empty(1)  # float64, like the levels whose difference it is
    native.kernel.cuts(*from_turns(on_grid), p, native.threads_for(u.points.size + v.points.size), cut)
    return Plan(*matched_pairs(on_grid[0], on_grid[1], cut), circle_costs(on_grid, p)[0], cut[0])


def relabeled_costs(
    pool: Floats, labelings: Labelings, frames: Floats, p: float
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """W_p^p between the two samples of each labeling, in blocks of great circles, (block, n_labelings)."""
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


# ---- gradients ----


def costs_and_gradients(
    measures: Measures, frames: Floats | None, p: float, pairs: PairOptions | None, wanted: Sequence[Wanted]
) -> tuple[Any, list[Gradient]]:
    """A cost and its gradients in points and weights of each measure; a gradient that is not wanted is None.

    The cost is `mean_cost`, or `circle_costs` if there are no frames, or `pair_cost` if `pairs` is not None.
    """
    if pairs is not None:
        return pair_gradients(measures[0], wanted[0], pairs)
    if any(map(any, wanted)):
        if frames is None:
            return circle_gradients(measures, p, wanted)
        return mean_gradients(measures, frames, p, wanted)
    value = circle_costs(measures, p) if frames is None else mean_cost(measures, frames, p)
    return value, [(None, None)] * len(measures)


def circle_gradients(measures: Measures, p: float, wanted: Sequence[Wanted]) -> tuple[Floats, list[Gradient]]:
    """W_p^p (B,) of each row, as `circle_costs`, and its gradients in turns and weights, (B, n) for each measure."""
    turns = measures[0].points
    out = np.empty(turns.shape[0])
    gradients: list[Gradient] = [
        (np.empty(u.shape, u.dtype) if wants.points else None, np.empty(u.shape) if wants.weights else None)
        for (u, _), wants in zip(measures, wanted, strict=True)
    ]
    differentiate = native.kernel.differentiate if len(measures) == 2 else native.kernel.differentiate_uniform
    threads = native.threads_for(sum(u.size for u, _ in measures))
    arrays = [array for pair in gradients for array in pair]
    differentiate(*from_turns(measures), p, 1.0, len(out), threads, out, *arrays)
    return out.astype(turns.dtype, copy=False), gradients


def mean_gradients(
    measures: Measures, frames: Floats, p: float, wanted: Sequence[Wanted]
) -> tuple[float, list[Gradient]]:
    """SSW_p^p, as `mean_cost`, and its gradients in points (n, d) and weights (n,) of each measure."""
    n_slices, dim = frames.shape[:2]
    differentiate = native.kernel.differentiate if len(measures) == 2 else native.kernel.differentiate_uniform
    costs = np.empty(n_slices)
    total: list[Any] = []  # the gradients in points and weights of the first measure, then of the second
    for block, sliced, planar in blocks(measures, frames, with_gradients=True):
        count = block.stop - block.start
        part: list[Any] = []
        for k, ((x, _), wants) in enumerate(zip(measures, wanted, strict=True)):
            # The gradient of a planar point overwrites the point, which the kernel does not read again.
            by_points = planar[k] if planar else np.empty(x.shape, x.dtype)
            part += [by_points if wants.points else None, np.empty(len(x)) if wants.weights else None]
        threads = native.threads_for(count * n_atoms(measures), dim)
        groups = _count_groups(count, dim, measures, bool(planar))
        differentiate(*sliced, p, 1.0 / n_slices, groups, threads, costs[block], *part)
        if planar:
            # A planar point is U^T x, so the gradient in x is the sum over slices of U times the planar gradient.
            columns = frames[block].transpose(0, 2, 1).reshape(-1, dim)
            part[::2] = [None if q is None else q.reshape(len(columns), -1).T @ columns for q in part[::2]]
        total = [None if b is None else a + b for a, b in zip(total, part, strict=True)] if total else part
    return float(np.add.reduce(costs)) / n_slices, list(zip(total[::2], total[1::2], strict=True))


def _count_groups(n_slices: int, dim: int, measures: Measures, planar: bool) -> int:
    """The number of partial sums over slices. It depends only on sizes, so threads cannot change a result."""
    if planar:
        return min(MAX_GROUPS, n_slices)
    size = sum(int(x.nbytes) for x, _ in measures)
    by_length = MAX_GROUPS if dim <= LARGEST_DIM_BY_SLICE else -(-n_slices // SLICES_PER_GROUP_BY_TILE)
    return min(n_slices, max(2, min(MAX_GROUPS, by_length, GROUP_BYTES // size)))


def pair_gradients(measure: Measure, wanted: Wanted, options: PairOptions) -> tuple[float, list[Gradient]]:
    """`pair_cost` and its gradients in points and weights, as the gradients of the only measure."""
    x = np.ascontiguousarray(measure.points)
    n, dim = x.shape
    polynomials = [np.asarray(part) / (8 * np.pi**2) for part in variance_polynomials(dim, x.dtype == np.float64)]
    weights, total = None, 1.0
    if measure.weights is not None:
        total = float(np.sum(measure.weights, dtype=np.float64))
        weights = np.asarray(measure.weights, np.float64) / total
    gradient = np.empty_like(x) if wanted.points else None
    potentials = np.empty(n) if wanted.weights else None
    # The number of partial sums depends only on sizes, so threads cannot change a result.
    tiles = -(-n // TILE_SIZE)
    groups = min(MAX_GROUPS, tiles)
    if wanted.points:
        by_memory = max(2, GROUP_BYTES_OF_PAIRS // x.nbytes)
        groups = min(max(2, tiles // 4), MAX_GROUPS, by_memory, tiles * (tiles + 1) // 2)
    threads = native.threads_for(n * n // PAIRS_PER_POINT)
    cost = native.kernel.sum_pairs(x, weights, *polynomials, options.even_weight, groups, threads, gradient, potentials)
    shares = np.full(n, 1.0 / n) if weights is None else weights
    squares = float(np.sum(shares * shares))
    slope = None if potentials is None else 2 * potentials
    if options.unbiased:
        # Without the terms i = j, which are known, and scaled to a total weight of 1.
        rest, at_zero = 1.0 - squares, largest_value(options.even_weight)
        cost = (cost - at_zero * squares) / rest
        gradient = None if gradient is None else gradient / x.dtype.type(rest)
        slope = None if slope is None else (slope - 2 * shares * (at_zero - cost)) / rest
    if slope is not None:  # from the gradient in weights of total 1
        slope = (slope - np.sum(shares * slope)) / total
    return cost, [(gradient, slope)]


# ---- inputs of the kernel ----


def blocks(
    measures: Measures, frames: Floats, *, max_slices: int | None = None, with_gradients: bool = False
) -> Iterator[tuple[slice, list[Any], list[Floats]]]:
    """Yield (block, sliced measures, planar points if they were computed) for blocks of at most `max_slices` slices.

    The number of slices per block depends only on the sizes of the arrays, never on the number of threads.
    """
    n_slices, first = len(frames), measures[0].points
    dim, atoms = first.shape[1], n_atoms(measures)
    weights = [weight_rows(a) for _, a in measures]
    by_slice = dim <= LARGEST_DIM_BY_SLICE
    by_tile = not by_slice and dim * atoms <= MAX_COORDINATES_BY_TILE
    by_product = not by_tile and dim > (LARGEST_DIM_BY_SLICE if with_gradients else LARGEST_DIM_WITHOUT_PRODUCT)
    size = n_slices if max_slices is None else min(n_slices, max_slices)
    if by_product:
        size = min(size, max(PLANAR_BYTES // (2 * atoms * first.itemsize), MIN_SLICES_PER_CALL))
    points = [np.ascontiguousarray(x) if by_tile or by_product else coordinate_rows(x) for x, _ in measures]
    for start in range(0, n_slices, size):
        block = slice(start, min(start + size, n_slices))
        block_frames = np.ascontiguousarray(frames[block])
        planar: list[Floats] = []
        if by_tile:
            sliced = [native.kernel.from_rows(x, block_frames, a) for x, a in zip(points, weights, strict=True)]
        elif by_product:
            rows = block_frames.transpose(0, 2, 1).reshape(-1, dim)
            planar = [(rows @ x.T).reshape(-1, 2, len(x)) for x in points]
            sliced = [native.kernel.from_planar(q, a) for q, a in zip(planar, weights, strict=True)]
        else:
            sliced = [native.kernel.from_points(x, block_frames, a) for x, a in zip(points, weights, strict=True)]
        yield block, sliced, planar


def coordinate_rows(x: Floats) -> Floats:
    """Transpose points (n, d) to contiguous rows of coordinates (d, n)."""
    out = np.empty(x.shape[::-1], x.dtype)
    native.kernel.transpose(np.ascontiguousarray(x), out)
    return out


def weight_rows(weights: Floats | None) -> NDArray[np.float64] | None:
    """Weights as the kernel's input: contiguous rows of float64."""
    return None if weights is None else np.ascontiguousarray(np.atleast_2d(weights), dtype=np.float64)


def from_turns(measures: Measures) -> list[Any]:
    """Measures on the circle, given as rows of turns, as the kernel's input."""
    return [native.kernel.from_turns(np.ascontiguousarray(turns), weight_rows(weights)) for turns, weights in measures]


def random_frames(n_frames: int, dim: int, seed: int | None = None) -> NDArray[np.float32]:
    """Draw independent frames (L, d, 2), in half the time that NumPy or torch need to draw only normal numbers.

    The great circles of a seed differ from those of `great_circles`. None stands for a seed of the operating system.
    """
    frames = np.empty((n_frames, dim, 2), np.float32)
    seed = secrets.randbits(64) if seed is None else seed
    # A number takes half a nanosecond: a thread is worth its start for 100,000 of them.
    native.kernel.random_frames(seed, 0, frames, native.threads_for(frames.size // 10))
    return frames
