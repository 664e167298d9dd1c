"""Ticks of color bars, the same in images and on pages, and numbers as text with a minus sign."""

import math
from typing import Any

import numpy as np
from matplotlib.colors import AsinhNorm, LogNorm, Normalize
from matplotlib.ticker import LogLocator, MaxNLocator
from numpy.typing import NDArray

__all__ = ["color_ticks", "leading_digit", "number_text"]


def color_ticks(norm: Normalize) -> list[float]:
    """Values for the ticks of a color bar, in the range of the norm, which must be set."""
    low, high = (float(value) for value in np.asarray(norm.inverse(np.array([0.0, 1.0])), np.float64))
    ticks: Any
    if isinstance(norm, LogNorm):
        ticks = LogLocator(numticks=6).tick_values(low, high)
    elif isinstance(norm, AsinhNorm):
        # Equal steps of color would give crowded numbers that are no round multiples of each other.
        top = leading_digit(max(abs(low), abs(high)))
        ticks = [-top, -top / 10, 0.0, top / 10, top]
    elif type(norm) is Normalize:
        ticks = MaxNLocator(nbins=5).tick_values(low, high)
    else:
        ticks = _rounded(np.asarray(norm.inverse(np.linspace(0, 1, 5)), dtype=np.float64))
    return [float(tick) for tick in ticks if low <= tick <= high]


def leading_digit(value: float) -> float:
    """A positive number rounded down to one digit; 1 for 0.

    >>> leading_digit(0.0278)
    0.02
    """
    if value <= 0:
        return 1.0
    exponent = math.floor(math.log10(value))
    return float(f"{math.floor(value / 10.0**exponent)}e{exponent}")


def number_text(value: float) -> str:
    """A number with at most four digits and a minus sign instead of a hyphen.

    >>> number_text(-0.25) == "\N{MINUS SIGN}0.25"
    True
    """
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def _rounded(values: NDArray[np.float64]) -> list[float]:
    """Values rounded toward zero to one digit, without those that become equal."""
    smallest = 1e-9 * float(np.abs(values).max())
    digits = [math.copysign(leading_digit(abs(value)), value) if abs(value) > smallest else 0.0 for value in values]
    return list(dict.fromkeys(digits))
