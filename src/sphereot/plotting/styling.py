"""Common style of all figures, and saving figures to files."""

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
"""The colors of Okabe and Ito (2008), ordered so that the first ones differ most for every kind of color vision."""

INK = "#333333"
"""Color of frames, ticks and outlines."""

GRID_COLOR = "#B0B0B0"
"""Color of graticules and wireframes."""

_RC_PARAMS: dict[str, Any] = {
    "figure.dpi": 100,
    "figure.figsize": (3.4, 2.4),  # inches: one column of a journal
    "figure.constrained_layout.use": True,
    "savefig.dpi": 300,
    "savefig.bbox": "tight",  # maps and spheres have a fixed aspect, which leaves margins empty or titles outside
    "savefig.pad_inches": 0.02,
    "pdf.fonttype": 42,  # TrueType, embedded: text stays text, and journals accept it, unlike Type 3
    "ps.fonttype": 42,
    "svg.hashsalt": "sphereot",  # the same figure gives the same file
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # included in matplotlib, so that figures are the same on every machine
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

# Without dates, so that the same figure gives the same file.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "eps": {},
    "png": {},
}


@contextmanager
def style(**rc_params: Any) -> Iterator[None]:
    """Context manager for figures in the style of the project: small sans-serif type, thin lines, safe colors.

    Parameters
    ----------
    **rc_params
        Changes on top, as entries of `matplotlib.rcParams` with double underscores for dots, e.g. ``font__size=9``.

    Notes
    -----
    matplotlib's settings are restored when the context ends. Figures that the functions of this package create have
    this style without it.

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
        What to save; for Axes, their figure.
    path : path
        Target; missing folders are created. A name that ends in a format, such as ``map.png``, is written in that
        format alone; otherwise the suffix of each format is added.
    formats : sequence of {"png", "pdf", "svg", "eps"}, optional
        The formats, in the order of the result; that of the name, or else PNG and PDF, by default.
    **options
        Passed on to `Figure.savefig`, e.g. ``bbox_inches="tight"`` or ``dpi=150``; 300 dots per inch by default.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ValueError
        For another format.

    Examples
    --------
    >>> import tempfile
    >>> from sphereot import plotting
    >>> ax = plotting.evolution([0, 1, 2], [[3.0, 2.0, 1.0], [2.0, 1.0, 1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [file.name for file in plotting.save(ax, f"{folder}/descent")]
    ['descent.png', 'descent.pdf']
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [file.name for file in plotting.save(ax, f"{folder}/descent.svg")]
    ['descent.svg']
    """
    figure: Any = fig if hasattr(fig, "savefig") else getattr(fig, "figure", None)
    if not hasattr(figure, "savefig"):
        raise TypeError(f"fig: got {type(fig).__name__}; give a matplotlib Figure or Axes.")
    if isinstance(formats, str):
        raise TypeError(f"formats: got the string {formats!r}; give a sequence, e.g. ({formats!r},).")
    base = Path(path)
    ending = base.suffix[1:].lower()
    if formats is None:
        formats = (ending,) if ending in _METADATA else ("png", "pdf")
    unknown = [suffix for suffix in formats if suffix not in _METADATA]
    if unknown:
        raise ValueError(f"formats: got {unknown[0]!r}; choose among {', '.join(_METADATA)}.")
    # A suffix is added, not replaced: a name such as "sigma-0.5" contains a dot.
    targets = {suffix: base if suffix == ending else base.with_name(f"{base.name}.{suffix}") for suffix in formats}
    for suffix in formats:
        with write_aside(targets[suffix]) as aside, style():
            figure.savefig(aside, format=suffix, metadata=_METADATA[suffix], **({"dpi": 300} | options))
    return [targets[suffix] for suffix in formats]
