"""`python -m paper`: every experiment at its quick preset, resuming, records, and what bad input gets."""

import csv
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner

import paper
from paper.__main__ import app
from paper.common import means, select
from paper.experiment import Table, run_experiment
from paper.overview import RESULTS
from paper.run_context import RunContext, UnitLog


def run(*arguments, **options):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False, **options)


def run_quick(name, folder, seed=0):
    return run_experiment(paper.find(name), preset="quick", seed=seed, out=folder)


@pytest.mark.parametrize("name", paper.NAMES)
def test_quick_preset_writes_record_table_and_figures(name, tmp_path):
    """The command runs, and leaves a record from which the run can be told and repeated, and nothing unfinished."""
    if paper.find(name).needs and "SPHEREOT_DATA" not in os.environ:
        pytest.skip("SPHEREOT_DATA does not name the folder of data")
    done = run("run", name, "--out", tmp_path, "--seed", "3", terminal_width=200)
    assert done.exit_code == 0, done.output
    assert "The paper:" in done.output
    record = json.loads((tmp_path / "result.json").read_text())
    assert (record["experiment"], record["preset"], record["seed"]) == (name, "quick", 3)
    assert record["versions"]["torch"]
    assert record["machine"]["cores"] >= 1
    assert record["figures"]
    with (tmp_path / "result.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= len(record["figures"])
    pages = {".html"} if paper.find(name).pages else set()
    assert {file.suffix for file in tmp_path.iterdir()} == {".json", ".csv", ".png", ".pdf"} | pages
    assert all(file.stat().st_size > 500 for file in tmp_path.iterdir() if file.name != "result.csv")  # its rows count


def test_divergences_grow_with_the_concentration(tmp_path):
    """The paper's claim: KL and SSW grow with kappa; at high kappa KL grows with the dimension, SSW falls."""
    rows = run_quick("kappa", tmp_path).rows
    ends = {}
    for dim in (3, 10):
        for name in ("kl", "ssw"):
            values = means(select(rows, dim=dim), "kappa", name)[1]
            assert all(values[1:] > values[:-1])
            ends[dim, name] = values[-1]
    assert ends[10, "kl"] > ends[3, "kl"]
    assert ends[10, "ssw"] < ends[3, "ssw"]


def test_bell_is_highest_at_opposite_means(tmp_path):
    rows = run_quick("rotation", tmp_path).rows
    for name in ("ssw2", "ssw1", "sw2"):
        angles, values = means(select(rows, dim=3), "angle", name)
        assert angles[values.argmax()] == 180


def test_figures_can_be_drawn_again_from_the_rows(tmp_path):
    """Byte for byte the same: the CSV holds every digit, and figures have no date."""
    run_quick("kappa", tmp_path)
    before = (tmp_path / "kappa.pdf").read_bytes()
    (tmp_path / "kappa.pdf").unlink()
    done = run("run", "kappa", "--replot", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "kappa.pdf").read_bytes() == before


class KilledError(Exception):
    pass


class KilledAfter:
    """A reporter that breaks the run off after some units."""

    def __init__(self, units):
        self.left = units

    def begin(self, label, total, done):
        pass

    def advance(self):
        self.left -= 1
        if self.left == 0:
            raise KilledError


def test_a_killed_run_resumes_with_the_same_numbers(tmp_path):
    """A unit's seed depends on the unit alone, and what is done is not done again."""
    whole = run_quick("projections", tmp_path / "whole")
    experiment = paper.find("projections")
    with pytest.raises(KilledError):
        run_experiment(experiment, out=tmp_path / "broken", reporter=KilledAfter(30))
    log = tmp_path / "broken" / "unfinished.jsonl"
    assert len(log.read_text().splitlines()) == 31
    with log.open("a") as torn:
        torn.write('{"unit": {"part": "kap')
    again = run_experiment(experiment, out=tmp_path / "broken")
    assert again.rows == whole.rows
    assert not log.exists()
    assert json.loads((tmp_path / "broken" / "result.json").read_text())["resumed"]


def test_an_unfinished_run_with_other_settings_is_not_taken_up(tmp_path):
    experiment = paper.find("kappa")
    with pytest.raises(KilledError):
        run_experiment(experiment, out=tmp_path, seed=1, reporter=KilledAfter(2))
    with pytest.raises(ValueError, match=r"other settings.*--fresh"):
        run_experiment(experiment, out=tmp_path, seed=2)
    run_experiment(experiment, out=tmp_path, seed=2, fresh=True)


def test_log_knows_units_by_value(tmp_path):
    log = UnitLog(tmp_path / "log", {"seed": 0})
    calls = []

    def work(n, seed):
        calls.append((n, seed))
        return {"value": n / 3}

    first = RunContext(0, log).measure("part", [{"n": 1}, {"n": 2}], work)
    second = RunContext(0, UnitLog(tmp_path / "log", {"seed": 0})).measure("part", [{"n": 2}, {"n": 1}], work)
    assert second == first[::-1]
    assert [n for n, _ in calls] == [1, 2]
    assert calls[0][1] != calls[1][1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kapa"], "did you mean 'kappa'"),
        (["kappa", "--preset", "huge"], "choose one of quick, cpu, paper"),
    ],
)
def test_bad_requests_get_one_line_and_code_2(arguments, said):
    done = run("run", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unwritable_folder_is_named(tmp_path):
    """A file stands where the folder should be: even the superuser cannot write there."""
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    done = run("run", "kappa", "--out", blocked / "results")
    assert done.exit_code == 2
    assert "blocked" in done.stderr


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_folder_is_named(tmp_path):
    tmp_path.chmod(0o500)
    done = run("run", "kappa", "--out", tmp_path / "results")
    assert done.exit_code == 2
    assert "Permission denied" in done.stderr


def test_listing_names_every_experiment_with_presets_and_data():
    done = run("list", terminal_width=80)
    assert done.exit_code == 0
    assert all(name in done.output for name in paper.NAMES)
    words = set(done.output.replace(",", " ").replace(";", " ").split())
    assert all(set(paper.find(name).presets) <= words for name in paper.NAMES)
    assert {"MNIST", "CIFAR10", "SPHEREOT_DATA"} <= words


@pytest.mark.parametrize("name", paper.NAMES)
def test_comparison_shows_every_committed_record(name):
    """The tables of the records, and what the paper reports; nothing is computed."""
    done = run("compare", name, terminal_width=300)
    assert done.exit_code == 0, done.output
    records = [json.loads(path.read_text()) for path in RESULTS.glob("*/result.json")]
    presets = [record["preset"] for record in records if record["experiment"] == name]
    logs = [path.read_text().partition("\n")[0] for path in RESULTS.glob("*/unfinished.jsonl")]
    assert presets or name in [json.loads(log)["experiment"] for log in logs]
    assert all(f"preset {preset}, seed 0" in done.output for preset in presets)
    assert "The paper:" in done.output


def test_all_runs_every_experiment(tmp_path, monkeypatch):
    """Each into a folder of its own, with a verdict on each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paper, "NAMES", ("kappa", "flow_vmf"))
    done = run("all", "--seed", "1")
    assert done.exit_code == 0, done.output
    assert {path.parent.name for path in Path("out", "paper").glob("*/result.json")} == {
        "kappa-quick",
        "flow_vmf-quick",
    }
    rows = [line.replace("│", " ").split() for line in done.stdout.splitlines()]
    assert ["kappa", "Figure", "7", "met"] in [row[:4] for row in rows]
    assert ["flow_vmf", "Figures", "13,", "14", "met"] in [row[:5] for row in rows]


def test_committed_records_fit_their_experiments():
    """They name a preset that exists: the figures can be drawn again."""
    for path in RESULTS.glob("*/result.json"):
        record = json.loads(path.read_text())
        assert record["preset"] in paper.find(record["experiment"]).presets


def test_errors_of_arguments_stand_alone():
    """No heading of a run that does not begin."""
    assert run("run", "kappa", "--preset", "huge").stdout == ""


def test_progress_without_a_terminal(tmp_path, monkeypatch):
    """Lines for the log of a batch job, a minute apart also inside a long unit; stdout has the result only."""

    def measure(n, seed):
        time.sleep(1.0 if n == 1 else 0.0)
        return {"value": n}

    def run_units(config, context):
        return context.measure("kappa", [{"n": n} for n in range(3)], measure)

    table = Table(("n",), [["3"]])
    experiment = replace(paper.find("kappa"), run=run_units, plot=lambda *_: {}, summarize=lambda *_: table)
    monkeypatch.setattr(paper, "find", lambda name: experiment)
    monkeypatch.setattr("paper.__main__._Reporter.interval", 0.1)
    done = run("run", "kappa", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    lines = done.stderr.splitlines()
    assert (lines[0], lines[-1]) == ("kappa: 0 of 3, 0 min", "kappa: 3 of 3, 0 min")
    # Ten lines in the unit of a second; a busy machine may leave some of them out.
    assert lines.count("kappa: 1 of 3, 0 min") >= 3
    assert len(lines) <= 14
    assert "of 3" not in done.stdout


# ---- what may happen to the folder of a run ----


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_finished_results_are_kept(tmp_path):
    """Another experiment, seed or preset is refused without a change to the folder."""
    run_quick("kappa", tmp_path)
    before = contents(tmp_path)
    for arguments in (["rotation"], ["kappa", "--seed", "2"], ["kappa", "--preset", "cpu"]):
        done = run("run", *arguments, "--out", tmp_path)
        assert done.exit_code == 2
        assert "results of another run (kappa with preset quick, seed 0 and version" in done.stderr
        assert "--fresh" in done.stderr
        assert done.stdout == ""
        assert contents(tmp_path) == before


def test_a_finished_run_is_not_computed_again(tmp_path):
    first = run_quick("flow_vmf", tmp_path)
    before = contents(tmp_path)
    (tmp_path / "unfinished.jsonl").write_text("what a kill at the end of the run can leave\n")
    done = run("run", "flow_vmf", "--out", tmp_path, terminal_width=200)
    assert done.exit_code == 0, done.output
    assert "This run was finished on 2" in done.stdout
    assert f"{first.seconds:.1f} s. Files:" in done.stdout
    assert done.stderr == ""
    assert contents(tmp_path) == before
    again = run_quick("flow_vmf", tmp_path)
    assert again.earlier is not None
    assert (again.rows, again.table, again.files) == (first.rows, first.table, first.files)


def test_fresh_replaces_all_files_of_the_finished_run(tmp_path):
    """No figure and no series of the first experiment stays; files of others do."""
    run_quick("flow_vmf", tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    done = run("run", "kappa", "--out", tmp_path, "--fresh")
    assert done.exit_code == 0, done.output
    names = {"result.json", "result.csv", "kappa.png", "kappa.pdf"}
    assert {file.name for file in tmp_path.iterdir()} == names | {"notes.txt"}
    record = json.loads((tmp_path / "result.json").read_text())
    assert set(record["files"]) == names - {"result.json"}


@pytest.mark.parametrize("record", ["", "{}", "[]", '{"files": 3}'])
def test_results_that_cannot_be_read_are_kept(record, tmp_path):
    """Whose files they are is unknown, so that not even --fresh replaces them."""
    (tmp_path / "result.json").write_text(record)
    plain = run("run", "kappa", "--out", tmp_path)
    fresh = run("run", "kappa", "--out", tmp_path, "--fresh")
    assert (plain.exit_code, fresh.exit_code) == (2, 2)
    assert "holds results that cannot be read" in plain.stderr
    assert "does not list the files" in fresh.stderr
    assert contents(tmp_path) == {"result.json": record.encode()}


def test_fresh_removes_nothing_outside_the_folder(tmp_path):
    (tmp_path / "k").mkdir()
    (tmp_path / "mine.txt").write_text("")
    (tmp_path / "k" / "result.json").write_text(json.dumps({"files": ["../mine.txt", str(tmp_path / "mine.txt")]}))
    assert run("run", "kappa", "--out", tmp_path / "k", "--fresh").exit_code == 0
    assert (tmp_path / "mine.txt").exists()


@pytest.mark.parametrize("name", ["result.csv", "series.json"])
def test_the_rows_of_another_run_are_not_drawn(name, tmp_path):
    run_quick("flow_vmf", tmp_path)
    text = (tmp_path / name).read_text()
    (tmp_path / name).write_text(text[: text.rindex("0.") + 2] + text[text.rindex("0.") + 3 :])  # without a digit
    before = contents(tmp_path)
    done = run("run", "flow_vmf", "--replot", "--out", tmp_path)
    assert done.exit_code == 2
    assert f"{name} belongs to another run, or was changed" in done.stderr
    assert contents(tmp_path) == before


def test_a_series_without_a_record_is_not_drawn(tmp_path):
    """It is the file of a run that had lists, in the folder of one that has none."""
    run_quick("kappa", tmp_path)
    before = (tmp_path / "kappa.pdf").read_bytes()
    (tmp_path / "series.json").write_text('[{"row": 0, "ssw": [1.0]}]')
    assert run("run", "kappa", "--replot", "--out", tmp_path).exit_code == 0
    assert (tmp_path / "kappa.pdf").read_bytes() == before


def test_seconds_count_all_processes(tmp_path):
    """Those of finished units, and those up to the last state inside a unit."""
    path, unit = tmp_path / "log", {"n": 0}
    first = UnitLog(path, {"seed": 0})
    first.count_earlier(1000.0)  # as if the first process had computed for so long
    first.add(unit, {"value": 0})
    second = UnitLog(path, {"seed": 0})
    assert 1000 <= second.seconds < 1060
    second.count_earlier(3000.0)
    checkpoint = second.checkpoint({"n": 1})
    checkpoint.every = 0.0
    checkpoint.save(lambda: {"step": 5})
    third = UnitLog(path, {"seed": 0})
    for _ in range(2):  # reading it again counts nothing twice
        assert third.checkpoint({"n": 1}).load() == {"step": 5}
    assert 3000 <= third.seconds < 3060
    assert third.checkpoint({"n": 2}).load() is None


def test_a_second_run_in_the_folder_is_refused(tmp_path):
    """Two would mix their logs; the first goes on unharmed."""
    experiment = paper.find("kappa")

    class Intruder:
        codes = ()

        def begin(self, label, total, done):
            pass

        def advance(self):
            if not self.codes:
                second = run("run", "kappa", "--out", tmp_path)
                third = run("run", "kappa", "--out", tmp_path, "--fresh")
                self.codes = (second.exit_code, third.exit_code)
                assert "another run is at work" in second.stderr

    intruder = Intruder()
    run_experiment(experiment, out=tmp_path, reporter=intruder)
    assert intruder.codes == (2, 2)
    assert not (tmp_path / "unfinished.lock").exists()


def test_the_log_is_never_torn_by_taking_it_up(tmp_path, monkeypatch):
    """There is no moment at which a kill would leave fewer units than there were."""
    from paper import run_context
    from sphereot._support import atomic_write as _files

    log = tmp_path / "log"
    first = UnitLog(log, {"seed": 0})
    for n in range(200):
        first.add({"n": n}, {"value": n})
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"unit": {"n": 200')

    def killed(path, text):
        with _files.write_aside(path) as aside:
            aside.write_text(text[:1000])
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(run_context, "write_text", killed)
        with pytest.raises(KilledError):
            UnitLog(log, {"seed": 0})
    assert len(UnitLog(log, {"seed": 0}).known) == 200
    assert log.read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_units_without_room_for_them_are_noted_later(tmp_path):
    """One warning; the next unit that finds room takes the others along, and no torn line stays."""
    path = tmp_path / "log"
    log = UnitLog(path, {"seed": 0})
    log.add({"n": 0}, {"value": 0})
    path.rename(tmp_path / "aside")
    path.mkdir()  # even the superuser cannot write there
    with pytest.warns(RuntimeWarning, match="log: the log cannot be written"):
        log.add({"n": 1}, {"value": 1})
    log.add({"n": 2}, {"value": 2})  # a second warning would be an error here
    path.rmdir()
    (tmp_path / "aside").rename(path)
    with path.open("ab") as torn:
        torn.write(b'{"unit": {"n": 1}, "res')
    log.add({"n": 3}, {"value": 3})
    assert sorted(row["value"] for row in UnitLog(path, {"seed": 0}).known.values()) == [0, 1, 2, 3]
    assert len(path.read_bytes().splitlines()) == 5


def test_a_full_disk_does_not_end_a_run(tmp_path, monkeypatch):
    """States of all units together give one warning, and every unit is measured."""
    from paper.run_context import Checkpoint
    from sphereot._support import checkpoints as _checkpoints

    class Full:
        def __init__(self, path):
            raise OSError(28, "No space left on device", str(path))

    def work(n, seed, checkpoint):
        checkpoint.save(lambda: {"n": n})
        return {"value": n}

    monkeypatch.setattr(_checkpoints, "write_aside", Full)
    monkeypatch.setattr(Checkpoint, "every", 0.0)
    context = RunContext(0, UnitLog(tmp_path / "log", {"seed": 0}))
    with pytest.warns(RuntimeWarning, match=r"log\.pt: the state cannot be written \(No space left") as caught:
        rows = context.measure("part", [{"n": n} for n in range(5)], work, checkpoints=True)
    assert len(caught) == 1
    assert [row["value"] for row in rows] == list(range(5))


@pytest.mark.parametrize(
    "damage", [b"\xff\xfe\n", b"[" * 10_000 + b"\n", b"5\n", b'{"unit": 3}\n', b'{"result": {}}\n']
)
def test_damaged_lines_of_a_log_are_passed_over(damage, tmp_path):
    path = tmp_path / "log"
    UnitLog(path, {"seed": 0}).add({"n": 0}, {"value": 1})
    with path.open("ab") as log:
        log.write(damage)
    UnitLog(path, {"seed": 0}).add({"n": 1}, {"value": 2})
    assert len(UnitLog(path, {"seed": 0}).known) == 2
    path.write_bytes(damage)
    with pytest.raises(ValueError, match=r"damaged log.*--fresh"):
        UnitLog(path, {"seed": 0})


def test_a_damaged_state_inside_a_unit_is_named(tmp_path):
    experiment = paper.find("flow_vmf")
    with pytest.raises(KilledError):
        run_experiment(experiment, out=tmp_path, reporter=KilledAfter(1))
    (tmp_path / "unfinished.jsonl").write_text((tmp_path / "unfinished.jsonl").read_text().splitlines()[0] + "\n")
    (tmp_path / "unfinished.pt").write_bytes(b"PK\x03\x04torn")
    done = run("run", "flow_vmf", "--out", tmp_path)
    assert done.exit_code == 2
    assert "unfinished.pt: is not a state" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "record", ["", "{}", "[" * 100_000, '{"experiment": "rotation"}', '{"experiment": "kappa", "preset": "huge"}']
)
def test_replot_of_a_damaged_record_gets_one_line(record, tmp_path):
    (tmp_path / "result.json").write_text(record)
    done = run("run", "kappa", "--replot", "--out", tmp_path)
    assert done.exit_code == 2
    assert f"Error: {tmp_path}: holds no complete record of 'kappa'" in done.stderr
