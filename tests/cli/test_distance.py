"""`sphereot distance` and `sphereot pairwise`: the numbers of the library, and one line for every bad file."""

import json
import os
import re
import sys

import numpy as np
import pytest
from helpers.absent_modules import without
from helpers.generators import sphere_sample
from helpers.processes import run_python, start
from numpy.testing import assert_allclose

pytest.importorskip("typer")
pl = pytest.importorskip("polars")

from helpers.cli import answer, run, save_points

import sphereot
from sphereot import datasets

RNG = np.random.default_rng(0)
X, Y, Z = (sphere_sample(RNG, n, 3) for n in (60, 40, 50))


@pytest.fixture
def files(tmp_path):
    return save_points(tmp_path, {"a": X, "b": Y, "c": Z})


@pytest.mark.parametrize("p", [1, 2, 3])
def test_distance_is_that_of_the_library(files, p):
    found = answer(
        "distance", files / "a.npy", files / "b.npy", "--p", p, "--projections", 37, "--seed", 5, "--method", "iid"
    )
    expected = sphereot.ssw_estimate(X, Y, p=p, n_projections=37, seed=5, method="iid")
    assert_allclose(found["value"], expected.value, rtol=1e-12)
    assert_allclose(found["standard_error"], expected.standard_error, rtol=1e-12)
    assert_allclose(
        found["distance_degrees"], 360 * float(sphereot.ssw(X, Y, p=p, n_projections=37, seed=5, root=True))
    )
    assert [one["points"] for one in found["files"]] == [60, 40]


def test_error_of_the_root_is_that_of_a_small_step(files):
    found = answer("distance", files / "a.npy", files / "b.npy")
    step = 1e-4 * found["standard_error"]
    slope = (np.sqrt(found["value"] + step) - np.sqrt(found["value"] - step)) / (2 * step)
    assert_allclose(found["distance_turns_standard_error"], slope * found["standard_error"], rtol=1e-6)


def test_text_says_value_error_and_degrees(files):
    done = run("distance", files / "a.npy", files / "b.npy")
    expected = sphereot.ssw_estimate(X, Y, seed=0)
    assert f"SSW_2^2 = {expected.value:.6g} ± {expected.standard_error:.2g}" in done.stdout
    assert f"{360 * expected.value**0.5:.6g} ±" in done.stdout
    assert "degrees" in done.stdout
    np.save(files / "d.npy", sphere_sample(RNG, 9, 4))
    assert "degrees" not in run("distance", files / "d.npy", files / "d.npy").stdout


def test_rtol(files):
    found = answer("distance", files / "a.npy", files / "b.npy", "--rtol", 0.03)
    assert found["standard_error"] <= 0.03 * found["value"]
    short = run("distance", files / "a.npy", files / "b.npy", "--rtol", 1e-6, "--max-projections", 300)
    assert short.exit_code == 0
    assert "Note: 300 great circles reach a relative standard error" in short.stderr


def test_pairwise_is_that_of_the_library(files):
    options = ("--projections", 130, "--seed", 2, "--method", "iid")
    found = answer("pairwise", *(files / f"{name}.npy" for name in "abc"), *options)
    expected = sphereot.pairwise_ssw([X, Y, Z], n_projections=130, seed=2)
    assert_allclose(found["values"], expected, rtol=1e-12)
    # 49 degrees of freedom: a standard deviation of one in ten; five of them.
    for i, j, x, y in ((0, 1, X, Y), (0, 2, X, Z), (1, 2, Y, Z)):
        error = sphereot.ssw_estimate(x, y, n_projections=130, seed=2, method="iid").standard_error
        assert_allclose(found["standard_errors"][i][j], error, rtol=0.5)
    few = answer(
        "pairwise", files / "a.npy", files / "b.npy", "--projections", 30, "--method", "iid"
    )  # one slice to a group: no difference
    exact = sphereot.ssw_estimate(X, Y, n_projections=30, seed=0, method="iid")
    assert_allclose(few["standard_errors"][0][1], exact.standard_error, rtol=1e-9)


def test_pairwise_rtol_and_text(files):
    found = answer("pairwise", files / "a.npy", files / "b.npy", files / "c.npy", "--rtol", 0.05)
    assert (np.array(found["standard_errors"]) <= 0.05 * np.array(found["values"])).all()
    done = run("pairwise", files / "a.npy", files / "b.npy", "--projections", 1, "--method", "iid")
    assert f"[0] [1]  {sphereot.ssw(X, Y, n_projections=1, seed=0):.6g} " in done.stdout
    assert "±" not in done.stdout


def test_options_of_reading_reach_the_files(tmp_path):
    iid = ("--method", "iid")
    lonlat = np.array([[10.0, 20.0], [30.0, 40.0], [-50.0, 60.0]])
    pl.DataFrame({"n": [1, 0, 2], "LON": lonlat[:, 0], " lat": lonlat[:, 1]}).write_csv(tmp_path / "a.csv")
    features = [
        {"type": "Feature", "properties": {"n": n}, "geometry": {"type": "Point", "coordinates": list(place)}}
        for n, place in zip([3, 1, 1], lonlat, strict=True)
    ]
    (tmp_path / "b.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    found = answer("distance", tmp_path / "a.csv", tmp_path / "b.geojson", "--lonlat", "--weights", "n", *iid)
    points = sphereot.sphere.from_lonlat(lonlat)
    expected = sphereot.ssw(points, points, p=1, x_weights=[1, 0, 2], y_weights=[3, 1, 1], seed=0)
    assert_allclose(found["value"], expected, rtol=1e-9)
    pl.DataFrame({"id": [7] * 60, "e": (2 * X).tolist()}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame(5 * Y, schema=["x_0", "x_1", "x_2"]).write_parquet(tmp_path / "b.parquet")
    normalized = answer("distance", tmp_path / "a.parquet", tmp_path / "b.parquet", "--normalize", *iid)
    assert_allclose(normalized["value"], sphereot.ssw(X, Y, seed=0), rtol=1e-9)
    assert "--normalize" in run("distance", tmp_path / "a.parquet", tmp_path / "b.parquet").stderr


def test_columns_in_another_order_are_the_same_points(tmp_path):
    pl.DataFrame(X, schema=["x", "y", "z"]).write_csv(tmp_path / "a.csv")
    pl.DataFrame(X[:, [2, 0, 1]], schema=["z", "x", "y"]).write_parquet(tmp_path / "b.parquet")
    assert answer("distance", tmp_path / "a.csv", tmp_path / "b.parquet")["value"] == 0


def bad_files(folder):
    good = X.copy()
    good[17, 1] = np.nan
    np.save(folder / "nan.npy", good)
    np.save(folder / "objects.npy", np.array([[1, "a"]], dtype=object))
    np.save(folder / "integers.npy", np.eye(3, dtype=np.int32))
    np.save(folder / "four.npy", sphere_sample(RNG, 5, 4))
    np.save(folder / "none.npy", np.empty((0, 3)))
    np.save(folder / "one.npy", np.ones((5, 1)))
    np.save(folder / "long.npy", 2 * X)
    (folder / "empty.parquet").write_bytes(b"")
    pl.DataFrame(X, schema=["x", "y", "z"]).write_parquet(folder / "cut.parquet")
    (folder / "cut.parquet").write_bytes((folder / "cut.parquet").read_bytes()[:-9])
    (folder / "cut.npy").write_bytes((folder / "a.npy").read_bytes()[:-9])
    (folder / "text.csv").write_text("x,y,z\n1,0,0\n0,one,0\n")
    (folder / "folder.npy").mkdir()


BAD = {
    "missing.npy": "missing.npy: No such file or directory.",
    "folder.npy": "folder.npy: holds no files of points (.npy, .npz",
    "empty.parquet": "empty.parquet: is empty.",
    "cut.parquet": "cut.parquet: cannot be read; it may be truncated",
    "cut.npy": "cut.npy: is not a .npy array, or is truncated",
    "objects.npy": "objects.npy: holds Python objects, which are never unpickled",
    "integers.npy": "integers.npy: the dtype must be floating, got int32",
    "nan.npy": "nan.npy, row 17: holds NaN or infinity. Fix the row, or drop such rows",
    "four.npy": "four.npy in dimension 4. Both must be on the same sphere.",
    "none.npy": "none.npy: there are no rows in it.",
    "one.npy": "one.npy: points must have at least 2 coordinates, got 1",
    "long.npy": "long.npy, row 0: has length 2",
    "text.csv": "text.csv, line 3: 'y' is 'one', not a finite number",
}


@pytest.mark.parametrize("command", ["distance", "pairwise"])
@pytest.mark.parametrize("name", BAD)
def test_bad_files_get_one_line_and_exit_code_2(files, name, command):
    bad_files(files)
    done = run(command, files / "a.npy", files / name)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("Error: ")
    assert BAD[name] in done.stderr
    traced = run(command, files / "a.npy", files / name, "--debug")
    assert traced.exit_code == 2
    assert "Traceback (most recent call last)" in traced.stderr


def test_no_permission(files, monkeypatch):
    """As the system says it; root may read everything, so that a refusal is played."""
    path = files / "b.npy"
    if os.geteuid() == 0:
        opened = type(path).open

        def refusing(self, *args, **kwargs):
            if self == path:
                raise PermissionError(13, "Permission denied", str(path))
            return opened(self, *args, **kwargs)

        monkeypatch.setattr(type(path), "open", refusing)
    else:
        path.chmod(0)
    done = run("distance", files / "a.npy", path)
    assert done.exit_code == 2
    assert done.stderr == f"Error: {path}: Permission denied.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--p", "0.5"], "p: the order must be a number from 1 to 16, got 0.5"),
        (["--projections", "0"], "n_projections: the number of great circles must be an integer of at least 1, got 0"),
        (["--rtol", "-1"], "rtol: the relative tolerance must be a positive number, got -1.0"),
        (["--seed", "-1"], "seed: "),
        (["--max-projections", "0", "--rtol", "1"], "must be an integer of at least 1, got 0"),
        (["--columns", "x,y"], "columns: there is no column 'x'"),
    ],
)
@pytest.mark.parametrize("command", ["distance", "pairwise"])
def test_bad_options(files, arguments, message, command):
    done = run(command, files / "a.npy", files / "b.npy", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_one_file_makes_no_pair(files):
    done = run("pairwise", files / "a.npy")
    assert done.exit_code == 2
    assert "FILES must be at least two files, got 1" in done.stderr


def test_dropped_rows_are_told(files):
    bad_files(files)
    done = run("distance", files / "a.npy", files / "nan.npy", "--drop-bad")
    assert done.exit_code == 0
    assert "59 points in dimension 3, 1 row dropped" in done.stdout


def test_missing_package_names_its_extra(files):
    """Files that polars reads name the extra; arrays need no more than the core and the command line."""
    (files / "a.csv").write_text("x,y\n1,0\n")
    code = without("polars") + "from sphereot.cli import main; main()"
    calls = {
        name: start(sys.executable, "-c", code, "distance", files / name, files / name) for name in ("a.csv", "a.npy")
    }
    assert calls["a.csv"].returncode == 2
    assert "pip install 'sphereot[data]'" in calls["a.csv"].stderr
    assert "Traceback" not in calls["a.csv"].stderr
    assert calls["a.npy"].returncode == 0


def test_commands_load_what_they_need_only_when_they_run():
    start_up = "import sys; from sphereot.cli import build_app; build_app()"
    code = start_up + "; print({'polars', 'torch', 'scipy', 'sphereot.datasets'} & set(sys.modules))"
    assert run_python(code) == "set()"


@pytest.mark.parametrize("command", ["distance", "pairwise"])
def test_help_teaches_by_example(command):
    done = run(command, "--help")
    assert f"sphereot {command}" in done.stdout
    assert "--rtol" in done.stdout


def test_a_million_rows_in_little_memory(tmp_path):
    """Two Parquet files of 1,000,000 x 3 are compared in under 1 GB, and lose nothing on the way."""
    rng = np.random.default_rng(0)
    for name in "ab":
        x = sphere_sample(rng, 1_000_000, 3)
        pl.DataFrame(x, schema=["x", "y", "z"]).write_parquet(tmp_path / f"{name}.parquet")
    code = (
        "import sys; from sphereot.cli import main\n"
        "try: main()\nfinally:\n"
        # ru_maxrss would count the process that started this one.
        "    peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "    print(peak.split()[1], file=sys.stderr)"
    )
    paths = [tmp_path / f"{name}.parquet" for name in "ab"]
    done = start(sys.executable, "-c", code, "distance", *paths, "--projections", "2")
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.split()[-1]) < 1_000_000  # kilobytes
    read = datasets.read_points(tmp_path / "b.parquet")
    assert np.array_equal(read.points, x)


@pytest.mark.parametrize("command", ["distance", "pairwise"])
def test_output_says_what_the_error_and_the_distance_are_not(files, command):
    """Below the values, once: ± is over great circles only, and a distance is no displacement."""
    done = run(command, files / "a.npy", files / "b.npy")
    (line,) = (line for line in done.stdout.splitlines() if "displacement" in line)
    assert line.startswith("± is the standard error from the choice of great circles, not from the sampling")
    assert line.endswith(
        "SSW_2 is not a displacement. Use SSW_1 (--p 1) for the mean displacement along great circles."
    )
    value = next(k for k, text in enumerate(done.stdout.splitlines()) if "degrees" in text)
    assert done.stdout.splitlines()[value + 1] == line
    assert answer(command, files / "a.npy", files / "b.npy")["note"] == line
    single = run(command, files / "a.npy", files / "b.npy", "--projections", 1)
    assert "±" not in single.stdout
    assert "SSW_2 is not a displacement" in single.stdout
    shown = " ".join(run(command, "--help").stdout.replace("│", " ").split())
    assert command == "pairwise" or "from the choice of great circles, not from the sampling of the points" in shown


def test_distances_in_degrees_are_no_displacement(files):
    """The reason for the note: of a sample turned by 40 degrees, SSW_2 is some other angle."""
    turn = np.deg2rad(40)
    around = np.array([[np.cos(turn), np.sin(turn), 0], [-np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    np.save(files / "turned.npy", X @ around)
    found = answer("distance", files / "a.npy", files / "turned.npy", "--projections", 2000)
    assert abs(found["distance_degrees"] - 40) > 20 * found["distance_degrees_standard_error"]


@pytest.mark.parametrize("command", ["distance", "pairwise"])
@pytest.mark.parametrize(("p", "unit"), [(1, "turns"), (2, "turns^2"), (1.5, "turns^1.5")])
def test_names_have_no_power_of_one(files, command, p, unit):
    done = run(command, files / "a.npy", files / "b.npy", "--p", p, "--method", "iid")
    expected = sphereot.ssw_estimate(X, Y, p=p, seed=0, method="iid")
    assert "^1 " not in done.stdout
    assert f"{expected.value:.6g} ±" in done.stdout
    assert (unit if command == "pairwise" else f"{expected.standard_error:.2g} {unit}") in done.stdout
    assert done.stdout.count("SSW_1 =" if command == "distance" else "SSW_1;") == (p == 1)
    equals = {line.index(" = ") for line in done.stdout.splitlines() if line.startswith("SSW_") and " = " in line}
    assert len(equals) == (1 if command == "distance" else 0)


# ---- columns and weights per file ----


def test_columns_and_weights_per_file(tmp_path):
    """Cities by population against earthquakes without weights, each file with its own names."""
    rng = np.random.default_rng(0)
    first, second = (rng.uniform([-180, -60], [180, 60], (n, 2)) for n in (30, 20))
    people = rng.uniform(1, 9, 30)
    pl.DataFrame({"lon": first[:, 0], "lat": first[:, 1], "people": people}).write_csv(tmp_path / "cities.csv")
    pl.DataFrame({"Breite": second[:, 1], "Laenge": second[:, 0]}).write_csv(tmp_path / "quakes.csv")
    files = [tmp_path / "cities.csv", tmp_path / "quakes.csv", "--lonlat"]
    found = answer("distance", *files, "--weights", "people", "--weights", "-", "--seed", 3)
    x, y = sphereot.sphere.from_lonlat(first), sphereot.sphere.from_lonlat(second)
    expected = sphereot.ssw_estimate(x, y, p=1, x_weights=people, n_projections=200, seed=3)
    assert found["value"] == pytest.approx(expected.value, rel=1e-9)
    named = ["--columns", "lon,lat", "--columns", "Laenge,Breite", "--weights", "people", "--weights", "-"]
    assert answer("distance", *files, *named, "--seed", 3)["value"] == found["value"]
    one_named = ["--columns", "-", "--columns", "Laenge,Breite", "--weights", "people", "--weights", "-"]
    assert answer("distance", *files, *one_named, "--seed", 3)["value"] == found["value"]
    for option in (["--weights", "people"] * 3, ["--columns", "0,1"] * 3):
        done = run("distance", *files, *option)
        assert done.exit_code == 2
        assert "must be given once, or once per file (2 times), got 3" in " ".join(done.stderr.split())


def test_natural_order_of_files():
    """Names in the order of the alphabet, as a shell expands them, are put in that of their numbers."""
    from pathlib import Path

    from sphereot.cli.files import input_files

    names = ["week1", "week10", "week2"]
    assert [path.name for path in input_files(list(map(Path, names)))] == ["week1", "week2", "week10"]
    assert [path.name for path in input_files(list(map(Path, names[::-1])))] == names[::-1]


# ---- units ----


def test_units(files):
    turns = answer("distance", files / "a.npy", files / "b.npy", "--unit", "turns")["distance"]
    for unit, factor in (("degrees", 360), ("radians", 2 * np.pi), ("km", 40030.2)):
        found = answer("distance", files / "a.npy", files / "b.npy", "--unit", unit)
        assert found["unit"] == unit
        assert found["distance"] == pytest.approx(factor * turns, rel=1e-5)
        done = run("distance", files / "a.npy", files / "b.npy", "--unit", unit)
        assert f"{found['distance']:.6g} ± " in done.stdout
        assert f"{unit}" in done.stdout
        assert "turns\n" not in done.stdout.replace("turns^2", "")
    pairs = answer("pairwise", files / "a.npy", files / "b.npy", "--unit", "km")
    assert pairs["unit"] == "km"
    assert_allclose(pairs["distances"], 40030.2286 * np.sqrt(pairs["values"]), rtol=1e-6)
    np.save(files / "d.npy", sphere_sample(RNG, 9, 4))
    for options, message in (
        ((files / "a.npy", files / "b.npy", "--unit", "miles"), "--unit must be one of turns, degrees"),
        ((files / "d.npy", files / "d.npy", "--unit", "km"), "--unit km is only for locations on the Earth"),
    ):
        done = run("distance", *options)
        assert done.exit_code == 2
        assert message in " ".join(done.stderr.split())


def test_places_ten_degrees_apart(tmp_path):
    """SSW_1, the default for places, is 10 degrees: the mean displacement along circles; SSW_2 is 14.8."""
    pl.DataFrame({"lon": [0.0], "lat": [0.0]}).write_csv(tmp_path / "here.csv")
    pl.DataFrame({"lon": [10.0], "lat": [0.0]}).write_csv(tmp_path / "there.csv")
    files = [tmp_path / "here.csv", tmp_path / "there.csv", "--lonlat", "--projections", 20_000, "--method", "quasi"]
    found = answer("distance", *files, "--unit", "degrees")
    assert found["p"] == 1
    assert found["distance"] == pytest.approx(10, abs=5 * found["distance_standard_error"] + 0.01)
    assert "SSW_1 is the mean displacement along great circles" in found["note"]
    assert answer("distance", *files, "--p", 2)["distance_degrees"] == pytest.approx(14.8, abs=0.2)


def test_bootstrap(files):
    found = answer("distance", files / "a.npy", files / "b.npy", "--bootstrap", 20, "--seed", 2)
    expected = sphereot.ssw_estimate(X, Y, n_projections=200, seed=2, bootstrap=20)
    assert found["sampling_interval"] == list(expected.sampling_interval())
    assert found["noise_floor"] == expected.noise_floor
    done = run("distance", files / "a.npy", files / "b.npy", "--bootstrap", 20, "--seed", 2, "--unit", "km")
    assert "95% confidence interval of SSW_2 for the distributions: " in done.stdout
    printed = float(re.search(r"Expected value of SSW_2 if the distributions are equal: ([\d.]+)", done.stdout)[1])
    assert printed == pytest.approx(40030.2 * expected.noise_floor**0.5, rel=1e-3)  # four digits
    # a and b are samples of one distribution.
    note = "The distance is close to this value, so the interval is not reliable"
    assert note in done.stdout
    np.save(files / "far.npy", sphereot.sphere.normalize(X + np.array([5, 0, 0])))
    assert note not in run("distance", files / "a.npy", files / "far.npy", "--bootstrap", 20, "--seed", 2).stdout
