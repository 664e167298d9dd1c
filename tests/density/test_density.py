"""Density estimation: exact likelihoods, resuming, model files, the commands, and what bad input gets."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from helpers import generators
from helpers.unit_length import count_unit_length_checks
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from safetensors.torch import save_file

from sphereot import DivergenceError, plotting, sphere
from sphereot._support.checkpoints import StateFile
from sphereot.density import AverageDensity, DensityModel, FlowDensity, SphericalKDE, load
from sphereot.flows import ExponentialMapFlow
from sphereot.torch.euclidean import sliced_wasserstein

UNIFORM = -math.log(4 * math.pi)


def cloud(n=300, seed=0):
    return generators.cloud(n, [1.0, 0.5, 0.0], spread=0.6, seed=seed)


def small(model="expmap", **changes):
    """An estimator that is quick to fit: a small flow, or another model."""
    if model == "kde":
        return SphericalKDE(**changes)
    if model == "auto":
        return AverageDensity(**({"seed": 0} | changes))
    sizes = {"n_blocks": 3, "n_components": 8} if model == "expmap" else {"n_blocks": 3}
    return FlowDensity(model, **({"seed": 0, "epochs": 30, "n_projections": 50} | sizes | changes))


def total_mass(estimator, resolution=200):
    """The integral of the density over the sphere, by the midpoint rule on a map."""
    grid = plotting.map_points(resolution)
    latitudes = (np.arange(resolution) + 0.5) / resolution * math.pi - math.pi / 2
    cell = (math.pi / resolution) ** 2 * np.cos(latitudes)[:, None]
    return float(np.sum(estimator.density(grid.reshape(-1, 3)).reshape(grid.shape[:-1]) * cell))


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": "ssw"},
        {"loss": "sw"},
        {"loss": "nll"},
        {"loss": "ssw+nll"},
        {"loss": "ssw", "method": "exact"},
        {"loss": "ssw+nll", "method": "exact"},
        {"model": "stereo"},
        {"model": "kde"},
        {"model": "auto"},
    ],
    ids=str,
)
def test_fitted_densities_integrate_to_one_and_fit_better_than_uniform(changes):
    """The change of variables has the right sign and exponent: mass 1, to quadrature accuracy."""
    estimator = small(**changes).fit(cloud())
    assert_allclose(total_mass(estimator), 1.0, atol=2e-3)
    if changes.get("model") != "stereo":  # its few points near the pole cost more likelihood than thirty epochs gain
        assert estimator.score(cloud(seed=1)) > UNIFORM


def test_exact_training_is_the_limit_of_many_great_circles():
    """The loss of the first epoch is SSW_2^2 of the same flow, to which 20,000 quasi-random circles come close."""
    x = cloud()
    exact = small(method="exact", epochs=1).fit(x).history_.losses[0]
    sliced = small(method="quasi", n_projections=20_000, epochs=1).fit(x).history_.losses[0]
    assert_allclose(sliced, exact, rtol=1e-4)
    assert (
        small(method="exact", seed=0, n_projections=7).fit(x).history_.losses
        == small(method="exact", seed=0).fit(x).history_.losses
    )


def test_the_learning_rate_falls_by_equal_factors():
    from sphereot.density.flow import learning_rate

    rates = np.array([learning_rate(0.1, 0.001, epoch, 5) for epoch in range(1, 6)])
    assert_allclose(rates, [0.1, 0.1 * 10**-0.5, 0.01, 0.01 * 10**-0.5, 0.001])
    assert [learning_rate(0.1, 0.1, epoch, 7) for epoch in range(1, 8)] == [0.1] * 7
    assert learning_rate(0.1, 0.001, 1, 1) == 0.1


def test_a_falling_learning_rate_settles():
    """The last steps of a rate that falls to 1e-6 hardly move the flow; those of a constant rate do."""
    x = cloud()
    moves = {}
    for final in (None, 1e-6):
        states = []
        small(final_lr=final).fit(
            x, callback=lambda epoch, loss, flow, into=states: into.append(flow.transform(torch.eye(3)))
        )
        moves[final] = float((states[-1] - states[-2]).detach().abs().max())
    assert moves[1e-6] < 1e-4 < moves[None]


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
    from sphereot._support import checkpoints as _checkpoints

    clock = iter(range(0, 10**6, 11))  # every look is eleven seconds later: a state is kept after each epoch
    monkeypatch.setattr(_checkpoints.time, "monotonic", lambda: next(clock))
    settings = {"validation_fraction": 0.2, "patience": 500, "epochs": 120}
    whole = small(**settings).fit(cloud())

    def breaks(epoch, loss, flow):
        if epoch == 70:
            raise BrokenOffError

    kept = tmp_path / "state"
    with pytest.raises(BrokenOffError):
        small(**settings).fit(cloud(), checkpoint=kept, callback=breaks)
    assert kept.exists()
    epochs = []
    again = small(**settings).fit(cloud(), checkpoint=kept, callback=lambda epoch, loss, flow: epochs.append(epoch))
    assert epochs[0] == 70
    assert again.history_ == whole.history_
    assert all(torch.equal(a, b) for a, b in zip(again.flow_.parameters(), whole.flow_.parameters(), strict=True))
    assert not kept.exists()


def test_a_callback_is_told_of_every_epoch_and_may_stop_the_fit(tmp_path):
    calls, shown = [], []

    def callback(epoch, loss, flow):
        calls.append((epoch, loss, flow))
        return np.bool_(epoch == 4)

    estimator = small(progress=lambda done, total: shown.append((done, total)))
    estimator.fit(cloud(40), callback=callback, checkpoint=tmp_path / "state")
    assert [epoch for epoch, _, _ in calls] == [1, 2, 3, 4]
    assert [loss for _, loss, _ in calls] == estimator.history_.losses
    assert all(type(loss) is float for _, loss, _ in calls)
    assert calls[0][2] is estimator.flow_
    assert shown == [(1, 30), (2, 30), (3, 30), (4, 30)]
    assert not (tmp_path / "state").exists()
    assert estimator.history_.losses == small(epochs=4).fit(cloud(40)).history_.losses
    # Only True stops: a callback may return anything else.
    assert len(small(epochs=3).fit(cloud(40), callback=lambda *told: 1.0).history_.losses) == 3
    again = load(estimator.save(tmp_path / "model.safetensors"))  # a function is not written
    assert again.progress is False


def test_patience_goes_back_to_the_best_parameters():
    estimator = small(loss="nll", lr=0.5, validation_fraction=0.3, patience=100, epochs=400).fit(cloud(60))
    best = estimator.history_.best
    assert len(estimator.history_.losses) == min(400, best[0] + 100)


@pytest.mark.parametrize("model", ["expmap", "stereo", "kde", "auto"])
def test_a_model_file_holds_everything(model, tmp_path):
    estimator = small(model=model).fit(cloud())
    again = load(estimator.save(tmp_path / "model.safetensors"))
    x = cloud(seed=2)
    assert_allclose(again.log_density(x), estimator.log_density(x), rtol=1e-6)
    assert type(again) is type(estimator)
    assert again.get_params() == estimator.get_params()
    assert getattr(again, "history_", None) == getattr(estimator, "history_", None)
    assert_allclose(again.sample(10, seed=3), estimator.sample(10, seed=3), rtol=1e-5)


def test_bad_model_files_get_their_message(tmp_path):
    whole = small(model="kde").fit(cloud()).save(tmp_path / "whole.safetensors")
    (tmp_path / "torn.safetensors").write_bytes(whole.read_bytes()[:-100])
    save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    for name, error, message in [
        ("torn.safetensors", ValueError, r"torn\.safetensors: this is not a complete model file"),
        ("other.safetensors", ValueError, "not a density model of sphereot"),
        ("missing", OSError, "no such model file"),
    ]:
        with pytest.raises(error, match=message):
            load(tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "gmm"}, "model must be one of 'expmap', 'stereo', got 'gmm'"),
        ({"loss": "kl"}, r"loss must be one of 'ssw', 'sw', 'nll', 'ssw\+nll', got 'kl'"),
        ({"model": "stereo", "loss": "ssw"}, "loss must be 'sw' or 'nll' with the model 'stereo', got 'ssw'"),
        ({"epochs": 0}, "epochs"),
        ({"method": "grid"}, "method must be one of .*, got 'grid'"),
        ({"lr": -1.0}, "lr"),
        ({"final_lr": 0.0}, "final_lr: .*, got 0.0"),
        ({"method": "exact", "loss": "sw"}, "method must not be 'exact' with the loss 'sw'"),
        ({"method": "exact", "model": "stereo"}, "method must not be 'exact' with the loss 'sw'"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"patience": 5}, "validation_fraction"),
        ({"model": "stereo", "n_components": 8}, "n_components must be left out for the model 'stereo', got 8"),
    ],
)
def test_bad_parameters_are_named(changes, said):
    with pytest.raises(ValueError, match=said):
        small(**changes).fit(cloud())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: small(progress="yes").fit(cloud(40)), TypeError, r"progress must be True.*got 'yes'"),
        (lambda: small().set_params(depth=3), ValueError, "Invalid parameter 'depth'"),
        (lambda: small().score(cloud()), ValueError, "not fitted"),
        (lambda: small(epochs=5).fit(cloud()).score(sphere.random_uniform(5, 4, seed=0)), ValueError, "dimension"),
        (lambda: sliced_wasserstein(torch.eye(3), torch.eye(3), 5, seed=True), TypeError, r"seed: .*, got bool"),
    ],
)
def test_bad_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("changes", [{"loss": "ssw"}, {"loss": "nll"}, {"loss": "ssw+nll"}, {"method": "exact"}])
def test_points_are_checked_once(changes, monkeypatch):
    """Not in every epoch, where the points are the flow's own."""
    x = cloud(60)
    checks = count_unit_length_checks(monkeypatch)
    small(**changes).fit(x)
    assert checks[x.shape] == 1


def test_points_that_are_not_finite_are_a_divergence(monkeypatch):
    """The flow's own points are not validated; a NaN among them is found in the loss."""
    monkeypatch.setattr(ExponentialMapFlow, "forward", lambda self, x: x * self.beta_roots.sum() * math.nan)
    with pytest.raises(DivergenceError, match="the loss is nan in epoch 1"):
        small(loss="ssw").fit(cloud(60))


def test_divergence_names_the_step_and_keeps_the_last_good_state():
    estimator = small(model="stereo", loss="nll", lr=1e12)
    with pytest.raises(DivergenceError, match="lr=1e") as caught:
        estimator.fit(cloud())
    losses = caught.value.result.losses
    assert losses
    assert np.isfinite(losses).all()
    assert all(bool(torch.isfinite(one).all()) for one in estimator.flow_.parameters())


def test_the_conventions_of_estimators():
    estimator = small()
    assert estimator.set_params(epochs=5) is estimator
    assert estimator.get_params()["epochs"] == 5
    assert repr(estimator).startswith("FlowDensity(epochs=5, n_blocks=3")


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


def test_euclidean_sliced_distance_and_seeds():
    """One seed, one value; without a seed new directions, and torch's global random state is not used."""
    x, y = (torch.randn(20, 3, generator=torch.Generator().manual_seed(k), dtype=torch.float64) for k in range(2))
    state = torch.random.get_rng_state()
    assert sliced_wasserstein(x, y, 5, seed=1) == sliced_wasserstein(x, y, 5, seed=torch.Generator().manual_seed(1))
    values = []
    with torch.random.fork_rng():
        for _ in range(2):
            torch.manual_seed(0)
            values.append(float(sliced_wasserstein(x, y, 5)))
    assert values[0] != values[1]
    assert torch.equal(torch.random.get_rng_state(), state)


def test_seeds_of_a_fitted_model():
    x = cloud(40)
    state = torch.random.get_rng_state()
    estimator = small(epochs=2, seed=None).fit(x)
    generator = torch.Generator().manual_seed(5)
    assert_allclose(estimator.sample(3, seed=5), estimator.sample(3, seed=generator), rtol=0)
    assert not np.array_equal(estimator.sample(3), estimator.sample(3))
    assert torch.equal(torch.random.get_rng_state(), state)
    for seed, error in ((-1, ValueError), (True, TypeError), (np.random.default_rng(0), TypeError)):
        with pytest.raises(error, match=r"seed: .*got"):
            estimator.sample(3, seed=seed)
        with pytest.raises(error, match=r"seed: .*got"):
            small(seed=seed).fit(x)


# ---- the commands ----


@pytest.fixture
def command():
    pytest.importorskip("typer")
    pytest.importorskip("polars")
    from helpers.cli import run

    return lambda *arguments: run("density", *arguments)


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
        (("fit", data, "--lonlat", "--model", "gmm"), "--model must be one of 'expmap', 'stereo'"),
        (("fit", data, "--lonlat", "--model", "kde", "--loss", "ssw"), "loss must be left out for the model 'kde'"),
        (("fit", data, "--lonlat", "--model", "kde", "--epochs", 5), "which is not trained, got 5"),
        (("fit", data, "--lonlat", "--model", "auto", "--blocks", 4), "n_blocks must be left out for the model 'auto'"),
        (("fit", data, "--lonlat", "--model", "expmap", "--bandwidth", 0.1), "bandwidth must be left out"),
        (("fit", data, "--lonlat", "--model", "mixture", "--folds", "rows"), "folds must be left out for the model"),
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
    assert "827 points" in done.output
    assert Path(tmp_path / "volcano.safetensors").exists()


def test_fit_auto(command, tmp_path):
    """No learning curve, no state: the model alone is written."""
    data, model = places(tmp_path), tmp_path / "model.safetensors"
    done = command("fit", data, "--lonlat", "--model", "auto", "--folds", "rows", "--out", model)
    assert done.exit_code == 0, done.output
    assert {file.name for file in tmp_path.iterdir()} == {"places.csv", "model.safetensors"}
    assert json.loads(command("evaluate", model, data, "--lonlat", "--json").stdout)["log_likelihood"] > UNIFORM
    assert command("sample", model, "-n", 3, "--seed", 0).exit_code == 0
    refused(
        command("fit", data, "--lonlat", "--model", "auto", "--folds", "points"),
        "folds must be one of 'locations', 'rows', got 'points'",
    )


def test_plot_writes_a_map_and_a_page(command, tmp_path):
    data = places(tmp_path)
    model = small(model="kde").fit(cloud()).save(tmp_path / "model.safetensors")
    done = command("plot", model, "--points", data, "--lonlat", "--resolution", 60, "--out", tmp_path / "seen")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "seen.png").stat().st_size > 10_000
    assert "<canvas" in (tmp_path / "seen.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["q.png", "q.pdf", "q.svg", "q.html", "q.PNG"])
def test_plot_writes_what_the_name_says(command, tmp_path, name):
    model = small(model="kde").fit(cloud()).save(tmp_path / "model.safetensors")
    done = command("plot", model, "--resolution", 20, "--out", tmp_path / name)
    assert done.exit_code == 0, done.output
    assert {file.name for file in tmp_path.iterdir()} == {"model.safetensors", name}
    assert "".join(done.output.split()).endswith(f"{name}")
    begin = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml", ".html": b"<!doctype html>"}
    content = (tmp_path / name).read_bytes()
    assert content[:20].lower().startswith(begin[Path(name).suffix.lower()].lower())


# ---- checkpoints, and what is in the way of writing ----


@pytest.fixture
def state_after_each_epoch(monkeypatch):
    from sphereot._support import checkpoints as _checkpoints

    clock = iter(range(0, 10**6, 11))
    monkeypatch.setattr(_checkpoints.time, "monotonic", lambda: next(clock))


def broken_off(estimator, x, checkpoint, last=5):
    def breaks(epoch, loss, flow):
        if epoch == last:
            raise BrokenOffError

    with pytest.raises(BrokenOffError):
        estimator.fit(x, checkpoint=checkpoint, callback=breaks)


@pytest.mark.usefixtures("state_after_each_epoch")
def test_a_state_is_taken_up_by_its_own_fit_only(tmp_path):
    """Other data, settings or seed are told, and the state stays for the fit that it belongs to."""
    kept = tmp_path / "state"
    broken_off(small(), cloud(), kept)
    for estimator, x, said in [
        (small(), cloud(seed=1), r"state: .*\(other data\).*remove the file"),
        (small(), cloud(299), r"\(other data\)"),
        (small(seed=7), cloud(), r"\(seed was 0, now 7\)"),
        (small(seed=None), cloud(), r"\(seed was 0, now None\)"),
        (small(lr=0.2), cloud(), r"\(lr was 0\.1, now 0\.2\)"),
        (small(final_lr=0.01), cloud(), r"\(final_lr was None, now 0\.01\)"),
        (small(epochs=31, loss="nll"), cloud(), r"\(epochs was 30, now 31; loss was 'ssw', now 'nll'\)"),
        (small(validation_fraction=0.1, patience=5), cloud(), "patience was None, now 5; validation_fraction was 0.0"),
        (small(model="stereo"), cloud(), "model was 'expmap', now 'stereo'"),
    ]:
        with pytest.raises(ValueError, match=said):
            estimator.fit(x, checkpoint=kept)
    epochs = []
    same = small(seed=np.int64(0), lr=0.1, loss="ssw")
    same.fit(cloud().astype(np.float64), checkpoint=str(kept), callback=lambda epoch, loss, flow: epochs.append(epoch))
    assert epochs[0] == 5
    assert not kept.exists()


@pytest.mark.usefixtures("state_after_each_epoch")
def test_a_fit_without_a_seed_goes_on_with_the_points_that_it_held_back(tmp_path):
    """All but the points held back are trained on, before the break and after it: their losses are those of one set."""
    x, kept = cloud(40), tmp_path / "state"
    settings = {"seed": None, "validation_fraction": 0.5, "loss": "nll", "lr": 1e-12, "epochs": 4}
    broken_off(small(**settings), x, kept, last=3)
    again = small(**settings).fit(x, checkpoint=kept)
    assert_allclose(again.history_.losses, again.history_.losses[0], rtol=1e-6)


@pytest.mark.usefixtures("state_after_each_epoch")
def test_a_diverged_fit_leaves_no_state_that_bars_a_smaller_step(tmp_path):
    estimator = small(model="stereo", loss="nll", lr=1e12)
    with pytest.raises(DivergenceError):
        estimator.fit(cloud(), checkpoint=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_states_of_something_else_are_refused(tmp_path):
    kept = tmp_path / "state"
    for state in [{"flow": {}}, 5, {"work": None, "seed": 0, "training": {}}]:
        StateFile(kept, every=0.0).save(lambda state=state: state)
        with pytest.raises(ValueError, match=r"state: .*remove the file"):
            small().fit(cloud(), checkpoint=kept)


@pytest.mark.usefixtures("state_after_each_epoch")
@pytest.mark.parametrize("part", ["flow", "optimizer", "generator", "losses", "epoch", "validation"])
def test_states_with_a_wrong_part_are_refused(part, tmp_path):
    kept = tmp_path / "state"
    broken_off(small(), cloud(), kept)
    held = StateFile(kept).load()
    for wrong in [None, {}, [1.0], torch.zeros(3), {"state": {0: {}}}]:
        changed = held | {"training": held["training"] | {part: wrong}}
        if part == "validation" and wrong == {}:
            continue  # no validation, as it was
        StateFile(kept, every=0.0).save(lambda changed=changed: changed)
        with pytest.raises(ValueError, match="state: its state does not fit this training"):
            small().fit(cloud(), checkpoint=kept)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "points.npy"
    np.save(path, cloud(60))
    return path


FEW = ("--epochs", 6, "--blocks", 2, "--components", 3, "--projections", 10)


def refused(done, *said):
    assert done.exit_code == 2, done.output
    assert all(text in done.stderr for text in said), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("state_after_each_epoch")
def test_the_command_refuses_the_state_of_another_fit(command, data, tmp_path):
    other, out = tmp_path / "other.npy", tmp_path / "m.safetensors"
    np.save(other, cloud(60, seed=1))
    settings = {"n_blocks": 2, "n_components": 3, "epochs": 6, "n_projections": 10, "seed": 0}
    broken_off(FlowDensity(**settings), cloud(60), tmp_path / "m.safetensors.unfinished", last=3)
    refused(command("fit", other, *FEW, "--seed", 7, "--out", out), "m.safetensors.unfinished", "other data", "--fresh")
    assert not out.exists()
    done = command("fit", other, *FEW, "--seed", 7, "--out", out, "--fresh")
    assert done.exit_code == 0, done.output
    expected = FlowDensity(**settings | {"seed": 7}).fit(cloud(60, seed=1))
    assert load(out).history_ == expected.history_
    assert sorted(path.name for path in tmp_path.glob("m.*")) == ["m.curve.png", "m.safetensors"]


@pytest.mark.usefixtures("state_after_each_epoch")
def test_the_training_outlives_a_last_writing_that_fails(command, data, tmp_path, monkeypatch):
    from sphereot.density import _estimator

    class Full:
        def __init__(self, path):
            raise OSError(28, "No space left on device", str(path))

    out, kept = tmp_path / "m.safetensors", tmp_path / "m.safetensors.unfinished"
    with monkeypatch.context() as patched:
        patched.setattr(_estimator, "write_aside", Full)
        refused(command("fit", data, *FEW, "--out", out), "m.safetensors", "No space left", str(kept))
    assert kept.exists()
    done = command("fit", data, *FEW, "--out", out)
    assert done.exit_code == 0, done.output
    assert not kept.exists()
    assert len(load(out).history_.losses) == 6


def test_a_curve_that_cannot_be_written_does_not_cost_the_model(command, data, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(plotting, "save", full)
    out = tmp_path / "m.safetensors"
    refused(command("fit", data, *FEW, "--out", out), "m.curve.png", "the model is in")
    assert load(out).n_features_in_ == 3


@pytest.mark.usefixtures("state_after_each_epoch")
def test_a_full_disk_at_a_checkpoint_warns_once_and_the_fit_goes_on(command, data, tmp_path, monkeypatch):
    from sphereot._support import checkpoints as _checkpoints

    class Full:
        def __init__(self, path):
            raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(_checkpoints, "write_aside", Full)
    done = command("fit", data, *FEW, "--out", tmp_path / "m.safetensors")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("No space left on device") == 1
    assert done.stderr.startswith("Warning: ")
    assert (tmp_path / "m.safetensors").exists()


def test_outputs_are_checked_before_the_work(command, data, tmp_path, monkeypatch):
    """Folders, folders that cannot be, and the files beside the model."""

    def never(self, *arguments, **options):
        pytest.fail("the work was begun")

    monkeypatch.setattr(FlowDensity, "fit", never)
    (tmp_path / "a.curve.png").mkdir()
    (tmp_path / "b.safetensors.unfinished").mkdir()
    for out, said in [
        (tmp_path, "is a folder"),
        ("/", "is a folder"),
        (data / "m.safetensors", "points.npy is not a folder"),
        (tmp_path / "a.safetensors", "a.curve.png is a folder"),
        (tmp_path / "b.safetensors", "b.safetensors.unfinished is a folder"),
    ]:
        refused(command("fit", data, *FEW, "--out", out), "--out", said)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="the superuser may write everywhere")
def test_write_protected_outputs_are_refused_before_the_work(command, data, tmp_path):
    folder, file = tmp_path / "folder", tmp_path / "file.safetensors"
    folder.mkdir(mode=0o500)
    file.touch(mode=0o400)
    for out in (folder / "m.safetensors", folder / "new" / "m.safetensors", file):
        refused(command("fit", data, *FEW, "--out", out), "--out", "write-protected")


def test_inputs_are_never_overwritten(command, tmp_path):
    from safetensors.numpy import save_file

    data, model = tmp_path / "d.npy", tmp_path / "m.safetensors"
    np.save(data, cloud(60))
    save_file({"x": cloud(60)}, tmp_path / "in.safetensors")
    small(model="kde").fit(cloud()).save(model)
    small(model="kde").fit(cloud()).save(tmp_path / "page.html")
    (tmp_path / "link.npy").symlink_to(data)
    os.link(model, tmp_path / "hard.csv")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for arguments in [
        ("evaluate", model, data, "--out", data),
        ("evaluate", model, data, "--out", model),
        ("evaluate", model, data, "--out", tmp_path / "link.npy"),
        ("evaluate", model, tmp_path / "link.npy", "--out", data),
        ("fit", tmp_path / "in.safetensors", *FEW, "--out", tmp_path / "in.safetensors"),
        ("fit", tmp_path / "in.safetensors", "--model", "kde", "--out", tmp_path / "in.safetensors"),
        ("sample", model, "--out", tmp_path / "hard.csv"),
        ("plot", tmp_path / "page.html", "--out", tmp_path / "page"),
    ]:
        refused(command(*arguments), "--out", "is one of the files to read")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_model_goes_through_a_pipe_without_files_beside_it(command, data, tmp_path):
    import threading

    folder = tmp_path / "folder"
    folder.mkdir()
    pipe, got = folder / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    done = command("fit", data, *FEW, "--out", pipe)
    assert done.exit_code == 0, done.output
    reader.join(timeout=10)
    (tmp_path / "m.safetensors").write_bytes(got[0])
    assert len(load(tmp_path / "m.safetensors").history_.losses) == 6
    assert pipe.is_fifo()
    assert [path.name for path in folder.iterdir()] == ["pipe"]


# ---- damaged model files ----


def rewritten(path, folder, name="damaged.safetensors", **changes):
    """A copy of a model file with another description (or a text in its place), or other tensors."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    description = changes.get("description", metadata["description"])
    if callable(description):
        description = json.dumps(description(json.loads(metadata["description"])))
    metadata = {k: v for k, v in (metadata | {"description": description}).items() if v is not None}
    save_file(changes.get("tensors", lambda held: held)(tensors), folder / name, metadata)
    return folder / name


def named(path):
    """The one line that a damaged file gets."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def with_parameters(**changes):
    return lambda held: held | {"parameters": held["parameters"] | changes}


@pytest.mark.parametrize(
    ("model", "description", "said"),
    [
        ("expmap", None, "description"),
        ("expmap", "", "description"),
        ("expmap", "[]", "description"),
        ("expmap", "[" * 100_000, "description"),
        ("expmap", '{"dim": ' * 100_000, "description"),
        ("expmap", "{}", "'parameters'"),
        ("expmap", lambda held: held | {"dim": math.inf}, "dim"),
        ("expmap", lambda held: held | {"dim": math.nan}, "dim"),
        ("expmap", lambda held: held | {"dim": -3}, "dim"),
        ("expmap", lambda held: held | {"dim": 10**12}, "parameters, but it holds"),
        ("expmap", lambda held: held | {"dim": "3"}, "dim"),
        ("expmap", lambda held: held | {"history": []}, ""),
        ("expmap", lambda held: held | {"history": {"losses": 5, "validation": []}}, ""),
        ("expmap", lambda held: held | {"parameters": None}, ""),
        ("expmap", with_parameters(model="nosuch"), "(model must be one of 'expmap', 'stereo'"),
        ("expmap", with_parameters(model=["expmap"]), ""),
        ("expmap", with_parameters(model="stereo", loss=None), "for the model 'stereo'"),
        ("expmap", with_parameters(model="kde"), "there is no 'points'"),
        ("expmap", with_parameters(n_blocks=10**9), "parameters, but it holds"),
        ("expmap", with_parameters(n_blocks=1e300), "n_blocks"),
        ("expmap", with_parameters(n_components=10**9), "parameters, but it holds"),
        ("expmap", with_parameters(epochs=math.inf), "epochs"),
        ("expmap", with_parameters(depth=3), "depth"),
        ("stereo", with_parameters(n_blocks=10**12), "parameters, but it holds"),
        ("stereo", lambda held: held | {"dim": 10**9}, "parameters, but it holds"),
        ("kde", lambda held: held | {"bandwidth_": math.nan}, "bandwidth"),
        ("kde", lambda held: held | {"bandwidth_": 1e-300}, ""),
        ("kde", lambda held: held | {"bandwidth_": None}, ""),
        ("kde", lambda held: held | {"dim": 4}, "dim is 4"),
        ("auto", lambda held: held | {"dim": 4}, "its components have shapes"),
        ("auto", lambda held: held | {"flow_weight": 0.5}, "the weight of its flow is 0.5"),
        ("auto", lambda held: held | {"flow_weight": math.nan}, "the weight of its flow"),
        ("auto", lambda held: held | {"shares": None}, ""),
        ("auto", with_parameters(folds="points"), "folds must be one of 'locations', 'rows', got 'points'"),
        ("auto", with_parameters(candidates=5), "'mixtures', 'flow', got 5"),
        ("kde", with_parameters(model="auto"), "there is no"),
    ],
)
def test_damaged_descriptions_are_named(model, description, said, tmp_path):
    whole = small(model=model).fit(cloud(20)).save(tmp_path / "whole.safetensors")
    assert said in named(rewritten(whole, tmp_path, description=description))


@pytest.mark.parametrize("model", ["expmap", "stereo", "kde", "auto"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda tensor: tensor * math.nan,
        lambda tensor: tensor + math.inf,
        lambda tensor: tensor.to(torch.int32),
        lambda tensor: tensor.to(torch.complex64),
        lambda tensor: tensor.flatten()[:-1].clone(),
    ],
)
def test_damaged_tensors_are_named(model, damage, tmp_path):
    whole = small(model=model).fit(cloud(20)).save(tmp_path / "whole.safetensors")

    def changed(tensors):
        first = min(tensors)
        return tensors | {first: damage(tensors[first])}

    named(rewritten(whole, tmp_path, tensors=changed))
    named(rewritten(whole, tmp_path, tensors=lambda held: {}))


def test_a_small_file_asks_for_little_memory(tmp_path):
    """Blocks and dimensions that the tensors do not have are refused before a flow is made."""
    import resource

    whole = small(epochs=1).fit(cloud(20)).save(tmp_path / "whole.safetensors")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    named(rewritten(whole, tmp_path, description=with_parameters(n_blocks=10**6)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize("dim", [3, 4, 7])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_the_number_of_parameters_is_known_without_the_flow(dim, blocks):
    for model in ("expmap", "stereo"):
        estimator = small(model, n_blocks=blocks)
        estimator.n_features_in_ = dim
        assert estimator._parameter_count() == sum(one.numel() for one in estimator._new_flow().parameters())


@pytest.mark.parametrize("model", ["expmap", "stereo", "kde", "auto"])
def test_truncated_and_flipped_model_files_are_named_or_load(model, tmp_path, rng):
    sizes = {"expmap": {"n_blocks": 1, "n_components": 2}, "stereo": {"n_blocks": 1}}.get(model, {})
    whole = small(model=model, **sizes).fit(cloud(5)).save(tmp_path / "whole.safetensors")
    content = whole.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    damaged = [content[:size] for size in rng.integers(0, len(content), 30)]
    for place in [*range(8), *rng.integers(0, header, 150), *rng.integers(header, len(content), 50)]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    file = tmp_path / "damaged.safetensors"
    refusals = 0
    for one in [b"", b"{}", *damaged]:
        file.write_bytes(one)
        try:
            load(file)
        except ValueError as error:
            assert str(error).startswith(f"{file}: ")
            assert "\n" not in str(error)
            refusals += 1
    assert refusals > 100


def test_a_model_that_gives_no_numbers_is_named_by_the_command(command, data, tmp_path, monkeypatch):
    model = small(model="kde").fit(cloud()).save(tmp_path / "m.safetensors")
    monkeypatch.setattr(DensityModel, "log_density", lambda self, x: np.full(len(x), math.nan))
    refused(command("evaluate", model, data), "m.safetensors", "NaN (60 of 60")

    def steep(self, n, seed):
        raise RuntimeError("the flow is too steep")

    monkeypatch.setattr(DensityModel, "sample", steep)
    refused(command("sample", model), "m.safetensors", "too steep")


def test_settings_of_numpy_can_be_saved(tmp_path):
    estimator = small(lr=np.float32(0.1), seed=np.int64(3), epochs=np.int32(2)).fit(cloud(20))
    assert load(estimator.save(tmp_path / "m.safetensors")).seed == 3
