"""The charts of a report, in pixels: distances over time, densities on a great circle, points in a plane."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sphereot._support.text import plural, shorten
from sphereot._support.units import Lengths, format_number

if TYPE_CHECKING:
    from sphereot.stats import DriftResult, DriftWindow, PairedResult, TwoSampleResult

MAX_POINTS = 1000  # that are drawn of a sample; more would hide each other
AXIS_NAMES = ("direction in which they differ most", "second direction")  # of the plane

_WIDTH, _HEIGHT, _TIMELINE_HEIGHT = 420.0, 380.0, 300.0
_CHARACTER_WIDTH = 7.0  # of tick labels, in pixels
_MARK_WIDTH = 43.0  # of a number below the axis, with the space around it
_BAR_WIDTH = 12.0  # of a histogram, about
_CIRCLES = 8  # that span the plane; with more, it would show more random differences
_RIDGE = 0.1  # added to the covariance, in units of its mean variance, for a stable inverse of small samples


@dataclass(frozen=True)
class Chart:
    """The plot area of a chart: a rectangle in pixels, and the ranges of its values."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    x_name: str
    y_name: str
    x_marks: Sequence[tuple[float, str]]
    width: float = _WIDTH
    height: float = _HEIGHT
    left: float = 52.0
    right: float = _WIDTH - 12

    @property
    def top(self) -> float:
        """Upper side of the plot area."""
        return 34.0

    @property
    def bottom(self) -> float:
        """Lower side of the plot area."""
        return self.height - 52

    @property
    def y_marks(self) -> list[float]:
        """Values with a grid line."""
        return ticks(*self.y_range, max_ticks=5)

    def x(self, values: Any) -> Any:
        """Return the horizontal pixels of values."""
        low, high = self.x_range
        return self.left + (values - low) / (high - low) * (self.right - self.left)

    def y(self, values: Any) -> Any:
        """Return the vertical pixels of values."""
        low, high = self.y_range
        return self.bottom - (values - low) / (high - low) * (self.bottom - self.top)

    def line(self, xs: ArrayLike, ys: ArrayLike) -> str:
        """Return the SVG path of a line through values."""
        return "M" + self._format("L%g %g", xs, ys)[1:]

    def area(self, xs: NDArray[Any], ys: NDArray[Any]) -> str:
        """Return the SVG path of the area between values and the lower side."""
        low = self.y_range[0]
        return self.line([*xs, xs[-1], xs[0]], [*ys, low, low]) + "Z"

    def dots(self, points: NDArray[np.float64]) -> str:
        """Return the SVG path of dots: lines of length zero with round ends."""
        return self._format("M%g %gh0", points[:, 0], points[:, 1])

    def _format(self, each: str, xs: ArrayLike, ys: ArrayLike) -> str:
        """Format every point, in tenths of pixels."""
        pixels = np.round(np.stack([self.x(np.asarray(xs)), self.y(np.asarray(ys))], axis=1), 1)
        return (each * len(pixels)) % tuple(pixels.ravel().tolist())


def ticks(low: float, high: float, *, max_ticks: int) -> list[float]:
    """Return round numbers, equally spaced, between `low` and `high`, in at most `max_ticks` steps.

    >>> ticks(0, 0.93, max_ticks=5)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    """
    power = 10.0 ** math.floor(math.log10((high - low) / max_ticks))
    steps = (power, 2 * power, 2.5 * power, 5 * power, 10 * power)
    step = next(step for step in steps if (high - low) / step <= max_ticks)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def distance_name(p: float) -> str:
    """Return the name of the distance without markup.

    >>> distance_name(2), distance_name(1.5)
    ('SSW₂', 'SSW₁.₅')
    """
    return "SSW" + f"{p:g}".translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def timeline(result: "DriftResult", lengths: Lengths, width: float) -> dict[str, Any]:
    """Draw the distance of each window from the reference, and the band of distances expected without drift."""
    count, unit = len(result.windows), lengths.units[0].name
    values = [lengths.distance(window.value) for window in result.windows]
    bands = [[lengths.distance(value) for value in window.band] for window in result.windows]
    top = 1.12 * max([*values, *(high for _, high in bands)]) or 1.0  # 0 if all points are equal
    left, right = 60.0, width - 16
    slot = (right - left) / count
    room = int(slot / _CHARACTER_WIDTH) - 1
    if max(len(window.label) for window in result.windows) <= room or room >= 12:
        marks, axis_label = [(k, shorten(w.label, room)) for k, w in enumerate(result.windows, start=1)], "window"
    else:
        every = -(-count // int((right - left) / _MARK_WIDTH))
        # The last window is the newest, so it always has a mark; a mark too close to it is left out.
        numbers = [*(k for k in range(1, count, every) if count - k >= every), count]
        marks, axis_label = [(k, str(k)) for k in numbers], "window, numbered as in the table"
    name = f"{distance_name(result.p)} from the reference, in {unit}"
    chart = Chart((0.5, count + 0.5), (0.0, top), axis_label, name, marks, width, _TIMELINE_HEIGHT, left, right)
    band_width = 120.0 if count == 1 else slot
    return {
        "chart": chart,
        "radius": min(6.0, max(3.0, slot / 3)),
        "line": chart.line(range(1, count + 1), values),
        "bands": [
            (chart.x(k) - band_width / 2, chart.y(high), band_width, max(chart.y(low) - chart.y(high), 1.0))
            for k, (low, high) in enumerate(bands, start=1)
        ],
        "points": [
            (chart.x(k), chart.y(value), f"{shorten(window.label)}: {format_number(value, 4)} {unit}")
            for k, (window, value) in enumerate(zip(result.windows, values, strict=True), start=1)
        ],
    }


def angle_histogram(result: "PairedResult", width: float) -> dict[str, Any]:
    """Draw how many rows have which angle, and the limit."""
    angles, limit = np.asarray(result.angles), result.max_angle
    top = 1.05 * max(float(angles.max()), limit or 0.0) or 1.0
    counts, edges = np.histogram(angles, bins=int(width / _BAR_WIDTH), range=(0.0, top))
    left, right = 60.0, width - 16
    marks = [(tick, f"{tick:g}") for tick in ticks(0.0, top, max_ticks=int(width / 80))]
    chart = Chart(
        (0.0, top), (0.0, 1.1 * float(counts.max())), "angle of a row, in degrees", "rows", marks,
        width, _TIMELINE_HEIGHT, left, right,
    )  # fmt: skip
    # A bar of few rows would be too low to be seen.
    heights = [
        (chart.x(edge), max(chart.bottom - chart.y(n), 2.0)) for edge, n in zip(edges, counts, strict=False) if n
    ]
    return {"chart": chart, "bars": heights, "bar_width": (right - left) / len(counts), "limit": limit}


def circle_chart(window: "DriftWindow") -> dict[str, Any]:
    """Draw both densities along the great circle, which is cut at their minimum."""
    densities = window.densities
    grid = len(densities.turns)
    start = int(np.argmin(densities.reference + densities.window))
    order = (start + np.arange(grid + 1)) % grid
    along = np.arange(grid + 1) / grid
    curves = {"reference": densities.reference[order], "window": densities.window[order]}
    top = 1.1 * max(float(curve.max()) for curve in curves.values())
    begin = float(densities.turns[start])
    marks = sorted(((tick - begin) % 1.0, f"{tick:g}") for tick in (0.0, 0.25, 0.5, 0.75))
    chart = Chart((0.0, 1.0), (0.0, top), "position on the great circle, in turns", "density per turn", marks)
    return {
        "chart": chart,
        "areas": {name: chart.area(along, curve) for name, curve in curves.items()},
        "lines": {name: chart.line(along, curve) for name, curve in curves.items()},
    }


def subsample(points: NDArray[Any], max_points: int = MAX_POINTS, seed: int = 0) -> NDArray[np.float64]:
    """Draw a random subset of at most `max_points` points, in their order."""
    if len(points) > max_points:
        chosen = np.random.default_rng(seed).choice(len(points), max_points, replace=False)
        points = points[np.sort(chosen)]
    return np.asarray(points, dtype=np.float64)


def plane_chart(reference: NDArray[Any], window: NDArray[Any], test: "TwoSampleResult") -> dict[str, Any]:
    """Draw the points of two samples in the plane of `differing_plane`."""
    planar, text = project_on_plane(reference, window, test)
    limit = 1.05 * max(float(np.max(np.abs(points))) for points in planar) or 1.0
    wide = limit * (Chart.right - Chart.left) / (_HEIGHT - 86)  # the same scale as the vertical axis
    marks = [(tick, f"{tick:g}") for tick in ticks(-wide, wide, max_ticks=4)]
    chart = Chart((-wide, wide), (-limit, limit), *AXIS_NAMES, marks)
    return {
        "chart": chart,
        "text": text,
        "dots": {"reference": chart.dots(planar[0]), "window": chart.dots(planar[1])},
        "counts": {"reference": count_drawn(len(reference)), "window": count_drawn(len(window))},
    }


def project_on_plane(
    reference: NDArray[Any], window: NDArray[Any], test: "TwoSampleResult"
) -> tuple[list[NDArray[np.float64]], str]:
    """Return at most `MAX_POINTS` points (n, 2) of each sample in the plane of `differing_plane`, and a caption."""
    before, after = np.asarray(reference, np.float64), np.asarray(window, np.float64)
    axes = differing_plane(before, after, test)
    difference = after.mean(axis=0) - before.mean(axis=0)
    total = float(difference @ difference)
    share = float(np.sum((difference @ axes) ** 2)) / total if total > 0 else 0.0
    text = (
        f"The plane lies in the span of the {plural(min(_CIRCLES, len(test.slice_costs)), 'great circle')} with the "
        f"largest difference, and contains {share:.0%} of the squared distance between the means. The first direction "
        "separates the samples best, and their spread differs most along the second. The plane was chosen to show a "
        "difference, so it shows one even if the distributions are equal."
    )
    return [subsample(points) @ axes for points in (before, after)], text


def count_drawn(total: int) -> str:
    """Say how many points are drawn, unless all are drawn."""
    return f" ({MAX_POINTS:,} of {total:,} points)" if total > MAX_POINTS else ""


def differing_plane(
    reference: NDArray[np.float64], window: NDArray[np.float64], test: "TwoSampleResult"
) -> NDArray[np.float64]:
    """Return orthonormal axes (d, 2) of a plane in the span of the great circles on which two samples differ most.

    Principal axes of the points would show what varies most, not what changed. The first axis is Fisher's discriminant
    in this span: the difference of the means, divided by the covariance. It separates a few rows of another topic from
    all other rows. Along the second axis, the variances differ most. In the whole space, the discriminant would
    separate any two samples.
    """
    chosen = np.argsort(-test.slice_costs, kind="stable")[:_CIRCLES]
    frames = np.asarray(test.projections, np.float64)[chosen]
    span = _orthonormal(np.concatenate(list(frames), axis=1))
    before, after = reference @ span, window @ span
    difference = after.mean(axis=0) - before.mean(axis=0)
    covariances = [np.cov(part.T, bias=True).reshape(2 * (span.shape[1],)) for part in (before, after)]
    pooled = np.average(covariances, axis=0, weights=[len(before), len(after)])
    ridge = _RIDGE * float(np.trace(pooled)) / len(pooled)
    first = difference if ridge == 0 else np.linalg.solve(pooled + ridge * np.eye(len(pooled)), difference)
    if float(np.linalg.norm(difference)) <= 1e-12:  # equal means have no direction
        return np.asarray(test.circles[0].frame, np.float64)
    first = first / np.linalg.norm(first)
    rest = _orthonormal(np.eye(len(first)) - np.outer(first, first))
    changes, directions = np.linalg.eigh(rest.T @ (covariances[1] - covariances[0]) @ rest)
    second = rest @ directions[:, np.argmax(np.abs(changes))]
    axes = span @ np.stack([first, second], axis=1)
    signs = np.where((difference @ np.stack([first, second], axis=1)) < 0, -1.0, 1.0)
    return np.asarray(axes * signs)  # the window is in the positive direction


def _orthonormal(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an orthonormal basis (d, k) of the span of the columns."""
    basis, lengths, _ = np.linalg.svd(vectors, full_matrices=False)
    return np.asarray(basis[:, lengths > 1e-9 * lengths[0]])
