"""Costs of a pooled sample under many labelings, in array-API terms.

Same function as `sphereot._native.permutations`. The pool is projected once; each pair of samples is then sorted anew.
"""

from collections.abc import Iterator

from sphereot._libraries import Array, namespace
from sphereot._portable.slices import TURNS_A_BLOCK, circle_costs, project

__all__ = ["relabeled_costs"]


def relabeled_costs(
    pool: Array, first: int, labels: Array, count: int, frames: Array, p: float
) -> Iterator[tuple[slice, Array]]:
    """W_p^p on each great circle between the two samples that each labeling makes of the pool.

    Parameters
    ----------
    pool : array, shape (n + m, d)
        Unit vectors.
    first : int
        How many points n each labeling puts into the first sample.
    labels : array of bytes, shape (ceil(count / 8), n + m)
        Bit b of byte (g, i) is set where labeling 8 g + b puts point i into the first sample.
    count : int
        How many labelings there are.
    frames : array, shape (L, d, 2)
        The great circles.
    p : float
        The order.

    Yields
    ------
    slice, array of shape (slices, count)
        A block of great circles, and their costs under all labelings.
    """
    xp = namespace(pool)
    size = max(1, TURNS_A_BLOCK // pool.shape[0])
    for start in range(0, frames.shape[0], size):
        block = slice(start, min(start + size, frames.shape[0]))
        turns = project(pool, frames[block, ...])
        columns = []
        for k in range(count):
            bits = (labels[k // 8, :] // 2 ** (k % 8)) % 2
            # The points of the first sample, then those of the second.
            order = xp.argsort(bits, descending=True)
            x, y = (xp.take(turns, part, axis=1) for part in (order[:first], order[first:]))
            columns.append(circle_costs(x, y, None, None, p))
        yield block, xp.stack(columns, axis=-1)
