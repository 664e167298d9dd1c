"""Where two samples differ: the contribution of every point, and on S^2 a map of the difference of densities."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._arrays.types import Frames, Labels, Method, Points, Seed
from sphereot._arrays.validation import as_int, as_level, as_order, as_positive
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure
from sphereot._support.extras import Progress, progress_bar
from sphereot.stats._testing import choose_frames, independent_generator, two_samples
from sphereot.stats.two_sample import as_groups


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


def row_contributions(
    x: Points,
    y: Points,
    *,
    p: float = 1,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: Method = "quasi",
    seed: Seed = None,
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

    Returns
    -------
    RowContributions
        `.y` and `.new()` for points of y that x has nothing like, `.x` and `.missing()` for points of x that y has
        nothing like.

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
    p, samples = as_order(p), two_samples(x, y)
    generator = independent_generator(seed, samples[0])
    frames = choose_frames(n_projections, projections, samples[0], seed, generator, method)
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


_BLOCK_ENTRIES = 1 << 22  # of the matrix of cells against points: 32 MB
_FLOOR = 0.02  # of the largest deviation: where hardly any point is near, a difference has no meaning


@dataclass(frozen=True)
class DifferenceMap:
    """Result of `difference_map`.

    Attributes
    ----------
    difference : array, shape (rows, columns)
        Density of x less that of y, per steradian, at the cells of a map: rows from south to north, columns from west
        (-180 degrees) to east, as in `sphereot.plotting.map_points`.
    deviation : array, shape (rows, columns)
        Standard deviation of the difference under permutation.
    region : array of int, shape (rows, columns)
        1 where x is denser than chance explains, -1 where y is, 0 elsewhere.
    p_value : float
        Of the largest difference anywhere.
    threshold : float
        How many standard deviations a difference must exceed to be in a region.
    alpha : float
        Level: bound on the probability that any region is marked if the distributions are equal.
    bandwidth : float
        Width of the kernel, in radians, the same for both samples.
    n, m, permutations : int
        Numbers of points of both samples, and of permutations.
    """

    difference: NDArray[np.float64] = field(repr=False)
    deviation: NDArray[np.float64] = field(repr=False)
    region: NDArray[np.int8] = field(repr=False)
    p_value: float
    threshold: float
    alpha: float
    bandwidth: float
    n: int
    m: int
    permutations: int

    @property
    def standardized(self) -> NDArray[np.float64]:
        """The difference in standard deviations; it is beyond `threshold`, or below minus it, in a region."""
        return _standardized(self.difference, self.deviation)

    @property
    def share(self) -> tuple[float, float]:
        """Shares of the sphere in regions where x, and where y, is denser."""
        rows = len(self.region)
        area = np.cos(np.pi * ((np.arange(rows) + 0.5) / rows - 0.5))[:, None]
        total = float(area.sum() * self.region.shape[1])
        more, less = (float(np.sum(area * (self.region == sign))) / total for sign in (1, -1))
        return more, less

    def __str__(self) -> str:
        more, less = self.share
        return (
            f"Difference of {self.n} and {self.m} points: x is denser on {more:.1%} of the sphere, y on {less:.1%}, "
            f"beyond chance at level {self.alpha:g} (p-value {self.p_value:.3g} of the largest difference anywhere)"
        )


def difference_map(
    x: Points,
    y: Points,
    *,
    bandwidth: float | None = None,
    permutations: int = 499,
    alpha: float = 0.05,
    resolution: int = 90,
    groups: tuple[Labels, Labels] | None = None,
    seed: Seed = None,
    progress: Progress = False,
) -> DifferenceMap:
    """Show where on S^2 two samples differ: the difference of their densities, beside what chance explains.

    Parameters
    ----------
    x, y : array, shape (n, 3) and (m, 3)
        Unit vectors: two samples.
    bandwidth : float, optional
        Width of the von Mises-Fisher kernel of both densities, in radians; by default chosen for the pooled sample by
        cross-validation (`SphericalKDE`).
    permutations : int
        Number of random splits of the pooled points, or of their groups.
    alpha : float
        Level of the regions, above 0 and at most 0.5.
    resolution : int
        Number of rows of the map; there are twice as many columns.
    groups : pair of sequences, lengths n and m, optional
        Label of the group of every point, as in `two_sample_test`: whole groups are permuted.
    seed : int, generator or None
        Source of the permutations.
    progress : bool or callable (done, total)
        Show a bar in the terminal, or call a function with the numbers of rows that are done and in all.

    Returns
    -------
    DifferenceMap
        Draw it with `sphereot.plotting.difference_map`.

    Notes
    -----
    At each cell the difference is divided by its standard deviation over all splits. A cell is in a region if that
    exceeds the largest such value anywhere of all but a share `alpha` of the splits. So the probability that any region
    is marked, if both samples come from one distribution, is at most `alpha`: exactly, whatever the bandwidth.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> from sphereot.stats import difference_map
    >>> rng = np.random.default_rng(0)
    >>> x = sphere.normalize(rng.normal(size=(300, 3)) + [1, 0, 0])
    >>> y = sphere.normalize(rng.normal(size=(300, 3)))
    >>> result = difference_map(x, y, permutations=199, resolution=30, seed=0)
    >>> int(result.region[15, 30]), int(result.region[15, 0])  # longitude 0, and 180, on the equator
    (1, -1)
    """
    first, second = two_samples(x, y)
    if first.shape[1] != 3:
        raise ValueError(f"x: points have {first.shape[1]} coordinates, but a map is for 3 (the sphere S^2).")
    permutations = as_int("permutations", permutations, 1, "the number of permutations")
    resolution = as_int("resolution", resolution, 2, "the number of rows")
    alpha = as_level(alpha)
    kept = int(alpha * (1 + permutations) * (1 + 1e-9))
    if kept < 1:
        raise ValueError(f"permutations: got {permutations}, but level {alpha:g} needs at least {int(1 / alpha)}.")
    generator = independent_generator(seed, first)
    pool = np.concatenate([to_numpy(first), to_numpy(second)]).astype(np.float64)
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    n, m = first.shape[0], second.shape[0]
    if bandwidth is None:
        from sphereot.density.kde import SphericalKDE

        width = SphericalKDE().fit(pool).bandwidth_
    else:
        width = as_positive("bandwidth", bandwidth, "the bandwidth")
    weights = _weights(n, m, permutations, groups, generator)
    differences = _differences(pool, weights, width, resolution, progress)
    deviation = differences.std(axis=1)
    scaled = np.abs(_standardized(differences, deviation[:, None]))
    largest = scaled.max(axis=0)
    threshold = float(np.sort(largest)[-1 - kept])
    shape = (resolution, 2 * resolution)
    observed = differences[:, 0]
    return DifferenceMap(
        difference=observed.reshape(shape),
        deviation=deviation.reshape(shape),
        region=(np.sign(observed) * (scaled[:, 0] > threshold)).astype(np.int8).reshape(shape),
        p_value=float(np.mean(largest >= largest[0] * (1 - 1e-12))),
        threshold=threshold,
        alpha=alpha,
        bandwidth=width,
        n=n,
        m=m,
        permutations=permutations,
    )


def _standardized(difference: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled: NDArray[np.float64] = difference / np.hypot(deviation, _FLOOR * deviation.max() + np.finfo(float).tiny)
    return scaled


def _weights(n: int, m: int, permutations: int, groups: Any, generator: np.random.Generator) -> NDArray[np.float64]:
    """Weights (n + m, 1 + permutations) whose sums of kernels are differences of densities; the observed come first."""
    of_points = None
    count, n_first = n + m, n
    if groups is not None:
        of_x, of_y = as_groups(groups, ("x", "y"), (n, m))
        n_first = int(of_x.max()) + 1
        of_points = np.concatenate([of_x, of_y + n_first])
        count = int(of_points.max()) + 1
    labels = np.tile(np.arange(count) < n_first, (1 + permutations, 1))
    labels[1:] = generator.permuted(labels[1:], axis=1)
    if of_points is not None:
        labels = labels[:, of_points]
    sizes = labels.sum(axis=1, keepdims=True)
    weights: NDArray[np.float64] = np.where(labels, 1 / sizes, -1 / (n + m - sizes)).T
    return np.ascontiguousarray(weights)


def _differences(
    pool: NDArray[np.float64], weights: NDArray[np.float64], width: float, resolution: int, progress: Progress
) -> NDArray[np.float64]:
    """Differences of densities (cells, splits) at the centers of the cells, rows from south to north."""
    concentration = width**-2
    factor = concentration / (-2 * np.pi * np.expm1(-2 * concentration))  # the kernel's largest value, for d = 3
    latitude = np.pi * ((np.arange(resolution) + 0.5) / resolution - 0.5)
    longitude = np.pi * ((np.arange(2 * resolution) + 0.5) / resolution - 1)
    ring = np.stack([np.cos(longitude), np.sin(longitude), np.ones_like(longitude)], axis=1)
    rows = max(1, _BLOCK_ENTRIES // (2 * resolution * len(pool)))
    values = np.empty((resolution, 2 * resolution, weights.shape[1]))
    with progress_bar(progress, "rows of the map", resolution) as show:
        for start in range(0, resolution, rows):
            heights = latitude[start : start + rows, None, None]
            cells = ring * np.concatenate([np.cos(heights), np.cos(heights), np.sin(heights)], axis=2)
            kernels = np.exp(concentration * (cells.reshape(-1, 3) @ pool.T - 1.0))
            values[start : start + rows] = (factor * (kernels @ weights)).reshape(len(heights), 2 * resolution, -1)
            show(min(start + rows, resolution))
    return values.reshape(-1, weights.shape[1])
