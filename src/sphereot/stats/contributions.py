"""How much each point contributes to the distance of two samples: which points are new, and which have gone."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import SampleColumns
from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.random import is_own_generator
from sphereot._arrays.types import Frames, Method, Points, Seed
from sphereot._arrays.validation import as_int, as_order
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure
from sphereot._support.keyword_options import options_by_name
from sphereot.stats._random import drawn_frames, independent_generator
from sphereot.stats._samples import two_samples

__all__ = ["RowContributions", "contributions_on", "row_contributions"]


@dataclass(frozen=True)
class RowContributions:
    """Contribution of every point of two samples to their distance.

    Attributes
    ----------
    x, y : array, shape (n,) and (m,)
        Derivative of SSW_p^p in the weight of the point, in turns to the power p; the mean of each is 0. Large for
        points that the other sample has nothing like: points of `y` that are new, points of `x` that have gone.
    p : float
        Order of the distance.
    """

    x: NDArray[np.float64] = field(repr=False)
    y: NDArray[np.float64] = field(repr=False)
    p: float

    def new(self, count: int = 10) -> NDArray[np.intp]:
        """Indices of the points of `y` that contribute most, in descending order."""
        return _largest(self.y, count)

    def missing(self, count: int = 10) -> NDArray[np.intp]:
        """Indices of the points of `x` that contribute most, in descending order."""
        return _largest(self.x, count)


@options_by_name
def row_contributions(
    x: Points,
    y: Points,
    *,
    p: float = 1,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: Method = "quasi",
    seed: Seed = None,
    columns: SampleColumns | None = None,
) -> RowContributions:
    """Tell which points of two samples make the distance between them.

    Parameters
    ----------
    x, y : array, shape (n, d) and (m, d)
        Unit vectors: the reference, and a sample that is compared with it.
    p : float
        Order, from 1 to 16.
    n_projections, projections, method, seed
        Great circles, as in `two_sample_test`.
    columns : str, int or sequence of them, optional
        As in `ssw`.

    Returns
    -------
    RowContributions
        `.y` and `.new()` for points of y that x has nothing like, `.x` and `.missing()` for points of x that y has
        nothing like.

    Raises
    ------
    RuntimeError
        Where the compiled kernel is not installed: only it has derivatives in weights.

    Notes
    -----
    The derivative of the optimal cost in the weight of a point is its Kantorovich potential. On every great circle the
    potential of a point of y is high where y has more mass than x and must move it far; the mean over great circles
    adds up what all of them say about the point. Matched distances of single points say less: neighbors are moved
    aside to make place for a new cluster.

    Contributions rank points. They are no tests: in any sample some points contribute most.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> from sphereot.stats import row_contributions
    >>> rng = np.random.default_rng(0)
    >>> axes = np.eye(8)
    >>> x, y = (sphere.normalize(rng.normal(size=(200, 8)) + 2 * axes[0]) for _ in range(2))
    >>> y[:10] = sphere.normalize(rng.normal(size=(10, 8)) - 9 * axes[0])
    >>> sorted(row_contributions(x, y, seed=0).new(10).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    p, samples = as_order(p), two_samples(x, y, columns)
    generator = independent_generator(seed, samples[0])
    frames = drawn_frames(n_projections, projections, samples[0], seed if is_own_generator(seed) else generator, method)
    of_x, of_y = map(to_numpy, samples)
    return contributions_on(frames, of_x, of_y, p)


def contributions_on(frames: NDArray[Any], x: NDArray[Any], y: NDArray[Any], p: float) -> RowContributions:
    """`row_contributions` of validated NumPy arrays on given great circles."""
    measures = [Measure(points) for points in (x, y)]
    gradients = backend_for(x).weight_gradients(measures, frames.astype(x.dtype, copy=False), p)
    # Derivatives in weights that are scaled to a mean of 1, times their number, without their mean.
    of_x, of_y = (len(slopes) * (slopes - slopes.mean()) for slopes in map(np.asarray, gradients))
    return RowContributions(of_x, of_y, p)


def _largest(values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    count = as_int("count", count, 1, "the number of points")
    return np.argsort(-values, kind="stable")[:count]
