"""Where two samples differ: a map of the difference of their densities on S^2, or a plane of a higher dimension."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import AsinhNorm, LinearSegmentedColormap, Normalize
from matplotlib.lines import Line2D
from matplotlib.projections.geo import GeoAxes
from numpy.typing import NDArray

from sphereot._arrays.types import Points
from sphereot.plotting._axes import marker_opacity, marker_size, new_axes, points_in_space
from sphereot.plotting._ticks import color_ticks, number_text
from sphereot.plotting.maps import density_map, legend_below, scatter_map
from sphereot.plotting.styling import GRID_COLOR, INK, PALETTE, style
from sphereot.stats import DifferenceMap

__all__ = ["DIFFERENCE_COLORS", "difference_map", "difference_norm", "fine_regions", "plane_scatter"]

DIFFERENCE_COLORS = LinearSegmentedColormap.from_list("difference", ["#B2480B", "#FFFFFF", "#0A5C94"])
"""Orange where y is denser, white where both are equal, blue where x is."""

_FIGURE_SIZE = (3.4, 2.7)  # inches: the map, the color bar and the legend
_PLANE_SIZE = (3.4, 3.6)
_NOTE_CHARACTERS = 58  # in a line below the plane
_MAX_LABEL = 56  # characters in a line at the color bar
_DRAWN = 1000  # points of a sample: more would hide the map
_REGION_WIDTH, _SHORE_WIDTH = 0.9, 0.4  # points
_MARGIN = 1e-6  # relative to the threshold
_PICTURE_ROWS = 360  # of cells, where the result has fewer


def difference_map(
    result: DifferenceMap,
    *,
    x: Points | None = None,
    y: Points | None = None,
    labels: tuple[str, str] = ("x", "y"),
    ax: Axes | None = None,
    coastlines: bool = False,
    colorbar: bool = True,
    legend: bool = True,
    sky: bool = False,
) -> GeoAxes:
    """Draw where two samples differ: a Mollweide map of the difference of their densities.

    Parameters
    ----------
    result : DifferenceMap
        As `sphereot.stats.difference_map` returns it. Lines surround the regions beyond chance: solid where x is
        denser, dashed where y is.
    x, y : array, shape (n, 3) and (m, 3), optional
        The samples, at most 1000 points of each, drawn on top.
    labels : pair of str
        Their names, for the color bar and the legend.
    ax : matplotlib GeoAxes, optional
        Where to draw; on a new figure by default.
    coastlines : bool
        Whether to draw the coastlines of the earth; needs the extra ``sphereot[map]``.
    colorbar : bool
        Whether to add a color bar.
    legend : bool
        Whether to add a legend below the map that says what the lines mean.
    sky : bool
        As in `density_map`.

    Returns
    -------
    matplotlib GeoAxes

    Examples
    --------
    >>> from sphereot import plotting, sphere
    >>> from sphereot.stats import difference_map
    >>> x, y = (sphere.random_uniform(50, 3, seed=seed) for seed in (0, 1))
    >>> result = difference_map(x, y, permutations=19, resolution=20, seed=0)
    >>> plotting.difference_map(result, labels=("before", "after")).name
    'mollweide'
    """
    axes = density_map(
        _finer(result.difference),
        ax=new_axes(_FIGURE_SIZE, projection="mollweide") if ax is None else ax,
        cmap=DIFFERENCE_COLORS,
        norm=difference_norm(result),
        label=_bar_label(labels),
        colorbar=colorbar,
        coastlines=coastlines,
        sky=sky,
    )
    bar = axes.collections[0].colorbar
    if bar is not None:
        ticks = color_ticks(bar.norm)
        bar.set_ticks(ticks, labels=[number_text(value) for value in ticks])
        bar.ax.minorticks_off()
    for artist in axes.collections:
        # Land is to be recognized, but less prominent than the lines around regions, and more than the graticule.
        if artist.get_gid() == "coastlines":
            artist.set(linewidth=_SHORE_WIDTH, alpha=0.7)
        elif artist.get_gid() == "graticule":
            artist.set(linewidth=0.3, alpha=0.25)
    handles: list[Line2D] = []
    names: list[str] = []
    for sign, line, label in ((1, "solid", labels[0]), (-1, "dashed", labels[1])):
        if (result.region == sign).any():
            beyond = _beyond(result, sign)
            _surround(axes, beyond[:, ::-1] if sky else beyond, result.threshold, line)
            handles.append(Line2D([], [], color=INK, linewidth=_REGION_WIDTH, linestyle=line))
            names.append(f"where {label} is denser")
    has_regions = bool(names)
    for name, sample, color, label in (("x", x, PALETTE[0], labels[0]), ("y", y, PALETTE[1], labels[1])):
        if sample is not None:
            points = points_in_space(name, sample)
            few = points[:: max(1, -(-len(points) // _DRAWN))]
            scatter_map(few, ax=axes, sky=sky, color=color, size=1.5, linewidths=0)
            handles.append(Line2D([], [], color=color, marker="o", markersize=3, linestyle="none"))
            names.append(f"points of {label}")
    if legend:
        found = "Lines around regions" if has_regions else "No region is"
        title = f"{found} beyond chance at level {result.alpha:g}"
        legend_below(axes, handles, names, title, handle_length=2.2)
    return axes


def _bar_label(labels: tuple[str, str]) -> str:
    """Label of the color bar, in two lines if it is long."""
    first, second = f"density of {labels[0]}", f"less that of {labels[1]} [1/sr]"
    return f"{first}{' ' if len(first) + len(second) < _MAX_LABEL else chr(10)}{second}"


def difference_norm(result: DifferenceMap) -> Normalize:
    """Colors of differences: linear near 0 and logarithmic beyond a tenth of the largest, so that peaks hide little."""
    largest = float(np.abs(result.difference).max()) or 1.0
    norm: Normalize = AsinhNorm(linear_width=largest / 10, vmin=-largest, vmax=largest)
    return norm


def plane_scatter(
    samples: Sequence[NDArray[np.float64]], labels: Sequence[str], axis_names: tuple[str, str], note: str
) -> Axes:
    """Scatter plot of samples (n, 2) that are projected on a plane, with one scale for both axes and a note below."""
    axes: Axes = new_axes(_PLANE_SIZE)
    with style():
        axes.axhline(0, color=GRID_COLOR, linewidth=0.4, zorder=0)
        axes.axvline(0, color=GRID_COLOR, linewidth=0.4, zorder=0)
        count = max(map(len, samples))
        size, opacity = 2.5 * marker_size(count), 0.8 * marker_opacity(count)
        handles = []
        for sample, color in zip(samples, PALETTE, strict=False):
            axes.scatter(sample[:, 0], sample[:, 1], s=size, color=color, alpha=opacity, linewidths=0, gid="points")
            handles.append(Line2D([], [], color=color, marker="o", markersize=4, linestyle="none"))
        limit = 1.05 * max(float(np.abs(sample).max()) for sample in samples)
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
        axes.set(xlabel=axis_names[0], ylabel=axis_names[1])
        axes.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), handlelength=1.0)
        axes.figure.supxlabel("\n".join(textwrap.wrap(note, _NOTE_CHARACTERS)), fontsize=6, color=INK)
    return axes


def fine_regions(result: DifferenceMap) -> NDArray[np.float64]:
    """The regions beyond chance on the smaller cells of a picture, for `globe_page`: 1, -1 and 0 with soft edges.

    Values are 1/2 or -1/2 where the difference is at the threshold, and linear in it as far as the next cell.
    """
    soft = np.zeros([_factor(len(result.region)) * size for size in result.region.shape])
    for sign in (1, -1):
        if (result.region == sign).any():
            excess = _beyond(result, sign) - result.threshold
            soft += sign * np.clip(0.5 + 0.5 * excess / _largest_step(excess), 0.0, 1.0)
    return soft


def _largest_step(excess: NDArray[np.float64]) -> float:
    """Largest change between neighboring cells on both sides of the value 0."""
    steps = [0.0]
    for axis in (0, 1):
        other = np.roll(excess, -1, axis)
        is_edge = (excess > 0) != (other > 0)
        if axis == 0:
            is_edge[-1] = False  # the poles are not neighbors
        steps.append(float(np.abs(other - excess)[is_edge].max(initial=0.0)))
    return max(steps) or 1.0


def _finer(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of a smooth function on smaller cells, by cubic interpolation, across the date line too."""
    rows, columns = values.shape
    factor = _factor(rows)
    wrapped = np.concatenate([values[:, -2:], values, values[:, :2]], axis=1)
    across = _interpolated(wrapped, columns, factor, axis=1)
    edged = np.concatenate([across[:1], across[:1], across, across[-1:], across[-1:]])
    return _interpolated(edged, rows, factor, axis=0)


def _factor(rows: int) -> int:
    """Cells of the picture in a cell of the result, in each direction: 1 where the result is fine enough itself."""
    return min(4, -(-_PICTURE_ROWS // rows))


def _beyond(result: DifferenceMap, sign: int) -> NDArray[np.float64]:
    """The standardized difference times a sign, on smaller cells, beyond the threshold in and next to regions alone.

    Interpolation exceeds the values between which it is made, and is less than the value at the center of a cell beside
    it: it must neither add a region nor lose one. The corners of cells are left as they are, so that lines are smooth.
    """
    region, factor = result.region == sign, _factor(len(result.region))
    near = np.zeros_like(region)
    padded = np.pad(np.pad(region, ((1, 1), (0, 0))), ((0, 0), (1, 1)), mode="wrap")
    for row in range(3):
        for column in range(3):
            near |= padded[row : row + region.shape[0], column : column + region.shape[1]]
    inside, around = (np.repeat(np.repeat(cells, factor, 0), factor, 1) for cells in (region, near))
    in_middle = np.abs(np.arange(factor) - (factor - 1) / 2) < 1
    rows, columns = (np.tile(in_middle, size) for size in region.shape)
    middles = inside & rows[:, None] & columns
    fine = sign * _finer(result.standardized)
    above, below = (1 + _MARGIN) * result.threshold, (1 - _MARGIN) * result.threshold
    return np.where(middles, np.maximum(fine, above), np.where(around, fine, np.minimum(fine, below)))


def _interpolated(padded: NDArray[np.float64], count: int, factor: int, axis: int) -> NDArray[np.float64]:
    """Catmull-Rom interpolation of `count` values, padded by two at both ends, at `factor` positions in each cell."""
    position = (np.arange(count * factor) + 0.5) / factor + 1.5  # a value is at the center of its cell
    first = np.floor(position).astype(int)
    t = position - first
    weights = (
        ((2 - t) * t - 1) * t / 2,
        ((3 * t - 5) * t * t + 2) / 2,
        ((4 - 3 * t) * t + 1) * t / 2,
        (t - 1) * t * t / 2,
    )
    shape = (-1, 1) if axis == 0 else (1, -1)
    parts = [np.take(padded, first + k - 1, axis) * weight.reshape(shape) for k, weight in enumerate(weights)]
    return np.asarray(sum(parts))


def _surround(ax: Any, beyond: NDArray[np.float64], threshold: float, line: str) -> None:
    """Lines around the regions, drawn between the centers of cells and closed across the date line."""
    rows, columns = beyond.shape
    latitude = np.pi * ((np.arange(rows) + 0.5) / rows - 0.5)
    longitude = np.pi * ((np.arange(-1, columns + 1) + 0.5) / (columns / 2) - 1)
    padded = np.concatenate([beyond[:, -1:], beyond, beyond[:, :1]], axis=1)
    inside = np.clip(longitude, -np.pi, np.pi)
    if padded.min() < threshold:
        ax.contour(
            inside,
            latitude,
            padded,
            levels=[threshold],
            colors=INK,
            linewidths=_REGION_WIDTH,
            linestyles=line,
            zorder=3.2,
        )
