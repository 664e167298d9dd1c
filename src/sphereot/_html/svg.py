"""SVG charts: scales, axes, lines and areas. Colors come from the CSS of the page, light or dark."""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Chart", "area", "line", "picture", "pixels", "text", "ticks"]


@dataclass(frozen=True)
class Chart:
    """Plot area of a chart: a rectangle in pixels, and the ranges of values that it shows."""

    left: float
    right: float
    top: float
    bottom: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        """Horizontal pixel of a value."""
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Vertical pixel of a value."""
        low, high = self.y_range
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)

    def y_axis(self, label: str) -> str:
        """Grid lines with numbers at the left, and the label of the axis at the top."""
        parts = [text(self.left - 44, self.top - 12, label, kind="axis-name")]
        for value in ticks(*self.y_range, max_ticks=5):
            y = self.y(value)
            parts.append(f'<path class="grid" d="M{_at(self.left, y)}H{pixels(self.right)}"/>')
            parts.append(text(self.left - 6, y + 4, f"{value:g}", anchor="end"))
        return "".join(parts)

    def x_axis(self, marks: Iterable[tuple[float, str]], label: str) -> str:
        """Horizontal axis with marks at values, and its label below."""
        parts = [f'<path class="axis" d="M{_at(self.left, self.bottom)}H{pixels(self.right)}"/>']
        for value, mark in marks:
            x = self.x(value)
            parts.append(f'<path class="axis" d="M{_at(x, self.bottom)}v4"/>')
            parts.append(text(x, self.bottom + 18, mark, anchor="middle"))
        parts.append(text((self.left + self.right) / 2, self.bottom + 38, label, anchor="middle", kind="axis-name"))
        return "".join(parts)


def picture(
    name: str,
    description: str,
    width: float,
    height: float,
    parts: Iterable[str],
    *,
    links: bool,
    kind: str | None = None,
) -> str:
    """SVG element of a chart, with a name and a description for screen readers.

    With `links` its parts can be reached one by one; without, it is a single image. `kind` is an additional CSS class.
    """
    role = "group" if links else "img"
    classes = "chart" if kind is None else f"chart {kind}"
    return (
        f'<svg class="{classes}" viewBox="0 0 {pixels(width)} {pixels(height)}" role="{role}" '
        f'aria-label="{html.escape(name)}"><desc>{html.escape(description)}</desc>{"".join(parts)}</svg>'
    )


def text(x: float, y: float, content: str, *, anchor: str = "start", kind: str = "tick") -> str:
    """Text at a position; it is escaped."""
    return f'<text class="{kind}" x="{pixels(x)}" y="{pixels(y)}" text-anchor="{anchor}">{html.escape(content)}</text>'


def line(chart: Chart, xs: Sequence[float], ys: Sequence[float], kind: str) -> str:
    """SVG path of a line through values."""
    return f'<path class="{kind}" d="{_path(chart, xs, ys)}"/>'


def area(chart: Chart, xs: Sequence[float], ys: Sequence[float], kind: str) -> str:
    """SVG path of the area between values and the lower side."""
    low = chart.y_range[0]
    closed = [*ys, low, low]
    return f'<path class="{kind}" d="{_path(chart, [*xs, xs[-1], xs[0]], closed)}Z"/>'


def ticks(low: float, high: float, *, max_ticks: int) -> list[float]:
    """Round numbers, equally spaced, between `low` and `high`, in at most `max_ticks` steps.

    >>> ticks(0, 0.93, max_ticks=5)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    """
    power = 10.0 ** math.floor(math.log10((high - low) / max_ticks))
    steps = (power, 2 * power, 2.5 * power, 5 * power, 10 * power)
    step = next(step for step in steps if (high - low) / step <= max_ticks)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def pixels(value: float) -> str:
    """Length in pixels as text, rounded to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def _at(x: float, y: float) -> str:
    return f"{pixels(x)} {pixels(y)}"


def _path(chart: Chart, xs: Sequence[float], ys: Sequence[float]) -> str:
    return "M" + "L".join(_at(chart.x(x), chart.y(y)) for x, y in zip(xs, ys, strict=True))
