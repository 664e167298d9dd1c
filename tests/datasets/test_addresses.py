"""Points at addresses, in the file systems of fsspec that need no network: memory, and this machine's own."""

import io
from pathlib import Path

import numpy as np
import pytest

from sphereot import datasets
from sphereot.datasets.addresses import (
    address_of,
    expand_patterns,
    files_at,
    is_pattern,
    local_copy,
    size_and_version,
)
from sphereot.sphere import normalize

fsspec = pytest.importorskip("fsspec")

POINTS = normalize(np.random.default_rng(0).normal(size=(50, 4)))


@pytest.fixture
def memory():
    """A folder in memory with three files of points."""
    system = fsspec.filesystem("memory")
    for number in (1, 2, 10):
        content = io.BytesIO()
        np.save(content, POINTS[: 5 * number])
        system.pipe(f"/bucket/day{number}.npy", content.getvalue())
    yield system
    system.rm("/bucket", recursive=True)


def test_points_at_an_address(memory):
    for kind in (str, Path):
        points = datasets.read_points(kind("memory://bucket/day10.npy"))
        np.testing.assert_array_equal(points.points, POINTS)
        assert not isinstance(points.points, np.memmap)  # the copy is gone
        assert address_of(points.path) == "memory://bucket/day10.npy"
    batches = list(datasets.iter_points("memory://bucket/day10.npy", batch_rows=20))
    np.testing.assert_array_equal(np.concatenate([batch.points for batch in batches]), POINTS)
    chosen = datasets.read_points("memory://bucket/day10.npy", max_points=7, seed=1).points
    assert len(chosen) == 7


def test_folder_at_an_address(memory, tmp_path):
    polars = pytest.importorskip("polars")
    for day in ("2026-03-01", "2026-03-02"):
        content = io.BytesIO()
        polars.DataFrame({"embedding": POINTS.tolist()}).write_parquet(content)
        memory.pipe(f"/bucket/table/day={day}/part-0.parquet", content.getvalue())
    points = datasets.read_points("memory://bucket/table", columns=["embedding"], labels=["day"])
    assert points.points.shape == (100, 4)
    assert set(points.labels["day"]) == {"2026-03-01", "2026-03-02"}


def test_several_files_at_an_address(memory):
    """A pattern is one sample; each file is copied when it is read, and none is left."""
    points = datasets.read_points("memory://bucket/day*.npy")
    np.testing.assert_array_equal(points.points, np.concatenate([POINTS[:5], POINTS[:10], POINTS]))
    assert (points.n_files, address_of(points.path)) == (3, "memory://bucket/day*.npy")
    np.testing.assert_array_equal(datasets.read_points("memory://bucket").points, points.points)
    first, *_ = datasets.iter_points("memory://bucket/day*.npy")
    assert address_of(first.path) == "memory://bucket/day1.npy"
    chosen = [datasets.read_points(f"memory://bucket{name}", max_points=7).points for name in ("", "/day*.npy")]
    np.testing.assert_array_equal(*chosen)
    memory.pipe("/bucket/day3.npy", b"no array")
    with pytest.raises(ValueError, match=r"^memory://bucket/day3\.npy: "):
        datasets.read_points("memory://bucket/day*.npy")


def test_question_mark_begins_the_query_of_a_web_address():
    address = Path("https://example.org/quakes.csv?format=csv")
    assert not is_pattern(address)
    assert expand_patterns([address]) == [address]
    assert files_at(address) is None


def test_file_scheme_and_patterns(memory, tmp_path):
    np.save(tmp_path / "a.npy", POINTS)
    assert len(datasets.read_points(f"file://{tmp_path}/a.npy")) == 50
    found = expand_patterns([Path("memory://bucket/day*.npy"), tmp_path / "*.npy"])
    assert [path.name for path in found] == ["day1.npy", "day2.npy", "day10.npy", "a.npy"]
    assert address_of(found[0]) == "memory://bucket/day1.npy"
    with pytest.raises(ValueError, match=r"b\*\.npy: no file matches this pattern"):
        expand_patterns([tmp_path / "b*.npy"])


def test_file_with_a_star_in_its_name(tmp_path):
    odd = tmp_path / "a[1].npy"
    np.save(odd, POINTS)
    assert expand_patterns([odd]) == [odd]


def test_parquet_file_with_a_star_in_its_name(tmp_path):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(POINTS, schema=[f"c{k}" for k in range(POINTS.shape[1])])
    frame.write_parquet(tmp_path / "a[1].parquet")
    assert datasets.read_points(tmp_path / "a[1].parquet").points.tolist() == POINTS.tolist()


def test_size_and_version(memory, tmp_path):
    np.save(tmp_path / "a.npy", POINTS)
    assert size_and_version(tmp_path / "a.npy")[0] == (tmp_path / "a.npy").stat().st_size
    before = size_and_version(Path("memory://bucket/day1.npy"))
    memory.pipe("/bucket/day1.npy", b"other content")
    assert size_and_version(Path("memory://bucket/day1.npy")) != before


def test_errors_name_the_address(memory):
    memory.pipe("/bucket/bad.npy", b"no array")
    with pytest.raises(ValueError, match=r"^memory://bucket/bad\.npy: "):
        datasets.read_points("memory://bucket/bad.npy")
    with pytest.raises(FileNotFoundError, match=r"no such file: 'memory://bucket/none\.npy'"):
        datasets.read_points("memory://bucket/none.npy")
    with pytest.raises(ValueError, match=r"nowhere://a/b\.npy: cannot be opened \(Protocol not known: nowhere"):
        datasets.read_points("nowhere://a/b.npy")


def test_without_fsspec(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with (
        pytest.raises(ModuleNotFoundError, match=r"needs fsspec: pip install 'sphereot\[remote\]'"),
        local_copy("s3://bucket/a.npy"),
    ):
        pass


def test_paths_of_this_machine_are_no_addresses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:").mkdir()
    np.save(tmp_path / "s3:" / "a.npy", POINTS)
    assert address_of("s3:/a.npy") is None
    assert address_of("C:/data/a.npy") is None
    assert len(datasets.read_points("s3:/a.npy")) == 50
