"""Longitude and latitude from tables."""

import numpy as np
import pytest

from sphereot import sphere


def test_names_of_a_table_decide_the_order():
    """A table with latitude first is read by its names; an array by position."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"lat": [48.0, 52.0], "lon": [2.0, 13.0]})
    expected = sphere.from_lonlat([[2.0, 48.0], [13.0, 52.0]])
    np.testing.assert_array_equal(sphere.from_lonlat(table), expected)
    np.testing.assert_array_equal(sphere.from_lonlat(table[["lon", "lat"]]), expected)
    np.testing.assert_array_equal(
        sphere.from_lonlat(table.rename(columns={"lat": "a", "lon": "b"})[["b", "a"]]), expected
    )
