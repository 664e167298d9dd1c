"""Is a sample uniform on the sphere? A test on SSW to the uniform measure, beside three classical ones.

The great circles are fixed first. Samples of the uniform law, of the same size and seen on the same great circles, then
give the law of every statistic under the null hypothesis, so that the level is exact.

For p = 2 the statistic is an old acquaintance: on one great circle n W_2^2 to the uniform measure is Watson's U^2, so
n SSW_2^2 is the mean of Watson's U^2 over great circles, and its expectation under uniformity is 1/12 for all n, d, L.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy
from sphereot._arrays.random import is_own_generator
from sphereot._arrays.validation import as_order, as_points, as_slice_count, as_whole_number
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure
from sphereot._support.keyword_options import options_by_name
from sphereot._support.progress import Progress, progress_bar
from sphereot._support.text import cost_name
from sphereot.slicing.circles import great_circles
from sphereot.stats._classical import bingham, gine, rayleigh
from sphereot.stats._random import drawn_frames, numpy_generator
from sphereot.stats._results import NullTestResult
from sphereot.stats._ties import cost_tolerance, p_value, with_ties

__all__ = ["ClassicalTest", "UniformityResult", "clear_null_cache", "uniformity_test"]

# Beyond these sizes the law under the null hypothesis is that of so many points: it differs by order 1 / points.
_MOST_NULL_POINTS = 2_000
_MOST_NULL_POINTS_IN_PAIRS = 250
_MOST_POINTS_IN_PAIRS = 10_000

# Statistics of points in float64 that are equal but for rounding, as those of single points are.
_CLASSICAL_TOLERANCE = 1e-12

_CLASSICAL: dict[str, Callable[[NDArray[np.float64]], float]] = {"Rayleigh": rayleigh, "Bingham": bingham, "Giné": gine}


@dataclass(frozen=True)
class ClassicalTest:
    """A classical test of uniformity: its name, statistic and Monte-Carlo p-value."""

    name: str
    statistic: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class UniformityResult(NullTestResult):
    """What `uniformity_test` found.

    Attributes
    ----------
    statistic : float
        SSW_p^p between the sample and the uniform measure, in turns to the power p.
    p_value : float
        (1 + number of simulated samples at least that far from uniform) / (1 + simulations).
    null : array, shape (simulations,)
        SSW_p^p of uniform samples of size n, on the same great circles. Values that differ from the statistic by
        rounding alone are set to it.
    classical : tuple of ClassicalTest
        The Rayleigh, Bingham and Giné tests of the same sample, with p-values from the same simulated samples.
    slice_costs : array, shape (L,)
        W_p^p to the uniform measure on every great circle; their mean is the statistic.
    projections : array, shape (L, d, 2)
        The great circles; `ssw_uniform` with these `projections` gives the statistic.
    n, dim : int
        The number of points and the dimension d of the space around the sphere.
    p : float
        The order.
    """

    classical: tuple[ClassicalTest, ...]

    @property
    def simulations(self) -> int:
        """The number of simulated samples."""
        return len(self.null)

    def __str__(self) -> str:
        lines = [
            f"Test of uniformity: {self.n} points in dimension {self.dim}, {self.n_projections} great circles, "
            f"{self.simulations} simulated samples",
            f"  {'test':<10}{'statistic':>12}{'p-value':>10}",
            f"  {cost_name(self.p):<10}{self.statistic:>12.5g}{self.p_value:>10.4g}"
            f"   ({self.ratio:.3g} times chance, {self.effect:.2f} standard deviations above)",
        ]
        lines += [f"  {test.name:<10}{test.statistic:>12.5g}{test.p_value:>10.4g}" for test in self.classical]
        return "\n".join(lines)


@options_by_name
def uniformity_test(
    x: Array,
    *,
    p: float = 2,
    simulations: int = 999,
    n_projections: int | None = None,
    projections: Array | None = None,
    null_points: int | None = None,
    seed: Any = None,
    progress: Progress = False,
) -> UniformityResult:
    """Test whether a sample is uniform on the sphere, by SSW_p^p to the uniform measure.

    Parameters
    ----------
    x : array, shape (n, d)
        Unit vectors: independent draws of one law.
    p : float
        Order, from 1 to 1000.
    simulations : int
        How many uniform samples to simulate. P-values are at least 1 / (1 + simulations).
    n_projections : int, optional
        The number L of great circles, 200 by default: well-placed ones (`great_circles(method="quasi")`), which see
        more than as many independent ones.
    projections : array, shape (L, d, 2), optional
        The great circles themselves; they must not have been chosen by looking at the points.
    null_points : int, optional
        The size of the simulated samples: n, but not more than 2000, by default. With less than n points the law of
        n^(p/2) SSW_p^p is taken from them, which is off by order 1 / null_points.
    seed : int, generator or None
        Source of the great circles and of the simulated samples, as in `ssw`. With an int they are of a stream of their
        own, so that points made with the same int do no harm.
    progress : bool or callable (done, total)
        Show a bar in the terminal (needs rich), or tell a function how many samples are simulated, and of how many. The
        result is the same to the last bit. Nothing is shown where the simulated samples are kept from before.

    Returns
    -------
    UniformityResult
        With `.statistic`, `.p_value`, `.null`, `.effect` and `.classical`, the Rayleigh, Bingham and Giné tests;
        printed, it is a short table.

    Notes
    -----
    What was simulated is kept for the next sample of the same n, d, L and p (of the last 16 kinds; see
    `clear_null_cache`): under one int seed, and under None within one process. Every p-value is exact by itself, but
    those that share simulated samples vary together. With `projections` or a generator nothing is kept.

    For p = 2 the k-th harmonic of the density on a great circle counts with weight 1 / k^2. A law that is symmetric
    under x -> -x has even harmonics alone, a quarter of the weight at most: for axes and bands the Bingham test sees
    more, and the Rayleigh test nothing at all.

    The Giné test takes all pairs of points and is left out above 10,000 points; its law under uniformity is simulated
    with 250 points at most.

    References
    ----------
    K. V. Mardia and P. E. Jupp, Directional Statistics (2000), Chapter 10. G. S. Watson, Goodness-of-fit tests on a
    circle, Biometrika 48 (1961). E. Giné, Invariant tests for uniformity on compact Riemannian manifolds based on
    Sobolev norms, Annals of Statistics 3 (1975).

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> from sphereot.stats import uniformity_test
    >>> rng = np.random.default_rng(0)
    >>> x = sphereot.sphere.normalize(rng.normal(size=(100, 3)) + [1, 0, 0])
    >>> result = uniformity_test(x, simulations=199, n_projections=50, seed=0)
    >>> result.p_value
    0.005
    >>> [test.name for test in result.classical]
    ['Rayleigh', 'Bingham', 'Giné']
    """
    p, x = as_order(p), as_points("x", x)
    simulations = as_whole_number("simulations", simulations, 1, "the number of simulated samples")
    n, dim = int(x.shape[0]), int(x.shape[1])
    size = min(n, _MOST_NULL_POINTS)
    if null_points is not None:
        size = as_whole_number("null_points", null_points, 1, "the size of the simulated samples")
        if size > n:
            raise ValueError(f"null_points: found {size}, but x has only {n} points; give at most as many.")
    if projections is None and (seed is None or (isinstance(seed, Integral) and not isinstance(seed, bool))):
        kind = (size, dim, as_slice_count(n_projections), p, simulations, None if seed is None else int(seed))
        kept = _kept_null(*kind).found(progress)
    else:
        generator = numpy_generator(seed, x)
        frames = drawn_frames(n_projections, projections, x, seed if is_own_generator(seed) else generator)
        kept = _simulate(size, frames, p, simulations, generator, progress)
    return _uniformity_test(to_numpy(x), p, size, kept)


def _uniformity_test(points: NDArray[Any], p: float, null_points: int, simulated: "_Null") -> UniformityResult:
    """`uniformity_test` of a validated NumPy array against simulated samples of `null_points` points."""
    n, dim = points.shape
    frames = simulated.frames.astype(points.dtype, copy=False)
    slice_costs = np.asarray(backend_for(points).slice_costs([Measure(points)], frames, p), dtype=np.float64)
    statistic = float(np.mean(slice_costs))
    # Samples are simulated in float32, whatever the type of the points.
    tolerance = cost_tolerance(float(np.finfo(np.float32).eps), p, n + len(frames))
    null = with_ties(simulated.distances * (null_points / n) ** (p / 2), statistic, tolerance)
    tests = [
        ClassicalTest(name, value, p_value(value, with_ties(simulated.classical[name], value, _CLASSICAL_TOLERANCE)))
        for name, value in _classical_statistics(_unit_in_double(points), _MOST_POINTS_IN_PAIRS).items()
    ]
    return UniformityResult(
        statistic=statistic,
        p_value=p_value(statistic, null),
        null=null,
        classical=tuple(tests),
        slice_costs=slice_costs,
        projections=simulated.frames,
        n=n,
        dim=dim,
        p=p,
    )


def clear_null_cache() -> None:
    """Forget what `uniformity_test` has simulated so far; with seed=None the next tests draw new great circles."""
    _kept_null.cache_clear()


@dataclass(frozen=True)
class _Null:
    """Statistics of uniform samples on fixed great circles."""

    frames: NDArray[np.floating[Any]]
    distances: NDArray[np.float64]
    classical: dict[str, NDArray[np.float64]]


class _KeptNull:
    """What is simulated once for a kind of sample, when it is asked for first; threads that ask meanwhile wait."""

    def __init__(self, n: int, dim: int, n_projections: int, p: float, simulations: int, seed: int | None):
        self._kind = n, dim, n_projections, p, simulations, seed
        self._lock = Lock()
        self._null: _Null | None = None

    def found(self, progress: Progress) -> _Null:
        with self._lock:
            if self._null is None:
                n, dim, n_projections, p, simulations, seed = self._kind
                generator = numpy_generator(seed, None)
                frames = great_circles(n_projections, dim, method="quasi", seed=generator)
                self._null = _simulate(n, frames, p, simulations, generator, progress)
            return self._null


_kept_null = lru_cache(maxsize=16)(_KeptNull)


def _simulate(
    n: int, frames: NDArray[Any], p: float, simulations: int, generator: np.random.Generator, progress: Progress
) -> _Null:
    dim = frames.shape[1]
    single = frames.astype(np.float32)  # far more digits than the statistics have chance in
    distances = np.empty(simulations)
    classical: dict[str, list[float]] = {name: [] for name in _CLASSICAL}
    with progress_bar(progress, "uniform samples", simulations) as show:
        for k in range(simulations):
            sample = generator.standard_normal((n, dim), dtype=np.float32)
            sample /= np.linalg.norm(sample, axis=1, keepdims=True)
            distances[k] = np.mean(backend_for(sample).slice_costs([Measure(sample)], single, p), dtype=np.float64)
            several = _unit_in_double(sample)
            for name, statistic in _CLASSICAL.items():
                of = several[:_MOST_NULL_POINTS_IN_PAIRS] if statistic is gine else several
                classical[name].append(statistic(of))
            show(k + 1)
    return _Null(frames, distances, {name: np.array(found) for name, found in classical.items()})


def _unit_in_double(points: NDArray[Any]) -> NDArray[np.float64]:
    """Points in float64, of unit length to that precision: the classical statistics would show what float32 left."""
    several = points.astype(np.float64)
    several /= np.linalg.norm(several, axis=1, keepdims=True)
    return several


def _classical_statistics(points: NDArray[np.float64], most_in_pairs: int) -> dict[str, float]:
    return {
        name: statistic(points)
        for name, statistic in _CLASSICAL.items()
        if statistic is not gine or len(points) <= most_in_pairs
    }
