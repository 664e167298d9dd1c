"""Control variates for the mean over great circles: functions of a great circle whose mean is known.

If g is such a function with mean m, then the mean of f - b (g - m) is that of f for every b, and varies less where g
follows f. For two measures, f being the transport cost, there are

- D = min over c of the integral of (F - G - c)^2, F and G the distribution functions on the circle: the squared
  distance of Watson's two-sample test. It is half the double sum of B2({t_i - t_j}) with the signed weights of mu -
  nu, so its mean over all great circles is the double sum of the kernel K_d (docs/uniformity.md);
- |U^T a|^2, |U^T b|^2 and <U^T a, U^T b> of the mean vectors a and b, and the products of these: their means are
  moments of the random projector U U^T.

For one measure against the uniform distribution and p other than 2, the cost of order 2 takes the place of D.

The coefficients b are fitted by least squares, for each replicate on the other replicates, so that they do not depend
on the great circles that they are used for: the estimate has no bias.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import to_numpy
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures

__all__ = ["ControlVariates", "adjusted"]

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
    """Functions of great circles with known means.

    Attributes
    ----------
    measures : sequence of Measure
        One or two (parts of) measures, NumPy arrays.
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
        """The control variates for one or two validated measures."""
        arrays = [
            Measure(to_numpy(points), None if weights is None else to_numpy(weights)) for points, weights in measures
        ]
        vectors = np.stack([_mean_vector(measure) for measure in arrays])
        # In double precision: D is a small difference of costs, and its mean must be as precise.
        parts = [_in_double(_part(measure, generator)) for measure in arrays]
        exact = [_pair_cost(measure) for measure in _with_pool(parts)]
        return cls(parts, vectors, np.concatenate([[_combined(*exact)], *_product_means(vectors)]))

    @property
    def nested(self) -> tuple[int, ...]:
        """Numbers of functions, in order, that make sense together: none, the first, and up to each degree."""
        products = len(self.vectors) * (len(self.vectors) + 1) // 2
        return 0, 1, 1 + products, len(self.means)

    @property
    def circles_per_control(self) -> int:
        """How many great circles the coefficient of each function needs."""
        is_low = self.vectors.shape[1] <= _HIGHEST_LOW_DIM
        return _CIRCLES_PER_CONTROL if is_low else _CIRCLES_PER_CONTROL_IN_HIGH_DIM

    def values(self, frames: Floats) -> Floats:
        """The functions of great circles, shape (L, q)."""
        costs = [
            np.asarray(backend_for(frames).slice_costs([measure], frames, 2), dtype=np.float64)
            for measure in _with_pool(self.measures)
        ]
        products = _products(np.einsum("kd,ldj->lkj", self.vectors, frames))
        return np.concatenate([_combined(*costs)[:, None], products, _pairs_of(products)], axis=1)


def adjusted(
    values: Floats,
    controls: Floats,
    means: Floats,
    folds: NDArray[np.intp],
    nested: tuple[int, ...],
    circles_per_control: int = 4,
) -> Floats:
    """Values with the part removed that the control variates explain.

    Parameters
    ----------
    values : array, shape (L,)
    controls : array, shape (L, q)
    means : array, shape (q,)
        Known means of the controls.
    folds : array of int, shape (L,)
        The coefficients for a fold are fitted on the others.
    nested : tuple of int
        Numbers of leading controls to choose from, by generalized cross-validation.
    circles_per_control : int
        Fewest values per coefficient.

    Returns
    -------
    array, shape (L,)
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
        coefficients = _fitted(total - moment, nested, circles_per_control)
        result[chosen] -= differences[chosen, : len(coefficients)] @ coefficients
    return result


def _fitted(moments: Floats, nested: tuple[int, ...], circles_per_control: int) -> Floats:
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


def _mean_vector(measure: Measure) -> Floats:
    mean: Floats = np.average(measure.points, axis=0, weights=measure.weights).astype(np.float64)
    return mean


def _part(measure: Measure, generator: np.random.Generator) -> Measure:
    """At most `_MAX_POINTS` points of a measure with their weights, which have a positive sum."""
    points, weights = measure
    n = points.shape[0]
    if n <= _MAX_POINTS:
        return measure
    if weights is None:
        return Measure(points[generator.choice(n, _MAX_POINTS, replace=False)], None)
    shares = weights.astype(np.float64)
    return Measure(points[generator.choice(n, _MAX_POINTS, p=shares / shares.sum())], None)


def _in_double(measure: Measure) -> Measure:
    points, weights = measure
    return Measure(points.astype(np.float64), None if weights is None else weights.astype(np.float64))


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


def _combined(x: Floats, y: Floats | None = None, pool: Floats | None = None) -> Floats:
    """D of two measures from the costs to the uniform distribution of both and of their mean, by polarization."""
    return x if y is None or pool is None else 2 * x + 2 * y - 4 * pool


def _pair_cost(measure: Measure) -> Floats:
    """The mean over all great circles of the cost of order 2 to the uniform distribution."""
    return np.asarray(backend_for(measure.points).pair_cost(measure), dtype=np.float64)


def _products(vectors: Floats) -> Floats:
    """Inner products of the vectors (L, k, 2) of each great circle, shape (L, k (k + 1) / 2)."""
    rows, columns = np.triu_indices(vectors.shape[1])
    products: Floats = np.sum(vectors[:, rows] * vectors[:, columns], axis=2)
    return products


def _pairs_of(products: Floats) -> Floats:
    rows, columns = np.triu_indices(products.shape[1])
    return products[:, rows] * products[:, columns]


def _product_means(vectors: Floats) -> tuple[Floats, Floats]:
    """Means of `_products` of the projected vectors and of their pairs, by the moments of a random projector of rank 2.

    E tr(A P) = 2/d tr A, and E tr(A P) tr(B P) = s tr A tr B + 2 t tr(A B) for symmetric A and B; s and t follow from
    tr P = 2 and tr(P P) = 2.
    """
    dim = vectors.shape[1]
    t = (2 - 4 / dim) / ((dim + 2) * (dim - 1))
    s = (4 / dim - 2 * t) / dim
    rows, columns = np.triu_indices(len(vectors))
    matrices = [
        0.5 * (np.outer(vectors[i], vectors[j]) + np.outer(vectors[j], vectors[i]))
        for i, j in zip(rows, columns, strict=True)
    ]
    traces = np.array([np.trace(matrix) for matrix in matrices])
    firsts, seconds = np.triu_indices(len(matrices))
    overlaps = np.array([np.sum(matrices[i] * matrices[j]) for i, j in zip(firsts, seconds, strict=True)])
    return 2 / dim * traces, s * traces[firsts] * traces[seconds] + 2 * t * overlaps
