"""The great circles of an estimate: their number, and how to draw them, by a given method or by the data.

See :doc:`/background/accuracy` for the variances.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, is_numpy, to_kind, to_numpy
from sphereot._arrays.validation import as_int, as_positive, as_slice_count
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measures, n_atoms
from sphereot.distance.control_variates import ControlVariates, draw_rows
from sphereot.slicing.drawing import independent_frames, replicate_frames
from sphereot.slicing.near_centers import (
    NEARLY_EQUAL,
    UNRELIABLE,
    CenterMixture,
    DisplacedPoints,
    centers_of,
    near_points,
)

Floats = NDArray[np.float64]

# Evenly spread circles without control variates are better in lower dimensions.
_LOWEST_CONTROLLED_DIM = 5
_LARGEST_CONTROLLED_ORDER = 4.0

# The relative variance of the cost of a great circle is below 3.3 for samples that are not tight, and above 8 for tight
# ones close to each other.
_HEAVY_TAIL = 4.0
_CENTER_POINTS = 128
_PILOT_CIRCLES = 128, 512

_REPLICATES = 8
# With control variates in high dimension the gain does not come from the arrangement within a replicate, and more
# degrees of freedom make up for estimates that are not quite normally distributed.
_CONTROLLED_REPLICATES = 16
_HIGHEST_SPREAD_GAIN = 16  # the highest dimension in which evenly spread circles gain much beyond control variates
_FEWEST_REPLICATES = 4


@dataclass(frozen=True)
class CircleSampling:
    """How to draw great circles: by a method of `great_circles`, or by a mixture about centers of the data."""

    method: str
    dim: int
    mixture: CenterMixture | None
    controls: ControlVariates | None
    near: DisplacedPoints | None = None

    def misses_rare_circles(self, value: float, p: float) -> bool:
        """Whether rare great circles, which the draws may not meet, carry much of the value or of its error."""
        if self.near is None:
            return False
        if self.mixture is not None:
            # The mixture does not know the directions of displacements, which decide for higher orders.
            return p > 2
        return self.near.is_rare(value ** max(1.0, 2 / p), UNRELIABLE)  # at most the value of order 2

    def draw(self, sizes: list[int], generator: np.random.Generator) -> tuple[Floats, Floats | None]:
        """Draw the frames of replicates, one after the other, and their weights, None if all are equal."""
        if self.method == "iid":
            return independent_frames(generator.standard_normal, len(sizes), self.dim), None
        if self.mixture is None:
            return replicate_frames(generator.standard_normal, sizes, self.dim, self.method), None
        drawn = [self.mixture.draw(size, generator) for size in sizes]
        return np.concatenate([frames for frames, _, _ in drawn]), np.concatenate([weights for _, weights, _ in drawn])


def choose_sampling(
    measures: Measures, p: float, method: str | None, count: int, generator: np.random.Generator
) -> CircleSampling:
    """Choose the method that was asked for, or the best one for the data."""
    dim = measures[0].points.shape[1]
    # Rare great circles show in costs of order 2. For p < 2 they carry what control variates leave of the error.
    order, limit = (2.0, UNRELIABLE) if p < 2 else (p, NEARLY_EQUAL)
    near = near_points(measures, order, count)
    if method in ("iid", "orthogonal", "quasi"):
        return CircleSampling(method, dim, None, None, near)
    if near is not None and len(near.mixture.centers) == n_atoms(measures) and near.is_rare(0.0, limit):
        costs, weights, _ = _run_pilot(near.mixture, measures, order, _PILOT_CIRCLES[0], generator)
        near = near._replace(mean=max(near.mean, float(np.mean(weights * costs))))
        if near.is_rare(0.0, limit):
            controls = ControlVariates.of(measures, generator) if p < 2 else None
            return CircleSampling("importance", dim, near.mixture, controls, near)
    mixture = centers_of(_sample_points(measures, generator), generator)
    if mixture is None and method == "importance":
        reason = (
            "a circle has no great circles to choose from"
            if dim == 2
            else "the points are neither concentrated nor close to the points of the other sample"
        )
        raise ValueError(f"method: got 'importance', but {reason}. Leave method out.")
    if mixture is not None:
        n_pilot = int(np.clip(count // 4, *_PILOT_CIRCLES))
        costs, weights, strata = _run_pilot(mixture, measures, p, n_pilot, generator)
        costs = costs / (float(np.max(costs)) or 1.0)  # squares of costs of order 16 would underflow
        mean = float(np.mean(weights * costs))
        relative_variance = float(np.mean(weights * costs**2)) / mean**2 - 1 if mean > 0 else 0.0
        if method == "importance" or relative_variance > _HEAVY_TAIL * min(1.0, p / 2) ** 2:
            return CircleSampling("importance", dim, mixture.reweight(weights * costs, strata), None)
    is_controlled = dim >= _LOWEST_CONTROLLED_DIM and p <= _LARGEST_CONTROLLED_ORDER
    is_new = len(measures) == 2 or p != 2  # a control variate that is the cost itself would need no great circles
    controls = ControlVariates.of(measures, generator) if is_controlled and is_new else None
    return CircleSampling("quasi", dim, None, controls, near)


def _run_pilot(
    mixture: CenterMixture, measures: Measures, p: float, count: int, generator: np.random.Generator
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Costs, weights and strata of a few great circles of a mixture."""
    frames, weights, strata = mixture.draw(count, generator)
    return to_numpy(costs_on(measures, frames, p)).astype(np.float64), weights, strata


def _sample_points(measures: Measures, generator: np.random.Generator) -> Floats:
    """Draw some points of each measure with its weights."""
    samples = []
    for measure in measures:
        points, weights = measure.in_numpy()
        if weights is not None or len(points) > _CENTER_POINTS:
            points = points[draw_rows(len(points), weights, _CENTER_POINTS, generator)]
        samples.append(points.astype(np.float64))
    return np.concatenate(samples)


def costs_on(measures: Measures, frames: Array, p: float) -> Array:
    """W_p^p on each great circle of frames of NumPy or of the library of the measures."""
    points = measures[0].points
    return backend_for(points).slice_costs(measures, to_kind(frames, points) if is_numpy(frames) else frames, p)


# ---- replicates ----


def circle_counts(n_projections: int | None, rtol: Any, max_projections: int) -> tuple[int, int]:
    """Validate the number of great circles to begin with, and the largest number to use."""
    count = as_slice_count(n_projections)
    if rtol is None:
        return count, count
    as_positive("rtol", rtol, "the relative tolerance")
    limit = as_int("max_projections", max_projections, 1, "the largest number of great circles")
    return min(count, limit), limit


def replicate_sizes(n_projections: int, dim: int, method: str, *, controlled: bool = False) -> list[int]:
    """Numbers of great circles in each replicate, which differ by at most one, larger ones first.

    There are eight replicates, or 16 with control variates in high dimension. If the great circles are not enough for
    an orthogonal block in each, there are fewer, but at least four. Independent great circles are replicates of size 1.

    >>> replicate_sizes(200, 3, "quasi")
    [25, 25, 25, 25, 25, 25, 25, 25]
    >>> replicate_sizes(200, 64, "quasi")
    [34, 34, 33, 33, 33, 33]
    """
    if method == "iid":
        return [1] * n_projections
    block = dim // 2 if dim % 2 == 0 else dim
    count = _CONTROLLED_REPLICATES if controlled and dim > _HIGHEST_SPREAD_GAIN else _REPLICATES
    if not controlled and n_projections // count < block and n_projections // block >= _FEWEST_REPLICATES:
        count = n_projections // block
    count = min(count, n_projections)
    size, larger = divmod(n_projections, count)
    return [size + (k < larger) for k in range(count)]


def further_sizes(sizes: list[int], count: int) -> list[int]:
    """Sizes of further replicates, of at most `count` great circles in total, which repeat the sizes of the first ones.

    Replicates of equal size have equal variance, for every method.

    >>> further_sizes([4, 4, 3], 12)
    [4, 4, 3]
    """
    further: list[int] = []
    while (size := sizes[len(further) % len(sizes)]) <= count:
        further.append(size)
        count -= size
    return further
