"""Random labelings of a pooled sample, for permutation tests: of single points, or of whole groups of them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.validation import require_labels
from sphereot._backends import backend_for
from sphereot._backends.protocol import Labelings

__all__ = ["LabelingSet", "as_groups", "group_labelings", "point_labelings", "relabeled_costs"]


class LabelingSet(NamedTuple):
    """Labelings that put equally many points into the first sample.

    Attributes
    ----------
    labelings : Labelings
        As the backends take them.
    columns : array of int, shape (n_labelings,)
        Which labelings of the test these are; the observed one is number 0.
    """

    labelings: Labelings
    columns: NDArray[np.intp]


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
        The group of every point; those of the first sample are 0 to n_first - 1.
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
