"""Two-sample permutation tests on sketches with groups: histograms of whole groups are permuted, without the data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import backend_for, sketch_backend
from sphereot._backends.protocol import OFFSET_BITS
from sphereot._support.extras import Progress, progress_bar
from sphereot._support.units import finite_or_none
from sphereot.sketch.bins import Bins, to_float
from sphereot.stats._testing import cost_tolerance, p_value, with_ties
from sphereot.stats.two_sample import DifferingCircle, TwoSampleResult, most_differing

if TYPE_CHECKING:
    from sphereot.sketch.sketch import Sketch

_BLOCK_BYTES = 256 << 20
_LEAST_UNITS = 5  # of both sketches together: fewer have fewer than ten divisions

_GRID = 256  # number of turns at which densities are evaluated

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
        """The value divided by its mean under permutation: 1 where chance explains all of it."""
        if self.null_mean > 0:
            return self.value / self.null_mean
        return math.inf if self.value > 0 else 1.0

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
            f"{name}: is a sketch without groups, and a test permutes groups; make it with Sketch(dim, groups=64) and "
            "update(x, groups=labels), with a label for every document or user."
        )
    if sketch.n == 0:
        raise ValueError(f"{name}: is an empty sketch; update it with points first.")


def sketch_permutation_result(
    x: "Sketch",
    y: "Sketch",
    p: float,
    permutations: int,
    generator: np.random.Generator,
    n_circles: int = 1,
    progress: Progress = False,
) -> TwoSampleResult:
    """The test of two sketches with groups: x is the reference, y the window.

    Groups are hashed to as many histograms in both, so that those of the larger sample hold more documents. Histograms
    of the smaller are added up until those of both hold about as many points; these units are permuted.
    """
    mass, moment, n_first = _units(x, y)
    chosen = np.zeros((1 + permutations, len(mass)))
    chosen[:, :n_first] = 1.0
    chosen[1:] = generator.permuted(chosen[1:], axis=1)
    frames = x.projections
    costs = np.empty((len(frames), 1 + permutations))
    most_labelings = max(1, _BLOCK_BYTES // (8 * 4 * x.bins))  # on one great circle
    size = max(1, most_labelings // len(chosen))
    with progress_bar(progress, "great circles", len(frames)) as show:
        for start in range(0, len(frames), size):
            block = slice(start, min(start + size, len(frames)))
            for first in range(0, len(chosen), most_labelings):
                rows = slice(first, first + most_labelings)
                costs[block, rows] = _costs(chosen[rows], mass[:, block], moment[:, block], p)
            show(block.stop)
    total = costs.sum(axis=0)
    observed = float(total[0])
    relabeled = with_ties(total[1:], observed, cost_tolerance(float(np.finfo(np.float64).eps), p, x.bins + len(frames)))
    return TwoSampleResult(
        statistic=observed / len(frames),
        p_value=p_value(observed, relabeled),
        null=relabeled / len(frames),
        circles=most_differing(frames, costs[:, 0], costs[:, 1:].mean(axis=1), costs[:, 1:].std(axis=1), n_circles),
        slice_costs=costs[:, 0],
        projections=frames,
        n=x.n,
        m=y.n,
        n_groups=(n_first, len(mass) - n_first),
        dim=x.dim,
        p=p,
    )


def sketch_densities(x: "Sketch", y: "Sketch", frame: NDArray[Any]) -> ProjectedDensities:
    """Densities of two sketches on one of their great circles."""
    index = int(np.argmin(np.abs(x.projections - frame).sum(axis=(1, 2))))
    first, second = (to_float(sketch.bins_of_all_groups().mass[0])[index] for sketch in (x, y))
    return histogram_densities(first, second, x.n, y.n)


def count_units(x: "Sketch", y: "Sketch") -> tuple[int, int]:
    """Numbers of units of either sketch that a test permutes."""
    counts = [[n for n in sketch.group_sizes() if n > 0] for sketch in (x, y)]
    first, second = (-(-len(sizes) // merged) for sizes, merged in zip(counts, _merged(counts), strict=True))
    return first, second


def _merged(counts: Sequence[Sequence[int]]) -> list[int]:
    """How many histograms of either sketch make a unit, by their numbers of points: one of the larger sample."""
    means = [sum(sizes) / len(sizes) for sizes in counts]
    return [max(1, round(other / own)) for own, other in zip(means, reversed(means), strict=True)]


def _units(x: "Sketch", y: "Sketch") -> tuple[Floats, Floats, int]:
    """Masses and moments (units, L, B) of both sketches, x first, and the number of units of x."""
    merged = _merged([[n for n in sketch.group_sizes() if n > 0] for sketch in (x, y)])
    (mass_x, moment_x), (mass_y, moment_y) = (
        _sums_of_groups(sketch.bins_by_group(), count) for sketch, count in zip((x, y), merged, strict=True)
    )
    if len(mass_x) + len(mass_y) < _LEAST_UNITS:
        raise ValueError(
            f"groups: {len(mass_x)} and {len(mass_y)} units of about equal size are too few to permute; make sketches "
            "with more groups, or compare samples of more similar size."
        )
    return np.concatenate([mass_x, mass_y]), np.concatenate([moment_x, moment_y]), len(mass_x)


def _sums_of_groups(bins: Bins, merged: int) -> tuple[Floats, Floats]:
    """Masses and moments (units, L, B), offsets in widths of a bin; so many groups with points make a unit."""
    filled = bins.n > 0
    starts = np.arange(0, int(np.count_nonzero(filled)), merged)
    mass, moment = (
        np.add.reduceat(to_float(array[filled].swapaxes(0, 1)), starts, axis=0) for array in (bins.mass, bins.moment)
    )
    if not np.all(np.any(mass[:, 0] > 0, axis=1)):
        raise ValueError("groups: one has points of weight zero only; leave such points out.")
    return mass, moment * (1.0 if bins.weighted else 0.5**OFFSET_BITS)


def _costs(chosen: Floats, mass: Floats, moment: Floats, p: float) -> Floats:
    """W_p^p (slices, labelings) between the units that each row of `chosen` selects and the others."""
    n_labelings, n_units = chosen.shape
    shape = (n_labelings * mass.shape[1], mass.shape[2])
    selected, others = [], []
    for array in (mass, moment):
        sums = chosen @ array.reshape(n_units, -1)
        selected.append(sums.reshape(shape))
        others.append((array.sum(axis=0).ravel() - sums).reshape(shape))
    backend = sketch_backend()
    pairs = [backend.histogram(*arrays) for arrays in (selected, others)]
    if p == 1:
        blocks = backend.level_distances(pairs, shape[0])
        costs = np.concatenate([cost[:, 0] for cost, _ in blocks])
    else:
        costs = backend.transport_distances(pairs[0], pairs[1], p, shape[0])[0]
    by_slice: Floats = costs.reshape(n_labelings, -1).T
    return by_slice


def projected_densities(
    reference: NDArray[Any], window: NDArray[Any], frame: NDArray[np.floating[Any]]
) -> ProjectedDensities:
    """Densities of two validated samples (n, d) and (m, d) on the great circle of a frame (d, 2)."""
    turns = [
        backend_for(points).project(points, frame[None].astype(points.dtype, copy=False))[0].astype(np.float64)
        for points in (reference, window)
    ]
    bandwidth = max(map(_bandwidth, turns))
    on_grid = (np.arange(_GRID) + 0.5) / _GRID
    return ProjectedDensities(on_grid, _smooth(turns[0], bandwidth), _smooth(turns[1], bandwidth), bandwidth)


def histogram_densities(
    reference: NDArray[np.float64], window: NDArray[np.float64], n: int, m: int
) -> ProjectedDensities:
    """Densities of two samples of n and m points, given by the masses of bins (B,) of one great circle."""
    turns = (np.arange(len(reference)) + 0.5) / len(reference)
    bandwidth = max(_bandwidth(turns, mass, count) for mass, count in ((reference, n), (window, m)))
    on_grid = (np.arange(_GRID) + 0.5) / _GRID
    first, second = (_smooth(turns, bandwidth, mass) for mass in (reference, window))
    return ProjectedDensities(on_grid, first, second, bandwidth)


def _bandwidth(turns: NDArray[np.float64], mass: NDArray[np.float64] | None = None, n: int | None = None) -> float:
    """Bandwidth in turns: half the rule of thumb for one normal peak, so that several peaks stay separate."""
    n = len(turns) if n is None else n
    length = min(float(np.abs(np.average(np.exp(2j * np.pi * turns), weights=mass))), 1.0)
    spread = math.sqrt(-2 * math.log(length)) / (2 * math.pi) if length > 0 else math.inf
    return max(0.53 * min(spread, 1 / math.sqrt(12)) / math.pow(n, 0.2), 1 / _GRID)


def _smooth(
    turns: NDArray[np.float64], bandwidth: float, mass: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Kernel density on the grid: a histogram, multiplied with the kernel in Fourier space."""
    counts = np.bincount((turns * _GRID).astype(np.int64) % _GRID, mass, minlength=_GRID)
    decay = np.exp(-2 * (np.pi * bandwidth * np.arange(_GRID // 2 + 1)) ** 2)
    smooth: NDArray[np.float64] = np.fft.irfft(np.fft.rfft(counts / counts.sum()) * decay, _GRID) * _GRID
    return np.maximum(smooth, 0.0)
