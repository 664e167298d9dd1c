"""Density estimation: exact likelihoods, resuming, model files, the commands, and what bad input gets."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from sphereot import plotting, sphere
from sphereot.density import DensityEstimator, TrainingDivergedError
from sphereot.torch.euclidean import sliced_wasserstein

UNIFORM = -math.log(4 * math.pi)


def cloud(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return sphere.normalize(rng.normal(size=(n, 3)) * 0.6 + [1.0, 0.5, 0.0])


def small(**changes):
    return DensityEstimator(
        **({"n_blocks": 3, "n_components": 8, "epochs": 30, "n_projections": 50, "seed": 0} | changes)
    )


def total_mass(estimator, resolution=200):
    """The integral of the density over the sphere, by the midpoint rule on a map."""
    grid = plotting.map_points(resolution)
    latitudes = (np.arange(resolution) + 0.5) / resolution * math.pi - math.pi / 2
    cell = (math.pi / resolution) ** 2 * np.cos(latitudes)[:, None]
    return float(np.sum(estimator.density(grid.reshape(-1, 3)).reshape(grid.shape[:-1]) * cell))


@pytest.mark.parametrize(
    "changes",
    [{"loss": "ssw"}, {"loss": "sw"}, {"loss": "nll"}, {"loss": "ssw+nll"}, {"model": "stereo"}, {"model": "kde"}],
    ids=str,
)
def test_fitted_densities_integrate_to_one_and_fit_better_than_uniform(changes):
    """The change of variables has the right sign and exponent: mass 1, to quadrature accuracy."""
    estimator = small(**changes).fit(cloud())
    assert_allclose(total_mass(estimator), 1.0, atol=2e-3)
    if estimator.model != "stereo":  # its few points near the pole cost more likelihood than thirty epochs gain
        assert estimator.score(cloud(seed=1)) > UNIFORM


def test_an_untrained_model_is_uniform():
    """Held-out uniform points have log-likelihood log(1 / 4 pi) under a flow that hardly moves them."""
    estimator = small(epochs=1, lr=1e-9).fit(cloud())
    assert_allclose(estimator.score(sphere.random_uniform(2000, 3, seed=1)), UNIFORM, atol=2e-3)


def test_samples_follow_the_density():
    """Importance: the mean of 1 / density over samples is the area of the sphere (4 pi), within 5 standard errors."""
    estimator = small(loss="nll", epochs=60).fit(cloud())
    ratio = np.exp(-estimator.log_density(estimator.sample(4000, seed=1)))
    assert abs(ratio.mean() - 4 * math.pi) < 5 * ratio.std() / math.sqrt(len(ratio))


class BrokenOffError(Exception):
    pass


def test_a_broken_fit_goes_on_to_the_same_end(tmp_path, monkeypatch):
    """Losses and parameters are the same to the last bit, early stopping and slices included."""
    from sphereot import _checkpoints

    clock = iter(range(0, 10**6, 11))  # every look is eleven seconds later: a state is kept after each epoch
    monkeypatch.setattr(_checkpoints.time, "monotonic", lambda: next(clock))
    settings = {"validation_fraction": 0.2, "patience": 500, "epochs": 120}
    whole = small(**settings).fit(cloud())

    def breaks(epoch, loss):
        if epoch == 70:
            raise BrokenOffError

    kept = tmp_path / "state"
    with pytest.raises(BrokenOffError):
        small(**settings).fit(cloud(), checkpoint=kept, callback=breaks)
    assert kept.exists()
    epochs = []
    again = small(**settings).fit(cloud(), checkpoint=kept, callback=lambda epoch, loss: epochs.append(epoch))
    assert epochs[0] == 70
    assert again.history_ == whole.history_
    assert all(torch.equal(a, b) for a, b in zip(again.flow_.parameters(), whole.flow_.parameters(), strict=True))
    assert not kept.exists()


def test_patience_goes_back_to_the_best_parameters():
    estimator = small(loss="nll", lr=0.5, validation_fraction=0.3, patience=100, epochs=400).fit(cloud(60))
    best = estimator.history_.best
    assert len(estimator.history_.losses) == min(400, best[0] + 100)


@pytest.mark.parametrize("model", ["expmap", "stereo", "kde"])
def test_a_model_file_holds_everything(model, tmp_path):
    estimator = small(model=model).fit(cloud())
    again = DensityEstimator.load(estimator.save(tmp_path / "model.safetensors"))
    x = cloud(seed=2)
    assert_allclose(again.log_density(x), estimator.log_density(x), rtol=1e-6)
    assert again.get_params() == estimator.get_params()
    assert again.history_ == estimator.history_
    assert_allclose(again.sample(10, seed=3), estimator.sample(10, seed=3), rtol=1e-5)


def test_bad_model_files_get_their_message(tmp_path):
    whole = small(model="kde").fit(cloud()).save(tmp_path / "whole.safetensors")
    torn = tmp_path / "torn.safetensors"
    torn.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"torn\.safetensors: this is no complete model file"):
        DensityEstimator.load(torn)
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="no density model of sphereot"):
        DensityEstimator.load(tmp_path / "other.safetensors")
    with pytest.raises(OSError, match="no such model file"):
        DensityEstimator.load(tmp_path / "missing")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "gmm"}, "model: got 'gmm'"),
        ({"loss": "kl"}, "loss: got 'kl'"),
        ({"model": "kde", "loss": "ssw"}, "is not trained"),
        ({"model": "stereo", "loss": "ssw"}, "stays on the sphere"),
        ({"epochs": 0}, "epochs"),
        ({"lr": -1.0}, "lr"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"patience": 5}, "validation_fraction"),
    ],
)
def test_bad_parameters_are_named(changes, said):
    with pytest.raises(ValueError, match=said):
        small(**changes).fit(cloud())


def test_divergence_names_the_step_and_keeps_the_last_good_state():
    estimator = small(model="stereo", loss="nll", lr=1e12)
    with pytest.raises(TrainingDivergedError, match="lr=1e"):
        estimator.fit(cloud())
    assert all(bool(torch.isfinite(one).all()) for one in estimator.flow_.parameters())


def test_the_conventions_of_estimators():
    estimator = small()
    assert estimator.set_params(epochs=5) is estimator
    assert estimator.get_params()["epochs"] == 5
    assert repr(estimator).startswith("DensityEstimator(model='expmap', n_blocks=3")
    with pytest.raises(ValueError, match="no parameter 'depth'"):
        estimator.set_params(depth=3)
    with pytest.raises(ValueError, match="not fitted"):
        estimator.score(cloud())
    estimator.fit(cloud())
    with pytest.raises(ValueError, match="dimension"):
        estimator.score(sphere.random_uniform(5, 4, seed=0))


def test_euclidean_sliced_distance_equals_pot():
    """The circle's kernel on half a circle: the same number as POT's with the same directions."""
    ot = pytest.importorskip("ot")
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, 3, generator=generator, dtype=torch.float64) * 4 for n in (50, 70))
    state = generator.get_state()
    found = sliced_wasserstein(x, y, 30, generator)
    generator.set_state(state)
    directions = torch.nn.functional.normalize(torch.randn(30, 3, generator=generator, dtype=torch.float64))
    expected = ot.sliced_wasserstein_distance(x, y, projections=directions.T) ** 2
    assert_allclose(float(found), float(expected), rtol=1e-9)


# ---- the commands ----


@pytest.fixture
def command():
    pytest.importorskip("typer")
    pytest.importorskip("polars")
    from typer.testing import CliRunner

    from sphereot.cli.app import app

    return lambda *arguments: CliRunner().invoke(app, ["density", *map(str, arguments)])


def places(folder, n=200):
    lonlat = sphere.to_lonlat(cloud(n))
    path = folder / "places.csv"
    path.write_text("lon,lat\n" + "\n".join(f"{lon},{lat}" for lon, lat in lonlat))
    return path


def test_fit_evaluate_sample(command, tmp_path):
    data, model = places(tmp_path), tmp_path / "model.safetensors"
    sizes = ("--epochs", 20, "--blocks", 2, "--components", 5, "--projections", 20)
    done = command("fit", data, "--lonlat", *sizes, "--out", model)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "model.curve.png").stat().st_size > 1000
    told = json.loads(command("evaluate", model, data, "--lonlat", "--json").stdout)
    assert told["n"] == 200
    assert_allclose(told["uniform"], UNIFORM)
    assert told["log_likelihood"] > UNIFORM
    done = command("sample", model, "-n", 7, "--seed", 0, "--lonlat", "--out", tmp_path / "drawn.csv")
    assert done.exit_code == 0, done.output
    assert command("evaluate", model, tmp_path / "drawn.csv", "--lonlat").exit_code == 0


def test_bad_calls_end_with_one_line(command, tmp_path):
    data = places(tmp_path)
    empty = tmp_path / "empty.csv"
    empty.write_text("lon,lat\n")
    for arguments, said in [
        (("fit", data, "--lonlat", "--model", "gmm"), "model: got 'gmm'"),
        (("fit", empty, "--lonlat"), "empty.csv"),
        (("fit", tmp_path / "missing.csv", "--lonlat"), "missing.csv"),
        (("evaluate", data, data), "places.csv"),
    ]:
        done = command(*arguments)
        assert done.exit_code == 2, done.output
        assert said in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.skipif("SPHEREOT_DATA" not in os.environ, reason="SPHEREOT_DATA does not name the folder of earth data")
def test_named_data(command, tmp_path):
    done = command("fit", "volcano", "--model", "kde", "--out", tmp_path / "volcano.safetensors")
    assert done.exit_code == 0, done.output
    assert "827 places" in done.output
    assert Path(tmp_path / "volcano.safetensors").exists()


def test_plot_writes_a_map_and_a_page(command, tmp_path):
    data = places(tmp_path)
    model = small(model="kde").fit(cloud()).save(tmp_path / "model.safetensors")
    done = command("plot", model, "--points", data, "--lonlat", "--resolution", 60, "--out", tmp_path / "seen")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "seen.png").stat().st_size > 10_000
    assert "<canvas" in (tmp_path / "seen.html").read_text(encoding="utf-8")
