"""Plot of repeated runs: a mean or median curve with a band."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.types import ArrayLike
from sphereot._arrays.validation import as_reals
from sphereot.plotting._axes import new_axes, require_axes
from sphereot.plotting.styling import style

if TYPE_CHECKING:
    from matplotlib.typing import ColorType

_BANDS = ("std", "stderr", "quantile", "range", None)
_LOG = {False: (), True: ("y",), "x": ("x",), "y": ("y",), "both": ("x", "y")}


def evolution(
    x: ArrayLike,
    runs: ArrayLike,
    *,
    ax: Axes | None = None,
    label: str | None = None,
    color: "ColorType | None" = None,
    band: str | None = "std",
    log: bool | str = False,
    **kwargs: Any,
) -> Axes:
    """Plot the mean of repeated runs as a curve, with a band that shows their spread.

    Parameters
    ----------
    x : array, shape (n,)
        Horizontal values of the measurements, for example iterations or sample sizes.
    runs : array, shape (n_runs, n) or (n,)
        The measurements, one row per run.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    label : str, optional
        Name of the curve in a legend, which `ax.legend()` adds.
    color : color, optional
        Color of the curve; by default the next color of the Axes.
    band : {"std", "stderr", "quantile", "range", None}, default "std"
        Mean with one standard deviation on both sides (n_runs - 1 in the denominator), mean with one standard error,
        median with the quantiles 0.1 and 0.9, mean with minimum and maximum, or only the mean.
    log : bool, "x", "y" or "both", default False
        Logarithmic axes; True is the same as "y". A band that would reach below zero ends at the minimum of the runs.
    **kwargs
        Options of `Axes.plot`.

    Returns
    -------
    matplotlib Axes
        The Axes with the curve.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import plotting
    >>> runs = np.random.default_rng(0).normal(size=(10, 50)).cumsum(axis=1)
    >>> ax = plotting.evolution(np.arange(50), runs, label="walk", band="quantile")
    >>> ax.lines[0].get_label()
    'walk'
    """
    if band not in _BANDS:
        raise ValueError(f"band must be one of {', '.join(map(repr, _BANDS))}, got {band!r}.")
    if not isinstance(log, bool | str) or log not in _LOG:
        raise ValueError(f"log must be one of {', '.join(map(repr, _LOG))}, got {log!r}.")
    where = to_numpy(as_reals("x", x)).astype(np.float64)
    values = np.atleast_2d(to_numpy(as_reals("runs", runs)).astype(np.float64))
    if where.ndim != 1 or values.ndim != 2 or values.shape[1] != len(where) or values.size == 0:
        raise ValueError(f"runs must have shape (n_runs, n) for x of shape (n,), got {values.shape} and {where.shape}.")
    on_log_y = "y" in _LOG[log]
    if on_log_y and not np.all(values > 0):
        raise ValueError(f"runs must be positive for a logarithmic axis, got {values.min():.4g}.")
    given = new_axes((3.4, 2.4)) if ax is None else ax
    axes = require_axes(given, Axes, "plain Axes", "fig.add_subplot()")
    middle, low, high = _middle_and_band(values, band)
    if on_log_y:
        low = np.where(low > 0, low, np.minimum(values.min(axis=0), middle))
    with style():
        (line,) = axes.plot(where, middle, label=label, **({"color": color} if color is not None else {}), **kwargs)
        if band is not None and len(values) > 1:
            axes.fill_between(
                where, low, high, color=line.get_color(), alpha=0.2, linewidth=0, zorder=line.get_zorder() - 1
            )
        for axis in _LOG[log]:
            getattr(axes, f"set_{axis}scale")("log")
    return axes


def _middle_and_band(
    runs: NDArray[np.float64], band: str | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    if band == "quantile":
        low, middle, high = np.quantile(runs, [0.1, 0.5, 0.9], axis=0)
        return middle, low, high
    mean = runs.mean(axis=0)
    if band == "range":
        return mean, runs.min(axis=0), runs.max(axis=0)
    spread = runs.std(axis=0, ddof=1) if len(runs) > 1 else np.zeros_like(mean)
    if band == "stderr":
        spread = spread / np.sqrt(len(runs))
    return mean, mean - spread, mean + spread
