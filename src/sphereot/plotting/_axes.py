"""Axes, samples, colors, markers and legends: what all plots share."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sphereot._arrays.containers import Columns, SampleColumns, dimensions
from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.validation import as_points, as_samples
from sphereot.plotting.styling import INK, PALETTE, style

__all__ = [
    "RASTER_FROM",
    "add_legend_entry",
    "marker_opacity",
    "marker_size",
    "named_samples",
    "new_axes",
    "next_color",
    "points_in_space",
    "require_axes",
    "samples_in_space",
]

AxesT = TypeVar("AxesT", bound=Axes)

RASTER_FROM = 5000
"""Number of points above which they are drawn as an image, since a vector file would open slowly."""


def points_in_space(name: str, points: Any, columns: Columns | None = None) -> NDArray[np.float64]:
    """Unit vectors (n, 3) as NumPy float64."""
    return _in_space(name, to_numpy(as_points(name, points, columns, weighted=True)).astype(np.float64))


def samples_in_space(points: Any, columns: SampleColumns | None) -> list[NDArray[np.float64]]:
    """Unit vectors (n, 3) of one or several samples as NumPy float64."""
    return [_in_space(name, sample) for name, sample in named_samples(points, columns).items()]


def _in_space(name: str, array: NDArray[np.float64]) -> NDArray[np.float64]:
    if array.shape[1] != 3:
        raise ValueError(
            f"{name}: got points in dimension {array.shape[1]}, but this plot shows S^2 and needs shape (n, 3); "
            "for other dimensions see circle_projections."
        )
    return array


def named_samples(points: Any, columns: SampleColumns | None) -> dict[str, NDArray[np.float64]]:
    """Unit vectors as NumPy float64, by the names that messages use; `points` is one sample or a list of samples."""
    named = {"points": points}
    if isinstance(points, list | tuple) and len(points) > 0 and dimensions(points[0]) == 2:
        named = {f"points[{i}]": sample for i, sample in enumerate(points)}
    samples = as_samples(columns, weighted=True, **named)
    return {name: to_numpy(sample).astype(np.float64) for name, sample in zip(named, samples, strict=True)}


def new_axes(figsize: tuple[float, float], **kwargs: Any) -> Any:
    """Axes on a new figure in the style of the project."""
    with style():
        figure = Figure(figsize=figsize)
        return figure.add_subplot(**kwargs)


def require_axes(ax: Any, kind: type[AxesT], what: str, remedy: str) -> AxesT:
    """The Axes; raise unless they are of the `kind` that a plot needs. The kind Axes means plain rectilinear ones."""
    if isinstance(ax, kind) and (kind is not Axes or ax.name == "rectilinear"):
        return ax
    got = f"Axes with projection {ax.name!r}" if isinstance(ax, Axes) else type(ax).__name__
    raise TypeError(f"ax: got {got}, but {what}; make them with {remedy}, or leave ax out.")


def next_color(ax: Any) -> str:
    """Color of the palette for one more sample on `ax`."""
    return PALETTE[sum(1 for artist in ax.collections if artist.get_gid() == "points") % len(PALETTE)]


def marker_size(n: int) -> float:
    """Marker area in square points at which a scatter plot of `n` points stays readable."""
    return float(np.clip(1000.0 / n, 1.0, 9.0))


def marker_opacity(n: int) -> float:
    """Opacity of markers at which dense regions of a scatter plot of `n` points are darker than others."""
    return float(np.clip(np.sqrt(2000.0 / n), 0.3, 1.0))


_LEGEND_AREA = 16.0  # square points, of a marker 4 points wide
_MARKER_OPTIONS = ("marker", "edgecolors", "linewidths", "alpha")


def _typical_color(points: Any) -> Any:
    if points.get_array() is not None:
        return points.cmap(0.5)
    faces = points.get_facecolor()
    return faces[0] if len(faces) else INK


def add_legend_entry(
    ax: Any, points: Any, label: str, size: Any, color: Any = None, options: Mapping[str, Any] | None = None
) -> None:
    """Add a legend entry for the artist `points`, with a marker of its color that is large enough to see.

    Otherwise the legend repeats the size of the points, which for large samples is one square point.
    """
    if color is None:
        color = _typical_color(points)
    marker = {name: value for name, value in (options or {}).items() if name in _MARKER_OPTIONS}
    area = max(_LEGEND_AREA, float(np.median(size)))
    nothing: list[list[float]] = [[]] * (3 if ax.name == "3d" else 2)
    ax.scatter(*nothing, s=area, label=label, gid="legend", **({"color": color, "linewidths": 0} | marker))
