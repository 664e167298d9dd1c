"""SSW_p^p with its standard error over the draw of great circles."""

import math
from dataclasses import dataclass
from numbers import Real
from statistics import NormalDist
from typing import Any

from sphereot._arrays.libraries import Array, namespace, without_gradient
from sphereot._arrays.random import normal_source
from sphereot._arrays.validation import as_order, as_points, as_slice_count, as_weights, as_whole_number
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures
from sphereot._support.keyword_options import options_by_name
from sphereot.distance.arguments import frames_for, two_measures
from sphereot.slicing.drawing import independent_frames

__all__ = ["SSWEstimate", "ssw_estimate"]


@dataclass(frozen=True)
class SSWEstimate:
    """A Monte-Carlo estimate of SSW_p^p with its uncertainty.

    Attributes
    ----------
    value : float
        The mean of the slice costs.
    standard_error : float
        The standard error of that mean over the draw of great circles; NaN for a single slice.
    slice_costs : array, shape (L,)
        W_p^p on each great circle.
    p : float
        The order.
    """

    value: float
    standard_error: float
    slice_costs: Array
    p: float

    @property
    def n_projections(self) -> int:
        """The number L of great circles."""
        return int(self.slice_costs.shape[0])

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """An interval that holds SSW_p^p of these points with probability `level`, by the central limit theorem.

        It speaks of the choice of great circles only, not of the points being a sample of something larger.
        """
        if not isinstance(level, Real) or not 0 < level < 1:
            raise ValueError(f"level: got {level!r}, but a probability strictly between 0 and 1 is needed.")
        half = NormalDist().inv_cdf(0.5 + level / 2) * self.standard_error
        return max(self.value - half, 0.0), self.value + half

    def __str__(self) -> str:
        return f"{self.value:.6g} ± {self.standard_error:.2g} ({self.n_projections} slices, p = {self.p:g})"


@options_by_name
def ssw_estimate(
    x: Array,
    y: Array | None = None,
    *,
    p: float = 2,
    x_weights: Array | None = None,
    y_weights: Array | None = None,
    n_projections: int | None = None,
    projections: Array | None = None,
    seed: Any = None,
    rtol: float | None = None,
    max_projections: int = 100_000,
) -> SSWEstimate:
    """SSW_p^p with its Monte-Carlo standard error, optionally to a relative tolerance.

    Parameters
    ----------
    x, y : array, shape (n, d) and (m, d)
        Unit vectors. Without `y`, the estimate is against the uniform measure.
    p, x_weights, y_weights, projections, seed
        As in `ssw`. The standard error takes the slices as independent draws, which `projections` should then be.
    n_projections : int, optional
        The number of great circles, 200 by default; with `rtol`, how many to begin with.
    rtol : float, optional
        Draw more great circles, twice as many each time, until the standard error is at most `rtol` times the value.
    max_projections : int
        Never use more than this many; the result then says what was reached.

    Returns
    -------
    SSWEstimate
        With `.value`, `.standard_error`, `.slice_costs`, `.n_projections` and `.confidence_interval(level)`.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> rng = np.random.default_rng(0)
    >>> x = sphereot.sphere.normalize(rng.normal(size=(300, 3)) + [0, 0, 1])
    >>> estimate = sphereot.ssw_estimate(x, seed=1, rtol=0.01)
    >>> estimate.standard_error <= 0.01 * estimate.value
    True
    """
    p = as_order(p)
    measures = _constant_measures(x, y, x_weights, y_weights)
    x = measures[0].points
    backend = backend_for(x)

    def costs(frames: Array) -> Array:
        return backend.slice_costs(measures, frames, p)

    if rtol is None:
        return _estimate(costs(frames_for(x, n_projections, projections, seed)), p)
    if projections is not None:
        raise ValueError("rtol: cannot be met with fixed projections; give n_projections or nothing instead.")
    if not isinstance(rtol, Real) or not 0 < rtol < math.inf:
        raise ValueError(f"rtol: got {rtol!r}, but a positive number is needed.")
    most = as_whole_number("max_projections", max_projections, 1, "the most great circles to draw")
    draw = normal_source(seed, x)
    xp, dim = namespace(x), x.shape[1]
    slice_costs = costs(independent_frames(draw, min(as_slice_count(n_projections), most), dim))
    while True:
        estimate = _estimate(slice_costs, p)
        count = estimate.n_projections
        if estimate.standard_error <= rtol * estimate.value or count >= most:
            return estimate
        slice_costs = xp.concat([slice_costs, costs(independent_frames(draw, min(count, most - count), dim))])


def _constant_measures(x: Array, y: Array | None, x_weights: Array | None, y_weights: Array | None) -> Measures:
    """The validated measures, cut off from automatic differentiation: a number with its error is no loss."""
    measures: Measures
    if y is None:
        if y_weights is not None:
            raise ValueError("y_weights: given without y; pass y too, or leave y_weights out.")
        x = as_points("x", x)
        measures = (Measure(x, as_weights("x_weights", x_weights, "x", x)),)
    else:
        measures = two_measures(x, y, x_weights, y_weights)
    return [
        Measure(without_gradient(points), None if weights is None else without_gradient(weights))
        for points, weights in measures
    ]


def _estimate(costs: Array, p: float) -> SSWEstimate:
    xp = namespace(costs)
    count = costs.shape[0]
    value = float(xp.mean(costs))
    deviation = float(xp.std(costs, correction=1.0)) if count > 1 else math.nan
    return SSWEstimate(value, deviation / math.sqrt(count), costs, p)
