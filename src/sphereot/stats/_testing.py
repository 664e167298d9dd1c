"""What the tests share: two samples, one source of randomness, ties, p-values, and the base of their results.

A p-value counts the values of the null sample that are at least the observed one. If symmetry makes values equal, this
count would depend on rounding. Setting ties to the observed value can only raise a p-value, so a test keeps its level.
The tolerances are far below the spread of any null sample that has a spread, so a test keeps its power.
"""

import math
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy
from sphereot._arrays.random import is_own_generator, numpy_generator
from sphereot._arrays.types import Points
from sphereot._arrays.validation import as_frames, as_method, as_samples, as_slice_count
from sphereot.slicing import great_circles


@dataclass(frozen=True, kw_only=True)
class NullTestResult:
    """Base of the results of tests on SSW_p^p, which document the attributes."""

    statistic: float
    p_value: float
    null: NDArray[np.float64] = field(repr=False)
    slice_costs: NDArray[np.float64] = field(repr=False)
    projections: NDArray[np.floating[Any]] = field(repr=False)
    n: int
    dim: int
    p: float

    @property
    def n_projections(self) -> int:
        """Number L of great circles."""
        return len(self.slice_costs)

    @property
    def null_mean(self) -> float:
        """Mean of the statistic under the null hypothesis."""
        return float(np.mean(self.null))

    @property
    def null_deviation(self) -> float:
        """Standard deviation of the statistic under the null hypothesis."""
        return float(np.std(self.null))

    @property
    def effect(self) -> float:
        """(statistic - mean) / standard deviation, with the mean and deviation under the null hypothesis.

        It grows with the number of points; `ratio` tells how large the difference is. If the deviation is 0, it is 0
        for a statistic that equals the mean, and infinite otherwise.
        """
        return float(standardize(self.statistic, self.null_mean, self.null_deviation))

    @property
    def ratio(self) -> float:
        """The statistic divided by its mean under the null hypothesis: about 1 if the hypothesis is true."""
        return ratio_to_mean(self.statistic, self.null_mean)


def ratio_to_mean(value: float, mean: float) -> float:
    """Nonnegative value / mean; if the mean is 0, 1 for a value of 0 and infinity otherwise."""
    if mean > 0:
        return value / mean
    return math.inf if value > 0 else 1.0


# A turn is rounded when its point is projected, and again to the grid: a few units each, for two atoms of a pair.
_UNITS = 16
# A spread below this fraction of the mean is rounding, in float32 too.
_NO_SPREAD = 1e-5


def cost_tolerance(rounding: float, p: float, terms: int) -> float:
    """Largest relative difference that rounding makes between two equal values of SSW_p^p.

    `rounding` is the machine epsilon of the points' dtype: a relative error e of a distance changes its cost to
    (1 - e)^p times the cost. A sum of `terms` nonnegative numbers adds at most one epsilon of float64 for each.
    """
    return -math.expm1(p * math.log1p(-_UNITS * rounding)) + terms * float(np.finfo(np.float64).eps)


def with_ties(null: NDArray[np.float64], observed: float, tolerance: float) -> NDArray[np.float64]:
    """The null sample, with values within the relative tolerance of the observed value set to it.

    >>> with_ties(np.array([0.1, 0.3 - 1e-16, 0.5]), 0.3, 1e-15)
    array([0.1, 0.3, 0.5])
    """
    return np.where(np.abs(null - observed) <= tolerance * abs(observed), observed, null)


def p_value(observed: float, null: NDArray[np.float64]) -> float:
    """P-value (1 + number of null values of at least `observed`) / (1 + number of null values)."""
    return (1 + int(np.sum(null >= observed))) / (1 + len(null))


def standardize(value: Any, mean: Any, deviation: Any) -> Any:
    """(value - mean) / deviation; if the deviation is 0, 0 for value = mean and infinity with its sign otherwise.

    >>> standardize(np.array([3.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0]), np.array([0.5, 0.0, 0.0]))
    array([ 2.,  0., inf])
    """
    least = _NO_SPREAD * np.abs(mean)
    difference = value - np.asarray(mean)
    without_spread = np.where(np.abs(difference) <= least, 0.0, np.copysign(np.inf, difference))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(deviation > least, difference / np.asarray(deviation), without_spread)[()]


_STREAM_KEY = (0x55F7,)


def independent_generator(seed: Any, like: Array | None) -> np.random.Generator:
    """NumPy generator for a seed of any kind; a torch.Generator or a JAX key seeds it with a draw.

    The stream of an int differs from the stream of `numpy.random.default_rng`, which may have generated the points: a
    test has its level only if points and great circles are independent.
    """
    generator = numpy_generator(seed, like)  # raises an error for what is not a seed
    if isinstance(seed, Integral):
        return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=_STREAM_KEY))
    return generator


def choose_frames(
    n_projections: int | None,
    projections: Array | None,
    points: Array,
    seed: Any,
    generator: np.random.Generator,
    method: Any = "quasi",
) -> NDArray[np.floating[Any]]:
    """Frames (L, d, 2) of a test as a NumPy array: `projections` validated, or drawn by the generator.

    A torch.Generator or JAX key in `seed` draws them itself.
    """
    as_method(method)
    if projections is None:
        # Quasi-random circles give more power than the same number of independent ones, and the level stays exact.
        source = seed if is_own_generator(seed) else generator
        frames = great_circles(as_slice_count(n_projections), points.shape[1], method=method, seed=source, like=points)
    else:
        frames = as_frames(projections, points)
        as_slice_count(n_projections, frames)
    return np.ascontiguousarray(to_numpy(frames))


def two_samples(x: Points, y: Points) -> tuple[Any, Any]:
    """Two samples of unit vectors, of one library, device, dimension and dtype."""
    (first, _), (second, _) = as_samples({"x": x, "y": y})
    return first, second
