"""Points from files: every format, columns, locations, weights, batches, and what each bad file gets."""

import bz2
import gzip
import io
import json
import lzma
import pickle
import zipfile

import numpy as np
import pytest
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose, assert_array_equal

pl = pytest.importorskip("polars")

from sphereot import datasets, sphere
from sphereot.datasets import read_points

X = sphere_sample(np.random.default_rng(0), 50, 3)
LONLAT = np.array([[20.0, 10.0], [-170.5, 89.0], [179.0, -90.0]])


def write(path, array, names=("x", "y", "z")):
    """`array` in the format that the ending of `path` names."""
    frame = pl.DataFrame(array, schema=list(names)) if path.suffix in (".csv", ".tsv", ".parquet") else None
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, points=array)
    elif path.suffix == ".parquet":
        frame.write_parquet(path)
    elif path.suffix in (".csv", ".tsv"):
        frame.write_csv(path, separator="," if path.suffix == ".csv" else "\t")
    elif path.suffix == ".pt":
        torch = pytest.importorskip("torch")
        torch.save(torch.tensor(array), path)
    else:
        pytest.importorskip("safetensors.numpy").save_file({"points": array}, path)
    return path


ENDINGS = [".npy", ".npz", ".csv", ".tsv", ".parquet", ".pt", ".safetensors"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_gives_back_what_was_written(tmp_path, ending):
    point_set = read_points(write(tmp_path / f"a{ending}", X))
    assert_array_equal(point_set.points, X)
    assert point_set.weights is None
    assert point_set.dropped == 0
    assert len(point_set) == 50


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet", ".pt", ".safetensors"])
def test_single_precision_stays(tmp_path, ending):
    assert read_points(write(tmp_path / f"a{ending}", X.astype(np.float32))).points.dtype == np.float32


@pytest.mark.parametrize("ending", ENDINGS)
def test_columns_lonlat_weights_and_normalize_mean_the_same_everywhere(tmp_path, ending):
    table = np.concatenate([3 * X, np.arange(50.0)[:, None]], axis=1)
    path = write(tmp_path / f"a{ending}", table, ["x", "y", "z", "w"])
    point_set = read_points(path, normalize=True, weights=3)
    assert_allclose(point_set.points, X, atol=1e-15)
    assert_array_equal(point_set.weights, np.arange(50))
    swapped = read_points(path, columns=[2, 0], normalize=True)
    assert_allclose(swapped.points, sphere.normalize(X[:, [2, 0]]), atol=1e-15)
    degrees = write(tmp_path / f"b{ending}", LONLAT, ["lon", "lat"])
    assert_allclose(read_points(degrees, lonlat=True).points, sphere.from_lonlat(LONLAT))


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_prefix_takes_columns_in_the_order_of_their_numbers(tmp_path, ending):
    order = [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    values = sphere_sample(np.random.default_rng(1), 5, 12)
    path = write(tmp_path / f"a{ending}", np.c_[values[:, order], np.ones(5)], [f"e_{k}" for k in order] + ["other"])
    point_set = read_points(path, prefix="e_")
    assert_allclose(point_set.points, values, atol=1e-15)
    assert point_set.columns[:3] == ("e_0", "e_1", "e_2")


def test_list_typed_columns(tmp_path):
    path = tmp_path / "a.parquet"
    single = X.astype(np.float32)
    frame = pl.DataFrame({"id": range(50), "text": ["a"] * 50, "embedding": X.tolist(), "w": [2.0] * 50})
    frame.write_parquet(path)
    point_set = read_points(path, weights="w")
    assert_array_equal(point_set.points, X)
    assert point_set.columns == ("embedding",)
    fixed = frame.with_columns(
        embedding=pl.Series(single.tolist(), dtype=pl.Array(pl.Float32, 3)), other=frame["embedding"]
    )
    fixed.write_parquet(path)
    named = read_points(path, columns=["embedding"])
    assert_array_equal(named.points, single)
    assert named.points.dtype == np.float32
    rows = X.tolist()
    rows[3], rows[7], rows[9] = None, [1.0, 0.0], [1.0, None, 0.0]
    pl.DataFrame({"embedding": rows}, schema={"embedding": pl.List(pl.Float64)}).write_parquet(path)
    with pytest.raises(ValueError, match=r"a.parquet, row 3: is missing, .*'embedding'"):
        read_points(path)
    kept = read_points(path, drop_bad=True)
    assert kept.dropped == 3
    assert_array_equal(kept.points, np.delete(X, [3, 7, 9], axis=0))


@pytest.mark.parametrize("header", ["lat, lon", "LATITUDE,LONGITUDE", "Latitude , lng", "lat,long", '"lat","lon"'])
def test_usual_names_of_longitude_and_latitude(tmp_path, header):
    path = tmp_path / "a.csv"
    path.write_text(f"\ufeff# a comment\r\n{header}\r\n10, 20\r\n\r\n# another\r\n-30,  40 \r\n\r\n", newline="")
    point_set = read_points(path, lonlat=True)
    assert point_set.lonlat.tolist() == [[20, 10], [40, -30]]
    assert point_set.dropped == 0


@pytest.mark.parametrize(
    "names", ["glat,glon", "b,l", "GLAT,GLON", "elat,elon", "DE_ICRS,RA_ICRS", "_DEJ2000,_RAJ2000"]
)
def test_coordinates_of_the_sky(tmp_path, names):
    """Galactic and ecliptic columns are found; without lonlat no advice would put the points on a circle."""
    path = tmp_path / "a.csv"
    path.write_text(f"{names}\n10,120\n-30,340\n")
    assert read_points(path, lonlat=True).lonlat.tolist() == [[120, 10], [340, -30]]
    for options in ({}, {"normalize": True}):
        with pytest.raises(ValueError, match=r"look like longitudes and latitudes\. Pass lonlat=True"):
            read_points(path, **options)


def test_one_of_several_systems_of_coordinates(tmp_path):
    """Equatorial coordinates come first, as before; columns of colors are not coordinates of the sky."""
    path = tmp_path / "a.csv"
    path.write_text("glon,glat,ra,dec,l,b\n1,2,120,10,5,6\n3,4,340,-30,7,8\n")
    assert read_points(path, lonlat=True).lonlat.tolist() == [[120, 10], [340, -30]]
    path.write_text("L,a,b\n1,0,0\n0,1,0\n")
    assert read_points(path).points.tolist() == [[1, 0, 0], [0, 1, 0]]
    path.write_text("r,g,b,lon,lat\n1,0,0,20,10\n0,1,0,40,-30\n")
    assert read_points(path, lonlat=True).lonlat.tolist() == [[20, 10], [40, -30]]


@pytest.mark.parametrize("rows", [2, 5, 99, 100, 500])
def test_radians_in_files_of_any_length(tmp_path, rows, rng):
    """Uniform places in radians: a warning; the same places in degrees: none (filterwarnings is error)."""
    radians = np.stack([rng.uniform(-np.pi, np.pi, rows), np.arcsin(rng.uniform(-1, 1, rows))], axis=1)
    radians[0] = 3.0, 1.5
    np.savetxt(tmp_path / "rad.csv", radians, delimiter=",", header="lon,lat", comments="")
    np.savetxt(tmp_path / "deg.csv", np.rad2deg(radians), delimiter=",", header="lon,lat", comments="")
    with pytest.warns(UserWarning, match="as if they were in radians, but degrees are expected"):
        read_points(tmp_path / "rad.csv", lonlat=True)
    assert len(read_points(tmp_path / "deg.csv", lonlat=True)) == rows


def test_named_columns_of_degrees(tmp_path):
    path = write(tmp_path / "a.csv", LONLAT, ["there", "up"])
    assert_array_equal(read_points(path, lonlat=True, columns=["there", "up"]).lonlat, LONLAT)
    path = write(tmp_path / "b.csv", LONLAT, ["lon", "lat"])  # names that say what they are come in any order
    assert_array_equal(read_points(path, lonlat=True, columns=["lat", "lon"]).lonlat, LONLAT)


def test_csv_without_names_loses_no_row(tmp_path):
    path = tmp_path / "a.csv"
    np.savetxt(path, X, delimiter=";", fmt="%.17g")
    assert_array_equal(read_points(path).points, X)
    assert read_points(path).columns == ("0", "1", "2")


def test_text_around_the_columns_does_not_matter(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes('place,lon,lat\n"Aachen, ""old""\ntown",6.08,50.78\nK\xf6ln,6.96,50.94\n'.encode("latin-1"))
    assert read_points(path, lonlat=True).lonlat.tolist() == [[6.08, 50.78], [6.96, 50.94]]


GEOJSON = {
    "type": "FeatureCollection",
    "features": [
        {"type": "Feature", "properties": {"n": 3}, "geometry": {"type": "Point", "coordinates": [20, 10, 500.0]}},
        {
            "type": "Feature",
            "properties": {"n": 1.5},
            "geometry": {"type": "MultiPoint", "coordinates": [[0, 90], [1, -1]]},
        },
    ],
}


def test_geojson(tmp_path):
    path = tmp_path / "a.geojson"
    path.write_text(json.dumps(GEOJSON))
    point_set = read_points(path, weights="n")
    assert point_set.lonlat.tolist() == [[20, 10], [0, 90], [1, -1]]
    assert point_set.weights.tolist() == [3, 1.5, 1.5]
    path.write_text(
        json.dumps({"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [5, 6]}]})
    )
    assert read_points(path).lonlat.tolist() == [[5, 6]]


def test_keys_of_archives(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, points=X, mass=np.arange(50), other=X)
    assert_array_equal(read_points(path, key="points", weights="mass").weights, np.arange(50))


@pytest.mark.parametrize("ending", [".npy", ".csv", ".parquet"])
def test_batches_are_the_file(tmp_path, ending):
    path = write(tmp_path / f"a{ending}", X)
    batches = list(datasets.iter_points(path, batch_rows=7))
    assert max(len(batch) for batch in batches) <= 7
    assert_array_equal(np.concatenate([batch.points for batch in batches]), X)


def test_npy_stays_on_the_disk(tmp_path):
    assert isinstance(read_points(write(tmp_path / "a.npy", X)).points, np.memmap)


def test_row_numbers_do_not_depend_on_batches(tmp_path):
    x = X.copy()
    x[33] = np.nan
    for ending, where in ((".npy", "row 33"), (".parquet", "row 33"), (".csv", "line 35")):
        path = write(tmp_path / f"a{ending}", x)
        with pytest.raises(ValueError, match=rf"a\{ending}, {where}: "):
            list(datasets.iter_points(path, batch_rows=4))


def test_half_precision_is_rounded_to_unit_length(tmp_path):
    point_set = read_points(write(tmp_path / "a.npy", X.astype(np.float16)))
    assert point_set.points.dtype == np.float32
    assert_allclose(np.linalg.norm(point_set.points, axis=1), 1, atol=1e-6)
    assert_allclose(point_set.points, X, atol=2e-3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("10,abc", "line 5: 'lon' is 'abc', not a finite number"),
        ("10,", "line 5: 'lon' is missing"),
        ("10", "line 5: 'lon' is missing"),
        (",", "line 5: 'lon' is missing"),
        ("nan,4", "line 5: 'lat' is 'nan', not a finite number"),
        ("90.5,100", "line 5: the latitude is 90.5, beyond 90 degrees. Fix"),
        ("5,361", "line 5: the longitude is 361, beyond 360 degrees"),
    ],
)
def test_lines_that_are_no_location(tmp_path, line, message):
    """Refused with file and line, the blank and comment lines before it counted; or dropped and counted."""
    path = tmp_path / "a.csv"
    path.write_text(f"# c\nlat,lon\n\n10,120\n{line}\n-30,40\n")
    with pytest.raises(ValueError, match=rf"a\.csv, {message}.*drop_bad=True \(--drop-bad\)\.$"):
        read_points(path, lonlat=True)
    point_set = read_points(path, lonlat=True, drop_bad=True)
    assert point_set.lonlat.tolist() == [[120, 10], [40, -30]]
    assert point_set.dropped == 1


class Trap:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


@pytest.mark.parametrize("ending", [".npy", ".npz", ".pt"])
def test_nothing_is_unpickled(tmp_path, ending):
    path, mark = tmp_path / f"a{ending}", tmp_path / "mark"
    trap = np.array([[Trap(mark)] * 3], dtype=object)
    if ending == ".npy":
        np.save(path, trap)
    elif ending == ".npz":
        np.savez(path, points=trap)
    else:
        pytest.importorskip("torch").save(Trap(mark), path)
    with pytest.raises(ValueError, match="never unpickled"):
        read_points(path)
    path.write_bytes(pickle.dumps(Trap(mark)))
    with pytest.raises(ValueError, match=str(path)):
        read_points(path)
    assert not mark.exists()


@pytest.mark.parametrize("ending", [*ENDINGS, ".geojson"])
def test_empty_truncated_and_foreign_files(tmp_path, ending):
    """Each is refused with its name in one line, at whatever byte it breaks off."""
    path = tmp_path / f"a{ending}"
    if ending == ".geojson":
        path.write_text(json.dumps(GEOJSON))
    else:
        write(path, X)
    whole = path.read_bytes()
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=rf"a\{ending}: is empty"):
        read_points(path)
    parts = [b"\x00\xff\xfe not this format \x00" * 9]
    if ending not in (".csv", ".tsv"):  # text is a table at every length, but for the last row
        parts += [whole[: len(whole) * k // 8] for k in (1, 3, 5, 7)] + [whole[:-1], whole[:5]]
    for part in parts:
        path.write_bytes(part)
        with pytest.raises(ValueError, match=rf"a\{ending}[:,]") as refused:
            read_points(path)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".pt", ".safetensors"])
def test_damaged_files_are_read_or_refused(tmp_path, ending):
    """Whatever bytes are changed, the only error is ours, in one line, with the file's name."""
    rng, path = np.random.default_rng(0), tmp_path / f"a{ending}"
    whole = write(path, X).read_bytes()
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        for index in rng.integers(-200, 200, size=3):
            damaged[index] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_points(path, drop_bad=True, normalize=True)
        except ValueError as error:
            assert str(error).startswith(str(path))
            assert "\n" not in str(error)
            refused += 1
    assert refused > 10


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (np.empty((0, 3)), {}, "there are no rows"),
        (np.ones((4, 1)), {}, "points must have at least 2 coordinates"),
        (np.ones(4), {}, r"the array must have shape \(n, d\), got \(4,\)"),
        (np.eye(3, dtype=np.uint8), {}, "the dtype must be floating, got uint8. Pass normalize"),
        (np.eye(3, dtype=complex), {}, "the dtype must be floating, got complex128"),
        (np.array([["a", "b"]]), {}, "the dtype must be floating, got <U1"),
        (2 * X, {}, r"row 0: has length 2, but points must be unit vectors. Pass normalize=True"),
        (LONLAT, {}, r"Pass lonlat=True \(--lonlat\) if the two columns are a longitude and a latitude, or"),
        (np.zeros((2, 3)), {"normalize": True}, "row 0: is the zero vector"),
        (X, {"columns": [0, 3]}, r"columns: there is no column 3. There are '0', '1', '2'"),
        (X, {"columns": [0, 0]}, "columns must name each column once, got '0', '0'"),
        (X, {"columns": [0, 1], "prefix": "x"}, "prefix"),
        (X, {"lonlat": True}, "it is not clear which of the columns .* are longitude and latitude"),
        (X, {"key": "a"}, "holds a single array, got key='a'"),
    ],
)
def test_arrays_that_are_no_points(tmp_path, array, options, message):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=message):
        read_points(tmp_path / "a.npy", **options)


def test_chosen_columns_of_a_table(tmp_path):
    TABLE.write_parquet(tmp_path / "a.parquet")
    assert read_points(tmp_path / "a.parquet", columns=["x", "y"]).points.tolist() == [[1, 0]]


ARCHIVE = {"points": X, "mass": np.arange(50), "other": X}
TABLE = pl.DataFrame({"x": [1.0], "y": [0.0], "name": ["a"]})
AREA = {"type": "Feature", "properties": None, "geometry": {"type": "Polygon", "coordinates": [[[0, 0]]]}}
PLACES = np.random.default_rng(0).uniform((-180, -90), (180, 90), (40, 2))
SWAPPED = pl.DataFrame(PLACES, schema=["lat", "lon"])


def put(path, content):
    """Write text, bytes, a table, an archive of arrays, or an array."""
    if isinstance(content, str | bytes):
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    elif isinstance(content, pl.DataFrame):
        content.write_csv(path) if path.suffix == ".csv" else content.write_parquet(path)
    elif isinstance(content, dict):
        np.savez(path, **content)
    else:
        np.save(path, content)


def weighted(values):
    return pl.DataFrame({"x": [1.0, 0, 0], "y": [0.0, 1, 1], "w": values})


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.npz", ARCHIVE, {}, r"must hold a single array, got 'points', 'mass', 'other'\. Choose one"),
        ("a.npz", ARCHIVE, {"key": "no"}, "key: there is no array 'no'"),
        ("a.npz", {"points": X[:3], "mass": np.arange(50)}, {"weights": "mass"},
         r"weights 'mass' must be numbers of shape \(3,\), got .* shape \(50,\)"),
        ("a.npy", np.full((4, 3), np.longdouble("1e4000")), {"normalize": True},
         r"a\.npy, row 0: holds NaN or infinity"),
        ("a.parquet", TABLE, {}, r"column 'name' must contain numbers, got type String\. Choose"),
        ("a.parquet", TABLE, {"prefix": "e_"}, r"no column begins with 'e_'\. There are 'x', 'y', 'name'"),
        ("a.parquet", TABLE, {"weights": "w"}, "weights: there is no column 'w'"),
        ("a.parquet", SWAPPED, {"normalize": True}, r"look like longitudes and latitudes\. Pass lonlat=True"),
        ("a.parquet", pl.DataFrame({"embedding": [[1.0, 0, 0], [0, 1, None], [0, 0, 1]]}), {}, "row 1: .*embedding"),
        ("a.csv", SWAPPED, {"lonlat": True}, r"a.csv, line \d+: the latitude is .*If the columns are swapped"),
        ("a.csv", SWAPPED, {"lonlat": True, "drop_bad": True}, "latitudes are beyond 90 .* seem to be swapped"),
        ("a.csv", weighted([1, -2, 3]), {"weights": "w"}, "line 3: the weight is -2, but weights cannot be negative"),
        ("a.csv", weighted([1, None, 3]), {"weights": "w"}, "line 3: 'w' is missing"),
        ("a.csv", weighted([0, 0, 0]), {"weights": "w"}, "all weights in 'w' are zero"),
        ("a.csv", pl.DataFrame(X).write_csv()[:-45], {}, r"a\.csv, line 51: "),
        ("a.csv", "x,y\n1,0\n# c\n0,1,5\n", {}, r"a\.csv, line 4: has 3 fields, but the first line has 2"),
        ("a.csv", "# nothing\n", {}, r"a\.csv: there are no rows in it"),
        ("a.csv", "x,y\n", {}, r"a\.csv: there are no rows in it"),
        ("a.csv", "x,y\n\n\n", {}, r"a\.csv: there are no rows in it"),
        ("a.csv", "x,y\na,b\n", {"drop_bad": True}, r"there are no rows in it except 1 bad one\."),
        ("a.csv.gz", gzip.compress(b"x,y\n1,0\n0,one\n", mtime=0), {}, r"a\.csv\.gz, line 3"),  # of the text
        ("a.txt", "1 0 0\n0 1 0\n", {}, r"separated by commas, semicolons or tabs\), got '\.txt'"),
        ("a.xlsx", "x", {}, "the type of the file must be one of .npy.*, got '.xlsx'"),
        ("a.geojson", json.dumps({"type": "FeatureCollection", "features": [GEOJSON["features"][0], AREA]}), {},
         "feature 1: the geometry must be a Point or MultiPoint, got 'Polygon'"),
        ("a.geojson", '{"type": "FeatureCollection", "features": []}', {}, "there are no rows"),
        ("a.geojson", '{"type": "Feature", "geometry": null}', {}, "feature 0: has no longitude and latitude"),
        ("a.geojson", '{"type": "Point", "coordinates": ["a", 1]}', {}, "feature 0: has no longitude and latitude"),
        ("a.geojson", '{"type": "Point", "coordinates": [100, 95]}', {}, "feature 0: the latitude is 95"),
        ("a.geojson", "[1, 2]", {}, "not GeoJSON"),
    ],
)  # fmt: skip
def test_files_that_are_no_points(tmp_path, name, content, options, message):
    put(tmp_path / name, content)
    with pytest.raises(ValueError, match=message):
        read_points(tmp_path / name, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda folder: read_points(folder / "none.npy"), FileNotFoundError, r"none\.npy"),
        (lambda folder: read_points(folder), IsADirectoryError, "holds no files of points"),
        (lambda folder: read_points(folder / "x*.csv"), ValueError, r"x\*\.csv: no file matches this pattern"),
        (lambda _: read_points("a.csv", columns="x,y"), TypeError,
         "columns must be a list of names or numbers, got the string 'x,y'"),
        (lambda _: read_points("a.csv", columns=[]), ValueError,
         "columns must name at least two columns, got an empty list"),
        (lambda _: datasets.iter_points("a.csv", batch_rows=0), ValueError, "batch_rows: .*, got 0"),
    ],
)  # fmt: skip
def test_bad_arguments(tmp_path, call, error, message):
    with pytest.raises(error, match=message):
        call(tmp_path)


def test_parquet_half_precision(tmp_path):
    x = sphere.random_uniform(50, 3, seed=0).astype(np.float16)
    path = tmp_path / "half.parquet"
    pl.DataFrame({name: x[:, k] for k, name in enumerate("xyz")}).write_parquet(path)
    point_set = read_points(path).points
    np.testing.assert_allclose(point_set, sphere.normalize(x.astype(np.float64)), atol=1e-3)


def test_table_that_ends_early_is_refused(tmp_path, monkeypatch):
    """A reader's thread that fails over a damaged page ends the batches without an error."""
    path = tmp_path / "x.feather"
    pl.DataFrame(np.tile(X, (4, 1)), schema=["x", "y", "z"]).write_ipc(path)
    whole = pl.LazyFrame.collect_batches
    short = lambda frame, **_: iter(list(whole(frame, chunk_size=10))[:-1])  # noqa: E731
    monkeypatch.setattr(pl.LazyFrame, "collect_batches", short)
    with pytest.raises(ValueError, match=r"only .* can be read. It seems to be damaged"):
        read_points(path)


# ---- compressed files, blank lines ----


@pytest.mark.parametrize("ending", [".csv", ".geojson", ".npy", ".parquet", ".gz"])
@pytest.mark.parametrize(
    ("name", "compress"), [("gzip", gzip.compress), ("bzip2", bz2.compress), ("xz", lzma.compress)]
)
def test_compressed_files_are_named(tmp_path, ending, name, compress):
    path = tmp_path / f"a{ending}"
    path.write_bytes(compress(b"x,y\n1,0\n"))
    with pytest.raises(ValueError, match=rf"a\{ending}: is compressed with {name}\. Unpack it first\.$"):
        read_points(path)


def test_zip_inside_csv(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.csv", "w") as archive:
        archive.writestr("sheet.xml", "x")
    with pytest.raises(ValueError, match=r"a\.csv: is compressed with zip"):
        read_points(tmp_path / "a.csv")


@pytest.mark.parametrize("before", ["\n", "\r\n\r\n", "  \t \n", "# c\n\n", "\n# c\n \n", "\ufeff\n"])
@pytest.mark.parametrize("names", ["lat,lon", None])
def test_blank_lines_before_the_table(tmp_path, before, names):
    """They are skipped, and counted where a line is named."""
    path = tmp_path / "a.csv"
    options = {"lonlat": True, "columns": None if names else [1, 0]}
    table = f"{names}\n10,20\n   \n-30,40\n" if names else "10,20\n   \n-30,40\n"
    path.write_text(before + table, newline="")
    assert read_points(path, **options).lonlat.tolist() == [[20, 10], [40, -30]]
    path.write_text(f"{before}{table}50,x\n", newline="")
    line = before.count("\n") + table.count("\n") + 1
    with pytest.raises(ValueError, match=rf"a\.csv, line {line}: .* is 'x'"):
        read_points(path, **options)


# ---- files that declare more than they hold ----


def header(shape, dtype="<f8", fortran=False):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": fortran, "shape": shape})
    return stream.getvalue()


def save_repeated(path, rows, fortran=False):
    """An archive of `rows` times the point (1, 0, 0), deflated to a thousandth."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as member:
        member.write(header((rows, 3), fortran=fortran))
        block = np.tile([1.0, 0.0, 0.0], (50_000, 1)).tobytes()
        for _ in range(rows // 50_000):
            member.write(block)
    return path


@pytest.mark.parametrize("fortran", [False, True])
def test_small_archive_with_a_large_array(tmp_path, fortran):
    """Refused before it is read; in parts, it is read."""
    path = save_repeated(tmp_path / "a.npz", 12_000_000, fortran)
    with pytest.raises(ValueError, match=r"a\.npz: a\.npy needs 288 MB in memory, more than 100 times its .* in parts"):
        read_points(path)
    if fortran:
        with pytest.raises(ValueError, match=r"a\.npy needs 288 MB"):
            read_points(path, max_points=5)
    else:
        part = read_points(path, max_points=5)
        assert part.points.tolist() == [[1, 0, 0]] * 5
        assert part.total == 12_000_000


@pytest.mark.parametrize(("shape", "dtype"), [((10**9, 3), "<f8"), ((49, 3), "<f8"), ((50, 3), "<f4")])
def test_archive_whose_header_does_not_fit(tmp_path, shape, dtype):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", header(shape, dtype) + X.tobytes())
    with pytest.raises(ValueError, match=r"a\.npz: is not a .npz archive.*needs \d+ bytes, but there are 1200\)"):
        read_points(tmp_path / "a.npz")


def test_archive_in_fortran_order_and_with_weights(tmp_path):
    np.savez(tmp_path / "a.npz", points=np.asfortranarray(X), mass=np.arange(50))
    batches = list(datasets.iter_points(tmp_path / "a.npz", key="points", weights="mass", batch_rows=7))
    assert_array_equal(np.concatenate([batch.points for batch in batches]), X)
    assert_array_equal(np.concatenate([batch.weights for batch in batches]), np.arange(50))


def test_parquet_of_few_bytes_and_many_rows(tmp_path):
    path = tmp_path / "a.parquet"
    column = pl.repeat(1.0, 40_000_000, dtype=pl.Float32, eager=True)
    pl.DataFrame({"x": column, "y": 0 * column}).write_parquet(path, statistics=False)
    with pytest.raises(ValueError, match=r"a\.parquet: the table needs 320 MB in memory, more than 100 times"):
        read_points(path)
    assert next(datasets.iter_points(path)).points[0].tolist() == [1, 0]


def test_tensor_that_repeats_its_values(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    torch.save(torch.eye(3)[:1].expand(10**9, 3), path)
    with pytest.raises(ValueError, match=r"a\.pt: the tensor needs 12,000 MB in memory, more than 100 times"):
        read_points(path)
    torch.save(torch.eye(3)[:1].expand(1000, 3), path)
    assert read_points(path).points.tolist() == [[1, 0, 0]] * 1000
    torch.save(torch.sparse_coo_tensor([[0], [0]], [1.0], (10**9, 3), check_invariants=True), path)
    with pytest.raises(ValueError, match=r"a\.pt: the tensor needs 12,000 MB in memory"):
        read_points(path, max_points=3)


# ---- tensors of other kinds ----


def test_tensors_that_are_no_arrays_of_numbers(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    for tensor in (
        torch.eye(3).to(torch.float8_e4m3fn),
        torch.eye(3).to(torch.float8_e5m2),
        torch.empty(4, 3, device="meta"),
    ):
        for content, name in ((tensor, "the tensor"), ({"e": tensor}, "'e'")):
            torch.save(content, path)
            with pytest.raises(ValueError, match=rf"a\.pt: {name} has dtype torch\.\w+, .*\.cpu\(\)\.float\(\)\.$"):
                read_points(path)


def test_keys_that_are_no_text(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    torch.save({0: torch.tensor(X), 1: torch.arange(50.0)}, path)
    point_set = read_points(path, key="0", weights="1")
    assert_array_equal(point_set.points, X)
    assert_array_equal(point_set.weights, np.arange(50))
    torch.save({0: torch.tensor(X), "0": torch.tensor(X)}, path)
    with pytest.raises(ValueError, match=r"a\.pt: two keys are written '0'"):
        read_points(path, key="0")


def test_safetensors_of_other_kinds(tmp_path):
    torch = pytest.importorskip("torch")
    save = pytest.importorskip("safetensors.torch").save_file
    path = tmp_path / "a.safetensors"
    save({"e": torch.eye(3).to(torch.float8_e4m3fn)}, path)
    with pytest.raises(ValueError, match=r"a\.safetensors: 'e' must contain numbers, got dtype F8_E4M3"):
        read_points(path)
    save({"e": torch.tensor(X).to(torch.bfloat16)}, path)
    assert_allclose(read_points(path).points, X, atol=5e-3)


# ---- numbers at the ends of what there is ----


@pytest.mark.parametrize("digits", [400, 5000])
def test_geojson_with_huge_integers(tmp_path, digits):
    path = tmp_path / "a.geojson"
    point = '{"type": "Point", "coordinates": [%s, 10]}'
    path.write_text(point % ("1" + "0" * digits))
    with pytest.raises(ValueError, match=r"a\.geojson, feature 0: has no longitude and latitude"):
        read_points(path)
    feature = '{"type": "Feature", "properties": {"n": %s, "other": %s}, "geometry": %s}'
    path.write_text(feature % (3, "9" * digits, point % 20))
    assert read_points(path, weights="n").weights.tolist() == [3]


def test_misaligned_arrays_are_copied(tmp_path):
    """A header of an odd length puts the numbers where the kernel must not read them."""
    path = tmp_path / "a.npy"
    whole = header(X.shape)
    text = whole[10:].rstrip() + b"\n"
    text = text if (10 + len(text)) % 8 else b" " + text
    path.write_bytes(whole[:8] + len(text).to_bytes(2, "little") + text + X.tobytes())
    assert not np.load(path, mmap_mode="r").flags.aligned
    point_set = read_points(path).points
    assert point_set.flags.aligned
    assert_array_equal(point_set, X)


# ---- tables of other kinds ----


def other_tables(folder):
    """The points X with a column of days, as files of several kinds."""
    days = np.array(["mon", "tue"])[np.arange(50) % 2]
    frame = pl.DataFrame(X, schema=["x", "y", "z"]).with_columns(day=pl.Series(days))
    frame.write_ipc(folder / "a.feather")
    frame.write_ndjson(folder / "a.jsonl")
    (folder / "a.csv.gz").write_bytes(gzip.compress(frame.write_csv().encode()))
    frame.write_parquet(folder / "parts", partition_by="day")
    return [folder / name for name in ("a.feather", "a.jsonl", "a.csv.gz", "parts")]


def test_tables_of_other_kinds(tmp_path):
    """Feather, JSON Lines, compressed CSV, and a folder of Parquet files whose keys are columns."""
    for path in other_tables(tmp_path):
        order = np.argsort(np.arange(50) % 2, kind="stable") if path.is_dir() else np.arange(50)
        point_set = read_points(path, columns=["x", "y", "z"], labels=["day"])
        assert_allclose(point_set.points, X[order], atol=1e-15)
        assert point_set.labels["day"].tolist() == np.array(["mon", "tue"])[order % 2].tolist()
        batches = list(datasets.iter_points(path, columns=["x", "y", "z"], batch_rows=7))
        assert_allclose(np.concatenate([batch.points for batch in batches]), X[order], atol=1e-15)
        few = read_points(path, columns=["x", "y", "z"], max_points=5, seed=1).points
        assert few.shape == (5, 3)
        assert_array_equal(few, read_points(path, columns=["x", "y", "z"], max_points=5, seed=1).points)


def test_lists_in_json_lines_and_feather(tmp_path):
    frame = pl.DataFrame({"id": range(50), "embedding": X.tolist()})
    frame.write_ndjson(tmp_path / "a.jsonl")
    frame.write_ipc(tmp_path / "a.arrow")
    for name in ("a.jsonl", "a.arrow"):
        assert_allclose(read_points(tmp_path / name).points, X, atol=1e-15)


@pytest.mark.parametrize("names", [("decimalLongitude", "decimalLatitude"), ("Laenge", "Breite"), ("RA", "Dec")])
def test_names_of_longitude_and_latitude(tmp_path, names):
    pl.DataFrame(LONLAT, schema=list(names)).write_csv(tmp_path / "a.csv")
    assert_allclose(read_points(tmp_path / "a.csv", lonlat=True).points, sphere.from_lonlat(LONLAT))


# ---- folders and patterns: several files as one sample ----


def parts(folder, ending, count=3):
    """X in files whose names are not in the order of the alphabet."""
    folder.mkdir()
    for k, rows in enumerate(np.array_split(X, count)):
        name = folder / f"part{5 * k + 5}{ending}"  # 5, 10, 15
        frame = pl.DataFrame(rows, schema=["x", "y", "z"])
        if ending == ".csv.gz":
            name.write_bytes(gzip.compress(frame.write_csv().encode()))
        elif ending == ".jsonl":
            frame.write_ndjson(name)
        elif ending == ".feather":
            frame.write_ipc(name)
        else:
            write(name, rows)
    return folder


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".jsonl", ".feather", ".npy", ".parquet", ".npz"])
def test_folder_and_pattern(tmp_path, ending):
    """The rows of all files in the natural order of names, whole, in batches and as a random choice."""
    folder = parts(tmp_path / "parts", ending)
    (folder / "notes.txt").write_text("no points")
    (folder / "settings.json").write_text("{}")
    (folder / ".hidden.npy").write_text("no points")
    (folder / "_log").mkdir()
    (folder / "_log" / "0.csv").write_text("no points")
    for path in (folder, tmp_path / "p*" / f"part*{ending}", str(tmp_path / "**" / f"part*{ending}")):
        point_set = read_points(path)
        assert_allclose(point_set.points, X, atol=1e-15)
        assert (point_set.n_files, point_set.total, str(point_set.path)) == (3, 50, str(path))
        batches = list(datasets.iter_points(path, batch_rows=7))
        assert_allclose(np.concatenate([batch.points for batch in batches]), X, atol=1e-15)
        assert [batch.path.name for batch in batches][-1] == f"part15{ending}"
        few = read_points(path, max_points=5, seed=1)
        assert few.total == 50
        assert all(np.abs(X - row).max(axis=1).min() < 1e-15 for row in few.points)
        assert_array_equal(few.points, read_points(folder, max_points=5, seed=1).points)


def test_folders_that_are_no_sample(tmp_path):
    folder = parts(tmp_path / "parts", ".csv")
    write(folder / "a.parquet", X)
    with pytest.raises(ValueError, match=r"parts: .* the same format, got \.csv, \.parquet\..*/\*\.\w+'\.$"):
        read_points(folder)
    assert len(read_points(folder / "*.csv")) == 50
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "README.md").write_text("x")
    with pytest.raises(IsADirectoryError, match=r"holds no files of points \(\.npy"):
        read_points(tmp_path / "none")


def test_files_of_one_sample_agree(tmp_path):
    """The same columns in another order are the same points; other columns, or another dimension, are an error."""
    write(tmp_path / "a1.csv", X)
    write(tmp_path / "a2.csv", X[:, [2, 0, 1]], names=("z", "x", "y"))
    assert_allclose(read_points(tmp_path / "a*.csv").points, np.concatenate([X, X]), atol=1e-15)
    np.save(tmp_path / "b1.npy", X)
    np.save(tmp_path / "b2.npy", X.astype(np.float32))
    joined = read_points(tmp_path / "b*.npy").points
    assert joined.dtype == np.float64


@pytest.mark.parametrize(
    ("ending", "contents", "message"),
    [
        (".csv", [pl.DataFrame(X, schema=["x", "y", "z"]), pl.DataFrame(X, schema=["x", "y", "up"])],
         r"1\.csv: has the columns 'x', 'y', 'up', but .*0\.csv has 'x', 'y', 'z'"),
        (".npy", [X, np.eye(4)], r"1\.npy: .*'0', '1', '2', '3'"),
        (".parquet", [pl.DataFrame({"e": np.eye(3)}), pl.DataFrame({"e": np.eye(4)})],
         r"1\.parquet: points have dimension 4, but points of .*0\.parquet have 3"),
    ],
)  # fmt: skip
def test_files_of_one_sample_that_differ(tmp_path, ending, contents, message):
    for k, content in enumerate(contents):
        put(tmp_path / f"{k}{ending}", content)
    with pytest.raises(ValueError, match=message):
        read_points(tmp_path / f"*{ending}")


def test_bad_row_in_a_folder_names_its_file(tmp_path):
    folder = parts(tmp_path / "parts", ".csv")
    (folder / "part10.csv").write_text("x,y,z\n1,0,0\n0,one,0\n")
    with pytest.raises(ValueError, match=r"part10\.csv, line 3: 'y' is 'one'"):
        read_points(folder)
    assert read_points(folder, drop_bad=True).dropped == 1


def test_keys_of_partitioned_tables(tmp_path):
    """Of CSV files too, of a single file, and with a value for rows that have none."""
    for value in ("mon", "a%20b", "__HIVE_DEFAULT_PARTITION__"):
        folder = tmp_path / "table" / f"day={value}"
        folder.mkdir(parents=True)
        write(folder / "x.csv", X[:2])
    labels = read_points(tmp_path / "table", labels=["day"]).labels["day"].tolist()
    assert sorted(labels, key=str) == [None, None, "a b", "a b", "mon", "mon"]
    assert read_points(tmp_path / "table" / "day=mon" / "x.csv", labels=["day"]).labels["day"].tolist() == ["mon"] * 2
    with pytest.raises(ValueError, match=r"there is no column 'week' .*\. There are 'x', 'y', 'z', 'day'"):
        read_points(tmp_path / "table", labels=["week"])


# ---- tables in .txt files ----


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_text_files_with_separators(tmp_path, separator):
    path = tmp_path / "occurrence.txt"
    frame = pl.DataFrame({"id": [1, 2, 3], "decimalLatitude": LONLAT[:, 1], "decimalLongitude": LONLAT[:, 0]})
    frame.write_csv(path, separator=separator)
    assert_allclose(read_points(path, lonlat=True).points, sphere.from_lonlat(LONLAT))


def test_quotes_in_tab_separated_values(tmp_path):
    """GBIF writes no quotes around fields, so that one in a text is a character; R writes them everywhere."""
    path = tmp_path / "occurrence.txt"
    places = ['"Cabo" Frio', '"open', 'end"']
    rows = [f"{place}\t{lat}\t{lon}\n" for place, (lon, lat) in zip(places, LONLAT, strict=True)]
    path.write_text("locality\tdecimalLatitude\tdecimalLongitude\n" + "".join(rows))
    point_set = read_points(path, lonlat=True, labels=["locality"])
    assert_allclose(point_set.lonlat, LONLAT)
    assert point_set.labels["locality"].tolist() == places
    path.write_text(path.read_text() + '"\tx\t0\n')
    with pytest.raises(ValueError, match=r"occurrence\.txt, line 5: 'decimalLatitude' is 'x'"):
        read_points(path, lonlat=True)
    (tmp_path / "r.tsv").write_text('"place"\t"lat"\t"lon"\n"a\tb"\t10\t20\n')
    assert_allclose(read_points(tmp_path / "r.tsv", lonlat=True).lonlat, [[20, 10]])
    (tmp_path / "q.tsv").write_text('lat\tlon\n"10"\t"20"\n')
    assert_allclose(read_points(tmp_path / "q.tsv", lonlat=True).lonlat, [[20, 10]])
