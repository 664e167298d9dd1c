"""Contrast of lines with the colors below them: white lines on dark colors, dark lines on light ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LIGHT_FROM", "is_light", "runs_of_equal_value"]

LIGHT_FROM = 0.245
"""Relative luminance at which white and INK have the same contrast, 3.56; WCAG 2.2 requires 3 for lines."""


def is_light(colors: Any) -> NDArray[np.bool_]:
    """Whether a dark line has more contrast than a white one, for colors of shape (..., 3) or (..., 4) in [0, 1].

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
