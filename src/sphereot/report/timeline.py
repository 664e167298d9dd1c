"""Chart of the distance of each window from the reference, beside the band that chance explains."""

import html

from sphereot._html.svg import Chart, line, picture, pixels
from sphereot._support.text import shortened
from sphereot.report.markup import distance_name, legend
from sphereot.report.results import ShownResult
from sphereot.report.units import DistanceUnit, displacement_note

__all__ = ["timeline_section"]

_HEIGHT = 300.0
_WIDTHS = {"chart-wide": 860.0, "chart-narrow": 360.0}  # the page shows one of them
_CHARACTER_WIDTH = 7.0  # of tick labels, in pixels
_MARK_WIDTH = 43.0  # of a number below the axis, with the space around it


def timeline_section(result: ShownResult, note: str, unit: DistanceUnit) -> str:
    """HTML of the chart, for wide and for narrow screens; each value is a link to the section of its window.

    `note` says what the band is.
    """
    return "\n".join(
        [
            "<section>",
            "<h2>Distance from the reference</h2>",
            *(_chart(result, unit, width, kind) for kind, width in _WIDTHS.items()),
            legend(("band", "explained by chance"), ("calm", "no drift"), ("drift", "drift")),
            f'<p class="note">{html.escape(note)}{displacement_note(result.p, unit)}</p>',
            "</section>",
        ]
    )


def _chart(result: ShownResult, unit: DistanceUnit, total_width: float, kind: str) -> str:
    p, count = result.p, len(result.windows)
    values = [unit.distance(window.value, p) for window in result.windows]
    bands = [(unit.distance(w.band[0], p), unit.distance(w.band[1], p)) for w in result.windows]
    top = 1.12 * max([*values, *(high for _, high in bands)])
    if top == 0:  # all points are equal
        top = 1.0
    chart = Chart(60, total_width - 16, 34, _HEIGHT - 52, (0.5, count + 0.5), (0.0, top))
    slot = (chart.right - chart.left) / count
    parts = [chart.y_axis(f"{distance_name(p)} from the reference, in {unit.name}")]
    for k, (low, high) in enumerate(bands, start=1):
        x, width = chart.x(k) - slot / 2, slot
        if count == 1:
            x, width = chart.x(k) - 60, 120.0
        parts.append(
            f'<rect class="band" x="{pixels(x)}" y="{pixels(chart.y(high))}" width="{pixels(width)}" '
            f'height="{pixels(max(chart.y(low) - chart.y(high), 1.0))}"/>'
        )
    marks, axis_label = _marks(result, slot, chart.right - chart.left)
    parts.append(chart.x_axis(marks, axis_label))
    parts.append(line(chart, range(1, count + 1), values, "path"))
    radius = min(6.0, max(3.0, slot / 3))
    for k, (window, value) in enumerate(zip(result.windows, values, strict=True), start=1):
        verdict = "drift" if window.drifted else "no drift"
        label = (
            f"{shortened(window.label)}: {unit.text(value, 4)} {unit.name}, "
            f"corrected p-value {window.adjusted_p_value:.3g}, {verdict}"
        )
        parts.append(
            f'<a href="#window-{k}" aria-label="{html.escape(label)}"><title>{html.escape(label)}</title>'
            f"{_mark(chart.x(k), chart.y(value), radius, drifted=window.drifted)}</a>"
        )
    n_drifted = sum(window.drifted for window in result.windows)
    return picture(
        "Distance from the reference, window by window",
        f"{n_drifted} of {count} windows lie above the band that chance explains. The table has the numbers.",
        total_width,
        _HEIGHT,
        parts,
        links=True,
        kind=kind,
    )


def _mark(x: float, y: float, radius: float, *, drifted: bool) -> str:
    """A disk, or a diamond for drift, so that they differ not by color alone."""
    if not drifted:
        return f'<circle class="calm-mark" cx="{pixels(x)}" cy="{pixels(y)}" r="{pixels(radius)}"/>'
    r = 1.5 * radius
    shape = f"M{pixels(x)} {pixels(y - r)}l{pixels(r)} {pixels(r)}l{pixels(-r)} {pixels(r)}l{pixels(-r)} {pixels(-r)}z"
    return f'<path class="drift-mark" d="{shape}"/>'


def _marks(result: ShownResult, slot: float, width: float) -> tuple[list[tuple[float, str]], str]:
    """Tick labels and the label of the axis: names of the windows if they fit, else their numbers."""
    count, room = len(result.windows), int(slot / _CHARACTER_WIDTH) - 1
    if max(len(window.label) for window in result.windows) <= room or room >= 12:
        return [(k, shortened(window.label, room)) for k, window in enumerate(result.windows, start=1)], "window"
    every = -(-count // int(width / _MARK_WIDTH))
    # The last window is the newest, so that it has a mark; one too close to it has none.
    numbers = [*(k for k in range(1, count, every) if count - k >= every), count]
    return [(k, str(k)) for k in numbers], "window, numbered as in the table"
