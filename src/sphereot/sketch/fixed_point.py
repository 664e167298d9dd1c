"""Exact sums of weights: fixed-point numbers of two limbs, whose sums do not depend on the order.

A number is high 2^-16 + low 2^-64 with low < 2^48, in two arrays of uint64 along the limb axis. Arrays with one limb
are plain integers.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_WEIGHT", "LIMB_BITS", "WEIGHT_UNIT", "add", "carry", "split", "subtract", "to_float"]

LIMB_BITS = 48
HIGH_UNIT = 2.0**-16
WEIGHT_UNIT = 2.0**-64
LARGEST_WEIGHT = 2.0**31
LARGEST_TOTAL = 2.0**46

_BITS = np.uint64(LIMB_BITS)
_MASK = np.uint64((1 << LIMB_BITS) - 1)

Words = NDArray[np.uint64]


def split(weights: NDArray[np.float64]) -> tuple[Words, Words]:
    """Limbs of weights from 0 to 2^31, rounded to multiples of 2^-64.

    >>> high, low = split(np.array([1.5, 2.0**-64]))
    >>> high.tolist(), low.tolist()
    ([98304, 0], [0, 1])
    """
    high = np.floor(weights / HIGH_UNIT)
    low = np.rint((weights - high * HIGH_UNIT) / WEIGHT_UNIT)
    return high.astype(np.uint64), low.astype(np.uint64)


def carry(numbers: Words) -> None:
    """Bring arrays (2, ...) to their normal form, low < 2^48, in place."""
    numbers[0] += numbers[1] >> _BITS
    numbers[1] &= _MASK


def add(numbers: Words, others: Words) -> Words:
    """Sum of two arrays (limbs, ...)."""
    total = numbers + others
    if len(total) == 2:
        carry(total)
    return total


def subtract(numbers: Words, others: Words) -> Words | None:
    """Difference of two arrays (limbs, ...), or None if an element of it is negative."""
    if len(numbers) == 1:
        return None if bool(np.any(numbers < others)) else numbers - others
    borrow = (numbers[1] < others[1]).astype(np.uint64)
    if bool(np.any(numbers[0] < others[0] + borrow)):
        return None
    low = (numbers[1] - others[1]) & _MASK  # unsigned: modulo 2^64, of which 2^48 is a divisor
    return np.stack([numbers[0] - others[0] - borrow, low])


def to_float(numbers: Words) -> NDArray[np.float64]:
    """Arrays (limbs, ...) as float64: integers, or masses."""
    if len(numbers) == 1:
        return np.asarray(numbers[0], np.float64)
    return np.asarray(numbers[0] * HIGH_UNIT + numbers[1] * WEIGHT_UNIT, np.float64)
