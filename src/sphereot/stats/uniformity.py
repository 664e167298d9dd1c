"""Test of uniformity on the sphere by SSW to the uniform distribution, with three classical tests.

The great circles are fixed first. Simulated uniform samples of the same size, on the same great circles, then give the
distribution of every statistic under the null hypothesis, so that the level is exact.

For p = 2, n W_2^2 to the uniform distribution on one great circle is Watson's U^2. So n SSW_2^2 averages Watson's U^2
over great circles, and its expectation under uniformity is 1/12 for all n, d and L.
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
from sphereot._arrays.validation import as_int, as_order, as_points, as_slice_count
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

# Larger samples are compared with simulated samples of this size, whose distribution differs by order 1 / points.
_MAX_NULL_POINTS = 2_000
_MAX_NULL_POINTS_IN_PAIRS = 250
_MAX_POINTS_IN_PAIRS = 10_000

# Classical statistics that differ by less, relatively, are ties: those of single points are all equal.
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
    """Result of `uniformity_test`.

    Attributes
    ----------
    statistic : float
        SSW_p^p between the sample and the uniform distribution, in turns to the power p.
    p_value : float
        (1 + number of simulated samples at least that far from uniform) / (1 + simulations).
    null : array, shape (simulations,)
        SSW_p^p of uniform samples of size n, on the same great circles. Values that differ from the statistic by
        rounding alone are set to it.
    classical : tuple of ClassicalTest
        The Rayleigh, Bingham and Giné tests of the same sample, with p-values from the same simulated samples.
    slice_costs : array, shape (L,)
        W_p^p to the uniform distribution on every great circle; their mean is the statistic.
    projections : array, shape (L, d, 2)
        The great circles; `ssw_uniform` with these `projections` gives the statistic.
    n, dim : int
        Number of points, and dimension d of the space around the sphere.
    p : float
        Order of the distance.
    """

    classical: tuple[ClassicalTest, ...]

    @property
    def simulations(self) -> int:
        """Number of simulated samples."""
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
    """Test whether a sample is uniform on the sphere, by SSW_p^p to the uniform distribution.

    Parameters
    ----------
    x : array, shape (n, d)
        Unit vectors: independent draws.
    p : float
        Order, from 1 to 1000.
    simulations : int
        Number of uniform samples to simulate. P-values are at least 1 / (1 + simulations).
    n_projections : int, optional
        Number L of great circles, 200 by default. They are well placed (`great_circles(method="quasi")`), which gives
        more power than as many independent ones.
    projections : array, shape (L, d, 2), optional
        Frames of the great circles, as returned by `great_circles`. Their choice must not depend on the points.
    null_points : int, optional
        Number of points of the simulated samples: n, but not more than 2000, by default. With fewer than n points they
        give the distribution of n^(p/2) SSW_p^p with an error of order 1 / null_points.
    seed : int, generator or None
        Source of the great circles and of the simulated samples, as in `ssw`. An int gives a stream of its own,
        independent of points generated with the same int.
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
    Simulated samples are cached for the next sample with the same n, d, L, p, simulations and int seed (or seed None,
    within one process); the last 16 combinations are kept, see `clear_null_cache`. Every p-value is exact by itself,
    but those that share simulated samples are correlated. With `projections` or a generator nothing is cached.

    For p = 2 the k-th harmonic of the density on a great circle has weight 1 / k^2. A distribution that is symmetric
    under x -> -x has even harmonics alone, with a quarter of the weight at most: there the Bingham test has more power,
    and the Rayleigh test none.

    The Giné test takes all pairs of points and is left out above 10,000 points; its distribution under uniformity is
    simulated with at most 250 points.

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
    simulations = as_int("simulations", simulations, 1, "the number of simulated samples")
    n, dim = int(x.shape[0]), int(x.shape[1])
    size = min(n, _MAX_NULL_POINTS)
    if null_points is not None:
        size = as_int("null_points", null_points, 1, "the size of the simulated samples")
        if size > n:
            raise ValueError(f"null_points: got {size}, but x has only {n} points; give at most {n}.")
    if projections is None and (seed is None or (isinstance(seed, Integral) and not isinstance(seed, bool))):
        kind = (size, dim, as_slice_count(n_projections), p, simulations, None if seed is None else int(seed))
        simulated = _cached_null(*kind).get(progress)
    else:
        generator = numpy_generator(seed, x)
        frames = drawn_frames(n_projections, projections, x, seed if is_own_generator(seed) else generator)
        simulated = _simulate(size, frames, p, simulations, generator, progress)
    return _uniformity_test(to_numpy(x), p, size, simulated)


def _uniformity_test(points: NDArray[Any], p: float, null_points: int, simulated: "_Null") -> UniformityResult:
    """`uniformity_test` of a validated NumPy array against simulated samples of `null_points` points."""
    n, dim = points.shape
    frames = simulated.frames.astype(points.dtype, copy=False)
    slice_costs = np.asarray(backend_for(points).slice_costs([Measure(points)], frames, p), dtype=np.float64)
    statistic = float(np.mean(slice_costs))
    # Samples are simulated in float32, whatever the dtype of the points.
    tolerance = cost_tolerance(float(np.finfo(np.float32).eps), p, n + len(frames))
    null = with_ties(simulated.distances * (null_points / n) ** (p / 2), statistic, tolerance)
    tests = [
        ClassicalTest(name, value, p_value(value, with_ties(simulated.classical[name], value, _CLASSICAL_TOLERANCE)))
        for name, value in _classical_statistics(_normalized_float64(points), _MAX_POINTS_IN_PAIRS).items()
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
    """Clear the cache of samples that `uniformity_test` has simulated; with seed=None the next test draws new ones."""
    _cached_null.cache_clear()


@dataclass(frozen=True)
class _Null:
    """Statistics of uniform samples on fixed great circles."""

    frames: NDArray[np.floating[Any]]
    distances: NDArray[np.float64]
    classical: dict[str, NDArray[np.float64]]


class _CachedNull:
    """Statistics that are simulated at the first call of `get`; other threads wait for them."""

    def __init__(self, n: int, dim: int, n_projections: int, p: float, simulations: int, seed: int | None):
        self._kind = n, dim, n_projections, p, simulations, seed
        self._lock = Lock()
        self._null: _Null | None = None

    def get(self, progress: Progress) -> _Null:
        with self._lock:
            if self._null is None:
                n, dim, n_projections, p, simulations, seed = self._kind
                generator = numpy_generator(seed, None)
                frames = great_circles(n_projections, dim, method="quasi", seed=generator)
                self._null = _simulate(n, frames, p, simulations, generator, progress)
            return self._null


_cached_null = lru_cache(maxsize=16)(_CachedNull)


def _simulate(
    n: int, frames: NDArray[Any], p: float, simulations: int, generator: np.random.Generator, progress: Progress
) -> _Null:
    dim = frames.shape[1]
    single = frames.astype(np.float32)  # rounding is far below the spread of the statistics
    distances = np.empty(simulations)
    classical: dict[str, list[float]] = {name: [] for name in _CLASSICAL}
    with progress_bar(progress, "uniform samples", simulations) as show:
        for k in range(simulations):
            sample = generator.standard_normal((n, dim), dtype=np.float32)
            sample /= np.linalg.norm(sample, axis=1, keepdims=True)
            distances[k] = np.mean(backend_for(sample).slice_costs([Measure(sample)], single, p), dtype=np.float64)
            points = _normalized_float64(sample)
            for name, statistic in _CLASSICAL.items():
                classical[name].append(statistic(points[:_MAX_NULL_POINTS_IN_PAIRS] if statistic is gine else points))
            show(k + 1)
    return _Null(frames, distances, {name: np.array(values) for name, values in classical.items()})


def _normalized_float64(points: NDArray[Any]) -> NDArray[np.float64]:
    """Points normalized in float64: the classical statistics would show the rounding of lengths in float32."""
    normalized = points.astype(np.float64)
    normalized /= np.linalg.norm(normalized, axis=1, keepdims=True)
    return normalized


def _classical_statistics(points: NDArray[np.float64], max_in_pairs: int) -> dict[str, float]:
    return {
        name: statistic(points)
        for name, statistic in _CLASSICAL.items()
        if statistic is not gine or len(points) <= max_in_pairs
    }
