"""Files written by version 0.2.0: every later version reads them, with the same contents.

`stored/values.json` has what version 0.2.0 computed from them. It also has numbers of great circles for given seeds,
because sketches store the seed of their circles, not the circles.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sphereot

STORED = Path(__file__).with_name("stored")
VALUES = json.loads((STORED / "values.json").read_text())


def cloud(n, dim, seed):
    """Unit vectors that lean toward the first axis."""
    x = np.random.default_rng(seed).normal(size=(n, dim))
    x[:, 0] += 1.0
    return x / np.sqrt((x**2).sum(axis=1, keepdims=True))


def day(seed, shift):
    """A sketch with groups of 400 points near the north pole."""
    x = np.random.default_rng(seed).normal(size=(400, 3)) + np.array([0, 0, shift])
    sketch = sphereot.Sketch(3, n_projections=20, bins=128, groups=32)
    return sketch.update(sphereot.sphere.normalize(x), groups=np.arange(400))


SKETCHES = {
    "plain": lambda: sphereot.Sketch(3, n_projections=12, bins=64, seed=5).update(cloud(200, 3, 0)),
    "weighted": lambda: sphereot.Sketch(5, n_projections=7, bins=32).update(
        cloud(100, 5, 1), weights=np.linspace(0.1, 2, 100)
    ),
    "groups": lambda: sphereot.Sketch(16, n_projections=20, bins=128, groups=32).update(
        cloud(300, 16, 2), groups=np.arange(300) // 3
    ),
}


@pytest.mark.parametrize("name", SKETCHES)
def test_sketches(name):
    """The same contents are read from the file and counted again, to the last bit."""
    read = sphereot.Sketch.load(STORED / f"{name}.sketch")
    assert read == SKETCHES[name]()
    assert read.digest() == SKETCHES[name]().digest() == VALUES["sketches"][name]["digest"]


@pytest.mark.parametrize("name", VALUES["frames"])
def test_great_circles_of_a_seed(name):
    """The first and last number of the frames, and a sum of all with random signs and weights."""
    method, dim, count = name.split()
    frames = np.asarray(sphereot.great_circles(int(count), int(dim), method=method, seed=7))
    weights = np.random.default_rng(0).normal(size=frames.shape)
    found = [frames[0, 0, 0], frames[-1, -1, -1], (frames * weights).sum()]
    assert_allclose(found, VALUES["frames"][name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", VALUES["models"])
def test_density_models(name):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    from sphereot import density

    model = density.load(STORED / f"{name}.safetensors")
    tolerance = 1e-5 if name in ("expmap", "stereo") else 1e-10  # flows compute in float32
    assert_allclose(model.log_density(cloud(4, 3, 4)), VALUES["models"][name], rtol=tolerance)


def test_drift_histories(tmp_path):
    """A history is continued: known windows are not tested again, a new one is appended."""
    pytest.importorskip("filelock")
    from sphereot.stats import DriftMonitor

    history = Path(shutil.copy(STORED / "history.jsonl", tmp_path))
    reference = sphereot.Sketch.load(STORED / "reference.sketch")
    assert reference == day(0, 1.0)
    monitor = DriftMonitor(reference, history=history, alpha=0.05, horizon=30)
    found = [[window.label, window.drifted, window.value, window.p_value] for window in monitor.windows]
    for window, expected in zip(found, VALUES["history"], strict=True):
        assert window[:2] == expected[:2]
        assert_allclose(window[2:], expected[2:], rtol=1e-12)
    monitor.check(day(4, 1.0), label="day 4")
    again = DriftMonitor(reference, history=history, alpha=0.05, horizon=30)
    assert [window.label for window in again.windows] == ["day 1", "day 2", "day 3", "day 4"]
