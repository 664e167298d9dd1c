"""Has a law on the sphere drifted? A reference against one window or more, by permutation tests on SSW.

Every window gets the test of `two_sample_test`, all on the same great circles, so that values can be followed over the
windows. Holm's correction keeps the chance of a false alarm in any window at the level, however the windows depend on
each other through the reference.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy
from sphereot._arrays.random import is_own_generator
from sphereot._arrays.validation import as_order, as_points, as_whole_number, require_same_dim, require_same_kind
from sphereot._support.keyword_options import options_by_name
from sphereot._support.progress import Progress, progress_bar
from sphereot._support.text import cost_name, printable, shortened
from sphereot.stats._circle_density import ProjectedDensities, projected_densities
from sphereot.stats._random import drawn_frames, numpy_generator
from sphereot.stats.two_sample import DifferingCircle, TwoSampleResult, _two_sample_test

__all__ = ["DriftResult", "DriftWindow", "drift_test"]

_PERMUTATIONS = 999
_ROUNDING = 1e-9  # p-values are counts; the level is a float, and 3 * (1 / 60) must not miss 0.05
_NAMED = 3
_LABEL_WIDTH = 40


@dataclass(frozen=True)
class DriftWindow:
    """What `drift_test` found in one window.

    Attributes
    ----------
    label : str
        Its name, with control characters replaced.
    test : TwoSampleResult
        The test of the reference against this window, with the null sample.
    adjusted_p_value : float
        The p-value after Holm's correction for the number of windows.
    drifted : bool
        Whether `adjusted_p_value` is at most the level.
    band : tuple of two floats
        The values that chance explains. Exactly the windows whose value is above their band have drifted.
    densities : ProjectedDensities
        Both samples on `circle`.
    """

    label: str
    test: TwoSampleResult = field(repr=False)
    adjusted_p_value: float
    drifted: bool
    band: tuple[float, float]
    densities: ProjectedDensities = field(repr=False)

    @property
    def value(self) -> float:
        """SSW_p^p between reference and window, in turns to the power p."""
        return self.test.statistic

    @property
    def p_value(self) -> float:
        """The p-value of the test of this window alone."""
        return self.test.p_value

    @property
    def ratio(self) -> float:
        """The value over its mean under permutation: 1 where the distance is all chance."""
        return self.test.ratio

    @property
    def n(self) -> int:
        """The number of points."""
        return self.test.m

    @property
    def circle(self) -> DifferingCircle:
        """The great circle on which reference and window differ most surely, of those drawn."""
        return self.test.circles[0]


@dataclass(frozen=True)
class DriftResult:
    """What `drift_test` found.

    Attributes
    ----------
    windows : tuple of DriftWindow
        In the order given.
    alpha : float
        The level: the chance, at most, of finding drift in any window if there is none.
    n_reference, dim : int
        The number of points of the reference, and the dimension d of the space around the sphere.
    p : float
        The order.
    permutations, n_projections : int
        How many permutations and great circles each test took.
    """

    windows: tuple[DriftWindow, ...]
    alpha: float
    n_reference: int
    dim: int
    p: float
    permutations: int
    n_projections: int

    @property
    def drifted(self) -> bool:
        """Whether any window has drifted."""
        return any(window.drifted for window in self.windows)

    @property
    def farthest(self) -> DriftWindow:
        """The window that is most surely away from the reference."""
        return min(self.windows, key=lambda window: (window.p_value, -window.test.effect))

    @property
    def summary(self) -> str:
        """A sentence on what was found."""
        count = len(self.windows)
        if not self.drifted:
            least = self.farthest.adjusted_p_value
            who = "the window differs" if count == 1 else f"none of the {count} windows differs"
            no_more = "no more" if count == 1 else "more"
            return (
                f"No drift found: {who} from the reference {no_more} than chance explains "
                f"({'smallest corrected ' * (count > 1)}p-value {least:.3g}, level {self.alpha:g})."
            )
        found = sorted((w for w in self.windows if w.drifted), key=lambda w: (w.adjusted_p_value, -w.ratio))
        power = cost_name(self.p)
        names = [
            f"{shortened(w.label)} ({power} {w.ratio:.3g} times that of chance, corrected p-value "
            f"{w.adjusted_p_value:.2g})"
            for w in found[:_NAMED]
        ]
        more = [f"and {len(found) - _NAMED} more"] if len(found) > _NAMED else []
        where = "the window" if count == 1 else f"{len(found)} of {count} windows"
        return f"Drift in {where} at level {self.alpha:g}: {', '.join(names + more)}."

    def __str__(self) -> str:
        power = cost_name(self.p)
        names = [shortened(window.label, _LABEL_WIDTH) for window in self.windows]
        width = max(map(len, [*names, "window"]))
        lines = [
            self.summary,
            f"  {'window':<{width}}{'points':>9}{power:>12}{'by chance':>24}{'p-value':>10}{'corrected':>11}",
        ]
        for name, w in zip(names, self.windows, strict=True):
            band = f"{w.band[0]:.3g} to {w.band[1]:.3g}"
            lines.append(
                f"  {name:<{width}}{w.n:>9}{w.value:>12.4g}{band:>24}{w.p_value:>10.3g}{w.adjusted_p_value:>11.3g}"
                + "  drift" * w.drifted
            )
        lines.append(
            f"  reference: {self.n_reference} points in dimension {self.dim}; {self.n_projections} great circles, "
            f"{self.permutations} permutations"
        )
        return "\n".join(lines)


@options_by_name
def drift_test(
    reference: Array,
    windows: Sequence[Array],
    *,
    labels: Sequence[str] | None = None,
    p: float = 1,
    alpha: float = 0.05,
    permutations: int | None = None,
    n_projections: int | None = None,
    projections: Array | None = None,
    seed: Any = None,
    progress: Progress = False,
) -> DriftResult:
    """Test windows of points for drift away from a reference, by permutations of SSW_p^p.

    Parameters
    ----------
    reference : array, shape (n, d)
        Unit vectors: a sample of the law that should still hold.
    windows : sequence of arrays, shape (m_k, d)
        Unit vectors, one sample a window; of the same array library and device as the reference.
    labels : sequence of str, optional
        Names of the windows; "window 1" and so on by default.
    p : float
        Order, from 1 to 1000. Embeddings lie in clusters, and where these move, SSW_1 sees two to three times as much
        as SSW_2, which in turn sees more of a change of concentration.
    alpha : float
        The level, above 0 and at most 0.5: the chance of an alarm in any window where there is no drift.
    permutations : int, optional
        How many permutations for each window: 999 by default, more from 13 windows on (at level 0.05), where corrected
        p-values would get coarse. Too few for any window ever to reach the level is an error.
    n_projections, projections
        Great circles, as in `two_sample_test`; the same for all windows.
    seed : int, generator or None
        Source of the great circles and of the permutations, as in `two_sample_test`. What is found in a window depends
        on the reference and on this window alone: other windows, and their order, change nothing but the correction
        (and the default number of permutations).
    progress : bool or callable (done, total)
        Show a bar in the terminal (needs rich), or tell a function how many great circles are done, and of how many:
        each window has all of them. The result is the same to the last bit.

    Returns
    -------
    DriftResult
        With `.drifted`, `.summary` and `.windows`, each with its value, p-values, band and the great circle that
        differs most; printed, it is a short table.

    Notes
    -----
    The p-values are exact if points are independent; see `two_sample_test`. With Holm's correction the chance of any
    false alarm is at most `alpha`. All decisions come to one cut: if R of K windows have drifted, they are those with
    p-values of at most alpha / (K - R). The bands are drawn at that level.

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
    >>> found = drift_test(reference, [monday, tuesday], labels=["monday", "tuesday"], permutations=199, seed=0)
    >>> [window.drifted for window in found.windows]
    [False, True]
    >>> found.windows[1].adjusted_p_value
    0.01
    """
    p, alpha = as_order(p), _as_level(alpha)
    first, others = _as_samples(reference, windows)
    names = _as_labels(labels, len(others))
    permutations = _enough_permutations(permutations, len(others), alpha)
    generator = numpy_generator(seed, first)
    frames = drawn_frames(n_projections, projections, first, seed if is_own_generator(seed) else generator)
    samples = [to_numpy(points) for points in others]
    return _drift_test(to_numpy(first), samples, names, p, alpha, permutations, frames, generator, progress)


def _drift_test(
    reference: NDArray[Any],
    windows: Sequence[NDArray[Any]],
    names: Sequence[str],
    p: float,
    alpha: float,
    permutations: int,
    frames: NDArray[Any],
    generator: np.random.Generator,
    progress: Progress,
) -> DriftResult:
    """`drift_test` of validated NumPy arrays on the great circles of `frames`."""
    # Every window starts from the same state, so that its permutations do not depend on the windows before it. Holm's
    # correction holds however the windows depend on each other.
    state = generator.integers(2**32, size=4, dtype=np.uint32)
    tests: list[TwoSampleResult] = []
    with progress_bar(progress, "great circles of all windows", len(frames) * len(windows)) as show:

        def show_window(done: int, total: int) -> None:
            show(len(tests) * total + done)

        for window in windows:
            fresh = np.random.default_rng(state)
            tests.append(_two_sample_test(reference, window, p, permutations, frames, fresh, 1, show_window))
    adjusted = _holm([test.p_value for test in tests])
    decisions = [value <= alpha * (1 + _ROUNDING) for value in adjusted]
    level = alpha / max(len(tests) - sum(decisions), 1)
    results = []
    for name, test, value, drifted, window in zip(names, tests, adjusted, decisions, windows, strict=True):
        densities = projected_densities(reference, window, test.circles[0].frame)
        results.append(DriftWindow(name, test, value, drifted, _band(test, level), densities))
    return DriftResult(tuple(results), alpha, len(reference), reference.shape[1], p, permutations, len(frames))


def _as_level(alpha: Any) -> float:
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.floating) or not 0 < alpha <= 0.5:
        raise ValueError(f"alpha: got {alpha!r}, but a level is above 0 and at most 0.5; 0.05 is usual.")
    return float(alpha)


def _as_samples(reference: Array, windows: Sequence[Array]) -> tuple[Array, list[Array]]:
    if not isinstance(windows, list | tuple):
        raise TypeError(f"windows: got {type(windows).__name__}, but a list of arrays is needed; one window is [y].")
    if not windows:
        raise ValueError("windows: the list is empty; give at least one window.")
    first = as_points("reference", reference)
    samples = []
    for k, window in enumerate(windows):
        points = as_points(f"windows[{k}]", window)
        require_same_kind(**{"reference": first, f"windows[{k}]": points})
        require_same_dim("reference", first, f"windows[{k}]", points)
        samples.append(points)
    return first, samples


def _as_labels(labels: Sequence[str] | None, count: int) -> list[str]:
    if labels is None:
        return [f"window {k}" for k in range(1, count + 1)]
    if isinstance(labels, str) or len(labels) != count:
        found = f"the string {labels!r}" if isinstance(labels, str) else f"{len(labels)}"
        raise ValueError(f"labels: {found} given for {count} windows; give a list with one each.")
    return [printable(str(label)) for label in labels]


def _enough_permutations(permutations: int | None, windows: int, alpha: float) -> int:
    if permutations is None:
        return max(_PERMUTATIONS, math.ceil(4 * windows / alpha) - 1)
    count = as_whole_number("permutations", permutations, 1, "the number of permutations")
    least = math.ceil(windows / alpha * (1 - _ROUNDING)) - 1
    if count < least:
        raise ValueError(
            f"permutations: with {count}, no p-value of {windows} window{'s' * (windows > 1)} can reach the level "
            f"{alpha:g} after correction; give at least {least}, better {4 * (least + 1) - 1}."
        )
    return count


def _holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values."""
    count, least, adjusted = len(p_values), 0.0, [0.0] * len(p_values)
    for rank, k in enumerate(sorted(range(count), key=p_values.__getitem__)):
        least = max(least, min(1.0, (count - rank) * p_values[k]))
        adjusted[k] = least
    return adjusted


def _band(test: TwoSampleResult, level: float) -> tuple[float, float]:
    """The k-th smallest and k-th greatest value under permutation: above it, and only there, p_value <= level."""
    k = math.floor(level * (1 + test.permutations) * (1 + _ROUNDING))
    ordered = np.sort(test.null)
    return float(ordered[min(k, (len(ordered) + 1) // 2) - 1]), float(ordered[-k])
