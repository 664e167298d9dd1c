"""Bootstrap: how much SSW_p^p varies with the draw of the points, and its value for equal distributions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.validation import as_int
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures, n_atoms
from sphereot._support.extras import Progress, progress_bar
from sphereot.slicing.drawing import frames_from_normals

_CIRCLES = 64  # the error of great circles is reported separately
_POINTS_PER_CALL = 1_000_000_000  # points times great circles: about a second, so that progress can be reported
_SPLITS = 24  # samples of one distribution whose mean is the noise floor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PointSampling:
    """Variation of SSW_p^p over the draw of the points.

    Attributes
    ----------
    deviations : array, shape (B,)
        Values of resampled points minus the value of the points themselves, on the same great circles.
    noise_floor : float
        Expected SSW_p^p of two samples of the same sizes from the same distribution.
    """

    deviations: Floats = field(repr=False)
    noise_floor: float

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """Return a normal interval for SSW_p^p of the distributions, corrected for the bias of finite samples."""
        center = value - float(np.mean(self.deviations))
        half = NormalDist().inv_cdf((1 + level) / 2) * float(np.std(self.deviations, ddof=1))
        return max(center - half, 0.0), max(center + half, 0.0)


def resample_points(
    measures: Measures, p: float, count: int, generator: np.random.Generator, progress: Progress
) -> PointSampling:
    """Resample the points of validated measures `count` times, separately for each measure, with replacement."""
    count = as_int("bootstrap", count, 10, "the number of resamples")
    samples = []
    for measure in measures:
        points, weights = measure.in_numpy()
        weights = np.ones(len(points)) if weights is None else weights
        samples.append((points, weights / weights.sum()))
    sizes = [len(points) for points, _ in samples]
    first, _ = samples[0]
    drawn = frames_from_normals(generator.standard_normal, _CIRCLES, first.shape[1], "quasi")
    frames = np.ascontiguousarray(drawn, dtype=first.dtype)
    backend = backend_for(frames)
    observed = float(np.mean(backend.slice_costs([Measure(*sample) for sample in samples], frames, p)))

    def resample(pools: Sequence[tuple[Floats, Floats]], count: int, show: Callable[[int], None]) -> Floats:
        """SSW_p^p of resamples of the pools, shape (count,); resamples of one call share the sort of the points."""
        plain = [Measure(points) for points, _ in pools]
        at_once = max(1, _POINTS_PER_CALL // (_CIRCLES * n_atoms(plain)))
        values = []
        for start in range(0, count, at_once):
            stop = min(start + at_once, count)
            repeats = [np.empty((stop - start, len(points)), np.uint32) for points, _ in pools]
            for k in range(stop - start):
                for rows, (_, shares), size in zip(repeats, pools, sizes, strict=True):
                    rows[k] = _draw_repeats(shares, size, generator)
            values.append(np.mean(backend.resampled_costs(plain, repeats, frames, p), axis=0))
            show(stop)
        return np.concatenate(values)

    with progress_bar(progress, "resamples", count + _SPLITS) as show:
        values = resample(samples, count, show)
        if len(samples) == 2:
            shares = np.concatenate([len(points) / sum(sizes) * shares for points, shares in samples])
            pool = np.concatenate([points for points, _ in samples]), shares
            floor = resample([pool, pool], _SPLITS, lambda k: show(count + k))
        else:
            floor = np.empty(_SPLITS)
            for k in range(_SPLITS):
                uniform = generator.standard_normal(first.shape)
                uniform /= np.linalg.norm(uniform, axis=1, keepdims=True)
                floor[k] = np.mean(backend.slice_costs([Measure(uniform.astype(frames.dtype))], frames, p))
            show(count + _SPLITS)
    return PointSampling(values - observed, float(np.mean(floor)))


def _draw_repeats(shares: Floats, size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw `size` points with replacement, and count how often each point was drawn."""
    count = len(shares)
    if (shares == shares[0]).all():  # several times faster than a multinomial draw
        return np.bincount(generator.integers(count, size=size), minlength=count)
    return generator.multinomial(size, shares)
