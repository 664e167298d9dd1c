"""Permutation-test costs with the compiled kernel: the pooled sample is projected and sorted once per slice."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.native.blocks import PLANAR_BYTES, Floats, blocks
from sphereot._backends.native.calls import kernel, threads_for
from sphereot._backends.protocol import Labelings, Measure

__all__ = ["relabeled_costs"]

# Points times permutations per call of the kernel: some seconds on one core, so that progress can be reported.
POINTS_PER_CALL = 1_000_000_000
MIN_SLICES_PER_CALL = 8


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
        kernel().costs_relabeled(sliced, n_first, bits, p, threads_for(len(out) * work), out)
        yield block, out
