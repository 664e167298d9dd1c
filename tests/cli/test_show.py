"""Text of commands: subscripts for readers, plain names for programs."""

import io
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from sphereot import sphere
from sphereot.stats import drift_test, two_sample_test, uniformity_test

pytest.importorskip("typer")
from sphereot._support.units import UNITS, Lengths
from sphereot.cli.show import drift_text, for_reader, print_json, two_sample_text


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
    lengths = Lengths(p, 3, UNITS["turns"])
    plain = drift_text(result, lengths)
    monkeypatch.setattr(sys, "stdout", Terminal("utf-8"))
    small = drift_text(result, lengths)
    name, unit = {1: ("SSW₁", "turns"), 2: ("SSW₂²", "turns²")}[p]
    assert small.count(name) == 3  # two windows in the summary, and the head of the table
    assert f"{name} ({unit})" in small.splitlines()[1]
    assert all(small.count(label) == plain.count(label) for label in labels)
    for text in (plain, small):
        head, *rows, _ = text.splitlines()[1:4]
        assert {len(row) for row in rows} == {len(head) + len("  drift")}


@pytest.mark.parametrize(("p", "unit"), [(1, None), (1, "km"), (2, None), (2, "degrees")])
def test_every_length_of_a_drift_table_has_a_unit(p, unit):
    """Values and bands in the unit of the head of their column."""
    x = sphere.random_uniform(60, 3, seed=0)
    result = drift_test(x, [sphere.random_uniform(60, 3, seed=1)], p=p, permutations=99, seed=0)
    (window,) = result.windows
    head, row, _ = drift_text(result, Lengths(p, 3, UNITS.get(unit))).splitlines()[1:4]
    values = row.split("window 1")[1].split()
    factor = {None: 1, "km": 40030.23, "degrees": 1}[unit]
    expected = {
        (1, None): ["SSW_1 (turns)", "SSW_1 (degrees)"],
        (1, "km"): ["SSW_1 (km)"],
        (2, None): ["SSW_2^2 (turns^2)", "SSW_2 (degrees)"],
        (2, "degrees"): ["SSW_2^2 (turns^2)", "SSW_2 (degrees)"],
    }[p, unit]
    assert re.findall(r"SSW_\S+ \(\S+\)", head) == expected
    assert float(values[1]) == pytest.approx(factor * window.value, rel=1e-3)
    assert float(values[len(expected) + 1]) == pytest.approx(factor * window.band[0], rel=1e-2)
    if len(expected) == 2:
        assert float(values[2]) == pytest.approx(360 * window.value ** (1 / p), rel=1e-3)


@pytest.mark.parametrize(
    ("p", "unit", "units"),
    [(1, "km", ["km"]), (1, None, ["turns", "degrees"]), (2, "radians", ["turns^2", "radians"])],
)
def test_every_length_of_a_two_sample_test_has_a_unit(p, unit, units):
    x, y = (sphere.random_uniform(60, 3, seed=seed) for seed in (0, 1))
    text = two_sample_text(two_sample_test(x, y, p=p, permutations=99, seed=0), Lengths(p, 3, UNITS.get(unit)))
    assert set(re.findall(r"\d (turns\^2|turns|degrees|radians|km)", text)) == set(units)
    # The distance, its mean by chance, and the same two of the circle that differs most.
    assert len(re.findall(rf"\d {re.escape(units[0])}\b", text)) == 4


def test_json_is_one_line_for_programs(monkeypatch, capsys):
    """Indented for readers, on a terminal."""
    record = {"value": 0.5, "list": [1, 2]}
    print_json(record)
    assert capsys.readouterr().out == '{"value": 0.5, "list": [1, 2]}\n'
    terminal = Terminal("utf-8")
    monkeypatch.setattr(sys, "stdout", terminal)
    print_json(record)
    assert terminal.getvalue().splitlines()[1] == '  "value": 0.5,'


@pytest.mark.parametrize("p", [1, 2])
def test_text_of_a_uniformity_test(p, monkeypatch):
    """Statistics stay below each other."""
    plain = str(uniformity_test(sphere.random_uniform(60, 3, seed=0), p=p, simulations=99, seed=0))
    monkeypatch.setattr(sys, "stdout", Terminal("utf-8"))
    shown = for_reader(plain)
    assert {1: "SSW₁", 2: "SSW₂²"}[p] in shown
    assert len(set(map(len, shown.splitlines()[4:]))) == 1  # below the title, the heads, "combined" and the first test
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
