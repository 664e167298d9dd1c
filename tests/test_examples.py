"""The examples run, and their results are what they claim."""

import importlib

import numpy as np
import pytest

from sphereot.datasets import ImageData, ImageSet


def test_uniform_embeddings(capsys):
    pytest.importorskip("torch")
    before, after = importlib.import_module("examples.uniform_embeddings").train(120)
    assert after < 0.25 * before
    assert "alignment" in capsys.readouterr().out


def test_match_sample(capsys):
    pytest.importorskip("torch")
    before, after = importlib.import_module("examples.match_sample").match(100)
    assert after < 0.01 * before
    assert "SSW_2^2" in capsys.readouterr().out


def test_geometry(tmp_path):
    """What the pictures show is true: nothing on the circle is nearer, and the half circle projects to one turn."""
    pytest.importorskip("matplotlib")
    files, gap, spread = importlib.import_module("examples.geometry").draw(tmp_path)
    assert {file.suffix for file in files} == {".png", ".pdf"}
    assert all(file.stat().st_size > 10_000 for file in files)
    assert gap < 1e-12
    assert spread < 1e-12


def test_latent_sphere(tmp_path, capsys):
    """Codes of bright squares spread over the sphere, and the pictures show them; MNIST itself takes minutes."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    pytest.importorskip("rich")
    example = importlib.import_module("examples.latent_sphere")
    generator = np.random.default_rng(0)
    images, labels = np.zeros((1000, 1, 28, 28), dtype=np.float32), generator.integers(0, 10, 1000)
    for image, label, row in zip(images, labels, generator.integers(2, 16, 1000), strict=True):
        image[0, row : row + 8, 2 * label : 2 * label + 8] = 1.0
    model = example.fit(torch.from_numpy(images), seconds=1e9, width=0.125, epochs=6, batch_size=30)
    assert "epoch   1" in capsys.readouterr().out
    codes = example.encode_all(model, torch.from_numpy(images))
    assert float(example.ssw_uniform(codes, method="exact")) < 0.02  # all in one point: 1/12
    files = example.draw(model, ImageSet(images, labels), tmp_path)
    assert [file.name for file in files] == ["latent.png", "decoded.png", "latent.html"]
    assert all(file.stat().st_size > 10_000 for file in files)


def test_self_supervised(capsys):
    """Two kinds of stripes: nearest neighbors by the learned features are better than by those of a random network."""
    for package in ("torch", "kornia", "torchmetrics", "rich"):
        pytest.importorskip(package)
    example = importlib.import_module("examples.self_supervised")
    generator = np.random.default_rng(0)
    parts = []
    for n in (256, 100):
        labels = generator.integers(0, 2, n)
        ramp = np.linspace(0, 8 * np.pi, 16) + generator.uniform(0, 6, (n, 1))
        waves = np.where(labels[:, None, None] == 0, np.sin(ramp)[:, None, :], np.sin(ramp)[:, :, None])
        noise = 0.2 * generator.uniform(size=(n, 3, 16, 16))
        images = np.clip(0.4 + 0.3 * waves[:, None] * generator.uniform(size=(n, 3, 1, 1)) + noise, 0, 1)
        parts.append(ImageSet(images.astype(np.float32), labels))
    data = ImageData("stripes", "Stripes", *parts, "made here")
    before, after = example.learn(data, seconds=1e9, width=4, epochs=2)
    assert "epoch   2" in capsys.readouterr().out
    assert 0 <= before <= 1
    assert 0.5 < after <= 1


def test_places(tmp_path, capsys):
    """Two samples that differ about one direction: the examples' words say so, and the pictures are there."""
    pytest.importorskip("matplotlib")
    example = importlib.import_module("examples.places")
    rng = np.random.default_rng(0)
    first = rng.normal(size=(300, 3)) + np.eye(3)[0]
    second = rng.normal(size=(200, 3))
    samples = [points / np.linalg.norm(points, axis=1, keepdims=True) for points in (first, second)]
    files = example.compare(*samples, ("here", "there"), tmp_path)
    text = capsys.readouterr().out
    assert "p-value 0.005" in text
    assert [file.name for file in files] == ["difference.png", "density.png"]
    assert all(file.stat().st_size > 10_000 for file in files)


def test_watch_embeddings(tmp_path, capsys):
    """Days without a new topic raise no alarm; the first day with one does."""
    pytest.importorskip("matplotlib")
    alarms = importlib.import_module("examples.watch_embeddings").watch(8, tmp_path)
    assert alarms == ["day 8"]
    assert "Drift in 1 of 8 windows" in (tmp_path / "drift.html").read_text(encoding="utf-8")


def test_pipelines(capsys):
    pytest.importorskip("sklearn")
    bandwidth, score = importlib.import_module("examples.pipelines").fit()
    assert bandwidth in (0.1, 0.2)  # inside of the grid
    assert score > -2.53  # that of the uniform distribution
    assert "least typical" in capsys.readouterr().out
