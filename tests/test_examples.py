"""The examples run, and their results are what they claim."""

import importlib

import pytest


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
