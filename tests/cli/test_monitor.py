"""`sphereot monitor`: windows of sketches and of data files, exit codes, repeated jobs, metrics, report."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl
from helpers.cli import run
from helpers.kernel import needs_kernel

from sphereot import sphere

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


def test_day_by_day(files, tmp_path):
    """Sketches and data files give the same history; the exit code is of the new windows alone."""
    histories = tmp_path / "sketches.jsonl", tmp_path / "data.jsonl"
    for day, code in (("mon", 0), ("tue", 0), ("wed", 1), ("mon", 0)):
        for history, suffix in zip(histories, (".sketch", ".parquet"), strict=True):
            window = files / f"{day}{suffix}"
            done = run("monitor", files / "reference.sketch", window, "--history", history, *COMMON, *READING)
            assert done.exit_code == code, done.output
            assert done.stdout.startswith(f"{day}: {'DRIFT' if code else 'no drift'}; SSW_1 0.")
    records = [[json.loads(line) for line in history.read_text().splitlines()] for history in histories]
    assert [record["label"] for record in records[0][1:]] == ["mon", "tue", "wed"]
    for first, second in zip(*records, strict=True):
        first.pop("time", None), second.pop("time", None)
        assert first == second
    assert len(list(tmp_path.iterdir())) == 2


def test_json_metrics_and_report(files, tmp_path):
    history, metrics, page = (tmp_path / name for name in ("texts.jsonl", "texts.prom", "texts.html"))
    windows = [files / f"{day}.sketch" for day in ("mon", "wed")]
    outputs = ["--history", history, "--metrics", metrics, "--report", page, *COMMON]
    done = run("monitor", files / "reference.sketch", *windows, *outputs, "--json")
    assert done.exit_code == 1, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["label"], line["drifted"]) for line in lines] == [("mon", False), ("wed", True)]
    assert 'sphereot_drift_alarms_total{monitor="texts"} 1\n' in metrics.read_text()
    assert "Drift in 1 of 2 windows" in page.read_text(encoding="utf-8")
    before = page.read_bytes()
    page.unlink()
    again = run("monitor", files / "reference.sketch", *outputs)
    assert again.exit_code == 0, again.output
    assert page.read_bytes() == before
    assert "Drift in 1 of 2 windows" in again.stdout


@pytest.mark.parametrize(("p", "value"), [(1, "SSW_1 {} radians"), (2, "SSW_2^2 {} turns^2 (SSW_2 {} radians)")])
def test_units(files, tmp_path, p, value):
    outputs = ["--history", tmp_path / "h.jsonl", *COMMON, "--p", p, "--unit", "radians"]
    done = run("monitor", files / "reference.sketch", files / "wed.sketch", *outputs)
    record = json.loads((tmp_path / "h.jsonl").read_text().splitlines()[-1])
    radians = 2 * np.pi * record["value"] ** (1 / p)
    numbers = [f"{radians:.4g}"] if p == 1 else [f"{record['value']:.4g}", f"{radians:.4g}"]
    assert f"wed: DRIFT; {value.format(*numbers)}, " in done.stdout
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
    assert done.stdout.count("SSW_2 compares distributions: it is no displacement") == 1


def test_rows_without_groups_are_groups_of_their_own(files, tmp_path):
    """Points one by one: the dependence within documents is then not accounted for, as without --groups in drift."""
    history = tmp_path / "h.jsonl"
    done = run(
        "monitor", files / "reference.sketch", files / "tue.parquet", "--columns", "embedding", "--history", history,
        *COMMON, "--label", "tuesday",
    )  # fmt: skip
    assert done.exit_code in (0, 1), done.output
    assert done.stdout.startswith("tuesday: ")


FAULTS = {
    "no window": ([], [], "none was given, and neither --report nor --metrics"),
    "two windows, one label": (["mon.sketch", "tue.sketch"], ["--label", "x"], "names one window, but 2 were given"),
    "missing file": (["thu.sketch"], [], "thu.sketch: No such file"),
    "weights": (["mon.parquet"], ["--weights", "document"], "takes none"),
    "few permutations": (["mon.sketch"], ["--permutations", "99"], "no p-value can reach the level"),
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
    assert "reference.parquet: is no sketch; make one with" in " ".join(done.stderr.split())
