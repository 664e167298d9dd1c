"""Longitude and latitude from tables, and angles with units."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sphereot
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


# ---- units of astropy ----

LON, LAT = np.array([-78.5, 10.7, 179.0]), np.array([-0.2, 59.9, -45.0])


@pytest.mark.parametrize("unit", ["deg", "rad", "hourangle", "arcmin", "cycle"])
def test_angles_with_units_are_converted(unit):
    """Wherever a function takes angles; the results are plain arrays, as with numbers in the function's own unit."""
    u, coordinates = pytest.importorskip("astropy.units"), pytest.importorskip("astropy.coordinates")
    table = pytest.importorskip("astropy.table")
    lon, lat = (u.Quantity(values, "deg").to(unit) for values in (LON, LAT))
    expected = coordinates.SkyCoord(lon, lat).cartesian.xyz.value.T  # astropy's own conversion
    results = {
        "two arrays": sphere.from_lonlat(lon, lat),
        "pairs": sphere.from_lonlat(np.stack([lon, lat], axis=-1)),
        "list of quantities": sphere.from_lonlat(list(lon), list(lat)),
        "angles": sphere.from_lonlat(coordinates.Longitude(lon), coordinates.Latitude(lat)),
        "columns": sphere.from_lonlat(table.Column(lon.value, unit=unit), table.Column(lat.value, unit=unit)),
        "table": sphere.from_lonlat(table.Table({"a": lon, "b": lat})),
        "quantity table": sphere.from_lonlat(table.QTable({"dec": lat, "name": list("abc"), "ra": lon})),
        "spherical": sphere.from_spherical(90 * u.deg - lat, lon),
    }
    for name, result in results.items():
        assert type(result) is np.ndarray, name
        assert_allclose(result, expected, atol=1e-14, err_msg=name)
    assert_allclose(sphere.from_lonlat(lon, 90.0), np.tile([0, 0, 1], (3, 1)), atol=1e-14)
    moves = np.cross(expected, np.eye(3))
    moved = sphere.exp(expected, (moves * u.rad).to(unit))
    assert type(moved) is np.ndarray
    assert_allclose(moved, sphere.exp(expected, moves), atol=1e-14)
    turns = sphereot.circle.wasserstein(lon, lat)
    assert_allclose(turns, sphereot.circle.wasserstein(LON / 360, LAT / 360), atol=1e-14)


def test_numbers_without_dimension_lose_their_unit():
    u = pytest.importorskip("astropy.units")
    points = sphere.from_lonlat(LON, LAT)
    for result in (sphere.to_lonlat(points * u.one), sphere.to_lonlat(100 * points * u.percent)):
        assert type(result) is np.ndarray
        assert_allclose(result, np.stack([LON, LAT], axis=1), atol=1e-12)
    assert sphereot.ssw_uniform(points * u.one, seed=0) == sphereot.ssw_uniform(points, seed=0)


def test_other_units_are_refused():
    u, table = pytest.importorskip("astropy.units"), pytest.importorskip("astropy.table")
    points = sphere.from_lonlat(LON, LAT)
    for call, message in (
        (lambda: sphere.from_lonlat(LON * u.m, LAT * u.deg), "longitude must be an angle, got the unit m"),
        (lambda: sphere.from_lonlat(LON * u.deg, LAT * u.one), "latitude must be an angle, got the unit 1"),
        (lambda: sphere.from_spherical(LON * u.pc, LAT), "theta must be an angle, got the unit pc"),
        (lambda: sphere.normalize(points * u.pc), "x must have no unit, got pc.*value"),
        (lambda: sphere.geodesic_distance(points, points * u.pc), "y must have no unit, got pc"),
        (lambda: sphere.exp(points, points * u.pc), "v must be an angle, got the unit pc"),
        (
            lambda: sphereot.ssw_uniform(np.stack([LON, LAT], 1) * u.deg),
            "x must have no unit, got deg.*sphere.from_lonlat",
        ),
        (lambda: sphereot.circle.wasserstein(LON * u.s, LAT), "u must be an angle, got the unit s"),
        (lambda: sphereot.ssw_uniform(points, weights=[1, 2, 3] * u.kg, seed=0), "weights must have no unit, got kg"),
        (
            lambda: sphere.from_table(table.QTable({"ra": LON * u.km, "dec": LAT * u.deg})),
            "table: column 'ra' must be an angle, got the unit km",
        ),
        (
            lambda: sphere.from_table(table.Table({"u": LON * u.deg, "v": LAT * u.deg})),
            "table: column 'u' must have no unit, got deg",
        ),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_masked_rows_of_a_table_are_named():
    table, u = pytest.importorskip("astropy.table"), pytest.importorskip("astropy.units")
    for kind in (table.Table, table.QTable):
        data = kind({"ra": LON * u.deg, "dec": LAT * u.deg}, masked=True)
        assert_allclose(sphere.from_table(data), sphere.from_lonlat(LON, LAT), atol=1e-15)
        data["ra"].mask[1] = True
        with pytest.raises(ValueError, match="table: row 1 has no longitude or latitude"):
            sphere.from_table(data)
