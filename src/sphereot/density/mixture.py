"""Mixtures of von Mises-Fisher distributions, fitted by expectation maximization (Banerjee et al., 2005)."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import namespace
from sphereot._arrays.random import numpy_generator
from sphereot._arrays.types import Numbers, Points
from sphereot._arrays.validation import as_int, as_positive
from sphereot.density._estimator import ComponentModel, as_library_of
from sphereot.density.components import (
    Floats,
    VonMisesFisherComponents,
    fit_concentrations,
    group_by_location,
    neighbor_distances,
    normalized_float64,
    row_blocks,
    scaled_log_normalizer,
)

_MOST_COMPONENTS = 512
_HELD_OUT = 0.2
_LARGEST = 1e12  # a larger concentration would magnify the rounding of cosines


class VonMisesFisherMixture(ComponentModel):
    """Mixture of von Mises-Fisher distributions on a sphere of any dimension, fitted by expectation maximization.

    Parameters
    ----------
    n_components : int, optional
        Number of components. By default `fit` tries 1, 2, 4, 8, ... components, up to 512 and up to half the number of
        locations, on 80% of the locations. It uses the number with the largest likelihood of the other locations.
    max_concentration : float, optional
        Largest concentration kappa: without a bound, a component at a repeated point has an infinite likelihood. By
        default the width of a component is at least the median distance to the nearest other location.
    tol : float, default 1e-4
        Stop when a step increases the mean log-likelihood by less than this number.
    max_iter : int, default 200
        Largest number of steps.
    weights : array, shape (n,), optional
        Nonnegative weights of the points of `fit`, scaled to a total of 1; equal by default.
    seed : int, numpy Generator or None
        Seed of the start (k-means++ with the distance 1 - cosine), to make a fit reproducible.

    Attributes
    ----------
    components_ : VonMisesFisherComponents
        Means, concentrations and weights of the components. Components without points are left out.
    log_likelihoods_ : list of float
        Mean log-likelihood of the points before each step, and at the end; it never falls, except by rounding.

    References
    ----------
    A. Banerjee, I. Dhillon, J. Ghosh, S. Sra, Clustering on the unit hypersphere using von Mises-Fisher distributions,
    Journal of Machine Learning Research 6 (2005).

    Examples
    --------
    >>> from sphereot import sphere
    >>> from sphereot.density import VonMisesFisherMixture
    >>> noise = np.random.default_rng(0).normal(size=(600, 3)) / 10
    >>> x = sphere.normalize(noise + np.repeat([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0]], [400, 200], axis=0))
    >>> mixture = VonMisesFisherMixture(2, seed=0).fit(x)
    >>> np.sort(mixture.components_.weights).round(3)
    array([0.333, 0.667])
    >>> mixture.predict(x[[0, -1]]) == mixture.predict_proba(x[[0, -1]]).argmax(axis=1)
    array([ True,  True])
    """

    _model = "mixture"
    _fitted_values = ("log_likelihoods_",)

    def __init__(
        self,
        n_components: int | None = None,
        *,
        max_concentration: float | None = None,
        tol: float = 1e-4,
        max_iter: int = 200,
        weights: Numbers | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.n_components, self.max_concentration = n_components, max_concentration
        self.tol, self.max_iter = tol, max_iter
        self.weights, self.seed = weights, seed

    def fit(self, x: Points, y: None = None, sample_weight: Numbers | None = None) -> Self:
        """Fit the mixture to unit vectors, shape (n, d), with at least one location per component.

        `sample_weight` is as in `SphericalKDE.fit`. `y` is ignored.
        """
        return self._fit_sample(*self._weighted_sample(x, self.weights, sample_weight))

    def _fit_sample(self, points: Floats, weights: Floats) -> Self:
        """Fit the mixture to validated points with weights of a total of 1."""
        tol = as_positive("tol", self.tol, "the smallest increase in a step")
        max_iter = as_int("max_iter", self.max_iter, 1, "the number of steps")
        first, location = group_by_location(points)
        count = self.n_components
        if count is not None and as_int("n_components", count, 1, "the number of components") > len(first):
            raise ValueError(
                f"n_components must be at most the number of locations of the points ({len(first)}), got {count}."
            )
        if self.max_concentration is not None:
            largest = as_positive("max_concentration", self.max_concentration, "the largest concentration")
        else:
            nearest = neighbor_distances(points[first], 1)[:, 0]
            width = float(np.median(nearest)) / math.sqrt(points.shape[1] - 1)
            largest = float(np.clip(width**-2, 1.0, _LARGEST)) if math.isfinite(width) else 1e4
        generator = numpy_generator(self.seed)
        settings: dict[str, Any] = {"largest": largest, "tol": tol, "max_iter": max_iter}
        if count is None:
            count = _choose_count(points, weights, location, generator, settings)
        self.components_, self.log_likelihoods_ = _maximize_likelihood(points, weights, count, generator, **settings)
        self.n_features_in_ = points.shape[1]
        return self

    def predict_proba(self, x: Points) -> Any:
        """Compute the probability of each component at unit vectors, shape (m, d).

        The result, shape (m, k), has the order of `components_` and the library of `x`. The sum of each row is 1.
        """
        at = self._as_points(x, "x")
        points, k = normalized_float64(at), len(self.components_.weights)
        shares = [_assign(self.components_, points[rows])[0] for rows in row_blocks(len(points), k)]
        return as_library_of(at, np.concatenate(shares))

    def predict(self, x: Points) -> Any:
        """Find the index of the most probable component of each point, shape (m,); see `predict_proba`."""
        probabilities = self.predict_proba(x)
        return namespace(probabilities).argmax(probabilities, axis=1)


def _choose_count(
    points: Floats,
    weights: Floats,
    location: NDArray[np.intp],
    generator: np.random.Generator,
    settings: dict[str, Any],
) -> int:
    """Find the number of components with the largest likelihood of held-out locations."""
    n_locations = int(location.max()) + 1
    most = min(_MOST_COMPONENTS, n_locations // 2)
    if most < 2:
        return 1
    held_out = (generator.permutation(n_locations) < max(1, round(_HELD_OUT * n_locations)))[location]
    train, test = points[~held_out], points[held_out]
    best, best_score = 1, -math.inf
    count = 1
    while count <= most:
        masses = weights[~held_out] / weights[~held_out].sum()
        components, _ = _maximize_likelihood(train, masses, count, generator, **settings)
        score = float(np.average(components.log_density(test), weights=weights[held_out]))
        if score > best_score:
            best, best_score = count, score
        elif count >= 4 * best:
            break
        count *= 2
    return best


def _maximize_likelihood(
    points: Floats,
    weights: Floats,
    count: int,
    generator: np.random.Generator,
    *,
    largest: float,
    tol: float,
    max_iter: int,
) -> tuple[VonMisesFisherComponents, list[float]]:
    """Fit a number of components by expectation maximization, from a k-means++ start."""
    components = _start(points, weights, count, generator, largest)
    likelihoods: list[float] = []
    for _ in range(max_iter):
        # Mean log-likelihood, and for each component the total weight and the weighted sum of its points.
        likelihood, masses, sums = 0.0, np.zeros(len(components.means)), np.zeros(components.means.shape)
        for rows in row_blocks(len(points), len(masses)):
            shares, log_densities = _assign(components, points[rows])
            shares *= weights[rows, None]
            likelihood += float(weights[rows] @ log_densities)
            masses += shares.sum(axis=0)
            sums += shares.T @ points[rows]
        likelihoods.append(likelihood)
        if len(likelihoods) > 1 and likelihood - likelihoods[-2] < tol:
            return components, likelihoods
        components = _maximization(masses, sums, largest)
    likelihoods.append(float(weights @ components.log_density(points)))
    return components, likelihoods


def _assign(components: VonMisesFisherComponents, points: Floats) -> tuple[Floats, Floats]:
    """Compute the probability of each component at points, shape (m, k), and the log-density of the mixture there."""
    log_factors = np.log(components.weights) + scaled_log_normalizer(points.shape[1], components.concentrations)
    shares = (points @ components.means.T - 1.0) * components.concentrations + log_factors
    largest = shares.max(axis=1, keepdims=True)
    shares -= largest
    np.exp(shares, out=shares)
    totals = shares.sum(axis=1)
    shares /= totals[:, None]
    return shares, largest[:, 0] + np.log(totals)


def _maximization(masses: Floats, sums: Floats, largest: float) -> VonMisesFisherComponents:
    """Find the components of largest expected likelihood. It is concave in kappa, so clipping finds its maximum."""
    alive = masses > 1e-12
    masses, sums = masses[alive], sums[alive]
    lengths = np.linalg.norm(sums, axis=1)
    directed = lengths > 1e-300
    means = np.where(directed[:, None], sums / np.where(directed, lengths, 1.0)[:, None], np.eye(sums.shape[1])[0])
    kappas = fit_concentrations(sums.shape[1], np.minimum(lengths / masses, 1.0), largest)
    return VonMisesFisherComponents(means, kappas, masses / masses.sum())


def _start(
    points: Floats,
    weights: Floats,
    count: int,
    generator: np.random.Generator,
    largest: float,
) -> VonMisesFisherComponents:
    """Start with centers that are far from each other (k-means++), and the points nearest to each."""
    gap = np.full(len(points), np.inf)
    nearest = np.zeros(len(points), np.intp)
    row = int(generator.choice(len(points), p=weights))
    for k in range(count):
        distance = np.maximum(1.0 - points @ points[row], 0.0)
        nearest[distance < gap] = k
        gap = np.minimum(gap, distance)
        chances = weights * gap
        if not chances.sum() > 0:
            break
        row = int(generator.choice(len(points), p=chances / chances.sum()))
    masses, sums = np.zeros(count), np.zeros((count, points.shape[1]))
    np.add.at(masses, nearest, weights)
    np.add.at(sums, nearest, weights[:, None] * points)
    # A cell of one point has no width. So all cells start with at least a typical width, that of `count` equal parts.
    start = _maximization(masses, sums, largest)
    spread = 1.0 - float(np.linalg.norm(sums, axis=1).sum())
    typical = (points.shape[1] - 1) / (2.0 * max(spread, 1e-12))
    kappas = np.minimum(np.minimum(start.concentrations, 4.0 * typical), largest)
    return VonMisesFisherComponents(start.means, kappas, start.weights)
