"""Several processes run an experiment in different folders, and one of them finishes the joined run."""

import json

import pytest

pytest.importorskip("typer")
pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner

import paper
from paper.__main__ import app
from paper.experiment import run_experiment
from paper.run_context import LOG_NAME, UnitLog, join_logs


class KilledError(Exception):
    pass


class KilledAfter:
    def __init__(self, units):
        self.left = units

    def begin(self, label, total, done):
        pass

    def advance(self):
        self.left -= 1
        if self.left == 0:
            raise KilledError


def write_log(folder, entries, seed=0):
    """Write the log of a run of units n with the given results and seconds."""
    folder.mkdir()
    header = {"experiment": "kappa", "configuration": {}, "seed": seed, "version": "0"}
    lines = [header] + [{"unit": {"n": n}, "result": {"value": v}, "seconds": s} for n, v, s in entries]
    (folder / LOG_NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_two_processes_together_finish_a_run(tmp_path):
    """One begins in the middle; the joined run has nothing left to measure, and the numbers of one process."""
    experiment = paper.find("kappa")
    whole = run_experiment(experiment, out=tmp_path / "whole")
    for name, start in (("a", 0.0), ("b", 0.5)):
        with pytest.raises(KilledError):
            run_experiment(experiment, out=tmp_path / name, start=start, reporter=KilledAfter(12))
    done = CliRunner().invoke(app, ["join", *(str(tmp_path / n) for n in "ab"), "--out", str(tmp_path / "joined")])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [f"{tmp_path / 'joined'}: 24 finished units."]
    joined = run_experiment(experiment, out=tmp_path / "joined", reporter=KilledAfter(1))
    assert joined.rows == whole.rows


def test_seconds_of_all_processes_are_added(tmp_path):
    """Each unit counts once, with the time from the unit before it in its own log."""
    first = write_log(tmp_path / "a", [(0, 1, 10.0), (1, 1, 30.0)])
    second = write_log(tmp_path / "b", [(1, 1, 50.0), (2, 1, 55.0)])
    assert join_logs([first, second], tmp_path / "joined") == (3, [])
    header = json.loads((first / LOG_NAME).read_text().splitlines()[0])
    assert 35.0 <= UnitLog(tmp_path / "joined" / LOG_NAME, header).seconds < 95.0


def test_the_first_of_two_results_is_kept_and_named(tmp_path):
    """Such as a measured time."""
    first, second = (write_log(tmp_path / name, [(0, value, 1.0)]) for name, value in (("a", 1), ("b", 2)))
    assert join_logs([first, second], tmp_path / "joined") == (1, ['{"n": 0}'])
    assert json.loads((tmp_path / "joined" / LOG_NAME).read_text().splitlines()[1])["result"] == {"value": 1}


@pytest.mark.parametrize(
    ("names", "out", "said"),
    [
        ("a", "new", "folders must be at least 2, got 1"),
        ("ac", "new", "c: is a run with another experiment, configuration, seed or version than"),
        ("ad", "new", "d: holds no unfinished run"),
        ("ab", "b", "b: holds results already; choose another folder with --out"),
    ],
)
def test_runs_that_cannot_be_joined(names, out, said, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_log(tmp_path / name, [(0, 1, 1.0)], seed)
    before = (tmp_path / "b" / LOG_NAME).read_bytes()
    done = CliRunner().invoke(
        app, ["join", *(str(tmp_path / name) for name in names), "--out", str(tmp_path / out)], env={"COLUMNS": "400"}
    )
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "b" / LOG_NAME).read_bytes() == before
