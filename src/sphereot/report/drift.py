"""The pages of a drift test, of a drift monitor, and of a two-sample test in a dimension without a map."""

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from sphereot._support.atomic_write import write_text
from sphereot._support.extras import require
from sphereot._support.text import cost_name, p_value_text, plural, printable, shorten
from sphereot._support.units import Lengths, Unit, as_unit, format_number
from sphereot.plotting.globe import globe_figure, html_page
from sphereot.report.charts import (
    MAX_POINTS,
    circle_chart,
    distance_name,
    plane_chart,
    subsample,
    timeline,
)
from sphereot.sphere import to_lonlat
from sphereot.stats import DriftMonitor, DriftResult, DriftWindow, TwoSampleResult

_MAX_TITLE = 120  # characters
_MAX_COLUMNS = 3  # named in a caption
_POINTS_PER_CIRCLE = 360
_WIDTHS = {"chart-wide": 860.0, "chart-narrow": 360.0}  # the page shows one of them
_BAND_NOTE = (
    "The band is the range of a window of this size if nothing has changed, at the corrected level; exactly the "
    "windows above it count as drift."
)

Rows = tuple[Sequence[str], Sequence[str]]
"""Names of rows of a window that are new, and of rows of the reference that are missing in it."""


def drift_page(
    path: str | os.PathLike[str],
    result: DriftResult,
    *,
    title: str = "Drift report",
    columns: Sequence[str] | None = None,
    earth: bool = False,
    settings: Mapping[str, str] | None = None,
    rows: Sequence[Rows | None] | None = None,
    unit: tuple[str, float] | None = None,
) -> Path:
    """Write the result of a drift test as an HTML page that opens from disk, without network access.

    It has a summary; the distance of each window beside the band that chance explains; for each window the great circle
    that differs most, with both densities, and the points in the plane in which they differ most; a globe if d = 3;
    and the settings. After a test of sketches there are no points, and the page has no plots of them.

    Parameters
    ----------
    path : path
        The file to write, ``.html``; it is written atomically.
    result : DriftResult
        Result of `sphereot.stats.drift_test`; at most 1000 points of the reference and of each window are drawn.
    title : str
        Heading of the page. Like every text here it is escaped: markup in it is shown as text.
    columns : sequence of str, optional
        Names of the d coordinates, to name those nearest to the plane of a great circle.
    earth : bool
        Whether points are locations on the earth, so that the globe has coastlines (if `sphereot[map]` is installed).
    settings : mapping of str to str, optional
        More rows of the section on settings: names and values.
    rows : sequence of (new, missing) or None, optional
        For each window, names of its rows that are new and of rows of the reference that it has nothing like, those
        that contribute most first (`sphereot.stats.row_contributions` finds them).
    unit : pair of str and float, optional
        Unit in which distances are shown: its name, and how much of it one turn is, such as ``("degrees", 360)`` or
        ``("km", 40030.2)`` on the earth. Turns by default.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import sphereot
    >>> from sphereot.report import drift_page
    >>> from sphereot.stats import drift_test
    >>> x, y = (sphereot.sphere.random_uniform(50, 4, seed=seed) for seed in (1, 2))
    >>> result = drift_test(x, [y], permutations=99, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = drift_page(f"{folder}/report.html", result, title="Embeddings of <monday>")
    ...     "<h1>Embeddings of &lt;monday&gt;</h1>" in page.read_text(encoding="utf-8")
    True
    """
    count = len(result.windows)
    if rows is not None and len(rows) != count:
        raise ValueError(f"rows: got {len(rows)} for {plural(count, 'window')}; give one each, or None.")
    correction = f", Holm's correction for {count}" if count > 1 else ""
    shown = {
        "Reference": f"{plural(result.n_reference, 'point')} in dimension {result.dim}",
        "Windows": f"{count}",
        "Distance": f"{distance_name(result.p)}, over {plural(result.n_projections, 'great circle')}, "
        "the same for all windows",
        "Permutations": f"{result.permutations:,} per window",
        "Level": f"{result.alpha:g} for all windows together{correction}",
        **(settings or {}),
    }
    planes = None
    if result.reference is not None:
        windows = [(w.points, w.test) for w in result.windows if w.points is not None and w.test is not None]
        planes = [plane_chart(result.reference, points, test) for points, test in windows]
    return _write(
        path, title, result, as_unit(unit), columns,
        summary=result.summary, note=_BAND_NOTE, settings=shown, rows=rows, planes=planes, horizon=None,
        globe=_globe(result, earth) if planes is not None and result.dim == 3 else None,
    )  # fmt: skip


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
    path, columns, settings, unit
        As in `drift_page`.
    monitor : DriftMonitor
        With at least one window.
    title : str
        Heading of the page; it is escaped.
    last : int
        How many of the last windows are shown.

    Returns
    -------
    Path
        The file.
    """
    if not monitor.windows:
        raise ValueError("monitor: has no windows yet; check one first.")
    m, windows = monitor, monitor.windows[-last:]
    horizon = plural(m.horizon, "consecutive window")
    result = DriftResult(windows, m.alpha, m.n_reference, m.dim, m.p, m.permutations, m.n_projections)
    earlier = len(m.windows) - len(windows)
    shown = {
        "Reference": f"{m.n_reference:,} points in dimension {m.dim}, as a sketch",
        "Windows": f"{len(m.windows)}, tested from {m.windows[0].time} to {m.windows[-1].time}",
        "Distance": f"{distance_name(m.p)}, over {m.n_projections:,} great circles, the same for all",
        "Permutations": f"999 of groups per window, {m.permutations:,} where the p-value is small",
        "Level": f"{m.alpha:g} for any {horizon} together",
        **(settings or {}),
    }
    note = (
        "The band holds 98 of 100 windows of this size if nothing has changed; an alarm needs more than a value above "
        f"it, since {plural(m.horizon, 'window')} share the level."
        + (f" Earlier windows, not shown but in the history: {earlier}." if earlier else "")
    )
    return _write(
        path, title, result, as_unit(unit), columns,
        summary=m.summary, note=note, settings=shown, rows=None, planes=None, horizon=horizon, globe=None,
    )  # fmt: skip


def plane_page(path: Path, x: Any, y: Any, names: tuple[str, str], test: TwoSampleResult) -> None:
    """Write a page with the points of two samples in the plane in which they differ most."""
    summary = (
        f"{plural(test.n, 'point')} of {names[0]} and {plural(test.m, 'point')} of {names[1]} in dimension {test.dim}: "
        f"the p-value of the test that both come from one distribution is {p_value_text(test.p_value)}."
    )
    body = _template().render(plane=plane_chart(x, y, test), summary=summary, names=names)
    write_text(path, html_page(f"Where {names[0]} and {names[1]} differ", body, css=_css()))


def _write(
    path: str | os.PathLike[str],
    title: str,
    result: DriftResult,
    unit: Unit,
    columns: Sequence[str] | None,
    *,
    settings: Mapping[str, str],
    **parts: Any,
) -> Path:
    if columns is not None and len(columns) != result.dim:
        raise ValueError(f"columns: got {plural(len(columns), 'name')} for {result.dim} coordinates; give one each.")
    lengths = Lengths(result.p, result.dim, unit)
    body = _template().render(
        result=result,
        lengths=lengths,
        unit=unit,
        n_drifted=sum(window.drifted for window in result.windows),
        timelines={kind: timeline(result, lengths, width) for kind, width in _WIDTHS.items()},
        circles=[circle_chart(window) | _location(window, columns) for window in result.windows],
        settings={**settings, "Made by": f"sphereot {version('sphereot')}"},
        **parts,
    )
    return write_text(path, html_page(shorten(printable(title), _MAX_TITLE), body, css=_css()))


def _location(window: DriftWindow, columns: Sequence[str] | None) -> dict[str, Any]:
    """Where the great circle is: its main columns, or its pole on S^2."""
    frame = window.circle.frame
    if columns is not None:
        order = np.argsort(-np.sum(frame**2, axis=1), kind="stable")
        return {"columns": [columns[k] for k in order[:_MAX_COLUMNS]]}
    if len(frame) == 3:
        pole = np.cross(frame[:, 0], frame[:, 1]).astype(np.float64)
        return {"pole": to_lonlat(pole / np.linalg.norm(pole)).tolist()}
    return {}


def _globe(result: DriftResult, earth: bool) -> dict[str, Any]:
    """The globe with the reference, the most significant window, and the great circle that differs most."""
    window = result.most_significant
    assert result.reference is not None
    assert window.points is not None
    angle = 2 * np.pi * np.arange(_POINTS_PER_CIRCLE) / _POINTS_PER_CIRCLE
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ window.circle.frame.T.astype(np.float64)
    figure = globe_figure(
        points=[subsample(result.reference), subsample(window.points), circle],
        labels=["reference", shorten(window.label), "great circle that differs most"],
        name="Reference and window on the globe",
        coastlines=None if earth else False,
        checked=True,
    )
    many = max(result.n_reference, window.n) > MAX_POINTS
    return {"figure": figure, "note": f" At most {MAX_POINTS:,} points each are drawn." if many else ""}


def _css() -> str:
    return files("sphereot.report").joinpath("report.css").read_text("utf-8")


@cache
def _template() -> Any:
    jinja2 = require("jinja2", "sphereot.report", extra="plot")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sphereot.report", ""), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.globals["distance_name"] = distance_name
    environment.filters |= {
        "number": format_number,
        "printable": printable,
        # Only where the summary writes the distance, not where the name of a window contains the same characters.
        "split_name": lambda text, p: re.split(rf"\({re.escape(cost_name(p))} (?=\S+ times that of chance)", text),
    }
    return environment.get_template("page.html")
