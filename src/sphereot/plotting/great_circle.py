"""Plot of samples projected onto a great circle."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.types import Frame, Frames, Points
from sphereot._arrays.validation import as_frames, require_same_dim
from sphereot._support.text import plural
from sphereot.density.kde import Bandwidth
from sphereot.plotting._axes import named_samples, new_axes, require_axes
from sphereot.plotting.styling import GRID_COLOR, INK, PALETTE, style
from sphereot.slicing import project

if TYPE_CHECKING:
    from matplotlib.typing import ColorType

_TICK = 0.09  # length of a point's mark, in radii of the circle
_DENSITY_HEIGHT = 0.7  # of the highest density above the circle, in radii of the circle
_DIRECTIONS = 361
_MARKS = 720  # that fit side by side on the circle of a new figure
_SHADE = 0.5  # opacity of the marks of a uniform sample


def circle_projections(
    points: Points | Sequence[Points],
    frame: Frame | Frames,
    *,
    ax: Axes | None = None,
    labels: Sequence[str] | None = None,
    colors: "Sequence[ColorType] | None" = None,
    bandwidth: Bandwidth | None = None,
) -> Axes:
    """Plot the projections of samples onto a great circle (Lemma 1): marks of the points, and their densities.

    Parameters
    ----------
    points : array, shape (n, d), or list of such arrays
        One or several samples of unit vectors, in any dimension.
    frame : array, shape (d, 2) or (1, d, 2)
        Orthonormal frame of the great circle, as `sphereot.great_circles` returns.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    labels : sequence of str, optional
        Names of the samples, for a legend.
    colors : sequence of colors, optional
        Colors of the samples; by default those of the palette.
    bandwidth : float, str or None, default None
        Bandwidth of the densities in radians, or a rule to choose it, as in `sphereot.density.SphericalKDE`.

    Returns
    -------
    matplotlib Axes
        Plain Axes in which the circle has radius 1. Angular positions, in turns, start on the right and increase
        counterclockwise. The height of a curve above the circle is its density, with the same scale for all samples.
        The dashed circle is the uniform density. Above 720 points, a mark represents all points within 1/720 of a turn,
        and is darker for more points.

    Examples
    --------
    >>> import sphereot
    >>> from sphereot import plotting, sphere
    >>> samples = [sphere.random_uniform(50, 4, seed=seed) for seed in (0, 1)]
    >>> frame = sphereot.great_circles(1, 4, seed=0)
    >>> ax = plotting.circle_projections(samples, frame, labels=["first", "second"])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['first', 'second', 'uniform']
    """
    from sphereot.density import SphericalKDE

    named = named_samples(points)
    first, *others = named
    for name in others:
        require_same_dim(first, named[first], name, named[name])
    samples = list(named.values())
    turns = [_turns(sample, frame) for sample in samples]
    for name, values in (("labels", labels), ("colors", colors)):
        if values is not None and len(values) != len(samples):
            raise ValueError(
                f"{name} must have one entry for each of {plural(len(samples), 'sample')}, got {len(values)}."
            )
    given = new_axes((2.6, 2.6)) if ax is None else ax
    axes = require_axes(given, Axes, "plain Axes", "fig.add_subplot()")
    angle = np.linspace(0, 2 * np.pi, _DIRECTIONS)
    # Per turn: the uniform density is 1.
    densities = [
        2 * np.pi * SphericalKDE(bandwidth).fit(_planar(2 * np.pi * turn)).density(_planar(angle)) for turn in turns
    ]
    scale = _DENSITY_HEIGHT / max(density.max() for density in densities)
    with style():
        for k, (turn, density) in enumerate(zip(turns, densities, strict=True)):
            color = PALETTE[k % len(PALETTE)] if colors is None else colors[k]
            curve = _planar(angle, 1 + scale * density)
            ring = np.concatenate([curve, _planar(angle)[::-1]])
            axes.fill(*ring.T, color=color, alpha=0.18, linewidth=0, zorder=1)
            axes.plot(*curve.T, color=color, linewidth=1.0, zorder=3, label=None if labels is None else labels[k])
            outer = 1 - _TICK * (1.25 * k + 0.25)
            positions, opacities = _marks(turn)
            marks = np.stack([_planar(2 * np.pi * positions, r) for r in (outer, outer - _TICK)], axis=1)
            shades = [to_rgba(color, opacity) for opacity in opacities]
            axes.add_collection(LineCollection(list(marks), colors=shades, linewidths=0.5, zorder=2, gid="marks"))
        axes.plot(*_planar(angle).T, color=INK, linewidth=0.7, zorder=4)
        axes.plot(
            *_planar(angle, 1 + scale).T,
            color=GRID_COLOR,
            linewidth=0.6,
            linestyle=(0, (4, 3)),
            zorder=0,
            label="uniform" if labels is not None else None,
        )
        inner = 1 - _TICK * (1.25 * len(samples) + 1.3)
        for quarter, name in enumerate(("0", "1/4", "1/2", "3/4")):
            across, up = _planar(np.pi / 2 * quarter, inner)
            axes.text(across, up, name, ha="center", va="center", fontsize=6, color=INK)
        axes.text(0, 0, "turns", ha="center", va="center", fontsize=6, color=INK)
        limit = 1.04 + _DENSITY_HEIGHT
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
        axes.set_axis_off()
        if labels is not None:
            axes.legend(
                loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=min(3, len(samples) + 1), handlelength=1.2
            )
    return axes


def _turns(sample: NDArray[np.float64], frame: Any) -> NDArray[np.float64]:
    """Compute the angular positions (n,) of the projections of a sample, in turns."""
    plane = to_numpy(frame) if hasattr(frame, "__dlpack__") else np.asarray(frame)
    if plane.ndim == 2:
        plane = plane[None]
    if plane.ndim == 3 and plane.shape[0] > 1:
        raise ValueError(f"frame must be one frame, got {plane.shape[0]} frames. Select one, e.g. frames[0].")
    unit = sample / np.linalg.norm(sample, axis=1, keepdims=True)
    turns: NDArray[np.float64] = project(unit, as_frames(plane, unit))[0]
    return turns


def _marks(turns: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute angular positions and opacities of marks, so that dense parts of the circle are darker for any n.

    The opacity of a point, at most 0.8, makes a uniform sample of this size half opaque. If there are more points than
    fit, a mark represents all points near it, because thousands of very faint lines would be rounded to nothing.
    """
    transparency = max(0.2, (1 - _SHADE) ** (_MARKS / len(turns)))
    if len(turns) <= _MARKS:
        return turns, np.full(len(turns), 1 - transparency)
    counts = np.bincount((_MARKS * turns).astype(np.intp) % _MARKS, minlength=_MARKS)
    filled = np.flatnonzero(counts)
    return (filled + 0.5) / _MARKS, 1 - transparency ** counts[filled]


def _planar(angle: Any, radius: Any = 1.0) -> NDArray[np.float64]:
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
