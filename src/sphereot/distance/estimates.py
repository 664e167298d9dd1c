"""SSW_p^p with its standard error over the draw of great circles."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Real
from statistics import NormalDist
from typing import Any, Generic, overload

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, device, namespace, to_kind, to_numpy
from sphereot._arrays.random import numpy_generator
from sphereot._arrays.types import ArrayT, EstimateMethod, Frames, Numbers, NumpyPoints, Points, ResultT, Seed
from sphereot._arrays.validation import (
    as_int,
    as_method,
    as_order,
    as_samples,
    as_slice_count,
)
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures, n_atoms
from sphereot._support.bisection import bisect
from sphereot._support.extras import Progress, progress_bar
from sphereot.distance.bootstrap import PointSampling, resampled
from sphereot.distance.sampling import CircleSampling, adjusted, choose_sampling, costs_on, near_points
from sphereot.distance.ssw import frames_for, two_measures, without_gradients

Floats = NDArray[np.float64]

_POINTS_PER_STEP = 100_000_000  # points times great circles between two reports of progress: about a second
_MIN_CIRCLES_PER_STEP = 8  # enough for several threads
_MAX_COORDINATES = 1 << 25  # of frames that are held at once
_MAX_EXACT_WORK = 4e9  # pairs of points times coordinates for which the sum over all pairs is worth its time
_OVERHEAD_OF_PAIR = 32  # in coordinates

_LARGEST_MULTIPLE = 3.0


@dataclass(frozen=True)
class SSWEstimate(Generic[ResultT]):
    """An estimate of SSW_p^p with its uncertainty.

    Attributes
    ----------
    value : float
        The estimate of SSW_p^p.
    standard_error : float
        The standard error of the value over the draw of great circles, from independent replicates; NaN for a single
        replicate, 0 for `method="exact"`.
    p : float
        The order.
    method : str
        How great circles were drawn: "quasi", "orthogonal" or "iid" (see `great_circles`); "importance", more often
        near the poles of tight samples and of points that nearly coincide; "given", by the caller; or "exact",
        without great circles.
    n_replicates : int
        The number of independent sets of great circles.
    n_controls : int
        The number of control variates at hand; few great circles use fewer of them, or none.
    reliable : bool
        False if the standard error cannot be trusted: a single great circle carries a large part of the value, or
        points of the two samples nearly coincide and the method rarely draws the great circles that carry the value.
        Fewer than ten great circles cannot tell.
    slice_costs : array, shape (L,)
        W_p^p on each great circle.
    slice_weights : array, shape (L,), or None
        With "importance", the weights of the great circles: the value is the mean of weights times costs.
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
        """The number L of great circles."""
        return int(self.slice_costs.shape[0])

    @property
    def distance(self) -> float:
        """The distance SSW_p = (SSW_p^p)^(1/p), in turns."""
        return root_and_error(self.value, self.standard_error, self.p)[0]

    @property
    def distance_standard_error(self) -> float:
        """The standard error of `distance`, to first order; 0 where the distance is 0."""
        return root_and_error(self.value, self.standard_error, self.p)[1]

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """An interval that holds SSW_p^p of these points with probability `level`.

        It takes the quantiles of Student's t distribution with `n_replicates` - 1 degrees of freedom. It speaks of the
        choice of great circles only, not of the points being a sample of something larger.
        """
        if not isinstance(level, Real) or not 0 < level < 1:
            raise ValueError(f"level: got {level!r}, but a probability strictly between 0 and 1 is needed.")
        if self.method == "exact":
            return self.value, self.value
        if self.n_replicates < 2:
            return math.nan, math.nan
        half = t_quantile(float(level), self.n_replicates - 1) * self.standard_error
        return max(self.value - half, 0.0), self.value + half

    def sampling_interval(self, level: float = 0.95) -> tuple[float, float]:
        """An interval for SSW_p^p of the distributions of which the points are samples, by the bootstrap.

        It holds for distributions that differ. Where they are equal, the value is about `noise_floor`, and a test
        answers whether they differ (`sphereot.stats.two_sample_test`).
        """
        if not isinstance(level, Real) or not 0 < level < 1:
            raise ValueError(f"level: got {level!r}, but a probability strictly between 0 and 1 is needed.")
        if self.sampling is None:
            raise ValueError("sampling_interval: needs resamples; call ssw_estimate(..., bootstrap=200).")
        return self.sampling.interval(self.value, float(level))

    @property
    def noise_floor(self) -> float:
        """Mean of SSW_p^p between two samples of one distribution of the same sizes; needs `bootstrap`."""
        if self.sampling is None:
            raise ValueError("noise_floor: needs resamples; call ssw_estimate(..., bootstrap=200).")
        return self.sampling.noise_floor

    def __str__(self) -> str:
        text = self._value_text()
        if self.sampling is None:
            return text
        low, high = self.sampling_interval()
        return (
            f"{text}\n  over the draw of the points: {low:.6g} to {high:.6g} with probability 95%; two samples of one "
            f"distribution have {self.noise_floor:.6g}"
        )

    def _value_text(self) -> str:
        if self.method == "exact":
            return f"{self.value:.6g} (exact, p = {self.p:g})"
        sets = "" if self.n_replicates in (1, self.n_projections) else f" in {self.n_replicates} replicates"
        doubt = "" if self.reliable else "; not reliable: a few rare great circles carry a large part of the value"
        return (
            f"{self.value:.6g} ± {self.standard_error:.2g} "
            f"({self.n_projections} {self.method} slices{sets}, p = {self.p:g}{doubt})"
        )


@overload
def ssw_estimate(
    x: NumpyPoints,
    y: NumpyPoints | None = ...,
    *,
    p: float = ...,
    x_weights: Numbers | None = ...,
    y_weights: Numbers | None = ...,
    n_projections: int | None = ...,
    projections: Frames | None = ...,
    method: EstimateMethod | None = ...,
    seed: Seed = ...,
    rtol: float | None = ...,
    max_projections: int = ...,
    progress: Progress = ...,
    bootstrap: int | None = ...,
) -> SSWEstimate[NDArray[Any]]: ...


@overload
def ssw_estimate(
    x: ArrayT | NumpyPoints,
    y: ArrayT | NumpyPoints | None = ...,
    *,
    p: float = ...,
    x_weights: Numbers | None = ...,
    y_weights: Numbers | None = ...,
    n_projections: int | None = ...,
    projections: Frames | None = ...,
    method: EstimateMethod | None = ...,
    seed: Seed = ...,
    rtol: float | None = ...,
    max_projections: int = ...,
    progress: Progress = ...,
    bootstrap: int | None = ...,
) -> SSWEstimate[ArrayT]: ...


def ssw_estimate(
    x: Points,
    y: Points | None = None,
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
) -> SSWEstimate:
    """SSW_p^p with its standard error, optionally to a relative tolerance.

    Parameters
    ----------
    x, y : array, shape (n, d) and (m, d)
        Unit vectors. Without `y`, the estimate is against the uniform measure.
    p, x_weights, y_weights, seed
        As in `ssw`.
    n_projections : int, optional
        The number of great circles, 200 by default; with `rtol`, how many to begin with.
    projections : array, shape (L, d, 2), optional
        The great circles themselves. The standard error then takes them as independent draws.
    method : {"quasi", "orthogonal", "iid", "importance"}, optional
        How great circles are drawn. By default the best for the data: see Notes.
    rtol : float, optional
        Double the number of replicates until the standard error is at most `rtol` times the value.
    max_projections : int
        Never use more great circles than this, a pilot aside; the result then says what was reached.
    progress : bool or callable (done, total)
        Show a bar in the terminal (needs rich), or call a function with the number of great circles that are done and
        the number drawn so far, which grows with `rtol`. The result is the same to the last bit.
    bootstrap : int, optional
        Number of resamples of the points, at least 10; 200 are usual. The result then has `sampling_interval`, over
        the draw of the points, and `noise_floor`. Resamples share the projection and the sort of the points; each takes
        a tenth to a fifth of the time of one `ssw`.

    Returns
    -------
    SSWEstimate
        With `.value`, `.standard_error`, `.method`, `.n_replicates`, `.n_projections`, `.reliable`, `.slice_costs`,
        `.distance` and `.confidence_interval(level)`.

    Notes
    -----
    Great circles come in independent replicates: eight sets of well-placed ones, each under a random rotation of its
    own. The estimate is unbiased, but for negative values, which are set to 0, and for stopping by `rtol`. Its standard
    error comes from the spread of the replicates, so it is right for every method. By default:

    - against the uniform measure for p = 2, `n_projections` not given: the exact value, while that takes a fraction
      of a second (`ssw_uniform(method="exact")`);
    - for two samples whose points nearly coincide, great circles are drawn with a larger density near the poles of
      the points (`"importance"`), and weighted. A pilot of 128 more great circles confirms that it is worthwhile;
    - for samples concentrated about a few centers, a pilot of 128 to 512 more great circles estimates the variance of
      the cost of a great circle. Where it is large, great circles are drawn with a larger density near the poles of
      the data (`"importance"`), and weighted;
    - otherwise `"quasi"` circles, from dimension 5 on with control variates: functions of a great circle that follow
      the cost and whose means are known.

    See :doc:`/precision` for the variances, and for how often the intervals hold the true value.

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
    measures = _constant_measures(x, y, x_weights, y_weights, p)
    points = measures[0].points
    chosen = None if method is None else as_method(method, also=("importance",))
    if projections is not None:
        if rtol is not None:
            raise ValueError("rtol: cannot be met with fixed projections; give n_projections or nothing instead.")
        if chosen is not None:
            raise ValueError("method: got a method and projections; give one of them.")
        estimate = _given_estimate(measures, frames_for(points, n_projections, projections, seed), p, progress)
        generator = numpy_generator(seed, points)
    else:
        count, limit = circle_counts(n_projections, rtol, max_projections)
        generator = numpy_generator(seed, points)
        if chosen is None and n_projections is None and _is_exact_cheap(measures, p):
            estimate = _exact_estimate(measures[0])
        else:
            sampling = choose_sampling(measures, p, chosen, count, generator)
            estimate = _drawn_estimate(_Circles(measures, p, sampling, generator), count, limit, rtol, progress)
    if bootstrap is None:
        return estimate
    return replace(estimate, sampling=resampled(measures, p, bootstrap, generator.spawn(1)[0], progress))


def _drawn_estimate(circles: "_Circles", count: int, limit: int, rtol: float | None, progress: Progress) -> SSWEstimate:
    """The estimate on `count` great circles, or on as many more, up to `limit`, as the tolerance needs."""
    first = sizes = circles.sizes_of(count)
    while True:
        circles.add(sizes, progress)
        estimate = circles.estimate()
        count = estimate.n_projections
        if rtol is None or estimate.standard_error <= rtol * estimate.value:
            return estimate
        sizes = further_sizes(first, min(count, limit - count))
        if not sizes:
            return estimate


def _constant_measures(
    x: Array, y: Array | None, x_weights: Array | None, y_weights: Array | None, p: float
) -> Measures:
    """Validate the measures and detach them: an estimate with its standard error has no gradient."""
    measures: Measures
    if y is None:
        if y_weights is not None:
            raise ValueError("y_weights: got weights without y; pass y too, or leave y_weights out.")
        measures = [Measure(*pair) for pair in as_samples({"x": x}, {"x_weights": x_weights}, p=p)]
    else:
        measures = two_measures(x, y, x_weights, y_weights, p)
    return without_gradients(measures)


def _exact_estimate(measure: Measure) -> SSWEstimate:
    """SSW_2^2 to the uniform distribution, in double precision whatever the dtype of the points."""
    points, weights = measure
    wide = to_numpy(points).astype(np.float64)
    wide_weights = None if weights is None else to_numpy(weights).astype(np.float64)
    value = float(backend_for(wide).pair_cost(Measure(wide, wide_weights)))
    no_costs = namespace(points).empty((0,), dtype=points.dtype, device=device(points))
    return SSWEstimate(
        value=value,
        standard_error=0.0,
        p=2.0,
        method="exact",
        n_replicates=0,
        n_controls=0,
        reliable=True,
        slice_costs=no_costs,
    )


def _is_exact_cheap(measures: Measures, p: float) -> bool:
    n, dim = measures[0].points.shape
    return len(measures) == 1 and p == 2 and 1.0 * n * n * (dim + _OVERHEAD_OF_PAIR) <= _MAX_EXACT_WORK


class _Circles:
    """Great circles of all replicates so far, with their costs."""

    def __init__(self, measures: Measures, p: float, sampling: CircleSampling, generator: np.random.Generator) -> None:
        self._measures, self._p, self._sampling, self._generator = measures, p, sampling, generator
        self._n_points = n_atoms(measures)
        self._sizes: list[int] = []
        self._costs: list[Array] = []
        self._weights: list[Floats] = []
        self._controls: list[Floats] = []

    def sizes_of(self, count: int) -> list[int]:
        """Sizes of replicates of `count` great circles in all."""
        sampling = self._sampling
        return replicate_sizes(count, sampling.dim, sampling.method, controlled=sampling.controls is not None)

    def add(self, sizes: list[int], progress: Progress) -> None:
        """Add replicates of these sizes; in parts where all frames together would take much memory."""
        per_part = max(1, _MAX_COORDINATES // (2 * self._sampling.dim * max(sizes)))
        for start in range(0, len(sizes), per_part):
            self._add_part(sizes[start : start + per_part], progress)

    def _add_part(self, sizes: list[int], progress: Progress) -> None:
        done, sampling = sum(self._sizes), self._sampling
        frames, weights = sampling.draw(sizes, self._generator)

        def costs(part: Floats) -> Array:
            return costs_on(self._measures, part, self._p)

        self._costs.append(_costs_in_steps(costs, frames, done, self._n_points, progress))
        self._sizes += sizes
        if weights is not None:
            self._weights.append(weights)
        if sampling.controls is not None:
            self._controls.append(sampling.controls.values(frames))

    def estimate(self) -> SSWEstimate:
        costs = namespace(self._costs[0]).concat(self._costs)
        contributions = to_numpy(costs).astype(np.float64)
        weights = np.concatenate(self._weights) if self._weights else None
        if weights is not None:
            contributions = weights * contributions
        reliable = _is_reliable(contributions)
        sizes = np.array(self._sizes)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        controls = self._sampling.controls
        if controls is not None and len(sizes) > 1:
            folds = np.repeat(np.arange(len(sizes)), sizes)
            contributions = adjusted(
                contributions,
                np.concatenate(self._controls),
                controls.means,
                folds,
                controls.nested,
                controls.circles_per_control,
            )
        means = np.add.reduceat(contributions, starts) / sizes
        value, error = mean_and_error(sizes.astype(np.float64), means)
        return SSWEstimate(
            value=max(float(value), 0.0),
            standard_error=float(error),
            p=self._p,
            method=self._sampling.method,
            n_replicates=len(sizes),
            n_controls=0 if controls is None else len(controls.means),
            reliable=reliable and not self._sampling.misses_rare_circles(float(value), self._p),
            slice_costs=costs,
            slice_weights=None if weights is None else to_kind(weights, costs),
        )


def _is_reliable(contributions: Floats) -> bool:
    """Whether no single great circle has a share of the value that only a heavy tail gives.

    The largest of L exponentially distributed costs is about 1 + log L times their mean.
    """
    total, count = float(np.sum(contributions)), len(contributions)
    largest = _LARGEST_MULTIPLE * (1 + math.log(count)) / count
    return total <= 0 or float(np.max(contributions)) <= largest * total


def _given_estimate(measures: Measures, frames: Array, p: float, progress: Progress) -> SSWEstimate:
    """The estimate on great circles of the caller, which count as independent."""
    backend = backend_for(measures[0].points)
    costs = _costs_in_steps(lambda part: backend.slice_costs(measures, part, p), frames, 0, n_atoms(measures), progress)
    values = to_numpy(costs).astype(np.float64)
    value, error = mean_and_error(np.ones(len(values)), values)
    sampling = CircleSampling("given", frames.shape[1], None, None, near_points(measures, p, len(values)))
    return SSWEstimate(
        value=float(value),
        standard_error=float(error),
        p=p,
        method="given",
        n_replicates=len(values),
        n_controls=0,
        reliable=_is_reliable(values) and not sampling.misses_rare_circles(float(value), p),
        slice_costs=costs,
    )


def circle_counts(n_projections: int | None, rtol: float | None, max_projections: int) -> tuple[int, int]:
    """The number of great circles to begin with, and the largest number to use."""
    count = as_slice_count(n_projections)
    if rtol is None:
        return count, count
    if not isinstance(rtol, Real) or not 0 < rtol < math.inf:
        raise ValueError(f"rtol: got {rtol!r}, but a positive number is needed.")
    limit = as_int("max_projections", max_projections, 1, "the largest number of great circles")
    return min(count, limit), limit


def _costs_in_steps(costs: Callable[[Any], Array], frames: Any, done: int, n_points: int, progress: Progress) -> Array:
    """Costs on the great circles of `frames`, after `done` others; in several steps where progress is reported."""
    count = frames.shape[0]
    with progress_bar(progress, "great circles", done + count, done) as show:
        if progress is False:
            return costs(frames)
        parts = []
        steps = max(1, min(count // _MIN_CIRCLES_PER_STEP, count * n_points // _POINTS_PER_STEP))
        for part in _split(frames, steps):
            parts.append(costs(part))
            done += part.shape[0]
            show(done)
    return namespace(parts[0]).concat(parts)


def _split(frames: Any, n_parts: int) -> list[Any]:
    """Frames in parts whose sizes differ by one at most, larger ones first."""
    size, larger = divmod(frames.shape[0], n_parts)
    ends = [(k + 1) * size + min(k + 1, larger) for k in range(n_parts)]
    return [frames[start:end, ...] for start, end in zip([0, *ends], ends, strict=False)]


def root_and_error(value: float, standard_error: float, p: float) -> tuple[float, float]:
    """SSW_p of SSW_p^p, and its standard error to first order."""
    if value <= 0:
        return 0.0, math.nan if math.isnan(standard_error) else 0.0
    root = value ** (1 / p)
    return root, standard_error * root / (p * value)


_REPLICATES = 8
# With control variates in high dimension the gain does not come from the arrangement within a replicate, and more
# degrees of freedom make up for estimates that are not quite normally distributed.
_CONTROLLED_REPLICATES = 16
_HIGHEST_SPREAD_GAIN = 16  # the highest dimension in which well-placed great circles gain much beyond control variates
_FEWEST_REPLICATES = 4


def replicate_sizes(n_projections: int, dim: int, method: str, *, controlled: bool = False) -> list[int]:
    """How many great circles each replicate has: sizes that differ by one at most.

    Eight replicates, or 16 with control variates in high dimension; fewer, but at least four, where that leaves
    enough for an orthogonal block in each. Independent great circles are replicates of one.

    >>> replicate_sizes(200, 3, "quasi")
    [25, 25, 25, 25, 25, 25, 25, 25]
    >>> replicate_sizes(200, 64, "quasi")
    [34, 34, 33, 33, 33, 33]
    """
    if method == "iid":
        return [1] * n_projections
    block = dim // 2 if dim % 2 == 0 else dim
    count = _CONTROLLED_REPLICATES if controlled and dim > _HIGHEST_SPREAD_GAIN else _REPLICATES
    if not controlled and n_projections // count < block and n_projections // block >= _FEWEST_REPLICATES:
        count = n_projections // block
    count = min(count, n_projections)
    size, larger = divmod(n_projections, count)
    return [size + (k < larger) for k in range(count)]


def mean_and_error(
    sizes: NDArray[np.float64], means: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean over great circles and its standard error, from the means of replicates, shape (R, ...).

    A replicate counts by its number of great circles: sum over r of n_r (m_r - m)^2 / (R - 1) estimates the variance
    of one.
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


def further_sizes(sizes: list[int], count: int) -> list[int]:
    """Sizes of further replicates, of at most `count` great circles in all, that repeat those of the first ones.

    Replicates of one size have one variance, whatever the method.

    >>> further_sizes([4, 4, 3], 12)
    [4, 4, 3]
    """
    further: list[int] = []
    while (size := sizes[len(further) % len(sizes)]) <= count:
        further.append(size)
        count -= size
    return further


_LARGEST_SUM = 200  # Beyond, the expansion in 1 / degrees of freedom has an error below 1e-7.


def t_quantile(level: float, degrees_of_freedom: int) -> float:
    """The t with P(|T| <= t) = `level`, for T with an integer number of degrees of freedom.

    >>> round(t_quantile(0.95, 7), 4)
    2.3646
    """
    if degrees_of_freedom > _LARGEST_SUM:
        return _expansion(-NormalDist().inv_cdf((1 - level) / 2), degrees_of_freedom)
    angle = bisect(lambda theta: _probability(theta, degrees_of_freedom) - level, 0.0, math.pi / 2)
    return math.sqrt(degrees_of_freedom) * math.tan(angle)


def _probability(theta: float, degrees_of_freedom: int) -> float:
    """P(|T| <= sqrt(dof) tan(theta)), a finite sum of powers of cos(theta) (Abramowitz and Stegun, 26.7.3 and 4)."""
    sine, cosine = math.sin(theta), math.cos(theta)
    is_odd = degrees_of_freedom % 2 == 1
    total, term = 0.0, cosine if is_odd else 1.0
    for k in range(2 + is_odd, degrees_of_freedom + 1, 2):
        total += term
        term *= cosine * cosine * (k - 1) / k
    return 2 / math.pi * (theta + sine * total) if is_odd else sine * total


def _expansion(z: float, degrees_of_freedom: int) -> float:
    """Cornish and Fisher's expansion about the normal quantile."""
    inverse = 1 / degrees_of_freedom
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term * inverse**k for k, term in enumerate(terms))
