"""Costs of a pooled sample under many labelings, by the kernel: the pool is projected and sorted once a slice.

Same function, arguments and results as `sphereot._backends.array_api.permutations`.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.orders import LARGEST_PLAIN_ORDER, costs_of
from sphereot._backends.native.calls import kernel, threads_for
from sphereot._backends.native.costs import PLANAR_BYTES, Floats, blocks

__all__ = ["relabeled_costs"]

# Some seconds of work on one core, so that progress shows.
POINTS_A_CALL = 1_000_000_000
LEAST_SLICES_A_CALL = 8


def relabeled_costs(
    pool: Floats, first: int, labels: NDArray[np.uint8], count: int, frames: Floats, p: float
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
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
    work = count * len(pool)
    large = p > LARGEST_PLAIN_ORDER
    most = min(POINTS_A_CALL // work, PLANAR_BYTES // (8 * count))
    for block, (sliced,), _ in blocks([(pool, None)], frames, most=max(most, LEAST_SLICES_A_CALL)):
        out = np.empty((block.stop - block.start, count))
        kernel().costs_relabeled(sliced, first, labels, p, threads_for(len(out) * work), out, large)
        yield block, costs_of(out, p) if large else out
