"""Common style of all figures, and saving of figures."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from cycler import cycler

from sphereot._support.atomic_write import write_aside

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

PALETTE = ["#0072B2", "#D55E00", "#009E73", "#56B4E9", "#E69F00", "#000000", "#CC79A7", "#F0E442"]
"""The colors of Okabe and Ito (2008). The first colors differ most for every kind of color vision."""

INK = "#333333"
"""Color of frames, ticks and outlines."""

GRID_COLOR = "#B0B0B0"
"""Color of graticules and wireframes."""

_RC_PARAMS: dict[str, Any] = {
    "figure.dpi": 100,
    "figure.figsize": (3.4, 2.4),  # inches: one column of a journal
    "figure.constrained_layout.use": True,
    "savefig.dpi": 300,
    "savefig.bbox": "tight",  # the fixed aspect of maps and spheres leaves empty margins
    "savefig.pad_inches": 0.02,
    "pdf.fonttype": 42,  # TrueType: text can be edited, and journals accept it, unlike Type 3
    "ps.fonttype": 42,
    "svg.hashsalt": "sphereot",  # equal figures give equal files
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # included in matplotlib, so figures are the same on every machine
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "grid.color": GRID_COLOR,
    "grid.linewidth": 0.4,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "patch.linewidth": 0.6,
    "image.cmap": "viridis",
}

# Without dates, so that equal figures give equal files.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "eps": {},
    "png": {},
}


@contextmanager
def style(**rc_params: Any) -> Iterator[None]:
    """Use the style of the project in a context: small sans-serif type, thin lines, colors for all kinds of vision.

    The settings of matplotlib are restored when the context ends. Functions that make a new figure use this style by
    default.

    Parameters
    ----------
    **rc_params
        Additional entries of `matplotlib.rcParams`, with double underscores instead of dots, e.g. ``font__size=9``.

    Examples
    --------
    >>> import matplotlib
    >>> from sphereot import plotting
    >>> with plotting.style(font__size=9):
    ...     matplotlib.rcParams["font.size"], matplotlib.rcParams["savefig.dpi"]
    (9.0, 300.0)
    """
    changes = {name.replace("__", "."): value for name, value in rc_params.items()}
    with mpl.rc_context(_RC_PARAMS | changes):
        yield


def save(
    fig: "Figure | SubFigure | Axes",
    path: str | os.PathLike[str],
    formats: Sequence[str] | None = None,
    **options: Any,
) -> list[Path]:
    """Save a figure in one or more formats; files are written atomically.

    Parameters
    ----------
    fig : matplotlib Figure or Axes
        The figure to save, or its Axes.
    path : path
        File name; missing folders are created. If the name ends in a format, such as ``map.png``, only this format is
        written by default. Otherwise the extension of each format is added.
    formats : sequence of {"png", "pdf", "svg", "eps"}, optional
        The formats. By default the format of the name, or else PNG and PDF.
    **options
        Options of `Figure.savefig`, e.g. ``bbox_inches="tight"`` or ``dpi=150`` (300 by default).

    Returns
    -------
    list of Path
        The files, in the order of `formats`.

    Examples
    --------
    >>> import tempfile
    >>> from sphereot import plotting
    >>> ax = plotting.evolution([0, 1, 2], [[3.0, 2.0, 1.0], [2.0, 1.0, 1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [file.name for file in plotting.save(ax, f"{folder}/descent")]
    ['descent.png', 'descent.pdf']
    """
    figure: Any = fig if hasattr(fig, "savefig") else getattr(fig, "figure", None)
    if not hasattr(figure, "savefig"):
        raise TypeError(f"fig must be a matplotlib Figure or Axes, got {type(fig).__name__}.")
    if isinstance(formats, str):
        raise TypeError(f"formats must be a sequence, e.g. ({formats!r},), got the string {formats!r}.")
    base = Path(path)
    extension = base.suffix[1:].lower()
    if formats is None:
        formats = (extension,) if extension in _METADATA else ("png", "pdf")
    unknown = [suffix for suffix in formats if suffix not in _METADATA]
    if unknown:
        raise ValueError(f"formats must be among {', '.join(_METADATA)}, got {unknown[0]!r}.")
    # A suffix is added, not replaced: a name such as "sigma-0.5" contains a dot.
    targets = {suffix: base if suffix == extension else base.with_name(f"{base.name}.{suffix}") for suffix in formats}
    for suffix in formats:
        with write_aside(targets[suffix]) as aside, style():
            figure.savefig(aside, format=suffix, metadata=_METADATA[suffix], **({"dpi": 300} | options))
    return [targets[suffix] for suffix in formats]
