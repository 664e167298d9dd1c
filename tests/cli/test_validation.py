"""Points are validated when a file is read, and once more by the library: not again and again."""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.unit_length import count_unit_length_checks

pytest.importorskip("typer")

from helpers.cli import run, save_points

RNG = np.random.default_rng(0)
SAMPLES = {name: sphere_sample(RNG, n, 3) for name, n in (("a", 60), ("b", 40), ("c", 50))}
SAMPLES["far"] = sphere_sample(RNG, 55, 3, shift=3)

COMMANDS = {
    "distance": (["distance", "a.npy", "b.npy"], "ab"),
    "distance --rtol": (["distance", "a.npy", "b.npy", "--rtol", "0.02"], "ab"),
    "pairwise": (["pairwise", "a.npy", "b.npy", "c.npy"], "abc"),
    "pairwise --rtol": (["pairwise", "a.npy", "b.npy", "c.npy", "--rtol", "0.05"], "abc"),
    "test": (["test", "a.npy", "b.npy", "--permutations", "19"], "ab"),
    "uniformity": (["uniformity", "a.npy", "--simulations", "19"], "a"),
    "drift": (["drift", "a.npy", "b.npy", "c.npy", "--permutations", "59"], "abc"),
    "drift --report": (
        ["drift", "a.npy", "b.npy", "far.npy", "--permutations", "59", "--report", "a.html"],
        ["a", "b", "far"],
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_array_is_checked_once_after_reading(command, tmp_path, monkeypatch):
    arguments, names = COMMANDS[command]
    save_points(tmp_path, SAMPLES)
    monkeypatch.chdir(tmp_path)
    checks = count_unit_length_checks(monkeypatch)
    done = run(*arguments)
    assert done.exit_code == (3 if "far" in names else 0), done.output
    of_samples = {points.shape: checks[points.shape] for points in SAMPLES.values() if checks[points.shape]}
    assert of_samples == {SAMPLES[name].shape: 1 for name in names}
