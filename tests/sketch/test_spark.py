"""Sketches as Spark aggregates, in local mode: the same bits as a sketch of the whole data."""

import os
import shutil
import sys

import numpy as np
import pytest

if os.environ.get("SPHEREOT_REQUIRE_SPARK"):
    assert shutil.which("java"), "SPHEREOT_REQUIRE_SPARK is set, but there is no Java"
else:
    pytest.importorskip("pyspark", reason="the tests of Spark need pyspark: pip install 'sphereot[spark]'")
    if shutil.which("java") is None:
        pytest.skip("the tests of Spark need Java", allow_module_level=True)

from sphereot import Sketch, sphere
from sphereot.sketch.spark import merge_agg, sketch_agg

# Starting Java forks the process, of which JAX warns if another test has imported it.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")

OPTIONS = {"n_projections": 12, "bins": 64, "seed": 3}


@pytest.fixture(scope="module")
def session():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("sphereot tests")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.driver.memory": "1g",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    running = builder.getOrCreate()
    running.sparkContext.setLogLevel("ERROR")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def points():
    return sphere.random_uniform(400, 5, seed=0).astype(np.float32)


@pytest.fixture(scope="module")
def table(session, points):
    rows = [
        (f"day {k % 3}", float(1 + k % 4), [float(value) for value in point], *map(float, point))
        for k, point in enumerate(points)
    ]
    columns = "day string, weight double, embedding array<float>, x0 float, x1 float, x2 float, x3 float, x4 float"
    return session.createDataFrame(rows, columns).repartition(5)


def read(frame):
    rows = frame.collect()
    return {tuple(row)[:-1]: Sketch.from_bytes(bytes(row.sketch)) for row in rows}


def test_whole_table(table, points):
    (result,) = read(sketch_agg(table, "embedding", **OPTIONS)).values()
    assert result.to_bytes() == Sketch(5, **OPTIONS).update(points).to_bytes()


def test_by_day_and_merged_again(table, points):
    by_day = sketch_agg(table, "embedding", by="day", **OPTIONS).cache()
    sketches = read(by_day)
    assert sorted(sketches) == [("day 0",), ("day 1",), ("day 2",)]
    for k in range(3):
        assert sketches[f"day {k}",].to_bytes() == Sketch(5, **OPTIONS).update(points[k::3]).to_bytes()
    (total,) = read(merge_agg(by_day)).values()
    assert total.to_bytes() == Sketch(5, **OPTIONS).update(points).to_bytes()


def test_columns_of_coordinates(table, points):
    (result,) = read(sketch_agg(table, [f"x{k}" for k in range(5)], **OPTIONS)).values()
    assert result.to_bytes() == Sketch(5, **OPTIONS).update(points).to_bytes()


def test_messages(table):
    with pytest.raises(ValueError, match="has no column 'embeding'"):
        sketch_agg(table, "embeding")
    with pytest.raises(ValueError, match="Name a column of lists"):
        sketch_agg(table)
