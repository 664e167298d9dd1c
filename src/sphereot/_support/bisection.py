"""Roots of monotone functions by bisection."""

from collections.abc import Callable


def bisect(rising: Callable[[float], float], low: float, high: float, *, steps: int = 80) -> float:
    """Find the root of a rising function between two numbers.

    >>> round(bisect(lambda x: x * x - 2, 0.0, 2.0), 6)
    1.414214
    """
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if rising(middle) < 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
