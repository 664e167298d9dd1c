"""Two-sample permutation test on SSW: whether two samples on the sphere come from the same distribution.

If they do, all ways to split the pooled points into two samples of these sizes are equally likely. So the observed
distance is compared with those of random splits, and the test has its level exactly, whatever the distribution, the
sizes, the dimension and the number of great circles. The pool is projected and sorted once per great circle.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.types import Frames, Labels, Method, Points, Seed
from sphereot._arrays.validation import as_int, as_order, require_labels
from sphereot._backends import backend_for
from sphereot._backends.protocol import Labelings
from sphereot._support.extras import Progress, progress_bar
from sphereot._support.text import cost_name, plural
from sphereot.stats._testing import (
    NullTestResult,
    choose_frames,
    cost_tolerance,
    independent_generator,
    p_value,
    standardize,
    two_samples,
    with_ties,
)


class LabelingSet(NamedTuple):
    """Labelings that put the same number of points into the first sample, and their numbers; 0 is the observed one."""

    labelings: Labelings
    columns: NDArray[np.intp]


@dataclass(frozen=True)
class DifferingCircle:
    """How much two samples differ on one great circle.

    Attributes
    ----------
    frame : array, shape (d, 2)
        Orthonormal basis of the plane of the circle; `sphereot.project(x, frame[None])` gives the turns of points.
    cost : float
        W_p^p between the two samples on this circle.
    null_mean, null_deviation : float
        Mean and standard deviation of that cost over the permutations.
    """

    frame: NDArray[np.floating[Any]] = field(repr=False)
    cost: float
    null_mean: float
    null_deviation: float

    @property
    def effect(self) -> float:
        """(cost - null_mean) / null_deviation."""
        return float(standardize(self.cost, self.null_mean, self.null_deviation))


@dataclass(frozen=True, kw_only=True)
class TwoSampleResult(NullTestResult):
    """Result of `two_sample_test`.

    Attributes
    ----------
    statistic : float
        SSW_p^p between the two samples, in turns to the power p.
    p_value : float
        (1 + number of permutations with at least that distance) / (1 + permutations).
    null : array, shape (permutations,)
        SSW_p^p of the permuted samples, on the same great circles. Values that differ from the statistic by rounding
        alone are set to it.
    circles : tuple of DifferingCircle
        The great circles with the largest `effect`, in descending order.
    slice_costs : array, shape (L,)
        W_p^p between the two samples on every great circle; their mean is the statistic.
    projections : array, shape (L, d, 2)
        The great circles; `ssw` with these `projections` gives the statistic.
    n, m : int
        Numbers of points of the samples.
    n_groups : pair of int, or None
        Numbers of groups of the samples, if groups were permuted.
    dim : int
        Dimension d of the space around the sphere.
    p : float
        Order of the distance.
    """

    circles: tuple[DifferingCircle, ...] = field(repr=False)
    m: int
    n_groups: tuple[int, int] | None = None

    @property
    def permutations(self) -> int:
        """Number of permutations."""
        return len(self.null)

    @property
    def excess(self) -> float:
        """The statistic minus mean(null): SSW_p^p without what chance adds at these sizes; may be negative."""
        return self.statistic - float(np.mean(self.null))

    def __str__(self) -> str:
        of_groups = "" if self.n_groups is None else f" of {self.n_groups[0]} and {self.n_groups[1]} groups"
        lines = [
            f"Two-sample permutation test on {cost_name(self.p)}: "
            f"{self.n:,} against {plural(self.m, 'point')} in dimension {self.dim}",
            f"  distance  {self.statistic:.6g}  (by chance {np.mean(self.null):.6g} ± {np.std(self.null):.2g}, "
            f"{plural(self.permutations, 'permutation')}{of_groups}, "
            f"{plural(self.n_projections, 'great circle')})",
            f"  effect    {self.effect:.2f} standard deviations, {self.ratio:.3g} times chance",
            f"  p-value   {self.p_value:.4g}",
        ]
        if self.circles:
            best = self.circles[0]
            lines.append(
                f"  differ most on a circle with cost {best.cost:.4g} (by chance {best.null_mean:.4g} ± "
                f"{best.null_deviation:.2g})"
            )
        return "\n".join(lines)


def two_sample_test(
    x: Points,
    y: Points,
    *,
    p: float = 2,
    permutations: int = 999,
    groups: tuple[Labels, Labels] | None = None,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: Method = "quasi",
    seed: Seed = None,
    n_circles: int = 5,
    progress: Progress = False,
) -> TwoSampleResult:
    """Test whether two samples come from the same distribution on the sphere, by permutations of SSW_p^p.

    Parameters
    ----------
    x : array, shape (n, d)
        Unit vectors: the first sample, of independent draws.
    y : array, shape (m, d)
        Unit vectors: the second sample, of the same array library and device.
    p : float
        Order, from 1 to 16.
    permutations : int
        Number of random splits of the pooled points, or of their groups. The p-value is at least
        1 / (1 + permutations).
    groups : pair of sequences, lengths n and m, optional
        Label of the group of every point of x and of y: document, user, session. Whole groups are permuted, so that
        points of one group may depend on each other. No label may occur in both samples.
    n_projections : int, optional
        Number L of great circles, 200 by default.
    projections : array, shape (L, d, 2), optional
        Frames of the great circles, as returned by `great_circles`. Their choice must not depend on which points are
        in which sample.
    method : {"quasi", "orthogonal", "iid"}
        How great circles are drawn, see `great_circles`. Well-placed ones ("quasi") give more power than as many
        independent ones; the level is exact for all.
    seed : int, generator or None
        Source of the great circles and of the permutations, as in `ssw`. An int gives a stream of its own, independent
        of points generated with the same int.
    n_circles : int
        Number of great circles in `circles` of the result.
    progress : bool or callable (done, total)
        Show a bar in the terminal (needs rich), or call a function with the numbers of great circles that are done and
        in all. The result is the same to the last bit.

    Returns
    -------
    TwoSampleResult
        With `.statistic`, `.p_value`, `.null` (the distances of the permuted samples), `.effect`, `.circles` and more.
        Printing it shows a short report.

    Notes
    -----
    Under the null hypothesis P(p_value <= a) <= a for every a, exactly: the observed samples and the permuted ones are
    exchangeable, given the great circles. It does not hold for points that depend on each other (sentences of one
    document, frames of one film) unless `groups` says which belong together: then independent groups, of any sizes, are
    enough. Permuted samples whose distance equals the
    observed one up to rounding, which symmetry can cause, count as ties.

    Each permutation takes O(n + m) per great circle, without sorting, and the cost on each circle is exact. Samples of
    equal size are several times as fast as samples of different sizes. Extra memory: one bit per point and permutation.
    NumPy and the kernel compute in main memory, whatever the library of the points; results do not depend on the number
    of threads.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> from sphereot.stats import two_sample_test
    >>> rng = np.random.default_rng(0)
    >>> x = sphereot.sphere.normalize(rng.normal(size=(100, 3)))
    >>> y = sphereot.sphere.normalize(rng.normal(size=(80, 3)) + [0.8, 0, 0])
    >>> result = two_sample_test(x, y, permutations=199, seed=0)
    >>> result.p_value
    0.005
    >>> result.effect > 5
    True
    """
    p, (first, second) = as_order(p), two_samples(x, y)
    permutations = as_int("permutations", permutations, 1, "the number of permutations")
    n_circles = as_int("n_circles", n_circles, 0, "the number of great circles in the result")
    generator = independent_generator(seed, first)
    frames = choose_frames(n_projections, projections, first, seed, generator, method)
    labels = None if groups is None else as_groups(groups, ("x", "y"), (len(first), len(second)))
    return permutation_result(
        to_numpy(first), to_numpy(second), p, frames, permutations, generator, labels, n_circles, progress
    )


def permutation_result(
    x: NDArray[Any],
    y: NDArray[Any],
    p: float,
    frames: NDArray[Any],
    permutations: int,
    generator: np.random.Generator,
    groups: Sequence[NDArray[np.intp]] | None = None,
    n_circles: int = 1,
    progress: Progress = False,
) -> TwoSampleResult:
    """`two_sample_test` of validated NumPy arrays; `groups` are the results of `as_groups` for x and y."""
    n_groups = None
    if groups is None:
        sets = point_labelings(len(x), len(y), permutations, generator)
    else:
        of_points, n_groups = pool_groups(*groups)
        sets = group_labelings(of_points, n_groups[0], permutations, generator)
    pool = np.concatenate([x, y])
    frames = frames.astype(pool.dtype, copy=False)
    return result_of_costs(
        relabeled_costs(pool, sets, frames, p),
        frames,
        p,
        tolerance=cost_tolerance(float(np.finfo(pool.dtype).eps), p, len(pool) + len(frames)),
        sizes=(len(x), len(y)),
        n_groups=n_groups,
        n_circles=n_circles,
        progress=progress,
    )


def result_of_costs(
    blocks: Iterable[tuple[slice, NDArray[np.float64]]],
    frames: NDArray[Any],
    p: float,
    *,
    tolerance: float,
    sizes: tuple[int, int],
    n_groups: tuple[int, int] | None,
    n_circles: int,
    progress: Progress,
) -> TwoSampleResult:
    """The result of a test, from W_p^p on blocks of great circles under all labelings, the observed one first."""
    total: Any = 0.0
    slice_costs, means, deviations = (np.empty(len(frames)) for _ in range(3))
    with progress_bar(progress, "great circles", len(frames)) as show:
        for block, costs in blocks:
            slice_costs[block] = costs[:, 0]
            means[block], deviations[block] = np.mean(costs[:, 1:], axis=1), np.std(costs[:, 1:], axis=1)
            for row in costs:  # one slice at a time, so that the sum does not depend on the size of a block
                total = total + row
            show(block.stop)
    observed = float(total[0])
    relabeled = with_ties(total[1:], observed, tolerance)
    most_differing = np.argsort(-standardize(slice_costs, means, deviations), kind="stable")[:n_circles]
    return TwoSampleResult(
        statistic=observed / len(frames),
        p_value=p_value(observed, relabeled),
        null=relabeled / len(frames),
        circles=tuple(
            DifferingCircle(frames[k], float(slice_costs[k]), float(means[k]), float(deviations[k]))
            for k in most_differing
        ),
        slice_costs=slice_costs,
        projections=frames,
        n=sizes[0],
        m=sizes[1],
        n_groups=n_groups,
        dim=int(frames.shape[1]),
        p=p,
    )


def point_labelings(n: int, m: int, permutations: int, generator: np.random.Generator) -> list[LabelingSet]:
    """The observed labeling of n + m points, and random ones with n points in the first sample."""
    groups = -(-(1 + permutations) // 8)
    packed = np.empty((groups, n + m), np.uint8)
    for g in range(groups):
        rows = _random_labels(n, m, 8, generator)
        if g == 0:
            rows[0] = np.arange(n + m) < n
        packed[g] = np.packbits(rows, axis=0, bitorder="little")[0]
    return [LabelingSet(Labelings(packed, 1 + permutations, n), np.arange(1 + permutations))]


def group_labelings(
    groups: NDArray[np.intp], n_first: int, permutations: int, generator: np.random.Generator
) -> list[LabelingSet]:
    """The observed labeling of points in groups, and random ones that keep every group together.

    Parameters
    ----------
    groups : array of int, shape (n + m,)
        The group of every point; groups 0 to n_first - 1 are those of the first sample.
    n_first : int
        The number of groups in the first sample.

    Returns
    -------
    list of LabelingSet
        One for each number of points in the first sample: groups differ in size.
    """
    n_groups = int(groups.max()) + 1
    sizes = np.bincount(groups, minlength=n_groups)
    of_groups = np.zeros((1 + permutations, n_groups), bool)
    of_groups[0, :n_first] = True
    for row in of_groups[1:]:
        row[generator.permutation(n_groups)[:n_first]] = True
    counts = of_groups @ sizes
    sets = []
    for count in np.unique(counts).tolist():
        columns = np.flatnonzero(counts == count)
        labels = of_groups[columns][:, groups]
        packed = np.stack(
            [np.packbits(labels[k : k + 8], axis=0, bitorder="little")[0] for k in range(0, len(labels), 8)]
        )
        sets.append(LabelingSet(Labelings(packed, len(columns), count), columns))
    return sets


def as_groups(groups: Any, names: Sequence[str], sizes: Sequence[int]) -> list[NDArray[np.intp]]:
    """Validate labels of groups, one sequence per sample; the groups of each sample as integers from 0 on.

    Raises
    ------
    ValueError
        For another number of labels than points, for missing labels, and for a label of the first sample that occurs in
        another.
    """
    if not isinstance(groups, list | tuple) or len(groups) != len(names):
        raise ValueError(f"groups: give {len(names)} sequences of labels, one for each of {', '.join(names)}.")
    result: list[NDArray[np.intp]] = []
    first: set[Any] = set()
    for labels, name, size in zip(groups, names, sizes, strict=True):
        require_labels(f"groups of {name}", labels)
        values = np.asarray(labels)
        if values.shape != (size,):
            raise ValueError(f"groups: {name} has {size} points, but its labels have shape {values.shape}.")
        distinct, inverse = np.unique(values, return_inverse=True)
        if not result:
            first = set(distinct.tolist())
        elif shared := first.intersection(distinct.tolist()):
            raise ValueError(
                f"groups: {min(shared)!r} is in {names[0]} and in {name}, so that the two depend on each other; leave "
                "such groups out of one of them. If they are different groups, label them differently."
            )
        result.append(inverse)
    return result


def pool_groups(first: NDArray[np.intp], second: NDArray[np.intp]) -> tuple[NDArray[np.intp], tuple[int, int]]:
    """The groups of pooled points, and the numbers of groups of both samples; groups of the first have low numbers."""
    n_first, n_second = int(first.max()) + 1, int(second.max()) + 1
    return np.concatenate([first, second + n_first]), (n_first, n_second)


def relabeled_costs(
    pool: NDArray[Any], sets: Sequence[LabelingSet], frames: NDArray[Any], p: float
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield blocks of great circles with W_p^p under all labelings, shape (block, labelings)."""
    solve = backend_for(pool).relabeled_costs
    if len(sets) == 1:
        yield from solve(pool, sets[0].labelings, frames, p)
        return
    costs = np.empty((len(frames), sum(len(labeling_set.columns) for labeling_set in sets)))
    for labelings, columns in sets:
        for block, values in solve(pool, labelings, frames, p):
            costs[block, columns] = values
    yield slice(0, len(frames)), costs


def _random_labels(n: int, m: int, count: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Rows of n + m labels of which n are set, uniform among all such rows; faster than shuffling.

    Each label is first set independently, with a probability of about n / (n + m). Given their number, all sets of
    labels are equally likely, and remain so when random labels are cleared, or set, until n are set.
    """
    chance = min(max(round(256 * n / (n + m)), 1), 255)
    rows = generator.integers(0, 256, size=(count, n + m), dtype=np.uint8) < chance
    for row, n_set in zip(rows, np.count_nonzero(rows, axis=1).tolist(), strict=True):
        candidates = np.flatnonzero(row == (n_set > n))
        row[generator.choice(candidates, abs(n_set - n), replace=False, shuffle=False)] = n_set < n
    return rows
