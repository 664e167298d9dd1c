"""The counts of a sketch: masses and sums of offsets per group, great circle and bin, and masses near the poles.

Weights are fixed-point numbers of two limbs, so their sums are exact in any order. A number is high 2^-16 + low 2^-64
with low < 2^48, in two arrays of uint64 along the limb axis. Arrays with one limb are integers.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import sketch_backend
from sphereot._backends.protocol import LIMB_BITS, OFFSET_BITS

HIGH_UNIT = 2.0**-16
WEIGHT_UNIT = 2.0**-64
LARGEST_WEIGHT = 2.0**31
LARGEST_TOTAL = 2.0**46
NEAR_COUNT = 3  # kinds of short projections that are counted
ROWS_PER_CALL = 1 << 18  # rows that are made contiguous at a time

_LOW = np.uint64((1 << LIMB_BITS) - 1)

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Bins:
    """Counts of points; only `count_points` changes the arrays.

    Attributes
    ----------
    n : array of uint64, shape (G,)
        Number of points of each group.
    mass : array of uint64, shape (G, limbs, L, B)
        Number of points of each bin, in one limb; or their total weight, in two limbs.
    moment : array of uint64, shape (G, limbs, L, B)
        Sum of offsets in units of 2^-16 of a bin, in one limb; or sum of weight times offset, in two limbs.
    near : array of uint64, shape (G, limbs, L, 3)
        Mass of points whose projection is short (`Layout.near_squares`).
    """

    n: Words
    mass: Words
    moment: Words
    near: Words

    @property
    def weighted(self) -> bool:
        """Whether points have weights."""
        return bool(self.mass.shape[1] == 2)

    @property
    def arrays(self) -> tuple[Words, Words, Words]:
        """Masses, moments and masses near the poles."""
        return self.mass, self.moment, self.near

    @property
    def cells(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Masses and moments (L, B) of the only group: integers, or float64 with weights."""
        if self.weighted:
            return to_float(self.mass[0]), to_float(self.moment[0])
        return self.mass[0, 0], self.moment[0, 0]

    @property
    def total(self) -> float:
        """Number of points, or their total weight."""
        return float(np.sum(to_float(self.mass[:, :, 0].swapaxes(0, 1))))

    def add(self, other: "Bins") -> "Bins":
        """Add counts; an error if the total weight is too large."""
        if self.weighted:
            _require_total(self.total + other.total)
        return Bins(self.n + other.n, *self._combine(other, add))

    def subtract(self, other: "Bins") -> "Bins | None":
        """Subtract the counts of `other`, or return None if a count would be negative."""
        arrays = self._combine(other, subtract)
        if np.any(self.n < other.n) or any(array is None for array in arrays):
            return None
        rest = Bins(self.n - other.n, *arrays)
        return None if inconsistency(rest) else rest

    def _combine(self, other: "Bins", operation: Callable[[Words, Words], Any]) -> list[Any]:
        results = [
            operation(mine.swapaxes(0, 1), theirs.swapaxes(0, 1))
            for mine, theirs in zip(self.arrays, other.arrays, strict=True)
        ]
        return [None if result is None else np.ascontiguousarray(result.swapaxes(0, 1)) for result in results]

    def copy(self) -> "Bins":
        """Copy the arrays."""
        return Bins(self.n.copy(), *(array.copy() for array in self.arrays))

    def group(self, g: int) -> "Bins":
        """Return the counts of one group."""
        part = slice(g, g + 1)
        return Bins(self.n[part], self.mass[part], self.moment[part], self.near[part])

    def sum_groups(self) -> "Bins":
        """Add up the counts of all groups, as one group."""
        total = Bins(*(array.sum(axis=0, keepdims=True) for array in (self.n, *self.arrays)))
        for array in total.arrays:
            _carry(array[0])  # a sum of 2^16 lower limbs, each below 2^48, does not overflow
        return total


def zero_bins(groups: int, n_projections: int, bins: int, weighted: bool) -> Bins:
    """Return counts of no points."""
    shape = (groups, 1 + weighted, n_projections)
    mass, moment, near = (np.zeros((*shape, columns), np.uint64) for columns in (bins, bins, NEAR_COUNT))
    return Bins(np.zeros(groups, np.uint64), mass, moment, near)


def count_points(
    bins: Bins,
    frames: NDArray[np.float64],
    near_squares: list[float],
    points: Any,
    weights: NDArray[np.float64] | None,
    groups: NDArray[np.int64] | None,
) -> None:
    """Count points (n, d) in place, with weights (n,) and group numbers (n,)."""
    limbs = None
    if weights is not None:
        largest = float(np.max(weights))
        if largest > LARGEST_WEIGHT:
            raise ValueError(f"weights must be at most 2^31, got {largest:.4g}. Divide them by a constant.")
        _require_total(bins.total + float(np.sum(weights)))
        limbs = split(weights)
    rows_of_groups: Iterable[tuple[int, Any]] = [(0, None)]
    if groups is not None:
        order = np.argsort(groups, kind="stable")
        present, starts = np.unique(groups[order], return_index=True)
        rows_of_groups = zip(present.tolist(), np.split(order, starts[1:]), strict=True)
    for g, rows in rows_of_groups:
        total = len(points) if rows is None else len(rows)
        for start in range(0, total, ROWS_PER_CALL):
            chunk: Any = slice(start, start + ROWS_PER_CALL) if rows is None else rows[start : start + ROWS_PER_CALL]
            part = np.ascontiguousarray(points[chunk])
            part_limbs = None if limbs is None else (limbs[0][chunk], limbs[1][chunk])
            arrays = (bins.mass[g], bins.moment[g], bins.near[g])
            sketch_backend().count_points(part, frames, part_limbs, near_squares, *arrays)
            bins.n[g] += np.uint64(len(part))


def _require_total(total: float) -> None:
    if total > LARGEST_TOTAL:
        raise ValueError(f"The total weight must be at most 2^46, got {total:.4g}. Divide the weights by a constant.")


def inconsistency(bins: Bins) -> str:
    """Say what contradicts itself in the counts, or return an empty string."""
    with np.errstate(over="ignore"):
        totals = np.sum(bins.mass, axis=-1)  # (G, limbs, L)
        if bins.weighted:
            mass, moment, near = (array.swapaxes(0, 1) for array in bins.arrays)
            if any(bool(np.any(numbers[1] > _LOW)) for numbers in (mass, moment, near)):
                return "lower limbs of 2^48 or more"
            if bool(np.any(np.sum(mass[0], axis=-1, dtype=np.float64) > 2.0**62)):
                return "masses above 2^46"
            _carry(totals.swapaxes(0, 1))
            too_large = subtract(mass, moment) is None
        else:
            if bool(np.any(totals != bins.n[:, None, None])) or bool(np.any(bins.mass > bins.n[:, None, None, None])):
                return "bins whose sum is not the number of points"
            largest = bins.mass * np.uint64((1 << OFFSET_BITS) - 1)
            too_large = bool(np.any(bins.moment > largest)) or bool(np.any(bins.mass >> np.uint64(64 - OFFSET_BITS)))
    if bool(np.any(totals != totals[:, :, :1])):
        return "great circles with different totals"
    if too_large:
        return "sums of offsets that are too large for their bins"
    near = bins.near.swapaxes(0, 1)
    bounds = np.concatenate([totals.swapaxes(0, 1)[..., None], near[..., :-1]], axis=-1)
    return "more points near the poles than there are" if subtract(bounds, near) is None else ""


def split(weights: NDArray[np.float64]) -> tuple[Words, Words]:
    """Split weights from 0 to 2^31 into limbs, rounded to multiples of 2^-64.

    >>> high, low = split(np.array([1.5, 2.0**-64]))
    >>> high.tolist(), low.tolist()
    ([98304, 0], [0, 1])
    """
    high = np.floor(weights / HIGH_UNIT)
    low = np.rint((weights - high * HIGH_UNIT) / WEIGHT_UNIT)
    return high.astype(np.uint64), low.astype(np.uint64)


def add(numbers: Words, others: Words) -> Words:
    """Add two arrays (limbs, ...)."""
    total = numbers + others
    _carry(total)
    return total


def _carry(numbers: Words) -> None:
    """Move the excess of the lower limb to the upper limb, in place; numbers of one limb stay."""
    if len(numbers) == 2:
        numbers[0] += numbers[1] >> np.uint64(LIMB_BITS)
        numbers[1] &= _LOW


def subtract(numbers: Words, others: Words) -> Words | None:
    """Subtract two arrays (limbs, ...), or return None if an element is negative."""
    if len(numbers) == 1:
        return None if bool(np.any(numbers < others)) else numbers - others
    borrow = (numbers[1] < others[1]).astype(np.uint64)
    if bool(np.any(numbers[0] < others[0] + borrow)):
        return None
    low = (numbers[1] - others[1]) & _LOW  # unsigned: modulo 2^64, of which 2^48 is a divisor
    return np.stack([numbers[0] - others[0] - borrow, low])


def to_float(numbers: Words) -> NDArray[np.float64]:
    """Convert arrays (limbs, ...) to float64."""
    if len(numbers) == 1:
        return np.asarray(numbers[0], np.float64)
    return np.asarray(numbers[0] * HIGH_UNIT + numbers[1] * WEIGHT_UNIT, np.float64)
