"""Where two samples differ: a map of the difference of their densities on S^2, or a plane in more dimensions."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import AsinhNorm, LinearSegmentedColormap, Normalize
from matplotlib.lines import Line2D
from matplotlib.projections.geo import GeoAxes
from numpy.typing import NDArray

from sphereot._arrays.types import Points
from sphereot.plotting._axes import (
    color_ticks,
    marker_opacity,
    marker_size,
    new_axes,
    number_text,
    points_in_space,
)
from sphereot.plotting.maps import density_map, legend_below, scatter_map
from sphereot.plotting.styling import GRID_COLOR, INK, PALETTE, style

if TYPE_CHECKING:
    from sphereot.stats import DifferenceMap

DIFFERENCE_COLORS = LinearSegmentedColormap.from_list("difference", ["#B2480B", "#FFFFFF", "#0A5C94"])
"""Colors of differences: orange if y is denser, white if both are equal, blue if x is denser."""

_FIGURE_SIZE = (3.4, 2.7)  # inches: the map, the color bar and the legend
_PLANE_SIZE = (3.4, 3.6)
_NOTE_CHARACTERS = 58  # in a line below the plane
_MAX_LABEL = 56  # characters in a line at the color bar
_DRAWN = 1000  # points of a sample: more would hide the map
_REGION_WIDTH, _SHORE_WIDTH = 0.9, 0.4  # points


def difference_map(
    result: "DifferenceMap",
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
        The result of `sphereot.stats.difference_map`. Lines surround the significant regions: solid lines if x is
        denser, dashed lines if y is denser.
    x, y : array, shape (n, 3) and (m, 3), optional
        The samples. At most 1000 points of each are drawn on the map.
    labels : pair of str, default ("x", "y")
        Names of the samples, for the color bar and the legend.
    ax : matplotlib GeoAxes, optional
        Axes to draw on; by default those of a new figure.
    coastlines, colorbar, sky : bool
        As in `density_map`.
    legend : bool, default True
        Whether to add a legend below the map that explains the lines.

    Returns
    -------
    matplotlib GeoAxes
        The Axes with the map.

    Examples
    --------
    >>> from sphereot import plotting, sphere
    >>> from sphereot.stats import difference_map
    >>> x, y = (sphere.random_uniform(50, 3, seed=seed) for seed in (0, 1))
    >>> result = difference_map(x, y, permutations=19, resolution=20, seed=0)
    >>> plotting.difference_map(result, labels=("before", "after")).name
    'mollweide'
    """
    first, second = f"density of {labels[0]}", f"minus density of {labels[1]} [1/sr]"
    bar_label = f"{first}{' ' if len(first) + len(second) < _MAX_LABEL else chr(10)}{second}"
    axes = density_map(
        result.difference,
        ax=new_axes(_FIGURE_SIZE, projection="mollweide") if ax is None else ax,
        cmap=DIFFERENCE_COLORS,
        norm=difference_norm(result),
        label=bar_label,
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
        # Coastlines are less prominent than the lines around regions, and more prominent than the graticule.
        if artist.get_gid() == "coastlines":
            artist.set(linewidth=_SHORE_WIDTH, alpha=0.7)
        elif artist.get_gid() == "graticule":
            artist.set(linewidth=0.3, alpha=0.25)
    handles: list[Line2D] = []
    names: list[str] = []
    for sign, line, label in ((1, "solid", labels[0]), (-1, "dashed", labels[1])):
        if (result.region == sign).any():
            excess = sign * result.standardized
            _surround(axes, excess[:, ::-1] if sky else excess, result.threshold, line)
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
        found = "Lines around significant regions" if has_regions else "No significant region"
        title = f"{found} (alpha = {result.alpha:g})"
        legend_below(axes, handles, names, title, handle_length=2.2)
    return axes


def difference_norm(result: "DifferenceMap") -> Normalize:
    """Return a color scale of differences: linear near 0, and logarithmic above a tenth of the largest difference."""
    largest = float(np.abs(result.difference).max()) or 1.0
    norm: Normalize = AsinhNorm(linear_width=largest / 10, vmin=-largest, vmax=largest)
    return norm


def plane_scatter(
    samples: Sequence[NDArray[np.float64]], labels: Sequence[str], axis_names: tuple[str, str], note: str
) -> Axes:
    """Draw samples (n, 2) that are projected on a plane, with the same scale for both axes and a note below."""
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


def difference_regions(result: "DifferenceMap") -> NDArray[np.float64]:
    """Compute the significant regions for `globe_page`: values of 1/2 or -1/2 are differences at the threshold."""
    return np.clip(result.standardized / (2 * result.threshold), -1.0, 1.0)


def _surround(ax: Any, values: NDArray[np.float64], level: float, line: str) -> None:
    """Draw lines around regions, between the centers of cells, also across the date line."""
    rows, columns = values.shape
    latitude = np.pi * ((np.arange(rows) + 0.5) / rows - 0.5)
    longitude = np.pi * ((np.arange(-1, columns + 1) + 0.5) / (columns / 2) - 1)
    padded = np.pad(values, ((0, 0), (1, 1)), mode="wrap")
    if padded.min() < level:
        ax.contour(
            np.clip(longitude, -np.pi, np.pi),
            latitude,
            padded,
            levels=[level],
            colors=INK,
            linewidths=_REGION_WIDTH,
            linestyles=line,
            zorder=3.2,
        )
