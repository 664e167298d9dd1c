"""Parts of several plots: axes, samples, markers and legends, ticks of color bars, contrast of lines."""

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import AsinhNorm, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator
from numpy.typing import NDArray

from sphereot._arrays.containers import dimensions
from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.validation import as_points
from sphereot.plotting.styling import INK, PALETTE, style

AxesT = TypeVar("AxesT", bound=Axes)

RASTER_FROM = 5000
"""Number of points above which they are drawn as an image, because a vector file would open slowly."""

LIGHT_FROM = 0.245
"""Relative luminance at which white and INK have the same contrast, 3.56; WCAG 2.2 requires 3 for lines."""


def points_in_space(name: str, points: Any) -> NDArray[np.float64]:
    """Validate unit vectors (n, 3), and convert them to NumPy float64."""
    return _in_space(name, to_numpy(as_points(name, points, weighted=True)).astype(np.float64))


def samples_in_space(points: Any) -> list[NDArray[np.float64]]:
    """Validate unit vectors (n, 3) of one or several samples, and convert them to NumPy float64."""
    return [_in_space(name, sample) for name, sample in named_samples(points).items()]


def _in_space(name: str, array: NDArray[np.float64]) -> NDArray[np.float64]:
    if array.shape[1] != 3:
        raise ValueError(
            f"{name} must have points on S^2, shape (n, 3), got dimension {array.shape[1]}. For other dimensions, use "
            "circle_projections."
        )
    return array


def named_samples(points: Any) -> dict[str, NDArray[np.float64]]:
    """Validate one sample or a list of samples, and return NumPy float64 arrays by the names that messages use."""
    named = {"points": points}
    if isinstance(points, list | tuple) and len(points) > 0 and dimensions(points[0]) == 2:
        named = {f"points[{i}]": sample for i, sample in enumerate(points)}
    return {name: to_numpy(as_points(name, sample, weighted=True)).astype(np.float64) for name, sample in named.items()}


def new_axes(figsize: tuple[float, float], **kwargs: Any) -> Any:
    """Make Axes on a new figure in the style of the project."""
    with style():
        figure = Figure(figsize=figsize)
        return figure.add_subplot(**kwargs)


def require_axes(ax: Any, kind: type[AxesT], what: str, remedy: str) -> AxesT:
    """Raise an error unless `ax` has the `kind` that a plot needs. The kind Axes means plain rectilinear Axes."""
    if isinstance(ax, kind) and (kind is not Axes or ax.name == "rectilinear"):
        return ax
    got = f"Axes with projection {ax.name!r}" if isinstance(ax, Axes) else type(ax).__name__
    raise TypeError(f"ax must be {what}, got {got}. Make them with {remedy}, or leave ax out.")


def next_color(ax: Any) -> str:
    """Return the color of the palette for another sample on `ax`."""
    return PALETTE[sum(1 for artist in ax.collections if artist.get_gid() == "points") % len(PALETTE)]


def marker_size(n: int) -> float:
    """Compute a marker area, in square points, that keeps a scatter plot of `n` points readable."""
    return float(np.clip(1000.0 / n, 1.0, 9.0))


def marker_opacity(n: int) -> float:
    """Compute an opacity of markers that makes dense regions of a scatter plot of `n` points darker."""
    return float(np.clip(np.sqrt(2000.0 / n), 0.3, 1.0))


_LEGEND_AREA = 16.0  # square points, of a marker 4 points wide
_MARKER_OPTIONS = ("marker", "edgecolors", "linewidths", "alpha")


def add_legend_entry(
    ax: Any, points: Any, label: str, size: Any, color: Any = None, options: Mapping[str, Any] | None = None
) -> None:
    """Add a legend entry for the artist `points`, with a marker of its color.

    The marker of matplotlib's legend would have the size of the points, which is one square point for large samples.
    """
    if color is None:
        faces = points.get_facecolor()
        color = points.cmap(0.5) if points.get_array() is not None else faces[0] if len(faces) else INK
    marker = {name: value for name, value in (options or {}).items() if name in _MARKER_OPTIONS}
    area = max(_LEGEND_AREA, float(np.median(size)))
    nothing: list[list[float]] = [[]] * (3 if ax.name == "3d" else 2)
    ax.scatter(*nothing, s=area, label=label, gid="legend", **({"color": color, "linewidths": 0} | marker))


def color_ticks(norm: Normalize) -> list[float]:
    """Compute values for the ticks of a color bar, in the range of the norm, which must be set."""
    low, high = (float(value) for value in np.asarray(norm.inverse(np.array([0.0, 1.0])), np.float64))
    ticks: Any
    if isinstance(norm, LogNorm):
        ticks = LogLocator(numticks=6).tick_values(low, high)
    elif isinstance(norm, AsinhNorm):
        # Equal steps of color would give numbers that are crowded and not round.
        top = leading_digit(max(abs(low), abs(high)))
        ticks = [-top, -top / 10, 0.0, top / 10, top]
    elif type(norm) is Normalize:
        ticks = MaxNLocator(nbins=5).tick_values(low, high)
    else:
        # Values rounded toward zero to one digit, without duplicates.
        values = np.asarray(norm.inverse(np.linspace(0, 1, 5)), dtype=np.float64)
        small = 1e-9 * float(np.abs(values).max())
        digits = [math.copysign(leading_digit(abs(v)), v) if abs(v) > small else 0.0 for v in values]
        ticks = dict.fromkeys(digits)
    return [float(tick) for tick in ticks if low <= tick <= high]


def leading_digit(value: float) -> float:
    """Round a positive number down to one digit; 1 for 0.

    >>> leading_digit(0.0278)
    0.02
    """
    if value <= 0:
        return 1.0
    exponent = math.floor(math.log10(value))
    return float(f"{math.floor(value / 10.0**exponent)}e{exponent}")


def number_text(value: float) -> str:
    """Format a number with at most four digits, and a minus sign instead of a hyphen.

    >>> number_text(-0.25) == "\N{MINUS SIGN}0.25"
    True
    """
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def is_light(colors: Any) -> NDArray[np.bool_]:
    """Whether a dark line has more contrast than a white line, on colors of shape (..., 3) or (..., 4) in [0, 1].

    >>> is_light([[0.27, 0.0, 0.33], [0.99, 0.91, 0.14]]).tolist()  # both ends of viridis
    [False, True]
    """
    rgb = np.asarray(colors, dtype=np.float64)[..., :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)  # the luminance of WCAG 2.2
    return np.asarray(linear @ [0.2126, 0.7152, 0.0722] > LIGHT_FROM)


def runs_of_equal_value(line: NDArray[Any], values: NDArray[np.bool_]) -> list[tuple[NDArray[Any], bool]]:
    """Split a line of n points where `values`, one per point, change; neighboring parts share a point.

    >>> values = np.array([True, False, False, True])
    >>> [(part.tolist(), value) for part, value in runs_of_equal_value(np.arange(4), values)]
    [([0, 1], True), ([1, 2, 3], False)]
    """
    if len(line) < 2:
        return []
    # The step from point i to point i + 1 has the value of point i.
    starts = [0, *(np.flatnonzero(values[1:-1] != values[:-2]) + 1).tolist()]
    ends = [*starts[1:], len(line) - 1]
    return [(line[start : end + 1], bool(values[start])) for start, end in zip(starts, ends, strict=True)]
