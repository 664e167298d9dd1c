"""Estimators in scikit-learn's own tools: pipelines, cross-validation, grid search, copies."""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from numpy.testing import assert_array_equal

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils import get_tags

from sphereot.stats import SphericalKDE

X = sphere_sample(np.random.default_rng(0), 90, 3, shift=1)


def kernel_estimate(**settings):
    return SphericalKDE(**settings)


def density_estimator(**settings):
    pytest.importorskip("torch")
    density = pytest.importorskip("sphereot.density")
    return density.DensityEstimator("kde", **settings)


ESTIMATORS = pytest.mark.parametrize("estimator", [kernel_estimate, density_estimator])


@ESTIMATORS
def test_tags(estimator):
    """Those of a density estimator that needs no target."""
    tags = get_tags(estimator())
    assert tags.estimator_type == "density_estimator"
    assert tags.requires_fit
    assert not tags.target_tags.required
    assert tags.input_tags.two_d_array
    assert not tags.input_tags.sparse


@ESTIMATORS
def test_pipeline(estimator):
    """Behind a step that scales rows, the estimate is that of the unit vectors."""
    lengths = np.random.default_rng(1).uniform(0.5, 2, size=(90, 1))
    pipeline = make_pipeline(Normalizer(), estimator(bandwidth=0.3)).fit(lengths * X)
    alone = estimator(bandwidth=0.3).fit(X)
    assert pipeline.score(lengths * X) == pytest.approx(alone.score(X), rel=1e-12)
    np.testing.assert_allclose(pipeline.score_samples(lengths * X), alone.log_density(X), rtol=1e-12)
    assert "bandwidth" in repr(pipeline)


@ESTIMATORS
def test_cross_validation(estimator):
    """Each score is the mean log-density of the part that was left out."""
    scores = cross_val_score(estimator(bandwidth=0.3), X, cv=3)
    left_out = np.arange(90).reshape(3, 30)
    expected = [estimator(bandwidth=0.3).fit(np.delete(X, part, axis=0)).score(X[part]) for part in left_out]
    assert scores.tolist() == expected


@ESTIMATORS
def test_grid_search(estimator):
    """The width of greatest cross-validated likelihood, alone and inside of a pipeline."""
    widths = [0.01, 0.3, 2.0]
    search = GridSearchCV(estimator(), {"bandwidth": widths}, cv=3).fit(X)
    assert search.best_params_ == {"bandwidth": 0.3}
    assert search.score(X) == search.best_estimator_.score(X)
    name = type(estimator()).__name__.lower()
    inside = GridSearchCV(make_pipeline(Normalizer(), estimator()), {f"{name}__bandwidth": widths}, cv=3).fit(X)
    assert inside.best_params_ == {f"{name}__bandwidth": 0.3}


@ESTIMATORS
def test_clone(estimator):
    """A copy has the parameters, and nothing of the fit."""
    fitted = estimator(bandwidth=0.3).fit(X)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(ValueError, match="fit"):
        copy.score(X)
    assert copy.fit(X).score(X) == fitted.score(X)


def test_clone_of_weights():
    weights = np.arange(90.0)
    copy = clone(SphericalKDE(weights=weights))
    assert_array_equal(copy.weights, weights)


def test_flow_in_a_grid_search():
    """A flow is trained anew on every part, and each time in the same way."""
    pytest.importorskip("torch")
    density = pytest.importorskip("sphereot.density")
    estimator = density.DensityEstimator(n_blocks=2, n_components=4, epochs=10, seed=0)
    search = GridSearchCV(estimator, {"lr": [1e-6, 0.05]}, cv=2).fit(X)
    assert search.best_params_ == {"lr": 0.05}
