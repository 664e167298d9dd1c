"""Drift test: permutation tests on SSW between a reference and windows, on the same great circles."""

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
from sphereot._support.text import plural, printable, shorten
from sphereot._support.units import TURNS, Lengths, format_number
from sphereot.sketch import Sketch
from sphereot.stats._combined import Statistic, as_order_shown, as_statistic
from sphereot.stats._testing import choose_frames, independent_generator, note_repeated_locations, standardize
from sphereot.stats.sketch_tests import (
    ROUNDING,
    DriftWindow,
    as_permutations,
    evidence,
    find_circle,
    projected_densities,
    require_permutable,
    sketch_densities,
    sketch_permutation_result,
    window_fields,
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
        Significance level: an upper bound on the probability of an alarm in any window if there is no drift.
    n_reference, dim : int
        Number of points of the reference, and dimension d of the space around the sphere.
    p : float
        Order of the distance.
    permutations, n_projections : int
        Numbers of permutations and great circles of each test.
    reference : array, shape (n_reference, d), or None
        The points of the reference; None for sketches.
    note : str or None
        A remark if more than 10 % of the points of the reference, or of a window, have the same location as another
        point of it, and no groups are given. None for sketches, which have groups.
    """

    windows: tuple[DriftWindow, ...]
    alpha: float
    n_reference: int
    dim: int
    p: float
    permutations: int
    n_projections: int
    reference: NDArray[Any] | None = field(default=None, repr=False)
    note: str | None = None

    @property
    def drifted(self) -> bool:
        """Whether any window has drifted."""
        return any(window.drifted for window in self.windows)

    @property
    def most_significant(self) -> DriftWindow:
        """The window with the smallest p-value; among equal p-values, the largest effect decides."""
        return min(self.windows, key=lambda w: (w.p_value, -standardize(w.value, w.null_mean, w.null_deviation)))

    @property
    def summary(self) -> str:
        """The result in one sentence, or two."""
        drifted = [window for window in self.windows if window.drifted]
        level, count = f"alpha = {self.alpha:g}", plural(len(self.windows), "window")
        if not drifted:
            smallest = "p-value" if len(self.windows) == 1 else "smallest adjusted p-value"
            return f"No drift detected in {count} ({level}, {smallest} {self.most_significant.adjusted_p_value:.3g})."
        largest = sorted(drifted, key=lambda w: (w.adjusted_p_value, -w.ratio))[:_NAMED_WINDOWS]
        names = [f"{shorten(w.label)} ({evidence(w, self.p)})" for w in largest]
        if len(drifted) > len(names):
            names.append(f"and {len(drifted) - len(names)} more")
        # The largest differences come first, but the search for a cause starts at the first window.
        first = f" The first is {shorten(drifted[0].label)}." if len(drifted) > 1 else ""
        return f"Drift detected in {len(drifted)} of {count} ({level}): {', '.join(names)}.{first}"

    def as_record(self) -> dict[str, Any]:
        """Return the result as one object of JSON."""
        names = ("drifted", "summary", "alpha", "p", "n_projections", "permutations", "dim", "note")
        record = {name: getattr(self, name) for name in names}
        return record | {"windows": [window.as_record() for window in self.windows]}

    def table(self, lengths: Lengths, typeset: Callable[[str], str] = str) -> str:
        """Return a table of the windows as text, with distances in the units of `lengths`, and a line on the reference.

        The note, if there is one, follows. `typeset` is applied to the names of distances and units.
        """
        unit = lengths.units[-1]
        roots = [] if unit.name == lengths.power_unit else [unit]
        heads = [typeset(f"{lengths.name} ({lengths.power_unit})")]
        heads += [typeset(f"SSW_{self.p:g} ({unit.name})") for unit in roots]
        sizes = [9, *(max(12, 2 + len(head)) for head in heads), 24, 10, 10]
        names = [shorten(window.label, _LABEL_WIDTH) for window in self.windows]
        width = max(map(len, [*names, "window"]))

        def line(name: str, *cells: str) -> str:
            columns = (f"{cell:>{size}}" for cell, size in zip(cells, sizes, strict=True))
            return f"  {name:<{width}}{''.join(columns)}"

        expected = typeset(f"expected ({lengths.power_unit})")  # the range of the first column of distances
        lines = [line("window", "points", *heads, expected, "p-value", "adjusted")]
        for name, w in zip(names, self.windows, strict=True):
            distances = [lengths.power(w.value), *(unit.per_turn * lengths.turns(w.value) for unit in roots)]
            values = [format_number(distance, 4, "") for distance in distances]
            band = " to ".join(format_number(lengths.power(value), 3, "") for value in w.band)
            p_values = f"{w.p_value:.3g}", f"{w.adjusted_p_value:.3g}"
            lines.append(line(name, str(w.n), *values, band, *p_values) + ("  drift" if w.drifted else ""))
        lines.append(
            f"  reference: {plural(self.n_reference, 'point')} in dimension {self.dim}; "
            f"{plural(self.n_projections, 'great circle')}, {plural(self.permutations, 'permutation')}"
        )
        if self.note is not None:
            lines.append(f"  {self.note}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.summary}\n{self.table(Lengths(self.p, self.dim, TURNS))}"


def drift_test(
    reference: "Points | Sketch",
    windows: "Sequence[Points | Sketch]",
    *,
    labels: Sequence[str] | None = None,
    statistic: Statistic = "combined",
    p: float | None = None,
    alpha: float = 0.05,
    permutations: int | None = None,
    groups: Sequence[Labels] | None = None,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: Method = "quasi",
    seed: Seed = None,
    progress: Progress = False,
) -> DriftResult:
    """Test whether windows of points have drifted from a reference, by exact permutation tests.

    Parameters
    ----------
    reference : array, shape (n, d), or Sketch
        Sample of the distribution that the windows should have, one unit vector per row; or a sketch with groups.
    windows : sequence of arrays, shape (m_k, d), or of sketches
        One sample per window, of the same array library and device as the reference; or sketches with the same great
        circles and groups.
    labels : sequence of str, optional
        Names of the windows, by default "window 1" and so on.
    statistic : {"combined", "ssw"}, default "combined"
        What measures the difference; see `two_sample_test`. For sketches, ``"combined"`` uses the SSW_1 of axes
        (angular positions modulo a half turn) in place of the even part.
    p : float, optional
        Order of the distance in the result, between 1 and 16; see `two_sample_test`. With ``statistic="ssw"`` it is the
        order of the test, 1 by default.
    alpha : float, default 0.05
        Significance level, above 0 and at most 0.5: the probability of an alarm in any window if there is no drift.
    permutations : int, optional
        Number of permutations per window. The default is 999, or more for many windows (13 at ``alpha=0.05``). A number
        with which no p-value can reach the significance level is an error.
    groups : sequence of sequences, optional
        Group labels (documents, users, sessions) of the points of the reference, then of each window. Whole groups are
        permuted, so points of one group may depend on each other; see `two_sample_test`.
    n_projections, projections, method
        Great circles, the same for all windows; see `two_sample_test`.
    seed : int, generator or None, default None
        Seed of the great circles and of the permutations; see `two_sample_test`. Other windows and their order change
        only the correction and the default number of permutations.
    progress : bool or callable, default False
        If True, show a progress bar (needs rich). A callable gets the number of great circles done, and the total
        over all windows.

    Returns
    -------
    DriftResult
        The main attributes are `drifted`, `summary` and `windows`. Each window has its value (SSW_p^p in turns to the
        power p), p-values, and the great circle on which it differs most. Printing the result shows a table.

    Notes
    -----
    The p-values are exact if points, or groups if `groups` is given, are independent. A sketch divides its groups among
    histograms by a hash. Histograms of the smaller sample are merged until they have about as many points as histograms
    of the larger sample, and then permuted. For sketches of different sizes, p-values are approximate.

    With Holm's correction, the probability of any false alarm is at most `alpha`. If R of K windows have drifted, they
    are the windows with p-values of at most alpha / (K - R). The bands are for this significance level.

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
    statistic, alpha = as_statistic(statistic), as_level(alpha)
    order = None if p is None else as_order(p)
    if not isinstance(windows, list | tuple):
        raise TypeError(f"windows must be a list of arrays, got {type(windows).__name__}. Pass one window as [y].")
    if not windows:
        raise ValueError("windows must contain at least one window, got an empty list.")
    named: dict[str, Any] = {"reference": reference} | {f"windows[{k}]": window for k, window in enumerate(windows)}
    if labels is None:
        labels = [f"window {k}" for k in range(1, len(windows) + 1)]
    elif isinstance(labels, str) or len(labels) != len(windows):
        got = f"the string {labels!r}" if isinstance(labels, str) else f"{len(labels)}"
        raise ValueError(f"labels must be a list of {plural(len(windows), 'label')}, one per window, got {got}.")
    least = math.ceil(4 * len(windows) / alpha) - 1
    permutations = as_permutations(permutations, max(_PERMUTATIONS, least), len(windows), alpha)
    note: str | None = None
    samples: list[NDArray[Any]] = []
    of_points: list[NDArray[np.intp]] | None = None
    frames: NDArray[np.floating[Any]]
    if isinstance(reference, Sketch):
        if method != "quasi" or any(value is not None for value in (groups, n_projections, projections)):
            raise ValueError(
                "groups, n_projections, projections and method are not supported for sketches, which have their own "
                "groups and great circles. Leave them out."
            )
        for name, sketch in named.items():
            reference.require_mergeable(sketch)
            require_permutable(name, sketch)
        frames = reference.projections
        generator = independent_generator(seed, frames)
        p = as_order_shown(order, statistic, reference.dim, default=1)
    else:
        points = as_same_kind(**{name: as_points(name, value) for name, value in named.items()})
        for name, sample in zip(named, points, strict=True):
            require_same_dim("reference", points[0], name, sample)
        generator = independent_generator(seed, points[0])
        p = as_order_shown(order, statistic, int(points[0].shape[1]), default=1)
        frames = choose_frames(n_projections, projections, points[0], seed, generator, method)
        samples = [to_numpy(sample) for sample in points]
        if groups is None:
            note = note_repeated_locations(["the reference", *map(str, labels)], samples)
        else:
            of_points = as_groups(groups, list(named), [len(sample) for sample in samples])
    # Every window starts from the same state, so its permutations do not depend on the windows before it. Holm's
    # correction is valid for any dependence of the windows.
    state = generator.integers(2**32, size=4, dtype=np.uint32)
    tests: list[TwoSampleResult] = []
    densities = []
    with progress_bar(progress, "great circles of all windows", len(frames) * len(windows)) as show:

        def show_window(done: int, total: int) -> None:
            show(len(tests) * total + done)

        for k, window in enumerate(windows, start=1):
            fresh = np.random.default_rng(state)
            if isinstance(reference, Sketch):
                test = sketch_permutation_result(
                    reference, window, p, permutations, fresh, show_window, statistic=statistic
                )
                densities.append(sketch_densities(reference, window, find_circle(reference, test.circles[0])))
            else:
                pair = samples[0], samples[k]
                divided = None if of_points is None else (of_points[0], of_points[k])
                test = permutation_result(
                    *pair, p, frames, permutations, fresh, divided, progress=show_window, statistic=statistic
                )
                densities.append(projected_densities(*pair, test.circles[0].frame))
            tests.append(test)
    adjusted = _holm([test.p_value for test in tests])
    decisions = [value <= alpha * (1 + ROUNDING) for value in adjusted]
    level = alpha / max(len(tests) - sum(decisions), 1)
    results = tuple(
        DriftWindow(
            label=printable(str(labels[k])),
            adjusted_p_value=adjusted[k],
            drifted=decisions[k],
            band=_band(test.null, level),
            densities=densities[k],
            test=test,
            points=samples[1 + k] if samples else None,
            **window_fields(test),
        )
        for k, test in enumerate(tests)
    )
    n, before = tests[0].n, samples[0] if samples else None
    return DriftResult(results, alpha, n, tests[0].dim, p, permutations, len(frames), before, note)


def _holm(p_values: Sequence[float]) -> list[float]:
    """Compute Holm's adjusted p-values."""
    count, largest, adjusted = len(p_values), 0.0, [0.0] * len(p_values)
    for rank, k in enumerate(sorted(range(count), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (count - rank) * p_values[k]))
        adjusted[k] = largest
    return adjusted


def _band(null: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Find the k-th smallest and k-th largest permuted value, so that values have p <= level if above the band."""
    k = math.floor(level * (1 + len(null)) * (1 + ROUNDING))
    ordered = np.sort(null)
    return float(ordered[min(k, (len(ordered) + 1) // 2) - 1]), float(ordered[-k])
