"""The points seen along two axes: the principal ones of all samples together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._html.svg import Chart, picture, pixels, ticks
from sphereot.report.markup import data_name

__all__ = ["MOST_POINTS", "PlaneView", "some_points"]

MOST_POINTS = 1000
"""Points of a sample that are drawn; more would hide each other."""

_WIDTH, _HEIGHT = 420.0, 380.0


def some_points(points: NDArray[Any], most: int = MOST_POINTS) -> NDArray[np.float64]:
    """At most so many points, drawn with a fixed seed, in their order."""
    if len(points) > most:
        chosen = np.random.default_rng(0).choice(len(points), most, replace=False)
        points = points[np.sort(chosen)]
    return np.asarray(points, dtype=np.float64)


class PlaneView:
    """One view for all windows, so that they can be compared: axes and scale come from all samples, equally."""

    def __init__(self, reference: NDArray[Any], windows: Sequence[NDArray[Any]]) -> None:
        samples = [some_points(sample) for sample in (reference, *windows)]
        pool = np.concatenate(samples)
        mean = pool.mean(axis=0)
        _, stretches, axes = np.linalg.svd(pool - mean, full_matrices=False)
        axes = axes[:2] * np.sign(axes[:2][np.arange(len(axes[:2])), np.argmax(np.abs(axes[:2]), axis=1)])[:, None]
        total = float(np.sum(stretches**2))
        self._share = float(np.sum(stretches[:2] ** 2)) / total if total > 0 else 1.0
        self._flat = [
            np.pad(found, ((0, 0), (0, 2 - found.shape[1]))) for found in ((s - mean) @ axes.T for s in samples)
        ]
        self._sizes = [len(reference), *map(len, windows)]
        reach = 1.05 * max(float(np.max(np.abs(flat))) for flat in self._flat) or 1.0
        left, right, top, bottom = 52.0, _WIDTH - 12, 34.0, _HEIGHT - 52
        wide = reach * (right - left) / (bottom - top)  # one scale for both axes, or clusters would look stretched
        self._chart = Chart(left, right, top, bottom, (-wide, wide), (-reach, reach))

    def shared(self) -> str:
        """The reference's points, which all windows refer to."""
        path = f'<path id="reference-points" d="{self._dots(0)}"/>'
        return f'<svg class="shared" aria-hidden="true" width="0" height="0"><defs>{path}</defs></svg>'

    def figure(self, k: int, label: str) -> str:
        """Window `k` over the reference."""
        marks = [(tick, f"{tick:g}") for tick in ticks(*self._chart.x_range, most=4)]
        parts = [
            self._chart.y_axis("second principal axis"),
            self._chart.x_axis(marks, "first principal axis"),
            '<use href="#reference-points" class="reference-dots"/>',
            f'<path class="window-dots" d="{self._dots(k + 1)}"/>',
        ]
        shares = f"They hold {100 * self._share:.0f}% of the variance of all points."
        drawn = picture(
            f"Points of the reference and of {label} along two axes", shares, _WIDTH, _HEIGHT, parts, links=False
        )
        return (
            f"<figure><h3>The points along two axes</h3>{drawn}"
            f'<figcaption><span class="key key-reference-dot"></span> reference{self._shown(0)} '
            f'<span class="key key-window-dot"></span> {data_name(label)}{self._shown(k + 1)}. '
            f"The axes are the principal ones of all samples together. {shares}</figcaption></figure>"
        )

    def _dots(self, k: int) -> str:
        # A line of length zero with round ends is a dot: few letters each.
        return "".join(f"M{pixels(self._chart.x(x))} {pixels(self._chart.y(y))}h0" for x, y in self._flat[k].tolist())

    def _shown(self, k: int) -> str:
        shown, there = len(self._flat[k]), self._sizes[k]
        return "" if shown == there else f" ({shown:,} of {there:,} points)"
