"""Points from tables, labeled arrays, geometries and sky coordinates, with the real packages."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.containers import CONTAINERS, EARTH, LAT, LON, Interchange, OnlyDLPack
from numpy.testing import assert_allclose, assert_array_equal

import sphereot
from sphereot import circle, sphere
from sphereot._arrays.containers import dimensions, stacked

POINTS = sphere.random_uniform(40, 5, seed=0)
NAMES = list("abcde")


def pandas_frame(data):
    return pytest.importorskip("pandas").DataFrame(data)


def polars_frame(data):
    return pytest.importorskip("polars").DataFrame(data)


def arrow_table(data):
    return pytest.importorskip("pyarrow").table(data)


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
    assert_array_equal(sphere.from_table(frame, columns=NAMES), POINTS)
    assert_array_equal(sphere.from_table(frame, columns=[5, 4, 3, 2, 1]), POINTS[:, ::-1])
    chosen = sphere.from_table(frame, columns=NAMES)
    for function in (sphereot.ssw, sphereot.ssw_estimate, sphereot.stats.two_sample_test):
        result, plain = (function(x, x, seed=0) for x in (chosen, POINTS))
        assert float(getattr(result, "value", getattr(result, "statistic", result))) == 0
        assert type(result) is type(plain)


def test_longitude_and_latitude(table):
    frame = table({"Latitude": LAT, "magnitude": np.ones(4), "LONGITUDE ": LON})
    assert_allclose(sphere.from_table(frame), EARTH, atol=1e-15)
    gbif = table({"decimalLatitude": LAT, "decimalLongitude": LON})
    assert_allclose(sphere.from_table(gbif), EARTH, atol=1e-15)
    assert_allclose(sphere.from_table(gbif, columns=["decimalLatitude", "decimalLongitude"]), EARTH, atol=1e-15)


@pytest.mark.parametrize(
    ("columns", "call", "error", "message"),
    [
        ({"id": list("wxyz"), "a": LON}, sphere.from_table, TypeError,
         "column 'id' must hold numbers, got text. Name the"),
        ({"id": list("wxyz"), "a": LON, "b": LAT}, lambda frame: sphere.from_table(frame, columns=["z"]), ValueError,
         "columns: table has no column 'z'. It has 'id', 'a', 'b'"),
        ({"lat": LON, "lon": LAT}, sphereot.ssw_uniform, ValueError,
         "x: row 2 has a latitude of 179 degrees, but the poles are at 90"),
    ],
)  # fmt: skip
def test_bad_tables(table, columns, call, error, message):
    with pytest.raises(error, match=message):
        call(table(columns))


LIST_TABLES = [pandas_frame, polars_frame, arrow_table]


@pytest.mark.parametrize("make", LIST_TABLES)
def test_column_of_lists(make):
    lists = [row.tolist() for row in POINTS]
    frame = make({"text": [f"row {k}" for k in range(40)], "embedding": lists})
    assert_array_equal(sphere.from_table(frame), POINTS)
    assert_array_equal(sphere.from_table(frame, columns="embedding"), POINTS)
    two = make({"first": lists, "second": lists})
    assert_array_equal(sphere.from_table(two, columns="second"), POINTS)


@pytest.mark.parametrize("make", LIST_TABLES)
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"first": [[1.0, 0.0]], "second": [[1.0, 0.0]]},
         r"several columns hold lists \('first', 'second'\). Choose one"),
        ({"embedding": [[1.0, 0.0]] * 3 + [[1.0]]}, r"column 'embedding': .*got shape \(1,\) in row 3"),
    ],
)  # fmt: skip
def test_bad_columns_of_lists(make, columns, message):
    with pytest.raises(ValueError, match=message):
        sphere.from_table(make(columns))


def test_series():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    lists = [row.tolist() for row in POINTS]
    weights = np.linspace(1, 2, 40)
    expected = sphereot.ssw_uniform(POINTS, weights=weights, method="exact")
    for series, weight in ((pd.Series(lists), pd.Series(weights)), (pl.Series(lists), pl.Series(weights))):
        assert_allclose(sphereot.ssw_uniform(series, weights=weight, method="exact"), expected, rtol=1e-12)
    array = pl.Series(POINTS, dtype=pl.Array(pl.Float64, 5))
    assert_array_equal(sphere.from_table(array), POINTS)


def test_one_column_is_a_vector_of_turns(table):
    """Not n measures of one atom each: turns and weights in a table of one column are those of one measure."""
    u, v, weights = np.array([0.1, 0.4, 0.8]), np.array([0.2, 0.3]), np.array([1.0, 2.0, 3.0])
    expected = circle.wasserstein(u, v, u_weights=weights)
    assert circle.wasserstein(table({"u": u}), v, u_weights=table({"w": weights})) == expected
    assert circle.wasserstein_uniform(table({"u": u})) == circle.wasserstein_uniform(u)
    weighted = sphereot.ssw_uniform(POINTS, weights=table({"w": np.arange(1.0, 41)}), method="exact")
    assert weighted == sphereot.ssw_uniform(POINTS, weights=np.arange(1.0, 41), method="exact")


# ---- columns ----


def test_tables_and_arrays(table):
    frame = table(dict(zip(NAMES, POINTS.T, strict=True)))
    other = sphere.random_uniform(30, 5, seed=1)
    assert sphereot.ssw(frame, other, seed=0) == sphereot.ssw(POINTS, other, seed=0)
    assert sphereot.ssw(other, frame, seed=0) == sphereot.ssw(other, POINTS, seed=0)
    matrix = sphereot.pairwise_ssw([frame, other, frame], seed=0)
    assert_array_equal(matrix, sphereot.pairwise_ssw([POINTS, other, POINTS], seed=0))
    frames = sphereot.great_circles(3, 5, seed=0)
    assert_array_equal(sphereot.project(frame, frames), sphereot.project(POINTS, frames))


X_Y_Z_MAGNITUDE = {"x": EARTH[:, 0], "y": EARTH[:, 1], "z": EARTH[:, 2], "mag": np.ones(4)}

# ---- other containers ----


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name):
    """All give the same points, whatever holds them."""
    container = CONTAINERS[name]()
    assert dimensions(container) == 2
    assert_allclose(sphere.from_table(container), EARTH, atol=1e-12)
    assert_allclose(sphereot.ssw(container, EARTH, seed=0), 0, atol=1e-12)
    frames = sphereot.great_circles(3, 3, seed=0)
    assert_allclose(sphereot.project(container, frames), sphereot.project(EARTH, frames), atol=1e-12)


def test_dimensions_of_single_points():
    """A list of points is one sample, also if each is a Series or a sky coordinate."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for point in (EARTH[0], EARTH[0].tolist(), pd.Series(EARTH[0]), pl.Series(EARTH[0]), OnlyDLPack(EARTH[0])):
        assert dimensions(point) == 1
    assert [dimensions(value) for value in (1.0, "text", None, EARTH[None])] == [0, 0, 0, 3]


def test_xarray():
    xr = pytest.importorskip("xarray")
    array = xr.DataArray(POINTS, dims=("sentence", "feature"))
    assert sphereot.ssw_uniform(array, method="exact") == sphereot.ssw_uniform(POINTS, method="exact")
    batch = xr.DataArray(
        np.stack([LON, LAT], axis=1)[None], dims=("day", "row", "angle"), coords={"angle": ["lon", "lat"]}
    )
    assert_allclose(sphere.normalize(batch), EARTH[None], atol=1e-15)


def grid_dataset():
    xr = pytest.importorskip("xarray")
    return xr.Dataset({"t": (("lat", "lon"), np.ones((2, 2)))}, coords={"lon": [10.0, 20.0], "lat": [0.0, 5.0]})


def test_xarray_dataset():
    """Variables and coordinates are columns; those of a grid have no common dimension until they are stacked."""
    xr = pytest.importorskip("xarray")
    data = xr.Dataset({"a": ("row", LON), "b": ("row", LAT)}, coords={"lat": ("row", LAT), "lon": ("row", LON)})
    assert_allclose(sphere.from_table(data), EARTH, atol=1e-15)
    vectors = xr.Dataset({key: ("row", X_Y_Z_MAGNITUDE[key]) for key in X_Y_Z_MAGNITUDE}, coords={"time": 3.0})
    assert_array_equal(sphere.from_table(vectors, columns=["x", "y", "z"]), EARTH)
    assert_array_equal(sphere.from_table(vectors[["x", "y", "z"]]), EARTH)
    points = sphere.from_table(grid_dataset().stack(point=["lon", "lat"]))
    assert_allclose(sphere.to_lonlat(points), [[10, 0], [10, 5], [20, 0], [20, 5]], atol=1e-12)


def weighted_point_set():
    datasets = pytest.importorskip("sphereot.datasets")
    return datasets.PointSet(POINTS, np.arange(1.0, 41.0), None, Path("a.csv"), tuple(NAMES), 0, 40)


def test_weights_of_a_point_set():
    """Functions with weights use those that a `PointSet` holds, unless others are given; the rest refuse them."""
    held, weights = weighted_point_set(), np.arange(1.0, 41.0)
    other = sphere.random_uniform(30, 5, seed=1)
    options = {"n_projections": 20, "seed": 0}
    weighted = sphereot.ssw(POINTS, other, x_weights=weights, **options)
    assert weighted != sphereot.ssw(POINTS, other, **options)
    assert sphereot.ssw(held, other, **options) == weighted
    assert sphereot.ssw(other, held, **options) == sphereot.ssw(other, POINTS, y_weights=weights, **options)
    assert sphereot.pairwise_ssw([held, other], **options)[0, 1] == weighted
    replaced = sphereot.ssw(held, other, x_weights=np.ones(40), **options)
    assert replaced == sphereot.ssw(POINTS, other, x_weights=np.ones(40), **options)
    uniform = sphereot.ssw_uniform(POINTS, weights=weights, method="exact")
    assert sphereot.ssw_uniform(held, method="exact") == uniform
    assert sphereot.ssw_estimate(held).value == pytest.approx(float(uniform))
    cluster = sphere.normalize(POINTS + 1)
    mean = sphere.frechet_mean(replace(held, points=cluster))
    assert_array_equal(mean, sphere.frechet_mean(cluster, weights=weights))
    sketches = [sphereot.Sketch(5, n_projections=4, bins=64).update(x, y) for x, y in ((held, None), (POINTS, weights))]
    assert sketches[0].to_bytes() == sketches[1].to_bytes()


def geo_series():
    return pytest.importorskip("geopandas").GeoSeries.from_xy(LON[:3], LAT[:3], crs=4326)


def test_geopandas():
    gpd, series = pytest.importorskip("geopandas"), geo_series()
    assert_allclose(sphere.from_table(series), EARTH[:3], atol=1e-15)
    assert_allclose(sphere.from_table(gpd.GeoDataFrame({"name": list("abc")}, geometry=series)), EARTH[:3], atol=1e-15)
    columns = dict(zip("xyz", EARTH[:3].T, strict=True))
    for frame in (gpd.GeoDataFrame(columns, geometry=series[::-1].reset_index(drop=True)), gpd.GeoDataFrame(columns)):
        assert_array_equal(sphere.from_table(frame, columns=["x", "y", "z"]), EARTH[:3])
    assert_array_equal(sphere.from_table(gpd.GeoDataFrame(columns)), EARTH[:3])


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


def test_frames_and_weights_of_jax_follow_numpy_points():
    """In double precision too, which JAX does not have by default: the points decide library and dtype."""
    jnp = pytest.importorskip("jax.numpy")
    single = sphereot.great_circles(20, 5, seed=0).astype(np.float32)
    frames, weights = jnp.asarray(single), jnp.arange(1.0, 41)
    for call in (
        lambda frames, weights: sphereot.ssw(POINTS, POINTS[:9], projections=frames, x_weights=weights),
        lambda frames, weights: sphereot.ssw_uniform(POINTS, projections=frames, weights=weights),
        lambda frames, weights: sphereot.project(POINTS, frames),
    ):
        result, expected = call(frames, weights), call(single, np.asarray(weights))
        assert result.dtype == np.float64
        assert isinstance(result, np.ndarray | np.generic)
        assert_array_equal(result, expected)


def test_flow_of_numpy_and_jax():
    """A start of JAX beside a target of NumPy, and the reverse: the particles are an array of JAX."""
    pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    options = {"steps": 2, "n_projections": 10, "seed": 0}
    single = POINTS.astype(np.float32)
    start = sphere.random_uniform(6, 5, seed=1).astype(np.float32)
    expected = sphereot.gradient_flow(single, start=start, **options).particles
    for x, y in ((POINTS, jnp.asarray(start)), (jnp.asarray(single), start)):
        result = sphereot.gradient_flow(x, start=y, **options).particles
        assert isinstance(result, type(jnp.ones(1)))
        assert_allclose(result, expected, atol=1e-6)


def test_flow_between_containers():
    """A barycenter of samples in containers, and a start in a table."""
    pytest.importorskip("torch")
    options = {"steps": 2, "n_projections": 10, "seed": 0}
    table = pandas_frame({key: X_Y_Z_MAGNITUDE[key] for key in "xyz"})
    series = CONTAINERS["pandas series"]()
    expected = sphereot.gradient_flow([EARTH, EARTH], start=EARTH[::-1], **options).particles
    reverse = pandas_frame({key: X_Y_Z_MAGNITUDE[key][::-1] for key in "xyz"})
    for target in ([series, table], [table, CONTAINERS["geo series"]()], (EARTH.tolist(), EARTH)):
        result = sphereot.gradient_flow(target, start=reverse, **options).particles
        assert_allclose(result, expected, atol=1e-12)
    single = sphereot.gradient_flow(EARTH.tolist(), start=EARTH[::-1], **options).particles
    assert_array_equal(single, sphereot.gradient_flow(EARTH, start=EARTH[::-1], **options).particles)


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


# ---- bad input ----


def dask_frame():
    dd = pytest.importorskip("dask.dataframe")
    return dd.from_pandas(pandas_frame(dict(zip(NAMES, POINTS.T, strict=True))), npartitions=2)


def points_with_a_last(geometry):
    series = geo_series()
    return pytest.importorskip("geopandas").GeoSeries([*series[:2], geometry], crs=series.crs)


def empty_point():
    return pytest.importorskip("geopandas").GeoSeries.from_wkt(["POINT EMPTY"])[0]


def ssw_with_traced_frames():
    jax = pytest.importorskip("jax")
    frames = jax.numpy.asarray(sphereot.great_circles(20, 5, seed=0))
    jax.jit(lambda frames: sphereot.ssw(POINTS, POINTS, projections=frames))(frames)


DASK = r"Dask DataFrame, .*\.compute\(\), or .* sphereot\.sketch\.dask"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        # every column is a coordinate
        (lambda: sphereot.ssw_uniform(pandas_frame(X_Y_Z_MAGNITUDE)), ValueError,
         r"x: row 0 has length 1.414, .*If not all columns \('x', 'y', 'z', 'mag'\) are .*with columns=.*ormalize"),
        (lambda: sphere.to_lonlat(pandas_frame(X_Y_Z_MAGNITUDE)), ValueError,
         "x: row 0 has length 1.414, .*columns= of sphereot.sphere.from_table"),
        (lambda: sphereot.ssw_uniform(pandas_frame({**X_Y_Z_MAGNITUDE, "mag": np.full(4, np.nan)})), ValueError,
         "x: row 0 holds NaN or infinity. Remove or fix such rows. If not all columns .*with columns="),
        (lambda: sphereot.pairwise_ssw(pandas_frame(X_Y_Z_MAGNITUDE)), TypeError,
         "measures must be a list of samples, got one table .DataFrame."),
        # missing values
        (lambda: sphereot.ssw_uniform(pandas_frame({"lon": [0.0, np.nan], "lat": [0.0, 1.0]})), ValueError,
         "x: row 1 has no longitude or latitude"),
        (lambda: sphereot.ssw_uniform(pandas_frame({"a": [1.0, np.nan], "b": [0.0, 1.0]})), ValueError,
         "x: row 1 holds NaN"),
        # no values yet
        (lambda: sphereot.ssw_uniform(polars_frame({"a": [1.0]}).lazy()), TypeError,
         r"x is a LazyFrame, which holds no values yet. Pass x.collect\(\)"),
        (lambda: sphereot.ssw_uniform(dask_frame()), TypeError, DASK),
        (lambda: sphere.normalize(dask_frame()), TypeError, DASK),
        (lambda: circle.wasserstein_uniform(dask_frame()), TypeError, DASK),
        # other containers
        (lambda: sphereot.ssw_uniform(grid_dataset()), ValueError,
         r"x: the variables 'lon', 'lat' must be along .*Pass x.stack\(point=\['lon', 'lat'\]\)"),
        (lambda: sphereot.stats.two_sample_test(weighted_point_set(), POINTS), ValueError,
         r"x holds weights, which would be ignored here. Pass x\.points for equal weights"),
        (lambda: sphereot.ssw_uniform(points_with_a_last(None)), ValueError,
         r"x: row 2 has no point. Leave out such rows"),
        (lambda: sphereot.ssw_uniform(points_with_a_last(empty_point())), ValueError,
         r"x: row 2 has no point. Leave out such rows"),
        (lambda: sphereot.ssw_uniform(geo_series().to_crs(3857)), ValueError,
         r"must be in longitude and latitude, got .*Mercator. Pass x.to_crs\(4326\)"),
        (lambda: sphereot.ssw_uniform(geo_series().to_crs(3857).buffer(1.0)), TypeError,
         r"must hold points, got other geometries \('Polygon'\)"),
        (lambda: sphereot.ssw_uniform(Unreadable()), TypeError, "its memory cannot be read"),
        (lambda: sphereot.ssw_uniform(object()), TypeError, "x must be an array"),
        (lambda: sphereot.ssw_uniform("text"), TypeError, "x must be an array"),
        (lambda: sphereot.ssw_uniform({"a": 1}), TypeError, "x must be an array"),
        (lambda: sphere.from_table(POINTS, columns="a"), TypeError, "columns: got 'a', but table is not a table"),
        (ssw_with_traced_frames, TypeError,
         "x and projections must be from the same library, got a numpy ndarray and a jax"),
        (lambda: stacked("x", np.array(["[1, 2]"], dtype=object)), ValueError,
         "x must hold lists of numbers, got text"),
        (lambda: stacked("x", [[1.0], None]), ValueError, "x: .*got nothing in row 1"),
    ],
)  # fmt: skip
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
