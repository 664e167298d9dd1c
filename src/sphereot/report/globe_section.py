"""Section with a globe, for points on S^2: reference, farthest window, and the great circle that differs most."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._support.text import shortened
from sphereot.plotting.globe_pages import globe_figure
from sphereot.report.markup import data_name
from sphereot.report.scatter_plot import MAX_POINTS, subsample
from sphereot.stats import DriftResult

__all__ = ["globe_section"]

_POINTS_PER_CIRCLE = 360


def globe_section(result: DriftResult, reference: NDArray[Any], windows: Sequence[NDArray[Any]], *, earth: bool) -> str:
    """HTML of the section; empty unless d = 3."""
    if result.dim != 3:
        return ""
    window = result.farthest
    k = next(k for k, candidate in enumerate(result.windows) if candidate is window)
    angle = 2 * np.pi * np.arange(_POINTS_PER_CIRCLE) / _POINTS_PER_CIRCLE
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ window.circle.frame.T.astype(np.float64)
    figure = globe_figure(
        points=[subsample(reference), subsample(windows[k]), circle],
        labels=["reference", shortened(window.label), "great circle that differs most"],
        name="Reference and window on the globe",
        coastlines=None if earth else False,
        checked=True,
    )
    note = f" At most {MAX_POINTS:,} points each are drawn." if max(len(reference), window.n) > MAX_POINTS else ""
    return (
        f"<section><h2>On the globe</h2><p>The reference and {data_name(window.label)}, the window that most "
        f"surely differs from it.{note}</p>{figure}</section>"
    )
