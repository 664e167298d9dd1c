"""HTML pages with an interactive globe, drawn by a script on a canvas, without network access."""

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
        The ``.html`` file to write. It needs no other files, and has about half a megabyte with density and coastlines.
    density : callable or array, shape (n_lat, n_lon), optional
        Density that is shown by colors, as for `density_map`.
    points : array, shape (n, 3), or list of such arrays, optional
        One or several samples of unit vectors.
    labels : sequence of str, optional
        Names of the samples. All texts are escaped: markup is shown as text.
    title : str, default "Globe"
        Heading of the page.
    coastlines : bool or None, default None
        Whether to draw the coastlines of the earth. With None, if the extra ``sphereot[map]`` is installed.
    **options
        Options of `sphereot.plotting.globe.globe_figure`: resolution, density_label, cmap, vmin, vmax, norm, regions,
        region_labels, note, center, colors and turn.

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
    options |= {"density": density, "points": points, "labels": labels, "coastlines": coastlines}
    return write_text(path, html_page(title, globe_figure(name=title, alone=True, **options)))


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
    """Return the HTML of an interactive globe, for the body of `html_page`.

    Parameters
    ----------
    density, points, labels, coastlines : optional
        As for `globe_page`.
    name : str, default "Globe"
        What the globe shows, for screen readers.
    resolution, cmap, vmin, vmax, norm : optional
        As for `density_map`. Use ``norm=LogNorm(...)`` for densities with sharp peaks.
    density_label : str, default "density [1/sr]"
        Label of the color bar, with the unit.
    regions : array, shape (n_lat, n_lon), optional
        Values from -1 to 1, for outlines of regions: solid lines at 1/2, dashed lines at -1/2. Rows and columns are as
        for `density`, in any number.
    region_labels : pair of str, default ("region of 1", "region of −1")
        What both kinds of outlines mean, for the legend.
    note : str, optional
        Text below the globe.
    center : tuple of two floats, optional
        Longitude and latitude, in degrees, of the first view. By default the location of the highest density, or the
        mean direction of the points.
    colors : sequence of str, optional
        Colors of the samples in hexadecimal digits, such as "#0072B2"; by default those of `PALETTE`.
    turn : bool, default False
        Whether the globe rotates until the user touches it, unless the system asks for reduced motion.
    alone : bool, default False
        Whether the page contains only the globe, so that the mouse wheel zooms and does not scroll the page.
    checked : bool, default False
        Whether `points` is a list of float64 arrays of unit vectors that need no validation.

    >>> "&lt;b&gt;" in globe_figure(points=np.eye(3), labels=["<b>"], coastlines=False)
    True
    """
    if density is None and points is None:
        raise ValueError("density or points must be given, got neither.")
    values = None if density is None else grid_values(density, resolution)
    samples: list[NDArray[np.float64]] = []
    if points is not None:
        samples = list(cast("list[NDArray[np.float64]]", points)) if checked else samples_in_space(points)
    if labels is not None and (isinstance(labels, str) or len(labels) != len(samples)):
        got = f"the string {labels!r}" if isinstance(labels, str) else f"{len(labels)}"
        raise ValueError(
            f"labels must be a list with one label for each of {plural(len(samples), 'sample')}, got {got}."
        )
    if colors is not None and (len(colors) != len(samples) or not all(map(_HEX_COLOR.fullmatch, colors))):
        raise ValueError(
            f"colors must have one color such as '#0072B2' for each of {plural(len(samples), 'sample')}, got "
            f"{list(colors)!r}."
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
    """Return the HTML of a complete page with style sheets and script, from the HTML below its heading.

    The title is escaped, and `css` is added after the CSS of all pages. The content security policy allows only the
    script of the project, and no network access.

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
    """Validate values of regions, from -1 to 1, shape (n_lat, n_lon)."""
    array = to_numpy(regions) if hasattr(regions, "__dlpack__") else np.asarray(regions)
    if array.ndim != 2 or min(array.shape) < 2:
        raise ValueError(f"regions must have shape (n_lat, n_lon), got {array.shape}.")
    values = array.astype(np.float64)
    is_wrong = ~(np.abs(values) <= 1)  # NaN too
    if is_wrong.any():
        got = array[is_wrong][0].item()
        raise ValueError(f"regions must be from -1 to 1, got {got!r}. Use 1 and -1 in regions, and 0 elsewhere.")
    return values


def outlines(values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Compute the lines of longitude and latitude, in degrees, on which values (n_lat, n_lon) are 1/2.

    Lines are interrupted at the date line.
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
    """Encode unit vectors in base64, with 16 bits per coordinate: the error is at most 3e-5 rad, 170 m on the earth."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)  # rounding of the input must not overflow
    return _base64(np.rint(32767 * unit).astype("<i2"))


def _base64(values: NDArray[Any]) -> str:
    return b64encode(values.tobytes()).decode()


def _lines(lines: list[NDArray[np.float64]]) -> dict[str, Any]:
    """Encode lines of longitude and latitude in degrees."""
    if not lines:
        return {"points": "", "lengths": []}
    # from_lonlat would warn about small numbers, but a region can be at longitude and latitude 0.
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
            f"norm must have an inverse and a range, e.g. LogNorm(1e-3, 1), got {type(norm).__name__} ({error})."
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
