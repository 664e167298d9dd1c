"""Scatter plot of the points of two samples, a window and its reference, in the plane in which they differ most."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._html.svg import Chart, picture, pixels, ticks
from sphereot._support.text import plural
from sphereot.report.markup import data_name
from sphereot.stats import TwoSampleResult

__all__ = ["AXIS_NAMES", "MAX_POINTS", "DifferingPlanePlot", "differing_plane", "plane_text", "subsample"]

MAX_POINTS = 1000
"""Largest number of points of a sample that are drawn; more would hide each other."""

AXIS_NAMES = ("direction in which they differ most", "second direction")
"""Names of the axes of the plane."""

_WIDTH, _HEIGHT = 420.0, 380.0
_CIRCLES = 8


def subsample(points: NDArray[Any], max_points: int = MAX_POINTS) -> NDArray[np.float64]:
    """Random subset of at most `max_points` points, in their order, with a fixed seed."""
    if len(points) > max_points:
        chosen = np.random.default_rng(0).choice(len(points), max_points, replace=False)
        points = points[np.sort(chosen)]
    return np.asarray(points, dtype=np.float64)


class DifferingPlanePlot:
    """Scatter plots of reference and windows, each in the plane in which its most differing great circles part them.

    Each of these circles has one direction along which the means of the two samples differ in its plane; the plot has
    the two principal directions of all of them. Principal axes of the points would show what varies most, not what
    changed.
    """

    def __init__(
        self, reference: NDArray[Any], windows: Sequence[NDArray[Any]], tests: Sequence[TwoSampleResult]
    ) -> None:
        self._sizes = [len(reference), *map(len, windows)]
        first = subsample(reference)
        self._planar = []
        self._texts = []
        before = np.asarray(reference, np.float64)
        for window, test in zip(windows, tests, strict=True):
            after = np.asarray(window, np.float64)
            axes = differing_plane(before, after, test)
            self._planar.append((first @ axes, subsample(window) @ axes))
            self._texts.append(plane_text(before, after, test, axes))

    def figure(self, k: int, label: str, reference_label: str | None = None) -> str:
        """Plot of window `k` over the reference, which may have a name of its own."""
        reference, window = self._planar[k]
        limit = 1.05 * max(float(np.max(np.abs(planar))) for planar in (reference, window)) or 1.0
        left, right, top, bottom = 52.0, _WIDTH - 12, 34.0, _HEIGHT - 52
        wide = limit * (right - left) / (bottom - top)  # one scale for both axes, or clusters would look stretched
        chart = Chart(left, right, top, bottom, (-wide, wide), (-limit, limit))
        marks = [(tick, f"{tick:g}") for tick in ticks(*chart.x_range, max_ticks=4)]
        parts = [
            chart.y_axis(AXIS_NAMES[1]),
            chart.x_axis(marks, AXIS_NAMES[0]),
            f'<path class="reference-dots" d="{_dots(chart, reference)}"/>',
            f'<path class="window-dots" d="{_dots(chart, window)}"/>',
        ]
        text = self._texts[k]
        named = "the reference" if reference_label is None else reference_label
        key = "reference" if reference_label is None else data_name(reference_label)
        chart_svg = picture(
            f"Points of {named} and of {label} where they differ most", text, _WIDTH, _HEIGHT, parts, links=False
        )
        return (
            f"<figure><h3>The points where they differ most</h3>{chart_svg}"
            f'<figcaption><span class="key key-reference-dot"></span> '
            f"{key}{_count(reference, self._sizes[0])} "
            f'<span class="key key-window-dot"></span> {data_name(label)}{_count(window, self._sizes[k + 1])}. '
            f"{text}</figcaption></figure>"
        )


def differing_plane(
    reference: NDArray[np.float64], window: NDArray[np.float64], test: TwoSampleResult
) -> NDArray[np.float64]:
    """Orthonormal axes (d, 2) of the plane in which the most differing great circles of a test part two samples."""
    chosen = np.argsort(-test.slice_costs, kind="stable")[:_CIRCLES]
    frames = np.asarray(test.projections, np.float64)[chosen]
    difference = window.mean(axis=0) - reference.mean(axis=0)
    directions = np.einsum("kdi,ki->dk", frames, np.einsum("kdi,d->ki", frames, difference))
    axes, lengths, _ = np.linalg.svd(directions, full_matrices=False)
    if axes.shape[1] < 2 or lengths[1] <= 1e-9 * lengths[0] or lengths[0] == 0:
        return np.asarray(test.circles[0].frame, np.float64)
    first = axes[:, :2] * np.sign(difference @ axes[:, :2] + 1e-300)  # windows lie toward positive numbers
    return np.asarray(first)


def plane_text(
    reference: NDArray[np.float64], window: NDArray[np.float64], test: TwoSampleResult, axes: NDArray[np.float64]
) -> str:
    """What the plane with these axes shows, for a caption."""
    difference = window.mean(axis=0) - reference.mean(axis=0)
    total = float(difference @ difference)
    share = float(np.sum((difference @ axes) ** 2)) / total if total > 0 else 0.0
    circles = plural(min(_CIRCLES, len(test.slice_costs)), "great circle")
    return (
        f"The plane is that of the {circles} that differ most; {share:.0%} of the squared distance between the means "
        "lies in it. It was chosen to show a difference, and shows some even where chance explains it."
    )


def _dots(chart: Chart, planar: NDArray[np.float64]) -> str:
    # A line of length zero with round ends is a dot, in few characters.
    return "".join(f"M{pixels(chart.x(x))} {pixels(chart.y(y))}h0" for x, y in planar.tolist())


def _count(planar: NDArray[np.float64], total: int) -> str:
    return "" if len(planar) == total else f" ({len(planar):,} of {total:,} points)"
