"""The named data sets: sizes, splits, checksums, the cache, downloads, and what is said when nothing works."""

import csv
import functools
import hashlib
import http.server
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("polars")
pytest.importorskip("pooch")

from sphereot import datasets
from sphereot.datasets import earth

FOLDER = os.environ.get("SPHEREOT_DATA", "")
needs_data = pytest.mark.skipif(not Path(FOLDER, "earth").is_dir(), reason="SPHEREOT_DATA names no folder with earth/")
# Sizes of data, train and test sets as in the paper's table; the paper has no volcanoes.
SIZES = {
    "earthquake": (6120, 4284, 1836),
    "flood": (4875, 3412, 1463),
    "fire": (12809, 8966, 3843),
    "volcano": (827, 578, 249),
}


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No data folder, an empty cache, and no network."""
    monkeypatch.delenv("SPHEREOT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for scheme in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(scheme, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path


@pytest.fixture
def server(tmp_path):
    """A folder, the address under which it is served, and the requests that came."""
    folder, requests = tmp_path / "served", []
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            requests.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_port}", requests
        running.shutdown()
        thread.join()


@needs_data
@pytest.mark.parametrize("name", datasets.NAMES)
def test_sizes_are_the_papers(name):
    data = datasets.load(name)
    train, test = data.split(seed=0)
    assert (len(data), len(train), len(test)) == SIZES[name]
    assert data.points.shape == (SIZES[name][0], 3)


@needs_data
@pytest.mark.parametrize("name", datasets.NAMES)
def test_locations_are_those_of_the_file(name):
    """Against Python's csv module, with the comment lines, blanks and line ends of the files taken care of by hand."""
    with Path(FOLDER, earth._RECORDS[name].file).open(newline="") as file:
        lines = [line.strip() for line in file if not line.startswith("#")]
    rows = [[float(field) for field in row] for row in csv.reader(lines[1:])]
    data = datasets.load(name)
    assert_allclose(data.lonlat[:, ::-1], rows, rtol=0, atol=0)
    lon, lat = np.radians(data.lonlat).T
    assert_allclose(data.points, np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], 1))


def locations(n):
    rng = np.random.default_rng(0)
    return datasets.EarthData("test", np.stack([rng.uniform(-180, 180, n), rng.uniform(-90, 90, n)], 1), "made up")


def test_a_split_is_a_partition_that_follows_its_seed():
    data = locations(100)
    train, test = data.split(seed=3)
    both = np.concatenate([train.lonlat, test.lonlat])
    assert sorted(map(tuple, both)) == sorted(map(tuple, data.lonlat))
    assert np.array_equal(data.split(3).test.lonlat, test.lonlat)
    assert not np.array_equal(data.split(4).test.lonlat, test.lonlat)
    assert test.name == "test"


@pytest.mark.parametrize(("n", "share", "expected"), [(10, 0.3, 3), (6120, 0.3, 1836), (4875, 0.3, 1463), (7, 0.5, 4)])
def test_size_of_the_test_set_is_rounded_up_but_not_by_rounding_errors(n, share, expected):
    assert len(locations(n).split(0, test_size=share).test) == expected


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        *((10, {"test_size": share}, "test_size must be strictly between 0 and 1, got")
          for share in (0, 1, -0.1, float("nan"), "0.3")),
        (2, {"test_size": 0.9}, "must not leave an empty training set of 2 locations"),
        (10, {"by": "place"}, "by must be 'row' or 'location', got 'place'"),
    ],
)  # fmt: skip
def test_bad_splits(n, options, message):
    with pytest.raises(ValueError, match=message):
        locations(n).split(0, **options)


def test_a_split_by_location_has_no_location_in_both_parts():
    lonlat = np.repeat(np.random.default_rng(0).uniform(-80, 80, size=(50, 2)), np.arange(50) % 4 + 1, axis=0)
    data = datasets.EarthData("flood", lonlat, "test")
    train, test = data.split(3, by="location")
    locations_of = [set(map(tuple, part.lonlat)) for part in (train, test)]
    assert not locations_of[0] & locations_of[1]
    assert [len(part) for part in locations_of] == [35, 15]
    assert sorted(map(tuple, np.concatenate([train.lonlat, test.lonlat]))) == sorted(map(tuple, lonlat))
    by_row = [set(map(tuple, part.lonlat)) for part in data.split(3)]
    assert by_row[0] & by_row[1]
    distinct = locations(20)
    assert len(distinct.split(0, by="location").test) == 6


def test_splits_by_row_are_those_of_version_0_1():
    """Results of earlier runs stay comparable: the numbers of a permutation, sorted."""
    data = locations(12)
    order = np.random.default_rng(7).permutation(12)
    train, test = data.split(7)
    assert np.array_equal(test.lonlat, data.lonlat[np.sort(order[:4])])
    assert np.array_equal(train.lonlat, data.lonlat[np.sort(order[4:])])


def test_unknown_name():
    with pytest.raises(ValueError, match="name must be one of earthquake, flood, fire, volcano, got 'quake'"):
        datasets.load("quake")


TEXT = b"# made up\r\nlat, lon\r\n10,20\r\n-30,40\r\n"
SHA = hashlib.sha256(TEXT).hexdigest()


def test_download_is_checked_cached_and_read(nowhere, server, monkeypatch):
    folder, url, requests = server
    (folder / "fire.csv").write_bytes(TEXT)
    monkeypatch.setitem(earth._RECORDS, "fire", earth._Record("earth/fire.csv", f"{url}/fire.csv", SHA, "us"))
    assert datasets.load("fire").lonlat.tolist() == [[20, 10], [40, -30]]
    assert datasets.load("fire").source == "us"
    assert len(requests) == 1
    cached = datasets.cache_folder() / "earth" / "fire.csv"
    assert cached.read_bytes() == TEXT
    assert os.listdir(cached.parent) == ["fire.csv"]
    cached.write_bytes(b"broken")  # a cache that something has damaged is filled anew
    assert len(datasets.load("fire")) == 2
    assert len(requests) == 2


def test_download_with_a_wrong_checksum_is_refused_and_not_kept(nowhere, server):
    folder, url, _ = server
    (folder / "fire.csv").write_bytes(TEXT[:-5])
    with pytest.raises(ValueError, match=rf"{url}/fire.csv: the sha256 must be {SHA[:16]}..., got \w+...; the down"):
        earth.fetch("earth/fire.csv", f"{url}/fire.csv", SHA)
    assert os.listdir(datasets.cache_folder() / "earth") == []


def test_neither_file_nor_network(nowhere, server):
    message = r"fire.csv: is neither in SPHEREOT_DATA \(not set\) nor in .*cannot be downl"
    with pytest.raises(OSError, match=message) as no:
        datasets.load("fire")
    assert "set SPHEREOT_DATA" in str(no.value)
    assert "raw.githubusercontent.com" in str(no.value)
    with pytest.raises(OSError, match="File not found"):
        earth.fetch("earth/fire.csv", f"{server[1]}/fire.csv", SHA)
    assert os.listdir(datasets.cache_folder() / "earth") == []


def test_a_folder_of_ones_own(nowhere, monkeypatch):
    own = nowhere / "own"
    own.mkdir()
    (own / "fire.csv").write_bytes(TEXT)
    monkeypatch.setenv("SPHEREOT_DATA", str(own))
    assert earth.fetch("earth/fire.csv", "http://127.0.0.1:9/", SHA) == own / "fire.csv"
    message = r"own/fire.csv: the sha256 must be .*put the right file there, or unset SPHEREOT_DATA"
    with pytest.raises(ValueError, match=message):
        datasets.load("fire")
    with pytest.raises(OSError, match=r"flood.csv: is neither in SPHEREOT_DATA \(.*own\)"):
        datasets.load("flood")
    monkeypatch.setenv("SPHEREOT_DATA", str(nowhere / "missing"))
    with pytest.raises(OSError, match=r"SPHEREOT_DATA: there is no folder .*missing. Correct or unset"):
        datasets.load("fire")


@pytest.mark.parametrize(
    ("platform", "variable", "value", "expected"),
    [
        ("linux", "XDG_CACHE_HOME", "/somewhere", "/somewhere/sphereot"),
        ("linux", "XDG_CACHE_HOME", "relative", "/home/me/.cache/sphereot"),
        ("darwin", "XDG_CACHE_HOME", "/somewhere", "/home/me/Library/Caches/sphereot"),
        ("win32", "LOCALAPPDATA", "/local", "/local/sphereot"),
    ],
)
def test_cache_folder_follows_the_platform(platform, variable, value, expected, monkeypatch):
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv(variable, value)
    assert datasets.cache_folder().as_posix() == expected


# ---- downloads that a server leads astray ----


@pytest.fixture
def odd_server():
    """An address that redirects to what its query names, or sends a byte at a time, in the body or in the headers."""
    ended = threading.Event()

    class Odd(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            kind, _, target = self.path[1:].partition("?")
            if kind == "redirect":
                self.send_response(302)
                self.send_header("Location", target)
                self.end_headers()
                return
            if kind == "body":
                self.send_response(200)
                self.end_headers()
            else:
                self.wfile.write(b"HTTP/1.0 200 OK\r\nX-Odd: ")
            while not ended.wait(0.02):
                try:
                    self.wfile.write(b"x")
                except OSError:
                    return

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Odd) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        ended.set()
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("target", ["ftp://127.0.0.1:9/fire.csv", "file:///etc/hostname", "data:text/plain,x"])
def test_only_web_addresses_are_followed(nowhere, odd_server, target):
    with pytest.raises(ConnectionError, match=r"fire\.csv: .*cannot be downloaded from http://127") as refused:
        earth.fetch("earth/fire.csv", f"{odd_server}/redirect?{target}", SHA)
    assert f"No connection adapters were found for '{target}" in str(refused.value)
    with pytest.raises(ConnectionError, match=r"fire\.csv: .*\(No connection adapters were found"):
        earth.fetch("earth/fire.csv", target, SHA)
    assert os.listdir(datasets.cache_folder() / "earth") == []


def test_redirects_between_web_addresses_are_followed(nowhere, server, odd_server):
    folder, url, _ = server
    (folder / "fire.csv").write_bytes(TEXT)
    assert earth.fetch("earth/fire.csv", f"{odd_server}/redirect?{url}/fire.csv", SHA).read_bytes() == TEXT


@pytest.mark.parametrize("part", ["body", "headers"])
def test_a_download_has_a_limit_of_time(nowhere, odd_server, monkeypatch, part):
    """Each byte comes in time, but the last never does."""
    monkeypatch.setattr(earth, "_TOTAL_SECONDS", 0.3)
    began = time.monotonic()
    with pytest.raises(ConnectionError, match=r"fire\.csv: .*\(it needs more than 0\.3 seconds\)"):
        earth.fetch("earth/fire.csv", f"{odd_server}/{part}", SHA)
    assert time.monotonic() - began < 10
    assert os.listdir(datasets.cache_folder() / "earth") == []
