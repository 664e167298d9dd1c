"""`--time` and `--every`: windows of time from a column; patterns and addresses in place of files."""

import json
from datetime import datetime, timedelta

import numpy as np
import pytest
from helpers.generators import sphere_sample

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl
from helpers.cli import run

from sphereot import Sketch
from sphereot.datasets import time_windows
from sphereot.stats import drift_test

READ = ("--columns", "x,y,z")
FEW = ("--projections", 20, "--permutations", 199, "--seed", 5)
RNG = np.random.default_rng(0)
POINTS = np.concatenate([sphere_sample(RNG, 120, 3, shift=1), sphere_sample(RNG, 60, 3)])
TIMES = [datetime(2026, 3, 2) + timedelta(hours=2.8 * k) for k in range(180)]  # three weeks from a Monday


@pytest.fixture
def log(tmp_path):
    table = pl.DataFrame(POINTS, schema=["x", "y", "z"]).with_columns(
        created=pl.Series(TIMES), name=pl.Series([f"n{k}" for k in range(180)])
    )
    table.write_parquet(tmp_path / "log.parquet")
    table.write_csv(tmp_path / "log.csv")
    table[:60].write_parquet(tmp_path / "first.parquet")
    table[60:100].write_parquet(tmp_path / "part1.parquet")
    table[100:].write_parquet(tmp_path / "part2.parquet")
    return tmp_path


@pytest.mark.parametrize("file", ["log.parquet", "log.csv"])
def test_first_week_is_the_reference(log, file):
    done = run("drift", log / file, *READ, "--time", "created", "--every", "week", "--json", *FEW)
    found = json.loads(done.stdout)
    weeks = time_windows(TIMES, "week")
    assert list(weeks) == ["2026-W10", "2026-W11", "2026-W12"]
    first, *windows = (POINTS[rows] for rows in weeks.values())
    expected = drift_test(first, windows, labels=list(weeks)[1:], p=1, permutations=199, n_projections=20, seed=5)
    assert done.exit_code == 3
    assert [window["label"] for window in found["windows"]] == ["2026-W11", "2026-W12"]
    assert [window["value"] for window in found["windows"]] == [window.value for window in expected.windows]
    assert found["reference"]["points"] == 60
    new = found["windows"][1]["moved"]["new"]
    assert {int(row["id"].removeprefix("row ")) for row in new} <= set(range(120, 180))  # rows of the file


def test_windows_may_come_from_several_files(log):
    """A week that lies in two files is one window."""
    one = run("drift", log / "log.parquet", *READ, "--time", "created", "--every", "week", "--json", *FEW)
    arguments = ("--time", "created", "--every", "week", "--id", "name", "--json", *FEW)
    parts = run("drift", log / "first.parquet", log / "part*.parquet", *READ, *arguments)  # as inside quotes
    values = [[window["value"] for window in json.loads(done.stdout)["windows"]] for done in (one, parts)]
    assert values[0] == values[1]
    assert json.loads(parts.stdout)["windows"][1]["moved"]["new"][0]["id"].startswith("n1")


def test_sketch_per_week(log):
    done = run("sketch", log / "log.csv", *READ, "--time", "created", "--every", "week", "-o", log / "weeks")
    assert done.exit_code == 0, done.output
    assert {path.name: Sketch.load(path).n for path in (log / "weeks").iterdir()} == {
        "2026-W10.sketch": 60,
        "2026-W11.sketch": 60,
        "2026-W12.sketch": 60,
    }


def test_sketches_at_an_address(log):
    pytest.importorskip("fsspec")
    run("sketch", log / "log.csv", *READ, "--time", "created", "--every", "week", "-o", log / "weeks")
    address = f"file://{log}/weeks/2026-W10.sketch"
    done = run("distance", address, log / "weeks" / "2026-W11.sketch", "--p", 1)
    local = run("distance", log / "weeks" / "2026-W10.sketch", log / "weeks" / "2026-W11.sketch", "--p", 1)
    assert done.stdout.splitlines()[2:] == local.stdout.splitlines()[2:]
    done = run("sketch", f"file://{log}/log.csv", *READ, "-o", log / "all.sketch")
    assert done.exit_code == 0, done.output
    assert Sketch.load(log / "all.sketch").n == 180


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--time", "created"), "--time requires --every, the length of a window: hour"),
        (("--every", "week"), "--every requires --time, the column of the times"),
        (("--time", "created", "--every", "year"), "all points are in one year. Choose a shorter time"),
        (("--time", "created", "--every", "decade"), "every must be one of hour, day, week, month"),
        (
            ("--time", "name", "--every", "week"),
            "log.csv, column 'name': times must be of the years 1 to 9999, got 'n0' in row 0",
        ),
    ],
)
def test_messages(log, arguments, message):
    done = run("drift", log / "log.csv", *READ, *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_no_column_of_this_name(log):
    done = run("drift", log / "log.csv", *READ, "--time", "create", "--every", "week")
    assert "log.csv: there is no column 'create' (of --time, --by, --groups or --id)" in " ".join(done.stderr.split())


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("column", "days"),
    [
        ([1772404200.5, 1772490600.25], ["2026-03-01", "2026-03-02"]),
        ([1772404200123456789, 1772490600000000000], ["2026-03-01", "2026-03-02"]),
        ([-86400, -1], ["1969-12-31"]),
        ([20260301.0, 20260302.0], ["2026-03-01", "2026-03-02"]),
    ],
    ids=["floats", "nanoseconds", "before 1970", "dates as floats"],
)
def test_columns_of_numbers(tmp_path, ending, column, days):
    table = pl.DataFrame(POINTS[:2], schema=["x", "y", "z"]).with_columns(time=pl.Series(column))
    getattr(table, f"write_{ending}")(tmp_path / f"log.{ending}")
    options = ("--time", "time", "--every", "day", "--projections", 4, "--bins", 16)
    done = run("sketch", tmp_path / f"log.{ending}", *READ, *options, "-o", tmp_path / "days")
    assert done.exit_code == 0, done.output
    assert sorted(path.stem for path in (tmp_path / "days").iterdir()) == days


def test_a_date_with_an_hour_is_not_read_as_seconds(tmp_path):
    table = pl.DataFrame(POINTS[:2], schema=["x", "y", "z"]).with_columns(time=pl.Series([2026030112, 2026030113]))
    table.write_csv(tmp_path / "log.csv")
    done = run("drift", tmp_path / "log.csv", *READ, "--time", "time", "--every", "hour")
    assert done.exit_code == 2
    assert "a number of seconds since 1970, got '2026030112' in row 0" in " ".join(done.stderr.split())
