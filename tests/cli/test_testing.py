"""`sphereot test` and `sphereot uniformity`: the numbers of the library, in text and JSON, and plain errors."""

import json
import re

import numpy as np
import pytest
from helpers.generators import sphere_sample

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl
from helpers.cli import answer, run, save_points

from sphereot.datasets import read_points
from sphereot.stats import two_sample_test, uniformity_test

RNG = np.random.default_rng(0)
X, Y = sphere_sample(RNG, 60, 3), sphere_sample(RNG, 40, 3, shift=1)
FEW = ("--projections", 20, "--seed", 5)


@pytest.fixture
def files(tmp_path):
    return save_points(tmp_path, {"a": X, "b": Y}, csv=True)


@pytest.mark.parametrize("p", [1, 2])
def test_two_files(files, p):
    found = answer("test", files / "a.npy", files / "b.npy", "--p", p, "--permutations", 99, *FEW, "--frames")
    expected = two_sample_test(X, Y, p=p, permutations=99, n_projections=20, seed=5)
    assert found["p_value"] == expected.p_value == 0.01
    assert found["statistic"] == expected.statistic
    assert found["effect"] == expected.effect
    assert found["circles"][0]["cost"] == expected.circles[0].cost
    assert np.array(found["circles"][0]["frame"]).shape == (3, 2)
    assert [one["points"] for one in found["files"]] == [60, 40]
    assert "map" not in found  # not asked for


def test_uniformity(files):
    found = answer("uniformity", files / "b.npy", "--simulations", 99, *FEW)
    expected = uniformity_test(Y, simulations=99, n_projections=20, seed=5)
    assert (found["statistic"], found["p_value"]) == (expected.statistic, expected.p_value)
    assert list(found["classical"]) == ["Rayleigh", "Bingham", "Giné"]
    assert found["classical"]["Rayleigh"]["p_value"] == 0.01


def test_uniformity_without_simulation(files):
    """The default; options choose what the function does with them."""
    found = answer("uniformity", files / "b.npy")
    expected = uniformity_test(Y)
    assert (found["statistic"], found["p_value"], found["effect"]) == (
        expected.statistic,
        expected.p_value,
        expected.effect,
    )
    assert found["classical"]["Giné"]["p_value"] == expected.classical[2].p_value
    assert (found["method"], found["null_method"], found["simulations"]) == ("exact", "asymptotic", 0)
    assert (found["n_projections"], found["standard_error"]) == (0, 0)
    found = answer("uniformity", files / "b.npy", "--null", "simulated", "--seed", 5)
    assert found["p_value"] == uniformity_test(Y, null="simulated", seed=5).p_value
    found = answer("uniformity", files / "b.npy", "--method", "iid", "--simulations", 9, *FEW)
    assert (found["method"], found["n_projections"]) == ("iid", 20)
    done = run("uniformity", files / "b.npy", "--null", "asymptotic", "--p", 1)
    assert done.exit_code == 2
    assert "null='asymptotic' is known only" in done.stderr


def test_json_of_an_infinite_effect(files):
    """JSON has no infinity: null stands for the effect of a null sample without spread."""
    found = answer("uniformity", files / "b.npy", "--simulations", 1, *FEW)
    assert found["effect"] is None
    np.save(files / "east.npy", np.eye(3)[[0, 0]])
    np.save(files / "north.npy", np.eye(3)[[1, 1]])
    found = answer("test", files / "east.npy", files / "north.npy", "--permutations", 1)
    expected = two_sample_test(np.eye(3)[[0, 0]], np.eye(3)[[1, 1]], permutations=1, seed=0)
    assert np.isinf(expected.effect)
    assert np.isinf(expected.ratio)
    assert (found["effect"], found["ratio"]) == (None, None)


def test_text_names_the_columns_that_differ(files):
    """The samples differ along the first axis: it is among the two that the plane holds most of."""
    done = run("test", files / "a.csv", files / "b.csv", "--columns", "east,north,up", "--permutations", 99)
    assert done.exit_code == 0, done.output
    assert "p-value   0.01" in done.stdout
    assert "60 and 40 points" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "columns with the largest part" in line]
    assert "east" in line.rpartition(": ")[2].split(", ")[:2]
    done = run("uniformity", files / "a.csv", "--columns", "east,north,up", "--simulations", 19)
    assert "Giné" in done.stdout


@pytest.mark.parametrize("command", ["test", "uniformity"])
def test_bad_files_and_numbers_end_plainly(files, command):
    (files / "empty.npy").write_bytes(b"")
    np.save(files / "long.npy", 3 * X)
    others = (files / "a.npy",) if command == "test" else ()
    count = "--permutations" if command == "test" else "--simulations"
    for arguments, message in [
        ((files / "missing.npy", *others), "missing.npy"),
        ((files / "empty.npy", *others), "empty.npy"),
        ((files / "long.npy", *others), "length 3"),
        ((files / "a.npy", *others, count, 0), "must be an integer of at least 1, got 0"),
        ((files / "a.npy", *others, "--p", 0.5), "p: the order must be a number from 1 to 16, got 0.5"),
        ((files / "a.npy", *others, "--seed", -1), "must be at least 0, got -1"),
    ]:
        done = run(command, *arguments)
        assert done.exit_code == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


@pytest.fixture
def stations(tmp_path):
    """Locations of 30 stations per file with ten rows each, all of one distribution."""
    rng = np.random.default_rng(3)
    for name in ("first", "second"):
        places = np.stack([rng.uniform(-180, 180, 30), np.rad2deg(np.arcsin(rng.uniform(-1, 1, 30)))], axis=1)
        names = np.repeat([f"{name}{k}" for k in range(30)], 10)
        table = pl.DataFrame(np.repeat(places, 10, axis=0), schema=["lon", "lat"]).with_columns(
            station=pl.Series(names)
        )
        table.write_csv(tmp_path / f"{name}.csv")
    return tmp_path


def test_groups(stations):
    """The p-value of the library for whole stations, which is not small."""
    arguments = (stations / "first.csv", stations / "second.csv", "--lonlat", "--permutations", 99, *FEW)
    found = answer("test", *arguments, "--groups", "station")
    sets = [read_points(stations / f"{name}.csv", lonlat=True, labels=["station"]) for name in ("first", "second")]
    expected = two_sample_test(
        *(points.points for points in sets),
        groups=tuple(points.labels["station"] for points in sets),
        **{"p": 1, "permutations": 99, "n_projections": 20, "seed": 5},
    )
    assert found["p_value"] == expected.p_value > 0.05
    assert found["n_groups"] == [30, 30]
    assert "99 permutations of 30 and 30 groups" in run("test", *arguments, "--groups", "station").stdout
    assert answer("test", *arguments)["p_value"] == 0.01


def test_many_repeated_locations_are_noted(stations, files):
    """The text and the JSON of a command contain the note of the result, and so does a report."""
    lonlat = ("--lonlat", "--permutations", 99, *FEW)
    pair = (stations / "first.csv", stations / "second.csv")
    report = stations / "report.html"
    for command, name in (("test", "the first sample"), ("drift", "the reference")):
        note = f"300 of the 300 points of {name} have the same location as another point."
        assert note in run(command, *pair, *lonlat).stdout
        assert note in json.loads(run(command, *pair, *lonlat, "--json").stdout)["note"]
        assert note not in run(command, *pair, *lonlat, "--groups", "station").stdout
    run("drift", *pair, *lonlat, "--report", report)
    assert note in report.read_text(encoding="utf-8")
    found = json.loads(run("uniformity", pair[0], "--lonlat", "--json").stdout)
    assert found["p_value"] < 1e-3
    assert "Keep one point of each group" in found["note"]
    assert answer("test", files / "a.npy", files / "b.npy", *FEW)["note"] is None


def test_one_point_is_singular(tmp_path):
    save_points(tmp_path, {"one": np.eye(3)[:1], "other": np.eye(3)[1:2]})
    one, other = tmp_path / "one.npy", tmp_path / "other.npy"
    few = ("--projections", 1, "--permutations", 1)
    sketches = ("sketch", one, "-o", tmp_path / "one.sketch", "--projections", 4, "--bins", 16)
    for arguments in (
        ("test", one, other, *few),
        ("uniformity", one, "--projections", 1, "--simulations", 1),
        ("drift", one, other, "--projections", 1),
        ("distance", one, other),
        sketches,
        ("uniformity", tmp_path / "one.sketch"),
    ):
        done = run(*arguments)
        assert done.exit_code == 0, done.output
        assert not re.search(r"\b1 (points|files|permutations|great circles|simulated samples|rows)\b", done.stdout)
    assert "1 and 1 point in dimension 3" in str(two_sample_test(np.eye(3)[:1], np.eye(3)[1:2]))
    assert "1 point in dimension 3" in str(uniformity_test(np.eye(3)[:1]))
