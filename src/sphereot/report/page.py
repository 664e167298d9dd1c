"""The drift report as a whole: which sections there are, and in which order."""

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.validation import as_points, require_same_dim
from sphereot._html.page import html_page
from sphereot._support.atomic_write import write_text
from sphereot._support.text import printable, shortened
from sphereot.report.globe_section import globe_section
from sphereot.report.scatter_plot import PlaneView
from sphereot.report.settings import settings_section
from sphereot.report.summary import summary_paragraph, table_section
from sphereot.report.timeline import timeline_section
from sphereot.report.windows import windows_section
from sphereot.stats import DriftResult

__all__ = ["drift_page"]

_LONGEST_TITLE = 120


def drift_page(
    path: str | os.PathLike[str],
    result: DriftResult,
    reference: Any,
    windows: Sequence[Any],
    *,
    title: str = "Drift report",
    columns: Sequence[str] | None = None,
    earth: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Path:
    """Write what `drift_test` found as a page that opens from disk, with no network.

    It has a sentence on what was found; the value of each window beside what chance explains; for each window the great
    circle that differs most, with both densities, and the points along two axes; a globe where d = 3; and the settings.

    Parameters
    ----------
    path : path
        The file to write, ``.html``; it is there whole or not at all.
    result : DriftResult
        What `sphereot.stats.drift_test` found.
    reference : array, shape (n, d)
        The reference of that test; at most 1000 of its points are drawn.
    windows : sequence of arrays, shape (m_k, d)
        The windows of that test, in the same order; likewise.
    title : str
        Heading of the page. Like every text here it is shown as it is: markup in it is not obeyed.
    columns : sequence of str, optional
        Names of the d coordinates, to say which ones a great circle is made of.
    earth : bool
        Whether points are places on the earth, so that the globe has coastlines (where `sphereot[map]` is installed).
    settings : mapping of str to str, optional
        More to say about how the report came to be: names and values.

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
    >>> found = drift_test(x, [y], permutations=99, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = drift_page(f"{folder}/report.html", found, x, [y], title="Embeddings of <monday>")
    ...     "<h1>Embeddings of &lt;monday&gt;</h1>" in page.read_text(encoding="utf-8")
    True
    """
    first, samples = _checked(result, reference, windows)
    if columns is not None and len(columns) != result.dim:
        raise ValueError(f"columns: {len(columns)} names given for {result.dim} coordinates; give one each.")
    body = "\n".join(
        [
            summary_paragraph(result),
            timeline_section(result),
            table_section(result),
            windows_section(result, PlaneView(first, samples), columns),
            globe_section(result, first, samples, earth=earth),
            settings_section(result, settings or {}),
        ]
    )
    look = files("sphereot._html").joinpath("assets", "report.css").read_text("utf-8")
    return write_text(path, html_page(shortened(printable(title), _LONGEST_TITLE), body, look=look))


def _checked(result: DriftResult, reference: Any, windows: Sequence[Any]) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    if len(windows) != len(result.windows):
        raise ValueError(
            f"windows: {len(windows)} given, but the result is of {len(result.windows)}; give those of the test."
        )
    first = as_points("reference", reference)
    if tuple(first.shape) != (result.n_reference, result.dim):
        raise ValueError(
            f"reference: shape is {tuple(first.shape)}, but the result is of {result.n_reference} points in dimension "
            f"{result.dim}; give the reference of the test."
        )
    samples = []
    for k, (points, window) in enumerate(zip(windows, result.windows, strict=True)):
        sample = as_points(f"windows[{k}]", points)
        require_same_dim("reference", first, f"windows[{k}]", sample)
        if sample.shape[0] != window.n:
            raise ValueError(f"windows[{k}]: {sample.shape[0]} points, but {window.n} were tested; give those.")
        samples.append(np.asarray(to_numpy(sample)))
    return np.asarray(to_numpy(first)), samples
