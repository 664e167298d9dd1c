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
from sphereot.stats.two_sample import as_groups, pool_groups

_BLOCK_ENTRIES = 1 << 22  # of the matrix of cells against points: 32 MB
_FLOOR = 0.02  # of the largest deviation: a difference far from all points has no meaning


@dataclass(frozen=True)
class RowContributions:
    """Contribution of every point of two samples to their distance.

    Attributes
    ----------
    x, y : array, shape (n,) and (m,)
        Derivative of SSW_p^p in the weight of each point, in turns to the power p; the mean of each array is 0. It is
        large for points without similar points in the other sample: new points of `y`, missing points of `x`.
    p : float
        Order of the distance.
    """

    x: NDArray[np.float64] = field(repr=False)
    y: NDArray[np.float64] = field(repr=False)
    p: float

    def new(self, count: int = 10) -> NDArray[np.intp]:
        """Return the indices of the points of `y` that contribute most, in descending order."""
        return _largest(self.y, count)

    def missing(self, count: int = 10) -> NDArray[np.intp]:
        """Return the indices of the points of `x` that contribute most, in descending order."""
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
    """Rank the points of two samples by their contribution to the distance.

    Parameters
    ----------
    x, y : array, shape (n, d) and (m, d)
        The reference, and a sample that is compared with it, one unit vector per row.
    p : float, default 1
        Order of the distance, between 1 and 16.
    n_projections, projections, method, seed
        Great circles; see `two_sample_test`.

    Returns
    -------
    RowContributions
        `new()` returns the points of y without similar points in x, `missing()` the points of x without similar points
        in y. The contributions are in turns to the power p.

    Notes
    -----
    The derivative of the optimal cost in the weight of a point is its Kantorovich potential. On a great circle, the
    potential of a point of y is high if y has more mass than x there and must move this mass far. The contribution is
    the mean over great circles. It is not a test: some points contribute most in any sample.

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
    """Compute `row_contributions` of validated NumPy arrays on given great circles."""
    measures = [Measure(points) for points in (x, y)]
    gradients = backend_for(x).weight_gradients(measures, frames.astype(x.dtype, copy=False), p)
    # The derivatives are in weights with a mean of 1; they are multiplied by the number of weights and centered.
    of_x, of_y = (len(slopes) * (slopes - slopes.mean()) for slopes in map(np.asarray, gradients))
    return RowContributions(of_x, of_y, p)


def _largest(values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    count = as_int("count", count, 1, "the number of points")
    return np.argsort(-values, kind="stable")[:count]


@dataclass(frozen=True)
class DifferenceMap:
    """Result of `difference_map`.

    Attributes
    ----------
    difference : array, shape (rows, columns)
        Density of x minus density of y, per steradian, at the cells of a map: rows from south to north, columns from
        west (-180 degrees) to east, as in `sphereot.plotting.map_points`.
    deviation : array, shape (rows, columns)
        Standard deviation of the difference under permutation.
    region : array of int, shape (rows, columns)
        1 in cells where x is significantly denser, -1 where y is significantly denser, otherwise 0.
    p_value : float
        P-value of the largest difference on the sphere.
    threshold : float
        Number of standard deviations that a difference must exceed to be in a region.
    alpha : float
        Significance level: a bound on the probability that any region is marked if the distributions are equal.
    bandwidth : float
        Width of the kernel, in radians, the same for both samples.
    n, m, permutations : int
        Numbers of points of both samples, and number of permutations.
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
        """The difference in standard deviations; in a region, its absolute value exceeds `threshold`."""
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
            f"Difference of {self.n} and {self.m} points: x is significantly denser on {more:.1%} of the sphere, y on "
            f"{less:.1%} (alpha = {self.alpha:g}, p-value of the largest difference {self.p_value:.3g})"
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
    """Find the regions of S^2 in which the density of one sample is significantly larger.

    Parameters
    ----------
    x, y : array, shape (n, 3) and (m, 3)
        The samples, one unit vector per row.
    bandwidth : float, optional
        Width of the von Mises-Fisher kernel of both densities, in radians. By default, `SphericalKDE` chooses it.
    permutations : int, default 499
        Number of random splits of the pooled points, or of their groups.
    alpha : float, default 0.05
        Significance level of the regions, above 0 and at most 0.5.
    resolution : int, default 90
        Number of rows of the map. The map has twice this number of columns.
    groups : pair of sequences, lengths n and m, optional
        Group label of every point; see `two_sample_test`. Whole groups are permuted.
    seed : int, generator or None, default None
        Seed of the permutations.
    progress : bool or callable, default False
        If True, show a progress bar (needs rich). A callable gets the number of rows done, and their total.

    Returns
    -------
    DifferenceMap
        Densities are per steradian. Draw the map with `sphereot.plotting.difference_map`.

    Notes
    -----
    A cell is in a region if its difference, divided by its standard deviation over all splits, exceeds the largest such
    value on the sphere for all but a share `alpha` of the splits. The significance level is valid for any bandwidth.

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
        raise ValueError(f"x must have points with 3 coordinates (on the sphere S^2), got {first.shape[1]}.")
    permutations = as_int("permutations", permutations, 1, "the number of permutations")
    resolution = as_int("resolution", resolution, 2, "the number of rows")
    alpha = as_level(alpha)
    kept = int(alpha * (1 + permutations) * (1 + 1e-9))
    if kept < 1:
        raise ValueError(f"permutations must be at least {int(1 / alpha)} for alpha={alpha:g}, got {permutations}.")
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
    return np.asarray(difference / np.hypot(deviation, _FLOOR * deviation.max() + np.finfo(float).tiny))


def _weights(n: int, m: int, permutations: int, groups: Any, generator: np.random.Generator) -> NDArray[np.float64]:
    """Draw weights (n + m, 1 + permutations) whose sums of kernels are differences of densities, observed first."""
    of_points, sizes = None, (n, m)
    if groups is not None:
        of_points, sizes = pool_groups(*as_groups(groups, ("x", "y"), (n, m)))
    labels = np.tile(np.arange(sum(sizes)) < sizes[0], (1 + permutations, 1))
    labels[1:] = generator.permuted(labels[1:], axis=1)
    if of_points is not None:
        labels = labels[:, of_points]
    counts = labels.sum(axis=1, keepdims=True)
    return np.ascontiguousarray(np.where(labels, 1 / counts, -1 / (n + m - counts)).T)


def _differences(
    pool: NDArray[np.float64], weights: NDArray[np.float64], width: float, resolution: int, progress: Progress
) -> NDArray[np.float64]:
    """Compute differences of densities (cells, splits) at the centers of the cells, rows from south to north."""
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
