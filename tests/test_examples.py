"""The examples run, and do what they say."""

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
