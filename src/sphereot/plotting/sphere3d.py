"""The sphere S^2 as a ball seen from one side."""

from typing import Any

import numpy as np
from mpl_toolkits.mplot3d import Axes3D
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from numpy.typing import NDArray

from sphereot.plotting._axes import (
    RASTER_FROM,
    add_legend_entry,
    marker_size,
    new_axes,
    next_color,
    points_in_space,
    require_axes,
)
from sphereot.plotting.styling import GRID_COLOR, INK, style

__all__ = ["scatter_sphere", "sphere_axes"]


def sphere_axes(ax: Any = None, *, elev: float = 20.0, azim: float = 30.0) -> Any:
    """A bare sphere: outline and light wireframe, equal aspect, no box.

    Parameters
    ----------
    ax : matplotlib Axes3D, optional
        Where to draw, e.g. ``fig.add_subplot(projection="3d")``; on a new figure by default.
    elev, azim : float
        Where one looks from, in degrees: the latitude and the longitude that come to the middle of the picture.

    Returns
    -------
    matplotlib Axes3D

    Notes
    -----
    The picture is orthographic. What lies on the far side is faded, for the view of this call: to look from elsewhere,
    draw anew rather than turn the Axes.

    Examples
    --------
    >>> from sphereot import plotting
    >>> ax = plotting.sphere_axes(elev=0, azim=90)
    >>> ax.get_proj().shape
    (4, 4)
    """
    if ax is None:
        ax = new_axes((2.4, 2.4), projection="3d")
    require_axes(ax, Axes3D, "a ball needs three-dimensional Axes", 'fig.add_subplot(projection="3d")')
    ax.set_proj_type("ortho")
    ax.view_init(elev=elev, azim=azim)
    ax.set_box_aspect((1, 1, 1), zoom=1.5)
    ax.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
    half = (ax.viewLim.width + ax.viewLim.height) / 4
    ax.viewLim.intervalx = ax.viewLim.intervaly = (-half, half)  # matplotlib's own window is a little off the middle
    ax.set_axis_off()
    ax.patch.set_alpha(0)
    # matplotlib would sort whole artists by the distance of their middles, which puts far points before near lines.
    ax.computed_zorder = False
    ax.set_gid("sphere")
    toward = _toward_viewer(ax)
    for line in _wireframe():
        front = line @ toward >= 0
        _broken_line(ax, line, ~front, alpha=0.25, zorder=1)
        _broken_line(ax, line, front, alpha=0.7, zorder=3)
    across, up = _screen_axes(toward)
    angle = np.linspace(0, 2 * np.pi, 181)[:, None]
    outline = np.cos(angle) * across + np.sin(angle) * up
    ax.add_collection3d(Poly3DCollection([outline], facecolors="#F6F6F6", edgecolors="none", zorder=0))
    ax.plot(*outline.T, color=INK, linewidth=0.7, zorder=4)
    return ax


def scatter_sphere(
    points: Any,
    *,
    ax: Any = None,
    color: Any = None,
    size: Any = None,
    label: str | None = None,
    fade: float = 0.15,
    **kwargs: Any,
) -> Any:
    """Points on S^2 seen from one side; those behind the sphere are faded.

    Parameters
    ----------
    points : array, shape (n, 3)
        Unit vectors.
    ax : matplotlib Axes3D, optional
        Where to draw: what `sphere_axes` gives, which sets the view, or plain three-dimensional Axes, which then get a
        sphere. On a new figure by default.
    color : color, optional
        The next color of the palette by default. For a color each, give ``c=values`` instead.
    size : float or array, shape (n,), optional
        Area of the markers in square points; by default smaller, the more points there are.
    label : str, optional
        Name of the points in a legend, which `ax.legend()` adds.
    fade : float
        Opacity of the points behind the sphere, from 0 (hidden) to 1.
    **kwargs
        Passed on to `Axes3D.scatter`.

    Returns
    -------
    matplotlib Axes3D

    Examples
    --------
    >>> from sphereot import plotting, sphere
    >>> ax = plotting.scatter_sphere(sphere.random_uniform(100, 3, seed=0))
    >>> sum(len(shown.get_offsets()) for shown in ax.collections if shown.get_gid() in ("points", "far"))
    100
    """
    found = points_in_space("points", points)
    if not 0.0 <= fade <= 1.0:
        raise ValueError(f"fade: got {fade}, but an opacity is a number from 0 to 1.")
    if ax is None or getattr(ax, "get_gid", lambda: None)() != "sphere":
        ax = sphere_axes(ax)
    size = marker_size(len(found)) if size is None else size
    if color is None and "c" not in kwargs:
        color = next_color(ax)
    values = kwargs.pop("c", None)
    if values is not None:
        # Both halves share one scale of colors.
        values = np.asarray(values)
        kwargs = {"vmin": values.min(), "vmax": values.max()} | kwargs if values.ndim == 1 else kwargs
    front = found @ _toward_viewer(ax) >= 0
    options = {"linewidths": 0, "depthshade": False, "rasterized": len(found) > RASTER_FROM} | kwargs
    with style():
        for half, alpha, zorder, gid in ((~front, fade, 2, "far"), (front, None, 5, "points")):
            own = {"alpha": alpha} if alpha is not None else {}
            own |= {"color": color} if values is None else {"c": values[half]}
            area = size[half] if np.ndim(size) else size
            shown = ax.scatter(*found[half].T, s=area, zorder=zorder, gid=gid, **(options | own))
        if label is not None:
            add_legend_entry(ax, shown, label, size, color, kwargs)
    return ax


def _wireframe() -> list[NDArray[np.float64]]:
    """Meridians and parallels every 30 degrees, as lines of unit vectors."""
    turn = np.linspace(-np.pi, np.pi, 181)
    to_pole = np.linspace(-np.pi / 2, np.pi / 2, 91)
    parallels = [(turn, np.full(181, latitude)) for latitude in np.deg2rad(np.arange(-60, 61, 30))]
    meridians = [(np.full(91, longitude), to_pole) for longitude in np.deg2rad(np.arange(-180, 180, 30))]
    return [
        np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)
        for lon, lat in parallels + meridians
    ]


def _broken_line(ax: Any, line: NDArray[np.float64], shown: NDArray[np.bool_], *, alpha: float, zorder: int) -> None:
    # NaN breaks a line where it passes behind the sphere.
    parts = np.where(shown[:, None], line, np.nan)
    ax.plot(*parts.T, color=GRID_COLOR, linewidth=0.4, alpha=alpha, zorder=zorder)


def _toward_viewer(ax: Any) -> NDArray[np.float64]:
    """The unit vector that points from the sphere to the eye."""
    elev, azim = np.deg2rad([ax.elev, ax.azim])
    return np.array([np.cos(elev) * np.cos(azim), np.cos(elev) * np.sin(azim), np.sin(elev)])


def _screen_axes(toward: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two unit vectors that span the plane of the picture."""
    across = np.cross(toward, np.eye(3)[np.argmin(np.abs(toward))])
    across /= np.linalg.norm(across)
    return across, np.cross(toward, across)
