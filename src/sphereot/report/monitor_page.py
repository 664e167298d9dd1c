"""The report of a drift monitor: an HTML page from its history, without any points."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sphereot._html.page import asset, html_page
from sphereot._support.atomic_write import write_text
from sphereot._support.text import plural, printable, shortened
from sphereot.report.markup import distance_markup, distance_name
from sphereot.report.settings import settings_list, turn_text
from sphereot.report.summary import summary_paragraph, table_section
from sphereot.report.timeline import timeline_section
from sphereot.report.units import DistanceUnit, as_distance_unit
from sphereot.report.windows import windows_section
from sphereot.stats import DriftMonitor, MonitoredWindow

__all__ = ["monitor_page"]

_MAX_TITLE = 120  # characters


@dataclass(frozen=True)
class _LastWindows:
    """The last windows of a monitor, as the sections of a report need them."""

    windows: tuple[MonitoredWindow, ...]
    summary: str
    p: float
    dim: int
    n_projections: int

    @property
    def drifted(self) -> bool:
        return any(window.drifted for window in self.windows)

    @property
    def farthest(self) -> MonitoredWindow:
        return min(self.windows, key=lambda window: (window.p_value, -window.ratio))


def monitor_page(
    path: str | os.PathLike[str],
    monitor: DriftMonitor,
    *,
    title: str = "Drift monitor",
    columns: Sequence[str] | None = None,
    settings: Mapping[str, str] | None = None,
    last: int = 100,
    unit: tuple[str, float] | None = None,
) -> Path:
    """Write the history of a drift monitor as an HTML page that opens from disk, without network access.

    It has a summary; the distance of each window over time; a table; for each window the great circle that differs
    most, with both densities; and the settings. Neither the points nor the sketches of the windows are needed.

    Parameters
    ----------
    path : path
        The file to write, ``.html``; it is written atomically.
    monitor : DriftMonitor
        With at least one window.
    title : str
        Heading of the page; it is escaped.
    columns : sequence of str, optional
        Names of the d coordinates, to name those nearest to the plane of a great circle.
    settings : mapping of str to str, optional
        More rows of the section on settings: names and values.
    last : int
        How many of the last windows are shown.
    unit : pair of str and float, optional
        Unit in which distances are shown: its name, and how much of it one turn is, such as ``("degrees", 360)`` or
        ``("km", 40030.2)`` on the earth. Turns by default.

    Returns
    -------
    Path
        The file.
    """
    if not monitor.windows:
        raise ValueError("monitor: has no windows yet; check one first.")
    if columns is not None and len(columns) != monitor.dim:
        raise ValueError(f"columns: got {plural(len(columns), 'name')} for {monitor.dim} coordinates; give one each.")
    shown_unit = as_distance_unit(unit)
    windows = monitor.windows[-last:]
    shown = _LastWindows(windows, monitor.summary, monitor.p, monitor.dim, monitor.n_projections)
    earlier = len(monitor.windows) - len(windows)
    note = f" Earlier windows, not shown but in the history: {earlier}." if earlier else ""
    body = "\n".join(
        [
            summary_paragraph(shown),
            timeline_section(
                shown,
                "The band holds 98 of 100 windows of this size if nothing has changed; an alarm needs more than a "
                f"value above it, since {plural(monitor.horizon, 'window')} share the level.{note}",
                shown_unit,
            ),
            table_section(shown, shown_unit),
            windows_section(shown, None, columns, shown_unit),
            _settings(monitor, settings or {}, shown_unit),
        ]
    )
    heading = shortened(printable(title), _MAX_TITLE)
    return write_text(path, html_page(heading, body, css=asset("report.css")))


def _settings(monitor: DriftMonitor, more: Mapping[str, str], unit: DistanceUnit) -> str:
    """HTML of the section with the settings and an explanation of the terms."""
    first, last = monitor.windows[0], monitor.windows[-1]
    listed = settings_list(
        {
            "Reference": f"{monitor.n_reference:,} points in dimension {monitor.dim}, as a sketch",
            "Windows": f"{len(monitor.windows)}, tested from {first.time} to {last.time}",
            "Distance": f"{distance_name(monitor.p)}, over {monitor.n_projections:,} great circles, the same for all",
            "Permutations": f"999 of groups per window, {monitor.permutations:,} where the p-value is small",
            "Level": f"{monitor.alpha:g} for any {plural(monitor.horizon, 'consecutive window')} together",
            **more,
        }
    )
    horizon = plural(monitor.horizon, "consecutive window")
    return f"""<section>
<h2>Settings</h2>
{listed}
<h2>How to read this</h2>
<p>Points on the sphere are projected onto great circles. The distance {distance_markup(monitor.p)} is that of optimal
transport on these circles, averaged; a great circle is {turn_text(unit)} long. It is never zero between two samples, so
each window is compared with random exchanges of whole groups (documents, users) between reference and window: the
p-value is the share of exchanges that lie at least as far apart. Corrected p-values are multiplied by the horizon: if
nothing has changed, the probability of any alarm in {horizon} is at most {monitor.alpha:g}. All windows are compared
with the same reference: where its own sample is unusual, false alarms come together.</p>
</section>"""
