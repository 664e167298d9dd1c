"""SSW_p^p between all pairs of several samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import is_table
from sphereot._arrays.libraries import Array, device, namespace, to_kind, to_numpy
from sphereot._arrays.random import numpy_generator
from sphereot._arrays.types import ArrayT, Frames, Method, Numbers, NumpyPoints, Points, Seed, SupportsDLPack
from sphereot._arrays.validation import as_method, as_order
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures
from sphereot._support.extras import Progress, progress_bar
from sphereot.distance.estimates import mean_and_error, root_and_error
from sphereot.distance.sampling import circle_counts, further_sizes, replicate_sizes
from sphereot.distance.ssw import as_measures, detach
from sphereot.slicing.circles import frames_for
from sphereot.slicing.drawing import frames_from_normals


def pairwise_ssw(
    measures: Sequence[ArrayT | NumpyPoints] | ArrayT,
    *,
    p: float = 2,
    weights: Sequence[Numbers | None] | None = None,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: Method = "iid",
    seed: Seed = None,
    root: bool = False,
) -> ArrayT:
    """Compute SSW_p^p between all pairs of several samples, on shared great circles.

    Each sample is projected and sorted once per great circle.

    Parameters
    ----------
    measures : sequence of N arrays, shapes (n_i, d)
        Unit vectors; or one array of shape (N, n, d).
    p : float, default 2
        Order of the distance, between 1 and 16.
    weights : sequence of N arrays, shapes (n_i,), or None
        Nonnegative weights of the points of each sample. None, for all samples or for one, means equal weights.
    n_projections, projections, method, seed, root
        Great circles and result, as in `ssw`.

    Returns
    -------
    array, shape (N, N)
        SSW_p^p in turns to the power p, or SSW_p in turns if ``root=True``. It is symmetric, with a zero diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> rng = np.random.default_rng(0)
    >>> samples = [sphereot.sphere.normalize(rng.normal(size=(100, 3)) + [k, 0, 0]) for k in range(3)]
    >>> d = sphereot.pairwise_ssw(samples, seed=0)
    >>> bool(d[0, 2] > d[0, 1]), bool(d[0, 1] == d[1, 0])
    (True, True)
    """
    p = as_order(p)
    validated = several_measures(measures, weights, p)
    frames = frames_for(validated[0].points, n_projections, projections, seed, method)
    matrix: ArrayT = pairwise_matrix(validated, frames, p, root=root)
    return matrix


def several_measures(measures: Any, weights: Sequence[Any] | None, p: float) -> list[Measure]:
    """Validate several samples and their weights, and convert them to a common dtype."""
    if not isinstance(measures, Sequence) and not hasattr(measures, "__dlpack__") and is_table(measures):
        raise TypeError(f"measures must be a list of samples, got one table ({type(measures).__name__}).")
    count = len(measures)
    if count == 0:
        raise ValueError("measures must have at least one sample, got none.")
    masses = [None] * count if weights is None else weights
    if len(masses) != count:
        raise ValueError(f"weights must have one array, or None, for each of {count} measures, got {len(masses)}.")
    samples = {f"measures[{i}]": measures[i] for i in range(count)}
    return as_measures(samples, {f"weights[{i}]": masses[i] for i in range(count)}, p)


def pairwise_matrix(measures: Measures, frames: Array, p: float, *, root: bool) -> Array:
    """Compute `pairwise_ssw` of validated measures on the great circles of `frames`."""
    count, first = len(measures), measures[0].points
    xp, dtype = namespace(first), first.dtype
    if count == 1:
        return xp.zeros((1, 1), dtype=dtype, device=device(first))
    costs = xp.astype(backend_for(first).pairwise_costs(measures, frames, p, root=root), dtype, copy=False)
    rows = xp.arange(count, device=device(costs))
    low, high = xp.minimum(rows[:, None], rows), xp.maximum(rows[:, None], rows)
    # The zero in front of the costs is the diagonal; the pair (low, high) follows all pairs with a smaller `low`.
    index = xp.where(low == high, 0 * low, low * (2 * count - low - 1) // 2 + high - low)
    flat = xp.reshape(index, (-1,))
    return xp.reshape(xp.take(xp.concat([xp.zeros_like(costs[:1]), costs]), flat), (count, count))


_INDEPENDENT_GROUPS = 50


@dataclass(frozen=True)
class PairwiseSSWEstimate:
    """Estimates of SSW_p^p between all pairs of several samples, with their uncertainty.

    Attributes
    ----------
    values : array, shape (N, N)
        SSW_p^p of each pair: symmetric, with zeros on the diagonal.
    standard_errors : array, shape (N, N)
        Standard errors of the values over the draw of great circles; NaN for a single replicate.
    n_projections : int
        Number of great circles.
    p : float
        Order of the distance.
    method : str
        How the great circles were drawn; see `great_circles`.
    n_replicates : int
        Number of independent sets of great circles.
    """

    values: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    n_projections: int
    p: float
    method: str
    n_replicates: int

    @property
    def distances(self) -> NDArray[np.float64]:
        """The distances SSW_p = (SSW_p^p)^(1/p), in turns, shape (N, N)."""
        return self._roots()[..., 0]

    @property
    def distance_standard_errors(self) -> NDArray[np.float64]:
        """Standard errors of `distances`, to first order; 0 if a distance is 0."""
        return self._roots()[..., 1]

    def _roots(self) -> NDArray[np.float64]:
        pairs = zip(self.values.ravel().tolist(), self.standard_errors.ravel().tolist(), strict=True)
        roots = np.array([root_and_error(value, error, self.p) for value, error in pairs])
        return roots.reshape(*self.values.shape, 2)


def pairwise_ssw_estimate(
    measures: Sequence[Points] | SupportsDLPack,
    *,
    p: float = 2,
    weights: Sequence[Numbers | None] | None = None,
    n_projections: int | None = None,
    method: Method = "quasi",
    seed: Seed = None,
    rtol: float | None = None,
    max_projections: int = 100_000,
    progress: Progress = False,
) -> PairwiseSSWEstimate:
    """Estimate SSW_p^p between all pairs of several samples with standard errors, on shared great circles.

    Parameters
    ----------
    measures, p, weights, seed
        Samples, order, weights and seed, as in `pairwise_ssw`.
    n_projections : int, optional
        Number of great circles, 200 by default; with `rtol`, the number to begin with.
    method : {"quasi", "orthogonal", "iid"}, default "quasi"
        How to draw the great circles; see `great_circles`.
    rtol, max_projections, progress
        Tolerance and progress, as in `ssw_estimate`; the tolerance holds for every pair.

    Returns
    -------
    PairwiseSSWEstimate
        Result with the matrices `.values`, `.standard_errors` and `.distances` as NumPy arrays, and `.n_projections`.

    See Also
    --------
    pairwise_ssw : Values without standard errors, but with gradients.
    ssw_estimate : Estimate for one pair, with the cost on every great circle.

    Notes
    -----
    The great circles are drawn in independent replicates, as in `ssw_estimate`, and shared by all pairs. There is no
    importance sampling: for tight samples close to each other use `ssw_estimate`.

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
    p, drawn = as_order(p), as_method(method)
    validated = detach(several_measures(measures, weights, p))
    points = validated[0].points
    dim = points.shape[1]
    count, limit = circle_counts(n_projections, rtol, max_projections)
    generator = numpy_generator(seed, points)
    first = replicate_sizes(count, dim, drawn)
    if drawn == "iid":  # in groups: a matrix of costs for each great circle would take long
        first = [len(group) for group in np.array_split(np.arange(count), min(_INDEPENDENT_GROUPS, count))]
    further = first
    sizes: list[int] = []
    means: list[NDArray[np.float64]] = []
    while True:
        done = sum(sizes)
        with progress_bar(progress, "great circles", done + sum(further), done) as show:
            for size in further:
                frames = frames_from_normals(generator.standard_normal, size, dim, drawn)
                costs = pairwise_matrix(validated, to_kind(frames, points), p, root=False)
                means.append(to_numpy(costs).astype(np.float64))
                sizes.append(size)
                show(sum(sizes))
        values, errors = mean_and_error(np.array(sizes, dtype=np.float64), np.array(means))
        np.fill_diagonal(errors, 0.0)
        total = sum(sizes)
        further = further_sizes(first, min(total, limit - total))
        if rtol is None or bool((errors <= rtol * values).all()) or not further:
            return PairwiseSSWEstimate(values, errors, total, p, drawn, len(sizes))
