"""The experiment on autoencoders: presets as printed, resuming, table, figures and pages."""

import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("ot")
for package in ("geomloss", "torchmetrics", "efficientnet_lite_pytorch"):
    pytest.importorskip(package)

from paper.experiment import run_experiment
from paper.experiments import autoencoders
from paper.learning.image_files import ImageSet
from paper.learning.images import ImageData
from paper.run_context import Checkpoint, RunContext, UnitLog

EXPERIMENT = autoencoders.EXPERIMENT
WITH_DATA = pytest.mark.skipif("SPHEREOT_DATA" not in os.environ, reason="SPHEREOT_DATA does not name a folder of data")


def synthetic(name, limit=None):
    """Images of squares in place of MNIST: the experiment runs without any file."""
    generator = np.random.default_rng(0)
    parts = []
    for n in (120, 100):
        images, labels = np.zeros((n, 1, 28, 28), dtype=np.float32), generator.integers(0, 10, n)
        for image, label in zip(images, labels, strict=True):
            image[0, 5:15, 2 * label : 2 * label + 8] = 1.0
        parts.append(ImageSet(images, labels.astype(np.int64)))
    return ImageData("mnist", "Squares", *parts, "made here")


@pytest.fixture
def small(monkeypatch):
    """The quick preset, smaller still, on synthetic images."""
    monkeypatch.setattr(autoencoders, "load_subset", synthetic)
    autoencoders._DISTANCES.clear()
    config = replace(
        EXPERIMENT.presets["quick"],
        data=(("mnist", 2),),
        methods=("SSWAE", "SWAE", "SAE"),
        gray_epochs=1,
        latent_epochs=1,
        gray_batch=40,
        n_projections=10,
        n_samples=60,
        lenet_epochs=1,
        curve_images=30,
        drawn_images=4,
        drawn_codes=50,
        timed_steps=1,
        study=(("weight 1", "SSWAE", 1.0, 10, 1),),
        image_limit=None,
    )
    return replace(EXPERIMENT, presets={"small": config})


def test_paper_preset_is_as_printed():
    """Section 5.2 and Appendix C.6."""
    config = EXPERIMENT.presets["paper"]
    assert [name for name, _ in config.data] == ["mnist", "fashion", "cifar10"]
    assert {runs for _, runs in config.data} == {5}
    assert (config.gray_width, config.color_width) == (1, 1)
    assert (config.gray_epochs, config.gray_batch, config.color_batch) == (800, 500, 128)
    assert (config.gray_weight, config.color_weight, config.lr, config.n_projections) == (10, 0.1, 1e-3, 1000)
    assert config.n_samples == 10_000


@WITH_DATA
@pytest.mark.parametrize(("data", "dim", "latent"), [("mnist", 1, 11), ("cifar10_10k", 3, 65)])
def test_paper_preset_trains_for_some_steps(data, dim, latent):
    """Two steps at the paper's widths and batch sizes: finite losses, codes on the sphere of the paper."""
    config = replace(EXPERIMENT.presets["paper"], image_limit=1000 if dim == 1 else 256)
    setting = autoencoders._setting(data, config, epochs=1)
    divergence = autoencoders._METHODS["SSWAE"](config.n_projections)
    model, row = autoencoders._train(setting, divergence, config, 0, Checkpoint())
    assert model.latent_dim == latent
    assert model.encoder.layers[0].out_channels == {1: 16, 3: 128}[dim]
    assert 0 < row["train_reconstruction"] < 1
    assert 0 < row["train_divergence"] <= 1 / 12 + 1e-6


def test_a_killed_run_resumes_to_the_same_rows(small, tmp_path):
    """Killed after some units: what was measured stays, and what follows is the same, the feature network included."""

    class KilledError(Exception):
        pass

    class Killer:
        left = 7

        def begin(self, label, total, done):
            pass

        def advance(self):
            self.left -= 1
            if self.left == 0:
                raise KilledError

    def rows_of(result):
        timed = ("seconds", "share")
        return [{k: v for k, v in row.items() if not any(t in k for t in timed)} for row in result.rows]

    whole = run_experiment(small, preset="small", out=tmp_path / "whole")
    with pytest.raises(KilledError):
        run_experiment(small, preset="small", out=tmp_path / "killed", reporter=Killer())
    assert (tmp_path / "killed" / "unfinished.lenet-mnist.pt").exists()
    autoencoders._DISTANCES.clear()
    again = run_experiment(small, preset="small", out=tmp_path / "killed")
    assert rows_of(again) == rows_of(whole)
    assert not list((tmp_path / "killed").glob("unfinished*"))


def test_a_run_killed_inside_a_training_keeps_its_curve(small, tmp_path, monkeypatch):
    """The distances measured along a training belong to its state."""
    config = replace(small.presets["small"], gray_epochs=3, data=(("mnist", 1),), methods=("SSWAE", "SWAE", "SAE"))
    longer = replace(small, presets={"small": config})
    whole = run_experiment(longer, preset="small", out=tmp_path / "whole")
    measured, calls = autoencoders._image_distance, []

    def killed(generated, test):
        calls.append(len(generated))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return measured(generated, test)

    monkeypatch.setattr(Checkpoint, "every", 0.0)
    monkeypatch.setattr(autoencoders, "_image_distance", killed)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(longer, preset="small", out=tmp_path / "killed")
    again = run_experiment(longer, preset="small", out=tmp_path / "killed")
    curves = [[row["curve"] for row in result.rows if "curve" in row] for result in (whole, again)]
    assert curves[0] == curves[1]
    assert len(curves[0][0]) == 3
    followed = sum(len(curve) for curve in curves[0])
    assert len(calls) == followed + 1  # what was measured before the kill was not measured again


def test_table_figures_and_pages(small, tmp_path):
    result = run_experiment(small, preset="small", out=tmp_path)
    assert [line[1] for line in result.table.rows] == ["SSWAE", "SWAE", "SAE"]
    assert "Fréchet distance (LeNet features)" in result.table.note
    assert "FID" not in result.table.note.replace("paper's FID", "")
    assert {file.name for file in result.files} >= {"latent.png", "samples.png", "distances.png", "frechet.png"}
    page = (tmp_path / "latent_globes.html").read_text()
    assert page.count("<canvas") == 4
    assert "0.125 of the paper's width" in page
    record = json.loads((tmp_path / "result.json").read_text())
    features = [row for row in record["figures"] if row["part"] == "features"]
    assert 0 <= features[0]["accuracy_mean"] <= 1


def test_methods_of_a_run_start_alike(small):
    """Same initial weights and batches for all methods: differences are due to the divergence."""
    config = small.presets["small"]
    setting = autoencoders._setting("mnist", config)
    first, second = (
        autoencoders._model(setting, autoencoders._METHODS[method](10), seed=3) for method in ("SSWAE", "SWAE")
    )
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), second.parameters(), strict=True))


def test_image_distance_is_a_matching():
    """Equal images in another order are at distance 0; a shift of all pixels by 0.1 costs 0.1 per root of a pixel."""
    images = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    assert autoencoders._image_distance(images, images.flip(0)) == pytest.approx(0, abs=1e-5)
    assert autoencoders._image_distance(images + 0.1, images) == pytest.approx(0.1 * math.sqrt(16), rel=1e-5)


def test_shared_state_is_made_once(tmp_path):
    calls = []

    def make(seed):
        calls.append(seed)
        return {"weights": torch.full((3,), float(seed))}

    header = {"seed": 0}
    first = RunContext(0, UnitLog(tmp_path / "unfinished.jsonl", header)).shared("net", make)
    log = UnitLog(tmp_path / "unfinished.jsonl", header)
    second = RunContext(0, log).shared("net", make)
    assert torch.equal(first["weights"], second["weights"])
    assert len(calls) == 1
    log.remove()
    assert list(tmp_path.iterdir()) == []
    assert RunContext(0).shared("net", make)["weights"].shape == (3,)  # without a log
