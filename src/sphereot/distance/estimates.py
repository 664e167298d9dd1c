"""SSW_p^p with its standard error over the draw of great circles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, namespace, to_kind, to_numpy
from sphereot._arrays.random import numpy_generator
from sphereot._arrays.types import ArrayT, EstimateMethod, Frames, Numbers, NumpyPoints, ResultT, Seed
from sphereot._arrays.validation import as_method, as_number, as_order
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures, n_atoms
from sphereot._support.bisection import bisect
from sphereot._support.extras import Progress, progress_bar
from sphereot.distance.bootstrap import PointSampling, resample_points
from sphereot.distance.control_variates import apply_controls
from sphereot.distance.sampling import (
    CircleSampling,
    choose_sampling,
    circle_counts,
    costs_on,
    further_sizes,
    replicate_sizes,
)
from sphereot.distance.ssw import as_measures, detach
from sphereot.slicing.circles import frames_for
from sphereot.slicing.near_centers import near_points

Floats = NDArray[np.float64]

_POINTS_PER_STEP = 100_000_000  # points times great circles between two reports of progress: about a second
_MIN_CIRCLES_PER_STEP = 8  # enough for several threads
_MAX_COORDINATES = 1 << 25  # of frames that are held at once
_MAX_EXACT_WORK = 4e9  # pairs of points times coordinates for which the sum over all pairs is worth its time
_OVERHEAD_OF_PAIR = 32  # in coordinates
_LARGEST_MULTIPLE = 3.0
# For p = 1 and points that nearly coincide, control variates explain all of the cost except on rare great circles. A
# tenth of what they explain stays, so that the standard error is larger than the error of the rare ones.
_EXPLAINED_SHARE = 0.9
_LEVEL = "the confidence level must be between 0 and 1"


@dataclass(frozen=True)
class SSWEstimate(Generic[ResultT]):
    """Estimate of SSW_p^p with its uncertainty.

    Attributes
    ----------
    value : float
        Estimate of SSW_p^p.
    standard_error : float
        Standard error of the value over the draw of great circles, from independent replicates. It is NaN for a single
        replicate and 0 for `method="exact"`.
    p : float
        Order of the distance.
    method : str
        How the great circles were drawn: "quasi", "orthogonal" or "iid" (see `great_circles`); "importance" (more often
        near the poles of tight samples and of points that nearly coincide); "given"; or "exact" (no great circles).
    n_replicates : int
        Number of independent sets of great circles.
    n_controls : int
        Number of available control variates. A small number of great circles uses fewer of them, or none.
    reliable : bool
        False if the standard error cannot be trusted, because a few rare great circles carry a large part of the value.
        Fewer than ten great circles are too few to detect this.
    slice_costs : array, shape (L,)
        W_p^p on each great circle.
    slice_weights : array, shape (L,), or None
        With "importance", the weights of the costs in the mean; with `n_controls`, control variates correct it.
    sampling : PointSampling or None
        With `bootstrap`, how the value varies with the draw of the points; see `sampling_interval`.
    """

    value: float
    standard_error: float
    p: float
    method: str
    n_replicates: int
    n_controls: int
    reliable: bool
    slice_costs: ResultT = field(repr=False)
    slice_weights: ResultT | None = field(default=None, repr=False)
    sampling: PointSampling | None = field(default=None, repr=False)

    @property
    def n_projections(self) -> int:
        """Number L of great circles."""
        return int(self.slice_costs.shape[0])

    @property
    def distance(self) -> float:
        """The distance SSW_p = (SSW_p^p)^(1/p), in turns."""
        return root_and_error(self.value, self.standard_error, self.p)[0]

    @property
    def distance_standard_error(self) -> float:
        """Standard error of `distance`, to first order; 0 if the distance is 0."""
        return root_and_error(self.value, self.standard_error, self.p)[1]

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval for SSW_p^p of these points, over the choice of great circles only.

        It uses the quantiles of Student's t distribution with `n_replicates` - 1 degrees of freedom.
        """
        level = as_number("level", level, lambda number: 0 < number < 1, _LEVEL)
        if self.method == "exact":
            return self.value, self.value
        if self.n_replicates < 2:
            return math.nan, math.nan
        half = t_quantile(level, self.n_replicates - 1) * self.standard_error
        return max(self.value - half, 0.0), self.value + half

    def sampling_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a bootstrap confidence interval for SSW_p^p of the distributions from which the points were drawn.

        It is valid for distributions that differ. If they are equal, the value is about `noise_floor`; use
        `sphereot.stats.two_sample_test` to test whether they differ.
        """
        level = as_number("level", level, lambda number: 0 < number < 1, _LEVEL)
        if self.sampling is None:
            raise ValueError("sampling_interval needs resamples. Call ssw_estimate(..., bootstrap=200).")
        return self.sampling.interval(self.value, level)

    @property
    def noise_floor(self) -> float:
        """Expected SSW_p^p of two samples of the same sizes from the same distribution; needs `bootstrap`."""
        if self.sampling is None:
            raise ValueError("noise_floor needs resamples. Call ssw_estimate(..., bootstrap=200).")
        return self.sampling.noise_floor

    def __str__(self) -> str:
        if self.method == "exact":
            text = f"{self.value:.6g} (exact, p = {self.p:g})"
        else:
            sets = "" if self.n_replicates in (1, self.n_projections) else f", {self.n_replicates} replicates"
            doubt = "" if self.reliable else "; not reliable: a few rare great circles carry a large part of the value"
            text = (
                f"{self.value:.6g} ± {self.standard_error:.2g} "
                f"({self.n_projections} great circles, {self.method}{sets}, p = {self.p:g}{doubt})"
            )
        if self.sampling is None:
            return text
        low, high = self.sampling_interval()
        return (
            f"{text}\n  95% confidence interval (sampling of the points): {low:.6g} to {high:.6g}; "
            f"expected value if the distributions are equal: {self.noise_floor:.6g}"
        )


def ssw_estimate(
    x: ArrayT | NumpyPoints,
    y: ArrayT | NumpyPoints | None = None,
    *,
    p: float = 2,
    x_weights: Numbers | None = None,
    y_weights: Numbers | None = None,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: EstimateMethod | None = None,
    seed: Seed = None,
    rtol: float | None = None,
    max_projections: int = 100_000,
    progress: Progress = False,
    bootstrap: int | None = None,
) -> SSWEstimate[ArrayT]:
    """Estimate SSW_p^p with its standard error, optionally to a relative tolerance.

    Parameters
    ----------
    x, y : array, shape (n, d) and (m, d)
        Unit vectors. Without `y`, the estimate is the distance to the uniform distribution.
    p, x_weights, y_weights, seed
        Order, weights and seed, as in `ssw`.
    n_projections : int, optional
        Number of great circles, 200 by default; with `rtol`, the number to begin with.
    projections : array, shape (L, d, 2), optional
        Great circles to use. The standard error is correct if they were drawn independently.
    method : {"quasi", "orthogonal", "iid", "importance"}, optional
        How to draw the great circles. By default, the best method for the data; see Notes.
    rtol : float, optional
        Double the number of replicates until the standard error is at most `rtol` times the value.
    max_projections : int, default 100_000
        Largest number of great circles, without those of a pilot. The result contains the standard error reached.
    progress : bool or callable (done, total), default False
        Show a bar in the terminal (needs rich), or call a function with the number of great circles that are done and
        the number drawn so far, which grows with `rtol`.
    bootstrap : int, optional
        Number of resamples of the points, at least 10; 200 are usual. It adds `sampling_interval`, over the draw of
        the points, and `noise_floor` to the result. A resample needs a tenth to a fifth of the time of one `ssw`.

    Returns
    -------
    SSWEstimate
        Result with `.value`, `.standard_error`, `.distance`, `.confidence_interval(level)` and `.reliable`.

    Notes
    -----
    The great circles are drawn in independent replicates: usually eight sets of evenly spread circles, each under its
    own random rotation. The standard error is computed from the spread of the replicates, so it is correct for every
    method. The estimate is unbiased, except that negative values are set to 0, and for stopping by `rtol`. By default:

    - For the distance to the uniform distribution with p = 2 and without `n_projections`, the result is exact, if that
      takes a fraction of a second (`ssw_uniform(method="exact")`).
    - If points of the two samples nearly coincide, great circles are drawn more often near the poles of the points
      (`"importance"`), and weighted. A pilot of 128 more great circles confirms the choice.
    - If the samples are concentrated about a few centers and a pilot of 128 to 512 more great circles shows a large
      variance of the cost, great circles are drawn more often near the poles of the centers (`"importance"`).
    - Otherwise, the method is `"quasi"`. In 5 or more dimensions it also uses control variates: functions of a great
      circle that follow the cost and whose means are known.

    See :doc:`/background/accuracy` for variances, and for how often the intervals contain the true value.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> rng = np.random.default_rng(0)
    >>> x = sphereot.sphere.normalize(rng.normal(size=(300, 3)) + [0, 0, 1])
    >>> y = sphereot.sphere.normalize(rng.normal(size=(200, 3)) + [0, 1, 0])
    >>> estimate = sphereot.ssw_estimate(x, y, seed=1, rtol=0.01)
    >>> estimate.standard_error <= 0.01 * estimate.value
    True
    >>> estimate.method, estimate.n_replicates
    ('quasi', 8)
    """
    p = as_order(p)
    samples, weights = {"x": x}, {"x_weights": x_weights}
    if y is not None:
        samples["y"], weights["y_weights"] = y, y_weights
    elif y_weights is not None:
        raise ValueError("y_weights: got weights without y. Pass y too, or leave y_weights out.")
    measures = detach(as_measures(samples, weights, p))
    points = measures[0].points
    generator = numpy_generator(seed, points)
    chosen = None if method is None else as_method(method, also=("importance",))
    if projections is not None:
        if rtol is not None:
            raise ValueError("rtol is not supported for given projections. Pass n_projections, or neither.")
        if chosen is not None:
            raise ValueError("method: got a method and projections. Pass one of them.")
        frames = frames_for(points, n_projections, projections, seed)
        count, dim, _ = frames.shape
        costs = _costs_in_steps(measures, p, frames, 0, progress)
        sampling = CircleSampling("given", dim, None, None, near_points(measures, max(p, 2.0), count))
        estimate = _summarize(costs, None, None, [1] * count, sampling, p)
    else:
        count, limit = circle_counts(n_projections, rtol, max_projections)
        n, dim = points.shape
        is_cheap = 1.0 * n * n * (dim + _OVERHEAD_OF_PAIR) <= _MAX_EXACT_WORK
        if chosen is None and n_projections is None and y is None and p == 2 and is_cheap:
            estimate = _estimate_exactly(measures[0])
        else:
            sampling = choose_sampling(measures, p, chosen, count, generator)
            estimate = _estimate_by_drawing(measures, p, sampling, count, limit, rtol, generator, progress)
    if bootstrap is None:
        return estimate
    return replace(estimate, sampling=resample_points(measures, p, bootstrap, generator.spawn(1)[0], progress))


def _estimate_exactly(measure: Measure) -> SSWEstimate:
    """SSW_2^2 to the uniform distribution, in double precision for points of any dtype."""
    points, weights = measure.in_numpy()
    wide = points.astype(np.float64)
    value = float(backend_for(wide).pair_cost(Measure(wide, weights)))
    no_costs = to_kind(np.empty(0), measure.points)
    return SSWEstimate(value, 0.0, 2.0, "exact", n_replicates=0, n_controls=0, reliable=True, slice_costs=no_costs)


def _estimate_by_drawing(
    measures: Measures,
    p: float,
    sampling: CircleSampling,
    count: int,
    limit: int,
    rtol: float | None,
    generator: np.random.Generator,
    progress: Progress,
) -> SSWEstimate:
    """The estimate on `count` great circles, or on more, up to `limit`, as the tolerance needs."""
    first = further = replicate_sizes(count, sampling.dim, sampling.method, controlled=sampling.controls is not None)
    at_once = max(1, _MAX_COORDINATES // (2 * sampling.dim * first[0]))  # replicates whose frames are held in memory
    sizes: list[int] = []
    parts: list[tuple[Array, Floats | None, Floats | None]] = []
    while further:
        for start in range(0, len(further), at_once):
            part = further[start : start + at_once]
            frames, weights = sampling.draw(part, generator)
            costs = _costs_in_steps(measures, p, frames, sum(sizes), progress)
            parts.append((costs, weights, sampling.controls.values(frames) if sampling.controls else None))
            sizes += part
        all_costs, all_weights, all_controls = map(_join, zip(*parts, strict=True))
        estimate = _summarize(all_costs, all_weights, all_controls, sizes, sampling, p)
        if rtol is None or estimate.standard_error <= rtol * estimate.value:
            break
        further = further_sizes(first, min(estimate.n_projections, limit - estimate.n_projections))
    return estimate


def _join(arrays: Sequence[Array | None]) -> Array | None:
    return None if arrays[0] is None else namespace(arrays[0]).concat(arrays)


def _summarize(
    costs: Array, weights: Floats | None, controls: Floats | None, sizes: list[int], sampling: CircleSampling, p: float
) -> SSWEstimate:
    """The estimate from the costs of replicates of these sizes, with weights and control variates of each circle."""
    contributions = to_numpy(costs).astype(np.float64)
    if weights is not None:
        contributions = weights * contributions
    # The largest of L exponentially distributed costs is about 1 + log L times their mean. A great circle with a
    # larger share of the value shows a heavy tail.
    mean, largest = float(np.mean(contributions)), float(np.max(contributions))
    is_light = mean <= 0 or largest <= _LARGEST_MULTIPLE * (1 + math.log(len(contributions))) * mean
    known = sampling.controls
    if known is not None and controls is not None and len(sizes) > 1:
        folds = np.repeat(np.arange(len(sizes)), sizes)
        controls, share = (controls, 1.0) if weights is None else (weights[:, None] * controls, _EXPLAINED_SHARE)
        rest = apply_controls(contributions, controls, known.means, folds, known.nested, known.circles_per_control)
        contributions = share * rest + (1 - share) * contributions
    means = np.add.reduceat(contributions, np.cumsum([0, *sizes[:-1]])) / sizes
    value, error = map(float, mean_and_error(np.array(sizes, dtype=np.float64), means))
    return SSWEstimate(
        value=max(value, 0.0),
        standard_error=error,
        p=p,
        method=sampling.method,
        n_replicates=len(sizes),
        n_controls=0 if known is None else len(known.means),
        reliable=is_light and not sampling.misses_rare_circles(value, p),
        slice_costs=costs,
        slice_weights=None if weights is None else to_kind(weights, costs),
    )


def _costs_in_steps(measures: Measures, p: float, frames: Array, done: int, progress: Progress) -> Array:
    """Costs on the great circles of `frames`, after `done` others; in several steps if progress is reported."""
    count = frames.shape[0]
    most = count * n_atoms(measures) // _POINTS_PER_STEP
    n_steps = 1 if progress is False else max(1, min(count // _MIN_CIRCLES_PER_STEP, most))
    parts = []
    with progress_bar(progress, "great circles", done + count, done) as show:
        for rows in np.array_split(np.arange(count), n_steps):
            parts.append(costs_on(measures, frames[rows[0] : rows[-1] + 1, ...], p))
            show(done + int(rows[-1]) + 1)
    return _join(parts)


def root_and_error(value: float, standard_error: float, p: float) -> tuple[float, float]:
    """SSW_p of SSW_p^p, and its standard error to first order."""
    if value <= 0:
        return 0.0, math.nan if math.isnan(standard_error) else 0.0
    root = value ** (1 / p)
    return root, standard_error * root / (p * value)


def mean_and_error(sizes: Floats, means: Floats) -> tuple[Floats, Floats]:
    """The mean over great circles and its standard error, from the sizes (R,) and the means (R, ...) of replicates.

    The sum over r of n_r (m_r - m)^2 / (R - 1) estimates the variance of a single great circle.
    """
    sizes = sizes.reshape(-1, *[1] * (means.ndim - 1))
    total = sizes.sum()
    mean = (sizes * means).sum(axis=0) / total
    if len(means) == 1:
        return mean, np.full_like(mean, np.nan)
    differences = means - mean
    largest = np.max(np.abs(differences), axis=0)  # squares of costs of order 16 would underflow
    scaled = differences / np.where(largest > 0, largest, 1.0)
    return mean, largest * np.sqrt((sizes * scaled**2).sum(axis=0) / (len(means) - 1) / total)


def t_quantile(level: float, degrees_of_freedom: int) -> float:
    """The t with P(|T| <= t) = `level`, for Student's T.

    With t = sqrt(dof) tan(theta), the probability is a finite sum of powers of cos(theta) (Abramowitz and Stegun,
    26.7.3 and 26.7.4).

    >>> round(t_quantile(0.95, 7), 4)
    2.3646
    """
    is_odd = degrees_of_freedom % 2
    powers = np.arange(is_odd, degrees_of_freedom - 1, 2)
    coefficients = np.cumprod(np.where(powers > 1, 1 - 1 / np.maximum(powers, 1), 1.0))

    def probability(theta: float) -> float:
        sum_of_powers = math.sin(theta) * float(np.sum(coefficients * math.cos(theta) ** powers))
        return 2 / math.pi * (theta + sum_of_powers) if is_odd else sum_of_powers

    angle = bisect(lambda theta: probability(theta) - level, 0.0, math.pi / 2)
    return math.sqrt(degrees_of_freedom) * math.tan(angle)
