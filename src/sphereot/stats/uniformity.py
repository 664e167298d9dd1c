"""Test of uniformity on the sphere by SSW to the uniform distribution, with three classical tests.

For p = 2, n W_2^2 to the uniform distribution on one great circle is Watson's U^2. So n SSW_2^2 averages Watson's U^2
over great circles: a Sobolev statistic, whose mean under uniformity is 1/12 for all n and d. Its mean over all great
circles has a closed form, and a null distribution that needs no simulation (:doc:`/uniformity`).

For other orders, or on given great circles, simulated uniform samples of the same size on the same great circles give
the null distribution of every statistic.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Integral
from threading import Lock
from typing import Any, Literal

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
from sphereot.stats._testing import (
    NullTestResult,
    choose_frames,
    cost_tolerance,
    independent_generator,
    p_value,
    with_ties,
)
from sphereot.stats._uniformity_null import null_distribution, null_tail_probability
from sphereot.stats._uniformity_statistics import (
    CLASSICAL,
    MAX_POINTS_IN_PAIRS,
    UniformStatistic,
    gine,
    uniform_statistic,
)

# Larger samples are compared with simulated samples of this size, whose distribution differs by order 1 / points.
_MAX_NULL_POINTS = 2_000
_MAX_NULL_POINTS_IN_PAIRS = 250
_MAX_POINTS_IN_PAIRS = 10_000
# With fewer, the level of some of the four tests is off at 1 % without simulation.
_LEAST_ASYMPTOTIC_POINTS = 10
_SIMULATIONS = 999

# Classical statistics that differ by less, relatively, are ties: those of single points are all equal.
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
        The probability of at least this statistic for a uniform sample. With a simulated null distribution, (1 + number
        of simulated samples at least that far from uniform) / (1 + simulations).
    method : str
        "exact": the mean over all great circles; otherwise how great circles were drawn.
    null_method : {"asymptotic", "exact", "simulated"}
        How the null distribution was found: the asymptotic one, corrected for n; the exact one of two points; or by
        simulated samples.
    standard_error : float
        Of `statistic` as a mean over all great circles, where `method="exact"` estimates it, for more than 20,000
        points; otherwise 0. The p-value takes it into account.
    null : array, shape (simulations,)
        SSW_p^p of simulated uniform samples of size n, on the same great circles; empty if none were simulated. Values
        that differ from the statistic by rounding alone are set to it.
    null_mean, null_deviation : float
        Mean and standard deviation of the statistic for uniform samples; known exactly if none were simulated.
    classical : tuple of ClassicalTest
        The Rayleigh, Bingham and Giné tests of the same sample.
    slice_costs : array, shape (L,)
        W_p^p to the uniform distribution on every great circle; their mean is the statistic. Empty where pairs of
        points are summed: by `method="exact"` up to 20,000 points, and in many dimensions.
    projections : array, shape (L, d, 2)
        The great circles; `ssw_uniform` with these `projections` gives the statistic.
    n, dim : int
        Number of points, and dimension d of the space around the sphere.
    p : float
        Order of the distance.
    """

    classical: tuple[ClassicalTest, ...]
    method: str = "quasi"
    null_method: str = "simulated"
    standard_error: float = 0.0
    null_moments: tuple[float, float] | None = field(default=None, repr=False)

    @property
    def simulations(self) -> int:
        """Number of simulated samples."""
        return len(self.null)

    @property
    def null_mean(self) -> float:
        """Mean of the statistic for uniform samples."""
        return super().null_mean if self.null_moments is None else self.null_moments[0]

    @property
    def null_deviation(self) -> float:
        """Standard deviation of the statistic for uniform samples."""
        return super().null_deviation if self.null_moments is None else self.null_moments[1]

    def __str__(self) -> str:
        circles = plural(self.n_projections, "great circle")
        if self.method == "exact" and (self.standard_error == 0 or self.n_projections == 0):
            circles = "all great circles"
        null = plural(self.simulations, "simulated sample")
        if self.null_method != "simulated":
            null = f"{self.null_method} null distribution"
        lines = [
            f"Test of uniformity: {plural(self.n, 'point')} in dimension {self.dim}, {circles}, {null}",
            f"  {'test':<10}{'statistic':>12}{'p-value':>12}",
            f"  {cost_name(self.p):<10}{self.statistic:>12.5g}{p_value_text(self.p_value):>12}"
            f"   ({self.ratio:.3g} times chance, {self.effect:.2f} standard deviations above)",
        ]
        lines += [
            f"  {test.name:<10}{test.statistic:>12.5g}{p_value_text(test.p_value):>12}" for test in self.classical
        ]
        if self.standard_error > 0:
            share = self.standard_error / self.null_deviation
            lines.append(
                f"  standard error of {cost_name(self.p)}: {self.standard_error:.2g}, "
                f"{share:.2g} of its standard deviation by chance"
            )
        return "\n".join(lines)


def uniformity_test(
    x: Points,
    *,
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
        Unit vectors: independent draws. If points of one group (a station, a user) depend on each other, pass one point
        of each group.
    p : float
        Order, from 1 to 16.
    method : {"exact", "iid", "orthogonal", "quasi"}, optional
        "exact", for p = 2: the mean over all great circles, as in `ssw_uniform`. Otherwise how great circles are drawn.
        By default "exact" for p = 2, unless great circles are asked for; else "quasi", which gives more power than
        as many independent ones.
    null : {"asymptotic", "simulated"}, optional
        The null distribution. "asymptotic", for `method="exact"`: that of many points, corrected for n, without
        simulation. By default it is used from 10 points on, and for 2 points, where it is exact. For other methods and
        sizes, or if `simulations` or `null_points` is given, the default is "simulated".
    simulations : int, optional
        Number of uniform samples to simulate, 999 by default. P-values are at least 1 / (1 + simulations).
    n_projections : int, optional
        Number L of great circles, 200 by default.
    projections : array, shape (L, d, 2), optional
        Frames of the great circles, as returned by `great_circles`. Their choice must not depend on the points.
    null_points : int, optional
        Number of points of the simulated samples: n, but not more than 2000, by default. With fewer than n points they
        give the distribution of n^(p/2) SSW_p^p with an error of order 1 / null_points.
    seed : int, generator or None
        Source of the great circles and of the simulated samples, as in `ssw`. An int gives a stream of its own,
        independent of points generated with the same int. With `method="exact"`, the asymptotic null and at most 20,000
        points nothing is random.
    progress : bool or callable (done, total)
        Show a bar in the terminal (needs rich), or call a function with the numbers of simulated samples that are done
        and in all. The result is the same to the last bit. Nothing is reported where the simulated samples are cached.

    Returns
    -------
    UniformityResult
        With `.statistic`, `.p_value`, `.null`, `.effect` and `.classical`, the Rayleigh, Bingham and Giné tests.
        Printing it shows a short table.

    Notes
    -----
    For more than 20,000 points, d > 2, `method="exact"` does not take all pairs of points. In few dimensions it takes 8
    independent sets of 128 great circles; in many, the harmonics of degrees 1 and 2 of all points, and all pairs within
    random blocks of points for the other degrees. The standard error of the statistic is reported, and its variance
    added to that of the null distribution.

    The asymptotic null distribution of n SSW_2^2 is a sum of weighted chi-squares, evaluated to 1e-9 and scaled to the
    variance that n points have. Far tails, below 0.1 %, are conservative for few points. The p-values of the Rayleigh
    and Bingham tests are then chi-square probabilities with corrections of order 1 / n, those of the Giné test weighted
    chi-squares again.

    Simulated samples are cached for the next sample with the same n, d, method, L, p, simulations and int seed (or seed
    None, within one process); the last 16 combinations are kept, see `clear_null_cache`. Every p-value is exact by
    itself, but those that share simulated samples are correlated. With `projections` or a generator nothing is cached.

    For p = 2 the k-th harmonic of the density on a great circle has weight 1 / k^2. A distribution that is symmetric
    under x -> -x has even harmonics alone, with a quarter of the weight at most: there the Bingham test has more power,
    and the Rayleigh test none.

    The Giné test takes all pairs of points and is left out above 10,000 points; its distribution under uniformity is
    simulated with at most 250 points.

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
    >>> print(f"{result.p_value:.1e}, {result.ratio:.1f} times chance")
    4.5e-10, 9.1 times chance
    >>> [test.name for test in result.classical]
    ['Rayleigh', 'Bingham', 'Giné']

    On 50 great circles, beside simulated samples:

    >>> uniformity_test(x, simulations=199, n_projections=50, seed=0).p_value
    0.005
    """
    p, points = as_order(p), as_points("x", x)
    n, dim = int(points.shape[0]), int(points.shape[1])
    sampling = {"simulations": simulations, "null_points": null_points}
    circles = {"n_projections": n_projections, "projections": projections}
    chosen, simulates = _choose_method(n, dim, p, method, null, sampling, circles)
    generator = independent_generator(seed, points)
    if simulates:
        count, size = _SIMULATIONS, min(n, _MAX_NULL_POINTS)
        if simulations is not None:
            count = as_int("simulations", simulations, 1, "the number of simulated samples")
        if null_points is not None:
            size = as_int("null_points", null_points, 1, "the size of the simulated samples")
            if size > n:
                raise ValueError(f"null_points: got {size}, but x has only {n} points. Give at most {n}.")
        if projections is None and (seed is None or (isinstance(seed, Integral) and not isinstance(seed, bool))):
            n_slices = 0 if chosen == "exact" else as_slice_count(n_projections)
            samples = _cached_null(size, dim, chosen, n_slices, p, count, None if seed is None else int(seed))
        else:
            drawn = chosen != "exact"
            frames = choose_frames(n_projections, projections, points, seed, generator, chosen) if drawn else None
            samples = _Null(size, dim, frames, p, count, generator)
        distances, simulated = samples.statistics(progress)
    sample = to_numpy(points)
    if chosen == "exact":
        estimate = uniform_statistic(sample, generator)
    else:
        frames = samples.frames.astype(sample.dtype, copy=False)
        slice_costs = np.asarray(backend_for(sample).slice_costs([Measure(sample)], frames, p), dtype=np.float64)
        estimate = UniformStatistic(float(np.mean(slice_costs)), 0.0, slice_costs, samples.frames)
    statistics = {
        name: statistic(sample)
        for name, (statistic, _) in CLASSICAL.items()
        if statistic is not gine or n <= _MAX_POINTS_IN_PAIRS
    }
    if simulates:
        # Samples for slices are simulated in float32, whatever the dtype of the points.
        rounding = float(np.finfo(sample.dtype if chosen == "exact" else np.float32).eps)
        tolerance = cost_tolerance(rounding, p, n + len(samples.frames))
        nulls = with_ties(distances * (size / n) ** (p / 2), estimate.value, tolerance)
        probability = p_value(estimate.value, nulls)
        p_values = [
            p_value(value, with_ties(simulated[name], value, _CLASSICAL_TOLERANCE))
            for name, value in statistics.items()
        ]
    else:
        nulls = np.empty(0)
        # All samples of one point have the same statistics.
        p_values = [1.0 if n == 1 else CLASSICAL[name][1](value, n, dim) for name, value in statistics.items()]
    moments, null_method = None, "simulated"
    if not simulates or (n == 2 and chosen == "exact" and simulations is None and null_points is None):
        null_method = "exact" if n <= 2 else "asymptotic"
        probability = null_tail_probability(n * estimate.value, n, dim, n * estimate.standard_error)
        distribution = null_distribution(n, dim)
        moments = (distribution.mean / n, math.sqrt(distribution.variance) / n)
    tests = zip(statistics.items(), p_values, strict=True)
    return UniformityResult(
        statistic=estimate.value,
        p_value=probability,
        null=nulls,
        classical=tuple(ClassicalTest(name, value, probability) for (name, value), probability in tests),
        slice_costs=estimate.slice_costs,
        projections=estimate.frames,
        method=chosen,
        null_method=null_method,
        standard_error=estimate.standard_error,
        null_moments=moments,
        n=n,
        dim=dim,
        p=p,
    )


def _choose_method(
    n: int,
    dim: int,
    p: float,
    method: str | None,
    null: str | None,
    sampling: dict[str, Any],
    circles: dict[str, Any],
) -> tuple[str, bool]:
    """The method, and whether to simulate samples; `sampling` and `circles` are further options of the test."""
    if null not in (None, "asymptotic", "simulated"):
        raise ValueError(f"null: got {null!r}, which is unknown; choose one of 'asymptotic', 'simulated'.")
    for name, value in sampling.items():
        if value is not None and null == "asymptotic":
            raise ValueError(f"{name}: got a value, but null='asymptotic' simulates no samples; leave {name} out.")
    simulated = null == "simulated" or any(value is not None for value in sampling.values())
    in_pairs = n <= MAX_POINTS_IN_PAIRS or dim == 2
    if method is None:
        sliced = p != 2 or any(value is not None for value in circles.values()) or (simulated and not in_pairs)
        method = "quasi" if sliced else "exact"
    if method != "exact":
        if null == "asymptotic":
            raise ValueError(
                "null: got 'asymptotic', but it is known only for the mean over all great circles; give method='exact' "
                "with p=2 and no great circles, or null='simulated'."
            )
        return as_method(method), True
    require_exact_options(p, n, root=False, unbiased=False, given=circles)
    if simulated and not in_pairs:
        raise ValueError(
            f"method: got 'exact' with simulated samples and {n} points, but it takes at most {MAX_POINTS_IN_PAIRS}; "
            "leave out simulations, null_points and null, or give method='quasi'."
        )
    return method, simulated or (null is None and n < _LEAST_ASYMPTOTIC_POINTS)


def clear_null_cache() -> None:
    """Clear the cache of samples that `uniformity_test` has simulated; with seed=None the next test draws new ones."""
    _cached_null.cache_clear()


class _Null:
    """Statistics of uniform samples of n points, on great circles or, if `frames` is None, over all of them (p = 2)."""

    def __init__(
        self,
        n: int,
        dim: int,
        frames: NDArray[Any] | None,
        p: float,
        simulations: int,
        generator: np.random.Generator,
    ):
        self.frames = np.empty((0, dim, 2)) if frames is None else frames
        self._arguments = n, dim, frames, p, simulations, generator
        self._lock = Lock()
        self._statistics: tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]] | None = None

    def statistics(self, progress: Progress) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
        """SSW_p^p and the classical statistics; the first call simulates the samples, and other threads wait for it."""
        with self._lock:
            if self._statistics is None:
                self._statistics = _simulate(*self._arguments, progress)
            return self._statistics


@lru_cache(maxsize=16)
def _cached_null(
    n: int, dim: int, method: str, n_projections: int, p: float, simulations: int, seed: int | None
) -> _Null:
    generator = independent_generator(seed, None)
    drawn = method != "exact"
    frames = great_circles(n_projections, dim, method=as_method(method), seed=generator) if drawn else None
    return _Null(n, dim, frames, p, simulations, generator)


def _simulate(
    n: int,
    dim: int,
    frames: NDArray[Any] | None,
    p: float,
    simulations: int,
    generator: np.random.Generator,
    progress: Progress,
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    single = None if frames is None else frames.astype(np.float32)  # rounding is far below the spread of the statistics
    distances = np.empty(simulations)
    classical = {name: np.empty(simulations) for name in CLASSICAL}
    with progress_bar(progress, "uniform samples", simulations) as show:
        for k in range(simulations):
            sample = generator.standard_normal((n, dim), dtype=np.float32)
            sample /= np.linalg.norm(sample, axis=1, keepdims=True)
            if single is None:
                distances[k] = uniform_statistic(sample, generator).value
            else:
                distances[k] = np.mean(backend_for(sample).slice_costs([Measure(sample)], single, p), dtype=np.float64)
            for name, (statistic, _) in CLASSICAL.items():
                classical[name][k] = statistic(sample[:_MAX_NULL_POINTS_IN_PAIRS] if statistic is gine else sample)
            show(k + 1)
    return distances, classical
