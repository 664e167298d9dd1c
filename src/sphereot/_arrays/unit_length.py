"""Unit-length check of points: the tolerance, and the test of all rows of an array."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, is_numpy, namespace

__all__ = ["check_numpy_rows_with", "have_unit_length", "unit_length_tolerance"]

_numpy_check: Callable[[NDArray[Any], float], bool] | None = None


def check_numpy_rows_with(check: Callable[[NDArray[Any], float], bool]) -> None:
    """Use `check(rows, tolerance)` for contiguous NumPy arrays; the compiled kernel takes a third of the time.

    The tolerance is that of the squared length.
    """
    global _numpy_check
    _numpy_check = check


def have_unit_length(points: Array, tolerance: float) -> bool:
    """Whether all rows (n, d) are finite and of length 1, up to a tolerance."""
    if _numpy_check is not None and is_numpy(points) and points.flags.c_contiguous and points.flags.aligned:
        return _numpy_check(points, 2.0 * tolerance)
    xp = namespace(points)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = xp.vecdot(points, points)
    return bool(xp.all(xp.abs(squares - 1.0) <= 2.0 * tolerance))  # comparisons with NaN are false


def unit_length_tolerance(eps: float, *, half: bool) -> float:
    """How far the length of a unit vector may be from 1.

    Wide enough for vectors normalized in their own precision, narrow enough to catch vectors never normalized.

    Parameters
    ----------
    eps : float
        Machine epsilon of the floating type that the vectors have now.
    half : bool
        Whether they had a half-precision type before they were converted.

    Examples
    --------
    >>> unit_length_tolerance(2.0**-52, half=False), unit_length_tolerance(2.0**-23, half=True)
    (1e-06, 0.05)
    """
    return 0.05 if half else max(1e-6, 1e3 * eps)
