"""Adaptive kernel estimates: exact leaving out, mass 1, samples, repeated points, few points, and bad input."""

import math
import pickle

import numpy as np
import pytest
from helpers.bad_input import refusal_test
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose
from scipy import integrate, stats

from sphereot import sphere
from sphereot.density import AdaptiveKDE, SphericalKDE
from sphereot.density.components import group_by_location, neighbor_distances
from sphereot.density.kde import _Sample, adaptive_bandwidths


def clustered(n, dim=3, seed=0):
    """Points of two clusters of very unlike widths."""
    rng = np.random.default_rng(seed)
    centers = np.eye(dim)[rng.integers(0, 2, n)]
    widths = np.where(centers[:, :1] == 1, 0.02, 0.5)
    return sphere.normalize(centers + widths * rng.normal(size=(n, dim)))


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_bandwidths_are_distances_to_neighbors(dim):
    x = sphere_sample(np.random.default_rng(0), 30, dim)
    distances = np.sort(np.linalg.norm(x[:, None] - x[None], axis=2), axis=1)
    estimate = AdaptiveKDE(neighbors=4, scale=0.7).fit(x)
    assert_allclose(estimate.bandwidths_, 0.7 * distances[:, 4] / math.sqrt(dim - 1), rtol=1e-7)
    assert_allclose(neighbor_distances(x, 3), distances[:, 1:4], rtol=1e-7)
    several = adaptive_bandwidths(x, [(1, 1.0), (4, 0.7)])
    assert_allclose(several[1], estimate.bandwidths_, rtol=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_equals_the_sum_of_kernels_of_scipy(dim):
    """Exponentials are in float32: log-densities agree to 1e-6."""
    rng = np.random.default_rng(1)
    x, at = sphere_sample(rng, 12, dim), sphere_sample(rng, 20, dim)
    weights = rng.random(12)
    estimate = AdaptiveKDE(neighbors=2, scale=1.5, weights=weights).fit(x)
    expected = sum(
        weight / weights.sum() * stats.vonmises_fisher(mean, h**-2).pdf(at)
        for mean, h, weight in zip(x, estimate.bandwidths_, weights, strict=True)
    )
    assert_allclose(estimate.log_density(at), np.log(expected), atol=1e-6)
    assert_allclose(estimate.density(at), expected, rtol=1e-6)
    assert estimate.score(at) == pytest.approx(np.log(expected).mean(), abs=1e-6)


@pytest.mark.parametrize("neighbors", [1, 2, 5])
def test_leaving_out_is_exact(neighbors):
    """As a direct loop: remove a location with all its points, fit again, evaluate there."""
    x = clustered(40)
    x = np.concatenate([x, x[:6], x[:3]])  # nine repeated points
    weights = np.random.default_rng(2).random(len(x)) + 0.1
    weights /= weights.sum()
    sample = _Sample(x, weights, neighbors + 1)
    values = sample.left_out(neighbors, 0.8, np.arange(40))
    for k, value in enumerate(values):
        others = sample.location != k
        again = AdaptiveKDE(neighbors, 0.8, weights[others]).fit(x[others])
        assert again.log_density(sample.locations[[k]])[0] == pytest.approx(value, abs=1e-5)


def test_the_choice_maximizes_the_likelihood_left_out():
    """To 0.03 nats: four scales decide on the number of neighbors, and a search then on the scale."""
    x = clustered(150)
    estimate = AdaptiveKDE().fit(x)
    sample = _Sample(x, np.full(150, 1 / 150), 33)
    rows = np.arange(150)

    def likelihood(neighbors, scale):
        return sample.left_out(neighbors, scale, rows).mean()

    best = likelihood(estimate.neighbors_, estimate.scale_)
    grid = [likelihood(k, c) for k in (1, 2, 3, 5, 8, 16, 32) for c in np.geomspace(0.2, 3, 15)]
    assert best > max(grid) - 0.03
    only_scale = AdaptiveKDE(neighbors=5).fit(x)
    assert only_scale.neighbors_ == 5
    assert likelihood(5, only_scale.scale_) > max(likelihood(5, c) for c in np.geomspace(0.2, 3, 15)) - 1e-3


def test_fits_clusters_of_unlike_widths_better_than_one_bandwidth():
    train, test = clustered(400), clustered(1000, seed=1)
    assert AdaptiveKDE().fit(train).score(test) > SphericalKDE().fit(train).score(test) + 0.1


def test_integrates_to_one():
    """By quadrature around each of five points with concentrations of up to 1e6; the kernels are far apart."""
    x = np.concatenate([np.eye(3), -np.eye(3)[:2]])
    estimate = AdaptiveKDE(neighbors=1, scale=1e-3).fit(x)
    assert estimate.components_.concentrations.max() == pytest.approx(1e6)

    def ring(angle):
        directions = np.stack([np.zeros(8), np.cos(_RING), np.sin(_RING)], axis=1)
        points = math.cos(angle) * np.eye(3)[0] + math.sin(angle) * directions
        return 2 * math.pi * math.sin(angle) * estimate.density(points).mean()

    mass, _ = integrate.quad(ring, 0.0, 0.01, points=[1e-3], epsabs=1e-8)
    assert 5 * mass == pytest.approx(1.0, abs=1e-5)
    wide = AdaptiveKDE(neighbors=3, scale=1.0).fit(clustered(30))
    height, azimuth = np.meshgrid((np.arange(800) + 0.5) / 400 - 1, 2 * math.pi * np.arange(800) / 800, indexing="ij")
    radius = np.sqrt(1 - height**2)
    grid = np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), height], axis=-1).reshape(-1, 3)
    assert float(wide.density(grid).mean()) * 4 * math.pi == pytest.approx(1.0, abs=1e-4)


_RING = 2 * math.pi * np.arange(8) / 8


def test_samples_follow_the_density():
    """The mean of 1 / density over samples is the area of the sphere, within five standard errors."""
    estimate = AdaptiveKDE(neighbors=8, scale=2.0).fit(sphere_sample(np.random.default_rng(0), 60, 3))
    ratio = 1 / estimate.density(estimate.sample(5000, seed=1))
    assert abs(ratio.mean() - 4 * math.pi) < 5 * ratio.std() / math.sqrt(5000)
    assert np.array_equal(estimate.sample(3, seed=7), estimate.sample(3, seed=np.random.default_rng(7)))


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_few_points(n, dim):
    x = sphere_sample(np.random.default_rng(n), n, dim)
    estimate = AdaptiveKDE().fit(x)
    assert np.all(np.isfinite(estimate.log_density(sphere_sample(np.random.default_rng(9), 50, dim))))


def test_repeated_points_do_not_make_a_bandwidth_zero():
    x = clustered(50)
    repeated = np.concatenate([x, x, x[:7], -0.0 * x[:1] + x[:1]])
    estimate = AdaptiveKDE(neighbors=1, scale=1.0).fit(repeated)
    assert_allclose(estimate.bandwidths_[:50], AdaptiveKDE(neighbors=1, scale=1.0).fit(x).bandwidths_, rtol=1e-9)
    assert len(group_by_location(repeated)[0]) == 50
    assert np.isfinite(AdaptiveKDE().fit(repeated).score(repeated))


def test_points_that_nearly_coincide_have_a_bandwidth():
    """Rounding can put copies of a point on two sides of a limit between locations."""
    x = clustered(20)
    estimate = AdaptiveKDE(neighbors=1, scale=0.1).fit(np.concatenate([x, x + 1e-16, sphere.normalize(x + 1e-9)]))
    assert estimate.bandwidths_.min() >= 1e-6


def test_conventions_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    x = clustered(60)
    model = AdaptiveKDE(neighbors=3, scale=1.0)
    copy = sklearn.base.clone(model)
    assert copy.get_params() == {"neighbors": 3, "scale": 1.0, "weights": None}
    assert len(cross_val_score(model, x, cv=3)) == 3
    pipeline = make_pipeline(Normalizer(), AdaptiveKDE(3, 1.0)).fit(2 * x)
    assert pipeline.score(x) == pytest.approx(model.fit(x).score(x))
    assert repr(model) == "AdaptiveKDE(neighbors=3, scale=1.0)"
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.density(x), model.density(x))


X = np.eye(3)
FAULTS = {
    "neighbors": (lambda: AdaptiveKDE(0).fit(X), ValueError, "neighbors: .*, got 0"),
    "scale": (lambda: AdaptiveKDE(1, -1.0).fit(X), ValueError, "scale: .*, got -1.0"),
    "one point": (
        lambda: AdaptiveKDE().fit(X[:1]),
        ValueError,
        r"x must have points at two or more locations.*SphericalKDE",
    ),
    "one location": (
        lambda: AdaptiveKDE(1, 1.0).fit(X[[0, 0]]),
        ValueError,
        "x must have points at two or more locations",
    ),
    "not unit": (lambda: AdaptiveKDE().fit(2 * X), ValueError, "x: row 0 has length 2"),
    "weights": (
        lambda: AdaptiveKDE(weights=[1, 2]).fit(X),
        ValueError,
        "weights must have one weight for each point of x",
    ),
    "not fitted": (lambda: AdaptiveKDE().density(X), ValueError, r"call fit\(x\) first"),
    "dimension": (lambda: AdaptiveKDE().fit(X).density(np.eye(2)), ValueError, "dimension 2 and the fitted sample"),
    "count": (lambda: AdaptiveKDE().fit(X).sample(0), ValueError, "n: .*, got 0"),
    "parameter": (lambda: AdaptiveKDE().set_params(k=1), ValueError, "Invalid parameter 'k' for estimator AdaptiveKDE"),
}

test_bad_input = refusal_test(FAULTS)
