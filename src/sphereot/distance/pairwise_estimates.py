"""SSW_p^p between all pairs of several samples with standard errors, on shared great circles."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import SampleColumns
from sphereot._arrays.libraries import to_kind, to_numpy
from sphereot._arrays.random import numpy_generator
from sphereot._arrays.types import Method, Numbers, Points, Seed, SupportsDLPack
from sphereot._arrays.validation import as_method, as_order
from sphereot._support.extras import Progress, progress_bar
from sphereot._support.keyword_options import options_by_name
from sphereot.distance.arguments import without_gradients
from sphereot.distance.estimates import circle_counts, root_and_error
from sphereot.distance.pairwise import pairwise_matrix, several_measures
from sphereot.distance.replicates import further_sizes, mean_and_error, replicate_sizes
from sphereot.slicing.drawing import frames_from_normals

__all__ = ["PairwiseSSWEstimate", "pairwise_ssw_estimate"]

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


@options_by_name
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
    columns: SampleColumns | None = None,
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
    columns : str, int or sequence of them, optional
        As in `ssw`.

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
    validated = without_gradients(several_measures(measures, weights, columns, p=p))
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
