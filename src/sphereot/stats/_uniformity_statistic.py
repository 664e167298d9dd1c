"""SSW_2^2 of a sample to the uniform distribution, as the mean over all great circles, for samples of every size.

Up to `MAX_POINTS_IN_PAIRS` points it is the exact double sum over pairs; on the circle, one slice. Larger samples are
sliced by great circles in independent groups, which give a standard error.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure
from sphereot.slicing.circles import great_circles

__all__ = ["MAX_POINTS_IN_PAIRS", "UniformStatistic", "uniform_statistic"]

MAX_POINTS_IN_PAIRS = 20_000
GROUPS, CIRCLES_PER_GROUP = 8, 128


class UniformStatistic(NamedTuple):
    """SSW_2^2 to the uniform distribution.

    Attributes
    ----------
    value : float
        SSW_2^2.
    standard_error : float
        Of `value`; 0 where it is exact.
    slice_costs : array, shape (L,)
        W_2^2 on the great circles that were used; none for a sum over pairs.
    frames : array, shape (L, d, 2)
        These great circles.
    """

    value: float
    standard_error: float
    slice_costs: NDArray[np.float64]
    frames: NDArray[np.floating[Any]]


def uniform_statistic(points: NDArray[Any], generator: np.random.Generator) -> UniformStatistic:
    """SSW_2^2 of validated points (n, d); only more than `MAX_POINTS_IN_PAIRS` of them need random numbers."""
    n, dim = points.shape
    if dim == 2:
        # All great circles of a circle are the circle itself, and the cost does not depend on the frame.
        frames = np.eye(2)[None]
        costs = _slice_costs(points.astype(np.float64, copy=False), frames)
        return UniformStatistic(float(costs[0]), 0.0, costs, frames)
    if n <= MAX_POINTS_IN_PAIRS:
        # In double precision: the statistic, n times the cost, would show rounding that is alike for all pairs.
        value = float(backend_for(points).pair_cost(Measure(points.astype(np.float64, copy=False))))
        return UniformStatistic(value, 0.0, np.empty(0), np.empty((0, dim, 2)))
    groups = [great_circles(CIRCLES_PER_GROUP, dim, method="quasi", seed=generator) for _ in range(GROUPS)]
    costs = np.stack([_slice_costs(points, frames.astype(points.dtype)) for frames in groups])
    means = costs.mean(axis=1)
    return UniformStatistic(
        float(means.mean()), float(means.std(ddof=1)) / math.sqrt(GROUPS), costs.reshape(-1), np.concatenate(groups)
    )


def _slice_costs(points: NDArray[Any], frames: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(backend_for(points).slice_costs([Measure(points)], frames, 2.0), dtype=np.float64)
