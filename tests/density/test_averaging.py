"""Averages of density estimates: weights, folds, mass 1, files, and what repeated points do."""

import math

import numpy as np
import pytest
from helpers import generators
from helpers.generators import sphere_sample
from helpers.unit_length import count_unit_length_checks
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from scipy import optimize

from sphereot.density import AdaptiveKDE, AverageDensity, FlowDensity, SphericalKDE, VonMisesFisherMixture, load
from sphereot.density.averaging import draw_folds, stacking_weights

MODELS = pytest.mark.parametrize(
    "estimator", [AdaptiveKDE(), VonMisesFisherMixture(seed=0), AverageDensity(seed=0)], ids=repr
)


def two_widths(n, seed=0):
    """Points of a narrow and of a wide cluster."""
    rng = np.random.default_rng(seed)
    narrow = generators.cloud(n // 2, [0.0, 0.0, 1.0], spread=0.02, seed=int(rng.integers(2**31)))
    wide = generators.cloud(n - n // 2, [1.0, 0.0, 0.0], spread=0.6, seed=int(rng.integers(2**31)))
    return rng.permutation(np.concatenate([narrow, wide]))


# ---- weights ----


def mean_log(values, weights):
    return np.log(np.exp(values) @ weights).mean()


def test_weights_are_those_of_a_search_on_a_grid():
    values = np.random.default_rng(0).normal(size=(200, 2))
    weights = stacking_weights(values)
    grid = np.linspace(0, 1, 2001)
    best = grid[np.argmax([mean_log(values, [w, 1 - w]) for w in grid])]
    assert weights[0] == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_weights_reach_the_likelihood_of_a_constrained_search(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(300, 6)) + rng.normal(size=6)
    weights = stacking_weights(values)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    searched = optimize.minimize(
        lambda w: -mean_log(values, w),
        np.full(6, 1 / 6),
        bounds=[(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert mean_log(values, weights) > -searched.fun - 1e-6


def test_a_prior_keeps_its_estimate():
    values = np.tile([0.0, -50.0], (99, 1))
    assert_allclose(stacking_weights(values, prior=np.array([0.0, 1.0])), [0.99, 0.01], rtol=1e-6)


def test_log_densities_of_any_size():
    values = np.array([[-5000.0, -5001.0], [3000.0, 2999.0]])
    assert_allclose(stacking_weights(values), [1, 0], atol=1e-4)


# ---- folds ----


def test_folds_keep_locations_together():
    x = sphere_sample(np.random.default_rng(0), 40, 3)
    repeated = np.concatenate([x, x[:15], x[:5]])
    fold = draw_folds(repeated, "locations", np.random.default_rng(1))
    assert np.array_equal(fold[:15], fold[40:55])
    assert np.array_equal(fold[:5], fold[55:])
    assert_allclose(np.bincount(fold[:40]), 8)
    rows = draw_folds(repeated, "rows", np.random.default_rng(1))
    assert_allclose(np.bincount(rows), 12)
    assert not np.array_equal(rows[:15], rows[40:55])


def test_repeated_points_sharpen_an_average_by_rows_only():
    """By rows, the likelihood of repeated points is that of the narrowest kernels; by location, that of new points."""
    x = two_widths(120)
    repeated = np.concatenate([x] * 4)
    fits = {by: AverageDensity(folds=by, seed=0).fit(repeated) for by in ("rows", "locations")}
    assert fits["rows"].score(x) > fits["locations"].score(x) + 0.3
    new = two_widths(2000, seed=1)
    assert fits["locations"].score(new) > fits["rows"].score(new) + 0.3


# ---- the average ----


def test_is_at_least_as_good_as_its_parts():
    train, test = two_widths(500), two_widths(3000, seed=1)
    average = AverageDensity(seed=0).fit(train)
    parts = [SphericalKDE(), AdaptiveKDE(), VonMisesFisherMixture(seed=0)]
    assert average.score(test) > max(part.fit(train).score(test) for part in parts) - 0.02
    shares = average.shares_
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares)[-1] == "uniform"
    assert min(shares.values()) > 0


def equal_area_grid(rows):
    """Centers of cells of equal area on S^2."""
    height, azimuth = np.meshgrid(
        2 * (np.arange(rows) + 0.5) / rows - 1, math.pi * np.arange(2 * rows) / rows, indexing="ij"
    )
    radius = np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), height], axis=-1).reshape(-1, 3)


@MODELS
def test_integrates_to_one(estimator):
    """On 1,000 x 2,000 cells of equal area; the narrowest kernels are wider than a cell."""
    estimator.fit(generators.cloud(100, [1.0, 0.0, 0.0], spread=0.6, seed=0))
    assert estimator.components_.concentrations.max() < 150**2
    mass = float(estimator.density(equal_area_grid(1000)).mean()) * 4 * math.pi
    assert mass == pytest.approx(1.0, abs=1e-4)


def test_is_positive_far_from_all_points():
    """One point of the uniform distribution is part of the average."""
    x = generators.cloud(200, [0.0, 0.0, 1.0], spread=0.01, seed=0)
    estimator = AverageDensity(seed=0).fit(x)
    assert estimator.density(-x[:1])[0] > 1 / (4 * math.pi) / 300


def test_samples_follow_the_density():
    """The share of samples in a cap is its mass by quadrature, within five standard errors."""
    estimator = AverageDensity(seed=0).fit(generators.cloud(200, [1.0, 0.0, 0.0], spread=0.6, seed=0))
    grid, drawn = equal_area_grid(400), estimator.sample(4000, seed=1)
    density = estimator.density(grid)
    for height in (0.3, 0.7, 0.9):
        mass = float(density[grid[:, 0] > height].sum() / density.sum())
        share = float(np.mean(drawn[:, 0] > height))
        assert abs(share - mass) < 5 * math.sqrt(mass * (1 - mass) / 4000)


@pytest.mark.parametrize("n", [3, 5, 12])
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_few_points(n, dim):
    x = sphere_sample(np.random.default_rng(n), n, dim)
    for by in ("locations", "rows"):
        estimator = AverageDensity(folds=by, seed=0).fit(np.concatenate([x, x[:1]]))
        assert np.isfinite(estimator.score(sphere_sample(np.random.default_rng(9), 30, dim)))


def test_a_seed_makes_a_fit_reproducible():
    x, state = two_widths(150), torch.random.get_rng_state()
    first, second = (AverageDensity(seed=4).fit(x) for _ in range(2))
    assert np.array_equal(first.log_density(x), second.log_density(x))
    assert first.shares_ == second.shares_
    assert np.array_equal(first.sample(5, seed=1), second.sample(5, seed=1))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_points_are_checked_once(monkeypatch):
    """The folds and the points outside of them are parts of points that were checked."""
    x = generators.cloud(80, [1.0, 0.0, 0.0], spread=0.6, seed=0)
    flow = FlowDensity(n_blocks=2, n_components=5, epochs=5)
    checks = count_unit_length_checks(monkeypatch)
    AverageDensity(candidates=("kernels", "mixtures", "flow"), flow=flow, seed=0).fit(x)
    assert checks == {x.shape: 1}


def test_progress_is_shown_to_the_end():
    shown = []
    AverageDensity(seed=0, progress=lambda done, total: shown.append((done, total))).fit(two_widths(80))
    assert [done for done, _ in shown] == sorted(done for done, _ in shown)
    assert shown[-1][0] == shown[-1][1]
    assert len({total for _, total in shown}) == 1


def test_a_flow_can_be_a_candidate(tmp_path):
    """Beside the uniform distribution alone it gets a weight; it is saved and sampled from."""
    x = generators.cloud(80, [1.0, 0.0, 0.0], spread=0.6, seed=0)
    settings = {"n_blocks": 2, "n_components": 5, "epochs": 50, "loss": "nll"}
    estimator = AverageDensity(candidates=("flow",), flow=FlowDensity(**settings), seed=0).fit(x)
    assert list(estimator.shares_) == ["flow", "uniform"]
    assert estimator.score(x) > -2.0
    again = load(estimator.save(tmp_path / "m.safetensors"))
    assert np.array_equal(again.log_density(x), estimator.log_density(x))
    assert again.candidates == ("flow",)
    drawn = estimator.sample(200, seed=0)
    assert drawn.shape == (200, 3)
    assert drawn[:, 0].mean() > 0.4


# ---- files and conventions ----


@MODELS
def test_a_model_file_holds_every_bit(estimator, tmp_path):
    estimator.fit(two_widths(100))
    again = load(estimator.save(tmp_path / "m.safetensors"))
    x = two_widths(100, seed=3)
    assert np.array_equal(again.log_density(x), estimator.log_density(x))
    assert np.array_equal(again.sample(10, seed=3), estimator.sample(10, seed=3))
    assert type(again) is type(estimator)
    assert again.get_params() == estimator.get_params()
    fitted = {name: value for name, value in vars(estimator).items() if name not in ("components_", "bandwidths_")}
    assert {name: getattr(again, name) for name in fitted} == fitted


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_densities_come_in_the_library_of_the_points(name):
    module = pytest.importorskip({"jax": "jax.numpy"}.get(name, name))
    x = two_widths(60)
    estimator = AverageDensity(seed=0).fit(module.asarray(x))
    values = estimator.log_density(module.asarray(x))
    assert type(values) is type(module.asarray(x))
    assert_allclose(np.asarray(values), AverageDensity(seed=0).fit(x).log_density(x), atol=1e-3)


def test_conventions_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    x = two_widths(90)
    model = AverageDensity(seed=0)
    assert sklearn.base.clone(model).get_params() == model.get_params()
    assert np.all(np.isfinite(cross_val_score(model, x, cv=3)))
    assert make_pipeline(Normalizer(), model).fit(x).score(x) > -math.log(4 * math.pi)
    assert repr(AverageDensity(folds="rows")) == "AverageDensity(folds='rows')"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"folds": "points"}, "folds must be one of 'locations', 'rows', got 'points'"),
        ({"candidates": ()}, r"candidates must be a tuple of one or more of 'kernels', 'mixtures', 'flow', got \(\)"),
        (
            {"candidates": "kernels"},
            "candidates must be a tuple of one or more of 'kernels', 'mixtures', 'flow', got 'kernels'",
        ),
        (
            {"candidates": ("gmm",)},
            r"candidates must be a tuple of one or more of 'kernels', 'mixtures', 'flow', got \('gmm',\)",
        ),
        ({"flow": FlowDensity()}, r"flow must be None unless 'flow' is one of the candidates, got FlowDensity\(\)"),
        ({"flow": FlowDensity(epochs=0), "candidates": ("flow",)}, "epochs: .*, got 0"),
        ({"flow": FlowDensity("stereo"), "candidates": ("flow",)}, "flow must have the model 'expmap', got 'stereo'"),
    ],
)
def test_bad_parameters_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        AverageDensity(**changes).fit(two_widths(20))


@pytest.mark.parametrize("model", [AdaptiveKDE, AverageDensity])
def test_points_at_one_location_are_refused(model):
    with pytest.raises(ValueError, match=r"x must have points at .*locations"):
        model().fit(np.repeat(np.eye(3)[:1], 5, axis=0))
