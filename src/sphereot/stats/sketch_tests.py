"""What drift tests and monitors share: the result of a window, densities, and permutation tests on sketches.

A test on sketches permutes the histograms of whole groups, and does not need the points.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.validation import as_int
from sphereot._backends import backend_for, sketch_backend
from sphereot._backends.protocol import OFFSET_BITS
from sphereot._support.extras import Progress
from sphereot._support.text import cost_name
from sphereot._support.units import finite_or_none
from sphereot.sketch.bins import Bins, to_float
from sphereot.stats._combined import AXIAL, Component, Statistic, meaning_text
from sphereot.stats._testing import cost_tolerance, ratio_to_mean
from sphereot.stats.two_sample import DifferingCircle, TwoSampleResult, result_of_costs

if TYPE_CHECKING:
    from sphereot.sketch import Sketch

_BLOCK_BYTES = 256 << 20
_LEAST_UNITS = 5  # of both sketches together: fewer units have fewer than ten divisions
_GRID = 256  # number of angular positions at which densities are evaluated
ROUNDING = 1e-9  # p-values are fractions of counts, and rounding must not make 3 * (1 / 60) exceed 0.05

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProjectedDensities:
    """Densities of the reference and of one window on a great circle.

    Attributes
    ----------
    turns : array, shape (G,)
        Equally spaced angular positions, in turns.
    reference, window : array, shape (G,)
        Densities per turn, estimated with Gaussian kernels that are wrapped around the circle. The uniform distribution
        has the density 1.
    bandwidth : float
        Standard deviation of both kernels, in turns.
    """

    turns: Floats
    reference: Floats
    window: Floats
    bandwidth: float


@dataclass(frozen=True, kw_only=True)
class DriftWindow:
    """Result of the drift test of one window, by `drift_test` or by a `DriftMonitor`.

    Attributes
    ----------
    label : str
        Name of the window, with control characters replaced.
    n, permutations : int
        Numbers of points and of permutations.
    value : float
        SSW_p^p between reference and window, in turns to the power p.
    p_value : float
        P-value of the test of this window only.
    adjusted_p_value : float
        P-value corrected for several windows: by Holm's method, or multiplied by the horizon of a monitor.
    drifted : bool
        Whether `adjusted_p_value` is at most alpha.
    null_mean, null_deviation : float
        Mean and standard deviation of the value under permutation: what to expect without drift.
    components : tuple of Component
        The statistics of a combined test with their p-values; empty for a test on SSW_p only.
    band : tuple of two floats
        Range of values to expect without drift. In a `drift_test` on SSW_p only, a window has drifted if and only if
        its value is above its band. For a monitor, 98 % of the values under permutation lie in the band.
    circle : DifferingCircle
        The great circle with the largest `effect`.
    densities : ProjectedDensities
        Densities of reference and window on `circle`.
    test : TwoSampleResult or None
        The test of the reference against this window; None for a monitor.
    points : array, shape (n, d), or None
        The points of the window; None for sketches.
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
    components: tuple[Component, ...] = ()
    test: TwoSampleResult | None = field(default=None, repr=False)
    points: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def ratio(self) -> float:
        """The value divided by its expected value `null_mean`: about 1 without drift."""
        return ratio_to_mean(self.value, self.null_mean)

    def as_record(self) -> dict[str, Any]:
        """Return the result as one object of JSON. Histories depend on the order of the fields."""
        names = ("p_value", "adjusted_p_value", "drifted", "permutations", "null_mean", "null_deviation")
        return {
            "label": self.label,
            "points": self.n,
            "value": self.value,
            "ratio": finite_or_none(self.ratio),
            **{name: getattr(self, name) for name in names},
            **({"components": [vars(part) for part in self.components]} if self.components else {}),
            "band": list(self.band),
            "circle": {name: getattr(self.circle, name) for name in ("cost", "null_mean", "null_deviation")},
            "densities": {
                "reference": self.densities.reference.tolist(),
                "window": self.densities.window.tolist(),
                "bandwidth": self.densities.bandwidth,
            },
        }


def window_fields(test: TwoSampleResult) -> dict[str, Any]:
    """Return the fields of a `DriftWindow` that follow from its test."""
    names = ("p_value", "permutations", "null_mean", "null_deviation", "components")
    fields = {name: getattr(test, name) for name in names}
    return {"n": test.m, "value": test.statistic, "circle": test.circles[0], **fields}


def evidence(window: DriftWindow, p: float) -> str:
    """Compare the value of a window with its expected value, in words; `p` is the order."""
    meaning = f"; {meaning_text(window.components)}" if window.components else ""
    return (
        f"{cost_name(p)} is {window.ratio:.3g} times its expected value without drift, adjusted p-value "
        f"{window.adjusted_p_value:.2g}{meaning}"
    )


def require_permutable(name: str, sketch: "Sketch") -> None:
    """Raise an error unless a sketch has groups and points."""
    if sketch.groups < 2:
        raise ValueError(
            f"{name} must be a sketch with groups, because a test permutes groups. Create it with Sketch(dim, "
            "groups=64) and update(x, groups=labels), with a label for every document or user."
        )
    if sketch.n == 0:
        raise ValueError(f"{name} is an empty sketch. Update it with points first.")


def as_permutations(permutations: int | None, default: int, tests: int, alpha: float) -> int:
    """Validate the number of permutations of each of several tests: an adjusted p-value must be able to reach alpha."""
    if permutations is None:
        return default
    count = as_int("permutations", permutations, 1, "the number of permutations")
    least = least_permutations(tests, alpha)
    if count < least:
        raise ValueError(
            f"permutations={count} is too small: with {tests} windows, no adjusted p-value can reach alpha={alpha:g}. "
            f"Use at least {least} permutations; {4 * (least + 1) - 1} are recommended."
        )
    return count


def least_permutations(tests: int, alpha: float) -> int:
    """Return the smallest number of permutations with which a p-value can reach alpha / tests."""
    return math.ceil(tests / alpha * (1 - ROUNDING)) - 1


def sketch_permutation_result(
    x: "Sketch",
    y: "Sketch",
    p: float,
    permutations: int,
    generator: np.random.Generator,
    progress: Progress = False,
    *,
    statistic: Statistic,
) -> TwoSampleResult:
    """Test a reference x and a window y. Histograms of the smaller sample are merged to units, which are permuted.

    A combined test uses the SSW_1 of the angular positions modulo a half turn in place of the even part, which needs
    the points.
    """
    parts = [
        _merge_groups(sketch.bins_by_group(), merged)
        for sketch, merged in zip((x, y), groups_per_unit(x, y), strict=True)
    ]
    mass, moment = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    n_first, n_second = (len(part[0]) for part in parts)
    if n_first + n_second < _LEAST_UNITS:
        raise ValueError(
            f"The sketches have too few groups to permute: {n_first} and {n_second} merged groups of about equal size. "
            "Create sketches with more groups, or compare samples of more similar size."
        )
    chosen = np.zeros((1 + permutations, n_first + n_second))
    chosen[:, :n_first] = 1.0
    chosen[1:] = generator.permuted(chosen[1:], axis=1)
    frames = x.projections
    most_labelings = max(1, _BLOCK_BYTES // (8 * 4 * x.bins))  # on one great circle
    size = max(1, most_labelings // len(chosen))
    orders = {f"SSW_{order:g}": order for order in ([p] if statistic == "ssw" else [p, 3 - p])}
    if statistic == "combined" and x.bins % 2 == 0:
        orders[AXIAL] = 1.0

    def blocks() -> Iterator[tuple[slice, list[Floats]]]:
        for start in range(0, len(frames), size):
            block = slice(start, min(start + size, len(frames)))
            costs = [
                _costs(chosen[first : first + most_labelings], mass[:, block], moment[:, block], orders)
                for first in range(0, len(chosen), most_labelings)
            ]
            # Contiguous, so that means do not depend on the blocks.
            yield block, [np.ascontiguousarray(np.concatenate(parts, axis=1)) for parts in zip(*costs, strict=True)]

    return result_of_costs(
        blocks(),
        frames,
        p,
        names=list(orders),
        tolerance=cost_tolerance(float(np.finfo(np.float64).eps), max(orders.values()), x.bins + len(frames)),
        sizes=(x.n, y.n),
        n_groups=(n_first, n_second),
        n_circles=1,
        progress=progress,
    )


def count_units(x: "Sketch", y: "Sketch") -> tuple[int, int]:
    """Return the numbers of units of both sketches that a test permutes."""
    first, second = (
        -(-int(np.count_nonzero(sketch.group_sizes())) // merged)
        for sketch, merged in zip((x, y), groups_per_unit(x, y), strict=True)
    )
    return first, second


def groups_per_unit(x: "Sketch", y: "Sketch") -> list[int]:
    """Return how many groups of each sketch are merged to a unit: more than one only for the smaller sample."""
    means = [sketch.n / np.count_nonzero(sketch.group_sizes()) for sketch in (x, y)]
    return [max(1, round(other / own)) for own, other in zip(means, reversed(means), strict=True)]


def _merge_groups(bins: Bins, merged: int) -> tuple[Floats, Floats]:
    """Return masses and moments (units, L, B), in widths of a bin; `merged` groups with points make a unit."""
    filled = bins.n > 0
    starts = np.arange(0, int(np.count_nonzero(filled)), merged)
    mass, moment = (
        np.add.reduceat(to_float(array[filled].swapaxes(0, 1)), starts, axis=0) for array in (bins.mass, bins.moment)
    )
    if not np.all(np.any(mass[:, 0] > 0, axis=1)):
        raise ValueError("groups: one group has only points of weight zero. Leave these points out.")
    return mass, moment * (1.0 if bins.weighted else 0.5**OFFSET_BITS)


def _costs(chosen: Floats, mass: Floats, moment: Floats, orders: Mapping[str, float]) -> list[Floats]:
    """Compute W_p^p (great circles, labelings) between the units that each row of `chosen` selects and all others.

    There is one array for each order p by name. On axial positions, the two halves of a histogram are added: a bin is
    then half as wide, in units of a half turn, as a bin of a histogram with half as many bins in units of a turn.
    """
    n_slices, backend = len(chosen) * mass.shape[1], sketch_backend()
    selected, others = [], []
    for array in (mass, moment):
        sums = chosen @ array.reshape(len(array), -1)
        selected.append(sums.reshape(n_slices, -1))
        others.append((array.sum(axis=0).ravel() - sums).reshape(n_slices, -1))
    x, y = (backend.histogram(*arrays) for arrays in (selected, others))
    result = []
    for name, p in orders.items():
        first, second = x, y
        if name == AXIAL:
            halved = ([array.reshape(n_slices, 2, -1).sum(axis=1) for array in arrays] for arrays in (selected, others))
            first, second = (backend.histogram(*arrays) for arrays in halved)
        if p == 1:
            costs = np.concatenate([cost[:, 0] for cost, _ in backend.level_distances([first, second], n_slices)])
        else:
            costs = backend.transport_distances(first, second, p, n_slices)[0]
        result.append(np.asarray(costs.reshape(len(chosen), -1).T))
    return result


def find_circle(sketch: "Sketch", circle: DifferingCircle) -> int:
    """Find the index of a great circle of a sketch."""
    return int(np.argmin(np.abs(sketch.projections - circle.frame).sum(axis=(1, 2))))


def sketch_densities(x: "Sketch", y: "Sketch", index: int) -> ProjectedDensities:
    """Estimate the densities of two sketches on one of their great circles."""
    centers = (np.arange(x.bins) + 0.5) / x.bins
    masses = (to_float(sketch.bins_of_all_groups().mass[0])[index] for sketch in (x, y))
    return _circle_densities(*((centers, mass, sketch.n) for mass, sketch in zip(masses, (x, y), strict=True)))


def projected_densities(
    reference: NDArray[Any], window: NDArray[Any], frame: NDArray[np.floating[Any]]
) -> ProjectedDensities:
    """Estimate the densities of two validated samples (n, d) and (m, d) on the great circle of a frame (d, 2)."""
    positions = [
        backend_for(points).project(points, frame[None].astype(points.dtype, copy=False))[0].astype(np.float64)
        for points in (reference, window)
    ]
    return _circle_densities(*((turns, None, len(turns)) for turns in positions))


def _circle_densities(*samples: tuple[Floats, Floats | None, int]) -> ProjectedDensities:
    """Estimate the densities of two samples, each given by angular positions, their masses, and its number of points.

    A density is a histogram, multiplied by the kernel in Fourier space.
    """
    bandwidths = []
    for turns, mass, n in samples:
        length = min(float(np.abs(np.average(np.exp(2j * np.pi * turns), weights=mass))), 1.0)
        spread = math.sqrt(-2 * math.log(length)) / (2 * math.pi) if length > 0 else math.inf
        # Half of the rule of thumb for one normal peak, so that several peaks stay separate.
        bandwidths.append(max(0.53 * min(spread, 1 / math.sqrt(12)) / math.pow(n, 0.2), 1 / _GRID))
    decay = np.exp(-2 * (np.pi * max(bandwidths) * np.arange(_GRID // 2 + 1)) ** 2)
    densities = []
    for turns, mass, _ in samples:
        counts = np.bincount((turns * _GRID).astype(np.int64) % _GRID, mass, minlength=_GRID)
        densities.append(np.maximum(np.fft.irfft(np.fft.rfft(counts / counts.sum()) * decay, _GRID) * _GRID, 0.0))
    reference, window = densities
    return ProjectedDensities((np.arange(_GRID) + 0.5) / _GRID, reference, window, max(bandwidths))
