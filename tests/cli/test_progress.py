"""Long commands: a bar where a person looks, nothing where a program does, and a quiet end at Ctrl-C."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.processes import MODULE, start
from numpy.testing import assert_allclose

pytest.importorskip("typer")

from helpers.cli import answer, run, save_points

import sphereot

RNG = np.random.default_rng(0)
X, Y = sphere_sample(RNG, 60, 3), sphere_sample(RNG, 40, 3)

LONG = {
    "distance": (["distance", "a.npy", "b.npy"], "great circles"),
    "pairwise": (["pairwise", "a.npy", "b.npy"], "great circles"),
    "test": (["test", "a.npy", "b.npy", "--permutations", "99"], "great circles"),
    "uniformity": (["uniformity", "a.npy", "--simulations", "99"], "uniform samples"),
    "drift": (["drift", "a.npy", "a.npy", "--permutations", "99"], "great circles of all windows"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return save_points(tmp_path, {"a": X, "b": Y})


def on_a_terminal(arguments):
    """Exit code, stdout, and what a terminal at stderr was shown."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    shown = b""
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    with subprocess.Popen([*MODULE, *arguments], stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # so Linux says that nobody writes any more
                break
            if not part:
                break
            shown += part
        out = process.stdout.read()
    os.close(ours)
    return process.returncode, out.decode(), shown.decode()


@pytest.mark.parametrize("command", LONG)
def test_a_bar_on_a_terminal_and_none_elsewhere(folder, command):
    arguments, label = LONG[command]
    code, out, shown = on_a_terminal([*arguments, "--json"])
    assert code == 0, shown
    assert label in shown
    assert "Reading ..." in shown
    plain = run(*arguments, "--json")
    assert plain.stderr == ""
    assert json.loads(out) == json.loads(plain.stdout)


def test_a_bar_of_training(folder):
    pytest.importorskip("torch")
    arguments = ["density", "fit", "a.npy", "--epochs", "3", "--blocks", "2", "--out", "m.safetensors"]
    code, out, shown = on_a_terminal(arguments)
    assert code == 0, shown
    assert "epochs" in shown
    assert "\x1b" not in out  # stdout can go to a file


@pytest.mark.parametrize("options", [[], ["--rtol", "0.01"]])
def test_distance_step_by_step_is_that_of_the_library(folder, monkeypatch, options):
    monkeypatch.setattr("sphereot.distance.estimates._POINTS_PER_STEP", 1)
    found = answer("distance", "a.npy", "b.npy", "--seed", "3", *options)
    expected = sphereot.ssw_estimate(X, Y, seed=3, rtol=0.01 if options else None)
    assert found["n_projections"] == expected.n_projections
    assert_allclose(found["value"], expected.value, rtol=1e-12)
    assert_allclose(found["standard_error"], expected.standard_error, rtol=1e-12)


@pytest.mark.parametrize("command", ["test", "uniformity", "drift"])
def test_tests_take_no_weights(folder, command):
    """Said with the reason and what to do, not as an option that nobody knows."""
    done = run(*LONG[command][0], "--weights", "2")
    assert done.exit_code == 2
    assert done.stderr.startswith(
        "Error: --weights is not supported by tests, which assume that all points have equal weight."
    )
    assert "`sphereot distance --weights`" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "--weights" not in run(command, "--help").stdout


def test_a_file_given_twice_has_two_names(folder):
    done = run("drift", "a.npy", "b.npy", "b.npy", "--permutations", "99", "--json")
    assert [window["label"] for window in json.loads(done.stdout)["windows"]] == ["b.npy", "b.npy (2)"]


# ---- Ctrl-C ----

INTERRUPTED = """
import importlib, os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
module, name = sys.argv.pop(1).rsplit(".", 1)
module = importlib.import_module(module)
work = getattr(module, name)

def interrupted(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
    return work(*arguments, **options)

setattr(module, name, interrupted)
from sphereot.cli import main
main()
"""

MOMENTS = {
    "distance": ["sphereot.datasets.read_points", "sphereot.distance.estimates._costs_in_steps"],
    "pairwise": ["sphereot.datasets.read_points", "sphereot.distance.pairwise.pairwise_matrix"],
    "test": ["sphereot.datasets.read_points", "sphereot.stats.two_sample.point_labelings"],
    "uniformity": ["sphereot.datasets.read_points", "sphereot.stats.uniformity._simulate"],
}


@pytest.mark.parametrize(("command", "moment"), [(k, moment) for k, moments in MOMENTS.items() for moment in moments])
def test_interrupted(folder, command, moment):
    before = sorted(folder.iterdir())
    done = start(sys.executable, "-c", INTERRUPTED, moment, *LONG[command][0])
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted(folder.iterdir()) == before


def test_interrupted_before_there_is_a_command():
    code = """
import sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "sphereot.cli.density":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from sphereot.cli import main
main()
"""
    done = start(sys.executable, "-c", code, "info")
    assert done.returncode == 130
    assert done.stderr == ""
