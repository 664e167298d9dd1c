"""Reports of drift tests, drift monitors, paired tests, and two-sample tests in dimensions without a map."""

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
from sphereot._support.text import cost_name, p_value_text, plural, printable, shorten, typeset
from sphereot._support.units import Lengths, Unit, as_unit, format_number
from sphereot.plotting.globe import globe_figure, html_page
from sphereot.report.charts import (
    MAX_POINTS,
    angle_histogram,
    circle_chart,
    distance_name,
    plane_chart,
    subsample,
    timeline,
)
from sphereot.sphere import to_lonlat
from sphereot.stats import DriftMonitor, DriftResult, DriftWindow, PairedResult, TwoSampleResult

_MAX_TITLE = 120  # characters
_MAX_COLUMNS = 3  # named in a caption
_POINTS_PER_CIRCLE = 360
_MOVED = 20  # rows in a table
_WIDTHS = {"chart-wide": 860.0, "chart-narrow": 360.0}  # the page shows one of them
_BAND_NOTE = "The band is the range to expect without drift."
_BAND_RULE = " A window has drifted if its distance is above its band."
_COMBINED_RULE = " The p-value decides, which combines several statistics: a window may have drifted within its band."

Rows = tuple[Sequence[str], Sequence[str]]
"""Names of new rows of a window, and of missing rows of the reference."""


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
    """Write the result of a drift test as an HTML report that opens from disk, without network access.

    The report shows the distance of each window and the band to expect without drift. For each window, it shows the
    great circle on which it differs most, and the points in the plane in which they differ most. If d = 3, it has a
    globe. Reports of tests on sketches show no points.

    Parameters
    ----------
    path : path
        File to write, with the extension ``.html``. It is replaced only after the whole report has been written.
    result : DriftResult
        Result of `sphereot.stats.drift_test`. At most 1000 points of each sample are drawn.
    title : str, default "Drift report"
        Heading of the report. Markup in any text is escaped.
    columns : sequence of str, optional
        Names of the d coordinates. Each great circle is described by the three coordinates nearest to its plane.
    earth : bool, default False
        Whether points are locations on the earth. The globe then has coastlines, if `sphereot[map]` is installed.
    settings : mapping of str to str, optional
        Names and values for the section on settings.
    rows : sequence of (new, missing) or None, optional
        For each window, names of its new rows and of the missing rows of the reference, the largest contributions
        first; see `sphereot.stats.row_contributions`.
    unit : pair of str and float, optional
        Unit of distances: its name, and its number per turn, such as ``("degrees", 360)`` or ``("km", 40030.2)`` on the
        earth. The default is turns.

    Returns
    -------
    Path
        Path of the file.

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
        raise ValueError(f"rows must have one entry per window ({count}), got {len(rows)}. Use None for no rows.")
    correction = ", with Holm's correction" if count > 1 else ""
    shown = {
        "Reference": f"{plural(result.n_reference, 'point')} in dimension {result.dim}",
        "Windows": f"{count}",
        "Distance": f"{distance_name(result.p)}, over {plural(result.n_projections, 'great circle')}, "
        "the same for all windows",
        "Permutations": f"{result.permutations:,} per window",
        "Significance level": f"{result.alpha:g} for all windows together{correction}",
        **(settings or {}),
    }
    rule = _COMBINED_RULE if result.windows[0].components else _BAND_RULE
    planes = None
    if result.reference is not None:
        windows = [(w.points, w.test) for w in result.windows if w.points is not None and w.test is not None]
        planes = [plane_chart(result.reference, points, test) for points, test in windows]
    return _write(
        path, title, result, as_unit(unit), columns,
        summary=result.summary, note=_BAND_NOTE + rule, settings=shown, rows=rows, planes=planes, horizon=None,
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
    """Write the history of a drift monitor as an HTML report that opens from disk, without network access.

    The report shows the distances over time, a table, and for each window the great circle on which it differs most. It
    needs neither the points nor the sketches of the windows.

    Parameters
    ----------
    path, columns, settings, unit
        See `drift_page`.
    monitor : DriftMonitor
        Monitor with at least one window.
    title : str, default "Drift monitor"
        Heading of the report.
    last : int, default 100
        Number of windows to show, from the end.

    Returns
    -------
    Path
        Path of the file.
    """
    if not monitor.windows:
        raise ValueError("The monitor must have at least one window. Call monitor.check first.")
    m, windows, reference = monitor, monitor.windows[-last:], monitor.reference
    horizon = plural(m.horizon, "consecutive window")
    result = DriftResult(windows, m.alpha, reference.n, reference.dim, m.p, m.permutations, reference.n_projections)
    earlier = len(m.windows) - len(windows)
    shown = {
        "Reference": f"{plural(reference.n, 'point')} in dimension {reference.dim}, as a sketch",
        "Windows": f"{len(m.windows)}, tested from {m.windows[0].time} to {m.windows[-1].time}",
        "Distance": f"{distance_name(m.p)}, over {reference.n_projections:,} great circles, the same for all",
        "Permutations": f"999 of groups per window, {m.permutations:,} if the p-value is small",
        "Significance level": f"{m.alpha:g} for any {horizon} together",
        **(settings or {}),
    }
    note = (
        "Without drift, 98 % of the distances lie in the band. A distance above it is not yet drift, because the "
        f"significance level applies to {plural(m.horizon, 'window')} together."
        + (f" Not shown: {plural(earlier, 'earlier window')} of the history." if earlier else "")
    )
    return _write(
        path, title, result, as_unit(unit), columns,
        summary=m.summary, note=note, settings=shown, rows=None, planes=None, horizon=horizon, globe=None,
    )  # fmt: skip


def paired_page(
    path: str | os.PathLike[str],
    result: PairedResult,
    *,
    title: str = "Paired comparison",
    names: Sequence[str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Path:
    """Write the result of a paired test as an HTML report: a histogram of the angles, and the rows that moved most.

    Parameters
    ----------
    path, title, settings
        See `drift_page`.
    result : PairedResult
        Result of `sphereot.stats.paired_test`.
    names : sequence of str, optional
        Names of the rows, such as their texts.

    Returns
    -------
    Path
        Path of the file.
    """
    if names is not None and len(names) != result.n:
        raise ValueError(f"names must have one name per row ({result.n}), got {len(names)}.")
    moved = result.moved(_MOVED)
    body = _template("paired.html").render(
        result=result,
        histograms={kind: angle_histogram(result, width) for kind, width in _WIDTHS.items() if moved},
        moved=[(f"row {row}" if names is None else names[row], angle) for row, angle in moved],
        settings={**(settings or {}), "Made by": f"sphereot {version('sphereot')}"},
    )
    return write_text(path, html_page(shorten(printable(title), _MAX_TITLE), body, css=_css()))


def plane_page(path: Path, x: Any, y: Any, names: tuple[str, str], test: TwoSampleResult) -> None:
    """Write a report with the points of two samples in the plane in which they differ most."""
    summary = (
        f"{plural(test.n, 'point')} of {names[0]} and {plural(test.m, 'point')} of {names[1]} in dimension {test.dim}: "
        f"the p-value of the test for equal distributions is {p_value_text(test.p_value)}."
    )
    body = _template("page.html").render(plane=plane_chart(x, y, test), summary=summary, names=names)
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
        raise ValueError(f"columns must have one name per coordinate ({result.dim}), got {len(columns)}.")
    lengths = Lengths(result.p, result.dim, unit)
    body = _template("page.html").render(
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
    """Describe a great circle by its main columns, or by its pole on S^2."""
    frame = window.circle.frame
    if columns is not None:
        order = np.argsort(-np.sum(frame**2, axis=1), kind="stable")
        return {"columns": [columns[k] for k in order[:_MAX_COLUMNS]]}
    if len(frame) == 3:
        pole = np.cross(frame[:, 0], frame[:, 1]).astype(np.float64)
        return {"pole": to_lonlat(pole / np.linalg.norm(pole)).tolist()}
    return {}


def _globe(result: DriftResult, earth: bool) -> dict[str, Any]:
    """Draw the globe with the reference, the most significant window, and the great circle that differs most."""
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
def _template(name: str) -> Any:
    jinja2 = require("jinja2", "sphereot.report", extra="plot")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sphereot.report", ""), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.globals["distance_name"] = distance_name
    environment.filters |= {
        "number": format_number,
        "printable": printable,
        "typeset": typeset,
        # Only the distances of the summary, not the same characters in the name of a window.
        "split_name": lambda text, p: re.split(rf"\({re.escape(cost_name(p))} (?=is \S+ times its expected)", text),
    }
    return environment.get_template(name)
