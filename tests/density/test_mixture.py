"""Mixtures of von Mises-Fisher distributions: likelihoods that rise, known mixtures, repeated points, bad input."""

import math

import numpy as np
import pytest
from helpers.bad_input import refusal_test
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, stats

from sphereot import sphere
from sphereot.density import VonMisesFisherComponents, VonMisesFisherMixture
from sphereot.density.components import fit_concentrations, mean_cosine, sample_around, scaled_log_normalizer


def known(n, dim=3, seed=0):
    """Points of three known distributions on S^{d-1}, with weights 0.5, 0.3 and 0.2."""
    rng = np.random.default_rng(seed)
    means, kappas = np.concatenate([np.eye(dim)[:2], -np.eye(dim)[:1]]), np.array([30.0, 80.0, 200.0])
    truth = VonMisesFisherComponents(means, kappas, np.array([0.5, 0.3, 0.2]))
    return truth, truth.sample(n, rng)


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_components_have_the_densities_of_scipy(dim):
    truth, _ = known(1, dim)
    at = sphere_sample(np.random.default_rng(1), 50, dim)
    expected = sum(
        weight * stats.vonmises_fisher(mean, kappa).pdf(at)
        for mean, kappa, weight in zip(truth.means, truth.concentrations, truth.weights, strict=True)
    )
    assert_allclose(truth.log_density(at), np.log(expected), atol=1e-6)


def test_predictions_are_the_posterior_probabilities():
    """By Bayes' rule from densities of SciPy; and most points get the component that they were drawn around."""
    truth, x = known(400)
    mixture = VonMisesFisherMixture(3, seed=0).fit(x)
    parts = mixture.components_
    joint = np.stack(
        [w * stats.vonmises_fisher(m, k).pdf(x)
         for m, k, w in zip(parts.means, parts.concentrations, parts.weights, strict=True)], axis=1,
    )  # fmt: skip
    assert_allclose(mixture.predict_proba(x), joint / joint.sum(axis=1, keepdims=True), atol=1e-6)
    assert_array_equal(mixture.predict(x), joint.argmax(axis=1))
    # The means of `known` are orthogonal or opposite, and its widths at most 0.2 rad: no point is between them.
    nearest = np.argmax(x @ truth.means.T, axis=1)
    pairs = set(zip(nearest.tolist(), mixture.predict(x).tolist(), strict=True))
    assert len(pairs) == 3
    with pytest.raises(ValueError, match="dimension 4"):
        mixture.predict(np.eye(4))


def test_predictions_of_tensors():
    torch = pytest.importorskip("torch")
    _, x = known(50)
    mixture = VonMisesFisherMixture(3, seed=0).fit(x)
    assert mixture.predict(torch.tensor(x)).tolist() == mixture.predict(x).tolist()
    assert isinstance(mixture.predict_proba(torch.tensor(x)), torch.Tensor)


@pytest.mark.parametrize("kappa", [0.0, 3.0, 1e3, 1e6])
def test_samples_of_components_with_their_own_concentrations(kappa):
    """The mean cosine to the mean is that of the distribution, within five standard errors."""
    components = VonMisesFisherComponents(np.eye(3)[:2], np.array([kappa, 10.0]), np.array([0.999, 0.001]))
    drawn = components.sample(4000, np.random.default_rng(0))
    near = sample_around(np.repeat(np.eye(3)[:1], 4000, axis=0), np.full(4000, kappa), np.random.default_rng(1))
    gap = 1 - near[:, 0]
    assert abs(gap.mean() - (1 - mean_cosine(3, kappa))) < 5 * gap.std() / math.sqrt(4000) + 1e-12
    assert_allclose(np.linalg.norm(drawn, axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_concentrations_maximize_the_likelihood(dim):
    """Against a search by SciPy, bounds included."""
    for resultant in (0.05, 0.5, 0.9, 0.999):
        fitted = fit_concentrations(dim, np.array([resultant]), 400.0)[0]

        def loss(kappa, resultant=resultant):
            return -(scaled_log_normalizer(dim, kappa) + kappa * (resultant - 1))

        best = optimize.minimize_scalar(loss, bounds=(0, 400), method="bounded", options={"xatol": 1e-8}).x
        assert fitted == pytest.approx(best, rel=1e-4)
    assert_allclose(fit_concentrations(dim, np.array([0.0, 1.0]), 400.0), [0.0, 400.0])


@pytest.mark.parametrize("dim", [2, 3, 8])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_likelihood_never_falls(dim, count):
    x = sphere_sample(np.random.default_rng(0), 200, dim)
    mixture = VonMisesFisherMixture(count, tol=1e-9, max_iter=60, seed=0).fit(x)
    assert np.diff(mixture.log_likelihoods_).min() > -1e-12
    assert mixture.score(x) == pytest.approx(mixture.log_likelihoods_[-1], abs=1e-6)


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_recovers_a_known_mixture(dim):
    """4,000 points: weights within 5 standard errors (0.04), means within 0.03 radians, concentrations within 20%."""
    truth, x = known(4000, dim)
    fitted = VonMisesFisherMixture(3, tol=1e-8, seed=0).fit(x).components_
    order = np.argmax(truth.means @ fitted.means.T, axis=1)
    assert sorted(order) == [0, 1, 2]
    assert_allclose(fitted.weights[order], truth.weights, atol=0.04)
    assert np.sum(fitted.means[order] * truth.means, axis=1).min() > math.cos(0.03 * math.sqrt(dim - 1))
    assert_allclose(fitted.concentrations[order], truth.concentrations, rtol=0.2)


def test_the_number_of_components_is_chosen():
    """New points are as likely as under the true distribution, to 0.05 nats."""
    _, x = known(1500)
    mixture = VonMisesFisherMixture(seed=0).fit(x)
    assert 3 <= len(mixture.components_.weights) <= 32
    truth, test = known(2000, seed=5)
    assert mixture.score(test) > truth.log_density(test).mean() - 0.05


def test_one_component_is_the_maximum_likelihood_fit():
    x = sphere.normalize(np.random.default_rng(0).normal(size=(100, 4)) + 2 * np.eye(4)[0])
    fitted = VonMisesFisherMixture(1, seed=0).fit(x).components_
    mean, kappa = stats.vonmises_fisher.fit(x)
    assert_allclose(fitted.means[0], mean, atol=1e-9)
    assert fitted.concentrations[0] == pytest.approx(kappa, rel=1e-6)


def test_repeated_points_have_a_bounded_concentration():
    x = sphere_sample(np.random.default_rng(0), 30, 3)
    repeated = np.concatenate([x, np.repeat(x[:2], 40, axis=0)])
    mixture = VonMisesFisherMixture(6, seed=0).fit(repeated)
    assert np.isfinite(mixture.score(repeated))
    nearest = np.sort(np.linalg.norm(x[:, None] - x[None], axis=2), axis=1)[:, 1]
    assert mixture.components_.concentrations.max() <= 2 / np.median(nearest) ** 2 * (1 + 1e-9)
    bounded = VonMisesFisherMixture(6, max_concentration=50.0, seed=0).fit(repeated)
    assert bounded.components_.concentrations.max() <= 50.0
    assert np.isfinite(VonMisesFisherMixture(1, seed=0).fit(x[[0, 0, 0]]).score(x))


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_few_points(n, dim):
    x = sphere_sample(np.random.default_rng(n), n, dim)
    assert np.isfinite(VonMisesFisherMixture(seed=0).fit(x).score(sphere_sample(np.random.default_rng(9), 20, dim)))
    assert np.isfinite(VonMisesFisherMixture(n, seed=0).fit(x).score(x))


def test_weights_count_points():
    x = sphere_sample(np.random.default_rng(0), 40, 3)
    weights = np.repeat([1.0, 3.0, 0.0], [20, 10, 10])
    repeated = np.concatenate([x[:20], *[x[20:30]] * 3])
    weighted = VonMisesFisherMixture(1, weights=weights, seed=0).fit(x).components_
    counted = VonMisesFisherMixture(1, seed=0).fit(repeated).components_
    assert_allclose(weighted.concentrations, counted.concentrations, rtol=1e-9)
    assert_allclose(weighted.means, counted.means, atol=1e-12)


def test_conventions_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV

    _, x = known(200)
    search = GridSearchCV(VonMisesFisherMixture(seed=0, max_iter=20), {"n_components": [1, 3]}, cv=3).fit(x)
    assert search.best_params_ == {"n_components": 3}
    first = sklearn.base.clone(search.best_estimator_).fit(x)
    assert np.array_equal(first.log_density(x), search.best_estimator_.log_density(x))
    assert "n_components=3" in repr(first)


X = np.eye(3)
FAULTS = {
    "components": (lambda: VonMisesFisherMixture(0).fit(X), ValueError, "n_components: .*, got 0"),
    "too many": (
        lambda: VonMisesFisherMixture(3).fit(X[[0, 1, 1]]),
        ValueError,
        r"n_components must be at most the number of locations of the points \(2\), got 3",
    ),
    "bound": (lambda: VonMisesFisherMixture(max_concentration=0).fit(X), ValueError, "max_concentration: .*, got 0"),
    "tol": (lambda: VonMisesFisherMixture(tol=-1).fit(X), ValueError, "tol: .*, got -1"),
    "max_iter": (lambda: VonMisesFisherMixture(max_iter=0).fit(X), ValueError, "max_iter: .*, got 0"),
    "seed": (lambda: VonMisesFisherMixture(seed=-1).fit(X), ValueError, "seed: .*, got -1"),
    "not unit": (lambda: VonMisesFisherMixture().fit(2 * X), ValueError, "x: row 0 has length 2"),
    "not fitted": (lambda: VonMisesFisherMixture().sample(2), ValueError, r"call fit\(x\) first"),
}

test_bad_input = refusal_test(FAULTS)
