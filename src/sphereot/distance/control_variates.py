"""Control variates of the cost on a great circle: functions of the circle that follow it and whose means are known."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures

Floats = NDArray[np.float64]

_MAX_POINTS = 512  # of each measure; the double sum over all points of large samples would take longer than it saves
_LEAST_SPREAD, _LEAST_RELATIVE_SPREAD = 1e-13, 1e-6
_RIDGE = 1e-10  # relative to the variance of a control
# Products of squared lengths have heavy tails in high dimension, where their coefficients need more great circles for
# intervals to hold the true value as often as they should.
_HIGHEST_LOW_DIM = 16
_CIRCLES_PER_CONTROL, _CIRCLES_PER_CONTROL_IN_HIGH_DIM = 12, 20


@dataclass(frozen=True)
class ControlVariates:
    """Functions of great circles with known means."""

    measures: Measures  # one or two measures of NumPy arrays, or samples of their points
    vectors: Floats  # (k, d), the mean vectors of the measures
    means: Floats  # (q,), the means of the functions over all great circles

    @classmethod
    def of(cls, measures: Measures, generator: np.random.Generator) -> "ControlVariates":
        """Compute the control variates for one or two validated measures."""
        vectors, parts = [], []
        for measure in measures:
            points, weights = measure.in_numpy()
            vectors.append(np.average(points, axis=0, weights=weights).astype(np.float64))
            if len(points) > _MAX_POINTS:
                points, weights = points[draw_rows(len(points), weights, _MAX_POINTS, generator)], None
            # In double precision: D is a small difference of costs, and its mean must be as precise.
            parts.append(Measure(points.astype(np.float64), weights))
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
        backend = backend_for(frames)
        costs = [np.asarray(backend.slice_costs([measure], frames, 2)) for measure in _with_pool(self.measures)]
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
    """Subtract the part of the values (L,) that the control variates (L, q) with these means (q,) explain.

    The coefficients for a fold are fitted on the other folds, which need at least `circles_per_control` values for each
    coefficient. Generalized cross-validation chooses the number of leading controls from `nested`.
    """
    differences = controls - means
    spreads = np.std(controls, axis=0)
    # A control that is constant up to rounding explains nothing: its differences are noise.
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


def draw_rows(n: int, weights: Floats | None, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw `count` of n points: by their weights with replacement, or without replacement if there are no weights."""
    shares = None if weights is None else weights.astype(np.float64)
    return generator.choice(n, count, replace=shares is not None, p=None if shares is None else shares / shares.sum())


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
    return np.asarray(np.sum(vectors[:, rows] * vectors[:, columns], axis=2))


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
