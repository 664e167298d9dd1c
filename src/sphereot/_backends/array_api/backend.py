"""Array-API backend: the functions of the backend protocol, for any library and device.

It shares no code with the compiled kernel, so that each can be tested against the other.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from sphereot._arrays.libraries import Array, device, is_double, namespace, product, take_root, without_gradient
from sphereot._backends.array_api import circle
from sphereot._backends.protocol import Labelings, Measure, Measures, Plan, Repeats, n_atoms
from sphereot._backends.uniform_kernel import kernel_value, largest_value

# Turns per block, over all measures: the computation needs a few dozen arrays of this size at a time.
TURNS_PER_BLOCK = 1 << 21
PAIRS_PER_BLOCK = 1 << 21
_LARGEST_DIM_BY_DIFFERENCES = 8


def project(x: Array, frames: Array) -> Array:
    """Turns (L, n) of points (n, d) on the great circles of frames (L, d, 2)."""
    xp = namespace(x, frames)
    planar = product(x, frames)  # (L, n, 2)
    first, second = planar[..., 0], planar[..., 1]
    square = first * first + second * second
    # A point orthogonal to the plane, to rounding, gets turn 0 and no gradient; that of atan2 would be infinite.
    orthogonal = square <= 64 * float(xp.finfo(x.dtype).eps) ** 2
    first = xp.where(orthogonal, xp.ones_like(first), first)
    second = xp.where(orthogonal, xp.zeros_like(second), second)
    turns = xp.atan2(second, first) * (0.5 / math.pi)
    if is_double(x):
        # The kernel's bound on the gradient (cpp/solvers/gradients.hpp): within 2^-20 of the pole it is scaled by
        # (|q| 2^20)^2. In single precision all of that is rounding, and has no gradient already.
        constant = without_gradient(turns)
        scale = without_gradient(xp.where(square < 2.0**-40, square * 2.0**40, xp.ones_like(square)))
        turns = constant + scale * (turns - constant)
    turns = xp.where(turns < 0, turns + 1.0, turns)
    return xp.where(turns >= 1.0, xp.zeros_like(turns), turns)  # -1e-9 + 1 rounds to 1


def slice_costs(measures: Measures, frames: Array, p: float) -> Array:
    """W_p^p on each great circle, shape (L,): between two measures, or of one to the uniform measure."""
    costs = [circle_costs(on_circles(measures, block), p) for block in blocks(frames, measures)]
    return namespace(frames).concat(costs)


def mean_cost(measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
    """SSW_p^p: the mean of W_p^p over the great circles; with `root` SSW_p."""
    return take_root(namespace(frames).mean(slice_costs(measures, frames, p)), p, root)


def weight_gradients(measures: Measures, frames: Array, p: float) -> Sequence[Array]:
    """The gradients (n,) of `mean_cost` between two measures in their weights, which are ones by default."""
    xp = namespace(frames)
    weighted = [Measure(x, xp.ones_like(x[:, 0]) if a is None else a) for x, a in measures]
    parts = []
    for block in blocks(frames, weighted):
        u, v = on_circles(weighted, block)
        parts.append(circle.weight_gradients(u, v, p))
    return [sum(xp.sum(rows, axis=0) for rows in of_one) / frames.shape[0] for of_one in zip(*parts, strict=True)]


def pairwise_costs(measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
    """`mean_cost` of the pairs i < j, in order; each measure is projected once per block of slices."""
    xp = namespace(frames)
    sums = []
    for block in blocks(frames, measures):
        pairs = combinations(on_circles(measures, block), 2)
        sums.append(xp.stack([xp.sum(circle_costs(pair, p)) for pair in pairs]))
    return take_root(xp.sum(xp.stack(sums), axis=0) / frames.shape[0], p, root)


def circle_costs(measures: Measures, p: float) -> Array:
    """W_p^p on the circle, row by row, shape (B,): between two measures, or of one to the uniform measure."""
    if len(measures) == 1:
        return circle.circle_cost_uniform(measures[0], p)
    return circle.circle_cost(measures[0], measures[1], p)


def circle_plan(u: Measure, v: Measure, p: float) -> Plan:
    """The optimal coupling of two measures on the circle, each given as one row of turns."""
    cut = circle.circle_cut(u, v, p)
    return Plan(*circle.matched_pairs(u, v, cut), circle_costs([u, v], p)[0], cut[0])


def relabeled_costs(pool: Array, labelings: Labelings, frames: Array, p: float) -> Iterator[tuple[slice, Array]]:
    """W_p^p between the two samples of each labeling, in blocks of great circles, (block, n_labelings)."""
    xp = namespace(pool)
    bytes_of_points = xp.asarray(labelings.bits, device=device(pool))
    start = 0
    for block in blocks(frames, [Measure(pool)]):
        turns = project(pool, block)
        columns = []
        for k in range(labelings.n_labelings):
            bits = (bytes_of_points[k // 8, :] // 2 ** (k % 8)) % 2
            order = xp.argsort(bits, descending=True)  # the points of the first sample, then those of the second
            indices = order[: labelings.n_first], order[labelings.n_first :]
            columns.append(circle_costs([Measure(xp.take(turns, part, axis=1)) for part in indices], p))
        yield slice(start, start + block.shape[0]), xp.stack(columns, axis=-1)
        start += block.shape[0]


def resampled_costs(measures: Measures, repeats: Sequence[Repeats], frames: Array, p: float) -> Array:
    """W_p^p on each great circle for each resample of one or two measures, shape (L, B)."""
    xp, kind = namespace(frames), measures[0].points
    plain = [Measure(points) for points, _ in measures]
    weights = [xp.asarray(rows, dtype=kind.dtype, device=device(kind)) for rows in repeats]
    rows = []
    for block in blocks(frames, plain):
        circles = on_circles(plain, block)
        costs = [
            circle_costs([Measure(turns, a[k : k + 1, :]) for (turns, _), a in zip(circles, weights, strict=True)], p)
            for k in range(weights[0].shape[0])
        ]
        rows.append(xp.stack(costs, axis=-1))
    return xp.concat(rows)


def on_circles(measures: Measures, frames: Array) -> Measures:
    """The projections of measures on great circles, one row of turns per circle."""
    return [Measure(project(x, frames), None if a is None else a[None, :]) for x, a in measures]


def blocks(frames: Array, measures: Measures) -> Iterator[Array]:
    """Split the frames into blocks of at most `TURNS_PER_BLOCK` turns over all measures."""
    start, size = 0, max(1, TURNS_PER_BLOCK // n_atoms(measures))
    while start < frames.shape[0]:  # for torch.compile, `range` would need a constant number of points
        yield frames[start : min(start + size, frames.shape[0]), ...]
        start += size


# ---- all pairs of points ----


def pair_cost(measure: Measure, *, unbiased: bool = False, even_weight: float = 1.0) -> Array:
    """SSW_2^2 to the uniform distribution: the double sum of K_d over all pairs of points."""
    xp = namespace(measure.points)
    points, shares = unit_points(measure.points), shares_of(measure)
    sums = [block_sum(points, shares, rows, even_weight) for rows in row_blocks(points)]
    return cost_of_sum(xp.sum(xp.stack(sums)), shares, unbiased, even_weight)


def unit_points(points: Array) -> Array:
    """Points scaled to length 1, so that the cost has no derivative along them, as that of slices."""
    xp = namespace(points)
    return points / xp.sqrt(xp.sum(points * points, axis=-1, keepdims=True))


def shares_of(measure: Measure) -> Array:
    """The weights with a total of 1, shape (n,)."""
    xp = namespace(measure.points)
    if measure.weights is None:
        return xp.full_like(measure.points[:, 0], 1.0 / measure.points.shape[0])
    return measure.weights / xp.sum(measure.weights)


def row_blocks(points: Array) -> Iterator[slice]:
    """Rows of the matrix of pairs in blocks of at most `PAIRS_PER_BLOCK` pairs."""
    start, n = 0, points.shape[0]
    size = max(1, PAIRS_PER_BLOCK // n)
    while start < n:  # see `blocks`
        yield slice(start, min(start + size, n))
        start += size


def block_sum(points: Array, shares: Array, rows: slice, even_weight: float) -> Array:
    """The weighted sum of K_d over the pairs (i, j) with i in a block of rows and j another point."""
    xp = namespace(points)
    n, dim = points.shape
    block = points[rows, :]
    if dim <= _LARGEST_DIM_BY_DIFFERENCES:  # more precise for close points than the cosine
        squares = 0.25 * sum((block[:, None, k] - points[None, :, k]) ** 2 for k in range(dim))
    else:
        squares = 0.5 - 0.5 * product(block, xp.permute_dims(points, (1, 0)))
    index = xp.arange(n, device=device(points))
    values = kernel_value(squares, dim, even_weight)
    others = xp.where(index[rows, None] == index[None, :], xp.zeros_like(values), values)
    return xp.sum(shares[rows] * xp.sum(others * shares[None, :], axis=-1))


def cost_of_sum(off_diagonal: Array, shares: Array, unbiased: bool, even_weight: float) -> Array:
    """The cost from its terms i != j: those with i = j are known; without them it is scaled to weight 1."""
    diagonal = namespace(shares).sum(shares * shares)
    return off_diagonal / (1.0 - diagonal) if unbiased else off_diagonal + largest_value(even_weight) * diagonal
