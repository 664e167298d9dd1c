"""Sketches of Dask collections are the same bits as a sketch of the whole data, for every chunking and scheduler."""

import os
import time

import numpy as np
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import pandas as pd

from sphereot import Sketch, sphere
from sphereot.sketch.dask import sketch

OPTIONS = {"n_projections": 12, "bins": 64, "seed": 3}


@pytest.fixture
def points():
    return sphere.random_uniform(997, 5, seed=0)


@pytest.fixture
def whole(points):
    return Sketch(5, **OPTIONS).update(points)


def frame_of(points):
    days = np.array(["mon", "tue", "wed"])[np.arange(len(points)) % 3]
    coordinates = {f"x{k}": points[:, k] for k in range(points.shape[1])}
    return pd.DataFrame(
        coordinates | {"embedding": list(points), "day": days, "weight": 1.0 + np.arange(len(points)) % 4}
    )


@pytest.mark.parametrize("rows", [1, 10, 100, 997])
@pytest.mark.parametrize("split_every", [2, 8])
def test_array_of_any_chunks(points, whole, rows, split_every):
    chunked = da.from_array(points[:100] if rows == 1 else points, chunks=(rows, 2))
    expected = Sketch(5, **OPTIONS).update(points[:100]) if rows == 1 else whole
    result = sketch(chunked, split_every=split_every, **OPTIONS)
    assert dask.is_dask_collection(result)
    assert result.compute(scheduler="sync").to_bytes() == expected.to_bytes()


@pytest.fixture
def keeps_lists():
    with dask.config.set({"dataframe.convert-string": False}):
        yield


@pytest.mark.parametrize("columns", ["embedding", [f"x{k}" for k in range(5)]])
def test_dataframe(points, whole, columns, keeps_lists):
    frame = dd.from_pandas(frame_of(points), npartitions=4)
    assert sketch(frame, columns=columns, **OPTIONS).compute(scheduler="threads").to_bytes() == whole.to_bytes()


def test_parquet_files_of_lists(points, whole, tmp_path):
    for k, part in enumerate(np.array_split(points, 3)):
        pd.DataFrame({"embedding": list(part)}).to_parquet(tmp_path / f"{k}.parquet")
    frame = dd.read_parquet(tmp_path)
    assert sketch(frame, columns="embedding", **OPTIONS).compute(scheduler="sync").to_bytes() == whole.to_bytes()


def test_dataframe_by_column(points, keeps_lists):
    frame = frame_of(points)
    by_day = sketch(dd.from_pandas(frame, npartitions=5), "day", columns="embedding", **OPTIONS).compute()
    assert list(by_day) == ["mon", "tue", "wed"]
    for day, part in by_day.items():
        rows = (frame["day"] == day).to_numpy()
        assert part.to_bytes() == Sketch(5, **OPTIONS).update(points[rows]).to_bytes()


def test_days_as_times_and_missing_ones(points, keeps_lists):
    frame = frame_of(points[:20])
    frame["time"] = pd.to_datetime(["2025-01-01", "2025-01-02"] * 10)
    by_day = sketch(dd.from_pandas(frame, npartitions=2), "time", columns="embedding", **OPTIONS).compute()
    assert [str(day)[:10] for day in by_day] == ["2025-01-01", "2025-01-02"]
    frame.loc[3, "day"] = None
    with pytest.raises(ValueError, match=r"by: 1 of \d+ labels are missing"):
        sketch(dd.from_pandas(frame, npartitions=1), "day", columns="embedding", **OPTIONS).compute(scheduler="sync")


def test_array_by_array(points, whole):
    chunked = da.from_array(points, chunks=(200, 5))
    labels = da.from_array(np.arange(len(points)) % 2, chunks=300)
    parts = sketch(chunked, labels, **OPTIONS).compute()
    assert (parts[0] + parts[1]).to_bytes() == whole.to_bytes()


def test_longitude_and_latitude():
    lonlat = np.random.default_rng(0).uniform([-180, -90], [180, 90], (200, 2))
    expected = Sketch(3, **OPTIONS).update(sphere.from_lonlat(lonlat)).to_bytes()
    frame = dd.from_pandas(pd.DataFrame(lonlat, columns=["lon", "lat"]), npartitions=3)
    assert sketch(frame, lonlat=True, **OPTIONS).compute().to_bytes() == expected
    assert sketch(da.from_array(lonlat, chunks=(50, 2)), lonlat=True, **OPTIONS).compute().to_bytes() == expected


def test_bag_of_vectors_and_of_arrays(points, whole):
    vectors = dask.bag.from_sequence(list(points), npartitions=4)
    assert sketch(vectors, **OPTIONS).compute(scheduler="sync").to_bytes() == whole.to_bytes()
    arrays = dask.bag.from_sequence(np.array_split(points, 7), npartitions=3)
    assert sketch(arrays, **OPTIONS).compute(scheduler="sync").to_bytes() == whole.to_bytes()


def test_normalizes(points, whole):
    scaled = da.from_array(points * 1.0, chunks=(100, 5))
    assert sketch(scaled, normalize=True, **OPTIONS).compute().n == whole.n


def test_messages(points):
    frame = dd.from_pandas(frame_of(points), npartitions=2)
    for call, error, message in [
        (lambda: sketch(frame, columns="embeding"), ValueError, "has no column 'embeding'"),
        (lambda: sketch(frame), ValueError, "Name a column of lists"),
        (lambda: sketch(frame, columns="embedding").compute(scheduler="sync"), ValueError,
         "must hold lists of numbers, got text"),
        (lambda: sketch(points), TypeError, "For data in memory"),
        (lambda: sketch(da.from_array(points), da.zeros(3)), ValueError, "one value per point"),
        (lambda: sketch(da.zeros((0, 5)), **OPTIONS).compute(scheduler="sync"), ValueError, "no rows"),
        (lambda: sketch(2 * da.from_array(points, chunks=(100, 5)), **OPTIONS).compute(scheduler="sync"), ValueError,
         "unit vectors"),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            call()


@pytest.fixture(scope="module")
def cluster():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as local,
        Client(local) as client,
    ):
        yield client


def test_two_worker_processes(points, whole, cluster):
    result = sketch(da.from_array(points, chunks=(50, 5)), **OPTIONS)
    assert cluster.compute(result).result().to_bytes() == whole.to_bytes()


def slow(block, folder):
    """Hand a block on after a while; the first block that a second worker sees kills its process."""
    marker = os.path.join(folder, "killed")
    if block.size and not os.path.exists(marker):
        open(marker, "w").close()
        os._exit(1)
    time.sleep(0.05)
    return block


def test_a_killed_worker_changes_no_bit(points, whole, cluster, tmp_path):
    blocks = da.from_array(points, chunks=(50, 5)).map_blocks(slow, str(tmp_path), meta=np.empty((0, 0)))
    assert cluster.compute(sketch(blocks, **OPTIONS), retries=3).result(timeout=120).to_bytes() == whole.to_bytes()
    assert (tmp_path / "killed").exists()
