"""`sphereot sketch`, and commands that take sketches in place of data."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl
from helpers.cli import run

from sphereot import Sketch, sphere, ssw
from sphereot.cli import sketch as command
from sphereot.datasets import iter_points

OPTIONS = ["--projections", "20", "--bins", "256"]


@pytest.fixture
def files(tmp_path):
    """Three files of points in dimension 4, of different types; and all points in one array."""
    points = sphere.random_uniform(900, 4, seed=0)
    first, second, third = np.array_split(points, 3)
    np.save(tmp_path / "a.npy", first)
    names = ["x_0", "x_1", "x_2", "x_3"]
    days = np.array(["mon", "tue"])[np.arange(300) % 2]
    pl.DataFrame(second, schema=names).with_columns(day=pl.Series(days)).write_csv(tmp_path / "b.csv")
    pl.DataFrame({"embedding": third, "day": days}).write_parquet(tmp_path / "c.parquet")
    return tmp_path, points


def test_one_sketch_of_many_files(files):
    folder, points = files
    out = folder / "all.sketch"
    paths = [folder / "a.npy", folder / "c.parquet"]
    done = run("sketch", *paths, "-o", out, *OPTIONS)
    assert done.exit_code == 0, done.output
    assert "600 points of 2 files" in done.stdout
    expected = Sketch(4, 20, 256).update(np.concatenate([points[:300], points[600:]]))
    assert Sketch.load(out) == expected
    assert not list(folder.glob("*.unfinished"))


def test_one_sketch_per_value_of_a_column(files):
    folder, points = files
    done = run("sketch", folder / "b.csv", "-o", folder / "days", "--by", "day", "--prefix", "x_", *OPTIONS, "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert [item["day"] for item in record["sketches"]] == ["mon", "tue"]
    for k, day in enumerate(["mon", "tue"]):
        # A CSV file holds the shortest text that gives the same number.
        assert Sketch.load(folder / "days" / f"{day}.sketch") == Sketch(4, 20, 256).update(points[300:600][k::2])


def test_partitioned_table_by_its_key(files):
    """The key is in the names of folders alone; what another program left in the table is no data."""
    folder, points = files
    for k, day in enumerate(["mon", "tue"]):
        part = folder / "table" / f"day={day}" / "part-0.parquet"
        part.parent.mkdir(parents=True)
        pl.DataFrame({"embedding": points[k::2]}).write_parquet(part)
    (folder / "table" / "_SUCCESS").touch()
    done = run("sketch", folder / "table", "-o", folder / "days", "--by", "day", *OPTIONS)
    assert done.exit_code == 0, done.output
    for k, day in enumerate(["mon", "tue"]):
        assert Sketch.load(folder / "days" / f"{day}.sketch") == Sketch(4, 20, 256).update(points[k::2])


def test_pattern_of_sketches_is_their_sum(files):
    folder, points = files
    for k, part in enumerate(np.array_split(points, 3)):
        Sketch(4, 20, 256).update(part).save(folder / f"part{k}.sketch")
    Sketch(4, 20, 256).update(points).save(folder / "whole.sketch")
    Sketch(4, 20, 256).update(points[:100]).save(folder / "some.sketch")
    values = [
        json.loads(run("distance", folder / name, folder / "some.sketch", "--json").stdout)["values"]
        for name in ("part*.sketch", "whole.sketch")
    ]
    assert values[0] == values[1]
    done = run("uniformity", folder / "part*.sketch", "--unit", "radians", "--json")
    found = json.loads(done.stdout)
    assert (found["points"], found["unit"]) == (900, "radians")
    assert found["distance"] == pytest.approx(2 * np.pi * found["distance_turns"])
    assert f"{found['distance']:.6g} ± " in run("uniformity", folder / "part*.sketch", "--unit", "radians").stdout


def test_labels_are_read_beside_points(files):
    folder, _ = files
    for name in ("b.csv", "c.parquet"):
        batches = list(iter_points(folder / name, labels=["day"], batch_rows=70))
        assert np.concatenate([batch.labels["day"] for batch in batches]).tolist() == ["mon", "tue"] * 150
        assert sum(map(len, batches)) == 300
    with pytest.raises(ValueError, match="has no columns of text, but 'day'"):
        iter_points(folder / "a.npy", labels=["day"])
    with pytest.raises(ValueError, match="there is no column 'week'"):
        iter_points(folder / "b.csv", labels=["week"])


class KilledError(Exception):
    pass


@pytest.mark.parametrize("batches_before", [1, 3])
def test_killed_and_resumed(files, monkeypatch, batches_before):
    folder, _ = files
    out, arguments = folder / "all.sketch", ["--by", "day", "--columns", "embedding", *OPTIONS]
    monkeypatch.setattr(command, "_SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr("sphereot.datasets.point_file._BATCH_VALUES", 4 * 50)  # batches of 50 points
    expected_out = folder / "expected"
    assert run("sketch", folder / "c.parquet", "-o", expected_out, *arguments).exit_code == 0
    save, calls = command._StateFile.save, []

    def save_and_die(self, *state):
        save(self, *state)
        calls.append(state)
        if len(calls) == batches_before:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(command._StateFile, "save", save_and_die)
        assert run("sketch", folder / "c.parquet", "-o", out, *arguments).exit_code == 130
    state = folder / "all.sketch.unfinished"
    assert state.exists()
    assert not out.exists()
    other = run("sketch", folder / "c.parquet", "-o", out, "--by", "day", "--columns", "embedding")
    assert other.exit_code == 2
    assert "other files or options" in other.stderr
    assert run("sketch", folder / "c.parquet", "-o", out, *arguments).exit_code == 0
    assert not state.exists()
    for day in ("mon", "tue"):
        assert (out / f"{day}.sketch").read_bytes() == (expected_out / f"{day}.sketch").read_bytes()


def test_distances_of_sketches_and_data_mixed(files):
    folder, points = files
    assert run("sketch", folder / "a.npy", "-o", folder / "a.sketch", *OPTIONS).exit_code == 0
    done = run("distance", folder / "a.sketch", folder / "c.parquet", "--p", "1", "--json", "--columns", "embedding")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    frames = Sketch.load(folder / "a.sketch").projections
    exact = ssw(points[:300], points[600:], p=1, projections=frames)
    assert abs(record["values"][0][1] - exact) <= record["error_bounds"][0][1]
    shown = run("pairwise", folder / "a.sketch", folder / "a.sketch", "--p", "1")
    assert "SSW_1 = 0" in shown.stdout
    uniform = run("uniformity", folder / "a.sketch")
    assert "SSW_2 to uniform" in uniform.stdout


def test_messages(files):
    folder, _ = files
    assert run("sketch", folder / "a.npy", "-o", folder / "a.sketch", *OPTIONS).exit_code == 0
    cases = {
        "dimension 2": ["distance", folder / "a.sketch", folder / "two.npy"],
        "--projections": ["distance", folder / "a.sketch", folder / "a.npy", "--rtol", "0.1"],
        "has no columns of text": ["sketch", folder / "a.npy", "-o", folder / "x", "--by", "day"],
        "holds no files of points": ["sketch", folder / "empty", "-o", folder / "x"],
        "name a file": ["sketch", folder / "a.npy", "-o", folder],
    }
    np.save(folder / "two.npy", sphere.random_uniform(5, 2, seed=0))
    (folder / "empty").mkdir()
    for message, arguments in cases.items():
        done = run(*arguments)
        assert done.exit_code == 2
        assert message in " ".join(done.stderr.split())
    (folder / "bad.sketch").write_bytes(b"nonsense")
    done = run("distance", folder / "bad.sketch", folder / "a.npy")
    assert done.exit_code == 2
    assert "bad.sketch" in done.stderr


def test_drift_of_sketches_with_groups(tmp_path):
    rng = np.random.default_rng(0)
    for name, shift in (("reference", 0.0), ("same", 0.0), ("far", 1.5)):
        sizes = rng.integers(2, 6, 80)
        centers = np.repeat(rng.normal(size=(80, 4)), sizes, axis=0) + shift * np.eye(4)[0]
        points = sphere.normalize(centers + 0.2 * rng.normal(size=centers.shape))
        labels = [f"{name}-{k}" for k in np.repeat(np.arange(80), sizes)]
        pl.DataFrame({"embedding": points, "document": labels}).write_parquet(tmp_path / f"{name}.parquet")
        arguments = ["--columns", "embedding", "--groups", "document", "--group-count", "16", *OPTIONS]
        done = run("sketch", tmp_path / f"{name}.parquet", "-o", tmp_path / f"{name}.sketch", *arguments)
        assert done.exit_code == 0, done.output
    files = [tmp_path / f"{name}.sketch" for name in ("reference", "same", "far")]
    done = run("drift", *files, "--permutations", "199", "--json")
    assert done.exit_code == 1, done.output
    assert [window["drifted"] for window in json.loads(done.stdout)["windows"]] == [False, True]
    assert run("drift", *files[:2], "--permutations", "199").exit_code == 0
    mixed = run("drift", files[0], tmp_path / "same.parquet")
    assert mixed.exit_code == 2
    assert "is no sketch" in mixed.stderr
    reported = run("drift", *files, "--report", tmp_path / "page.html", "--permutations", "199")
    assert reported.exit_code == 1, reported.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Drift in 1 of 2 windows" in page
    assert "The great circle that differs most" in page
