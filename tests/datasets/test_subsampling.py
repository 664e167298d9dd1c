"""A random part of a file, chosen while it is read: which rows, of which seed, and how much memory that takes."""

import json
import shutil
import sys

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.processes import run_python
from numpy.testing import assert_array_equal

pl = pytest.importorskip("polars")

from sphereot.datasets import iter_points, read_points
from sphereot.datasets.rows import random_rows

X = sphere_sample(np.random.default_rng(0), 300, 3)
X = X[np.lexsort(X.T)]  # rows in a known order, and all different
WEIGHTS = np.arange(300.0)


def write(path, points, weights=None):
    table = points if weights is None else np.c_[points, weights]
    if path.suffix == ".npy":
        np.save(path, table)
    elif path.suffix == ".npz":
        np.savez_compressed(path, table=table)
    elif path.suffix == ".pt":
        torch = pytest.importorskip("torch")
        torch.save({0: torch.tensor(table)}, path)
    elif path.suffix == ".safetensors":
        pytest.importorskip("safetensors.numpy").save_file({"table": table}, path)
    else:
        frame = pl.DataFrame(table, schema=["x", "y", "z", "w"][: table.shape[1]])
        if path.suffix == ".csv":
            frame.write_csv(path)
        else:
            frame.write_parquet(path, row_group_size=70)
    return path


def rows_of(points):
    """Which rows of X the points are; each must be one, and only once."""
    numbers = [int(np.flatnonzero((point == X).all(axis=1))[0]) for point in points]
    assert len(set(numbers)) == len(numbers)
    return numbers


@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv", ".parquet", ".pt", ".safetensors"])
def test_rows_are_of_the_file_in_its_order_and_keep_their_weights(tmp_path, ending):
    path = write(tmp_path / f"a{ending}", X, WEIGHTS)
    part = read_points(path, weights=3, max_points=40)
    numbers = rows_of(part.points)
    assert numbers == sorted(numbers)
    assert len(part) == 40
    assert part.total == 300
    assert_array_equal(part.weights, numbers)
    assert_array_equal(part.rows, numbers)
    whole = read_points(path, weights=3, max_points=300)
    assert_array_equal(whole.points, X)
    assert whole.total == 300
    assert whole.rows is None
    assert read_points(path, weights=3).rows is None


@pytest.mark.parametrize("max_points", [None, 40])
def test_row_numbers_count_rows_left_out_and_go_on_from_file_to_file(tmp_path, max_points):
    """Row k of the second file has the number of rows of the first file, plus k; its last row is a bad one."""
    points = X.copy()
    points[[0, 50, 199, 230]] = np.nan
    (tmp_path / "parts").mkdir()
    for name, part in (("a", points[:200]), ("b", points[200:])):
        np.save(tmp_path / "parts" / f"{name}.npy", part)
    found = read_points(tmp_path / "parts", drop_bad=True, max_points=max_points)
    assert_array_equal(found.points, X[found.rows])
    assert len(found) == (296 if max_points is None else 40)
    assert found.rows.max() >= 200
    one = read_points(tmp_path / "parts" / "b.npy", drop_bad=True, max_points=max_points)
    assert_array_equal(one.points, X[200:][one.rows])
    batches = iter_points(tmp_path / "parts", drop_bad=True, batch_rows=30)
    assert [row for batch in batches for row in batch.rows] == np.flatnonzero(~np.isnan(points[:, 0])).tolist()


def test_blank_lines_count_as_rows(tmp_path):
    """As in messages, which have the number of the line."""
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,0\n\n0,1\n-1,0\n\n")
    assert_array_equal(read_points(path).rows, [0, 2, 3])
    assert set(read_points(path, max_points=2).rows) < {0, 2, 3}


def test_geojson(tmp_path):
    path = tmp_path / "a.geojson"
    path.write_text(json.dumps({"type": "MultiPoint", "coordinates": [[k, 0] for k in range(100)]}))
    part = read_points(path, max_points=10)
    assert part.lonlat.shape == (10, 2)
    assert np.all(np.diff(part.lonlat[:, 0]) > 0)


def test_the_choice_depends_on_seed_and_content_alone(tmp_path):
    path = write(tmp_path / "a.npy", X)
    chosen = read_points(path, max_points=40).points
    assert_array_equal(read_points(path, max_points=40).points, chosen)
    (tmp_path / "other").mkdir()
    assert_array_equal(read_points(shutil.copy(path, tmp_path / "other" / "b.npy"), max_points=40).points, chosen)
    assert rows_of(read_points(path, max_points=40, seed=1).points) != rows_of(chosen)
    turned = X.copy()
    turned[0] *= -1  # files of one size do not all give the same rows
    again = read_points(write(tmp_path / "c.npy", turned), max_points=40).points
    assert not np.array_equal(again[-5:], chosen[-5:])


def test_the_choice_does_not_depend_on_batches():
    column = np.arange(1000)
    choices = [
        random_rows(([part, None] for part in np.array_split(column, parts)), 30, np.random.default_rng(5))[0].tolist()
        for parts in (1, 2, 7, 300)
    ]
    assert all(choice == choices[0] for choice in choices)


def test_every_row_is_as_likely():
    """6 of 60 rows, 2,000 times: counts within 5 standard deviations."""
    counts = np.zeros(60)
    for seed in range(2000):
        (rows,) = random_rows(([part] for part in np.array_split(np.arange(60), 5)), 6, np.random.default_rng(seed))
        counts[rows] += 1
    assert np.all(np.abs(counts - 200) < 5 * np.sqrt(200 * 0.9))


def test_bad_rows_are_refused_even_if_not_chosen_and_dropped_ones_are_not_chosen(tmp_path):
    points = X.copy()
    points[123] = np.nan
    path = write(tmp_path / "a.npy", points)
    with pytest.raises(ValueError, match=r"a\.npy, row 123: "):
        read_points(path, max_points=2)
    part = read_points(path, max_points=299, drop_bad=True)
    assert (len(part), part.total, part.dropped) == (299, 299, 1)
    for count in (0, -1, 2.5):
        with pytest.raises(ValueError, match=r"max_points: .*got"):
            read_points(path, max_points=count)
    with pytest.raises(ValueError, match=r"seed: .*, got -1"):
        read_points(path, max_points=2, seed=-1)
    with pytest.raises(ValueError, match="there are no rows in it"):
        read_points(write(tmp_path / "none.npy", X[:0]), max_points=5)


# ---- memory ----

PEAK = """
import sys
from sphereot.datasets import read_points, rows

rows._BATCH_VALUES = 1 << 18  # so that a small file has many batches

def peak():  # of this process: ru_maxrss counts that of the parent before exec
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

read_points({warm!r}, max_points=10, normalize=True)  # imports, threads and their buffers
before = peak()
part = read_points({path!r}, max_points=500, normalize=True)
assert len(part) == 500
print(part.total, peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet", ".safetensors"])
def test_memory_does_not_grow_with_the_file(tmp_path, ending):
    """A file of 100 MB takes less than half of that, with batches of 1 MB and row groups of 5 MB."""
    width, count = 64, 400_000
    points = np.random.default_rng(0).random((count, width), np.float32)
    names = [f"x{k}" for k in range(width)]
    paths = [tmp_path / f"small{ending}", tmp_path / f"large{ending}"]
    for path, some in zip(paths, (points[:1000], points), strict=True):
        if ending == ".npy":
            np.save(path, some)
        elif ending == ".npz":
            np.savez(path, some)
        elif ending == ".safetensors":
            pytest.importorskip("safetensors.numpy").save_file({"points": some}, path)
        else:
            pl.DataFrame(some, schema=names).write_parquet(path, row_group_size=20_000, compression="uncompressed")
    size = points.nbytes
    del points
    code = PEAK.format(warm=str(paths[0]), path=str(paths[1]))
    total, grown = map(int, run_python(code).split())
    assert total == count
    assert grown < size / 2


# ---- row groups of Parquet ----


@pytest.mark.parametrize("group", [7, 100, 300, 1000])
def test_batches_of_parquet_do_not_depend_on_row_groups(tmp_path, group):
    path = tmp_path / "a.parquet"
    frame = pl.DataFrame({"text": ["a"] * 300, "list": X.tolist(), "flag": [True, None, False] * 100, "x": X[:, 0]})
    frame.write_parquet(path, row_group_size=group)
    batches = list(iter_points(path, columns=["list"], batch_rows=11))
    assert max(map(len, batches)) <= 11
    assert_array_equal(np.concatenate([batch.points for batch in batches]), X)
    assert [row for batch in batches for row in batch.rows] == list(range(300))
