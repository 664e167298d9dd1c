"""Scatter plot of the points of two samples, a window and its reference, in the plane in which they differ most."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._html.svg import Chart, picture, pixels, ticks
from sphereot._support.text import plural
from sphereot.report.markup import data_name, legend
from sphereot.stats import TwoSampleResult

__all__ = ["AXIS_NAMES", "MAX_POINTS", "DifferingPlanePlot", "differing_plane", "plane_text", "subsample"]

MAX_POINTS = 1000
"""Largest number of points of a sample that are drawn; more would hide each other."""

AXIS_NAMES = ("direction in which they differ most", "second direction")
"""Names of the axes of the plane."""

_WIDTH, _HEIGHT = 420.0, 380.0
_CIRCLES = 8  # with more, the plane would show more of what is chance
_RIDGE = 0.1  # added to the covariance, in units of its mean variance: the inverse is then stable for small samples


def subsample(points: NDArray[Any], max_points: int = MAX_POINTS) -> NDArray[np.float64]:
    """Random subset of at most `max_points` points, in their order, with a fixed seed."""
    if len(points) > max_points:
        chosen = np.random.default_rng(0).choice(len(points), max_points, replace=False)
        points = points[np.sort(chosen)]
    return np.asarray(points, dtype=np.float64)


class DifferingPlanePlot:
    """Scatter plots of reference and windows, each in the plane of `differing_plane`.

    Principal axes of the points would show what varies most, not what changed.
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
        keys = legend(
            ("reference-dot", f"{key}{_count(reference, self._sizes[0])}"),
            ("window-dot", f"{data_name(label)}{_count(window, self._sizes[k + 1])}"),
        )
        return (
            f"<figure><h3>The points where they differ most</h3>{chart_svg}"
            f"<figcaption>{keys}<p>{text}</p></figcaption></figure>"
        )


def differing_plane(
    reference: NDArray[np.float64], window: NDArray[np.float64], test: TwoSampleResult
) -> NDArray[np.float64]:
    """Orthonormal axes (d, 2) of a plane in which two samples differ, in the span of the most differing great circles.

    The first axis is Fisher's discriminant in this span: the difference of the means, divided by the covariance, so
    that a few rows of another topic lie apart from all others. Along the second axis, of those orthogonal to it, the
    variances differ most. In the whole space the discriminant would part any two samples, by chance alone.
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
    return np.asarray(axes * signs)  # windows lie toward positive numbers


def _orthonormal(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormal basis (d, k) of the span of the columns."""
    basis, lengths, _ = np.linalg.svd(vectors, full_matrices=False)
    return np.asarray(basis[:, lengths > 1e-9 * lengths[0]])


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
        "lies in it. The first direction parts the two best, relative to their spread, which differs most along the "
        "second. The plane was chosen to show a difference, and shows some even where chance explains it."
    )


def _dots(chart: Chart, planar: NDArray[np.float64]) -> str:
    # A line of length zero with round ends is a dot, in few characters.
    return "".join(f"M{pixels(chart.x(x))} {pixels(chart.y(y))}h0" for x, y in planar.tolist())


def _count(planar: NDArray[np.float64], total: int) -> str:
    return "" if len(planar) == total else f" ({len(planar):,} of {total:,} points)"
