"""Costs of resampled measures with the compiled kernel: each measure is projected and sorted once per slice."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.native.blocks import PLANAR_BYTES, Floats, blocks
from sphereot._backends.native.calls import kernel, threads_for
from sphereot._backends.protocol import Measure, Measures, Repeats

__all__ = ["resampled_costs"]


def resampled_costs(measures: Measures, repeats: Sequence[Repeats], frames: Floats, p: float) -> NDArray[np.float64]:
    """W_p^p on each great circle for each resample of one or two measures, shape (L, B)."""
    counts = [np.ascontiguousarray(rows, dtype=np.uint32) for rows in repeats]
    sizes = [int(rows[0].sum()) for rows in counts]
    n_resamples = len(counts[0])
    solve = kernel().costs_resampled if len(measures) == 2 else kernel().costs_uniform_resampled
    plain = [Measure(points) for points, _ in measures]
    out = np.empty((frames.shape[0], n_resamples))
    for block, sliced, _ in blocks(plain, frames, max_slices=max(1, PLANAR_BYTES // (8 * n_resamples))):
        arguments = [part for triple in zip(sliced, counts, sizes, strict=True) for part in triple]
        solve(*arguments, p, threads_for(out[block].size * sum(sizes)), out[block])
    return out
