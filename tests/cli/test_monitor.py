"""`sphereot monitor`: windows of sketches and of data files, exit codes, repeated jobs, metrics, report, errors."""

import errno
import json
import os
import re
import shlex
import shutil
from datetime import UTC, datetime

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl
from helpers.cli import run
from helpers.documents import DOCS
from helpers.kernel import needs_kernel

from sphereot import sphere
from sphereot.cli.monitor import monitor
from sphereot.stats import monitor as stats_monitor

pytestmark = needs_kernel


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A reference as a sketch; windows as data and as sketches, of which the last has drifted."""
    folder = tmp_path_factory.mktemp("monitor")
    rng = np.random.default_rng(2)
    for k, (name, count, shift) in enumerate(
        [("reference", 300, 0.0), ("mon", 100, 0.0), ("tue", 100, 0.0), ("wed", 100, 1.5)]
    ):
        sizes = rng.integers(1, 6, count)
        centers = np.repeat(sphere.normalize(rng.normal(size=(count, 4))), sizes, axis=0)
        points = sphere.normalize(centers + 0.2 * rng.normal(size=centers.shape) + shift * np.eye(4)[0])
        labels = 1000 * k + np.repeat(np.arange(count), sizes)
        pl.DataFrame({"embedding": points, "document": labels}).write_parquet(folder / f"{name}.parquet")
        options = ["--columns", "embedding", "--groups", "document", "--group-count", "32", "--projections", "8"]
        done = run("sketch", folder / f"{name}.parquet", "-o", folder / f"{name}.sketch", *options, "--bins", "64")
        assert done.exit_code == 0, done.output
    return folder


COMMON = ["--horizon", "30", "--permutations", "2399"]
READING = ["--columns", "embedding", "--groups", "document"]


@pytest.fixture
def today(monkeypatch):
    """A function that sets the clock of the monitor to noon of a day of March 2026."""

    def set_day(day):
        class Clock(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime(2026, 3, day, 12, tzinfo=UTC)

        monkeypatch.setattr(stats_monitor, "datetime", Clock)

    set_day(1)
    return set_day


def test_day_by_day(files, tmp_path, today):
    """Sketches and data files give the same history; the exit code is of the new windows alone."""
    histories = tmp_path / "sketches.jsonl", tmp_path / "data.jsonl"
    for day, code in (("mon", 0), ("tue", 0), ("wed", 3), ("mon", 0)):
        for history, suffix in zip(histories, (".sketch", ".parquet"), strict=True):
            window = files / f"{day}{suffix}"
            reading = READING if suffix == ".parquet" else []
            done = run("monitor", files / "reference.sketch", window, "--history", history, *COMMON, *reading)
            assert done.exit_code == code, done.output
            assert done.stdout.startswith(f"{day} 2026-03-01: {'DRIFT' if code else 'no drift'}; SSW_2^2 0.")
    records = [[json.loads(line) for line in history.read_text().splitlines()] for history in histories]
    assert [record["label"] for record in records[0][1:]] == [f"{day} 2026-03-01" for day in ("mon", "tue", "wed")]
    assert records[0] == records[1]
    assert len(list(tmp_path.iterdir())) == 2


def test_options_that_sketches_cannot_follow(files, tmp_path):
    arguments = ["--history", tmp_path / "h.jsonl", *COMMON, *READING]
    done = run("monitor", files / "reference.sketch", files / "mon.sketch", *arguments)
    assert done.exit_code == 2
    assert "--columns, --groups cannot be given for sketches" in " ".join(done.stderr.split())


def test_json_metrics_and_report(files, tmp_path, today):
    history, metrics, page = (tmp_path / name for name in ("texts.jsonl", "texts.prom", "texts.html"))
    windows = [files / f"{day}.sketch" for day in ("mon", "wed")]
    outputs = ["--history", history, "--metrics", metrics, "--report", page, *COMMON]
    done = run("monitor", files / "reference.sketch", *windows, *outputs, "--json")
    assert done.exit_code == 3, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["label"], line["drifted"]) for line in lines] == [
        ("mon 2026-03-01", False),
        ("wed 2026-03-01", True),
    ]
    assert 'sphereot_drift_alarms_total{monitor="texts"} 1.0\n' in metrics.read_text()
    assert "Drift detected in 1 of 2 windows" in page.read_text(encoding="utf-8")
    before = page.read_bytes()
    page.unlink()
    again = run("monitor", files / "reference.sketch", *outputs)
    assert again.exit_code == 0, again.output
    assert page.read_bytes() == before
    assert "Drift detected in 1 of 2 windows" in again.stdout


@pytest.mark.parametrize(("p", "value"), [(1, "SSW_1 {} radians"), (2, "SSW_2^2 {} turns^2 (SSW_2 {} radians)")])
def test_units(files, tmp_path, today, p, value):
    outputs = ["--history", tmp_path / "h.jsonl", *COMMON, "--p", p, "--unit", "radians"]
    done = run("monitor", files / "reference.sketch", files / "wed.sketch", *outputs)
    record = json.loads((tmp_path / "h.jsonl").read_text().splitlines()[-1])
    radians = 2 * np.pi * record["value"] ** (1 / p)
    numbers = [f"{radians:.4g}"] if p == 1 else [f"{record['value']:.4g}", f"{radians:.4g}"]
    assert f"wed 2026-03-01: DRIFT; {value.format(*numbers)}, " in done.stdout
    outputs[1] = tmp_path / "g.jsonl"
    line = json.loads(run("monitor", files / "reference.sketch", files / "wed.sketch", *outputs, "--json").stdout)
    assert (line["unit"], line["value"]) == ("radians", record["value"])
    assert line["distance"] == pytest.approx(radians)


def test_report_has_the_unit(files, tmp_path):
    page = tmp_path / "page.html"
    outputs = ["--history", tmp_path / "h.jsonl", *COMMON, "--p", 2, "--unit", "radians", "--report", page]
    done = run("monitor", files / "reference.sketch", files / "wed.sketch", *outputs)
    record = json.loads((tmp_path / "h.jsonl").read_text().splitlines()[-1])
    shown = f"{2 * np.pi * record['value'] ** 0.5:.4g}"
    assert f'data-column="SSW₂, radians">{shown}<' in page.read_text(encoding="utf-8")
    assert done.stdout.count("SSW_2 is not a displacement") == 1


def test_rows_without_groups_are_groups_of_their_own(files, tmp_path):
    """Points one by one: the dependence within documents is then not accounted for, as without --groups in drift."""
    history = tmp_path / "h.jsonl"
    done = run(
        "monitor", files / "reference.sketch", files / "tue.parquet", "--columns", "embedding", "--history", history,
        *COMMON, "--label", "tuesday",
    )  # fmt: skip
    assert done.exit_code in (0, 3), done.output
    assert done.stdout.startswith("tuesday: ")


FAULTS = {
    "no window": ([], [], "WINDOWS must be at least one file, unless"),
    "two windows, one label": (
        ["mon.sketch", "tue.sketch"],
        ["--label", "x"],
        "--label requires exactly one window, got 2",
    ),
    "missing file": (["thu.sketch"], [], "thu.sketch: No such file"),
    "weights": (["mon.parquet"], ["--weights", "document"], "is not supported by tests"),
    "few permutations": (["mon.sketch"], ["--permutations", "99"], "no adjusted p-value can reach alpha"),
    "label and time": (["mon.sketch"], ["--label", "x", "--time", "2026-03-01"], "Leave out --time or --label"),
    "time of a column": (
        ["mon.sketch"],
        ["--time", "created"],
        "--time must be a time such as 2026-03-01 or 2026-03-01T06:00, got 'created'",
    ),
    "windows to verify": (["mon.sketch"], ["--verify"], "--verify only checks the history"),
    "nothing to verify": ([], ["--verify"], "h.jsonl: No such file"),
    "no such column": (["mon.parquet"], ["--columns", "embedding", "--groups", "user"], "there is no column 'user'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_errors(files, tmp_path, fault):
    windows, options, message = FAULTS[fault]
    paths = [files / name for name in windows]
    done = run("monitor", files / "reference.sketch", *paths, "--history", tmp_path / "h.jsonl", *options)
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.stderr.split())
    assert not any(tmp_path.iterdir())


def test_outputs_are_no_inputs(files, tmp_path):
    reference = files / "reference.sketch"
    done = run("monitor", reference, files / "mon.sketch", "--history", reference)
    assert done.exit_code == 2
    assert "is one of the files to read" in " ".join(done.stderr.split())
    done = run("monitor", files / "reference.parquet", files / "mon.sketch", "--history", tmp_path / "h.jsonl")
    assert "reference.parquet: is not a sketch. Create one with" in " ".join(done.stderr.split())


# ---- day after day ----


def commands(text):
    """The commands in a text that make a sketch of the reference and test a window, without their ends."""
    found = re.findall(
        r"sphereot (?:sketch last-month|monitor reference\.sketch).*?(?=\n\s*\n|\n *sphereot|  +#|$)", text, re.S
    )
    return [shlex.split(command.replace("\\\n", " "))[1:] for command in found]


def documented(source):
    """The commands of the help, of a page, or of the line in the README with the sketch that the guide makes."""
    if source == "help":
        return commands(monitor.__doc__)
    if source == "README.md":
        (line,) = re.findall(r"^    (sphereot monitor .*?)  +#", (DOCS.parent / source).read_text(), re.M)
        return [documented("guide/drift.md")[0], shlex.split(line)[1:]]
    page = (DOCS / source).read_text(encoding="utf-8")
    return commands("\n\n".join(re.findall(r"(?:^    .*\n)+", page, re.M)))


@pytest.mark.parametrize("source", ["help", "guide/drift.md", "README.md"])
def test_documented_commands_on_three_days(files, tmp_path, monkeypatch, today, source):
    """The same command every day, with other content in the file of today: three windows, and an alarm at the end."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "last-month").mkdir()
    shutil.copy(files / "reference.parquet", tmp_path / "last-month")
    sketch, daily, *others = documented(source)
    smaller = {"64": "8", "512": "32"}  # great circles and bins: the sizes of the text take minutes
    sketch = [smaller.get(argument, argument) for argument in sketch]
    daily = [argument.replace("/var/lib/node_exporter/", "") for argument in daily]
    assert run(*sketch).exit_code == 0
    for day, (name, code) in enumerate([("mon", 0), ("tue", 0), ("wed", 3)], start=1):
        today(day)
        shutil.copy(files / f"{name}.parquet", tmp_path / "today.parquet")
        reading = ["--columns", "embedding", "--groups", "document", "--projections", "8", "--bins", "32"]
        assert run("sketch", "today.parquet", "-o", "today.sketch", *reading, "--fresh").exit_code == 0
        for _ in range(2):  # a job that is repeated
            done = run(*daily)
            assert done.exit_code == code, done.output
            assert done.stdout.startswith(f"today 2026-03-0{day}: ")
    assert run(*daily).exit_code == 3
    records = [json.loads(line) for line in (tmp_path / "drift.jsonl").read_text().splitlines()]
    assert [record.get("label") for record in records[1:]] == [f"today 2026-03-0{day}" for day in (1, 2, 3)]
    if "--metrics" in daily:
        assert 'sphereot_drift_alarm{monitor="drift"} 1.0\n' in (tmp_path / "drift.prom").read_text()
        assert "Drift detected in 1 of 3 windows" in (tmp_path / "drift.html").read_text(encoding="utf-8")
    for command in others:
        assert run(*command).exit_code == 0, command


def test_times_for_labels(files, tmp_path):
    """Windows of the past; another content under the same time is an error, since the time was given."""
    history = tmp_path / "h.jsonl"

    def check(day, time):
        return run("monitor", files / "reference.sketch", files / day, "--history", history, *COMMON, "--time", time)

    assert check("mon.sketch", "2026-02-28").stdout.startswith("mon 2026-02-28: ")
    assert check("mon.sketch", "2026-02-28T06:00").stdout.startswith("mon 2026-02-28T06:00: ")
    shutil.copy(files / "tue.sketch", tmp_path / "mon.sketch")
    done = check(tmp_path / "mon.sketch", "2026-02-28")
    assert done.exit_code == 2
    assert "contains a window 'mon 2026-02-28' with other points" in done.stderr
    assert len(history.read_text().splitlines()) == 3


def test_several_windows_on_one_day(files, tmp_path, today):
    for name, label in (("mon", "today 2026-03-01"), ("tue", "today 2026-03-01 (2)"), ("mon", "today 2026-03-01")):
        shutil.copy(files / f"{name}.sketch", tmp_path / "today.sketch")
        window, history = tmp_path / "today.sketch", tmp_path / "h.jsonl"
        assert run("monitor", files / "reference.sketch", window, "--history", history, *COMMON).stdout.startswith(
            f"{label}: "
        )


# ---- errors ----


def status(metrics):
    names = "error", "last_success_timestamp_seconds", "last_error_timestamp_seconds", "age_seconds", "windows_total"
    text = metrics.read_text()
    return [float(re.search(rf"^sphereot_drift_{name}\{{.*\}} (.*)$", text, re.M)[1]) for name in names]


def test_metrics_after_an_error(files, tmp_path):
    """A missing file, a damaged history, a damaged reference, the second of two windows: an alert can fire."""
    history, metrics, reference = tmp_path / "h.jsonl", tmp_path / "h.prom", tmp_path / "reference.sketch"
    shutil.copy(files / "reference.sketch", reference)

    def check(*windows):
        paths = [files / window for window in windows]
        return run("monitor", reference, *paths, "--history", history, "--metrics", metrics, *COMMON)

    start = datetime.now(UTC).timestamp()
    assert check("mon.sketch").exit_code == 0
    error, success, failure, age, count = status(metrics)
    assert (error, failure, age, count) == (0, 0, 0, 1)
    assert success >= start
    assert check("thu-*.sketch").exit_code == 2
    assert check("tue.sketch", "thu.sketch").exit_code == 2
    error, last_success, failure, age, count = status(metrics)
    assert (error, count) == (1, 2)
    assert failure >= last_success > success
    assert age == pytest.approx(failure - last_success, abs=1e-3)
    whole = history.read_bytes()
    for path, content in ((history, whole[:-9]), (reference, b"no sketch")):
        before = path.read_bytes()
        path.write_bytes(content)
        assert check("mon.sketch").exit_code == 2
        assert status(metrics)[0] == 1
        assert status(metrics)[1] == last_success
        path.write_bytes(before)
    assert check("mon.sketch").exit_code == 0
    assert status(metrics)[0] == status(metrics)[3] == 0
    assert status(metrics)[2] > 0


def test_an_error_overwrites_no_input(files, tmp_path):
    """Metrics that are one of the files to read are refused before any error is noted there."""
    shutil.copy(files / "mon.sketch", tmp_path / "mon.sketch")
    options = ["--history", tmp_path / "h.jsonl", "--metrics", tmp_path / "mon.sketch"]
    done = run("monitor", files / "reference.sketch", tmp_path / "mon.sketch", *options)
    assert "is one of the files to read" in " ".join(done.stderr.split())
    assert (tmp_path / "mon.sketch").read_bytes() == (files / "mon.sketch").read_bytes()


def test_verify(files, tmp_path):
    history = tmp_path / "h.jsonl"
    command = ["monitor", files / "reference.sketch", "--history", history, *COMMON]
    assert run(*command[:2], files / "mon.sketch", files / "tue.sketch", *command[2:]).exit_code == 0
    done = run(*command, "--verify")
    assert (done.exit_code, done.stdout) == (0, f"{history}: 2 windows: all checksums and fields are right.\n")
    history.write_text("".join(history.read_text().splitlines(keepends=True)[:-1]))
    done = run(*command, "--verify")
    assert done.exit_code == 2
    assert "h.jsonl: windows are missing at the end" in " ".join(done.stderr.split())


@pytest.mark.filterwarnings("default:.*cannot lock this file")
def test_locks(files, tmp_path, monkeypatch):
    """Another process that does not end is an error after --wait; a file system without locks gives a warning."""
    import filelock

    history = tmp_path / "h.jsonl"
    command = ["monitor", files / "reference.sketch", files / "mon.sketch", "--history", history, *COMMON]
    assert run(*command).exit_code == 0
    handle = os.open(history, os.O_RDWR)
    assert filelock.lock_descriptor(handle, blocking=False)
    done = run(*command, "--wait", 0)
    os.close(handle)
    assert done.exit_code == 2
    assert "another process held the lock of this history" in " ".join(done.stderr.split())

    def none(handle, *, blocking):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock, "lock_descriptor", none)
    done = run(*command)
    assert done.exit_code == 0
    assert "Warning: " in done.stderr
    assert "Run one process at a time that writes to it." in " ".join(done.stderr.split())
