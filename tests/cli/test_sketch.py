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
    with pytest.raises(ValueError, match="has no columns of text, such as 'day'"):
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
    monkeypatch.setattr("sphereot.datasets.rows._BATCH_VALUES", 4 * 50)  # batches of 50 points
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


def test_a_changed_state_is_refused(files, monkeypatch):
    """Any byte, or the position: a batch less would count rows twice, and a file more would drop rows."""
    folder, _ = files
    arguments = ("sketch", folder / "a.npy", folder / "c.parquet", "-o", folder / "all.sketch", *OPTIONS)
    monkeypatch.setattr(command, "_SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr("sphereot.datasets.rows._BATCH_VALUES", 4 * 50)
    save = command._StateFile.save

    def save_and_die(self, sketches, position):
        save(self, sketches, position)
        if position["file"] == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(command._StateFile, "save", save_and_die)
        assert run(*arguments).exit_code == 130
    state = folder / "all.sketch.unfinished"
    content = state.read_bytes()
    assert content.count(b'"batch": 1') == 1
    changed = [
        content.replace(b'"batch": 1', b'"batch": 0'),
        content.replace(b'"file": 1', b'"file": 2'),
        content.replace(b'"rows": 350', b'"rows": 999'),
        content[:-1],
        content + b"x",
    ]
    rng = np.random.default_rng(0)
    for place in rng.choice(len(content), 100, replace=False):
        flipped = bytearray(content)
        flipped[place] ^= 1 << rng.integers(8)
        changed.append(bytes(flipped))
    for bad in changed:
        assert bad != content
        state.write_bytes(bad)
        done = run(*arguments)
        assert done.exit_code == 2
        assert "cannot be resumed" in done.stderr
        assert "Start again with --fresh" in done.stderr
    state.write_bytes(content)
    assert "600 points of 2 files" in run(*arguments).stdout


def test_keys_of_any_text(tmp_path):
    """Every key has a file of its own that is not hidden, also on file systems that ignore the case of letters."""
    keys = [
        "日" * 28,
        "日" * 90,
        "日" * 89 + "月",
        "anna",
        "Anna",
        "ANNA",
        ".hidden",
        "..",
        "a/b",
        "a:b",
        "x" * 300,
        "-",
    ]
    points = sphere.random_uniform(2 * len(keys), 3, seed=0)
    table = pl.DataFrame(points, schema=["x", "y", "z"]).with_columns(key=pl.Series(2 * keys))
    table.write_parquet(tmp_path / "a.parquet")
    arguments = ("--by", "key", "--columns", "x,y,z", *OPTIONS, "--json")
    done = run("sketch", tmp_path / "a.parquet", "-o", tmp_path / "out", *arguments)
    assert done.exit_code == 0, done.output
    written = {item["key"]: item["path"] for item in json.loads(done.stdout)["sketches"]}
    assert list(written) == sorted(keys)
    for k, key in enumerate(keys):
        assert Sketch.load(written[key]) == Sketch(3, 20, 256).update(points[k :: len(keys)])
    names = [path.name for path in (tmp_path / "out").iterdir()]
    assert len({name.casefold() for name in names}) == len(keys)
    assert not any(name.startswith(".") or ":" in name for name in names)


def test_a_file_given_twice_is_refused(files):
    folder, _ = files
    (folder / "link.npy").symlink_to(folder / "a.npy")
    (folder / "hard.npy").hardlink_to(folder / "a.npy")
    (folder / "folder").mkdir()
    np.save(folder / "folder" / "d.npy", np.eye(4))
    for given in (
        ["a.npy", "a.npy"],
        ["a.npy", "link.npy"],
        ["a.npy", "hard.npy"],
        ["folder", "folder/d.npy"],
        ["a.npy", "folder/../a.npy"],
    ):
        done = run("sketch", *(f"{folder}/{name}" for name in given), "-o", folder / "x.sketch", *OPTIONS)
        assert done.exit_code == 2
        assert "was given twice" in done.stderr
        assert "Give it once" in done.stderr


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
        "--out must be a file": ["sketch", folder / "a.npy", "-o", folder],
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


@pytest.fixture
def grouped(tmp_path):
    """Documents as tables and as sketches with groups: a reference, a window like it, and one that differs."""
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
    return tmp_path


def test_drift_of_sketches_with_groups(grouped):
    files = [grouped / f"{name}.sketch" for name in ("reference", "same", "far")]
    done = run("drift", *files, "--permutations", "199", "--json")
    assert done.exit_code == 3, done.output
    assert [window["drifted"] for window in json.loads(done.stdout)["windows"]] == [False, True]
    assert run("drift", *files[:2], "--permutations", "199").exit_code == 0
    mixed = run("drift", files[0], grouped / "same.parquet")
    assert mixed.exit_code == 2
    assert "is not a sketch" in mixed.stderr
    reported = run("drift", *files, "--report", grouped / "page.html", "--permutations", "199")
    assert reported.exit_code == 3, reported.output
    page = (grouped / "page.html").read_text(encoding="utf-8")
    assert "Drift detected in 1 of 2 windows" in page
    assert "The great circle that differs most" in page


def test_one_record_of_drift(grouped):
    """Data files and sketches give the same fields of the same types; what a sketch does not know is null."""

    def kinds(value):
        if isinstance(value, dict):
            return {key: kinds(item) for key, item in value.items()}
        if isinstance(value, list):
            return [kinds(item) for item in value]
        return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)

    options = ["--permutations", "199", "--json", "--frames", "--seed", "3"]
    names = ("reference", "same", "far")
    data = run("drift", *(grouped / f"{name}.parquet" for name in names), "--columns", "embedding", *options)
    sketches = run("drift", *(grouped / f"{name}.sketch" for name in names), *options)
    of_data, of_sketches = (json.loads(done.stdout) for done in (data, sketches))
    assert [file["dropped"] for file in (of_sketches["reference"], *of_sketches["windows"])] == [None] * 3
    for record in (of_data, of_sketches):
        for file in (record["reference"], *record["windows"]):
            del file["dropped"]
        assert record["seed"] == 3
        for window in record["windows"]:
            window["moved"] = None  # rows that sketches do not have
    assert of_sketches["n_projections"] == 20
    assert kinds(of_data) == kinds(of_sketches)


REFUSED = {
    "drift": {"--method": "nonsense", "--projections": 5, "--id": "x", "--groups": "x", "--max-points": 9}
    | {"--normalize": None, "--columns": "x", "--drop-bad": None, "--lonlat": None, "--key": "x", "--prefix": "x"},
    "uniformity": {"--method": "iid", "--projections": 5, "--simulations": 9, "--seed": 1, "--normalize": None},
    "distance": {"--method": "iid", "--projections": 5, "--bootstrap": 9, "--seed": 1, "--columns": "x"},
    "pairwise": {"--method": "iid", "--projections": 200, "--max-projections": 9, "--weights": "x"},
}


@pytest.mark.parametrize(("command", "option"), [(name, one) for name, options in REFUSED.items() for one in options])
def test_options_that_sketches_cannot_follow(tmp_path, command, option):
    """They are refused, also with the value of the default; they would be ignored otherwise."""
    Sketch(3, 8, 64, groups=4).update(np.eye(3), groups=[1, 2, 3]).save(tmp_path / "a.sketch")
    files = [tmp_path / "a.sketch"] * (1 if command == "uniformity" else 2)
    value = REFUSED[command][option]
    done = run(command, *files, option, *([] if value is None else [value]))
    assert done.exit_code == 2
    assert f"Error: {option} cannot be given for sketches" in done.stderr


def test_options_of_reading_are_for_the_data_among_sketches(files):
    folder, _ = files
    assert run("sketch", folder / "a.npy", "-o", folder / "a.sketch", *OPTIONS).exit_code == 0
    arguments = ("distance", folder / "a.sketch", folder / "c.parquet", "--columns", "embedding")
    assert run(*arguments).exit_code == 0
    assert "--seed cannot be given for sketches" in run(*arguments, "--seed", 1).stderr
