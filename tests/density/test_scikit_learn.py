"""Estimators in scikit-learn's own tools: pipelines, cross-validation, grid search, copies."""

import importlib.util
import subprocess
import sys

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

import sphereot.density
from sphereot.compat.sklearn import LonLat, UnitNorm, expected_failed_checks
from sphereot.density import SphericalKDE

X = sphere_sample(np.random.default_rng(0), 90, 3, shift=1)


def test_tags():
    """Those of a density estimator that needs no target."""
    tags = get_tags(SphericalKDE())
    assert tags.estimator_type == "density_estimator"
    assert tags.requires_fit
    assert not tags.target_tags.required
    assert tags.input_tags.two_d_array
    assert not tags.input_tags.sparse


def test_pipeline():
    """Behind a step that scales rows, the estimate is that of the unit vectors."""
    lengths = np.random.default_rng(1).uniform(0.5, 2, size=(90, 1))
    pipeline = make_pipeline(Normalizer(), SphericalKDE(bandwidth=0.3)).fit(lengths * X)
    alone = SphericalKDE(bandwidth=0.3).fit(X)
    assert pipeline.score(lengths * X) == pytest.approx(alone.score(X), rel=1e-12)
    np.testing.assert_allclose(pipeline.score_samples(lengths * X), alone.log_density(X), rtol=1e-12)
    assert "bandwidth" in repr(pipeline)


def test_cross_validation():
    """Each score is the mean log-density of the part that was left out."""
    scores = cross_val_score(SphericalKDE(bandwidth=0.3), X, cv=3)
    left_out = np.arange(90).reshape(3, 30)
    expected = [SphericalKDE(bandwidth=0.3).fit(np.delete(X, part, axis=0)).score(X[part]) for part in left_out]
    assert scores.tolist() == expected


def test_grid_search():
    """The width of greatest cross-validated likelihood, alone and inside of a pipeline."""
    widths = [0.01, 0.3, 2.0]
    search = GridSearchCV(SphericalKDE(), {"bandwidth": widths}, cv=3).fit(X)
    assert search.best_params_ == {"bandwidth": 0.3}
    assert search.score(X) == search.best_estimator_.score(X)
    inside = GridSearchCV(make_pipeline(Normalizer(), SphericalKDE()), {"sphericalkde__bandwidth": widths}, cv=3).fit(X)
    assert inside.best_params_ == {"sphericalkde__bandwidth": 0.3}


def test_clone():
    """A copy has the parameters, and nothing of the fit."""
    fitted = SphericalKDE(bandwidth=0.3).fit(X)
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
    from sphereot.density import FlowDensity

    estimator = FlowDensity(n_blocks=2, n_components=4, epochs=10, seed=0)
    search = GridSearchCV(estimator, {"lr": [1e-6, 0.05]}, cv=2).fit(X)
    assert search.best_params_ == {"lr": 0.05}


# ---- scikit-learn's own checks ----


class ScalesRows:
    """Scales rows to unit length before an estimator gets them, since the checks pass vectors of any length."""

    @staticmethod
    def _unit(x):
        values = np.asarray(x)
        if values.dtype.kind in "fiu" and values.ndim == 2 and np.isfinite(values).all():
            values = values.astype(np.float64)
            return values / np.linalg.norm(values, axis=1, keepdims=True)
        return x

    def fit(self, x, y=None, sample_weight=None):
        return super().fit(self._unit(x), y, sample_weight)

    def _as_points(self, points, name="points"):
        return super()._as_points(self._unit(points), name)


class ScaledSphericalKDE(ScalesRows, SphericalKDE):
    pass


class ScaledAdaptiveKDE(ScalesRows, sphereot.density.AdaptiveKDE):
    pass


class ScaledVonMisesFisherMixture(ScalesRows, sphereot.density.VonMisesFisherMixture):
    pass


class ScaledAverageDensity(ScalesRows, sphereot.density.AverageDensity):
    def fit(self, x, y=None):
        return super(ScalesRows, self).fit(self._unit(x), y)


def model(name, scaled=False):
    """A model by its name, or the same with rows that are scaled first."""
    settings = {"AverageDensity": {"candidates": ("mixtures",), "seed": 0}, "VonMisesFisherMixture": {"seed": 0}}
    kind = globals()[f"Scaled{name}"] if scaled else getattr(sphereot.density, name)
    return kind(**settings.get(name, {}))


def outcomes(estimator, reasons):
    """Names of the checks that failed, and of those that were expected to fail and do.

    Without pandas scikit-learn skips the check of weights in a Series; it counts as one that fails as expected.
    """
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(estimator, on_fail=None, on_skip=None, expected_failed_checks=reasons)
    failed, expected = (
        {row["check_name"] for row in results if row["status"] == status} for status in ("failed", "xfail")
    )
    if importlib.util.find_spec("pandas") is None:
        expected |= {"check_sample_weights_pandas_series"} & set(reasons)
    return [failed, expected]


MODELS = pytest.mark.parametrize("name", ["SphericalKDE", "AdaptiveKDE", "VonMisesFisherMixture"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["SphericalKDE", "AdaptiveKDE", "VonMisesFisherMixture", "AverageDensity"])
def test_checks_of_scikit_learn(name):
    """No check fails without a reason, and each reason is of a check that fails.

    With rows scaled to unit length, all those pass whose reason is the length.
    """
    reasons = expected_failed_checks(model(name))
    assert outcomes(model(name), reasons) == [set(), set(reasons)]
    others = {check: reason for check, reason in reasons.items() if "with rows scaled by UnitNorm" not in reason}
    assert len(others) == (8 if name == "VonMisesFisherMixture" else 7)
    assert outcomes(model(name, scaled=True), others)[0] == set()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("step", [UnitNorm(), LonLat()], ids=repr)
def test_checks_of_steps(step):
    reasons = expected_failed_checks(step)
    assert outcomes(step, reasons) == [set(), set(reasons)]


def test_estimators_of_others_have_no_excuse():
    assert expected_failed_checks(Normalizer()) == {}


# ---- metadata routing ----


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@MODELS
def test_weights_are_routed(name, routing):
    """Through a pipeline and a search, which give each fold its part of the weights; also by another name."""
    estimator = model(name)
    fixed = {"bandwidth": 0.3} if "bandwidth" in estimator.get_params() else {"weights": None}
    estimator.set_params(**fixed, **({"seed": 0, "n_components": 2} if name == "VonMisesFisherMixture" else {}))
    weights = np.random.default_rng(1).uniform(0.1, 5, len(X))
    direct = clone(estimator).fit(X, sample_weight=weights)
    pipeline = make_pipeline(UnitNorm(), clone(estimator).set_fit_request(sample_weight="mass"))
    np.testing.assert_allclose(pipeline.fit(X, mass=weights).score_samples(X), direct.score_samples(X), rtol=1e-9)
    estimator.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    key, value = next(iter(fixed.items()))
    parts = [(np.delete(np.arange(90), part), part) for part in np.arange(90).reshape(3, 30)]
    scores = [
        clone(estimator).fit(X[rest], sample_weight=weights[rest]).score(X[part], sample_weight=weights[part])
        for rest, part in parts
    ]
    searched = [(estimator, key), (make_pipeline(UnitNorm(), estimator), f"{name.lower()}__{key}")]
    for estimated, parameter in searched:
        search = GridSearchCV(estimated, {parameter: [value]}, cv=3, error_score="raise")
        search.fit(X, sample_weight=weights)
        assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(scores), rel=1e-9)


@MODELS
def test_weights_of_scores(name):
    """An integer weight is as many copies of a point."""
    fitted = model(name).fit(X)
    counts = np.random.default_rng(3).integers(0, 3, len(X))
    weighted = fitted.score(X, sample_weight=counts.astype(float))
    assert weighted == pytest.approx(fitted.score(np.repeat(X, counts, axis=0)), rel=1e-12)


@MODELS
def test_requests(name, routing):
    """What is not requested is an error or left out; a copy has the requests of the original."""
    from sklearn.exceptions import UnsetMetadataPassedError

    estimator = model(name)
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        make_pipeline(UnitNorm(), estimator).fit(X, sample_weight=np.ones(90))
    assert estimator.set_fit_request(sample_weight=True) is estimator
    assert clone(estimator).get_metadata_routing().fit.requests["sample_weight"] is True
    assert estimator.set_fit_request().get_metadata_routing().fit.requests["sample_weight"] is True
    with pytest.raises(TypeError, match=r"'depth'\} in fit. Accepted arguments are: \{'sample_weight'\}"):
        estimator.set_fit_request(depth=True)


@MODELS
def test_random_state(name):
    """scikit-learn's name of the seed, for samples; a RandomState gives other points at every call."""
    fitted = model(name).fit(X)
    assert_array_equal(fitted.sample(3, random_state=0), fitted.sample(3, seed=0))
    state = np.random.RandomState(0)
    first, second = (fitted.sample(3, random_state=state) for _ in range(2))
    assert not np.array_equal(first, second)
    assert_array_equal(fitted.sample(3, random_state=np.random.RandomState(0)), first)


@MODELS
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda model: model.fit(X).score(X, sample_weight=np.ones(3)), ValueError, "sample_weight"),
        (lambda model: model.set_fit_request(sample_weight=True), RuntimeError, "enable_metadata_routing=True"),
        (lambda model: model.fit(X).sample(3, seed=0, random_state=0), ValueError,
         "random_state must not be given with seed, which has the same meaning, got both"),
    ],
)  # fmt: skip
def test_bad_calls(name, call, error, message):
    with pytest.raises(error, match=message):
        call(model(name))


def test_bad_input():
    """The documented difference is the first: rows of other lengths are refused with the remedy."""
    weighted, ones = SphericalKDE(0.3, weights=np.ones(90)), np.ones(90)
    for call, message in [
        (lambda: SphericalKDE().fit(2 * X), r"Normalize them first with sphereot\.sphere\.normalize"),
        (lambda: UnitNorm().fit_transform(np.diag([1.0, 0.0])), r"X must not contain rows of zeros.*row 1"),
        (lambda: LonLat().fit(X), r"X must have two columns.*got 3"),
        (lambda: weighted.fit(X, sample_weight=ones), "sample_weight must be None for an estimator with weights"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_scikit_learn_is_not_imported():
    """Estimators inherit from its `BaseEstimator`; the tests of `sphereot.stats` do not need it."""
    program = "import sys, sphereot, sphereot.stats; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_steps_of_pipelines():
    """Degrees to densities, and back; large and small numbers are scaled without loss."""
    from sphereot import sphere

    degrees = sphere.to_lonlat(X)
    pipeline = make_pipeline(LonLat(), SphericalKDE(bandwidth=0.3)).fit(degrees)
    np.testing.assert_allclose(
        pipeline.score_samples(degrees), SphericalKDE(bandwidth=0.3).fit(X).score_samples(X), rtol=1e-9
    )
    step = LonLat().fit(degrees)
    np.testing.assert_allclose(step.inverse_transform(step.transform(degrees)), degrees, atol=1e-9)
    assert step.get_feature_names_out().tolist() == ["x", "y", "z"]
    for factor in (1e-200, 1e200):
        np.testing.assert_allclose(UnitNorm().fit_transform(factor * X), X, atol=1e-15)


def test_sample_weight():
    """An integer weight is as many copies of a point; weights of zero leave points out."""
    counts = np.random.default_rng(2).integers(0, 3, len(X))
    weighted = SphericalKDE(bandwidth=0.3).fit(X, sample_weight=counts.astype(float))
    repeated = SphericalKDE(bandwidth=0.3).fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-9)


def test_names_of_columns_decide_the_order():
    """A DataFrame with latitude first is read by its names."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"lat": [48.0, 52.0], "lon": [2.0, 13.0]})
    expected = LonLat().fit_transform(np.array([[2.0, 48.0], [13.0, 52.0]]))
    np.testing.assert_array_equal(LonLat().fit_transform(table), expected)


@MODELS
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables(name, library):
    """A table is read as it is: columns of coordinates, or longitude and latitude in degrees, which become vectors."""
    from sphereot import sphere

    package = pytest.importorskip(library)
    settings = {"n_components": 2, "seed": 0} if name == "VonMisesFisherMixture" else {}
    plain = model(name).set_params(**settings).fit(X)
    for columns in (dict(zip("uvw", X.T, strict=True)), dict(zip(("lon", "lat"), sphere.to_lonlat(X).T, strict=True))):
        table = package.DataFrame(columns)
        estimator = model(name).set_params(**settings).fit(table)
        assert estimator.score(table) == pytest.approx(plain.score(X), rel=1e-9)
        np.testing.assert_allclose(estimator.density(table), plain.density(X), rtol=1e-6)
    with pytest.raises(TypeError, match="column 'name' must hold numbers, got text"):
        model(name).fit(package.DataFrame({"name": ["a"] * 90} | dict(zip("uvw", X.T, strict=True))))


def test_cross_validation_of_a_table():
    """Parts of a DataFrame are DataFrames."""
    pandas = pytest.importorskip("pandas")
    by_name = cross_val_score(SphericalKDE(0.3), pandas.DataFrame(X, columns=list("uvw")), cv=3)
    np.testing.assert_allclose(by_name, cross_val_score(SphericalKDE(0.3), X, cv=3), rtol=1e-12)
