"""Permutation-test costs with the array API.

The pooled sample is projected once; each pair of samples is then sorted again.
"""

from collections.abc import Iterator

from sphereot._arrays.libraries import Array, device, namespace
from sphereot._backends.array_api.circle import circle_cost
from sphereot._backends.array_api.projection import blocks, project
from sphereot._backends.protocol import Labelings, Measure

__all__ = ["relabeled_costs"]


def relabeled_costs(pool: Array, labelings: Labelings, frames: Array, p: float) -> Iterator[tuple[slice, Array]]:
    """W_p^p on each great circle between the two samples that each labeling makes of a pooled sample (N, d).

    Yields blocks of great circles with their costs under all labelings, shape (block, n_labelings).
    """
    xp = namespace(pool)
    bytes_of_points = xp.asarray(labelings.bits, device=device(pool))
    start = 0
    for block in blocks(frames, [Measure(pool)]):
        turns = project(pool, block)
        columns = []
        for k in range(labelings.n_labelings):
            bits = (bytes_of_points[k // 8, :] // 2 ** (k % 8)) % 2
            # The points of the first sample, then those of the second.
            order = xp.argsort(bits, descending=True)
            indices = order[: labelings.n_first], order[labelings.n_first :]
            x, y = (xp.take(turns, part, axis=1) for part in indices)
            columns.append(circle_cost(x, y, None, None, p))
        yield slice(start, start + block.shape[0]), xp.stack(columns, axis=-1)
        start += block.shape[0]
