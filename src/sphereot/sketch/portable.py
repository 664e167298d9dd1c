"""Counting points in bins with NumPy: the same bits as the compiled kernel, which is tested against it.

Projections are exact in float64 (`layout.py`), so that matrix products of any library and order give the same numbers.
What follows is rounded: each operation once, in the same order as in cpp/sketch/integer_turns.cpp.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot.sketch.fixed_point import LIMB_BITS, carry
from sphereot.sketch.layout import COORDINATE_GRID, OFFSET_BITS

__all__ = ["count_points", "integer_turns"]

TURN_BITS = 31
POINTS_PER_CHUNK = 4096
PLANAR_NUMBERS = 1 << 20

_POLYNOMIAL = [
    float.fromhex(number)
    for number in (
        "0x1.c8148cp-9",
        "-0x1.23982ap-7",
        "0x1.f6dc14p-7",
        "-0x1.6aae4cp-6",
        "0x1.041014p-5",
        "-0x1.b28dc8p-5",
        "0x1.45f2f8p-3",
    )
]
_LEADING = float.fromhex("-0x1.5253dcp-11")

Words = NDArray[np.uint64]


def integer_turns(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[Words, NDArray[np.float32]]:
    """Turns of planar points as multiples of 2^-31, and squared lengths in single precision.

    >>> turns, squares = integer_turns(np.array([1.0, 0.0, -2.0]), np.array([0.0, 1.0, 0.0]))
    >>> (turns / 2**31).tolist(), squares.tolist()
    ([0.0, 0.25, 0.5], [1.0, 1.0, 4.0])
    """
    x, y = first.astype(np.float32), second.astype(np.float32)
    a, b = np.abs(x), np.abs(y)
    large, small = np.where(a > b, a, b), np.where(a > b, b, a)
    ratio = np.divide(small, large, out=np.zeros_like(small), where=large > 0)
    z = ratio * ratio
    series = np.full_like(z, np.float32(_LEADING))
    for coefficient in _POLYNOMIAL:
        series = series * z + np.float32(coefficient)
    turn = (series * ratio * np.float32(2.0**TURN_BITS)).astype(np.int64)
    turn = np.where(b > a, (1 << (TURN_BITS - 2)) - turn, turn)
    turn = np.where(x < 0, (1 << (TURN_BITS - 1)) - turn, turn)
    turn = np.where(y < 0, (1 << TURN_BITS) - turn, turn) & ((1 << TURN_BITS) - 1)
    return turn.astype(np.uint64), x * x + y * y


def count_points(
    points: NDArray[np.floating[Any]],
    frames: NDArray[np.float64],
    weights: tuple[Words, Words] | None,
    near_squares: list[float],
    mass: Words,
    moment: Words,
    near: Words,
) -> None:
    """Add points (n, d) to counts (limbs, L, B) and (limbs, L, 3) in place; `weights` are the limbs of each weight."""
    for start in range(0, len(points), POINTS_PER_CHUNK):
        chunk = slice(start, start + POINTS_PER_CHUNK)
        rounded = np.rint(points[chunk].astype(np.float64) * COORDINATE_GRID) / COORDINATE_GRID
        chunk_weights = None if weights is None else (weights[0][chunk], weights[1][chunk])
        size = max(1, PLANAR_NUMBERS // (2 * len(rounded)))
        for first in range(0, len(frames), size):
            part = slice(first, first + size)
            rows = frames[part].transpose(0, 2, 1).reshape(-1, frames.shape[1])
            planar = (rows @ rounded.T).reshape(-1, 2, len(rounded))
            turns, squares = integer_turns(planar[:, 0], planar[:, 1])
            _count(turns, squares, chunk_weights, near_squares, mass[:, part], moment[:, part], near[:, part])


def _count(
    turns: Words,
    squares: NDArray[np.float32],
    weights: tuple[Words, Words] | None,
    near_squares: list[float],
    mass: Words,
    moment: Words,
    near: Words,
) -> None:
    """Add one chunk of turns (L, n) to the counts."""
    slices, bins = mass.shape[1:]
    position = turns * np.uint64(bins)
    offset = (position >> np.uint64(TURN_BITS - OFFSET_BITS)) & np.uint64((1 << OFFSET_BITS) - 1)
    index = (np.arange(slices)[:, None] * bins + (position >> np.uint64(TURN_BITS)).astype(np.int64)).ravel()
    below = np.stack([squares < np.float32(limit) for limit in near_squares], axis=-1)  # (L, n, 3)
    if weights is None:
        cells = slices * bins
        mass[0] += np.bincount(index, minlength=cells).reshape(slices, bins).astype(np.uint64)
        # Sums of float64 numbers, which are integers below 2^53.
        sums = np.bincount(index, weights=offset.ravel().astype(np.float64), minlength=cells)
        moment[0] += sums.reshape(slices, bins).astype(np.uint64)
        near[0] += np.sum(below, axis=1, dtype=np.uint64)
        return
    high, low = weights
    shift = np.uint64(OFFSET_BITS)
    product = high * offset
    rest = (product & np.uint64((1 << OFFSET_BITS) - 1)) << np.uint64(LIMB_BITS - OFFSET_BITS)
    parts = (product >> shift, rest + ((low * offset) >> shift))
    for limb in range(2):
        for array, values in ((mass, np.broadcast_to(weights[limb], turns.shape)), (moment, parts[limb])):
            flat = np.zeros(slices * bins, np.uint64)
            np.add.at(flat, index, values.ravel())
            array[limb] += flat.reshape(slices, bins)
        near[limb] += np.sum(np.where(below, weights[limb][:, None], np.uint64(0)), axis=1, dtype=np.uint64)
    for array in (mass, moment, near):
        carry(array)
