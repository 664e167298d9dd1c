"""The experiment on self-supervised learning: the preset as printed, resuming, table, figures and pages."""

import os
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")
for package in ("kornia", "torchmetrics"):
    pytest.importorskip(package)

from paper.common import load_subset
from paper.experiment import run_experiment
from paper.experiments import self_supervised, term_cost
from paper.learning.image_files import ImageSet
from paper.learning.images import ImageData
from paper.run_context import Checkpoint

EXPERIMENT = self_supervised.EXPERIMENT


def synthetic(name, limit=None):
    """Random images in place of CIFAR10: the experiment runs without any file."""
    generator = np.random.default_rng(0)
    parts = [
        ImageSet(generator.random((n, 3, 16, 16), dtype=np.float32), np.arange(n, dtype=np.int64) % 10)
        for n in (60, 40)
    ]
    return ImageData("noise", "Noise", *parts, "made here")


@pytest.fixture
def small(monkeypatch):
    """The quick preset, smaller still, on synthetic images, without the processes that measure the terms."""
    monkeypatch.setattr(self_supervised, "load_subset", synthetic)
    monkeypatch.setattr(term_cost, "measure", lambda term, n, dim, repeats: {"seconds": 1e-3 * n, "megabytes": n})
    config = replace(
        EXPERIMENT.presets["quick"],
        batch_size=20,
        methods=("supervised", "SimCLR", "SSW-SSL, L = 10", "random start"),
        linear_epochs=2,
        decay_epochs=(1,),
        drawn=30,
        image_limit=None,
    )
    return replace(EXPERIMENT, presets={"small": config})


def test_paper_preset_is_as_printed():
    """Appendix C.7."""
    config = EXPERIMENT.presets["paper"]
    assert (config.data, config.width, config.epochs, config.batch_size) == ("cifar10", 64, 200, 512)
    assert (config.lr, config.momentum, config.weight_decay) == (0.05, 0.9, 1e-3)
    assert (config.linear_epochs, config.decay_epochs) == (100, (60, 80))
    assert self_supervised._SSW_WEIGHT == 20
    assert self_supervised._PRINTED["SW-SSL, L = 10"] == 1


@pytest.mark.skipif("SPHEREOT_DATA" not in os.environ, reason="SPHEREOT_DATA does not name a folder of data")
def test_paper_preset_trains_for_a_step():
    """One step at the paper's width, on fewer images than its batch has, so that it takes seconds."""
    config = replace(EXPERIMENT.presets["paper"], epochs=1)
    images = load_subset("cifar10_10k", 64)
    loss = self_supervised._LOSSES["SSW-SSL, L = 10"](20.0, 0)
    encoder, row = self_supervised.train_encoder(loss, 3, images.train, images.test, config, 0, Checkpoint())
    assert encoder.projection.in_features == 1024
    assert encoder.layers[0].out_channels == 64
    assert 0 < row["train_loss"] < 4 + 20 / 12


def test_a_killed_run_resumes_to_the_same_rows(small, tmp_path):
    """To the last digit of every accuracy."""

    class KilledError(Exception):
        pass

    class Killer:
        left = 15

        def begin(self, label, total, done):
            pass

        def advance(self):
            self.left -= 1
            if self.left == 0:
                raise KilledError

    def rows_of(result):
        return [{k: v for k, v in row.items() if "seconds" not in k and "share" not in k} for row in result.rows]

    whole = run_experiment(small, preset="small", out=tmp_path / "whole")
    with pytest.raises(KilledError):
        run_experiment(small, preset="small", out=tmp_path / "killed", reporter=Killer())
    again = run_experiment(small, preset="small", out=tmp_path / "killed")
    assert rows_of(again) == rows_of(whole)


def test_table_figures_and_pages(small, tmp_path):
    result = run_experiment(small, preset="small", out=tmp_path)
    assert [line[:2] for line in result.table.rows] == [
        ["S^2", "supervised"],
        ["S^2", "SimCLR"],
        ["S^2", "SSW-SSL, L = 10"],
        ["S^2", "random start"],
        ["S^9", "SSW-SSL without slices"],
        ["S^9", "SimCLR"],
    ]
    assert {file.name for file in result.files} >= {"embeddings.png", "accuracy.png", "complexity.png"}
    page = (tmp_path / "embedding_globes.html").read_text()
    assert page.count("<canvas") == 4
    assert "width 4 of 64" in page


def test_the_best_value_on_the_validation_split_is_taken(small, tmp_path, monkeypatch):
    """The parameter of the comparison is that of the most accurate trial."""
    accuracies = {20.0: 0.2, 60.0: 0.5, 200.0: 0.3}

    def trained(loss, dim, train_set, test_set, config, seed, checkpoint):
        encoder = self_supervised.ResNet18(dim, config.width, seed=0)
        encoder.value = getattr(loss, "weight", None)  # None for the table on S^2
        return encoder, {"epochs": 1, "curve_epochs": [1], "curve": [0.1]}

    def evaluated(encoder, train_set, test_set, config, seed):
        names = ("accuracy_features", "accuracy_sphere", "best_features", "best_sphere")
        return dict.fromkeys(names, accuracies.get(encoder.value, 0.1)) | {"uniformity": 0.0, "effective_rank": 1.0}

    monkeypatch.setattr(self_supervised, "train_encoder", trained)
    monkeypatch.setattr(self_supervised, "evaluate", evaluated)
    config = replace(
        small.presets["small"],
        compared=("SSW-SSL without slices",),
        grid=(("SSW-SSL without slices", (20.0, 60.0, 200.0)),),
    )
    result = run_experiment(replace(small, presets={"small": config}), preset="small", out=tmp_path)
    assert [row["value"] for row in result.rows if row["part"] == "comparison"] == [60.0]


def test_validation_images_are_not_trained_on():
    images = synthetic("noise").train
    train_set, held_out = self_supervised.split_images(images, 3)
    assert (len(train_set), len(held_out)) == (48, 12)
    together = np.concatenate([train_set.images, held_out.images]).reshape(60, -1)
    assert len(np.unique(together, axis=0)) == 60


def test_cost_of_a_term_is_measured_in_its_own_process():
    """Time and memory are positive, and a failing term is a row that says so."""
    config = EXPERIMENT.presets["quick"]
    row = term_cost.measure("SSW without slices", 128, config.term_dim, config.timed_steps)
    assert row["seconds"] > 0
    assert row["megabytes"] < 500
    broken = term_cost.measure("NT-Xent", 0, config.term_dim, config.timed_steps)
    assert "failed" in broken
