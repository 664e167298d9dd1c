"""Hostile files on the command line: whatever a file holds, one line that names it, and exit code 2."""

import gzip
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.processes import MODULE, start

pytest.importorskip("typer")
pl = pytest.importorskip("polars")

from helpers.cli import run, save_points

import sphereot

X = sphere_sample(np.random.default_rng(0), 60, 3)

COMMANDS = {
    "distance": ["distance", "good.npy", "FILE"],
    "pairwise": ["pairwise", "good.npy", "FILE"],
    "test": ["test", "FILE", "good.npy"],
    "uniformity": ["uniformity", "FILE"],
    "drift": ["drift", "good.npy", "FILE"],
    "density fit": ["density", "fit", "FILE", "--model", "kde", "--out", "out.safetensors"],
}


class Harmful:
    def __reduce__(self):
        return (open, ("harmed", "w"))


def with_number(row, column, number):
    points = X.copy()
    points[row, column] = number
    return points


def npy(array, **options):
    return lambda path: np.save(path, array, **options)


def raw(content):
    return lambda path: path.write_bytes(content)


def cut(name, write, kept):
    def written(path):
        write(path)
        content = path.read_bytes()
        path.write_bytes(content[: int(kept * len(content))])

    return name, written


def table(**columns):
    return lambda path: pl.DataFrame(columns).write_parquet(path)


# File, how it is made, and what must be said of it.
BAD = [
    ("missing.npy", lambda path: None, "missing.npy: No such file or directory."),
    (
        "folder.parquet",
        lambda path: path.mkdir(),
        "folder.parquet: holds no files of points (.npy, .npz",
    ),
    *(
        (f"empty{kind}", raw(b""), f"empty{kind}: is empty.")
        for kind in (".npy", ".csv", ".parquet", ".geojson", ".pt")
    ),
    (*cut("cut.npy", npy(X), 0.9), "cut.npy: is not a .npy array, or is truncated"),
    (*cut("cut.npz", lambda path: np.savez(path, a=X), 0.5), "cut.npz: is not a .npz archive, or is truncated"),
    (*cut("cut.parquet", table(x=X[:, 0], y=X[:, 1]), 0.7), "cut.parquet: cannot be read; it may be truncated"),
    ("objects.npy", npy(np.array([{}, []], dtype=object), allow_pickle=True), "objects.npy: holds Python objects"),
    ("pickle.npy", raw(pickle.dumps(Harmful())), "pickle.npy: holds Python objects, which are never unpickled"),
    ("pickle.pkl", raw(pickle.dumps(Harmful())), "pickle.pkl: the type of the file must be one of .npy"),
    ("text.npy", npy(np.array([["a", "b"]])), "text.npy: the dtype must be floating, got <U1"),
    ("complex.npy", npy(X.astype(complex)), "complex.npy: the dtype must be floating, got complex128"),
    ("nan.npy", npy(with_number(17, 1, np.nan)), "nan.npy, row 17: holds NaN or infinity"),
    ("infinity.npy", npy(with_number(17, 1, np.inf)), "infinity.npy, row 17: holds NaN or infinity"),
    ("none.npy", npy(np.empty((0, 3))), "none.npy: there are no rows in it."),
    ("thin.npy", npy(np.ones((5, 1))), "thin.npy: points must have at least 2 coordinates, got 1"),
    ("long.npy", npy(3 * X), "long.npy, row 0: has length 3"),
    ("zero.npy", npy(with_number(4, slice(None), 0.0)), "zero.npy, row 4: is the zero vector"),
    ("header.csv", raw(b"x,y,z\n"), "header.csv: there are no rows in it."),
    ("words.csv", raw(b"x,y\n1,0\n0,one\n"), "words.csv, line 3: 'y' is 'one', not a finite number"),
    ("inf.csv", raw(b"x,y\r\n1,0\r\n0,inf\r\n"), "inf.csv, line 3: 'y' is 'inf', not a finite number"),
    ("ragged.csv", raw(b"x,y\n1,0\n0,1,7\n"), "ragged.csv, line 3: has 3 fields"),
    ("null.parquet", table(x=[1.0, None], y=[0.0, 1.0]), "null.parquet, row 1: is missing"),
    ("list.parquet", table(e=[[1.0, 0.0], None]), "list.parquet, row 1: is missing"),
    ("words.parquet", table(x=["a"], y=["b"]), "words.parquet: column 'x' must contain numbers, got type String"),
    (
        "line.geojson",
        raw(b'{"type":"LineString","coordinates":[[0,0],[1,1]]}'),
        "line.geojson, feature 0: the geometry must be a Point or MultiPoint, got 'Line",
    ),
    ("pole.geojson", raw(b'{"type":"MultiPoint","coordinates":[[100,0],[0,91]]}'), "the latitude is 91"),
    ("new\nline.npy", raw(b""), "new�line.npy: is empty."),
    ("packed.csv", raw(gzip.compress(b"x,y\n1,0\n")), "packed.csv: is compressed with gzip. Unpack it first."),
    (
        "digits.geojson",
        raw(b'{"type":"Point","coordinates":[1' + b"0" * 5000 + b",0]}"),
        "digits.geojson, feature 0: has no",
    ),
    ("long.npy", npy(np.full((4, 3), np.longdouble("1e4000"))), "long.npy, row 0: holds NaN or infinity"),
    ("notes.txt", raw(b"1 2"), "notes.txt: the type of the file must be one of .npy"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return save_points(tmp_path, {"good": X})


def run_on(file, command, *options):
    return run(*(file if word == "FILE" else word for word in COMMANDS[command]), *options)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("name", "make", "message"), BAD, ids=[name.replace("\n", "") for name, _, _ in BAD])
def test_every_bad_file_with_every_command(folder, command, name, make, message):
    if command == "density fit":
        pytest.importorskip("torch")
    make(folder / name)
    before = sorted(folder.iterdir())
    done = run_on(name, command)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    traced = run_on(name, command, "--debug")
    assert traced.exit_code == 2
    assert "Traceback (most recent call last)" in traced.stderr
    assert sorted(folder.iterdir()) == before  # nothing half-written, nothing unpickled


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_streams_are_refused(folder, command):
    """A pipe cannot be looked at twice; opening it would wait for a writer for ever."""
    if command == "density fit":
        pytest.importorskip("torch")
    os.mkfifo("pipe.csv")
    for name in ("pipe.csv", "-"):
        done = run_on(name, command)
        assert done.exit_code == 2
        assert (
            done.stderr == f"Error: {name}: is a stream, but files are read more than once. Save it to a file first.\n"
        )


def test_a_reader_that_fails_in_an_unforeseen_way(folder, monkeypatch):
    def broken(path, **_):
        raise IndexError("tuple index out of range")

    monkeypatch.setattr("sphereot.datasets.read_points", broken)
    done = run_on("good.npy", "distance")
    assert done.exit_code == 2
    assert done.stderr == "Error: good.npy: cannot be read (IndexError: tuple index out of range).\n"


# ---- damaged files ----


def damaged_parquet(path):
    """The lengths of runs in a page of the fourth of six row groups say more than the page holds."""
    pl.DataFrame(np.tile(X, (50, 1)), schema=["x", "y", "z"]).write_parquet(
        path, compression="uncompressed", row_group_size=500, statistics=False
    )
    content = bytearray(path.read_bytes())
    runs = b"\xe8\x07\x01"  # a run of 500 values that are there
    place = -1
    for _ in range(10):
        place = content.index(runs, place + 1)
    content[place] ^= 0xFF
    path.write_bytes(content)


def test_a_damaged_page_is_one_line(folder):
    """The whole stderr of the process counts, with what threads of a reader write to it."""
    damaged_parquet(folder / "damaged.parquet")
    call = [*MODULE, "distance", "good.npy", "damaged.parquet"]
    done = start(*call)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("Error: damaged.parquet: cannot be read; ")
    traced = start(*call, "--debug")
    assert traced.returncode == 2
    assert "Traceback" in traced.stderr


def test_no_stderr_at_all(folder):
    code = "import os; os.close(2); from sphereot.cli import main; main()"
    call = [sys.executable, "-c", code, "distance", "good.npy", "good.npy"]
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0
    assert "SSW_2^2 = 0" in done.stdout


# ---- files of unlike kinds ----


@pytest.mark.parametrize("kinds", [("float32", "float64"), (">f4", "float32"), (">f8", "float64")])
def test_unlike_kinds_of_numbers(folder, kinds):
    """What the library gives for the same arrays, whichever way they lie in the file."""
    y = sphere_sample(np.random.default_rng(1), 40, 3)
    x = X.astype(kinds[0])
    np.save("x.npy", np.asfortranarray(x))
    np.save("y.npy", y.astype(kinds[1]))
    done = run("distance", "x.npy", "y.npy")
    assert done.exit_code == 0, done.output
    native = x.astype(x.dtype.newbyteorder("="))
    expected = sphereot.ssw_estimate(native, y.astype(kinds[1]), seed=0)
    assert f"SSW_2^2 = {expected.value:.6g} ± {expected.standard_error:.2g}" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems refuse such names")
@pytest.mark.parametrize("command", ["distance", "pairwise", "test", "uniformity"])
def test_names_of_any_bytes(folder, command):
    odd = os.fsdecode(b"\xff\x1b[31m \xc3\xa9.npy")
    np.save(odd, X)
    few = ["--projections", "5"] + (["--permutations", "9"] if command == "test" else [])
    arguments = [odd if word == "FILE" else word for word in COMMANDS[command]]
    done = start(*MODULE, *arguments, *few, text=False)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout
    assert "\\udcff\ufffd[31m é.npy".encode() in done.stdout
