"""Drift test: permutation tests on SSW between a reference and one or more windows.

Every window gets a `two_sample_test`, all on the same great circles, so that values of different windows can be
compared. Holm's correction keeps the probability of a false alarm in any window at the level, although the windows
depend on each other through the reference.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.types import Frames, Labels, Method, Points, Seed
from sphereot._arrays.validation import as_level, as_order, as_points, as_same_kind, require_same_dim
from sphereot._support.extras import Progress, progress_bar
from sphereot._support.text import cost_name, plural, printable, shorten
from sphereot._support.units import TURNS, Lengths, format_number
from sphereot.sketch import Sketch
from sphereot.stats._testing import choose_frames, independent_generator, standardize
from sphereot.stats.sketch_tests import (
    ROUNDING,
    DriftWindow,
    as_permutations,
    find_circle,
    projected_densities,
    require_permutable,
    sketch_densities,
    sketch_permutation_result,
)
from sphereot.stats.two_sample import TwoSampleResult, as_groups, permutation_result

_PERMUTATIONS = 999
_NAMED_WINDOWS = 3
_LABEL_WIDTH = 40


@dataclass(frozen=True)
class DriftResult:
    """Result of `drift_test`.

    Attributes
    ----------
    windows : tuple of DriftWindow
        One per window, in the order of the windows.
    alpha : float
        Level: upper bound on the probability of an alarm in any window if there is no drift.
    n_reference, dim : int
        Number of points of the reference, and dimension d of the space around the sphere.
    p : float
        Order of the distance.
    permutations, n_projections : int
        Numbers of permutations and great circles of each test.
    reference : array, shape (n_reference, d), or None for sketches
        The points of the reference.
    """

    windows: tuple[DriftWindow, ...]
    alpha: float
    n_reference: int
    dim: int
    p: float
    permutations: int
    n_projections: int
    reference: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def drifted(self) -> bool:
        """Whether any window has drifted."""
        return any(window.drifted for window in self.windows)

    @property
    def most_significant(self) -> DriftWindow:
        """The window with the smallest p-value; of several, the one with the largest effect."""
        return min(self.windows, key=lambda w: (w.p_value, -standardize(w.value, w.null_mean, w.null_deviation)))

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        count = len(self.windows)
        if not self.drifted:
            if count == 1:
                verdict, smallest = "the window differs from the reference no more", "p-value"
            else:
                verdict = f"none of the {count} windows differs from the reference more"
                smallest = "smallest corrected p-value"
            return (
                f"No drift found: {verdict} than chance explains "
                f"({smallest} {self.most_significant.adjusted_p_value:.3g}, level {self.alpha:g})."
            )
        drifted = sorted((w for w in self.windows if w.drifted), key=lambda w: (w.adjusted_p_value, -w.ratio))
        power = cost_name(self.p)
        names = [
            f"{shorten(w.label)} ({power} {w.ratio:.3g} times that of chance, corrected p-value "
            f"{w.adjusted_p_value:.2g})"
            for w in drifted[:_NAMED_WINDOWS]
        ]
        more = [f"and {len(drifted) - _NAMED_WINDOWS} more"] if len(drifted) > _NAMED_WINDOWS else []
        where = "the window" if count == 1 else f"{len(drifted)} of {count} windows"
        # The largest are named first; whoever looks for the cause needs the beginning.
        start = next(window.label for window in self.windows if window.drifted)
        beginning = f" The first is {shorten(start)}." if len(drifted) > 1 else ""
        return f"Drift in {where} at level {self.alpha:g}: {', '.join(names + more)}.{beginning}"

    def as_record(self) -> dict[str, Any]:
        """The result as one object of JSON."""
        return {
            "drifted": self.drifted,
            "summary": self.summary,
            "windows": [window.as_record() for window in self.windows],
            "alpha": self.alpha,
            "p": self.p,
            "n_projections": self.n_projections,
            "permutations": self.permutations,
            "dim": self.dim,
        }

    def table(self, lengths: Lengths, typeset: Callable[[str], str] = str) -> str:
        """A row of text for each window, with distances in the units of `lengths`, and a line on the reference.

        `typeset` is applied to the names of distances.
        """
        unit = lengths.units[-1]
        roots = [] if unit.name == lengths.power_unit else [unit]
        heads = [typeset(f"{lengths.name} ({lengths.power_unit})")]
        heads += [typeset(f"SSW_{self.p:g} ({unit.name})") for unit in roots]
        sizes = [max(12, 2 + len(head)) for head in heads]
        names = [shorten(window.label, _LABEL_WIDTH) for window in self.windows]
        width = max(map(len, [*names, "window"]))
        chance = typeset(f"by chance ({lengths.power_unit})")  # of the first column of distances
        columns = "".join(f"{head:>{size}}" for head, size in zip(heads, sizes, strict=True))
        lines = [f"  {'window':<{width}}{'points':>9}{columns}{chance:>24}{'p-value':>10}{'corrected':>11}"]
        for name, w in zip(names, self.windows, strict=True):
            values = [lengths.power(w.value), *(unit.per_turn * lengths.turns(w.value) for unit in roots)]
            columns = "".join(f"{format_number(v, 4, ''):>{size}}" for v, size in zip(values, sizes, strict=True))
            band = " to ".join(format_number(lengths.power(value), 3, "") for value in w.band)
            lines.append(
                f"  {name:<{width}}{w.n:>9}{columns}{band:>24}{w.p_value:>10.3g}{w.adjusted_p_value:>11.3g}"
                + ("  drift" if w.drifted else "")
            )
        lines.append(
            f"  reference: {plural(self.n_reference, 'point')} in dimension {self.dim}; "
            f"{plural(self.n_projections, 'great circle')}, {plural(self.permutations, 'permutation')}"
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.summary}\n{self.table(Lengths(self.p, self.dim, TURNS))}"


def drift_test(
    reference: "Points | Sketch",
    windows: "Sequence[Points | Sketch]",
    *,
    labels: Sequence[str] | None = None,
    p: float = 1,
    alpha: float = 0.05,
    permutations: int | None = None,
    groups: Sequence[Labels] | None = None,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: Method = "quasi",
    seed: Seed = None,
    progress: Progress = False,
) -> DriftResult:
    """Test windows of points for drift from a reference, by permutations of SSW_p^p.

    Parameters
    ----------
    reference : array, shape (n, d), or Sketch
        Unit vectors: a sample of the distribution that the windows should have; or a sketch of them with groups.
    windows : sequence of arrays, shape (m_k, d), or of sketches
        Unit vectors, one sample per window, of the same array library and device as the reference; or sketches of the
        same great circles and groups.
    labels : sequence of str, optional
        Names of the windows; "window 1" and so on by default.
    p : float
        Order, from 1 to 16. SSW_1 detects tight clusters that move two to three times as often as SSW_2. SSW_2 is
        better at a change of concentration, and at sentence embeddings of one topic, which form a wide cloud.
    alpha : float
        Level, above 0 and at most 0.5: the probability of an alarm in any window if there is no drift.
    permutations : int, optional
        Number of permutations for each window: 999 by default, more from 13 windows on (at level 0.05), where corrected
        p-values would be coarse. It is an error if no p-value can reach the level with so few.
    groups : sequence of sequences, optional
        Labels of groups (documents, users, sessions): for the points of the reference, then for those of each window.
        Whole groups are permuted, as in `two_sample_test`, so that points of one group may depend on each other.
    n_projections, projections, method
        Great circles, as in `two_sample_test`, the same for all windows.
    seed : int, generator or None
        Source of the great circles and of the permutations, as in `two_sample_test`. The test of a window depends on
        the reference and on this window alone: other windows, and their order, change only the correction and the
        default number of permutations.
    progress : bool or callable (done, total)
        Show a bar in the terminal (needs rich), or call a function with the numbers of great circles that are done and
        in all; each window counts all of its own. The result is the same to the last bit.

    Returns
    -------
    DriftResult
        With `.drifted`, `.summary` and `.windows`, each with its value, p-values, band and the great circle on which it
        differs most. Printing it shows a short table.

    Notes
    -----
    The p-values are exact if points are independent, or groups of them if `groups` is given; see `two_sample_test`.
    Sketches have their groups divided among as many histograms by a hash. Those of the smaller sample are added up
    until they hold about as many points as those of the larger, and permuted: the level is exact for samples of equal
    size, and close to it otherwise.
    With Holm's correction the probability of any false alarm is at most `alpha`. All decisions follow from one
    threshold: if R of K windows have drifted, they are those with p-values of at most alpha / (K - R). The bands are
    for that level.

    References
    ----------
    S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> from sphereot.stats import drift_test
    >>> rng = np.random.default_rng(0)
    >>> reference, monday, tuesday = (
    ...     sphereot.sphere.normalize(rng.normal(size=(200, 3)) + [0, 0, shift]) for shift in (1.0, 1.0, 0.5)
    ... )
    >>> result = drift_test(reference, [monday, tuesday], labels=["monday", "tuesday"], permutations=199, seed=0)
    >>> [window.drifted for window in result.windows]
    [False, True]
    >>> result.windows[1].adjusted_p_value
    0.01
    """
    p, alpha = as_order(p), as_level(alpha)
    if not isinstance(windows, list | tuple):
        raise TypeError(f"windows: got {type(windows).__name__}, but a list of arrays is needed; one window is [y].")
    if not windows:
        raise ValueError("windows: the list is empty. Give at least one window.")
    named: dict[str, Any] = {"reference": reference} | {f"windows[{k}]": window for k, window in enumerate(windows)}
    labels = _as_labels(labels, len(windows))
    least = math.ceil(4 * len(windows) / alpha) - 1
    permutations = as_permutations(permutations, max(_PERMUTATIONS, least), len(windows), alpha)
    samples: list[NDArray[Any]] = []
    of_points: list[NDArray[np.intp]] | None = None
    frames: NDArray[np.floating[Any]]
    if isinstance(reference, Sketch):
        if method != "quasi" or any(value is not None for value in (groups, n_projections, projections)):
            raise ValueError(
                "groups, n_projections, projections, method: sketches have great circles and groups of their own. "
                "Leave these arguments out."
            )
        for name, sketch in named.items():
            if not isinstance(sketch, Sketch):
                raise TypeError("windows: the reference is a sketch, so windows must be a list of sketches.")
            require_permutable(name, sketch)
            reference.require_mergeable(sketch)
        frames = reference.projections
        generator = independent_generator(seed, frames)
    else:
        points = as_same_kind(**{name: as_points(name, value) for name, value in named.items()})
        for name, sample in zip(named, points, strict=True):
            require_same_dim("reference", points[0], name, sample)
        generator = independent_generator(seed, points[0])
        frames = choose_frames(n_projections, projections, points[0], seed, generator, method)
        samples = [to_numpy(sample) for sample in points]
        of_points = None if groups is None else as_groups(groups, list(named), [len(sample) for sample in samples])
    # Every window starts from the same state, so that its permutations do not depend on the windows before it. Holm's
    # correction holds for any dependence of the windows.
    state = generator.integers(2**32, size=4, dtype=np.uint32)
    tests: list[TwoSampleResult] = []
    densities = []
    with progress_bar(progress, "great circles of all windows", len(frames) * len(windows)) as show:

        def show_window(done: int, total: int) -> None:
            show(len(tests) * total + done)

        for k, window in enumerate(windows, start=1):
            fresh = np.random.default_rng(state)
            if isinstance(reference, Sketch):
                test = sketch_permutation_result(reference, window, p, permutations, fresh, show_window)
                densities.append(sketch_densities(reference, window, find_circle(reference, test.circles[0])))
            else:
                pair = samples[0], samples[k]
                divided = None if of_points is None else (of_points[0], of_points[k])
                test = permutation_result(*pair, p, frames, permutations, fresh, divided, progress=show_window)
                densities.append(projected_densities(*pair, test.circles[0].frame))
            tests.append(test)
    adjusted = _holm([test.p_value for test in tests])
    decisions = [value <= alpha * (1 + ROUNDING) for value in adjusted]
    level = alpha / max(len(tests) - sum(decisions), 1)
    results = tuple(
        DriftWindow(
            label=labels[k],
            n=test.m,
            value=test.statistic,
            p_value=test.p_value,
            adjusted_p_value=adjusted[k],
            drifted=decisions[k],
            permutations=permutations,
            null_mean=test.null_mean,
            null_deviation=test.null_deviation,
            band=_band(test.null, level),
            circle=test.circles[0],
            densities=densities[k],
            test=test,
            points=samples[1 + k] if samples else None,
        )
        for k, test in enumerate(tests)
    )
    n, before = tests[0].n, samples[0] if samples else None
    return DriftResult(results, alpha, n, tests[0].dim, p, permutations, len(frames), before)


def _as_labels(labels: Sequence[str] | None, count: int) -> list[str]:
    if labels is None:
        return [f"window {k}" for k in range(1, count + 1)]
    if isinstance(labels, str) or len(labels) != count:
        got = f"the string {labels!r}" if isinstance(labels, str) else f"{len(labels)}"
        raise ValueError(f"labels: {got} given for {count} windows; give a list with one each.")
    return [printable(str(label)) for label in labels]


def _holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values."""
    count, largest, adjusted = len(p_values), 0.0, [0.0] * len(p_values)
    for rank, k in enumerate(sorted(range(count), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (count - rank) * p_values[k]))
        adjusted[k] = largest
    return adjusted


def _band(null: NDArray[np.float64], level: float) -> tuple[float, float]:
    """The k-th smallest and k-th largest value under permutation: exactly values above the band have p <= level."""
    k = math.floor(level * (1 + len(null)) * (1 + ROUNDING))
    ordered = np.sort(null)
    return float(ordered[min(k, (len(ordered) + 1) // 2) - 1]), float(ordered[-k])
