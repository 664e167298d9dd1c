"""Scatter plot of the points along the first two principal axes of all samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._html.svg import Chart, picture, pixels, ticks
from sphereot.report.markup import data_name

__all__ = ["MAX_POINTS", "PrincipalAxesPlot", "subsample"]

MAX_POINTS = 1000
"""Largest number of points of a sample that are drawn; more would hide each other."""

_WIDTH, _HEIGHT = 420.0, 380.0


def subsample(points: NDArray[Any], max_points: int = MAX_POINTS) -> NDArray[np.float64]:
    """Random subset of at most `max_points` points, in their order, with a fixed seed."""
    if len(points) > max_points:
        chosen = np.random.default_rng(0).choice(len(points), max_points, replace=False)
        points = points[np.sort(chosen)]
    return np.asarray(points, dtype=np.float64)


class PrincipalAxesPlot:
    """Scatter plots of all windows with the same axes and scale, so that they can be compared."""

    def __init__(self, reference: NDArray[Any], windows: Sequence[NDArray[Any]]) -> None:
        samples = [subsample(sample) for sample in (reference, *windows)]
        pool = np.concatenate(samples)
        mean = pool.mean(axis=0)
        _, singular_values, axes = np.linalg.svd(pool - mean, full_matrices=False)
        axes = axes[:2] * np.sign(axes[:2][np.arange(len(axes[:2])), np.argmax(np.abs(axes[:2]), axis=1)])[:, None]
        total = float(np.sum(singular_values**2))
        self._share = float(np.sum(singular_values[:2] ** 2)) / total if total > 0 else 1.0
        self._planar = [
            np.pad(planar, ((0, 0), (0, 2 - planar.shape[1])))
            for planar in ((sample - mean) @ axes.T for sample in samples)
        ]
        self._sizes = [len(reference), *map(len, windows)]
        limit = 1.05 * max(float(np.max(np.abs(planar))) for planar in self._planar)
        if limit == 0:
            limit = 1.0
        left, right, top, bottom = 52.0, _WIDTH - 12, 34.0, _HEIGHT - 52
        wide = limit * (right - left) / (bottom - top)  # one scale for both axes, or clusters would look stretched
        self._chart = Chart(left, right, top, bottom, (-wide, wide), (-limit, limit))

    def shared(self) -> str:
        """SVG definition of the points of the reference, which the plots of all windows use."""
        path = f'<path id="reference-points" d="{self._dots(0)}"/>'
        return f'<svg class="shared" aria-hidden="true" width="0" height="0"><defs>{path}</defs></svg>'

    def figure(self, k: int, label: str) -> str:
        """Plot of window `k` over the reference."""
        marks = [(tick, f"{tick:g}") for tick in ticks(*self._chart.x_range, max_ticks=4)]
        parts = [
            self._chart.y_axis("second principal axis"),
            self._chart.x_axis(marks, "first principal axis"),
            '<use href="#reference-points" class="reference-dots"/>',
            f'<path class="window-dots" d="{self._dots(k + 1)}"/>',
        ]
        shares = f"They hold {100 * self._share:.0f}% of the variance of all points."
        chart_svg = picture(
            f"Points of the reference and of {label} along two axes", shares, _WIDTH, _HEIGHT, parts, links=False
        )
        return (
            f"<figure><h3>The points along two axes</h3>{chart_svg}"
            f'<figcaption><span class="key key-reference-dot"></span> reference{self._count(0)} '
            f'<span class="key key-window-dot"></span> {data_name(label)}{self._count(k + 1)}. '
            f"The axes are the principal ones of all samples together. {shares}</figcaption></figure>"
        )

    def _dots(self, k: int) -> str:
        # A line of length zero with round ends is a dot, in few characters.
        return "".join(f"M{pixels(self._chart.x(x))} {pixels(self._chart.y(y))}h0" for x, y in self._planar[k].tolist())

    def _count(self, k: int) -> str:
        drawn, total = len(self._planar[k]), self._sizes[k]
        return "" if drawn == total else f" ({drawn:,} of {total:,} points)"
