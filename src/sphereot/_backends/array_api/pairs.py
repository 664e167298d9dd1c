"""SSW_2 to the uniform distribution without slices, in array-API terms: the double sum of K_d, block by block."""

from collections.abc import Iterator

from sphereot._arrays.libraries import Array, device, namespace, product
from sphereot._backends.protocol import Measure
from sphereot._support.uniform_kernel import LARGEST, kernel_value

__all__ = ["PAIRS_PER_BLOCK", "block_sum", "cost_of_sum", "pair_cost", "row_blocks", "shares_of", "unit_points"]

PAIRS_PER_BLOCK = 1 << 21
_LARGEST_DIM_BY_DIFFERENCES = 8


def pair_cost(measure: Measure, *, unbiased: bool = False) -> Array:
    """SSW_2^2 to the uniform distribution: the double sum of K_d over all pairs of points."""
    xp = namespace(measure.points)
    points, shares = unit_points(measure.points), shares_of(measure)
    sums = [block_sum(points, shares, rows) for rows in row_blocks(points)]
    return cost_of_sum(xp.sum(xp.stack(sums)), shares, unbiased)


def unit_points(points: Array) -> Array:
    """Points scaled to length 1, so that the cost has no derivative along them, as that of slices."""
    xp = namespace(points)
    return points / xp.sqrt(xp.sum(points * points, axis=-1, keepdims=True))


def shares_of(measure: Measure) -> Array:
    """The weights with a total of 1, shape (n,)."""
    xp = namespace(measure.points)
    n = measure.points.shape[0]
    if measure.weights is None:
        return xp.full((n,), 1.0 / n, dtype=measure.points.dtype, device=device(measure.points))
    return measure.weights / xp.sum(measure.weights)


def row_blocks(points: Array) -> Iterator[slice]:
    """Rows of the matrix of pairs in blocks of at most `PAIRS_PER_BLOCK` pairs."""
    n = points.shape[0]
    size = max(1, PAIRS_PER_BLOCK // n)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def block_sum(points: Array, shares: Array, rows: slice) -> Array:
    """The weighted sum of K_d over the pairs (i, j) with i in a block of rows and j another point."""
    xp = namespace(points)
    n, dim = points.shape
    block = points[rows, :]
    if dim <= _LARGEST_DIM_BY_DIFFERENCES:  # more precise for close points than the cosine
        squares = 0.25 * sum((block[:, None, k] - points[None, :, k]) ** 2 for k in range(dim))
    else:
        squares = 0.5 - 0.5 * product(block, xp.permute_dims(points, (1, 0)))
    index = xp.arange(n, device=device(points))
    values = kernel_value(squares, dim)
    others = xp.where(index[rows, None] == index[None, :], xp.zeros_like(values), values)
    return xp.sum(shares[rows] * xp.sum(others * shares[None, :], axis=-1))


def cost_of_sum(off_diagonal: Array, shares: Array, unbiased: bool) -> Array:
    """The cost from its terms i != j: those with i = j are K_d(0) = 1/12; without them it is scaled to weight 1."""
    diagonal = namespace(shares).sum(shares * shares)
    return off_diagonal / (1.0 - diagonal) if unbiased else off_diagonal + LARGEST * diagonal
