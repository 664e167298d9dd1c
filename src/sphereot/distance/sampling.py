"""The choice of great circles for an estimate: by a given method, or by the data.

See the guide "Accuracy of the estimates".
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, is_numpy, to_kind, to_numpy
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures, n_atoms
from sphereot.slicing.drawing import independent_frames, replicate_frames
from sphereot.slicing.near_centers import CenterMixture, DisplacedPoints, centers_of, displaced_points

Floats = NDArray[np.float64]

# Evenly spread circles without control variates are better in lower dimensions.
_LOWEST_CONTROLLED_DIM = 5
_LARGEST_CONTROLLED_ORDER = 4.0

# The relative variance of the cost of a great circle is below 3.3 for samples that are not tight, and above 8 for tight
# ones close to each other.
_HEAVY_TAIL = 4.0
_CENTER_POINTS = 128
_PILOT_CIRCLES = 128, 512

# The squared cost of rare great circles, relative to the squared mean, is below 0.1 for ordinary samples, below 6 for
# tight clusters close to each other, and above 15 for samples whose points nearly coincide.
_NEARLY_EQUAL = 8.0
_UNRELIABLE = 1.0
_MAX_DISTANCES = 1 << 22  # between points of the two samples
_FEWEST_POINTS = 32
_HIGHEST_RELIABLE_ORDER = 2.0


@dataclass(frozen=True)
class CircleSampling:
    """How to draw great circles: by a method of `great_circles`, or by a mixture about centers of the data."""

    method: str
    dim: int
    mixture: CenterMixture | None
    controls: "ControlVariates | None"
    near: DisplacedPoints | None = None

    def misses_rare_circles(self, value: float, p: float) -> bool:
        """Whether great circles that carry much of the value are too rare to be drawn by this method."""
        if self.mixture is not None:
            # The mixture does not know the directions of displacements, which decide for higher orders.
            return self.near is not None and p > _HIGHEST_RELIABLE_ORDER
        return self.near is not None and _is_rare(self.near, value, _UNRELIABLE)

    def draw(self, sizes: list[int], generator: np.random.Generator) -> tuple[Floats, Floats | None]:
        """Draw the frames of replicates, one after the other; also return their weights, None if all are equal."""
        if self.method == "iid":
            return independent_frames(generator.standard_normal, len(sizes), self.dim), None
        if self.mixture is None:
            return replicate_frames(generator.standard_normal, sizes, self.dim, self.method), None
        drawn = [self.mixture.draw(size, generator) for size in sizes]
        return np.concatenate([frames for frames, _, _ in drawn]), np.concatenate([weights for _, weights, _ in drawn])


def choose_sampling(
    measures: Measures, p: float, method: str | None, count: int, generator: np.random.Generator
) -> CircleSampling:
    """Choose the method that was asked for, or the best one for the data."""
    dim = measures[0].points.shape[1]
    near = near_points(measures, p, count)
    if method in ("iid", "orthogonal", "quasi"):
        return CircleSampling(method, dim, None, None, near)
    has_all_points = near is not None and len(near.mixture.centers) == n_atoms(measures)
    if near is not None and has_all_points and _is_rare(near, 0.0, _NEARLY_EQUAL):
        costs, weights, _ = _run_pilot(near.mixture, measures, p, _PILOT_CIRCLES[0], generator)
        if _is_rare(near, float(np.mean(weights * costs)), _NEARLY_EQUAL):
            return CircleSampling("importance", dim, near.mixture, None, near)
    mixture = centers_of(_sample_points(measures, generator), generator)
    if mixture is None and method == "importance":
        reason = (
            "a circle has no great circles to choose from"
            if dim == 2
            else "the points are neither tight nor nearly those of the other sample"
        )
        raise ValueError(f"method: got 'importance', but {reason}; leave method out.")
    if mixture is not None:
        least, most = _PILOT_CIRCLES
        costs, weights, strata = _run_pilot(mixture, measures, p, min(max(count // 4, least), most), generator)
        costs = costs / (float(np.max(costs)) or 1.0)  # squares of costs of order 16 would underflow
        mean = float(np.mean(weights * costs))
        relative_variance = float(np.mean(weights * costs**2)) / mean**2 - 1 if mean > 0 else 0.0
        if method == "importance" or relative_variance > _HEAVY_TAIL * min(1.0, p / 2) ** 2:
            return CircleSampling("importance", dim, mixture.reweight(weights * costs, strata), None)
    is_controlled = dim >= _LOWEST_CONTROLLED_DIM and p <= _LARGEST_CONTROLLED_ORDER
    is_new = len(measures) == 2 or p != 2  # a control variate that is the cost itself would need no great circles
    controls = ControlVariates.of(measures, generator) if is_controlled and is_new else None
    return CircleSampling("quasi", dim, None, controls, near)


def _run_pilot(
    mixture: CenterMixture, measures: Measures, p: float, count: int, generator: np.random.Generator
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Costs, weights and strata of a few great circles of a mixture."""
    frames, weights, strata = mixture.draw(count, generator)
    return to_numpy(costs_on(measures, frames, p)).astype(np.float64), weights, strata


def near_points(measures: Measures, p: float, count: int) -> DisplacedPoints | None:
    """Model points that nearly coincide with points of the other sample; None if a few points show none."""
    if len(measures) == 1:
        return None
    weighted = []
    for points, weights in measures:
        mass = np.ones(points.shape[0]) if weights is None else to_numpy(weights).astype(np.float64)
        weighted.append((to_numpy(points)[mass > 0], mass[mass > 0] / np.sum(mass) / 2))
    few, has_equal = _model_displacements(weighted, _FEWEST_POINTS, p, count)
    if not has_equal and (few is None or not _is_rare(few, 0.0, _UNRELIABLE)):
        return None
    most = max(_FEWEST_POINTS, _MAX_DISTANCES // max(len(points) for points, _ in weighted))
    return _model_displacements(weighted, most, p, count)[0]


def _model_displacements(
    weighted: list[tuple[Floats, Floats]], most: int, p: float, count: int
) -> tuple[DisplacedPoints | None, bool]:
    """Model at most `most` points of each sample; also return whether some of them are in both samples."""
    generator = np.random.default_rng(0)  # which points are looked at must not change what is drawn later
    chosen, distances, masses = [], [], []
    for (points, mass), (others, _) in zip(weighted, weighted[::-1], strict=True):
        rows = generator.choice(len(points), most, replace=False) if most < len(points) else slice(None)
        chosen.append(points[rows].astype(np.float64))
        distances.append(_distances_to_nearest(points[rows], others))
        masses.append(mass[rows])
    lengths = np.concatenate(distances)
    n_points = sum(len(points) for points, _ in weighted)
    near = displaced_points(np.concatenate(chosen), lengths, np.concatenate(masses), p, count, n_points)
    return near, bool(np.any(lengths == 0))


def _distances_to_nearest(points: Floats, others: Floats) -> Floats:
    block = max(1, _MAX_DISTANCES // (4 * len(points)))
    nearest = np.zeros(len(points), dtype=np.intp)
    best = np.full(len(points), -np.inf)
    for start in range(0, len(others), block):
        products = points @ others[start : start + block].T
        rows = np.argmax(products, axis=1)
        values = products[np.arange(len(points)), rows]
        nearest = np.where(values > best, start + rows, nearest)
        best = np.maximum(values, best)
    distances: Floats = np.linalg.norm(points.astype(np.float64) - others[nearest], axis=1)
    return distances


def _is_rare(near: DisplacedPoints, value: float, limit: float) -> bool:
    return near.rare > limit * max(near.mean, value) ** 2


def _sample_points(measures: Measures, generator: np.random.Generator) -> Floats:
    """Draw some points of each measure with its weights."""
    samples = []
    for points, weights in measures:
        points = to_numpy(points)
        if weights is None and len(points) <= _CENTER_POINTS:
            rows: Any = slice(None)
        else:
            shares = None if weights is None else to_numpy(weights).astype(np.float64)
            probabilities = None if shares is None else shares / np.sum(shares)
            rows = generator.choice(len(points), _CENTER_POINTS, replace=shares is not None, p=probabilities)
        samples.append(points[rows].astype(np.float64))
    return np.concatenate(samples)


def costs_on(measures: Measures, frames: Array, p: float) -> Array:
    """W_p^p on each great circle of frames of NumPy or of the library of the measures."""
    points = measures[0].points
    return backend_for(points).slice_costs(measures, to_kind(frames, points) if is_numpy(frames) else frames, p)


_MAX_POINTS = 512  # of each measure; the double sum over all points of large samples would take longer than it saves
_LEAST_SPREAD, _LEAST_RELATIVE_SPREAD = 1e-13, 1e-6
_RIDGE = 1e-10  # relative to the variance of a control
# Products of squared lengths have heavy tails in high dimension, where their coefficients need more great circles for
# intervals to hold the true value as often as they should.
_HIGHEST_LOW_DIM = 16
_CIRCLES_PER_CONTROL, _CIRCLES_PER_CONTROL_IN_HIGH_DIM = 12, 20


@dataclass(frozen=True)
class ControlVariates:
    """Functions of great circles with known means.

    Attributes
    ----------
    measures : sequence of Measure
        One or two measures of NumPy arrays, or samples of their points.
    vectors : array, shape (k, d)
        Mean vectors of the measures.
    means : array, shape (q,)
        The means of the functions over all great circles.
    """

    measures: Measures
    vectors: Floats
    means: Floats

    @classmethod
    def of(cls, measures: Measures, generator: np.random.Generator) -> "ControlVariates":
        """Make the control variates for one or two validated measures."""
        vectors, parts = [], []
        for measure in measures:
            points = to_numpy(measure.points)
            weights = None if measure.weights is None else to_numpy(measure.weights)
            vectors.append(np.average(points, axis=0, weights=weights).astype(np.float64))
            if len(points) > _MAX_POINTS:
                shares = None if weights is None else weights.astype(np.float64)
                probabilities = None if shares is None else shares / shares.sum()
                rows = generator.choice(len(points), _MAX_POINTS, replace=shares is not None, p=probabilities)
                points, weights = points[rows], None
            # In double precision: D is a small difference of costs, and its mean must be as precise.
            parts.append(Measure(points.astype(np.float64), None if weights is None else weights.astype(np.float64)))
        exact = [np.asarray(backend_for(measure.points).pair_cost(measure)) for measure in _with_pool(parts)]
        means = np.concatenate([[_combine_costs(*exact)], *_product_means(np.stack(vectors))])
        return cls(parts, np.stack(vectors), means)

    @property
    def nested(self) -> tuple[int, ...]:
        """Numbers of leading functions to choose from: none, the first, and all up to each degree."""
        products = len(self.vectors) * (len(self.vectors) + 1) // 2
        return 0, 1, 1 + products, len(self.means)

    @property
    def circles_per_control(self) -> int:
        """Number of great circles that the coefficient of each function needs."""
        is_low = self.vectors.shape[1] <= _HIGHEST_LOW_DIM
        return _CIRCLES_PER_CONTROL if is_low else _CIRCLES_PER_CONTROL_IN_HIGH_DIM

    def values(self, frames: Floats) -> Floats:
        """Compute the functions for great circles, shape (L, q)."""
        costs = [
            np.asarray(backend_for(frames).slice_costs([measure], frames, 2), dtype=np.float64)
            for measure in _with_pool(self.measures)
        ]
        products = _products(np.einsum("kd,ldj->lkj", self.vectors, frames))
        return np.concatenate([_combine_costs(*costs)[:, None], products, _products(products[:, :, None])], axis=1)


def apply_controls(
    values: Floats,
    controls: Floats,
    means: Floats,
    folds: NDArray[np.intp],
    nested: tuple[int, ...],
    circles_per_control: int = 4,
) -> Floats:
    """Subtract the part of the values that the control variates explain.

    Parameters
    ----------
    values : array, shape (L,)
    controls : array, shape (L, q)
        The control variates on the same great circles.
    means : array, shape (q,)
        Known means of the controls.
    folds : array of int, shape (L,)
        The coefficients for a fold are fitted on the other folds.
    nested : tuple of int
        Numbers of leading controls to choose from, by generalized cross-validation.
    circles_per_control : int
        Smallest number of values for each coefficient.
    """
    differences: Floats = controls - means
    spreads = np.std(controls, axis=0)
    # A control that is constant but for rounding explains nothing; what is left of it is noise.
    is_usable = spreads > np.maximum(_LEAST_SPREAD, _LEAST_RELATIVE_SPREAD * np.sqrt(np.mean(controls**2, axis=0)))
    differences = np.where(is_usable, differences / np.where(is_usable, spreads, 1.0), 0.0)
    table = np.concatenate([np.ones((len(values), 1)), differences, values[:, None]], axis=1)
    result = values.copy()
    moments = [table[folds == fold].T @ table[folds == fold] for fold in range(int(folds.max()) + 1)]
    total = sum(moments)
    for fold, moment in enumerate(moments):
        chosen = folds == fold
        coefficients = _fit_coefficients(total - moment, nested, circles_per_control)
        result[chosen] -= differences[chosen, : len(coefficients)] @ coefficients
    return result


def _fit_coefficients(moments: Floats, nested: tuple[int, ...], circles_per_control: int) -> Floats:
    """Coefficients of the best number of controls, from the second moments of (1, controls, value)."""
    count = float(moments[0, 0])
    means = moments[0, 1:] / count
    covariance = moments[1:, 1:] / count - np.outer(means, means)  # about the means: the intercept is free
    best: Floats = np.zeros(0)
    least = np.inf
    for k in nested:
        if k > 0 and count < circles_per_control * (k + 1):
            break
        right = covariance[:k, -1]
        coefficients = np.linalg.solve(covariance[:k, :k] + _RIDGE * np.eye(k), right).astype(np.float64, copy=False)
        residual = max(float(covariance[-1, -1] - right @ coefficients), 0.0)
        score = residual / (count - k - 1) ** 2 if count > k + 1 else np.inf
        if score < least:
            best, least = coefficients, score
    return best


def _with_pool(measures: Measures) -> list[Measure]:
    """One measure; or two and their mean."""
    if len(measures) == 1:
        return list(measures)
    weights = [
        np.full(points.shape[0], 1.0 / points.shape[0]) if w is None else w.astype(np.float64) / np.sum(w, dtype=float)
        for points, w in measures
    ]
    points = np.concatenate([measure.points for measure in measures])
    # Without weights the kernel is faster.
    is_plain = all(w is None for _, w in measures) and len(weights[0]) == len(weights[1])
    return [*measures, Measure(points, None if is_plain else np.concatenate(weights).astype(points.dtype))]


def _combine_costs(x: Floats, y: Floats | None = None, pool: Floats | None = None) -> Floats:
    """D of two measures from the costs to the uniform distribution of both and of their mean, by polarization."""
    return x if y is None or pool is None else 2 * x + 2 * y - 4 * pool


def _products(vectors: Floats) -> Floats:
    """Inner products of all pairs of the vectors (L, k, m) of each great circle, shape (L, k (k + 1) / 2)."""
    rows, columns = np.triu_indices(vectors.shape[1])
    products: Floats = np.sum(vectors[:, rows] * vectors[:, columns], axis=2)
    return products


def _product_means(vectors: Floats) -> tuple[Floats, Floats]:
    """Means of `_products` of the projected vectors and of their pairs, by the moments of a random projector of rank 2.

    E tr(A P) = 2/d tr A, and E tr(A P) tr(B P) = s tr A tr B + 2 t tr(A B) for symmetric A and B; s and t follow from
    tr P = 2 and tr(P P) = 2.
    """
    dim = vectors.shape[1]
    t = (2 - 4 / dim) / ((dim + 2) * (dim - 1))
    s = (4 / dim - 2 * t) / dim
    gram = vectors @ vectors.T
    i, j = np.triu_indices(len(vectors))  # A is the symmetric part of the product of vectors i and j
    traces = gram[i, j]
    first, second = np.triu_indices(len(i))
    a, b, c, d = i[first], j[first], i[second], j[second]
    overlaps = 0.5 * (gram[a, c] * gram[b, d] + gram[a, d] * gram[b, c])
    return 2 / dim * traces, s * traces[first] * traces[second] + 2 * t * overlaps
