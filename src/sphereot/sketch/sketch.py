"""`Sketch`: histograms of points on great circles, which can be updated, merged, stored and compared (`pairwise`)."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import readable, to_numpy
from sphereot._arrays.types import Labels, Method, Numbers, Points
from sphereot._arrays.validation import as_masses, as_order, as_points, own_weights
from sphereot._support.atomic_write import write_aside
from sphereot.sketch import distances
from sphereot.sketch.bins import Bins, count_points, zero_bins
from sphereot.sketch.distances import PairwiseSketchDistances, SketchDistance
from sphereot.sketch.layout import Layout, decode, encode, group_numbers


class Sketch:
    """A mergeable summary of points on the sphere: a histogram of their projections on each of L great circles.

    Memory and the time of a distance do not depend on the number of points. The counts have the same bits for every
    division of the points among updates, order of merges, number of threads and kind of processor, with weights too.

    Parameters
    ----------
    dim : int
        The dimension d of the space around the sphere, at least 2.
    n_projections : int
        The number L of great circles.
    bins : int
        The number B of equal bins of each great circle, from 2 to 16384.
    seed : int
        Seed of the great circles, which follow from seed, method, dimension and number alone.
    method : {"iid", "orthogonal", "quasi"}
        How great circles are drawn; see `sphereot.great_circles`.
    groups : int
        The number G of groups: points are counted apart by a hash of the label that `update` is given, such as the
        document or the user, so that whole groups can be permuted.
    weighted : bool, optional
        Whether points have weights. By default the first update decides.

    Notes
    -----
    Memory is 16 L B bytes (13 MB by default): a count and a sum of offsets per bin, 8 bytes each. It is twice that with
    weights, and G times that with groups; 0 before the first update. `to_bytes` is smaller where counts are small.

    Weights are summed as multiples of 2^-64, exactly; each may be at most 2^31, and their total at most 2^46. Only
    their ratios enter distances, but sketches that are merged must have weights on the same scale.

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
            raise TypeError(f"weighted: got {weighted!r}; give True, False, or None to let the first update decide.")
        self.layout = Layout.validated(dim, n_projections, bins, seed, method, groups)
        self._weighted = weighted
        self._bins: Bins | None = None
        self._interrupted = False

    @classmethod
    def _from_layout(cls, layout: Layout, weighted: bool | None, bins: Bins | None) -> "Sketch":
        sketch = cls.__new__(cls)
        sketch.layout, sketch._weighted, sketch._bins, sketch._interrupted = layout, weighted, bins, False
        return sketch

    # ---- what it holds ----

    @property
    def dim(self) -> int:
        """The dimension d of the space around the sphere."""
        return self.layout.dim

    @property
    def n_projections(self) -> int:
        """The number L of great circles."""
        return self.layout.n_projections

    @property
    def bins(self) -> int:
        """The number B of bins of each great circle."""
        return self.layout.bins

    @property
    def groups(self) -> int:
        """The number G of groups."""
        return self.layout.groups

    @property
    def projections(self) -> NDArray[np.float64]:
        """The great circles, shape (L, d, 2), for `projections=` of other functions; read-only."""
        return self.layout.frames()

    @property
    def weighted(self) -> bool | None:
        """Whether points have weights; None before that is decided."""
        return self._weighted

    @property
    def n(self) -> int:
        """The number of points."""
        return 0 if self._counts is None else int(self._counts.n.sum())

    @property
    def total(self) -> float:
        """The total weight: the number of points, if they have no weights."""
        return 0.0 if self._counts is None else self._counts.total

    @property
    def nbytes(self) -> int:
        """Memory of the counts, in bytes."""
        return 0 if self._counts is None else sum(a.nbytes for a in (self._counts.n, *self._counts.arrays))

    @property
    def _counts(self) -> Bins | None:
        if self._interrupted:
            raise RuntimeError("an update of this sketch was interrupted, and some circles lack points. Make it again.")
        return self._bins

    def bins_by_group(self) -> Bins:
        """The counts of each group, which must not be changed; an error if there are no points."""
        if self._counts is None:
            raise ValueError("the sketch is empty. Update it with points first.")
        return self._counts

    def bins_of_all_groups(self) -> Bins:
        """The counts of all groups together; an error if there are no points."""
        bins = self.bins_by_group().sum_groups()
        if not np.any(bins.mass[0, :, 0]):
            raise ValueError("the sketch has points of weight zero only, so no distance. Add points with weight.")
        return bins

    # ---- points ----

    def update(
        self,
        x: Points,
        weights: Numbers | None = None,
        groups: Labels | None = None,
    ) -> "Sketch":
        """Add points.

        Parameters
        ----------
        x : array, shape (n, d)
            Unit vectors, of any array library, or a table with one column per coordinate.
        weights : array, shape (n,), optional
            Nonnegative weights of at most 2^31, on a scale that all updates share. Zeros are allowed.
        groups : sequence of int or str, length n
            A label for each point, if the sketch has several groups.

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
            raise ValueError(f"x: points have {dim} coordinates, but this sketch is for dimension {self.dim}.")
        masses = None if weights is None else as_masses("weights", weights, "x", n)
        if self._weighted is not None and self._weighted != (masses is not None):
            got, has = ("no weights", "weights") if masses is None else ("weights", "no weights")
            raise ValueError(
                f"weights: got {got}, but the points of this sketch have {has}; give all points weights, or none."
            )
        if (groups is None) != (self.groups == 1):
            given = "none" if groups is None else "labels"
            raise ValueError(
                f"groups: got {given}, but this sketch has groups={self.groups}; labels belong to a sketch with "
                "several groups, such as Sketch(..., groups=64)."
            )
        numbers = None if groups is None else group_numbers("groups", groups, n, self.groups)
        weighted = masses is not None
        bins = zero_bins(self.groups, self.n_projections, self.bins, weighted) if self._counts is None else self._counts
        self._interrupted = self._bins is not None
        try:
            count_points(bins, self.projections, self.layout.near_squares, points, masses, numbers)
        except ValueError:  # before the first point was counted
            self._interrupted = False
            raise
        self._bins, self._weighted, self._interrupted = bins, weighted, False
        return self

    def group_sizes(self) -> list[int]:
        """The number of points of each group."""
        return [0] * self.groups if self._counts is None else [int(n) for n in self._counts.n]

    def group_sketches(self) -> Iterator["Sketch"]:
        """The sketch of each group, without groups; some may be empty."""
        layout = replace(self.layout, groups=1)
        for g, n in enumerate(self.group_sizes()):
            part = self.bins_by_group().group(g).copy() if n else None
            yield Sketch._from_layout(layout, self._weighted, part)

    # ---- merging ----

    def require_mergeable(self, other: "Sketch") -> None:
        """Raise a ValueError that names what differs unless the sketches can be merged and compared."""
        if not isinstance(other, Sketch):
            raise TypeError(f"a sketch can be merged and compared only with a Sketch, got {type(other).__name__}.")
        self.layout.require_same(other.layout)

    def _require_summable(self, other: "Sketch") -> None:
        self.require_mergeable(other)
        if {self._weighted, other._weighted} == {True, False}:
            raise ValueError(
                "the sketches differ in weights: only the points of one sketch have weights. Give all points weights, "
                "or none."
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
            raise ValueError(
                "the second sketch contains points that are not in the first one, so counts would be negative. "
                "Subtract only what was added before."
            )
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

    # ---- distances ----

    def distance(self, other: "Sketch", p: float = 2) -> SketchDistance:
        """SSW_p between the points of two sketches, in turns, with a bound of its error.

        Parameters
        ----------
        other : Sketch
            A sketch of the same great circles and bins; one may have weights and the other none.
        p : float
            Order, from 1 to 16.

        Returns
        -------
        SketchDistance
            `value`, SSW_p itself; `error_bound`, by which it differs at most from
            `sphereot.ssw(x, y, projections=sketch.projections, p=p, root=True)`; `cost`, SSW_p^p. For p = 1 and p = 2
            the bound is of second order in the width of a bin, else about half that width.
        """
        p = as_order(p)
        self.require_mergeable(other)
        return distances.distance(self.bins_of_all_groups(), other.bins_of_all_groups(), self.layout, p)

    def distance_to_uniform(self, p: float = 2) -> SketchDistance:
        """SSW_p between the points and the uniform distribution, as `distance`."""
        return distances.distance(self.bins_of_all_groups(), None, self.layout, as_order(p))

    # ---- bytes ----

    def to_bytes(self) -> bytes:
        """The sketch as bytes, in a compressed format that every machine reads (:doc:`/sketch`); never a pickle."""
        return encode(self.layout, self._weighted, self._counts)

    def digest(self) -> str:
        """A digest of great circles and counts, 32 hexadecimal digits: equal sketches have equal digests everywhere."""
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
        """The sketch of `to_bytes`; a ValueError says what is wrong with damaged bytes."""
        return cls._from_layout(*decode(data))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the bytes to a file, atomically: `path` never holds half a sketch."""
        with write_aside(path) as aside:
            aside.write_bytes(self.to_bytes())
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Sketch":
        """Read a file that `save` wrote."""
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
            f"method={layout.method!r}{groups}): {self.n:,} points{weights}, {self.nbytes / 1e6:.1f} MB"
        )


def pairwise(sketches: Sequence[Sketch], p: float = 2) -> PairwiseSketchDistances:
    """Distances of all pairs of sketches.

    For p = 1 levels are computed once per sketch and great circle; memory is 16 bytes times bins, sketches and threads.

    Parameters
    ----------
    sketches : sequence of Sketch
        At least two sketches of the same great circles and bins; none of them empty.
    p : float
        Order, from 1 to 16.

    Returns
    -------
    PairwiseSketchDistances

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
        raise ValueError(f"sketches: got {len(sketches)}, but pairs need at least 2 sketches.")
    for other in sketches[1:]:
        sketches[0].require_mergeable(other)
    parts, layout = [sketch.bins_of_all_groups() for sketch in sketches], sketches[0].layout
    first, second = np.triu_indices(len(parts), 1)
    tables = np.zeros((2, len(parts), len(parts)))
    if p == 1:
        tables[:, first, second] = distances.level_distances(parts, layout)
    else:
        for i, j in zip(first, second, strict=True):
            result = distances.distance(parts[i], parts[j], layout, p)
            tables[:, i, j] = result.value, result.error_bound
    value, error_bound = tables + tables.transpose(0, 2, 1)
    return PairwiseSketchDistances(value, error_bound, p)
