"""Costs of a pooled sample under many labelings, in array-API terms.

Same function as `sphereot._backends.native.permutations`. The pool is projected once; each pair of samples is then
sorted anew.
"""

from collections.abc import Iterator

from sphereot._arrays.libraries import Array, namespace
from sphereot._arrays.orders import LARGEST_PLAIN_ORDER, costs_of
from sphereot._backends.array_api.circle import circle_distance
from sphereot._backends.array_api.costs import TURNS_A_BLOCK, circle_costs, project

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
    large = p > LARGEST_PLAIN_ORDER
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
            columns.append((circle_distance if large else circle_costs)(x, y, None, None, p))
        costs = xp.stack(columns, axis=-1)
        yield block, costs_of(costs, p) if large else costs
