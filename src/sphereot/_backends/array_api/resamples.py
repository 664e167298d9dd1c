"""Costs of resampled measures with the array API: the number of copies of each point is its weight."""

from collections.abc import Sequence

from sphereot._arrays.libraries import Array, device, namespace
from sphereot._backends.array_api.circle import row_costs
from sphereot._backends.array_api.projection import blocks, on_circles
from sphereot._backends.protocol import Measure, Measures, Repeats

__all__ = ["resampled_costs"]


def resampled_costs(measures: Measures, repeats: Sequence[Repeats], frames: Array, p: float) -> Array:
    """W_p^p on each great circle for each resample of one or two measures, shape (L, B)."""
    xp, kind = namespace(frames), measures[0].points
    plain = [Measure(points) for points, _ in measures]
    weights = [xp.asarray(rows, dtype=kind.dtype, device=device(kind)) for rows in repeats]
    rows = []
    for block in blocks(frames, plain):
        circles = on_circles(plain, block)
        costs = [
            row_costs([Measure(turns, a[k : k + 1, :]) for (turns, _), a in zip(circles, weights, strict=True)], p)
            for k in range(weights[0].shape[0])
        ]
        rows.append(xp.stack(costs, axis=-1))
    return xp.concat(rows)
