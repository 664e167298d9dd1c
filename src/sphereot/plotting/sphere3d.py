"""Three-dimensional plots of the sphere S^2, seen from one side."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from mpl_toolkits.mplot3d import Axes3D
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from numpy.typing import NDArray

from sphereot._arrays.types import Points, SupportsArray
from sphereot.plotting._axes import (
    RASTER_FROM,
    add_legend_entry,
    marker_opacity,
    marker_size,
    new_axes,
    next_color,
    points_in_space,
    require_axes,
)
from sphereot.plotting.maps import has_legend_below, legend_below
from sphereot.plotting.styling import GRID_COLOR, INK, style

if TYPE_CHECKING:
    from matplotlib.typing import ColorType

_SPHERE_SIZE = {False: (2.4, 2.4), True: (2.4, 2.65)}  # inches, without and with a legend


def sphere_axes(ax: Axes | None = None, *, elev: float = 20.0, azim: float = 30.0) -> Axes3D:
    """Draw an empty sphere in orthographic projection: outline and wireframe, equal aspect, no box.

    Parameters
    ----------
    ax : matplotlib Axes3D, optional
        Axes to draw on, e.g. ``fig.add_subplot(projection="3d")``; by default those of a new figure.
    elev, azim : float, default 20 and 30
        Latitude and longitude at the center of the plot, in degrees. The back of the sphere in this view is faded, so
        draw the sphere again to change the view, and do not rotate the Axes.

    Returns
    -------
    matplotlib Axes3D
        The Axes with the sphere.

    Examples
    --------
    >>> from sphereot import plotting
    >>> ax = plotting.sphere_axes(elev=0, azim=90)
    >>> ax.get_proj().shape
    (4, 4)
    """
    given = new_axes(_SPHERE_SIZE[False], projection="3d") if ax is None else ax
    axes = require_axes(given, Axes3D, "three-dimensional Axes", 'fig.add_subplot(projection="3d")')
    axes.set_proj_type("ortho")
    axes.view_init(elev=elev, azim=azim)
    axes.set_box_aspect((1, 1, 1), zoom=1.5)
    axes.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
    half = (axes.viewLim.width + axes.viewLim.height) / 4
    axes.viewLim.intervalx = axes.viewLim.intervaly = (-half, half)  # the default of matplotlib is not centered
    axes.set_axis_off()
    axes.patch.set_alpha(0)
    # matplotlib would order artists by the distance of their centers.
    axes.computed_zorder = False
    axes.set_gid("sphere")
    toward = _toward_viewer(axes)
    for line in _wireframe():
        front = line @ toward >= 0
        _broken_line(axes, line, ~front, alpha=0.25, zorder=1)
        _broken_line(axes, line, front, alpha=0.7, zorder=3)
    across = np.cross(toward, np.eye(3)[np.argmin(np.abs(toward))])  # in the plane of the plot, like up
    across /= np.linalg.norm(across)
    up = np.cross(toward, across)
    angle = np.linspace(0, 2 * np.pi, 181)[:, None]
    outline = np.cos(angle) * across + np.sin(angle) * up
    axes.add_collection3d(Poly3DCollection([outline], facecolors="#F6F6F6", edgecolors="none", zorder=0))
    axes.plot(*outline.T, color=INK, linewidth=0.7, zorder=4)
    return axes


def scatter_sphere(
    points: Points,
    *,
    ax: Axes | None = None,
    color: "ColorType | None" = None,
    size: float | SupportsArray | None = None,
    label: str | None = None,
    legend: bool | None = None,
    fade: float = 0.15,
    **kwargs: Any,
) -> Axes3D:
    """Draw points on S^2 seen from one side; points behind the sphere are faded.

    Parameters
    ----------
    points : array, shape (n, 3)
        Unit vectors.
    ax : matplotlib Axes3D, optional
        The result of `sphere_axes`, which sets the view, or three-dimensional Axes, on which a sphere is drawn first.
        By default the Axes of a new figure.
    color, size, label, legend : optional
        As in `scatter_map`.
    fade : float, default 0.15
        Opacity of the points behind the sphere, from 0 (hidden) to 1.
    **kwargs
        Options of `Axes3D.scatter`. By default, large samples are transparent, so that dense regions are visible.

    Returns
    -------
    matplotlib Axes3D
        The Axes with the points.

    Examples
    --------
    >>> from sphereot import plotting, sphere
    >>> ax = plotting.scatter_sphere(sphere.random_uniform(100, 3, seed=0))
    >>> sum(len(artist.get_offsets()) for artist in ax.collections if artist.get_gid() in ("points", "far"))
    100
    """
    vectors = points_in_space("points", points)
    if not 0.0 <= fade <= 1.0:
        raise ValueError(f"fade must be from 0 to 1, got {fade}.")
    if legend is None:
        legend = label is not None and (ax is None or has_legend_below(ax))
    axes: Any = ax
    if ax is None or getattr(ax, "get_gid", lambda: None)() != "sphere":
        axes = sphere_axes(new_axes(_SPHERE_SIZE[legend], projection="3d") if ax is None else ax)
    areas: Any = marker_size(len(vectors)) if size is None else size
    if color is None and "c" not in kwargs:
        color = next_color(axes)
    values = kwargs.pop("c", None)
    if values is not None:
        # Both halves share one color scale.
        values = np.asarray(values)
        kwargs = {"vmin": values.min(), "vmax": values.max()} | kwargs if values.ndim == 1 else kwargs
    front = vectors @ _toward_viewer(axes) >= 0
    options: dict[str, Any] = {
        "linewidths": 0,
        "depthshade": False,
        "alpha": marker_opacity(len(vectors)),
        "rasterized": len(vectors) > RASTER_FROM,
    } | kwargs
    with style():
        for half, alpha, zorder, gid in ((~front, fade, 2, "far"), (front, None, 5, "points")):
            half_options: dict[str, Any] = {"alpha": alpha} if alpha is not None else {}
            half_options |= {"color": color} if values is None else {"c": values[half]}
            area = areas[half] if np.ndim(areas) else areas
            artist = axes.scatter(*vectors[half].T, s=area, zorder=zorder, gid=gid, **(options | half_options))
        if label is not None:
            add_legend_entry(axes, artist, label, areas, color, kwargs)
        if legend:
            legend_below(axes, *axes.get_legend_handles_labels(), handle_length=1.0)
    return axes


def _wireframe() -> list[NDArray[np.float64]]:
    """Return meridians and parallels every 30 degrees, as lines of unit vectors."""
    around = np.linspace(-np.pi, np.pi, 181)
    to_pole = np.linspace(-np.pi / 2, np.pi / 2, 91)
    parallels = [(around, np.full(181, latitude)) for latitude in np.deg2rad(np.arange(-60, 61, 30))]
    meridians = [(np.full(91, longitude), to_pole) for longitude in np.deg2rad(np.arange(-180, 180, 30))]
    return [
        np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)
        for lon, lat in parallels + meridians
    ]


def _broken_line(ax: Any, line: NDArray[np.float64], visible: NDArray[np.bool_], *, alpha: float, zorder: int) -> None:
    """Draw the visible parts of a line, which NaN interrupts."""
    parts = np.where(visible[:, None], line, np.nan)
    ax.plot(*parts.T, color=GRID_COLOR, linewidth=0.4, alpha=alpha, zorder=zorder)


def _toward_viewer(ax: Any) -> NDArray[np.float64]:
    """Compute the unit vector from the sphere to the viewer."""
    elev, azim = np.deg2rad([ax.elev, ax.azim])
    return np.array([np.cos(elev) * np.cos(azim), np.cos(elev) * np.sin(azim), np.sin(elev)])
