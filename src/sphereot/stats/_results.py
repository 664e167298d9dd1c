"""Base class of the results of tests: a statistic and its values under the null hypothesis."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot.stats._ties import standardized

__all__ = ["NullTestResult"]


@dataclass(frozen=True, kw_only=True)
class NullTestResult:
    """Base of the results of tests on SSW_p^p.

    Attributes
    ----------
    statistic : float
        SSW_p^p, in turns to the power p.
    p_value : float
        (1 + number of values in `null` that are at least the statistic) / (1 + their number).
    null : array, shape (K,)
        Values of the statistic under the null hypothesis, on the same great circles. Values that differ from the
        statistic by rounding alone are set to it.
    slice_costs : array, shape (L,)
        W_p^p on every great circle; their mean is the statistic.
    projections : array, shape (L, d, 2)
        Frames of the great circles.
    n : int
        Number of points of the (first) sample.
    dim : int
        Dimension d of the space around the sphere.
    p : float
        Order of the distance.
    """

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
        """(statistic - mean) / standard deviation, those under the null hypothesis.

        Where the deviation is zero it is 0 if the statistic equals the mean, and infinite if not. It grows
        with the number of points; `ratio` tells how large the difference is.
        """
        return standardized(self.statistic, self.null_mean, self.null_deviation)

    @property
    def ratio(self) -> float:
        """The statistic divided by its mean under the null hypothesis: 1 where chance explains all of it.

        Where that mean is 0 it is 1 if the statistic is 0 too, and infinite if not.
        """
        mean = self.null_mean
        if mean > 0:
            return self.statistic / mean
        return math.inf if self.statistic > 0 else 1.0
