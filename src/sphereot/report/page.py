"""The drift report: an HTML page made of sections."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.types import Points
from sphereot._arrays.validation import as_vectors, require_same_dim
from sphereot._html.page import asset, html_page
from sphereot._support.atomic_write import write_text
from sphereot._support.text import plural, printable, shortened
from sphereot.report.globe_section import globe_section
from sphereot.report.scatter_plot import DifferingPlanePlot
from sphereot.report.settings import settings_section
from sphereot.report.summary import summary_paragraph, table_section
from sphereot.report.timeline import timeline_section
from sphereot.report.units import as_distance_unit
from sphereot.report.windows import windows_section
from sphereot.stats import DriftResult

__all__ = ["drift_page"]

_MAX_TITLE = 120  # characters
_BAND_NOTE = (
    "The band is the range of a window of this size if nothing has changed, at the corrected level; exactly the "
    "windows above it count as drift."
)


def drift_page(
    path: str | os.PathLike[str],
    result: DriftResult,
    reference: Points | None = None,
    windows: Sequence[Points] | None = None,
    *,
    title: str = "Drift report",
    columns: Sequence[str] | None = None,
    earth: bool = False,
    settings: Mapping[str, str] | None = None,
    moved: Sequence[tuple[Sequence[str], Sequence[str]] | None] | None = None,
    unit: tuple[str, float] | None = None,
) -> Path:
    """Write the result of a drift test as an HTML page that opens from disk, without network access.

    It has a summary; the distance of each window beside the band that chance explains; for each window the great circle
    that differs most, with both densities, and the points in the plane in which they differ most; a globe if d = 3;
    and the settings.

    Parameters
    ----------
    path : path
        The file to write, ``.html``; it is written atomically.
    result : DriftResult
        Result of `sphereot.stats.drift_test`.
    reference : array, shape (n, d), optional
        The reference of that test; at most 1000 of its points are drawn. After a test of sketches there are no points,
        and the page has no plots of them.
    windows : sequence of arrays, shape (m_k, d), optional
        The windows of that test, in the same order; at most 1000 points of each are drawn.
    title : str
        Heading of the page. Like every text here it is escaped: markup in it is shown as text.
    columns : sequence of str, optional
        Names of the d coordinates, to name those nearest to the plane of a great circle.
    earth : bool
        Whether points are locations on the earth, so that the globe has coastlines (if `sphereot[map]` is installed).
    settings : mapping of str to str, optional
        More rows of the section on settings: names and values.
    moved : sequence of (new, gone) or None, optional
        For each window, names of its rows that are new and of rows of the reference that have gone, those that
        contribute most first (`sphereot.stats.row_contributions` finds them).
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
    ...     page = drift_page(f"{folder}/report.html", result, x, [y], title="Embeddings of <monday>")
    ...     "<h1>Embeddings of &lt;monday&gt;</h1>" in page.read_text(encoding="utf-8")
    True
    """
    if (reference is None) != (windows is None):
        raise ValueError("reference, windows: give both, or none of them after a test of sketches.")
    points = None if windows is None else _validated(result, reference, windows)
    if columns is not None and len(columns) != result.dim:
        raise ValueError(f"columns: got {plural(len(columns), 'name')} for {result.dim} coordinates; give one each.")
    count = len(result.windows)
    if moved is not None and len(moved) != count:
        raise ValueError(f"moved: got {len(moved)} for {plural(count, 'window')}; give one each, or None.")
    shown_unit = as_distance_unit(unit)
    body = "\n".join(
        [
            summary_paragraph(result),
            timeline_section(result, _BAND_NOTE, shown_unit),
            table_section(result, shown_unit),
            windows_section(result, None if points is None else _plot(result, *points), columns, shown_unit, moved),
            "" if points is None else globe_section(result, *points, earth=earth),
            settings_section(result, settings or {}, shown_unit),
        ]
    )
    heading = shortened(printable(title), _MAX_TITLE)
    return write_text(path, html_page(heading, body, css=asset("report.css")))


def _plot(result: DriftResult, reference: NDArray[Any], windows: list[NDArray[Any]]) -> DifferingPlanePlot:
    return DifferingPlanePlot(reference, windows, [window.test for window in result.windows])


def _validated(result: DriftResult, reference: Any, windows: Sequence[Any]) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    if len(windows) != len(result.windows):
        raise ValueError(
            f"windows: got {len(windows)}, but the result is of {len(result.windows)}; give the windows of the test."
        )
    first = as_vectors("reference", reference)  # the test has checked that they are unit vectors
    if tuple(first.shape) != (result.n_reference, result.dim):
        raise ValueError(
            f"reference: got shape {tuple(first.shape)}, but the result is of {result.n_reference} points in dimension "
            f"{result.dim}; give the reference of the test."
        )
    samples = []
    for k, (points, window) in enumerate(zip(windows, result.windows, strict=True)):
        sample = as_vectors(f"windows[{k}]", points)
        require_same_dim("reference", first, f"windows[{k}]", sample)
        if sample.shape[0] != window.n:
            raise ValueError(
                f"windows[{k}]: got {plural(sample.shape[0], 'point')}, but {window.n} were tested; give those."
            )
        samples.append(np.asarray(to_numpy(sample)))
    return np.asarray(to_numpy(first)), samples
