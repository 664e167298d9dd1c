"""HTML pages with a globe that can be rotated and zoomed, drawn by a script on a canvas, without network access."""

import html
import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap, Normalize
from numpy.typing import NDArray

from sphereot._arrays.containers import SampleColumns
from sphereot._arrays.types import ArrayLike, Points
from sphereot._html.page import html_page
from sphereot._support.atomic_write import write_text
from sphereot._support.text import plural
from sphereot.plotting._axes import samples_in_space
from sphereot.plotting._outlines import as_regions, is_region, outlines
from sphereot.plotting._ticks import color_ticks, number_text
from sphereot.plotting.coastlines import has_coastlines, read_coastlines
from sphereot.plotting.maps import grid_values, linear_norm
from sphereot.plotting.styling import PALETTE
from sphereot.sphere import from_lonlat, from_spherical, to_lonlat

__all__ = ["globe_figure", "globe_page"]

_CSS_COLORS = {  # colors too dark for a dark page are variables of the style sheet
    "#000000": "--ink",
    "#0072B2": "--blue",
}
_HEX_COLOR = re.compile("#[0-9A-Fa-f]{6}")
_COLOR_LEVELS = 65535  # of the densities stored in a page
_HELP = "Drag or use the arrow keys to rotate (with Shift: finely), + and − or the wheel to zoom, Home to reset."


def globe_page(
    path: str | os.PathLike[str],
    *,
    density: Callable[[NDArray[np.float64]], ArrayLike] | ArrayLike | None = None,
    points: Points | Sequence[Points] | None = None,
    labels: Sequence[str] | None = None,
    title: str = "Globe",
    coastlines: bool | None = None,
    columns: SampleColumns | None = None,
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
    columns : str, int or sequence of them, or a sequence for each sample, optional
        For samples in tables, as in `sphereot.ssw`.
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
        columns=columns,
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
    columns: SampleColumns | None = None,
    checked: bool = False,
) -> str:
    """HTML of an interactive globe, for the body of `html_page`.

    Parameters
    ----------
    density, points, labels, coastlines, columns
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
        Regions to outline: with solid lines around cells of value 1, and dashed lines around cells of value -1; 0
        elsewhere. Rows and columns as for `density`, in any number, e.g. ``DifferenceMap.region``. Where values are
        between these numbers, lines run where they are 1/2 or -1/2.
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
    >>> from sphereot.plotting.globe_pages import globe_figure
    >>> "&lt;b&gt;" in globe_figure(points=np.eye(3), labels=["<b>"], coastlines=False)
    True
    """
    if density is None and points is None:
        raise ValueError("density, points: got neither; give at least one of them.")
    values = None if density is None else grid_values(density, resolution)
    samples: list[NDArray[np.float64]] = []
    if points is not None:
        samples = list(cast("list[NDArray[np.float64]]", points)) if checked else samples_in_space(points, columns)
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
    # "<" could end the element that holds the data.
    packed = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    named = [f"{label} ({len(s):,})" for label, s in zip(labels or ["points"] * len(samples), samples, strict=True)]
    choices = [_sample_checkbox(k, text) for k, text in enumerate(named)]
    if turn:
        choices.append('<label><input type="checkbox" data-turn> turn</label>')
    if with_shores:
        choices.append('<label><input type="checkbox" checked> coastlines</label>')
    signs = [] if marked is None else [sign for sign in (1, -1) if is_region(sign * marked).any()]
    if signs:
        choices.append('<label><input type="checkbox" checked data-regions> outlines</label>')
    return "\n".join(
        [
            '<figure class="globe">',
            f'<canvas class="globe-view" tabindex="0" role="application" aria-roledescription="globe" '
            f'aria-label="{html.escape(name)}. {_HELP}"></canvas>',
            '<output class="globe-location"></output>',
            _region_legend(signs, region_labels) if signs else "",
            _scale(density_label) if values is not None else "",
            '<div class="globe-choices">',
            '<button type="button" data-act="out" aria-label="zoom out">−</button>',
            '<button type="button" data-act="in" aria-label="zoom in">+</button>',
            '<button type="button" data-act="reset">reset</button>',
            *choices,
            "</div>",
            "" if note is None else f'<p class="globe-note">{html.escape(note)}</p>',
            f'<p class="globe-help">{_HELP}</p>',
            "<noscript><p>The globe is drawn by a script, which is switched off here.</p></noscript>",
            f'<script type="application/json">{packed}</script>',
            "</figure>",
        ]
    )


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


def _scale(label: str) -> str:
    return (
        '<div class="globe-scale"><canvas class="globe-bar"></canvas><div class="globe-ticks"></div>'
        f'<span class="globe-label">{html.escape(label)}</span></div>'
    )


def _region_legend(signs: list[int], labels: tuple[str, str]) -> str:
    names = {1: ("", labels[0]), -1: (" dashed", labels[1])}
    entries = [
        f'<span><span class="globe-outline{kind}"></span> {html.escape(label)}</span>'
        for kind, label in (names[sign] for sign in signs)
    ]
    return f'<p class="globe-regions">{" ".join(entries)}</p>'


def _sample_checkbox(k: int, text: str) -> str:
    return (
        f'<label><input type="checkbox" checked data-sample="{k}"> <span class="globe-swatch"></span> '
        f"{html.escape(text)}</label>"
    )
