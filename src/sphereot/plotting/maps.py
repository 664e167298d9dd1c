"""Maps of densities and points on the sphere S^2 in the (equal-area) Mollweide projection."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, Normalize
from matplotlib.lines import Line2D
from matplotlib.projections.geo import GeoAxes
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.types import ArrayLike, Points, SupportsArray
from sphereot._arrays.validation import as_int
from sphereot.plotting._axes import (
    RASTER_FROM,
    add_legend_entry,
    is_light,
    marker_opacity,
    marker_size,
    new_axes,
    next_color,
    points_in_space,
    require_axes,
    runs_of_equal_value,
)
from sphereot.plotting.coastlines import read_coastlines
from sphereot.plotting.styling import GRID_COLOR, INK, style

if TYPE_CHECKING:
    from matplotlib.typing import ColorType

_MERIDIANS = (-120, -60, 0, 60, 120)
_PARALLELS = (-60, -30, 0, 30, 60)
_MAP_SIZE = (3.4, 1.8)  # inches, one column of a journal
_FEW_POINTS = 500  # larger samples would hide the map
_SHORES_BELOW_POINTS = 0.5  # opacity of coastlines, which are white on dark colors, as points are
_MIN_WIDTH_FOR_DEGREES = 2.2  # inches
_DEGREES_ORDER = 3.5  # zorder of the degrees: above points (3) and coastlines (2.6)
_BAR_HEIGHT, _LEGEND_HEIGHT = 0.45, 0.2  # inches, of a color bar and of a row of a legend
_LEGEND_CHARACTERS = 64  # in a row of a legend
_EARTH, _SKY = "map of the earth", "map of the sky"  # labels of Axes


def map_points(resolution: int = 180) -> NDArray[np.float64]:
    """Compute unit vectors at the centers of the cells of a map, to evaluate a density there.

    Parameters
    ----------
    resolution : int, default 180
        Number of rows, from south to north. The number of columns, from west (-180 degrees) to east, is twice as large.

    Returns
    -------
    array, shape (resolution, 2 * resolution, 3)
        Unit vectors.

    Examples
    --------
    >>> from sphereot import plotting
    >>> plotting.map_points(90).shape
    (90, 180, 3)
    """
    resolution = as_int("resolution", resolution, 2, "the number of rows")
    latitude = _centers(-90, 90, resolution)[:, None]
    longitude = _centers(-180, 180, 2 * resolution)[None, :]
    ring = np.cos(latitude)
    height = np.broadcast_to(np.sin(latitude), (resolution, 2 * resolution))
    return np.stack([ring * np.cos(longitude), ring * np.sin(longitude), height], axis=-1)


def density_map(
    density: Callable[[NDArray[np.float64]], ArrayLike] | ArrayLike,
    *,
    points: Points | None = None,
    ax: Axes | None = None,
    resolution: int = 180,
    label: str | None = "density [1/sr]",
    levels: int | Sequence[float] | None = None,
    cmap: str | Colormap = "viridis",
    vmin: float | None = 0.0,
    vmax: float | None = None,
    norm: Normalize | None = None,
    colorbar: bool = True,
    graticule: bool | str = True,
    coastlines: bool = False,
    sky: bool = False,
) -> GeoAxes:
    """Draw a density on S^2 as a Mollweide map.

    Parameters
    ----------
    density : callable or array, shape (n_lat, n_lon)
        A function of unit vectors (N, 3) that returns N values, or the values at the centers of the cells of a regular
        grid: rows from south to north, columns from west (-180 degrees) to east, as in `map_points`.
    points : array, shape (n, 3), optional
        Unit vectors to draw on the map.
    ax : matplotlib GeoAxes, optional
        Axes to draw on, e.g. ``fig.add_subplot(projection="mollweide")``; by default those of a new figure.
    resolution : int, default 180
        Number of rows of the grid on which a callable is evaluated, half the number of columns.
    label : str or None, default "density [1/sr]"
        Label of the color bar, with the unit. A density per unit area of S^2 is per steradian.
    levels : int or sequence of floats, optional
        Number or values of the levels of filled contours; by default a smooth image.
    cmap, norm : optional
        Colors of values, as in matplotlib.
    vmin, vmax : float or None, default 0 and None
        Range of the colors. None is the smallest or largest value. Not used with `norm`.
    colorbar : bool, default True
        Whether to add a color bar below the map.
    graticule : bool or "lines", default True
        Whether to draw meridians and parallels, with degrees if the map is large enough; "lines" omits the degrees.
    coastlines : bool, default False
        Whether to draw the coastlines of the earth, which need the extra ``sphereot[map]``.
    sky : bool, default False
        Draw the sphere as seen from inside, with right ascension increasing to the left.

    Returns
    -------
    matplotlib GeoAxes
        The Axes with the map. Its first collection is the artist with the values, for a separate color bar.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import plotting
    >>> ax = plotting.density_map(lambda x: np.exp(5 * x[:, 0]) / 92, points=np.eye(3))
    >>> ax.name
    'mollweide'
    """
    values = grid_values(density, resolution)
    overlay = None if points is None else points_in_space("points", points)
    shores = read_coastlines() if coastlines else []
    axes = _map_axes(ax, sky, _BAR_HEIGHT if colorbar else 0.0)
    if sky:
        values = values[:, ::-1]
    n_rows, n_columns = values.shape
    if norm is None:
        norm = linear_norm(vmin, vmax, values)
    artist: Any
    with style():
        if levels is None:
            longitude, latitude = _edges(-180, 180, n_columns), _edges(-90, 90, n_rows)
            # As an image, because thousands of cells in a vector file would show seams and open slowly.
            artist = axes.pcolormesh(longitude, latitude, values, cmap=cmap, norm=norm, shading="flat", rasterized=True)
        else:
            longitude, latitude, padded = _closed(values)
            artist = axes.contourf(longitude, latitude, padded, levels=levels, cmap=cmap, norm=norm, zorder=0)
            artist.set_rasterized(True)
        light = is_light(artist.to_rgba(values))
        _draw_coastlines(axes, shores, light, 1.0 if overlay is None else _SHORES_BELOW_POINTS)
        _finish_map(axes, graticule, light)
        if overlay is not None:
            # A rim keeps points visible on light colors. Many points are faint, so that the map is visible.
            count = len(overlay)
            size, rim, opacity = marker_size(count), 0.4, 1.0
            if count > _FEW_POINTS:
                size, rim, opacity = 0.6 * size, 0.1, max(0.25, math.sqrt(_FEW_POINTS / count))
            scatter_map(
                overlay, ax=axes, sky=sky, color="white", size=size, edgecolors=INK, linewidths=rim, alpha=opacity
            )
        if colorbar:
            bar = axes.figure.colorbar(artist, ax=axes, orientation="horizontal", shrink=0.6, aspect=30, pad=0.06)
            bar.outline.set_linewidth(0.4)
            bar.ax.tick_params(length=2, width=0.5)
            bar.set_label(label or "")
            if levels is not None:
                bar.set_ticks(artist.levels[:: max(1, -(-len(artist.levels) // 6))])
    return axes


def scatter_map(
    points: Points,
    *,
    ax: Axes | None = None,
    color: "ColorType | None" = None,
    size: float | SupportsArray | None = None,
    label: str | None = None,
    legend: bool | None = None,
    coastlines: bool = False,
    sky: bool = False,
    **kwargs: Any,
) -> GeoAxes:
    """Draw points on S^2 as a Mollweide map.

    Parameters
    ----------
    points : array, shape (n, 3)
        Unit vectors.
    color : color, optional
        Color of the points; by default the next color of the palette. For one color per point, give ``c=values``.
    size : float or array, shape (n,), optional
        Area of the markers in square points; by default smaller for more points.
    label : str, optional
        Name of the points in a legend.
    legend : bool, optional
        Whether to add a legend below the map. By default, a new figure has a legend if there is a `label`, also for
        samples that are drawn on its Axes later. On your own Axes, use `ax.legend()`.
    ax, coastlines, sky : optional
        As in `density_map`.
    **kwargs
        Options of `Axes.scatter`. By default, large samples are transparent, so that dense regions are visible.

    Returns
    -------
    matplotlib GeoAxes
        The Axes with the map.

    Examples
    --------
    >>> from sphereot import plotting, sphere
    >>> ax = plotting.scatter_map(sphere.random_uniform(100, 3, seed=0), label="uniform")
    >>> len(ax.collections[0].get_offsets())
    100
    """
    vectors = points_in_space("points", points)
    shores = read_coastlines() if coastlines else []
    if legend is None:
        legend = label is not None and (ax is None or has_legend_below(ax))
    axes = _map_axes(ax, sky, _LEGEND_HEIGHT if legend else 0.0)
    longitude = np.arctan2(vectors[:, 1], vectors[:, 0])
    if sky:
        longitude = -longitude
    latitude = np.arctan2(vectors[:, 2], np.hypot(vectors[:, 0], vectors[:, 1]))
    area: Any = marker_size(len(vectors)) if size is None else size
    if color is None and "c" not in kwargs:
        color = next_color(axes)
    # Not clipped, so that a marker on the rim of the map is complete.
    options: dict[str, Any] = {
        "clip_on": False,
        "linewidths": 0,
        "alpha": marker_opacity(len(vectors)),
        "rasterized": len(vectors) > RASTER_FROM,
        "zorder": 3,
        "gid": "points",
    } | kwargs
    with style():
        artist = axes.scatter(longitude, latitude, s=area, color=color, **options)
        if label is not None:
            add_legend_entry(axes, artist, label, area, color, kwargs)
        _draw_coastlines(axes, shores)
        _finish_map(axes, graticule=True)
        if legend:
            legend_below(axes, *axes.get_legend_handles_labels(), handle_length=1.0)
    return axes


def legend_below(
    ax: Axes, handles: Sequence[Any], labels: Sequence[str], title: str | None = None, *, handle_length: float
) -> None:
    """Add a legend below a map, with the number of columns that fits its labels; `handle_length` is in font sizes."""
    longest = max(map(len, labels), default=0)
    columns = min(len(labels), max(1, _LEGEND_CHARACTERS // (longest + 6)))
    with style():
        added = ax.legend(
            handles,
            labels,
            title=title,
            title_fontsize=7,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.07 if ax.get_xlabel() else 0.0),
            ncols=max(1, columns),
            handlelength=handle_length,
            columnspacing=1.4,
        )
    added.set_gid("below")


def has_legend_below(ax: Any) -> bool:
    """Whether `legend_below` added a legend."""
    legend = ax.get_legend() if isinstance(ax, Axes) else None
    return legend is not None and legend.get_gid() == "below"


def _map_axes(ax: Axes | None, sky: bool, below: float = 0.0) -> GeoAxes:
    """Return Axes for a map, with a label that says whether it shows the earth or the sky.

    A new figure has `below` additional inches below the map.
    """
    given = ax
    if given is None:
        given = new_axes((_MAP_SIZE[0], _MAP_SIZE[1] + below), projection="mollweide")
    axes = require_axes(given, GeoAxes, "geographic Axes", 'fig.add_subplot(projection="mollweide")')
    kind = _SKY if sky else _EARTH
    if axes.get_label() in (_EARTH, _SKY) and axes.get_label() != kind:
        raise ValueError(f"sky must be the same in all calls for a map, got {sky} after sky={not sky}.")
    axes.set_label(kind)
    return axes


def _draw_coastlines(
    ax: Any, lines: list[NDArray[np.float64]], light: NDArray[np.bool_] | None = None, opacity: float = 1.0
) -> None:
    if lines and ax.get_label() == _SKY:
        raise ValueError("coastlines must be False with sky=True, because they are of the earth, got True.")
    if not lines or any(artist.get_gid() == "coastlines" for artist in ax.collections):
        return
    width, opacity = (0.3, 0.6) if light is None else (0.4, opacity)
    # Above the colors and the graticule, below the points.
    _draw_lines(ax, lines, light, linewidths=width, alpha=opacity, zorder=2.6, gid="coastlines")


def _draw_lines(ax: Any, lines: list[NDArray[np.float64]], light: NDArray[np.bool_] | None, **options: Any) -> None:
    """Draw lines of longitude and latitude in degrees: dark, but white on cells of the map that are not `light`."""
    parts = [(line, True) for line in lines]
    if light is not None:
        parts = [part for line in lines for part in runs_of_equal_value(line, _at_cells(light, line))]
    radians = [np.deg2rad(line) for line, _ in parts]
    colors = [INK if on_light else "white" for _, on_light in parts]
    ax.add_collection(LineCollection(radians, colors=colors, **options), autolim=False)


def _at_cells(values: NDArray[np.bool_], lonlat: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the values of the map cells at longitudes and latitudes in degrees."""
    rows, columns = values.shape
    row = np.clip((lonlat[:, 1] + 90) / 180 * rows, 0, rows - 1).astype(int)
    column = np.clip((lonlat[:, 0] + 180) / 360 * columns, 0, columns - 1).astype(int)
    return np.asarray(values[row, column])


def _finish_map(ax: Any, graticule: bool | str, light: NDArray[np.bool_] | None = None) -> None:
    """Draw meridians and parallels with their degrees, once per map.

    `light` says which cells of a colored map are light.
    """
    if ax.get_gid() == "map":
        return
    ax.set_gid("map")
    ax.spines["geo"].set(linewidth=0.6, edgecolor=INK)
    ax.set_longitude_grid_ends(90)
    if not graticule:
        ax.grid(False)
        ax.set_xticks([])
        ax.set_yticks([])
        return
    with_degrees = graticule != "lines" and ax.get_position().width * ax.figure.get_figwidth() >= _MIN_WIDTH_FOR_DEGREES
    if not with_degrees:
        longitudes, latitudes = [""] * len(_MERIDIANS), [""] * len(_PARALLELS)
    elif ax.get_label() == _SKY:
        longitudes, latitudes = (
            [f"{-value % 360}°" for value in _MERIDIANS],
            [f"{value:+}°".replace("-", "−") for value in _PARALLELS],
        )
    else:
        longitudes = [_degrees(value, "W", "E") for value in _MERIDIANS]
        latitudes = [_degrees(value, "S", "N") for value in _PARALLELS]
    ax.set_xticks(np.deg2rad(_MERIDIANS), longitudes)
    ax.set_yticks(np.deg2rad(_PARALLELS), [text.replace("+0", "0") for text in latitudes])
    ax.tick_params(labelsize=6, colors=INK)
    if with_degrees and ax.get_label() == _SKY:
        ax.set_xlabel("right ascension", fontsize=6, labelpad=2)
        ax.set_ylabel("declination", fontsize=6, labelpad=2)
    # An axis draws its grid with its degrees, but the lines must be below the data, and the degrees above.
    ax.grid(False)
    ax.set_axisbelow(False)
    if light is None:
        for line in _graticule():
            ax.add_line(
                Line2D(*np.deg2rad(line).T, color=GRID_COLOR, linewidth=0.4, alpha=0.8, zorder=1, gid="graticule")
            )
    else:
        _draw_lines(ax, _graticule(), light, linewidths=0.4, alpha=0.45, zorder=2.4, gid="graticule")
    # Degrees of longitude are on the equator, in the middle of the data, so they are small and have a rim.
    ax.xaxis.set_zorder(_DEGREES_ORDER)
    ax.tick_params(axis="x", labelsize=5)
    on_equator = [True] * len(_MERIDIANS)
    if light is not None:
        on_equator = _at_cells(light, np.array([[longitude, 0.0] for longitude in _MERIDIANS])).tolist()
    for text, on_light in zip(ax.get_xticklabels(), on_equator, strict=True):
        ink, rim = (INK, "white") if on_light else ("white", INK)
        text.set_color(ink)
        text.set_path_effects([patheffects.withStroke(linewidth=1.2, foreground=rim, alpha=0.85)])


def _graticule() -> list[NDArray[np.float64]]:
    """Return meridians and parallels as lines of longitude and latitude in degrees."""
    along, around = np.linspace(-90, 90, 181), np.linspace(-180, 180, 361)
    meridians = [np.stack([np.full_like(along, longitude), along], axis=1) for longitude in _MERIDIANS]
    return meridians + [np.stack([around, np.full_like(around, latitude)], axis=1) for latitude in _PARALLELS]


def _degrees(value: int, negative: str, positive: str) -> str:
    if value == 0:
        return "0°"
    return f"{abs(value)}°{negative if value < 0 else positive}"


def grid_values(
    density: Callable[[NDArray[np.float64]], ArrayLike] | ArrayLike, resolution: int
) -> NDArray[np.float64]:
    """Evaluate a function of unit vectors on the cells of a map (n_lat, n_lon), or validate an array of values."""
    if callable(density):
        grid = map_points(resolution)
        values = _as_numbers(density(grid.reshape(-1, 3)))
        if values.size != grid.shape[0] * grid.shape[1]:
            raise ValueError(
                f"density must return one value per point, got shape {values.shape} for {grid[..., 0].size} points."
            )
        values = values.reshape(grid.shape[:2])
    else:
        values = _as_numbers(density)
    if values.ndim != 2 or min(values.shape) < 2:
        raise ValueError(
            f"density must have shape (n_lat, n_lon), or be a function of unit vectors, got shape {values.shape}."
        )
    if not np.all(np.isfinite(values)):
        raise ValueError(
            "density must be finite, got NaN or infinite values. Replace them, e.g. with numpy.nan_to_num."
        )
    return values


def _as_numbers(values: Any) -> NDArray[np.float64]:
    array = to_numpy(values) if hasattr(values, "__dlpack__") else np.asarray(values)
    return np.asarray(array, dtype=np.float64)


def linear_norm(vmin: float | None, vmax: float | None, values: NDArray[np.float64]) -> Normalize:
    """Return a linear color scale, over the range of `values` if `vmin` or `vmax` is None."""
    low = float(values.min()) if vmin is None else vmin
    high = float(values.max()) if vmax is None else vmax
    # A constant density still gets a color bar with a range.
    return Normalize(low, high if high > low else low + max(abs(low), 1e-12))


def _edges(low: float, high: float, n: int) -> NDArray[np.float64]:
    return np.deg2rad(np.linspace(low, high, n + 1))


def _centers(low: float, high: float, n: int) -> NDArray[np.float64]:
    edges = _edges(low, high, n)
    return (edges[1:] + edges[:-1]) / 2


def _closed(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Extend values by the poles and both sides of the date line, for contours, with their longitudes and latitudes."""
    rows, columns = values.shape
    poles = [np.full(columns, values[0].mean()), np.full(columns, values[-1].mean())]
    padded = np.vstack([poles[0], values, poles[1]])
    seam = (padded[:, :1] + padded[:, -1:]) / 2
    longitude = np.concatenate([[-np.pi], _centers(-180, 180, columns), [np.pi]])
    latitude = np.concatenate([[-np.pi / 2], _centers(-90, 90, rows), [np.pi / 2]])
    return longitude, latitude, np.hstack([seam, padded, seam])
