"""How much SSW_p^p varies with the draw of the points: a bootstrap, and the level that chance alone reaches."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.orders import LARGEST_PLAIN_ORDER
from sphereot._arrays.validation import as_int
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures
from sphereot._support.progress import Progress, progress_bar
from sphereot.slicing.drawing import frames_from_normals

__all__ = ["PointSampling", "resampled"]

_CIRCLES = 64  # the error of great circles is reported apart
_SPLITS = 24  # samples of one distribution whose mean is the noise floor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PointSampling:
    """Variation of SSW_p^p over the draw of the points.

    Attributes
    ----------
    deviations : array, shape (B,)
        Values of resampled points, less that of the points themselves, on the same great circles.
    noise_floor : float
        Mean of SSW_p^p between two samples of one distribution, of the same sizes: what chance alone gives.
    """

    deviations: Floats = field(repr=False)
    noise_floor: float

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """Interval for SSW_p^p of the distributions: basic bootstrap, which takes out the bias of finite samples."""
        low, high = np.quantile(self.deviations, [(1 - level) / 2, (1 + level) / 2])
        return max(value - float(high), 0.0), max(value - float(low), 0.0)


def resampled(
    measures: Measures, p: float, count: int, generator: np.random.Generator, progress: Progress
) -> PointSampling:
    """Resample the points of validated measures `count` times, each measure by itself, with replacement."""
    count = as_int("bootstrap", count, 10, "the number of resamples")
    if p > LARGEST_PLAIN_ORDER:
        raise ValueError(f"bootstrap: is for orders up to {LARGEST_PLAIN_ORDER:g}, but p is {p:g}.")
    points = [to_numpy(measure.points) for measure in measures]
    shares = [_shares(measure) for measure in measures]
    sizes = [len(sample) for sample in points]
    drawn = frames_from_normals(generator.standard_normal, _CIRCLES, points[0].shape[1], "quasi")
    frames = np.ascontiguousarray(drawn, dtype=points[0].dtype)

    def cost(samples: list[Floats], weights: list[Floats]) -> float:
        pairs = [Measure(sample, weight) for sample, weight in zip(samples, weights, strict=True)]
        return float(np.mean(backend_for(samples[0]).slice_costs(pairs, frames, p)))

    observed = cost(points, shares)
    deviations = np.empty(count)
    with progress_bar(progress, "resamples", count + _SPLITS) as show:
        for k in range(count):
            draws = [generator.multinomial(size, share) for size, share in zip(sizes, shares, strict=True)]
            deviations[k] = cost(points, [draw.astype(np.float64) for draw in draws]) - observed
            show(k + 1)
        floor = []
        for k in range(_SPLITS):
            floor.append(_chance(points, shares, sizes, cost, generator))
            show(count + k + 1)
    return PointSampling(deviations, float(np.mean(floor)))


def _chance(
    points: list[Floats],
    shares: list[Floats],
    sizes: list[int],
    cost: Callable[[list[Floats], list[Floats]], float],
    generator: np.random.Generator,
) -> float:
    """SSW_p^p between two samples of the pooled distribution, or of a uniform sample."""
    if len(points) == 1:
        sample = generator.standard_normal(points[0].shape)
        sample /= np.linalg.norm(sample, axis=1, keepdims=True)
        return cost([sample.astype(points[0].dtype)], [np.ones(sizes[0])])
    pool = np.concatenate(points)
    total = sum(sizes)
    share = np.concatenate([size / total * part for size, part in zip(sizes, shares, strict=True)])
    return cost([pool, pool], [generator.multinomial(size, share).astype(np.float64) for size in sizes])


def _shares(measure: Measure) -> Floats:
    """Weights with a total of 1, in float64."""
    n = measure.points.shape[0]
    weights = np.ones(n) if measure.weights is None else to_numpy(measure.weights).astype(np.float64)
    shares: Floats = weights / weights.sum()
    return shares
