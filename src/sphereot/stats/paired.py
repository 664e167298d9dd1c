"""Paired test: the same rows, such as texts, before and after a change of the model that embeds them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.types import Labels, Points, Seed
from sphereot._arrays.validation import as_int, as_number, as_points, as_same_kind
from sphereot._backends.protocol import Labelings
from sphereot._support.extras import Progress
from sphereot._support.text import plural
from sphereot.sphere import normalize
from sphereot.stats._combined import LabelingSet, Statistic, as_order_shown, as_statistic
from sphereot.stats._testing import choose_frames, independent_generator
from sphereot.stats.two_sample import TwoSampleResult, as_groups, result_of_sets

_MAX_QUERIES = 2000  # rows whose neighbors are compared
_BLOCK_ENTRIES = 1 << 22  # of the matrix of queries against rows: 32 MB
_RIDGE = 1e-9  # of the norm: directions without rows are not rotated


@dataclass(frozen=True)
class PairedResult:
    """Result of `paired_test`. Angles are in degrees; they and the test need points of equal dimensions.

    Attributes
    ----------
    n, neighbors, n_queries : int
        Numbers of rows, of nearest neighbors, and of rows whose neighbors were compared.
    dims : pair of int
        Dimensions of the points before and after. If they differ, the attributes that may be None are None.
    angles, rotated_angles : array, shape (n,), or None
        Angle between both points of each row, and the same after the best rotation or reflection of the points before.
    explained : float or None
        Share of the squared distances that this rotation removes, from 0 to 1; 0 if all rows are equal.
    overlap : float
        Share of the nearest neighbors of a row that are the same before and after, as a mean.
    test : TwoSampleResult or None
        Permutation test for a change of the distribution. It exchanges both points of random rows.
    max_angle, allowed : float
        Limit of the angles, or None, and the share of rows that may be beyond it.
    """

    n: int
    dims: tuple[int, int]
    angles: NDArray[np.float64] | None = field(repr=False)
    rotated_angles: NDArray[np.float64] | None = field(repr=False)
    explained: float | None
    overlap: float
    neighbors: int
    n_queries: int
    test: TwoSampleResult | None = field(repr=False)
    max_angle: float | None
    allowed: float

    @property
    def n_beyond(self) -> int | None:
        """Number of rows beyond the limit; None without a limit."""
        if self.angles is None or self.max_angle is None:
            return None
        return int(np.sum(self.angles > self.max_angle))

    @property
    def exceeded(self) -> bool:
        """Whether more rows are beyond the limit than allowed."""
        return (self.n_beyond or 0) > self.allowed * self.n

    def moved(self, count: int = 10) -> list[tuple[int, float]]:
        """Return the rows with the largest angles, and these angles, in descending order."""
        angles = np.empty(0) if self.angles is None else self.angles
        return [(int(row), float(angles[row])) for row in np.argsort(-angles, kind="stable")[:count]]

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        if self.angles is None:
            return (
                f"The dimensions differ ({self.dims[0]} and {self.dims[1]}), so only the nearest neighbors are "
                "compared: angles, the rotation and the test need equal dimensions."
            )
        if self.n_beyond is None:
            return f"The median angle of {plural(self.n, 'row')} is {np.median(self.angles):.3g} degrees."
        shares = f"{100 * self.n_beyond / self.n:.3g} %, {100 * self.allowed:.3g} % allowed"
        return f"{self.n_beyond:,} of {plural(self.n, 'row')} ({shares}) moved by more than {self.max_angle:g} degrees."

    def as_record(self) -> dict[str, Any]:
        """Return the result as one object of JSON."""
        record = {name: getattr(self, name) for name in ("exceeded", "summary", "n_beyond")} | vars(self)
        for name in ("angles", "rotated_angles"):
            record[name] = None if record[name] is None else _quantiles(record[name])
        return {**record, "test": None if self.test is None else self.test.as_record()}

    def lines(self) -> list[tuple[str, str]]:
        """Return the findings as pairs of a name and a text."""
        found = []
        for name, angles in (("angles", self.angles), ("rotated", self.rotated_angles)):
            if angles is not None:
                values = ", ".join(f"{level} {value:.3g}" for level, value in _quantiles(angles).items())
                found.append((name, f"degrees: {values}"))
        if self.explained is not None:
            found.append(("rotation", f"explains {self.explained:.1%} of the squared distances"))
        rows = f"{plural(self.n_queries, 'row')} against all {self.n:,}"
        found.append(("neighbors", f"{self.overlap:.1%} of the {self.neighbors} nearest are the same ({rows})"))
        if self.test is not None:
            exchanges = f"{plural(self.test.permutations, 'random exchange')} within pairs"
            found.append(("test", f"equal distributions: p-value {self.test.p_value:.4g} ({exchanges})"))
            found += [("", line.strip()) for line in self.test.component_lines()]
        return found

    def __str__(self) -> str:
        return "\n".join([self.summary, *(f"  {name:<11}{text}" for name, text in self.lines())])


def paired_test(
    before: Points,
    after: Points,
    *,
    max_angle: float | None = None,
    allowed: float = 0.0,
    neighbors: int = 10,
    statistic: Statistic = "combined",
    permutations: int = 999,
    groups: Labels | None = None,
    n_projections: int | None = None,
    seed: Seed = None,
    progress: Progress = False,
) -> PairedResult:
    """Compare the same rows before and after a change, such as texts in two models or two builds of a model.

    Parameters
    ----------
    before, after : array, shape (n, d) and (n, e)
        The points of the same n rows in the same order, one unit vector per row. If the dimensions d and e differ, only
        the nearest neighbors are compared.
    max_angle : float, optional
        Limit of the angle between both points of a row, in degrees.
    allowed : float, default 0
        Share of rows that may be beyond `max_angle`, from 0 to 1.
    neighbors : int, default 10
        Number of nearest neighbors to compare, less than n.
    permutations : int, default 999
        Number of permutations. Each of them exchanges the points before and after of random rows.
    groups : sequence, length n, optional
        Group label of each row, such as its document. The rows of one group are exchanged together.
    statistic, n_projections, seed, progress
        See `two_sample_test`.

    Returns
    -------
    PairedResult
        The main attributes are `angles` (in degrees), `explained` (by a rotation), `overlap` (of nearest neighbors),
        `test` (for a change of the distribution) and `exceeded`. Printing the result shows a table.

    Notes
    -----
    A rotation of all points keeps their distances, but points after it do not fit an index of points before it. The
    rotation or reflection (orthogonal Procrustes) is fitted to one random half of the rows and applied to the other
    half, for both halves: in high dimensions, a rotation can fit the rows that it knows even if they are unrelated.
    With fewer than about 4 d rows, `explained` is too small.

    The p-value is exact if the two points of a row can be exchanged without a change of their joint distribution. For
    equal distributions without this symmetry, it is approximate.

    The nearest neighbors have the largest inner products. Of more than 2000 rows, a random sample of 2000 is compared
    with all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> from sphereot.stats import paired_test
    >>> before = sphere.random_uniform(300, 8, seed=0)
    >>> after = before[:, ::-1].copy()  # a rotation of all rows
    >>> result = paired_test(before, after, max_angle=5, permutations=99, seed=0)
    >>> result.exceeded, round(result.explained, 6), result.overlap
    (True, 1.0, 1.0)
    """
    given = {"before": as_points("before", before), "after": as_points("after", after)}
    samples = [to_numpy(sample) for sample in as_same_kind(**given)]
    n, dims = len(samples[0]), (int(samples[0].shape[1]), int(samples[1].shape[1]))
    if len(samples[1]) != n or n < 2:
        raise ValueError(
            f"before and after must have the same rows, at least 2, got {n} and {len(samples[1])}. Match them first by "
            "an identifier, and leave out rows that only one of them has."
        )
    neighbors = as_int("neighbors", neighbors, 1, "the number of nearest neighbors")
    if neighbors >= n:
        raise ValueError(f"neighbors must be less than the number of rows ({n}), got {neighbors}. Use {n - 1} or less.")
    permutations = as_int("permutations", permutations, 1, "the number of permutations")
    allowed = as_number("allowed", allowed, lambda share: 0 <= share <= 1, "the share must be from 0 to 1")
    if max_angle is not None:
        max_angle = as_number(
            "max_angle", max_angle, lambda angle: 0 <= angle <= 180, "the limit must be from 0 to 180 degrees"
        )
        if dims[0] != dims[1]:
            raise ValueError(
                f"max_angle needs points of equal dimensions, got {dims[0]} and {dims[1]}. Leave it out to compare the "
                "nearest neighbors only."
            )
    statistic = as_statistic(statistic)
    of_rows = np.arange(n) if groups is None else as_groups((groups,), ("the rows",), (n,))[0]
    generator = independent_generator(seed, given["before"])
    first, second = (normalize(sample.astype(np.float64)) for sample in samples)
    angles = rotated_angles = explained = test = None
    if dims[0] == dims[1]:
        frames = choose_frames(n_projections, None, given["before"], seed, generator)
        labelings = _swapped_labelings(of_rows, permutations, generator)
        test = result_of_sets(
            np.concatenate(samples), [LabelingSet(labelings, np.arange(1 + permutations))],
            as_order_shown(None, statistic, dims[0], default=2), frames, generator, statistic=statistic, paired=True,
            sizes=(n, n), n_groups=None if groups is None else 2 * (int(of_rows.max()) + 1,), n_circles=5,
            progress=progress,
        )  # fmt: skip
        rotated = _rotated(first, second, generator)
        chords, rest = (np.linalg.norm(points - second, axis=1) for points in (first, rotated))
        angles, rotated_angles = (2 * np.degrees(np.arcsin(np.minimum(part / 2, 1))) for part in (chords, rest))
        squares = float(chords @ chords)
        explained = max(1.0 - float(rest @ rest) / squares, 0.0) if squares > 0 else 0.0
    queries = np.sort(generator.permutation(n)[:_MAX_QUERIES])
    overlap = _overlap(first, second, queries, neighbors)
    return PairedResult(
        n, dims, angles, rotated_angles, explained, overlap, neighbors, len(queries), test, max_angle, allowed
    )


def _quantiles(angles: NDArray[np.float64]) -> dict[str, float]:
    levels = {"median": 0.5, "90%": 0.9, "99%": 0.99, "largest": 1}
    return {name: float(np.quantile(angles, level)) for name, level in levels.items()}


def _swapped_labelings(of_rows: NDArray[np.intp], permutations: int, generator: np.random.Generator) -> Labelings:
    """Return the observed labeling of pooled pairs, and labelings that exchange both points of random groups."""
    count, n_groups = 1 + permutations, int(of_rows.max()) + 1
    packed = np.empty((-(-count // 8), 2 * len(of_rows)), np.uint8)
    for g in range(len(packed)):
        kept = generator.integers(0, 2, (8, n_groups), dtype=bool)[:, of_rows]
        if g == 0:
            kept[0] = True
        packed[g] = np.packbits(np.concatenate([kept, ~kept], axis=1), axis=0, bitorder="little")[0]
    return Labelings(packed, count, len(of_rows))


def _rotated(x: NDArray[Any], y: NDArray[Any], generator: np.random.Generator) -> NDArray[np.float64]:
    """Rotate each random half of x by the orthogonal matrix that maps the other half of x to y best."""
    half = generator.permutation(len(x)) % 2 == 0
    rotated = np.empty_like(x)
    for rows in (half, ~half):
        products = x[~rows].T @ y[~rows]
        u, _, v = np.linalg.svd(products + _RIDGE * np.linalg.norm(products) * np.eye(len(products)))
        rotated[rows] = x[rows] @ (u @ v)
    return rotated


def _overlap(x: NDArray[Any], y: NDArray[Any], queries: NDArray[np.intp], k: int) -> float:
    """Compute the mean share of the k nearest other rows of a query in x that are also nearest in y."""
    block = max(1, _BLOCK_ENTRIES // len(x))
    shared = 0
    for start in range(0, len(queries), block):
        rows = queries[start : start + block]
        nearest = []
        for points in (x, y):
            cosines = points[rows] @ points.T
            cosines[np.arange(len(rows)), rows] = -np.inf
            nearest.append(np.argpartition(cosines, -k, axis=1)[:, -k:])
        shared += int(np.sum(nearest[0][:, :, None] == nearest[1][:, None]))
    return shared / (k * len(queries))
