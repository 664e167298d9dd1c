"""Map of the difference of two densities on S^2, with the regions where it is beyond chance."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import AsinhNorm, LinearSegmentedColormap, Normalize
from matplotlib.projections.geo import GeoAxes

from sphereot._arrays.types import Points
from sphereot.plotting._axes import points_in_space
from sphereot.plotting.maps import density_map, scatter_map
from sphereot.plotting.styling import INK, PALETTE
from sphereot.stats import DifferenceMap

__all__ = ["DIFFERENCE_COLORS", "difference_map", "difference_norm"]

DIFFERENCE_COLORS = LinearSegmentedColormap.from_list("difference", ["#B2480B", "#FFFFFF", "#0A5C94"])
"""Orange where y is denser, white where both are equal, blue where x is."""

_DRAWN = 1000  # points of a sample: more would hide the map


def difference_map(
    result: DifferenceMap,
    *,
    x: Points | None = None,
    y: Points | None = None,
    labels: tuple[str, str] = ("x", "y"),
    ax: Axes | None = None,
    coastlines: bool = False,
    colorbar: bool = True,
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
        Their names, for the color bar.
    ax : matplotlib GeoAxes, optional
        Where to draw; on a new figure by default.
    coastlines : bool
        Whether to draw the coastlines of the earth; needs the extra ``sphereot[map]``.
    colorbar : bool
        Whether to add a color bar.
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
        result.difference,
        ax=ax,
        cmap=DIFFERENCE_COLORS,
        norm=difference_norm(result),
        label=f"density of {labels[0]} less that of {labels[1]} (sr$^{{-1}}$)",
        colorbar=colorbar,
        graticule="lines",
        coastlines=coastlines,
        sky=sky,
    )
    bar = axes.collections[0].colorbar
    if bar is not None:
        top = _leading_digit(float(np.abs(result.difference).max()))
        ticks = [-top, -top / 10, 0.0, top / 10, top]
        bar.set_ticks(ticks, labels=[f"{value:g}" for value in ticks])
    for name, sample, color in (("x", x, PALETTE[0]), ("y", y, PALETTE[1])):
        if sample is not None:
            points = points_in_space(name, sample)
            few = points[:: max(1, -(-len(points) // _DRAWN))]
            scatter_map(few, ax=axes, sky=sky, color=color, size=1.5, linewidths=0)
    _surround(axes, result.region[:, ::-1] if sky else result.region)
    return axes


def difference_norm(result: DifferenceMap) -> Normalize:
    """Colors of differences: linear near 0 and logarithmic beyond a tenth of the largest, so that peaks hide little."""
    largest = float(np.abs(result.difference).max()) or 1.0
    norm: Normalize = AsinhNorm(linear_width=largest / 10, vmin=-largest, vmax=largest)
    return norm


def _leading_digit(value: float) -> float:
    """A positive number rounded down to one digit; 1 for 0.

    >>> _leading_digit(0.0278)
    0.02
    """
    if value <= 0:
        return 1.0
    exponent = math.floor(math.log10(value))
    return float(f"{math.floor(value / 10.0**exponent)}e{exponent}")


def _surround(ax: Any, region: Any) -> None:
    """Lines around the regions, drawn between the centers of cells and closed across the date line."""
    rows, columns = region.shape
    latitude = np.pi * ((np.arange(rows) + 0.5) / rows - 0.5)
    longitude = np.pi * ((np.arange(-1, columns + 1) + 0.5) / (columns / 2) - 1)
    padded = np.concatenate([region[:, -1:], region, region[:, :1]], axis=1)
    inside = np.clip(longitude, -np.pi, np.pi)
    for sign, style in ((1, "solid"), (-1, "dashed")):
        marked = (padded == sign).astype(float)
        if marked.any() and not marked.all():
            ax.contour(inside, latitude, marked, levels=[0.5], colors=INK, linewidths=0.9, linestyles=style)
