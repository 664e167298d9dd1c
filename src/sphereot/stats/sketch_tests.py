"""What drift tests and monitors share: the result of a window, and permutation tests on sketches with groups.

Histograms of whole groups are permuted, without the data.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.validation import as_int
from sphereot._backends import backend_for, sketch_backend
from sphereot._backends.protocol import OFFSET_BITS
from sphereot._support.extras import Progress
from sphereot._support.units import finite_or_none
from sphereot.sketch.bins import Bins, to_float
from sphereot.stats._testing import cost_tolerance, ratio_to_mean
from sphereot.stats.two_sample import DifferingCircle, TwoSampleResult, result_of_costs

if TYPE_CHECKING:
    from sphereot.sketch import Sketch

_BLOCK_BYTES = 256 << 20
_LEAST_UNITS = 5  # of both sketches together: fewer have fewer than ten divisions

_GRID = 256  # number of angular positions at which densities are evaluated
ROUNDING = 1e-9  # p-values are fractions of counts, and rounding must not make 3 * (1 / 60) exceed 0.05

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProjectedDensities:
    """Densities of the reference and of one window on a great circle.

    Attributes
    ----------
    turns : array, shape (G,)
        Equally spaced turns on the circle.
    reference, window : array, shape (G,)
        Densities per turn, 1 everywhere for the uniform distribution, estimated with Gaussian kernels that are wrapped
        around the circle. Both have the same bandwidth.
    bandwidth : float
        Standard deviation of the kernel, in turns.
    """

    turns: NDArray[np.float64]
    reference: NDArray[np.float64]
    window: NDArray[np.float64]
    bandwidth: float


@dataclass(frozen=True, kw_only=True)
class DriftWindow:
    """Result of the drift test of one window, by `drift_test` or by a `DriftMonitor`.

    Attributes
    ----------
    label : str
        Name of the window, with control characters replaced.
    n : int
        Number of points.
    value : float
        SSW_p^p between reference and window, in turns to the power p.
    p_value : float
        P-value of the test of this window alone.
    adjusted_p_value : float
        P-value after the correction for several windows: by Holm, or times the horizon of a monitor.
    drifted : bool
        Whether `adjusted_p_value` is at most the level.
    permutations : int
        Number of permutations of the p-value.
    null_mean, null_deviation : float
        Mean and standard deviation of the value under permutation.
    band : tuple of two floats
        Range of values that chance explains. In a `drift_test`, a window has drifted if and only if its value is above
        its band; for a monitor, 98 % of the values under permutation lie in the band.
    circle : DifferingCircle
        The great circle with the largest `effect`, of those drawn.
    densities : ProjectedDensities
        Densities of reference and window on `circle`.
    test : TwoSampleResult, or None for a monitor
        The test of the reference against this window.
    points : array, shape (n, d), or None for sketches
        The points.
    """

    label: str
    n: int
    value: float
    p_value: float
    adjusted_p_value: float
    drifted: bool
    permutations: int
    null_mean: float
    null_deviation: float
    band: tuple[float, float]
    circle: DifferingCircle = field(repr=False)
    densities: ProjectedDensities = field(repr=False)
    test: TwoSampleResult | None = field(default=None, repr=False)
    points: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def ratio(self) -> float:
        """The value divided by its mean under permutation: about 1 without drift."""
        return ratio_to_mean(self.value, self.null_mean)

    def as_record(self) -> dict[str, Any]:
        """The result as one object of JSON."""
        return {
            "label": self.label,
            "points": self.n,
            "value": self.value,
            "ratio": finite_or_none(self.ratio),
            "p_value": self.p_value,
            "adjusted_p_value": self.adjusted_p_value,
            "drifted": self.drifted,
            "permutations": self.permutations,
            "null_mean": self.null_mean,
            "null_deviation": self.null_deviation,
            "band": list(self.band),
            "circle": {
                "cost": self.circle.cost,
                "null_mean": self.circle.null_mean,
                "null_deviation": self.circle.null_deviation,
            },
            "densities": {
                "reference": self.densities.reference.tolist(),
                "window": self.densities.window.tolist(),
                "bandwidth": self.densities.bandwidth,
            },
        }


def require_permutable(name: str, sketch: "Sketch") -> None:
    """Raise unless a sketch has groups and points."""
    if sketch.groups < 2:
        raise ValueError(
            f"{name}: is a sketch without groups, and a test permutes groups. Make it with Sketch(dim, groups=64) and "
            "update(x, groups=labels), with a label for every document or user."
        )
    if sketch.n == 0:
        raise ValueError(f"{name}: is an empty sketch. Update it with points first.")


def as_permutations(permutations: int | None, default: int, tests: int, alpha: float) -> int:
    """Number of permutations for each of several tests, with which an adjusted p-value can reach alpha."""
    if permutations is None:
        return default
    count, least = (
        as_int("permutations", permutations, 1, "the number of permutations"),
        least_permutations(tests, alpha),
    )
    if count < least:
        raise ValueError(
            f"permutations: with {count}, no p-value can reach the level {alpha:g} / {tests} of a window. Use at least "
            f"{least}, better {4 * (least + 1) - 1}."
        )
    return count


def least_permutations(tests: int, alpha: float) -> int:
    """Smallest number of permutations with which a p-value can reach alpha / tests."""
    return math.ceil(tests / alpha * (1 - ROUNDING)) - 1


def sketch_permutation_result(
    x: "Sketch", y: "Sketch", p: float, permutations: int, generator: np.random.Generator, progress: Progress = False
) -> TwoSampleResult:
    """The test of two sketches with groups: x is the reference, y the window.

    A hash divides the groups of both samples among the same number of histograms, so histograms of the larger sample
    have more points. Histograms of the smaller sample are merged to units of about that size, which are permuted.
    """
    parts = [
        _merge_groups(sketch.bins_by_group(), merged)
        for sketch, merged in zip((x, y), groups_per_unit(x, y), strict=True)
    ]
    mass, moment = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    n_first, n_second = (len(part[0]) for part in parts)
    if n_first + n_second < _LEAST_UNITS:
        raise ValueError(
            f"groups: {n_first} and {n_second} units of about equal size are too few to permute. Make sketches with "
            "more groups, or compare samples of more similar size."
        )
    chosen = np.zeros((1 + permutations, n_first + n_second))
    chosen[:, :n_first] = 1.0
    chosen[1:] = generator.permuted(chosen[1:], axis=1)
    frames = x.projections
    most_labelings = max(1, _BLOCK_BYTES // (8 * 4 * x.bins))  # on one great circle
    size = max(1, most_labelings // len(chosen))

    def blocks() -> Iterator[tuple[slice, Floats]]:
        for start in range(0, len(frames), size):
            block = slice(start, min(start + size, len(frames)))
            costs = [
                _costs(chosen[first : first + most_labelings], mass[:, block], moment[:, block], p)
                for first in range(0, len(chosen), most_labelings)
            ]
            yield block, np.ascontiguousarray(np.concatenate(costs, axis=1))  # means do not depend on the blocks

    return result_of_costs(
        blocks(),
        frames,
        p,
        tolerance=cost_tolerance(float(np.finfo(np.float64).eps), p, x.bins + len(frames)),
        sizes=(x.n, y.n),
        n_groups=(n_first, n_second),
        n_circles=1,
        progress=progress,
    )


def count_units(x: "Sketch", y: "Sketch") -> tuple[int, int]:
    """Numbers of units of either sketch that a test permutes."""
    first, second = (
        -(-int(np.count_nonzero(sketch.group_sizes())) // merged)
        for sketch, merged in zip((x, y), groups_per_unit(x, y), strict=True)
    )
    return first, second


def groups_per_unit(x: "Sketch", y: "Sketch") -> list[int]:
    """How many groups of either sketch are merged to a unit: more than one only for the smaller sample."""
    means = [sketch.n / np.count_nonzero(sketch.group_sizes()) for sketch in (x, y)]
    return [max(1, round(other / own)) for own, other in zip(means, reversed(means), strict=True)]


def _merge_groups(bins: Bins, merged: int) -> tuple[Floats, Floats]:
    """Masses and moments (units, L, B), offsets in widths of a bin; `merged` groups with points make a unit."""
    filled = bins.n > 0
    starts = np.arange(0, int(np.count_nonzero(filled)), merged)
    mass, moment = (
        np.add.reduceat(to_float(array[filled].swapaxes(0, 1)), starts, axis=0) for array in (bins.mass, bins.moment)
    )
    if not np.all(np.any(mass[:, 0] > 0, axis=1)):
        raise ValueError("groups: a group has only points of weight zero. Leave such points out.")
    return mass, moment * (1.0 if bins.weighted else 0.5**OFFSET_BITS)


def _costs(chosen: Floats, mass: Floats, moment: Floats, p: float) -> Floats:
    """W_p^p (slices, labelings) between the units that each row of `chosen` selects and the other units."""
    n_slices, backend = len(chosen) * mass.shape[1], sketch_backend()
    selected, others = [], []
    for array in (mass, moment):
        sums = chosen @ array.reshape(len(array), -1)
        selected.append(sums.reshape(n_slices, -1))
        others.append((array.sum(axis=0).ravel() - sums).reshape(n_slices, -1))
    pairs = x, y = [backend.histogram(*arrays) for arrays in (selected, others)]
    if p == 1:
        costs = np.concatenate([cost[:, 0] for cost, _ in backend.level_distances(pairs, n_slices)])
    else:
        costs = backend.transport_distances(x, y, p, n_slices)[0]
    by_slice: Floats = costs.reshape(len(chosen), -1).T
    return by_slice


def find_circle(sketch: "Sketch", circle: DifferingCircle) -> int:
    """Index of a great circle of a sketch."""
    return int(np.argmin(np.abs(sketch.projections - circle.frame).sum(axis=(1, 2))))


def sketch_densities(x: "Sketch", y: "Sketch", index: int) -> ProjectedDensities:
    """Densities of two sketches on one of their great circles."""
    centers = (np.arange(x.bins) + 0.5) / x.bins
    masses = (to_float(sketch.bins_of_all_groups().mass[0])[index] for sketch in (x, y))
    return _circle_densities(*((centers, mass, sketch.n) for mass, sketch in zip(masses, (x, y), strict=True)))


def projected_densities(
    reference: NDArray[Any], window: NDArray[Any], frame: NDArray[np.floating[Any]]
) -> ProjectedDensities:
    """Densities of two validated samples (n, d) and (m, d) on the great circle of a frame (d, 2)."""
    positions = [
        backend_for(points).project(points, frame[None].astype(points.dtype, copy=False))[0].astype(np.float64)
        for points in (reference, window)
    ]
    return _circle_densities(*((turns, None, len(turns)) for turns in positions))


def _circle_densities(*samples: tuple[Floats, Floats | None, int]) -> ProjectedDensities:
    """Densities of two samples, each given by angular positions, their masses, and its number of points.

    A density is a histogram, multiplied with the kernel in Fourier space.
    """
    bandwidths = []
    for turns, mass, n in samples:
        length = min(float(np.abs(np.average(np.exp(2j * np.pi * turns), weights=mass))), 1.0)
        spread = math.sqrt(-2 * math.log(length)) / (2 * math.pi) if length > 0 else math.inf
        # Half the rule of thumb for one normal peak, so that several peaks stay separate.
        bandwidths.append(max(0.53 * min(spread, 1 / math.sqrt(12)) / math.pow(n, 0.2), 1 / _GRID))
    decay = np.exp(-2 * (np.pi * max(bandwidths) * np.arange(_GRID // 2 + 1)) ** 2)
    densities = []
    for turns, mass, _ in samples:
        counts = np.bincount((turns * _GRID).astype(np.int64) % _GRID, mass, minlength=_GRID)
        densities.append(np.maximum(np.fft.irfft(np.fft.rfft(counts / counts.sum()) * decay, _GRID) * _GRID, 0.0))
    reference, window = densities
    return ProjectedDensities((np.arange(_GRID) + 0.5) / _GRID, reference, window, max(bandwidths))
