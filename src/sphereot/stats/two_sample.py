"""Two-sample permutation test on SSW, or on several statistics that share their permutations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.types import Frames, Labels, Method, Points, Seed
from sphereot._arrays.validation import as_int, as_order, require_labels
from sphereot._backends import backend_for
from sphereot._backends.protocol import Labelings
from sphereot._support.extras import Progress, progress_bar
from sphereot._support.text import cost_name, plural
from sphereot._support.units import finite_or_none
from sphereot.stats._combined import (
    EVEN,
    Component,
    LabelingSet,
    Statistic,
    as_order_shown,
    as_statistic,
    combine,
    components_text,
    even_statistics,
    join_ties,
    meaning_text,
)
from sphereot.stats._testing import (
    NullTestResult,
    choose_frames,
    cost_tolerance,
    independent_generator,
    note_repeated_locations,
    p_value,
    standardize,
    two_samples,
    with_ties,
)

_SIGNIFICANT = 0.05  # a larger p-value does not speak for any difference


@dataclass(frozen=True)
class DifferingCircle:
    """How much two samples differ on one great circle.

    Attributes
    ----------
    frame : array, shape (d, 2)
        Orthonormal basis of the plane of the circle, for ``sphereot.project(x, frame[None])``.
    cost : float
        W_p^p between the two samples on this circle, in turns to the power p.
    null_mean, null_deviation : float
        Mean and standard deviation of this cost over the permutations.
    """

    frame: NDArray[np.floating[Any]] = field(repr=False)
    cost: float
    null_mean: float
    null_deviation: float

    @property
    def effect(self) -> float:
        """(cost - null_mean) / null_deviation: how far the cost is above its expected value."""
        return float(standardize(self.cost, self.null_mean, self.null_deviation))

    def as_record(self) -> dict[str, Any]:
        """Return the result as one object of JSON, without the frame."""
        return {"cost": self.cost, "null_mean": self.null_mean, "effect": finite_or_none(self.effect)}


@dataclass(frozen=True, kw_only=True)
class TwoSampleResult(NullTestResult):
    """Result of `two_sample_test`.

    Attributes
    ----------
    statistic : float
        SSW_p^p between the two samples, in turns to the power p.
    p_value : float
        The share of labelings, permuted and observed, with at least the observed distance; or, for a combined test,
        with combined evidence that is at least as strong.
    components : tuple of Component
        The statistics of a combined test with their p-values; empty for a test on SSW_p only.
    null : array, shape (permutations,)
        SSW_p^p of the permuted samples. Values that equal the statistic up to rounding are set to it.
    null_mean, null_deviation : float
        Mean and standard deviation of `null`.
    circles : tuple of DifferingCircle
        The great circles with the largest `effect`, in descending order.
    slice_costs : array, shape (L,)
        W_p^p between the two samples on every great circle; their mean is the statistic.
    projections : array, shape (L, d, 2)
        The great circles.
    n, m : int
        Numbers of points of the samples.
    n_groups : pair of int, or None
        Numbers of groups of the samples, if groups were permuted.
    dim : int
        Dimension d of the space around the sphere.
    p : float
        Order of the distance.
    note : str or None
        A remark if more than 10 % of the points of a sample have the same location as another point of this sample,
        and no groups are given.
    """

    circles: tuple[DifferingCircle, ...] = field(repr=False)
    m: int
    components: tuple[Component, ...] = ()
    n_groups: tuple[int, int] | None = None

    @property
    def permutations(self) -> int:
        """Number of permutations."""
        return len(self.null)

    @property
    def title(self) -> str:
        """Name of the test with its statistics."""
        statistics = "SSW_1, SSW_2 and the even part" if self.components else cost_name(self.p)
        return f"Two-sample permutation test on {statistics}"

    @property
    def excess(self) -> float:
        """The statistic minus its expected value `null_mean`; it may be negative."""
        return self.statistic - self.null_mean

    def component_lines(self) -> list[str]:
        """Return lines with the p-values of the components, and with what the evidence speaks for; none without any."""
        if not self.components:
            return []
        lines = [f"            of {components_text(self.components)}"]
        return [*lines, f"            {meaning_text(self.components)}"] if self.p_value <= _SIGNIFICANT else lines

    def as_record(self) -> dict[str, Any]:
        """Return the result as one object of JSON, without the frames of the circles."""
        record = {name: getattr(self, name) for name in ("excess", "permutations", "n_groups")}
        components = [vars(component) for component in self.components]
        circles = [circle.as_record() for circle in self.circles]
        return {**super().as_record(), **record, "components": components, "circles": circles}

    def __str__(self) -> str:
        of_groups = "" if self.n_groups is None else f" of {self.n_groups[0]} and {self.n_groups[1]} groups"
        lines = [
            f"{self.title}: {self.n:,} and {plural(self.m, 'point')} in dimension {self.dim}",
            f"  distance  {self.statistic:.6g}",
            f"  expected  {self.null_mean:.6g} ± {self.null_deviation:.2g}  ({plural(self.permutations, 'permutation')}"
            f"{of_groups}, {plural(self.n_projections, 'great circle')})",
            f"  effect    {self.effect:.2f} standard deviations above the expected value, ratio {self.ratio:.3g}",
            f"  p-value   {self.p_value:.4g}",
        ]
        lines += self.component_lines()
        for circle in self.circles[:1]:
            expected = f"{circle.null_mean:.4g} ± {circle.null_deviation:.2g}"
            lines.append(f"  largest difference on one great circle: {circle.cost:.4g} (expected {expected})")
        if self.note is not None:
            lines.append(f"  {self.note}")
        return "\n".join(lines)


def two_sample_test(
    x: Points,
    y: Points,
    *,
    statistic: Statistic = "combined",
    p: float | None = None,
    permutations: int = 999,
    groups: tuple[Labels, Labels] | None = None,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: Method = "quasi",
    seed: Seed = None,
    n_circles: int = 5,
    progress: Progress = False,
) -> TwoSampleResult:
    """Test whether two samples come from the same distribution on the sphere.

    This is a permutation test. The pooled points are split at random into two samples of the original sizes, many
    times. The p-value is the share of splits that differ at least as much as the observed samples.

    Parameters
    ----------
    x, y : array, shape (n, d) and (m, d)
        The samples, one unit vector per row, of the same array library and device. The points must be independent,
        unless `groups` is given.
    statistic : {"combined", "ssw"}, default "combined"
        What measures the difference. ``"combined"`` uses SSW_1, SSW_2 and the even part of the kernel of SSW_2, which
        sees differences that are symmetric under x -> -x. It is nearly as powerful as the best of the three for
        every kind of difference. ``"ssw"`` uses SSW_p only.
    p : float, optional
        Order of the distance in the result, between 1 and 16. With ``statistic="ssw"`` it is the order of the test, 2
        by default. Otherwise it must be 1 or 2, and does not change the p-value; the default is 1 up to dimension 3,
        where SSW_1 is a mean displacement, and 2 in higher dimensions, where embeddings form wide clusters.
    permutations : int, default 999
        Number of random splits. The smallest possible p-value is 1 / (1 + permutations).
    groups : pair of sequences, lengths n and m, optional
        Group label of every point of `x` and of `y`, such as a document, user or session. Whole groups are permuted,
        so points of one group may depend on each other. A label must not occur in both samples.
    n_projections : int, optional
        Number L of great circles, 200 by default.
    projections : array, shape (L, d, 2), optional
        Great circles to use, as returned by `great_circles`. Choose them without looking at which point belongs to
        which sample; otherwise the p-value is not valid.
    method : {"quasi", "orthogonal", "iid"}, default "quasi"
        How to draw the great circles; see `great_circles`. The p-value is exact for all methods. ``"quasi"`` has more
        power than the same number of independent great circles.
    seed : int, generator or None, default None
        Seed of the great circles and of the permutations, as in `ssw`. An int that also generated the points is safe:
        the random numbers are independent of ``numpy.random.default_rng(seed)``.
    n_circles : int, default 5
        Number of great circles in `circles` of the result.
    progress : bool or callable, default False
        If True, show a progress bar (needs rich). A callable gets the number of great circles done, and their total.

    Returns
    -------
    TwoSampleResult
        The main attributes are `statistic` (SSW_p^p in turns to the power p), `p_value`, `ratio` (the statistic divided
        by its expected value) and `circles` (where the samples differ most). Printing the result shows a table.

    Notes
    -----
    If both samples come from the same distribution, P(p_value <= a) <= a for every a, because the observed samples and
    the random splits are exchangeable. This requires independent points, or independent groups of any sizes. Splits
    whose distance equals the observed distance up to rounding are ties.

    Each permutation takes O(n + m) per great circle, without sorting. Samples of equal size are several times faster
    than samples of different sizes. The even part needs all pairs of points: of pools with more than 2500 points, it
    uses a random sample of 2500.

    The p-value of every component is its rank among all splits. The combined test compares the smallest of them,
    weighted 3 : 3 : 2, with the smallest ones of the random splits, so the components need no further correction.

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
    first, second = two_samples(x, y)
    statistic = as_statistic(statistic)
    p = as_order_shown(None if p is None else as_order(p), statistic, int(first.shape[1]), default=2)
    permutations = as_int("permutations", permutations, 1, "the number of permutations")
    n_circles = as_int("n_circles", n_circles, 0, "the number of great circles in the result")
    generator = independent_generator(seed, first)
    frames = choose_frames(n_projections, projections, first, seed, generator, method)
    labels = None if groups is None else as_groups(groups, ("x", "y"), (len(first), len(second)))
    samples = to_numpy(first), to_numpy(second)
    result = permutation_result(
        *samples, p, frames, permutations, generator, labels, n_circles, progress, statistic=statistic
    )
    if groups is not None:
        return result
    return replace(result, note=note_repeated_locations(("the first sample", "the second sample"), samples))


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
    *,
    statistic: Statistic,
) -> TwoSampleResult:
    """Run `two_sample_test` on validated NumPy arrays; `groups` are the results of `as_groups` for x and y."""
    n_groups = None
    if groups is None:
        sets = point_labelings(len(x), len(y), permutations, generator)
    else:
        of_points, n_groups = pool_groups(*groups)
        sets = group_labelings(of_points, n_groups[0], permutations, generator)
    return result_of_sets(
        np.concatenate([x, y]),
        sets,
        p,
        frames,
        generator,
        statistic=statistic,
        sizes=(len(x), len(y)),
        n_groups=n_groups,
        n_circles=n_circles,
        progress=progress,
    )


def result_of_sets(
    pool: NDArray[Any],
    sets: Sequence[LabelingSet],
    p: float,
    frames: NDArray[Any],
    generator: np.random.Generator,
    *,
    statistic: Statistic,
    paired: bool = False,
    **rest: Any,
) -> TwoSampleResult:
    """Make the result of a test from the labelings of pooled points; `rest` are arguments of `result_of_costs`."""
    frames = frames.astype(pool.dtype, copy=False)
    orders = [p] if statistic == "ssw" else [p, 3 - p]
    by_order = (relabeled_costs(pool, sets, frames, order) for order in orders)
    return result_of_costs(
        ((parts[0][0], [costs for _, costs in parts]) for parts in zip(*by_order, strict=True)),
        frames,
        p,
        names=[f"SSW_{order:g}" for order in orders],
        tolerance=cost_tolerance(float(np.finfo(pool.dtype).eps), max(orders), len(pool) + len(frames)),
        also={} if statistic == "ssw" else {EVEN: even_statistics(pool, sets, generator, paired=paired)},
        **rest,
    )


def result_of_costs(
    blocks: Iterable[tuple[slice, Sequence[NDArray[np.float64]]]],
    frames: NDArray[Any],
    p: float,
    *,
    names: Sequence[str],
    tolerance: float,
    sizes: tuple[int, int],
    n_groups: tuple[int, int] | None,
    n_circles: int,
    progress: Progress,
    also: Mapping[str, NDArray[np.float64]] | None = None,
) -> TwoSampleResult:
    """Make the result of a test from costs on blocks of great circles for all labelings, the observed one first.

    A block has one array of costs for each of the `names`: the first is W_p^p, which the result shows. If there are
    several, or further statistics `also`, the p-value is combined.
    """
    totals: list[Any] = [0.0] * len(names)
    slice_costs, means, deviations = (np.empty(len(frames)) for _ in range(3))
    with progress_bar(progress, "great circles", len(frames)) as show:
        for block, parts in blocks:
            costs = parts[0]
            slice_costs[block] = costs[:, 0]
            means[block], deviations[block] = np.mean(costs[:, 1:], axis=1), np.std(costs[:, 1:], axis=1)
            for k, part in enumerate(parts):
                for row in part:  # one slice at a time, so that the sum does not depend on the size of a block
                    totals[k] = totals[k] + row
            show(block.stop)
    observed = float(totals[0][0])
    relabeled = with_ties(totals[0][1:], observed, tolerance)
    null = relabeled / len(frames)
    probability: float = p_value(observed, relabeled)
    components: tuple[Component, ...] = ()
    if len(names) > 1 or also:
        values = {name: total / len(frames) for name, total in zip(names, totals, strict=True)}
        tied = {name: join_ties(value, tolerance * float(np.max(value))) for name, value in values.items()}
        probability, components = combine({**tied, **(also or {})})
    most_differing = np.argsort(-standardize(slice_costs, means, deviations), kind="stable")[:n_circles]
    return TwoSampleResult(
        statistic=observed / len(frames),
        p_value=probability,
        components=components,
        null=null,
        null_mean=float(np.mean(null)),
        null_deviation=float(np.std(null)),
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
    """Return the observed labeling of n + m points, and random labelings with n points in the first sample."""
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
    """Return the observed labeling of points in groups, and random labelings that keep every group together.

    The first sample has the groups 0 to n_first - 1. Groups differ in size, so there is one set for each of its sizes.
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
    """Validate labels of groups, one sequence per sample, and return the groups of each sample as integers.

    A label of the first sample must not occur in another sample.
    """
    if not isinstance(groups, list | tuple) or len(groups) != len(names):
        raise ValueError(f"groups must be {len(names)} sequences of labels, one for each of {', '.join(names)}.")
    result: list[NDArray[np.intp]] = []
    first: set[Any] = set()  # the labels of the first sample
    for labels, name, size in zip(groups, names, sizes, strict=True):
        require_labels(f"groups of {name}", labels)
        values = np.asarray(labels)
        if values.shape != (size,):
            raise ValueError(f"groups of {name} must have one label per point, shape ({size},), got {values.shape}.")
        distinct, inverse = np.unique(values, return_inverse=True)
        if not result:
            first = set(distinct.tolist())
        elif shared := first.intersection(distinct.tolist()):
            raise ValueError(
                f"groups: the label {min(shared)!r} occurs in both {names[0]} and {name}, so the samples are not "
                "independent. Remove the group from one sample, or give different groups different labels."
            )
        result.append(inverse)
    return result


def pool_groups(first: NDArray[np.intp], second: NDArray[np.intp]) -> tuple[NDArray[np.intp], tuple[int, int]]:
    """Return the groups of pooled points, those of the first sample first, and the numbers of groups of the samples."""
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
    """Draw rows of n + m labels of which n are set, uniformly among all such rows; faster than shuffling.

    Each label is first set independently, with a probability of about n / (n + m). Given their number, all sets of
    labels are equally likely, and remain so when random labels are cleared, or set, until n are set.
    """
    chance = min(max(round(256 * n / (n + m)), 1), 255)
    rows = generator.integers(0, 256, size=(count, n + m), dtype=np.uint8) < chance
    for row, n_set in zip(rows, np.count_nonzero(rows, axis=1).tolist(), strict=True):
        candidates = np.flatnonzero(row == (n_set > n))
        row[generator.choice(candidates, abs(n_set - n), replace=False, shuffle=False)] = n_set < n
    return rows
