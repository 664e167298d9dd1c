"""Test of uniformity on the sphere by SSW to the uniform distribution, with three classical tests.

The mean of SSW_2^2 over all great circles has a closed form, and a null distribution that needs no simulation
(:doc:`/background/uniformity`). For other orders, or on given great circles, simulated uniform samples on the same
great circles are the null sample of every statistic.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Integral
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.types import Frames, Points, Seed, UniformMethod
from sphereot._arrays.validation import as_int, as_method, as_order, as_points, as_slice_count
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure
from sphereot._support.extras import Progress, progress_bar
from sphereot._support.text import cost_name, p_value_text, plural
from sphereot.distance.ssw import require_exact_options
from sphereot.slicing import great_circles
from sphereot.stats._combined import EVEN, Component, Statistic, as_statistic
from sphereot.stats._testing import (
    NullTestResult,
    choose_frames,
    cost_tolerance,
    independent_generator,
    note_repeated_locations,
    p_value,
    with_ties,
)
from sphereot.stats._uniformity_null import (
    SMALLEST,
    even_null_distribution,
    null_distribution,
    null_tail_probability,
)
from sphereot.stats._uniformity_statistics import (
    CLASSICAL,
    MAX_POINTS_IN_PAIRS,
    UniformStatistic,
    even_statistic,
    gine,
    uniform_statistic,
)

# Larger samples are compared with simulated samples of this size, whose distribution differs by order 1 / points.
_MAX_NULL_POINTS = 2_000
_MAX_NULL_POINTS_IN_PAIRS = 250
_MAX_POINTS_IN_PAIRS = 10_000
# With fewer points, simulation is needed for the significance level of 1 % of some of the four tests.
_LEAST_ASYMPTOTIC_POINTS = 10
_SIMULATIONS = 999
_WEIGHTS = (0.75, 0.25)  # of SSW_p and of the even part in a combined test

# Classical statistics with a smaller relative difference are ties: the statistics of single points are all equal.
_CLASSICAL_TOLERANCE = 1e-12


@dataclass(frozen=True)
class ClassicalTest:
    """A classical test of uniformity: its name, statistic and p-value."""

    name: str
    statistic: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class UniformityResult(NullTestResult):
    """Result of `uniformity_test`.

    Attributes
    ----------
    statistic : float
        SSW_p^p between the sample and the uniform distribution, in turns to the power p.
    p_value : float
        Probability of at least this statistic for a uniform sample. With simulated samples, it is (1 + number of
        simulated statistics of at least `statistic`) / (1 + simulations). For a combined test, the smaller one of the
        p-values of the components, divided by 3/4 for SSW_p and by 1/4 for the even part.
    method : str
        "exact" for the mean over all great circles; otherwise how great circles were drawn.
    null_method : {"asymptotic", "exact", "simulated"}
        The null distribution: asymptotic and corrected for n, exact (for two points), or simulated.
    standard_error : float
        Standard error of `statistic` if it is an estimate, otherwise 0. The p-value accounts for it.
    null : array, shape (simulations,)
        SSW_p^p of simulated uniform samples of size n; empty if none were simulated. Values that equal the statistic
        up to rounding are set to it.
    null_mean, null_deviation : float
        Mean and standard deviation of the statistic for uniform samples; known exactly if none were simulated.
    components : tuple of Component
        SSW_p and the even part with their p-values; empty for a test on SSW_p only.
    classical : tuple of ClassicalTest
        The Rayleigh, Bingham and Giné tests of the same sample.
    slice_costs : array, shape (L,)
        W_p^p to the uniform distribution on every great circle; their mean is the statistic. Empty for sums over pairs.
    projections : array, shape (L, d, 2)
        The great circles.
    n, dim : int
        Number of points, and dimension d of the space around the sphere.
    p : float
        Order of the distance.
    note : str or None
        A remark if more than 10 % of the points of a sample have the same location as another point of this sample.
    """

    classical: tuple[ClassicalTest, ...]
    components: tuple[Component, ...] = ()
    method: str = "quasi"
    null_method: str = "simulated"
    standard_error: float = 0.0

    @property
    def simulations(self) -> int:
        """Number of simulated samples."""
        return len(self.null)

    def as_record(self) -> dict[str, Any]:
        """Return the result as one object of JSON."""
        names = ("method", "null_method", "standard_error", "simulations")
        tests = {test.name: {"statistic": test.statistic, "p_value": test.p_value} for test in self.classical}
        record = {name: getattr(self, name) for name in names}
        components = [vars(component) for component in self.components]
        return {**super().as_record(), **record, "components": components, "classical": tests}

    def __str__(self) -> str:
        circles = plural(self.n_projections, "great circle")
        if self.method == "exact" and (self.standard_error == 0 or self.n_projections == 0):
            circles = "all great circles"
        null = f"{self.null_method} null distribution"
        if self.null_method == "simulated":
            null = plural(self.simulations, "simulated sample")
        name = cost_name(self.p)
        own = [Component(name, self.statistic, self.null_mean, self.null_deviation, self.p_value)]
        if self.components:
            own = [replace(self.components[0], name=name), *self.components[1:]]
        tests: list[Component | ClassicalTest] = [*own, *self.classical]
        rows = [f"  {test.name:<10}{test.statistic:>12.5g}{p_value_text(test.p_value):>12}" for test in tests]
        rows[0] += f"   ({self.effect:.2f} standard deviations above the expected value, ratio {self.ratio:.3g})"
        title = f"Test of uniformity: {plural(self.n, 'point')} in dimension {self.dim}, {circles}, {null}"
        lines = [title, f"  {'test':<10}{'statistic':>12}{'p-value':>12}", *rows]
        if self.components:
            lines.insert(2, f"  {'combined':<22}{p_value_text(self.p_value):>12}   (of the next two tests)")
        if self.standard_error > 0:
            share = self.standard_error / self.null_deviation
            lines.append(
                f"  standard error of {name}: {self.standard_error:.2g}, {share:.2g} of its standard deviation "
                "for uniform samples"
            )
        if self.note is not None:
            lines.append(f"  {self.note}")
        return "\n".join(lines)


def uniformity_test(
    x: Points,
    *,
    statistic: Statistic = "combined",
    p: float = 2,
    method: UniformMethod | None = None,
    null: Literal["asymptotic", "simulated"] | None = None,
    simulations: int | None = None,
    n_projections: int | None = None,
    projections: Frames | None = None,
    null_points: int | None = None,
    seed: Seed = None,
    progress: Progress = False,
) -> UniformityResult:
    """Test whether a sample is uniform on the sphere, by SSW_p^p to the uniform distribution.

    Parameters
    ----------
    x : array, shape (n, d)
        Sample, one unit vector per row. The points must be independent. If points of one group (a station, a user)
        depend on each other, pass one point of each group.
    statistic : {"combined", "ssw"}, default "combined"
        ``"combined"`` also tests the even part of SSW_2^2, which detects departures that are symmetric under x -> -x,
        such as axes and bands. ``"ssw"`` tests SSW_p only.
    p : float, default 2
        Order of the distance, between 1 and 16.
    method : {"exact", "iid", "orthogonal", "quasi"}, optional
        ``"exact"``, for p = 2, averages over all great circles. The other methods draw great circles; see
        `great_circles`. By default it is ``"exact"`` for p = 2 if no great circles are asked for, otherwise
        ``"quasi"``.
    null : {"asymptotic", "simulated"}, optional
        The null distribution. ``"asymptotic"``, for ``method="exact"``, is the distribution for many points, corrected
        for n. It is the default for 10 or more points, and for 2 points, where it is exact. In all other cases, or if
        `simulations` or `null_points` is given, the default is ``"simulated"``.
    simulations : int, optional
        Number of uniform samples to simulate, 999 by default. P-values are at least 1 / (1 + simulations).
    n_projections : int, optional
        Number L of great circles, 200 by default.
    projections : array, shape (L, d, 2), optional
        Great circles to use, as returned by `great_circles`. Choose them without looking at the points.
    null_points : int, optional
        Number of points of the simulated samples: n by default, but at most 2000. Fewer than n points cause an error of
        order 1 / null_points.
    seed : int, generator or None, default None
        Seed of the great circles and of the simulated samples; see `two_sample_test`. With the asymptotic null
        distribution and at most 20,000 points, nothing is random.
    progress : bool or callable, default False
        If True, show a progress bar (needs rich). A callable gets the number of simulated samples done, and their
        total. It is not called if the samples are cached.

    Returns
    -------
    UniformityResult
        The main attributes are `statistic` (SSW_p^p in turns to the power p), `p_value`, `ratio` (the statistic divided
        by its expected value) and `classical` (the Rayleigh, Bingham and Giné tests). Printing the result shows a
        table.

    Notes
    -----
    For more than 20,000 points and d > 2, ``method="exact"`` estimates the statistic; see
    :doc:`/background/uniformity`. The variance of the estimate is added to the variance of the null distribution.

    Simulated samples are cached for the next sample with the same n, d, method, L, p, simulations and int seed (or seed
    None, within one process). The last 16 combinations are kept, see `clear_null_cache`. Each p-value is exact, but
    p-values that share simulated samples are correlated. With `projections` or a generator nothing is cached.

    SSW alone has little power against distributions that are symmetric under x -> -x, which the even part detects. The
    combined p-value is a weighted Bonferroni bound. It is hardly conservative, because odd and even degrees are
    independent for many uniform points. The even part of more than 20,000 points is computed from a random sample of
    20,000 points, and is not simulated for more than 250 points. It is left out for 1 and 2 points. The Giné test needs
    all pairs of points: it is left out above 10,000 points, and simulated with at most 250 points.

    References
    ----------
    K. V. Mardia and P. E. Jupp, Directional Statistics (2000), Chapter 10. G. S. Watson, Goodness-of-fit tests on a
    circle, Biometrika 48 (1961). E. Giné, Invariant tests for uniformity on compact Riemannian manifolds based on
    Sobolev norms, Annals of Statistics 3 (1975). P. E. Jupp, Modifications of the Rayleigh and Bingham tests for
    uniformity of directions, Journal of Multivariate Analysis 77 (2001).

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> from sphereot.stats import uniformity_test
    >>> rng = np.random.default_rng(0)
    >>> x = sphereot.sphere.normalize(rng.normal(size=(100, 3)) + [1, 0, 0])
    >>> result = uniformity_test(x)
    >>> print(f"{result.p_value:.1e}, {result.ratio:.1f} times the expected value")
    6.0e-10, 9.1 times the expected value
    >>> [test.name for test in result.classical]
    ['Rayleigh', 'Bingham', 'Giné']

    Use 50 great circles and simulated samples:

    >>> round(uniformity_test(x, simulations=199, n_projections=50, seed=0).p_value, 4)
    0.0067
    """
    p, points = as_order(p), as_points("x", x)
    n, dim = int(points.shape[0]), int(points.shape[1])
    sampling = {"simulations": simulations, "null_points": null_points}
    circles = {"n_projections": n_projections, "projections": projections}
    chosen, simulates = _choose_method(n, dim, p, method, null, sampling, circles)
    generator = independent_generator(seed, points)
    combines = as_statistic(statistic) == "combined" and n > 2
    simulated = None
    if simulates:
        count, size = _SIMULATIONS, min(n, _MAX_NULL_POINTS)
        if simulations is not None:
            count = as_int("simulations", simulations, 1, "the number of simulated samples")
        if null_points is not None:
            size = as_int("null_points", null_points, 1, "the size of the simulated samples")
        if size > n:
            raise ValueError(f"null_points must be at most the number of points ({n}), got {size}.")
        reusable = projections is None and (seed is None or (isinstance(seed, Integral) and not isinstance(seed, bool)))
        n_slices = as_slice_count(n_projections)
        lock, kept = _cached_null(size, dim, chosen, n_slices, p, count, seed) if reusable else (Lock(), [])
        with lock:  # other threads wait for the samples
            if not kept:
                drawn: NDArray[Any] | None = None
                if chosen != "exact" and reusable:
                    drawn = great_circles(n_slices, dim, method=as_method(chosen), seed=generator)
                elif chosen != "exact":
                    drawn = choose_frames(n_projections, projections, points, seed, generator, chosen)
                kept.append(_simulate(size, dim, drawn, p, count, generator, progress))
        simulated = kept[0]
    sample = to_numpy(points)
    if chosen == "exact":
        estimate = uniform_statistic(sample, generator)
    else:
        assert simulated is not None
        frames = simulated.frames.astype(sample.dtype, copy=False)
        slice_costs = np.asarray(backend_for(sample).slice_costs([Measure(sample)], frames, p), dtype=np.float64)
        estimate = UniformStatistic(float(np.mean(slice_costs)), 0.0, slice_costs, simulated.frames)
    null_sample, null_method = np.empty(0), "simulated"
    if simulated is not None:
        # Samples for great circles are simulated in float32, regardless of the dtype of the points.
        rounding = float(np.finfo(sample.dtype if chosen == "exact" else np.float32).eps)
        tolerance = cost_tolerance(rounding, p, n + len(simulated.frames))
        null_sample = with_ties(simulated.distances * (size / n) ** (p / 2), estimate.value, tolerance)
        probability = p_value(estimate.value, null_sample)
        null_mean, null_deviation = float(np.mean(null_sample)), float(np.std(null_sample))
    if simulated is None or (n == 2 and chosen == "exact" and simulations is None and null_points is None):
        null_method = "exact" if n <= 2 else "asymptotic"
        probability = null_tail_probability(n * estimate.value, n, dim, n * estimate.standard_error)
        distribution = null_distribution(n, dim)
        null_mean, null_deviation = distribution.mean / n, math.sqrt(distribution.variance) / n
    components: tuple[Component, ...] = ()
    if combines:
        even = _even_component(sample, simulated, size if simulates else 0, generator)
        components = (Component(f"SSW_{p:g}", estimate.value, null_mean, null_deviation, probability), even)
        probability = min(1.0, *(part.p_value / weight for part, weight in zip(components, _WEIGHTS, strict=True)))
    classical = []
    for name, (classical_statistic, tail_probability) in CLASSICAL.items():
        if classical_statistic is gine and n > _MAX_POINTS_IN_PAIRS:
            continue
        value = classical_statistic(sample)
        if simulated is not None:
            tail = p_value(value, with_ties(simulated.classical[name], value, _CLASSICAL_TOLERANCE))
        else:  # all samples of one point have the same statistics
            tail = 1.0 if n == 1 else tail_probability(value, n, dim)
        classical.append(ClassicalTest(name, value, tail))
    return UniformityResult(
        statistic=estimate.value,
        p_value=probability,
        null=null_sample,
        null_mean=null_mean,
        null_deviation=null_deviation,
        classical=tuple(classical),
        components=components,
        slice_costs=estimate.slice_costs,
        projections=estimate.frames,
        method=chosen,
        null_method=null_method,
        standard_error=estimate.standard_error,
        n=n,
        dim=dim,
        p=p,
        note=note_repeated_locations(
            ["the sample"], [sample], "Keep one point of each group, such as one of each location."
        ),
    )


def _even_component(
    sample: NDArray[Any], simulated: "_Null | None", size: int, generator: np.random.Generator
) -> Component:
    """Test the even part of a sample (n, d), or of a random part of a large one."""
    if len(sample) > MAX_POINTS_IN_PAIRS and sample.shape[1] > 2:
        sample = sample[generator.choice(len(sample), MAX_POINTS_IN_PAIRS, replace=False)]
    n, value = len(sample), even_statistic(sample)
    if simulated is not None and len(simulated.even):
        null = with_ties(simulated.even * (size / n), value, _CLASSICAL_TOLERANCE)
        return Component(EVEN, value, float(np.mean(null)), float(np.std(null)), p_value(value, null))
    distribution = even_null_distribution(n, sample.shape[1])
    mean, deviation = distribution.mean / n, math.sqrt(distribution.variance) / n
    return Component(EVEN, value, mean, deviation, max(SMALLEST, distribution.survival(n * value)))


def _choose_method(
    n: int,
    dim: int,
    p: float,
    method: str | None,
    null: str | None,
    sampling: dict[str, Any],
    circles: dict[str, Any],
) -> tuple[str, bool]:
    """Choose the method, and whether to simulate samples; `sampling` and `circles` are further options of the test."""
    if null not in (None, "asymptotic", "simulated"):
        raise ValueError(f"null must be 'asymptotic' or 'simulated', got {null!r}.")
    given = [name for name, value in sampling.items() if value is not None]
    if given and null == "asymptotic":
        raise ValueError(
            f"{given[0]} is not supported with null='asymptotic', which simulates no samples. Leave it out."
        )
    simulated = null == "simulated" or bool(given)
    in_pairs = n <= MAX_POINTS_IN_PAIRS or dim == 2
    if method is None:
        sliced = p != 2 or any(value is not None for value in circles.values()) or (simulated and not in_pairs)
        method = "quasi" if sliced else "exact"
    if method != "exact":
        if null == "asymptotic":
            raise ValueError(
                "null='asymptotic' is known only for the mean over all great circles. Use method='exact' with p=2 and "
                "no great circles, or null='simulated'."
            )
        return as_method(method), True
    require_exact_options(p, n, root=False, unbiased=False, given=circles)
    if simulated and not in_pairs:
        raise ValueError(
            f"method='exact' with simulated samples supports at most {MAX_POINTS_IN_PAIRS} points, got {n}. Leave out "
            "simulations, null_points and null, or use method='quasi'."
        )
    return method, simulated or (null is None and n < _LEAST_ASYMPTOTIC_POINTS)


def clear_null_cache() -> None:
    """Clear the cache of samples that `uniformity_test` has simulated; with seed=None the next test draws new ones."""
    _cached_null.cache_clear()


class _Null(NamedTuple):
    """Statistics of uniform samples, on fixed great circles or, if there are no frames, over all of them (p = 2)."""

    frames: NDArray[np.floating[Any]]
    distances: NDArray[np.float64]
    classical: dict[str, NDArray[np.float64]]
    even: NDArray[np.float64]  # empty for samples of many points


@lru_cache(maxsize=16)
def _cached_null(*kind: Any) -> tuple[Lock, list[_Null]]:
    """Return a lock, and a list that contains the null sample of this kind after the first simulation."""
    return Lock(), []


def _simulate(
    n: int,
    dim: int,
    frames: NDArray[Any] | None,
    p: float,
    simulations: int,
    generator: np.random.Generator,
    progress: Progress,
) -> _Null:
    single = None if frames is None else frames.astype(np.float32)  # rounding is far below the spread of the statistics
    distances = np.empty(simulations)
    classical = {name: np.empty(simulations) for name in CLASSICAL}
    even = np.empty(simulations if n <= _MAX_NULL_POINTS_IN_PAIRS else 0)
    with progress_bar(progress, "uniform samples", simulations) as show:
        for k in range(simulations):
            sample = generator.standard_normal((n, dim), dtype=np.float32)
            sample /= np.linalg.norm(sample, axis=1, keepdims=True)
            if single is None:
                distances[k] = uniform_statistic(sample, generator).value
            else:
                distances[k] = np.mean(backend_for(sample).slice_costs([Measure(sample)], single, p), dtype=np.float64)
            if len(even):
                even[k] = even_statistic(sample)
            for name, (statistic, _) in CLASSICAL.items():
                classical[name][k] = statistic(sample[:_MAX_NULL_POINTS_IN_PAIRS] if statistic is gine else sample)
            show(k + 1)
    return _Null(np.empty((0, dim, 2)) if frames is None else frames, distances, classical, even)
