"""What the tests share: random numbers, great circles, ties, p-values, and the base of their results.

A p-value counts the null values that are at least as large as the observed value. If symmetry makes values equal, this
number would depend on rounding. Setting ties to the observed value can only raise a p-value, so a test keeps its
significance level. The tolerances are far below the spread of a null sample, so a test keeps its power.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy
from sphereot._arrays.random import is_own_generator, numpy_generator
from sphereot._arrays.types import Points
from sphereot._arrays.validation import as_samples
from sphereot._support.text import plural, printable
from sphereot._support.units import finite_or_none
from sphereot.slicing.circles import frames_for


@dataclass(frozen=True, kw_only=True)
class NullTestResult:
    """Base of the results of tests on SSW_p^p, which document the attributes."""

    statistic: float
    p_value: float
    null: NDArray[np.float64] = field(repr=False)
    null_mean: float
    null_deviation: float
    slice_costs: NDArray[np.float64] = field(repr=False)
    projections: NDArray[np.floating[Any]] = field(repr=False)
    n: int
    dim: int
    p: float
    note: str | None = None

    @property
    def n_projections(self) -> int:
        """Number L of great circles."""
        return len(self.slice_costs)

    @property
    def effect(self) -> float:
        """(statistic - null_mean) / null_deviation. Unlike `ratio`, it grows with the number of points."""
        return float(standardize(self.statistic, self.null_mean, self.null_deviation))

    @property
    def ratio(self) -> float:
        """The statistic divided by its expected value: about 1 if the null hypothesis is true."""
        return ratio_to_mean(self.statistic, self.null_mean)

    def as_record(self) -> dict[str, Any]:
        """Return the result as one object of JSON."""
        record = {name: getattr(self, name) for name in ("statistic", "p_value", "p", "n_projections", "dim", "note")}
        return record | {"effect": finite_or_none(self.effect), "ratio": finite_or_none(self.ratio)}


_MANY_REPEATED = 0.1  # of the points of a sample


def note_repeated_locations(
    names: Sequence[str],
    samples: Sequence[NDArray[Any]],
    remedy: str = "Use the option groups, which permutes whole groups of points.",
) -> str | None:
    """Return a note if many points of a sample have the location of another one: tests need independent points."""
    for name, points in zip(names, samples, strict=True):
        repeated = sum(count for count in Counter(hash(row.tobytes()) for row in points).values() if count > 1)
        if repeated > _MANY_REPEATED * len(points):
            return (
                f"{repeated:,} of the {plural(len(points), 'point')} of {printable(name)} have the same location as "
                "another point. The test assumes independent points. If points of one location depend on each other "
                f"(one station, document or user), the p-value is too small. {remedy}"
            )
    return None


def ratio_to_mean(value: float, mean: float) -> float:
    """Divide a nonnegative value by a mean. If the mean is 0, return 1 for a value of 0, and infinity otherwise."""
    if mean > 0:
        return value / mean
    return math.inf if value > 0 else 1.0


# A turn is rounded when its point is projected, and again to the grid: a few units each, for two atoms of a pair.
_UNITS = 16
# A spread below this fraction of the mean is rounding, in float32 too.
_NO_SPREAD = 1e-5


def cost_tolerance(rounding: float, p: float, terms: int) -> float:
    """Bound the relative difference that rounding makes between two equal values of SSW_p^p.

    `rounding` is the machine epsilon of the points' dtype: a relative error e of a distance changes its cost to
    (1 - e)^p times the cost. A sum of `terms` nonnegative numbers adds at most one epsilon of float64 for each.
    """
    return -math.expm1(p * math.log1p(-_UNITS * rounding)) + terms * float(np.finfo(np.float64).eps)


def with_ties(null: NDArray[np.float64], observed: float, tolerance: float) -> NDArray[np.float64]:
    """Set the values of a null sample that are within the relative tolerance of the observed value to that value.

    >>> with_ties(np.array([0.1, 0.3 - 1e-16, 0.5]), 0.3, 1e-15)
    array([0.1, 0.3, 0.5])
    """
    return np.where(np.abs(null - observed) <= tolerance * abs(observed), observed, null)


def p_value(observed: float, null: NDArray[np.float64]) -> float:
    """Compute (1 + number of null values of at least `observed`) / (1 + number of null values)."""
    return (1 + int(np.sum(null >= observed))) / (1 + len(null))


def standardize(value: Any, mean: Any, deviation: Any) -> Any:
    """Compute (value - mean) / deviation. If the deviation is 0, it is 0 for value = mean, otherwise infinite.

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
    """Return a NumPy generator for a seed of any kind; a torch.Generator or a JAX key seeds it with a draw.

    The stream of an int differs from the stream of `numpy.random.default_rng`, which may have generated the points: a
    test keeps its significance level only if points and great circles are independent.
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
    """Return the great circles (L, d, 2) of a test: `projections` validated, or drawn by the generator.

    A torch.Generator or JAX key in `seed` draws them itself.
    """
    source = seed if is_own_generator(seed) else generator
    return np.ascontiguousarray(to_numpy(frames_for(points, n_projections, projections, source, method)))


def two_samples(x: Points, y: Points) -> tuple[Any, Any]:
    """Validate two samples of unit vectors, of one library, device, dimension and dtype."""
    (first, _), (second, _) = as_samples({"x": x, "y": y})
    return first, second
