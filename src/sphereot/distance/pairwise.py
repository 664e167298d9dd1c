"""SSW_p^p between all pairs of several samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import is_table
from sphereot._arrays.libraries import Array, device, namespace, to_kind, to_numpy
from sphereot._arrays.random import numpy_generator
from sphereot._arrays.types import ArrayT, Frames, Method, Numbers, NumpyPoints, Points, Seed, SupportsDLPack
from sphereot._arrays.validation import as_method, as_order, as_samples
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures
from sphereot._support.extras import Progress, progress_bar
from sphereot.distance.estimates import circle_counts, further_sizes, mean_and_error, replicate_sizes, root_and_error
from sphereot.distance.ssw import frames_for, without_gradients
from sphereot.slicing.drawing import frames_from_normals


@overload
def pairwise_ssw(
    measures: Sequence[NumpyPoints] | NDArray[Any],
    *,
    p: float = ...,
    weights: Sequence[Numbers | None] | None = ...,
    n_projections: int | None = ...,
    projections: Frames | None = ...,
    method: Method = ...,
    seed: Seed = ...,
    root: bool = ...,
) -> NDArray[Any]: ...


@overload
def pairwise_ssw(
    measures: Sequence[ArrayT | NumpyPoints] | ArrayT,
    *,
    p: float = ...,
    weights: Sequence[Numbers | None] | None = ...,
    n_projections: int | None = ...,
    projections: Frames | None = ...,
    method: Method = ...,
    seed: Seed = ...,
    root: bool = ...,
) -> ArrayT: ...


def pairwise_ssw(
    measures: Sequence[Points] | SupportsDLPack,
    *,
    p: float = 2,
    weights: Sequence[Numbers | None] | None = None,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: Method = "iid",
    seed: Seed = None,
    root: bool = False,
) -> Array:
    """SSW_p^p between all pairs of several samples, on shared great circles.

    Parameters
    ----------
    measures : sequence of N arrays, shapes (n_i, d)
        Unit vectors; or one array of shape (N, n, d).
    p : float
        Order, from 1 to 16.
    weights : sequence of N arrays, shapes (n_i,), or None
        Nonnegative weights of each sample; None stands for equal weights, of all or of one.
    n_projections, projections, method, seed, root
        As in `ssw`.

    Returns
    -------
    array, shape (N, N)
        Symmetric, with zeros on the diagonal. Each sample is projected and sorted once per slice.

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
    validated = several_measures(measures, weights, p=p)
    frames = frames_for(validated[0].points, n_projections, projections, seed, method)
    return pairwise_matrix(validated, frames, p, root=root)


def several_measures(measures: Any, weights: Sequence[Array | None] | None, *, p: float = 2) -> Measures:
    """Validate several samples and their weights, and convert them to a common dtype."""
    if not isinstance(measures, Sequence) and not hasattr(measures, "__dlpack__") and is_table(measures):
        raise TypeError(f"measures: got {type(measures).__name__}, one table; pass a list of samples.")
    count = len(measures)
    if count == 0:
        raise ValueError("measures: there are none; give at least one sample.")
    if weights is not None and len(weights) != count:
        raise ValueError(f"weights: got {len(weights)} for {count} measures; give one array, or None, for each.")
    samples = {f"measures[{i}]": measures[i] for i in range(count)}
    masses = {f"weights[{i}]": None if weights is None else weights[i] for i in range(count)}
    return [Measure(*pair) for pair in as_samples(samples, masses, p=p)]


def pairwise_matrix(measures: Measures, frames: Array, p: float, *, root: bool) -> Array:
    """`pairwise_ssw` of validated measures on the great circles of `frames`."""
    count, first = len(measures), measures[0].points
    xp, dtype = namespace(first), first.dtype
    if count == 1:
        return xp.zeros((1, 1), dtype=dtype, device=device(first))
    costs = xp.astype(backend_for(first).pairwise_costs(measures, frames, p, root=root), dtype, copy=False)
    # Entry (i, j) of the square is the cost of its pair; a zero in front serves the diagonal.
    index = [[0] * count for _ in range(count)]
    for k, (i, j) in enumerate(combinations(range(count), 2), start=1):
        index[i][j] = index[j][i] = k
    flat = xp.asarray([k for row in index for k in row], device=device(costs))
    return xp.reshape(xp.take(xp.concat([xp.zeros_like(costs[:1]), costs]), flat), (count, count))


_INDEPENDENT_GROUPS = 50


@dataclass(frozen=True)
class PairwiseSSWEstimate:
    """Monte-Carlo estimates of SSW_p^p between all pairs of several samples, with their uncertainty.

    Attributes
    ----------
    values : array, shape (N, N)
        SSW_p^p of each pair: symmetric, with zeros on the diagonal.
    standard_errors : array, shape (N, N)
        The standard errors of the values over the draw of great circles; NaN for a single replicate.
    n_projections : int
        The number of great circles.
    p : float
        The order.
    method : str
        How great circles were drawn; see `great_circles`.
    n_replicates : int
        The number of independent sets of great circles.
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
        """The standard errors of `distances`, to first order; 0 where a distance is 0."""
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
    """SSW_p^p between all pairs of several samples with standard errors, on shared great circles.

    Parameters
    ----------
    measures : sequence of N arrays, shapes (n_i, d)
        Unit vectors; or one array of shape (N, n, d).
    p : float
        Order, from 1 to 16.
    weights : sequence of N arrays, shapes (n_i,), or None
        Nonnegative weights of each sample; None stands for equal weights, of all or of one.
    n_projections : int, optional
        The number of great circles, 200 by default; with `rtol`, how many to begin with.
    method : {"quasi", "orthogonal", "iid"}
        How great circles are drawn; see `great_circles`.
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
    Great circles come in independent replicates, as in `ssw_estimate`, whose spread gives the standard errors. All
    pairs share them, so there is no importance sampling: for tight samples close to each other use `ssw_estimate`.

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
    validated = without_gradients(several_measures(measures, weights, p=p))
    points = validated[0].points
    fresh, limit = circle_counts(n_projections, rtol, max_projections)
    generator = numpy_generator(seed, points)
    sizes: list[int] = []
    means: list[NDArray[np.float64]] = []
    first = fresh_sizes = _group_sizes(fresh, points.shape[1], drawn)
    while True:
        done = sum(sizes)
        with progress_bar(progress, "great circles", done + sum(fresh_sizes), done) as show:
            for size in fresh_sizes:
                frames = frames_from_normals(generator.standard_normal, size, points.shape[1], drawn)
                costs = pairwise_matrix(validated, to_kind(frames, points), p, root=False)
                means.append(to_numpy(costs).astype(np.float64))
                sizes.append(size)
                show(sum(sizes))
        values, errors = mean_and_error(np.array(sizes, dtype=np.float64), np.array(means))
        np.fill_diagonal(errors, 0.0)
        total = sum(sizes)
        fresh_sizes = further_sizes(first, min(total, limit - total))
        if rtol is None or bool((errors <= rtol * values).all()) or not fresh_sizes:
            return PairwiseSSWEstimate(values, errors, total, p, drawn, len(sizes))


def _group_sizes(count: int, dim: int, method: str) -> list[int]:
    """Sizes of replicates; independent great circles in groups, because a matrix of costs for each would take long."""
    if method != "iid":
        return replicate_sizes(count, dim, method)
    groups = min(_INDEPENDENT_GROUPS, count)
    return [count // groups + (k < count % groups) for k in range(groups)]
