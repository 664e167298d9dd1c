"""Functions of the sphere read whatever holds points, and return NumPy arrays."""

import numpy as np
import pytest
from helpers.containers import CONTAINERS, EARTH, LAT, LON, Interchange
from numpy.testing import assert_allclose, assert_array_equal

from sphereot import sphere

OTHERS = sphere.random_uniform(4, 3, seed=0)
VECTORS = np.random.default_rng(0).normal(size=(4, 3))

FUNCTIONS = {
    "normalize": sphere.normalize,
    "to_lonlat": sphere.to_lonlat,
    "to_spherical": lambda x: np.stack(sphere.to_spherical(x), axis=1)[:, ::-1],
    "stereographic": sphere.stereographic,
    "to_tangent": lambda x: sphere.to_tangent(x, VECTORS),
    "exp": lambda x: sphere.exp(x, VECTORS),
    "log": lambda x: sphere.log(x, OTHERS),
    "log to": lambda x: sphere.log(OTHERS, x),
    "geodesic_distance": lambda x: sphere.geodesic_distance(x, OTHERS),
    "parallel_transport": lambda x: sphere.parallel_transport(OTHERS, x, VECTORS),
    "frechet_mean": lambda x: sphere.frechet_mean(x, weights=[1.0, 1.0, 0.0, 1.0]),
}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_containers(function, name):
    """As of an array with the same points; longitude and latitude do not pass for vectors of the plane."""
    result = FUNCTIONS[function](CONTAINERS[name]())
    assert type(result) is np.ndarray
    expected = FUNCTIONS[function](EARTH)
    if function in ("to_lonlat", "to_spherical"):
        assert_allclose(result[-1, 1], expected[-1, 1], atol=1e-9)  # any longitude is that of the pole
        result, expected = result[:-1], expected[:-1]
    assert_allclose(result, expected, atol=1e-9)


def test_vectors_of_a_table():
    """Tangent vectors are the columns as they are, whatever their names."""
    expected = sphere.exp(OTHERS, VECTORS)
    for make in (pytest.importorskip("pandas").DataFrame, pytest.importorskip("polars").DataFrame, Interchange):
        table = make({"lon": VECTORS[:, 0], "lat": VECTORS[:, 1], "up": VECTORS[:, 2]})
        assert_array_equal(sphere.exp(OTHERS, table), expected)
    lists = pytest.importorskip("pandas").DataFrame({"v": VECTORS.tolist()})
    assert_array_equal(sphere.exp(OTHERS, lists), expected)


def test_degrees_of_containers():
    """`from_lonlat` takes what names longitude and latitude, beside other columns too."""
    for name in ("pandas", "polars", "arrow", "interchange", "dataset", "labeled data array", "geo series", "sky"):
        assert_allclose(sphere.from_lonlat(CONTAINERS[name]()), EARTH, atol=1e-12)
    pd = pytest.importorskip("pandas")
    assert_allclose(sphere.from_lonlat(pd.DataFrame({"a": LON}), pd.Series(LAT)), EARTH, atol=1e-15)


def test_one_column_on_the_line():
    """A table of one column holds n vectors of one coordinate for the stereographic projection."""
    table = pytest.importorskip("pandas").DataFrame({"u": [0.0, 1.0, -0.5]})
    assert_array_equal(sphere.inverse_stereographic(table), sphere.inverse_stereographic([[0.0], [1.0], [-0.5]]))


def test_whole_numbers_of_a_table():
    table = pytest.importorskip("pandas").DataFrame({"a": [3, 0], "b": [4, 2]})
    assert_array_equal(sphere.normalize(table), [[0.6, 0.8], [0.0, 1.0]])
