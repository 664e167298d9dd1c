"""SSW_p^p with its standard error over the draw of great circles."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, namespace, to_kind, to_numpy, without_gradient
from sphereot._arrays.orders import LARGEST_PLAIN_ORDER, costs_of
from sphereot._arrays.random import is_own_generator, normal_source, require_seed_when_staged
from sphereot._arrays.validation import as_int, as_order, as_points, as_slice_count, as_weights
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures, n_atoms
from sphereot._support.keyword_options import options_by_name
from sphereot._support.progress import Progress, progress_bar
from sphereot.distance.arguments import frames_for, two_measures
from sphereot.distance.pairwise import pairwise_matrix, several_measures
from sphereot.slicing.drawing import independent_frames

__all__ = ["PairwiseSSWEstimate", "SSWEstimate", "pairwise_ssw_estimate", "ssw_estimate"]

_POINTS_PER_STEP = 100_000_000  # points times great circles between two reports of progress: about a second
_MIN_CIRCLES_PER_STEP = 8  # enough for several threads
_GROUPS = 50


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

    @property
    def distance(self) -> float:
        """The distance SSW_p = (SSW_p^p)^(1/p), in turns."""
        return _root(self.value, self.standard_error, self.p)[0]

    @property
    def distance_standard_error(self) -> float:
        """The standard error of `distance`, to first order; 0 where the distance is 0."""
        return _root(self.value, self.standard_error, self.p)[1]

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
    progress: Progress = False,
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
    progress : bool or callable (done, total)
        Show a bar in the terminal (needs rich), or call a function with the number of great circles that are done and
        the number drawn so far, which grows with `rtol`. The result is the same to the last bit.

    Returns
    -------
    SSWEstimate
        With `.value`, `.standard_error`, `.slice_costs`, `.n_projections`, `.distance` and
        `.confidence_interval(level)`.

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
    backend, n_points = backend_for(x), n_atoms(measures)

    def costs(frames: Array) -> Array:
        return backend.slice_costs(measures, frames, p)

    if rtol is None:
        frames = frames_for(x, n_projections, projections, seed)
        return _estimate(_slice_costs(costs, frames, 0, n_points, progress), p)
    if projections is not None:
        raise ValueError("rtol: cannot be met with fixed projections; give n_projections or nothing instead.")
    count, limit = _counts(n_projections, rtol, max_projections)
    draw = normal_source(seed, x)
    xp, dim = namespace(x), x.shape[1]
    slice_costs = _slice_costs(costs, independent_frames(draw, count, dim), 0, n_points, progress)
    while True:
        estimate = _estimate(slice_costs, p)
        count = estimate.n_projections
        if estimate.standard_error <= rtol * estimate.value or count >= limit:
            return estimate
        frames = independent_frames(draw, min(count, limit - count), dim)
        slice_costs = xp.concat([slice_costs, _slice_costs(costs, frames, count, n_points, progress)])


def _constant_measures(x: Array, y: Array | None, x_weights: Array | None, y_weights: Array | None) -> Measures:
    """Validate the measures and detach them: an estimate with its standard error has no gradient."""
    measures: Measures
    if y is None:
        if y_weights is not None:
            raise ValueError("y_weights: got weights without y; pass y too, or leave y_weights out.")
        x = as_points("x", x)
        measures = (Measure(x, as_weights("x_weights", x_weights, "x", x)),)
    else:
        measures = two_measures(x, y, x_weights, y_weights)
    return _without_gradients(measures)


def _without_gradients(measures: Measures) -> Measures:
    return [
        Measure(without_gradient(points), None if weights is None else without_gradient(weights))
        for points, weights in measures
    ]


@dataclass(frozen=True)
class PairwiseSSWEstimate:
    """Monte-Carlo estimates of SSW_p^p between all pairs of several samples, with their uncertainty.

    Attributes
    ----------
    values : array, shape (N, N)
        SSW_p^p of each pair: symmetric, with zeros on the diagonal.
    standard_errors : array, shape (N, N)
        The standard errors of the values over the draw of great circles; NaN for a single great circle.
    n_projections : int
        The number of great circles.
    p : float
        The order.
    """

    values: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    n_projections: int
    p: float

    @property
    def distances(self) -> NDArray[np.float64]:
        """The distances SSW_p = (SSW_p^p)^(1/p), in turns, shape (N, N)."""
        return self._roots()[..., 0]

    @property
    def distance_standard_errors(self) -> NDArray[np.float64]:
        """The standard errors of `distances`, to first order; 0 where a distance is 0."""
        return self._roots()[..., 1]

    def _roots(self) -> NDArray[np.float64]:
        pairs = zip(self.values.ravel().tolist(), self.standard_errors.ravel().tolist(), strict=True)
        roots = np.array([_root(value, error, self.p) for value, error in pairs])
        return roots.reshape(*self.values.shape, 2)


@options_by_name
def pairwise_ssw_estimate(
    measures: Sequence[Array],
    *,
    p: float = 2,
    weights: Sequence[Array | None] | None = None,
    n_projections: int | None = None,
    seed: Any = None,
    rtol: float | None = None,
    max_projections: int = 100_000,
    progress: Progress = False,
) -> PairwiseSSWEstimate:
    """SSW_p^p between all pairs of several samples with Monte-Carlo standard errors, on shared great circles.

    Parameters
    ----------
    measures : sequence of N arrays, shapes (n_i, d)
        Unit vectors; or one array of shape (N, n, d).
    p : float
        Order, from 1 to 1000.
    weights : sequence of N arrays, shapes (n_i,), or None
        Nonnegative weights of each sample; None stands for equal weights, of all or of one.
    n_projections : int, optional
        The number of great circles, 200 by default; with `rtol`, how many to begin with.
    seed : int, generator or None
        As in `ssw`.
    rtol, max_projections, progress
        As in `ssw_estimate`; the tolerance holds for every pair.

    Returns
    -------
    PairwiseSSWEstimate
        With the matrices `.values`, `.standard_errors` and `.distances` as NumPy arrays, and `.n_projections`.

    See Also
    --------
    pairwise_ssw : the values alone, with gradients.
    ssw_estimate : one pair, with the cost on every great circle.

    Notes
    -----
    The costs of all pairs on every great circle would take much memory. Great circles come in up to 50 groups instead,
    of n_g great circles with mean m_g each, and the sum over groups of n_g (m_g - m)^2 / (G - 1) estimates the variance
    of the cost on a great circle.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> rng = np.random.default_rng(0)
    >>> samples = [sphereot.sphere.normalize(rng.normal(size=(100, 3)) + [k, 0, 0]) for k in range(3)]
    >>> estimate = sphereot.pairwise_ssw_estimate(samples, seed=0, rtol=0.1)
    >>> bool((estimate.standard_errors <= 0.1 * estimate.values).all())
    True
    """
    p = as_order(p)
    validated = _without_gradients(several_measures(measures, weights))
    fresh, limit = _counts(n_projections, rtol, max_projections)
    draw = _circle_source(seed, validated[0].points)
    groups = _Groups(len(validated))
    while fresh > 0:
        done = groups.n_projections
        with progress_bar(progress, "great circles", done + fresh, done) as show:
            for frames in _split(draw(fresh), min(_GROUPS, fresh)):
                groups.add(frames.shape[0], _pairwise_costs(validated, frames, p))
                show(groups.n_projections)
        total = groups.n_projections
        values, errors = groups.values_and_errors()
        is_met = rtol is None or bool((errors <= rtol * values).all())
        fresh = 0 if is_met else min(total, limit - total)
    return PairwiseSSWEstimate(values, errors, total, p)


class _Groups:
    """Means of groups of great circles, which give a mean and its standard error for each pair of measures."""

    def __init__(self, n_measures: int) -> None:
        self._n_measures = n_measures
        self._sizes: list[int] = []
        self._means: list[NDArray[np.float64]] = []

    @property
    def n_projections(self) -> int:
        return sum(self._sizes)

    def add(self, size: int, mean: NDArray[np.float64]) -> None:
        self._sizes.append(size)
        self._means.append(mean)

    def values_and_errors(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values and standard errors, shape (N, N)."""
        sizes, means, total = np.array(self._sizes)[:, None, None], np.array(self._means), self.n_projections
        values: NDArray[np.float64] = (sizes * means).sum(axis=0) / total
        if len(self._sizes) == 1:
            return values, np.where(np.eye(self._n_measures, dtype=bool), 0.0, np.nan)
        variance = (sizes * (means - values) ** 2).sum(axis=0) / (len(self._sizes) - 1)
        return values, np.sqrt(variance / total)


def _pairwise_costs(measures: Measures, frames: Array, p: float) -> NDArray[np.float64]:
    """SSW_p^p of all pairs in float64; of a large order by way of SSW_p, which does not vanish in float32."""
    is_large = p > LARGEST_PLAIN_ORDER
    matrix = to_numpy(pairwise_matrix(measures, frames, p, root=is_large)).astype(np.float64)
    costs: NDArray[np.float64] = costs_of(matrix[None], p)[0] if is_large else matrix
    return costs


def _circle_source(seed: Any, x: Array) -> Callable[[int], Array]:
    """A function `draw(n)` of n independent frames for points like `x`; each call continues one stream."""
    dim = x.shape[1]
    if is_own_generator(seed):
        library_normals = normal_source(seed, x)
        return lambda n: independent_frames(library_normals, n, dim)
    # As in `great_circles`, NumPy draws, so that one seed gives the same great circles in every library.
    require_seed_when_staged(seed, x)
    normals = normal_source(seed)
    return lambda n: to_kind(independent_frames(normals, n, dim), x)


def _counts(n_projections: int | None, rtol: float | None, max_projections: int) -> tuple[int, int]:
    """The number of great circles to begin with, and the largest number to use."""
    count = as_slice_count(n_projections)
    if rtol is None:
        return count, count
    if not isinstance(rtol, Real) or not 0 < rtol < math.inf:
        raise ValueError(f"rtol: got {rtol!r}, but a positive number is needed.")
    limit = as_int("max_projections", max_projections, 1, "the largest number of great circles")
    return min(count, limit), limit


def _slice_costs(costs: Callable[[Array], Array], frames: Array, done: int, n_points: int, progress: Progress) -> Array:
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


def _split(frames: Array, n_parts: int) -> list[Array]:
    """Frames in parts whose sizes differ by one at most, larger ones first."""
    size, larger = divmod(frames.shape[0], n_parts)
    ends = [(k + 1) * size + min(k + 1, larger) for k in range(n_parts)]
    return [frames[start:end, ...] for start, end in zip([0, *ends], ends, strict=False)]


def _estimate(costs: Array, p: float) -> SSWEstimate:
    xp = namespace(costs)
    count = costs.shape[0]
    value = float(xp.mean(costs))
    deviation = float(xp.std(costs, correction=1.0)) if count > 1 else math.nan
    return SSWEstimate(value, deviation / math.sqrt(count), costs, p)


def _root(value: float, standard_error: float, p: float) -> tuple[float, float]:
    """SSW_p of SSW_p^p, and its standard error to first order."""
    if value <= 0:
        return 0.0, math.nan if math.isnan(standard_error) else 0.0
    root = value ** (1 / p)
    return root, standard_error * root / (p * value)
