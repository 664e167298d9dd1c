"""Points from tables, labeled arrays, geometries and sky coordinates, with the real packages."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sphereot
from sphereot import sphere
from sphereot._arrays.containers import stacked

LON, LAT = np.array([-78.5, 10.7, 179.0, 0.0]), np.array([-0.2, 59.9, -45.0, 90.0])
EARTH = sphere.from_lonlat(LON, LAT)
POINTS = sphere.random_uniform(40, 5, seed=0)
NAMES = list("abcde")


def pandas_frame(data):
    return pytest.importorskip("pandas").DataFrame(data)


def polars_frame(data):
    return pytest.importorskip("polars").DataFrame(data)


def arrow_table(data):
    return pytest.importorskip("pyarrow").table(data)


class Interchange:
    """A table that has the interchange protocol alone."""

    def __init__(self, data):
        self._frame = pytest.importorskip("pandas").DataFrame(data)

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self._frame.__dataframe__(nan_as_null, allow_copy)


TABLES = [pandas_frame, polars_frame, arrow_table, Interchange]


@pytest.fixture(params=TABLES, ids=lambda make: make.__name__)
def table(request):
    return request.param


# ---- tables ----


def test_all_columns(table):
    frame = table(dict(zip(NAMES, POINTS.T, strict=True)))
    assert_array_equal(sphere.from_table(frame), POINTS)
    assert sphereot.ssw(frame, frame, seed=0) == 0
    assert sphereot.ssw_uniform(frame, method="exact") == sphereot.ssw_uniform(POINTS, method="exact")


def test_named_columns(table):
    """Columns by name or number, in the order in which they are named, beside others that are no coordinates."""
    frame = table({"id": list("wxyz") * 10, **dict(zip(NAMES, POINTS.T, strict=True)), "mass": np.arange(40)})
    with pytest.raises(TypeError, match=r"table: column 'id' holds text, not numbers; name the columns"):
        sphere.from_table(frame)
    assert_array_equal(sphere.from_table(frame, columns=NAMES), POINTS)
    assert_array_equal(sphere.from_table(frame, columns=[5, 4, 3, 2, 1]), POINTS[:, ::-1])
    for function in (sphereot.ssw, sphereot.ssw_estimate, sphereot.stats.two_sample_test):
        result, plain = (function(x, y, seed=0, **options) for x, y, options in (
            (frame, frame, {"columns": NAMES}), (POINTS, POINTS, {})))  # fmt: skip
        assert float(getattr(result, "value", getattr(result, "statistic", result))) == 0
        assert type(result) is type(plain)
    with pytest.raises(ValueError, match=r"columns: x has no column 'z'; there are 'id', 'a', 'b'"):
        sphereot.ssw(frame, frame, columns=["z"])


def test_longitude_and_latitude(table):
    frame = table({"Latitude": LAT, "magnitude": np.ones(4), "LONGITUDE ": LON})
    assert_allclose(sphere.from_table(frame), EARTH, atol=1e-15)
    gbif = table({"decimalLatitude": LAT, "decimalLongitude": LON})
    assert_allclose(sphere.from_table(gbif), EARTH, atol=1e-15)
    assert_allclose(sphere.from_table(gbif, columns=["decimalLatitude", "decimalLongitude"]), EARTH, atol=1e-15)
    swapped = table({"lat": LON, "lon": LAT})
    with pytest.raises(ValueError, match=r"x: row 2 has a latitude of 179 degrees, but the poles are at 90"):
        sphereot.ssw_uniform(swapped)


@pytest.mark.parametrize("make", [pandas_frame, polars_frame, arrow_table])
def test_column_of_lists(make):
    lists = [row.tolist() for row in POINTS]
    frame = make({"text": [f"row {k}" for k in range(40)], "embedding": lists})
    assert_array_equal(sphere.from_table(frame), POINTS)
    assert_array_equal(sphere.from_table(frame, columns="embedding"), POINTS)
    two = make({"first": lists, "second": lists})
    with pytest.raises(ValueError, match=r"several columns hold lists \('first', 'second'\); choose one"):
        sphere.from_table(two)
    assert_array_equal(sphere.from_table(two, columns="second"), POINTS)
    ragged = make({"embedding": [*lists[:3], [1.0]]})
    with pytest.raises(ValueError, match=r"column 'embedding': row 3 holds shape \(1,\)"):
        sphere.from_table(ragged)


def test_series():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    lists = [row.tolist() for row in POINTS]
    weights = np.linspace(1, 2, 40)
    expected = sphereot.ssw_uniform(POINTS, weights=weights, method="exact")
    for series, weight in ((pd.Series(lists), pd.Series(weights)), (pl.Series(lists), pl.Series(weights))):
        assert_allclose(sphereot.ssw_uniform(series, weights=weight, method="exact"), expected, rtol=1e-12)
    array = pl.Series(POINTS, dtype=pl.Array(pl.Float64, 5))
    assert_array_equal(sphere.from_table(array), POINTS)


def test_lazy_frame():
    pl = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"x: is a LazyFrame, which holds no values yet; pass x.collect\(\)"):
        sphereot.ssw_uniform(pl.LazyFrame({"a": [1.0]}))


def test_missing_values():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="x: row 1 has no longitude or latitude"):
        sphereot.ssw_uniform(pd.DataFrame({"lon": [0.0, np.nan], "lat": [0.0, 1.0]}))
    with pytest.raises(ValueError, match="x: row 1 holds NaN"):
        sphereot.ssw_uniform(pd.DataFrame({"a": [1.0, np.nan], "b": [0.0, 1.0]}))


# ---- other containers ----


def test_xarray():
    xr = pytest.importorskip("xarray")
    array = xr.DataArray(POINTS, dims=("sentence", "feature"))
    assert sphereot.ssw_uniform(array, method="exact") == sphereot.ssw_uniform(POINTS, method="exact")


def test_geopandas():
    gpd = pytest.importorskip("geopandas")
    series = gpd.GeoSeries.from_xy(LON[:3], LAT[:3], crs=4326)
    assert_allclose(sphere.from_table(series), EARTH[:3], atol=1e-15)
    assert_allclose(sphere.from_table(gpd.GeoDataFrame({"name": list("abc")}, geometry=series)), EARTH[:3], atol=1e-15)
    with pytest.raises(ValueError, match=r"not longitude and latitude but .*Mercator; pass x.to_crs\(4326\)"):
        sphereot.ssw_uniform(series.to_crs(3857))
    with pytest.raises(TypeError, match=r"geometries other than points \('Polygon'\)"):
        sphereot.ssw_uniform(gpd.GeoSeries(series.to_crs(3857).buffer(1.0)))


def test_astropy():
    """The galactic frame is converted: the same directions in another frame have distance 0."""
    coordinates = pytest.importorskip("astropy.coordinates")
    sky = coordinates.SkyCoord(ra=LON % 360, dec=LAT, unit="deg")
    assert_allclose(sphere.from_table(sky), EARTH, atol=1e-12)
    assert_allclose(sphere.from_table(sky.galactic), EARTH, atol=1e-12)
    near = coordinates.SkyCoord(ra=LON % 360, dec=LAT, distance=[1, 2, 3, 4], unit=("deg", "deg", "pc"))
    assert_allclose(sphere.from_table(near), EARTH, atol=1e-12)


def test_point_set(tmp_path):
    np.save(tmp_path / "points.npy", POINTS)
    points = sphereot.datasets.read_points(tmp_path / "points.npy")
    assert sphereot.ssw(points, POINTS, seed=0) == 0


class OnlyDLPack:
    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class OnlyArray:
    def __array__(self, dtype=None, copy=None):
        return POINTS


class Unreadable:
    def __dlpack__(self, **options):
        raise BufferError("on a device")

    def __dlpack_device__(self):
        return (2, 0)


def test_protocols():
    for value in (OnlyDLPack(POINTS), OnlyArray(), memoryview(POINTS)):
        assert sphereot.ssw(value, POINTS, seed=0) == 0
    with pytest.raises(TypeError, match="its memory cannot be read"):
        sphereot.ssw_uniform(Unreadable())
    for value in (object(), "text", {"a": 1}):
        with pytest.raises(TypeError, match="x: got"):
            sphereot.ssw_uniform(value)
    with pytest.raises(TypeError, match="columns: got 'a', but x is no table"):
        sphereot.ssw_uniform(POINTS, columns="a")


def test_numpy_with_jax():
    """As jnp does: the result is an array of JAX."""
    jnp = pytest.importorskip("jax.numpy")
    x, y = POINTS.astype(np.float32), sphere.random_uniform(30, 5, seed=1).astype(np.float32)
    frames = sphereot.great_circles(20, 5, seed=0).astype(np.float32)
    expected = sphereot.ssw(jnp.asarray(x), jnp.asarray(y), projections=jnp.asarray(frames))
    for first, second, projections in (
        (jnp.asarray(x), y, frames), (x, jnp.asarray(y), frames), (x, jnp.asarray(y), jnp.asarray(frames)),
    ):  # fmt: skip
        result = sphereot.ssw(first, second, projections=projections, x_weights=np.ones(40), y_weights=[1.0] * 30)
        assert isinstance(result, type(expected))
        assert_allclose(result, expected, rtol=1e-5)
    assert sphereot.pairwise_ssw([x, jnp.asarray(y)], seed=0).shape == (2, 2)
    assert_allclose(sphere.geodesic_distance(jnp.asarray(x[:5]), x[:5]), 0, atol=1e-3)


def test_nothing_is_imported():
    """Reading arrays loads none of the packages."""
    import subprocess

    script = (
        "import sys, numpy as np, sphereot; sphereot.ssw_uniform(np.eye(3)); "
        "print([name for name in ('pandas', 'polars', 'xarray', 'geopandas', 'astropy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_stacked():
    assert stacked("x", [[1, 2], [3, 4]]).dtype == np.float64
    with pytest.raises(ValueError, match="x: holds text, not lists of numbers"):
        stacked("x", np.array(["[1, 2]"], dtype=object))
    with pytest.raises(ValueError, match="x: row 1 holds nothing"):
        stacked("x", [[1.0], None])
