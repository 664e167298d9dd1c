"""HTML pages with a globe that can be rotated and zoomed, drawn by a script on a canvas, without network access."""

import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import colormaps
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.types import ArrayLike, Points
from sphereot._support.atomic_write import write_text
from sphereot._support.text import plural
from sphereot.plotting._axes import color_ticks, number_text, samples_in_space
from sphereot.plotting.coastlines import has_coastlines, read_coastlines
from sphereot.plotting.maps import grid_values, linear_norm
from sphereot.plotting.styling import PALETTE
from sphereot.sphere import from_lonlat, from_spherical, to_lonlat

_CSS_COLORS = {  # colors too dark for a dark page are variables of the style sheet
    "#000000": "--ink",
    "#0072B2": "--blue",
}
_HEX_COLOR = re.compile("#[0-9A-Fa-f]{6}")
_ASSETS = ("globe.js", "page.css")
_COLOR_LEVELS = 65535  # of the densities stored in a page
_LEVEL = 0.5  # of regions at their outlines


def globe_page(
    path: str | os.PathLike[str],
    *,
    density: Callable[[NDArray[np.float64]], ArrayLike] | ArrayLike | None = None,
    points: Points | Sequence[Points] | None = None,
    labels: Sequence[str] | None = None,
    title: str = "Globe",
    coastlines: bool | None = None,
    **options: Any,
) -> Path:
    """Write an HTML page with a globe that can be rotated and zoomed by mouse, touch and keyboard.

    Parameters
    ----------
    path : path
        The file to write, ``.html``; it is written atomically. It is self-contained: about half a megabyte with a
        density and coastlines.
    density : callable or array, shape (n_lat, n_lon), optional
        Shown as color; as for `density_map`.
    points : array, shape (n, 3), or list of such arrays, optional
        Unit vectors: one sample or several.
    labels : sequence of str, optional
        Names of the samples. Like every text here they are escaped: markup in them is shown as text.
    title : str
        Heading of the page.
    coastlines : bool or None
        Whether to draw the coastlines of the earth; by default if the extra ``sphereot[map]`` is installed.
    **options
        As for `globe_figure`: the color scale, its label and unit, outlines of regions, a note, the center of the view,
        colors of the samples, and whether it turns by itself.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sphereot import plotting
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = plotting.globe_page(f"{folder}/vmf.html", density=lambda x: np.exp(5 * x[:, 0]) / 92, title="vMF")
    ...     "<h1>vMF</h1>" in page.read_text(encoding="utf-8")
    True
    """
    figure = globe_figure(
        density=density,
        points=points,
        labels=labels,
        name=title,
        coastlines=coastlines,
        alone=True,
        **options,
    )
    return write_text(path, html_page(title, figure))


def globe_figure(
    *,
    density: Callable[[NDArray[np.float64]], ArrayLike] | ArrayLike | None = None,
    points: Points | Sequence[Points] | None = None,
    labels: Sequence[str] | None = None,
    name: str = "Globe",
    coastlines: bool | None = None,
    resolution: int = 180,
    density_label: str = "density [1/sr]",
    cmap: str | Colormap = "viridis",
    vmin: float | None = 0.0,
    vmax: float | None = None,
    norm: Normalize | None = None,
    regions: ArrayLike | None = None,
    region_labels: tuple[str, str] = ("region of 1", "region of −1"),
    note: str | None = None,
    center: tuple[float, float] | None = None,
    colors: Sequence[str] | None = None,
    turn: bool = False,
    alone: bool = False,
    checked: bool = False,
) -> str:
    """HTML of an interactive globe, for the body of `html_page`.

    Parameters
    ----------
    density, points, labels, coastlines
        As for `globe_page`.
    name : str
        What the globe shows, for screen readers.
    resolution : int
        Number of rows of the grid on which a callable density is evaluated.
    density_label : str
        Text at the color bar, with the unit.
    cmap, vmin, vmax, norm
        Colors of values, as for `density_map`; ``norm=LogNorm(...)`` suits densities with sharp peaks.
    regions : array, shape (n_lat, n_lon), optional
        Regions to outline: solid lines run where the values are 1/2, dashed lines where they are -1/2; from -1 to 1.
        Rows and columns as for `density`, in any number.
    region_labels : pair of str
        What both kinds of outlines mean, for the legend.
    note : str, optional
        Text below the globe.
    center : tuple of two floats, optional
        Longitude and latitude, in degrees, of the first view. By default the location of the highest density, or the
        mean direction of the points.
    colors : sequence of str, optional
        Colors of the samples in hexadecimal digits, such as "#0072B2"; by default those of `PALETTE` in turn.
    turn : bool
        Whether the globe turns by itself until it is touched; not for readers whose system asks for reduced motion.
    alone : bool
        Whether the page holds the globe alone, so that the mouse wheel zooms it rather than scrolls the page.
    checked : bool
        Whether `points` is a list of float64 arrays whose rows are known to be unit vectors; they are not checked then.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot.plotting.globe import globe_figure
    >>> "&lt;b&gt;" in globe_figure(points=np.eye(3), labels=["<b>"], coastlines=False)
    True
    """
    if density is None and points is None:
        raise ValueError("density, points: got neither; give at least one of them.")
    values = None if density is None else grid_values(density, resolution)
    samples: list[NDArray[np.float64]] = []
    if points is not None:
        samples = list(cast("list[NDArray[np.float64]]", points)) if checked else samples_in_space(points)
    if labels is not None and (isinstance(labels, str) or len(labels) != len(samples)):
        got = f"the string {labels!r}" if isinstance(labels, str) else f"{len(labels)}"
        raise ValueError(f"labels: got {got} for {plural(len(samples), 'sample')}; give a list with one each.")
    if colors is not None and (len(colors) != len(samples) or not all(map(_HEX_COLOR.fullmatch, colors))):
        raise ValueError(
            f"colors: got {list(colors)!r} for {plural(len(samples), 'sample')}; give one each, such as '#0072B2'."
        )
    on_color = colors is None and values is not None and len(samples) == 1
    with_shores = has_coastlines() if coastlines is None else coastlines
    marked = None if regions is None else as_regions(regions)
    data = {
        "density": None if values is None else _density_data(values, cmap, norm or linear_norm(vmin, vmax, values)),
        "samples": [
            {"points": _packed(sample), "color": "#FFFFFF" if on_color else _CSS_COLORS.get(color, color)}
            for sample, color in zip(samples, colors or cycle(PALETTE), strict=False)
        ],
        "shores": _lines(read_coastlines("low")) if with_shores else None,
        "regions": None if marked is None else [_lines(outlines(sign * marked)) for sign in (1, -1)],
        "center": _center(center, values, samples),
        "wheel": alone,
        "turn": turn,
    }
    kinds = ("", region_labels[0], 1), (" dashed", region_labels[1], -1)
    return _render(
        "globe.html",
        name=name,
        outlined=[] if marked is None else [kind[:2] for kind in kinds if (kind[2] * marked > _LEVEL).any()],
        scale=density_label if values is not None else None,
        samples=[
            f"{label} ({len(s):,})" for label, s in zip(labels or ["points"] * len(samples), samples, strict=True)
        ],
        turn=turn,
        shores=with_shores,
        note=note,
        # "<" could end the element that holds the data.
        data=Markup(json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")),
    )


def html_page(title: str, body: str, *, css: str = "") -> str:
    """HTML of a complete page, with its style sheets and script inside.

    Parameters
    ----------
    title : str
        Title and heading of the page; it is escaped.
    body : str
        HTML below the heading, such as that of `globe_figure`.
    css : str
        Additional CSS, after the CSS of all pages.

    Returns
    -------
    str
        HTML with a content security policy that allows the script of the project alone, and no network access.

    Examples
    --------
    >>> from sphereot.plotting.globe import html_page
    >>> "<title>a &amp; b</title>" in html_page("a & b", "<p>Hello.</p>")
    True
    """
    script, page_css = (files("sphereot.plotting").joinpath("assets", name).read_text("utf-8") for name in _ASSETS)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    page = {"body": Markup(body), "css": Markup(page_css + css), "script": Markup(script), "digest": Markup(digest)}
    return _render("base.html", title=title, **page) + "\n"


def _render(template: str, **values: Any) -> str:
    return str(_templates().get_template(template).render(values))


@cache
def _templates() -> Any:
    return Environment(loader=PackageLoader("sphereot.plotting", "assets"), autoescape=True, undefined=StrictUndefined)


def as_regions(regions: Any) -> NDArray[np.float64]:
    """Values of regions from -1 to 1, shape (n_lat, n_lon)."""
    array = to_numpy(regions) if hasattr(regions, "__dlpack__") else np.asarray(regions)
    if array.ndim != 2 or min(array.shape) < 2:
        raise ValueError(f"regions: got shape {array.shape}, but regions on a map need shape (n_lat, n_lon).")
    values = array.astype(np.float64)
    is_wrong = ~(np.abs(values) <= 1)  # NaN too
    if is_wrong.any():
        got = array[is_wrong][0].item()
        raise ValueError(f"regions: got the value {got!r}; give 1 and -1 in regions, and 0 elsewhere.")
    return values


def outlines(values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Lines of longitude and latitude, in degrees, where values (n_lat, n_lon) are 1/2.

    Across the date line, lines end and begin again.
    """
    inside = values > _LEVEL
    if inside.all() or not inside.any():
        return []
    rows, columns = values.shape
    latitude = np.concatenate([[-90.0], 180 * (np.arange(rows) + 0.5) / rows - 90, [90.0]])
    longitude = 360 * (np.arange(columns + 1) + 0.5) / columns - 180
    padded = np.pad(np.pad(values, ((1, 1), (0, 0)), mode="edge"), ((0, 0), (0, 1)), mode="wrap")
    contours = Figure().add_subplot().contour(longitude, latitude, padded, levels=[_LEVEL])
    return [np.asarray(line, np.float64) for line in contours.allsegs[0]]


def _packed(vectors: NDArray[np.float64]) -> str:
    """Unit vectors with 16 bits per coordinate, in base64: the error is at most 3e-5 rad, 170 m on the earth."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)  # rounding of the input must not overflow
    return _base64(np.rint(32767 * unit).astype("<i2"))


def _base64(values: NDArray[Any]) -> str:
    return b64encode(values.tobytes()).decode()


def _lines(lines: list[NDArray[np.float64]]) -> dict[str, Any]:
    """Lines of longitude and latitude in degrees."""
    if not lines:
        return {"points": "", "lengths": []}
    # Not by from_lonlat, which warns of small numbers: a region may lie at longitude and latitude 0.
    longitude, latitude = np.deg2rad(np.concatenate(lines)).T
    return {
        "points": _packed(from_spherical(np.pi / 2 - latitude, longitude)),
        "lengths": [len(line) for line in lines],
    }


def _density_data(values: NDArray[np.float64], cmap: str | Colormap, norm: Normalize) -> dict[str, Any]:
    norm.autoscale_None(values)
    try:
        scale = np.asarray(norm.inverse(np.linspace(0, 1, 257)), dtype=np.float64)
    except ValueError as error:
        raise ValueError(
            f"norm: got {type(norm).__name__}, which gives no values for its colors ({error}); give one with an "
            "inverse and a range, e.g. LogNorm(1e-3, 1)."
        ) from error
    scaled = np.ma.filled(norm(values), 0.0)  # the logarithm of zero is masked
    colors = (cmap if isinstance(cmap, Colormap) else colormaps[cmap])(np.arange(256) / 255)
    low, high = float(scale[0]), float(scale[-1])
    return {
        "rows": values.shape[0],
        "columns": values.shape[1],
        "values": _base64(np.rint(_COLOR_LEVELS * np.clip(scaled, 0, 1)).astype("<u2")),
        "colors": _base64(np.rint(255 * colors[:, :3]).astype(np.uint8)),
        "scale": [float(f"{value:.6g}") for value in scale],
        "ticks": [[float(norm(tick)), number_text(tick)] for tick in color_ticks(norm)],
        "above": bool(values.max() > high),
        "below": bool(values.min() < low),
    }


def _center(
    center: tuple[float, float] | None, values: NDArray[np.float64] | None, samples: list[NDArray[np.float64]]
) -> list[float]:
    if center is not None:
        longitude, latitude = to_lonlat(from_lonlat(np.array(center, dtype=np.float64)))
        return [float(longitude), float(latitude)]
    if values is not None:
        rows, columns = values.shape
        row, column = np.unravel_index(np.argmax(values), values.shape)
        toward = np.array([(column + 0.5) / columns * 360 - 180, (row + 0.5) / rows * 180 - 90])
    else:
        mean = np.concatenate(samples).mean(axis=0)
        length = np.linalg.norm(mean)
        # Points spread over the whole sphere have no meaningful mean direction.
        toward = to_lonlat(mean / length) if length > 0.05 else np.array([0.0, 20.0])
    # A view centered near a pole is hard to read.
    return [round(float(toward[0]), 2), round(float(np.clip(toward[1], -60, 60)), 2)]
