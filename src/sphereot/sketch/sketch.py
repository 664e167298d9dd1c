"""`Sketch`: histograms of points on great circles, which can be updated, merged, stored and compared.

The error bound of a distance is the largest possible |SSW_p(sketches) - SSW_p(points)| on the great circles of the
sketches, in turns. See :doc:`/background/sketches` for the proofs.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import readable, to_numpy
from sphereot._arrays.types import Labels, Method, Numbers, Points
from sphereot._arrays.validation import as_masses, as_order, as_points, own_weights
from sphereot._backends import sketch_backend
from sphereot._support.atomic_write import write_aside
from sphereot._support.text import plural
from sphereot.sketch.bins import WEIGHT_UNIT, Bins, count_points, to_float, zero_bins
from sphereot.sketch.layout import Layout, decode, encode, group_numbers

# The solvers round cumulative masses: at most this mass is matched with a wrong atom, half a turn away.
_MASS_ERROR = 2.0**-38

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SketchDistance:
    """A distance computed from sketches: SSW_p in turns, a bound of its error, and the order p.

    The distance between the points, on the same great circles, differs from `value` by at most `error_bound`.
    """

    value: float
    error_bound: float
    p: float

    @property
    def cost(self) -> float:
        """SSW_p^p, which `sphereot.ssw` returns without `root=True`."""
        return float(self.value**self.p)


@dataclass(frozen=True)
class PairwiseSketchDistances:
    """Distances between all pairs of k sketches: SSW_p in turns, bounds of their errors, and the order p.

    `value` and `error_bound` have shape (k, k), and 0 on the diagonal.
    """

    value: Floats
    error_bound: Floats
    p: float

    @property
    def cost(self) -> Floats:
        """SSW_p^p."""
        return np.asarray(self.value**self.p)


class Sketch:
    """A summary of any number of points on the sphere in a fixed amount of memory.

    A sketch stores one histogram for each of L great circles: the histogram of the points projected onto it. Sketches
    can be updated with new points, added, subtracted, saved, and compared with each other without the original data.

    Parameters
    ----------
    dim : int
        Dimension d of the space around the sphere, at least 2.
    n_projections : int, default 200
        Number L of great circles.
    bins : int, default 4096
        Number B of histogram bins per great circle, between 2 and 16384.
    seed : int, default 0
        Seed of the great circles, which depend only on `dim`, `n_projections`, `seed` and `method`.
    method : {"iid", "orthogonal", "quasi"}, default "quasi"
        How to draw the great circles; see `sphereot.great_circles`.
    groups : int, default 1
        Number G of groups. With several groups, `update` needs a label for every point, such as its document or user.
        Drift tests on sketches permute whole groups, and need several, such as 64.
    weighted : bool, optional
        Whether points have weights. By default, the first call of `update` decides.

    Notes
    -----
    All counts are integers. They have the same bits for any order of updates and merges, any number of threads and any
    processor. Memory is 16 L B bytes (13 MB by default), twice as much with weights, and G times as much with groups.

    A weight may be at most 2^31, and the total weight at most 2^46. Only ratios of weights affect a distance, but
    sketches to be added must have weights on the same scale.

    Examples
    --------
    >>> import sphereot
    >>> monday, tuesday = (sphereot.sphere.random_uniform(1000, 3, seed=day) for day in range(2))
    >>> a = sphereot.Sketch(3).update(monday)
    >>> b = sphereot.Sketch(3).update(tuesday[:400]).update(tuesday[400:])
    >>> week = a + b
    >>> week.n, week - a == b
    (2000, True)
    >>> distance = a.distance(b, p=1)
    >>> exact = sphereot.ssw(monday, tuesday, p=1, projections=a.projections)
    >>> bool(abs(exact - distance.value) <= distance.error_bound < 1e-3)
    True
    """

    __hash__ = None  # type: ignore[assignment]  # sketches change

    def __init__(
        self,
        dim: int,
        n_projections: int = 200,
        bins: int = 4096,
        seed: int = 0,
        *,
        method: Method = "quasi",
        groups: int = 1,
        weighted: bool | None = None,
    ):
        if weighted not in (None, True, False):
            raise TypeError(f"weighted must be True, False, or None (the first update decides), got {weighted!r}.")
        self.layout = Layout.validated(dim, n_projections, bins, seed, method, groups)
        self._weighted = weighted
        self._bins: Bins | None = None
        self._interrupted = False

    @classmethod
    def _from_layout(cls, layout: Layout, weighted: bool | None, bins: Bins | None) -> "Sketch":
        sketch = cls.__new__(cls)
        sketch.layout, sketch._weighted, sketch._bins, sketch._interrupted = layout, weighted, bins, False
        return sketch

    @property
    def dim(self) -> int:
        """Dimension d of the space around the sphere."""
        return self.layout.dim

    @property
    def n_projections(self) -> int:
        """Number L of great circles."""
        return self.layout.n_projections

    @property
    def bins(self) -> int:
        """Number B of bins of each great circle."""
        return self.layout.bins

    @property
    def groups(self) -> int:
        """Number G of groups."""
        return self.layout.groups

    @property
    def projections(self) -> NDArray[np.float64]:
        """The great circles, shape (L, d, 2), read-only. Pass them to other functions as `projections`."""
        return self.layout.frames()

    @property
    def weighted(self) -> bool | None:
        """Whether points have weights; None before the first update, if the argument was None."""
        return self._weighted

    @property
    def n(self) -> int:
        """Number of points."""
        return 0 if self._counts is None else int(self._counts.n.sum())

    @property
    def total(self) -> float:
        """Total weight; without weights, the number of points."""
        return 0.0 if self._counts is None else self._counts.total

    @property
    def nbytes(self) -> int:
        """Memory of the counts, in bytes."""
        return 0 if self._counts is None else sum(a.nbytes for a in (self._counts.n, *self._counts.arrays))

    @property
    def _counts(self) -> Bins | None:
        if self._interrupted:
            raise RuntimeError("An update was interrupted, so counts of this sketch are missing. Create it again.")
        return self._bins

    def bins_by_group(self) -> Bins:
        """Return the counts of each group, which must not be changed; an error if there are no points."""
        if self._counts is None:
            raise ValueError("The sketch is empty. Update it with points first.")
        return self._counts

    def bins_of_all_groups(self) -> Bins:
        """Return the counts of all groups together; an error if there are no points."""
        bins = self.bins_by_group().sum_groups()
        if not np.any(bins.mass[0, :, 0]):
            raise ValueError("The sketch has no distance, because all weights are zero. Add points with weight.")
        return bins

    def update(self, x: Points, weights: Numbers | None = None, groups: Labels | None = None) -> "Sketch":
        """Add points.

        Parameters
        ----------
        x : array, shape (n, d)
            Unit vectors, one per row, of any array library, or a table with one column per coordinate.
        weights : array, shape (n,), optional
            Nonnegative weights of at most 2^31, on the same scale in all updates.
        groups : sequence of int or str, length n, optional
            Label of every point. It is required if the sketch has several groups.

        Returns
        -------
        Sketch
            The sketch itself.
        """
        weights = own_weights(weights, x)
        array = as_points("x", x, weighted=True)
        points = to_numpy(array)
        if readable(array) is None:  # on an accelerator, where as_points does not look at values
            points = as_points("x", points)
        n, dim = points.shape
        if dim != self.dim:
            raise ValueError(f"x must have points with {self.dim} coordinates, got {dim}.")
        masses = None if weights is None else as_masses("weights", weights, "x", n)
        if self._weighted is not None and self._weighted != (masses is not None):
            known = "with" if self._weighted else "without"
            raise ValueError(f"This sketch is for points {known} weights. Pass weights in all updates, or in none.")
        if groups is None and self.groups > 1:
            raise ValueError(
                f"groups is required, because this sketch was created with groups={self.groups}. Pass one label per "
                "point: update(x, groups=labels)."
            )
        if groups is not None and self.groups == 1:
            raise ValueError(
                "groups is not supported, because this sketch was created without groups. Create it with "
                "Sketch(dim, groups=64)."
            )
        numbers = None if groups is None else group_numbers("groups", groups, n, self.groups)
        weighted = masses is not None
        bins = zero_bins(self.groups, self.n_projections, self.bins, weighted) if self._counts is None else self._counts
        self._interrupted = self._bins is not None
        try:
            count_points(bins, self.projections, self.layout.near_squares, points, masses, numbers)
        except ValueError:  # raised before the first point was counted
            self._interrupted = False
            raise
        self._bins, self._weighted, self._interrupted = bins, weighted, False
        return self

    def group_sizes(self) -> list[int]:
        """Return the number of points of each group."""
        return [0] * self.groups if self._counts is None else [int(n) for n in self._counts.n]

    def group_sketches(self) -> Iterator["Sketch"]:
        """Yield the sketch of each group, without groups; some may be empty."""
        layout = replace(self.layout, groups=1)
        for g, n in enumerate(self.group_sizes()):
            part = self.bins_by_group().group(g).copy() if n else None
            yield Sketch._from_layout(layout, self._weighted, part)

    def require_mergeable(self, other: "Sketch") -> None:
        """Raise an error that names the differences unless the sketches can be merged and compared."""
        if not isinstance(other, Sketch):
            raise TypeError(f"A sketch can only be merged and compared with a Sketch, got {type(other).__name__}.")
        self.layout.require_same(other.layout)

    def _require_summable(self, other: "Sketch") -> None:
        self.require_mergeable(other)
        if {self._weighted, other._weighted} == {True, False}:
            raise ValueError(
                "Cannot merge the sketches: they differ in weights. Pass weights for all points, or for none."
            )

    def __add__(self, other: "Sketch") -> "Sketch":
        if not isinstance(other, Sketch):
            return NotImplemented
        self._require_summable(other)
        weighted = self._weighted if self._weighted is not None else other._weighted
        mine, theirs = self._counts, other._counts
        if mine and theirs:
            return Sketch._from_layout(self.layout, weighted, mine.add(theirs))
        only = mine or theirs
        return Sketch._from_layout(self.layout, weighted, only and only.copy())

    def __radd__(self, other: Any) -> "Sketch":
        if isinstance(other, int) and other == 0:  # the start of sum()
            return self + Sketch._from_layout(self.layout, self._weighted, None)
        return NotImplemented

    def __iadd__(self, other: "Sketch") -> "Sketch":
        if not isinstance(other, Sketch):
            return NotImplemented
        merged = self + other
        self._bins, self._weighted = merged._bins, merged._weighted
        return self

    def __sub__(self, other: "Sketch") -> "Sketch":
        if not isinstance(other, Sketch):
            return NotImplemented
        self._require_summable(other)
        if other._counts is None:
            return self + other
        rest = None if self._counts is None else self._counts.subtract(other._counts)
        if rest is None:
            raise ValueError("Cannot subtract: the second sketch contains points that are not in the first sketch.")
        return Sketch._from_layout(self.layout, self._weighted, rest if np.any(rest.n) else None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sketch):
            return NotImplemented
        if self.layout != other.layout or self._weighted != other._weighted:
            return False
        mine, theirs = self._counts, other._counts
        if mine is None or theirs is None:
            return mine is theirs
        pairs = zip((mine.n, *mine.arrays), (theirs.n, *theirs.arrays), strict=True)
        return all(np.array_equal(array, other_array) for array, other_array in pairs)

    def distance(self, other: "Sketch", p: float = 2) -> SketchDistance:
        """Compute SSW_p between the points of two sketches, with a bound of its error.

        Parameters
        ----------
        other : Sketch
            Sketch with the same great circles and bins. Only one of the sketches may have weights.
        p : float, default 2
            Order of the distance, between 1 and 16.

        Returns
        -------
        SketchDistance
            `value` is SSW_p in turns. It differs from the distance between the points, on the same great circles, by at
            most `error_bound`: about half a bin, but of second order in the width of a bin for p = 1 and p = 2.
        """
        p = as_order(p)
        self.require_mergeable(other)
        return _compare(self.bins_of_all_groups(), other.bins_of_all_groups(), self.layout, p)

    def distance_to_uniform(self, p: float = 2) -> SketchDistance:
        """Compute SSW_p to the uniform distribution; see `distance`."""
        return _compare(self.bins_of_all_groups(), None, self.layout, as_order(p))

    def to_bytes(self) -> bytes:
        """Return the sketch in a compressed format for any machine, which is not a pickle."""
        return encode(self.layout, self._weighted, self._counts)

    def digest(self) -> str:
        """Return a digest of great circles and counts, 32 hexadecimal digits: equal sketches have equal digests."""
        layout = self.layout
        content = hashlib.blake2b(
            repr((layout.dim, layout.bins, layout.groups, self._weighted)).encode(), digest_size=16
        )
        content.update(layout.digest())
        if self._counts is not None:
            for array in (self._counts.n, *self._counts.arrays):
                content.update(np.ascontiguousarray(array, "<u8").data)
        return content.hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Sketch":
        """Read the result of `to_bytes`; a ValueError says what is wrong with damaged bytes."""
        return cls._from_layout(*decode(data))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the sketch to a file, atomically: `path` never contains half a sketch."""
        with write_aside(path) as aside:
            aside.write_bytes(self.to_bytes())
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Sketch":
        """Read a file that `save` has written."""
        try:
            return cls.from_bytes(Path(path).read_bytes())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Sketch.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        layout = self.layout
        groups = "" if self.groups == 1 else f", groups={self.groups}"
        weights = ", weighted" if self._weighted else ""
        return (
            f"Sketch(dim={layout.dim}, n_projections={layout.n_projections}, bins={layout.bins}, seed={layout.seed}, "
            f"method={layout.method!r}{groups}): {plural(self.n, 'point')}{weights}, {self.nbytes / 1e6:.1f} MB"
        )


def pairwise(sketches: Sequence[Sketch], p: float = 2) -> PairwiseSketchDistances:
    """Compute the distances between all pairs of sketches.

    Parameters
    ----------
    sketches : sequence of Sketch
        At least two sketches with the same great circles and bins, and with points.
    p : float, default 2
        Order of the distance, between 1 and 16.

    Returns
    -------
    PairwiseSketchDistances
        Distances SSW_p in turns, with error bounds.

    Examples
    --------
    >>> import sphereot
    >>> days = [sphereot.Sketch(3, n_projections=50, bins=256).update(
    ...     sphereot.sphere.random_uniform(500, 3, seed=day)) for day in range(3)]
    >>> table = sphereot.sketch.pairwise(days, p=1)
    >>> table.value.shape, bool((table.error_bound < 0.004).all())
    ((3, 3), True)
    """
    p = as_order(p)
    if len(sketches) < 2:
        raise ValueError(f"sketches must contain at least 2 sketches, got {len(sketches)}.")
    for other in sketches[1:]:
        sketches[0].require_mergeable(other)
    parts, layout = [sketch.bins_of_all_groups() for sketch in sketches], sketches[0].layout
    first, second = np.triu_indices(len(parts), 1)
    tables = np.zeros((2, len(parts), len(parts)))
    if p == 1:
        tables[:, first, second] = _level_distances(parts, layout)
    else:
        for i, j in zip(first, second, strict=True):
            result = _compare(parts[i], parts[j], layout, p)
            tables[:, i, j] = result.value, result.error_bound
    value, error_bound = tables + tables.transpose(0, 2, 1)
    return PairwiseSketchDistances(value, error_bound, p)


def _compare(x: Bins, y: Bins | None, layout: Layout, p: float) -> SketchDistance:
    """Compute SSW_p between two sketches of one group each, or of one sketch to the uniform distribution."""
    parts = [x] if y is None else [x, y]
    if p == 1:
        values, bounds = _level_distances(parts, layout)
        return SketchDistance(float(values[0]), float(bounds[0]), p)
    backend = sketch_backend()
    measures = [backend.histogram(*part.cells) for part in parts]
    costs, *moved, ranges = backend.transport_distances(
        measures[0], measures[1] if len(measures) == 2 else None, p, layout.n_projections
    )
    value = _take_root(float(np.mean(costs)), p)
    # Triangle inequality: SSW_p between each measure and its bin means, by Minkowski's inequality over slices.
    bound = sum(_take_root(float(np.mean(part)), p) for part in moved) / layout.bins
    if p == 2:  # the dual potentials bound SSW_2^2 by value^2 - below and value^2 + above
        width = 1.0 / layout.bins
        below = 2 * width * float(np.mean(ranges))
        above = below + width**2 * float(np.mean((np.sqrt(moved[0]) + np.sqrt(moved[1])) ** 2))
        bound = min(bound, max(_take_root(value**2 + above, 2) - value, value - _take_root(value**2 - below, 2)))
    bound += sum(_rounding_of_points(part, layout, p) for part in parts) + _rounding_of_solver(value, p)
    return SketchDistance(value, bound, p)


def _level_distances(parts: Sequence[Bins], layout: Layout) -> tuple[Floats, Floats]:
    """Compute SSW_1 of all pairs, or of one sketch to the uniform distribution, and error bounds."""
    backend = sketch_backend()
    blocks = backend.level_distances([backend.histogram(*part.cells) for part in parts], layout.n_projections)
    cost: Any = 0.0
    excess: Any = 0.0
    for costs, excesses in blocks:
        for row, wide in zip(costs, excesses, strict=True):  # one at a time, so the sum does not depend on the blocks
            cost, excess = cost + row, excess + wide
    moved = np.array([_rounding_of_points(part, layout, 1) for part in parts])
    i, j = np.triu_indices(len(parts), 1)
    both = moved if len(parts) == 1 else moved[i] + moved[j]
    return cost / layout.n_projections, excess / layout.n_projections + both + _rounding_of_solver(0.0, 1)


def _take_root(mean: float, p: float) -> float:
    """Take the p-th root of a number that is nonnegative up to rounding."""
    return float(max(mean, 0.0) ** (1.0 / p))


def _rounding_of_points(bins: Bins, layout: Layout, p: float) -> float:
    """Bound SSW_p between the points of a sketch of one group and the same points after rounding.

    Coordinates, turns, offsets and weights are rounded; points near the poles of a circle move farther.
    """
    near = to_float(bins.near[0])  # (L, 3)
    total = float(np.sum(to_float(bins.mass[0])[0]))
    shares = -np.diff(np.concatenate([np.full((len(near), 1), total), near, np.zeros((len(near), 1))], axis=1)) / total
    moved = layout.displacements()
    largest = float(np.max(moved[shares.T > 0]))
    bound = largest * _take_root(float(np.mean(np.sum(shares.T * (moved / largest) ** p, axis=0))), p)
    if bins.weighted:
        bound += 0.5 * _take_root(float(bins.n[0]) * WEIGHT_UNIT / total, p)
    return bound


def _rounding_of_solver(value: float, p: float) -> float:
    """Bound the error of SSW_p by the rounding of masses and sums in the solver."""
    if p == 1:
        return _MASS_ERROR
    # The cost may change by _MASS_ERROR (2^-p + cost); in units of the larger term, because powers underflow.
    least = 0.5 * _MASS_ERROR ** (1.0 / p)
    unit = max(value, least)
    added = (least / unit) ** p + _MASS_ERROR * (value / unit) ** p
    power = (value / unit) ** p
    above = unit * (power + added) ** (1.0 / p) - value
    below = value - unit * max(power - added, 0.0) ** (1.0 / p)
    return float(max(above, below)) + 2.0**-50
