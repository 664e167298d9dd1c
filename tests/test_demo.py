"""The demo: its data follow the distribution it names, and it writes its files."""

import importlib

import numpy as np
import pytest

for _package in ("matplotlib", "ot", "rich"):
    pytest.importorskip(_package)

demo = importlib.import_module("examples.demo")


def test_mixture_is_von_mises_fisher():
    """The mean height along the mean is coth(kappa) - 1 / kappa, within 5 standard errors."""
    points = demo.mixture(20_000, demo.MEANS[:1], seed=3)
    heights = points @ demo.MEANS[0]
    expected = 1 / np.tanh(demo.KAPPA) - 1 / demo.KAPPA
    assert abs(heights.mean() - expected) < 5 * heights.std() / np.sqrt(len(heights))
    sideways = points - heights[:, None] * demo.MEANS[0]
    assert np.linalg.norm(sideways.mean(axis=0)) < 5 * sideways.std() * np.sqrt(3 / len(points))


def test_demo_detects_drift(tmp_path, capsys):
    """The drift begins in the fourth week."""
    demo.drift(demo.Console(width=200), tmp_path / "report.html")
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  week")]
    assert [row.rstrip().endswith("drift") for row in rows] == [False] * 3 + [True] * 3
    assert (tmp_path / "report.html").read_text(encoding="utf-8").count("<details") == 6


def test_pictures(tmp_path):
    pytest.importorskip("torch")
    demo.picture(tmp_path / "demo.png", demo.mixture(100), demo.mixture(100, demo.MOVED, seed=1))
    demo.gradient_flow(tmp_path / "flow.png")
    assert {path.name for path in tmp_path.iterdir()} == {"demo.png", "flow.png"}
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in tmp_path.iterdir())
