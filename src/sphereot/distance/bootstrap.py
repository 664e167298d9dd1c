"""How much SSW_p^p varies with the draw of the points: a bootstrap, and the level that chance alone reaches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.validation import as_int
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures
from sphereot._support.extras import Progress, progress_bar
from sphereot.slicing.drawing import frames_from_normals

_CIRCLES = 64  # the error of great circles is reported apart
_POINTS_PER_CALL = 1_000_000_000  # points times great circles: about a second, so that progress can be reported
_SPLITS = 24  # samples of one distribution whose mean is the noise floor

Floats = NDArray[np.float64]


class _Sample(NamedTuple):
    """Points (n, d), and the probability with which a resample takes each of them."""

    points: Floats
    shares: Floats


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
        """Interval for SSW_p^p of the distributions: normal, less the bias of finite samples, both by the bootstrap."""
        center = value - float(np.mean(self.deviations))
        half = NormalDist().inv_cdf((1 + level) / 2) * float(np.std(self.deviations, ddof=1))
        return max(center - half, 0.0), max(center + half, 0.0)


def resampled(
    measures: Measures, p: float, count: int, generator: np.random.Generator, progress: Progress
) -> PointSampling:
    """Resample the points of validated measures `count` times, each measure by itself, with replacement."""
    count = as_int("bootstrap", count, 10, "the number of resamples")
    samples = [_Sample(to_numpy(measure.points), _shares(measure)) for measure in measures]
    points = samples[0].points
    drawn = frames_from_normals(generator.standard_normal, _CIRCLES, points.shape[1], "quasi")
    frames = np.ascontiguousarray(drawn, dtype=points.dtype)
    backend = backend_for(points)
    observed = float(np.mean(backend.slice_costs([Measure(*sample) for sample in samples], frames, p)))
    with progress_bar(progress, "resamples", count + _SPLITS) as show:
        sizes = [len(sample.points) for sample in samples]
        values = _resampled_values(samples, sizes, frames, p, count, generator, show)
        if len(samples) == 2:
            pool = _pool(samples)
            floor = _resampled_values([pool, pool], sizes, frames, p, _SPLITS, generator, lambda k: show(count + k))
        else:
            uniform = (_uniform_sample(points, generator) for _ in range(_SPLITS))
            floor = np.array([np.mean(backend.slice_costs([Measure(sample)], frames, p)) for sample in uniform])
            show(count + _SPLITS)
    return PointSampling(values - observed, float(np.mean(floor)))


def _resampled_values(
    samples: Sequence[_Sample],
    sizes: Sequence[int],
    frames: Floats,
    p: float,
    count: int,
    generator: np.random.Generator,
    show: Callable[[int], None],
) -> Floats:
    """SSW_p^p of resamples of these sizes, shape (count,); several at a time, which share the sort of the points."""
    backend = backend_for(frames)
    at_once = max(1, _POINTS_PER_CALL // (len(frames) * sum(len(sample.points) for sample in samples)))
    values = []
    for start in range(0, count, at_once):
        stop = min(start + at_once, count)
        repeats = [np.empty((stop - start, len(sample.points)), np.uint32) for sample in samples]
        for k in range(stop - start):
            for rows, sample, size in zip(repeats, samples, sizes, strict=True):
                rows[k] = _repeats(sample.shares, size, generator)
        values.append(
            np.mean(backend.resampled_costs([Measure(sample.points) for sample in samples], repeats, frames, p), axis=0)
        )
        show(stop)
    return np.concatenate(values)


def _repeats(shares: Floats, size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """How often a sample of `size` points, drawn with replacement, has each point."""
    count = len(shares)
    if (shares == shares[0]).all():  # several times faster than a multinomial draw
        return np.bincount(generator.integers(count, size=size), minlength=count)
    return generator.multinomial(size, shares)


def _pool(samples: Sequence[_Sample]) -> _Sample:
    """Both samples as one, each with the share of its size."""
    total = sum(len(sample.points) for sample in samples)
    shares = [len(sample.points) / total * sample.shares for sample in samples]
    return _Sample(np.concatenate([sample.points for sample in samples]), np.concatenate(shares))


def _uniform_sample(like: Floats, generator: np.random.Generator) -> Floats:
    sample = generator.standard_normal(like.shape)
    sample /= np.linalg.norm(sample, axis=1, keepdims=True)
    return sample.astype(like.dtype)


def _shares(measure: Measure) -> Floats:
    """Weights with a total of 1, in float64."""
    n = measure.points.shape[0]
    weights = np.ones(n) if measure.weights is None else to_numpy(measure.weights).astype(np.float64)
    shares: Floats = weights / weights.sum()
    return shares
