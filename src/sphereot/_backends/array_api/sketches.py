"""Sketches with NumPy and the array API: counting points in bins, and distances between histograms on great circles.

Counting returns the same bits as the compiled kernel, which is tested against it. Projections are exact in float64
(sphereot/sketch/layout.py), so matrix products of any library and order return the same numbers. Later operations are
rounded once each, in the same order as in cpp/sketch/integer_turns.hpp. The distances are equal too; for p = 2 the
bound of the kernel is smaller (cpp/sketch/transport.hpp).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.array_api import backend as array_api
from sphereot._backends.protocol import COORDINATE_GRID, LIMB_BITS, OFFSET_BITS, Measure

TURN_BITS = 31
POINTS_PER_CHUNK = 4096
PLANAR_NUMBERS = 1 << 20

_SERIES = "0x1.c8148cp-9 -0x1.23982ap-7 0x1.f6dc14p-7 -0x1.6aae4cp-6 0x1.041014p-5 -0x1.b28dc8p-5 0x1.45f2f8p-3"
_POLYNOMIAL = [float.fromhex(number) for number in _SERIES.split()]
_LEADING = float.fromhex("-0x1.5253dcp-11")

Floats = NDArray[np.float64]
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
            counts = [array[:, part] for array in (mass, moment, near)]
            _count(turns, squares, chunk_weights, near_squares, counts)


def _count(
    turns: Words,
    squares: NDArray[np.float32],
    weights: tuple[Words, Words] | None,
    near_squares: list[float],
    counts: list[Words],
) -> None:
    """Add one chunk of turns (L, n) to the counts."""
    mass, moment, near = counts
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
    for array in counts:
        array[0] += array[1] >> np.uint64(LIMB_BITS)
        array[1] &= np.uint64((1 << LIMB_BITS) - 1)


class Histogram(NamedTuple):
    """A measure on L great circles, in B bins."""

    mass: Floats  # (L, B), of each bin; the sum is 1 on each circle
    offset: Floats  # (L, B), the mean offset in the bin, in (0, 1); 1/2 if it is empty
    spread: Floats  # (L, B), the largest possible variance of the offsets, o (1 - o); 0 for a bin of a single point


def histogram(mass: NDArray[Any], moment: NDArray[Any]) -> Histogram:
    """Bins (L, B) as a histogram: counts and sums of offsets in uint64, or masses and moments in float64."""
    weighted = mass.dtype.kind == "f"
    mass, moment = mass.astype(np.float64), moment.astype(np.float64)
    offset = np.divide(moment, mass, out=np.full_like(mass, 0.5), where=mass > 0)
    if not weighted:
        offset = np.where(mass > 0, offset / (1 << OFFSET_BITS), offset)
    offset = np.where(mass > 0, np.minimum(offset + 0.5 / (1 << OFFSET_BITS), 1.0), offset)
    single = (mass == 0) | ((mass == 1) & (not weighted))
    spread = np.where(single, 0.0, offset * (1 - offset))
    return Histogram(mass / np.sum(mass, axis=1, keepdims=True), offset, spread)


def level_distances(measures: Sequence[Histogram], n_slices: int) -> Iterator[tuple[Floats, Floats]]:
    """W_1 of all pairs i < j of histograms: lower bounds and widths of the bounds, in one block (L, pairs)."""
    if len(measures) == 1:
        even = np.full_like(measures[0].mass, 1.0 / measures[0].mass.shape[1])
        measures = [measures[0], Histogram(even, np.full_like(even, 0.5), np.zeros_like(even))]
    levels = []  # cumulative masses before and after each bin, and the mean of the cumulative distribution over the bin
    for mass, offset, _ in measures:
        after = np.minimum(np.cumsum(mass, axis=1), 1.0)
        levels.append((after - mass, after, after - mass + mass * (1 - offset)))
    pairs = [_level_distance(levels[i], levels[j]) for i in range(len(levels)) for j in range(i + 1, len(levels))]
    yield np.stack([cost for cost, _ in pairs], axis=1), np.stack([excess for _, excess in pairs], axis=1)


def _level_distance(x: tuple[Floats, Floats, Floats], y: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats]:
    gap = x[2] - y[2]
    bins = gap.shape[1]
    alpha = np.partition(gap, bins // 2, axis=1)[:, bins // 2, None]
    # D - alpha is between -below and above in a bin, and has this mean.
    below, above, mean = alpha - (x[0] - y[1]), (x[1] - y[0]) - alpha, gap - alpha
    both = np.minimum(below * (above - mean), above * (below + mean))
    crossing = (below > 0) & (above > 0) & (both > 0)
    excess = np.divide(2 * both, below + above, out=np.zeros_like(both), where=crossing)
    return np.sum(np.abs(mean), axis=1) / bins, np.sum(excess, axis=1) / bins


def transport_distances(x: Histogram, y: Histogram | None, p: float, n_slices: int) -> Floats:
    """W_p^p between atoms at the means of the bins, and what its error bound needs, (4, L); see `SketchBackend`.

    The ranges for p = 2 hold for any cut: the largest value of mass times o (1 - o).
    """
    parts = [x] if y is None else [x, y]
    bins = x.mass.shape[1]
    measures = [Measure((np.arange(bins) + part.offset) / bins, part.mass) for part in parts]
    out = np.zeros((4, n_slices))
    out[0] = array_api.circle_costs(measures, p)
    for row, part in enumerate(parts, 1):
        o = part.offset
        largest = np.where(part.spread > 0, (1 - o) * o**p + o * (1 - o) ** p, 0.0)
        out[row] = np.sum(part.mass * largest, axis=1)
    if y is None:
        out[3] = np.sum(x.mass**2 * x.spread, axis=1)
    else:
        out[3] = np.sum([np.max(part.mass * part.spread, axis=1) for part in parts], axis=0)
    return out
