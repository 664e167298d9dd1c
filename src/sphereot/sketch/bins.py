"""The counts of a sketch: masses, sums of offsets, and near-pole masses per group, great circle and bin."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import native
from sphereot._backends.native import sketches as native_sketches
from sphereot.sketch import portable
from sphereot.sketch.fixed_point import LARGEST_TOTAL, LARGEST_WEIGHT, add, split, subtract, to_float
from sphereot.sketch.layout import NEAR_COUNT, OFFSET_BITS, Layout

__all__ = ["Bins", "counted", "inconsistency", "zero_bins"]

ROWS_PER_CALL = 1 << 18  # rows that are made contiguous at a time

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Bins:
    """Counts of points; the arrays are never changed once a `Bins` is made.

    Attributes
    ----------
    n : array of uint64, shape (G,)
        Number of points of each group.
    mass : array of uint64, shape (G, limbs, L, B)
        Number of points of each bin, in one limb; with weights their total weight, in two (`fixed_point.py`).
    moment : array of uint64, shape (G, limbs, L, B)
        Sum of offsets in units of 2^-16 of a bin; with weights the sum of weight times offset, in two limbs.
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
        """Masses, moments and near-pole masses."""
        return self.mass, self.moment, self.near

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return self.n.nbytes + sum(array.nbytes for array in self.arrays)

    def added(self, other: "Bins") -> "Bins":
        """Counts of both; an error if the total weight is too large."""
        total = Bins(self.n + other.n, *self._combined(other, add))
        _require_total(float(np.sum(to_float(self.mass[:, :, 0].swapaxes(0, 1)))), other)
        return total

    def subtracted(self, other: "Bins") -> "Bins | None":
        """Counts of this without those of the other, or None if a count would be negative."""
        if bool(np.any(self.n < other.n)):
            return None
        arrays = self._combined(other, subtract)
        if any(array is None for array in arrays):
            return None
        rest = Bins(self.n - other.n, *arrays)
        return None if inconsistency(rest) else rest

    def _combined(self, other: "Bins", operation: Callable[[Words, Words], Any]) -> list[Any]:
        results = [
            operation(mine.swapaxes(0, 1), theirs.swapaxes(0, 1))
            for mine, theirs in zip(self.arrays, other.arrays, strict=True)
        ]
        return [None if result is None else np.ascontiguousarray(result.swapaxes(0, 1)) for result in results]

    def group(self, g: int) -> "Bins":
        """Counts of one group."""
        part = slice(g, g + 1)
        return Bins(self.n[part], self.mass[part], self.moment[part], self.near[part])

    def summed(self) -> "Bins":
        """Counts of all groups together, as those of one group."""
        if not self.weighted:
            arrays = (array.sum(axis=0, keepdims=True) for array in (self.n, *self.arrays))
            return Bins(*arrays)
        total = self.group(0)
        for g in range(1, len(self.n)):
            total = total.added(self.group(g))
        return total


def zero_bins(layout: Layout, weighted: bool) -> Bins:
    """Counts of no points."""
    shape = (layout.groups, 1 + weighted, layout.n_projections)
    mass, moment = (np.zeros((*shape, layout.bins), np.uint64) for _ in range(2))
    return Bins(np.zeros(layout.groups, np.uint64), mass, moment, np.zeros((*shape, NEAR_COUNT), np.uint64))


def counted(
    bins: Bins, layout: Layout, points: Any, weights: NDArray[np.float64] | None, groups: NDArray[np.int64] | None
) -> None:
    """Count points (n, d) in place, with weights (n,) and group numbers (n,); for `Bins` that nobody else has."""
    limbs = None
    if weights is not None:
        _require_weights(weights, bins)
        limbs = split(weights)
    for g, rows in _rows_of_groups(groups):
        total = len(points) if rows is None else len(rows)
        for start in range(0, total, ROWS_PER_CALL):
            chunk: Any = slice(start, start + ROWS_PER_CALL) if rows is None else rows[start : start + ROWS_PER_CALL]
            part = np.ascontiguousarray(points[chunk])
            part_limbs = None if limbs is None else (limbs[0][chunk], limbs[1][chunk])
            count = native_sketches.count_points if native.available else portable.count_points
            arrays = (bins.mass[g], bins.moment[g], bins.near[g])
            count(part, layout.frames(), part_limbs, layout.near_squares, *arrays)
            bins.n[g] += np.uint64(len(part))


def _rows_of_groups(groups: NDArray[np.int64] | None) -> list[tuple[int, NDArray[np.int64] | None]]:
    """The groups that are present, with the indices of their points; None for all points."""
    if groups is None:
        return [(0, None)]
    order = np.argsort(groups, kind="stable")
    present, starts = np.unique(groups[order], return_index=True)
    return list(zip(present.tolist(), np.split(order, starts[1:]), strict=True))


def _require_weights(weights: NDArray[np.float64], bins: Bins) -> None:
    largest = float(np.max(weights))
    if largest > LARGEST_WEIGHT:
        raise ValueError(f"weights: the largest is {largest:.4g}, but at most 2^31 is possible; divide all weights.")
    _require_total(float(np.sum(weights)), bins)


def _require_total(more: float, bins: Bins) -> None:
    if bins.weighted:
        total = more + float(np.sum(to_float(bins.mass[:, :, 0].swapaxes(0, 1))))
        if total > LARGEST_TOTAL:
            raise ValueError(f"weights: the total is {total:.4g}, but at most 2^46 is possible; divide all weights.")


def inconsistency(bins: Bins) -> str:
    """What contradicts itself in the counts, or an empty string."""
    with np.errstate(over="ignore"):
        totals = np.sum(bins.mass, axis=-1)  # (G, limbs, L)
        if bins.weighted:
            mass, moment, near = (array.swapaxes(0, 1) for array in bins.arrays)
            if any(bool(np.any(numbers[1] >> np.uint64(48))) for numbers in (mass, moment, near)):
                return "lower limbs of 2^48 or more"
            if bool(np.any(np.sum(mass[0], axis=-1, dtype=np.float64) > 2.0**62)):
                return "masses above 2^46"
            totals[:, 0] += totals[:, 1] >> np.uint64(48)
            totals[:, 1] &= np.uint64((1 << 48) - 1)
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
