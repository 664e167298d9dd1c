"""Text of commands: subscripts for readers, plain names for programs."""

import io
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from sphereot import sphere
from sphereot.stats import drift_test, uniformity_test

pytest.importorskip("typer")
from sphereot.cli.outputs import drift_for_reader, for_reader


class Terminal(io.StringIO):
    """A stream that is a terminal of some encoding."""

    def __init__(self, encoding):
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self):
        return self._encoding

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (Terminal("utf-8"), "SSW₁ = 0.1 turns²"),
        (Terminal("ascii"), "SSW_1 = 0.1 turns^2"),
        (Terminal("latin-1"), "SSW_1 = 0.1 turns^2"),  # it has ², but not ₁
        (Terminal(None), "SSW_1 = 0.1 turns^2"),
        (io.StringIO(), "SSW_1 = 0.1 turns^2"),
    ],
)
def test_subscripts_where_they_can_be_shown(stream, expected, monkeypatch):
    monkeypatch.setattr(sys, "stdout", stream)
    assert for_reader("SSW_1 = 0.1 turns^2") == expected


@pytest.mark.parametrize("p", [1, 2])
def test_text_of_a_drift_test(p, monkeypatch):
    """Columns stay aligned, and windows keep their names."""
    x = sphere.random_uniform(60, 3, seed=0)
    shifted = sphere.normalize(sphere.random_uniform(60, 3, seed=1) + np.array([2.0, 0, 0]))
    labels = ["SSW_2024.npy", "turns^2.npy"]
    result = drift_test(x, [shifted, shifted], labels=labels, p=p, permutations=199, seed=0)
    monkeypatch.setattr(sys, "stdout", Terminal("utf-8"))
    plain, small = str(result), drift_for_reader(str(result), p)
    name = {1: "SSW₁", 2: "SSW₂²"}[p]
    assert small.count(name) == 3  # two windows in the summary, and the head of the table
    assert all(small.count(label) == plain.count(label) for label in labels)
    rows = {len(line) for line in small.splitlines()[1:4]}
    assert rows == {len(line) for line in plain.splitlines()[1:4]}


@pytest.mark.parametrize("p", [1, 2])
def test_text_of_a_uniformity_test(p, monkeypatch):
    """Statistics stay below each other."""
    plain = str(uniformity_test(sphere.random_uniform(60, 3, seed=0), p=p, simulations=99, seed=0))
    monkeypatch.setattr(sys, "stdout", Terminal("utf-8"))
    shown = for_reader(plain)
    assert {1: "SSW₁", 2: "SSW₂²"}[p] in shown
    assert len(set(map(len, shown.splitlines()[3:]))) == 1
    assert [len(line) for line in shown.splitlines()] == [len(line) for line in plain.splitlines()]


def test_command_in_a_terminal(tmp_path):
    """The names are aligned after they have become shorter; into a pipe they are plain."""
    pty = pytest.importorskip("pty")  # not on Windows
    np.save(tmp_path / "a.npy", sphere.random_uniform(50, 3, seed=0))
    np.save(tmp_path / "b.npy", sphere.random_uniform(50, 3, seed=1))
    command = [sys.executable, "-m", "sphereot", "distance", "a.npy", "b.npy", "--projections", "20"]
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "COLUMNS": "200"}
    reader, terminal = pty.openpty()
    subprocess.run(command, stdout=terminal, stderr=terminal, cwd=tmp_path, env=environment, check=True)
    os.close(terminal)
    shown = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert re.search(r"SSW₂² = \S+ ± \S+ turns²", shown)
    assert re.search(r"^SSW₂  = ", shown, re.MULTILINE)
    piped = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=True)
    assert "SSW_2^2 = " in piped.stdout
