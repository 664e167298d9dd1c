"""The globe, where points are on S^2: the reference, the window farthest from it, and the great circle that differs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._support.text import shortened
from sphereot.plotting.globe_pages import globe_figure
from sphereot.report.markup import data_name
from sphereot.report.scatter_plot import MOST_POINTS, some_points
from sphereot.stats import DriftResult

__all__ = ["globe_section"]

_DOTS_ON_CIRCLE = 360


def globe_section(result: DriftResult, reference: NDArray[Any], windows: Sequence[NDArray[Any]], *, earth: bool) -> str:
    """The globe as a section; nothing where d is not 3."""
    if result.dim != 3:
        return ""
    window = result.farthest
    k = next(k for k, one in enumerate(result.windows) if one is window)
    turn = 2 * np.pi * np.arange(_DOTS_ON_CIRCLE) / _DOTS_ON_CIRCLE
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1) @ window.circle.frame.T.astype(np.float64)
    figure = globe_figure(
        points=[some_points(reference), some_points(windows[k]), circle],
        labels=["reference", shortened(window.label), "great circle that differs most"],
        name="Reference and window on the globe",
        coastlines=None if earth else False,
    )
    cut = f" At most {MOST_POINTS:,} points each are drawn." if max(len(reference), window.n) > MOST_POINTS else ""
    return (
        f"<section><h2>On the globe</h2><p>The reference and {data_name(window.label)}, the window most surely away "
        f"from it.{cut}</p>{figure}</section>"
    )
