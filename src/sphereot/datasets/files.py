"""Points from files of one's own: .npy, .npz, .csv, .parquet, .geojson, .pt, .safetensors.

A file that is not what it should be gets an error with its name, the line or row, what was found, and what to do.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sphereot._arrays.validation import as_whole_number
from sphereot.datasets.geojson import open_geojson
from sphereot.datasets.point_file import Batch, Source, Wanted
from sphereot.datasets.row_validation import as_unit, refuse_first, require_not_swapped, usable
from sphereot.datasets.subsampling import generator_of, random_rows
from sphereot.datasets.tables import open_csv, open_parquet
from sphereot.datasets.tensors import open_npy, open_npz, open_pt, open_safetensors
from sphereot.sphere import from_lonlat
from sphereot.sphere import normalize as unit_vectors

__all__ = ["PointSet", "iter_points", "read_points"]

_FORMATS = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".csv": open_csv,
    ".tsv": open_csv,
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".geojson": open_geojson,
    ".json": open_geojson,
    ".pt": open_pt,
    ".pth": open_pt,
    ".safetensors": open_safetensors,
}

_ZIP_FORMATS = (open_npz, open_pt)
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"(\xb5/\xfd": "zstd",
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "zip",
    **{b"BZh%d1AY&SY" % level: "bzip2" for level in range(1, 10)},
}
_HEAD_BYTES = 16


@dataclass(frozen=True, eq=False)
class PointSet:
    """Points read from a file.

    Attributes
    ----------
    points : array, shape (n, d)
        Unit vectors, float32 or float64.
    weights : array, shape (n,), or None
        Nonnegative weights, if asked for.
    lonlat : array, shape (n, 2), or None
        Longitudes and latitudes in degrees, where the file has those.
    path : Path
        Where they come from.
    columns : tuple of str
        The columns that the coordinates were read from.
    dropped : int
        The number of rows left out because they could not be points.
    total : int
        The number of points in the file, of which `points` are a random part if `max_points` was given.
    """

    points: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any] | None
    lonlat: np.ndarray[Any, Any] | None
    path: Path
    columns: tuple[str, ...]
    dropped: int
    total: int

    def __len__(self) -> int:
        return len(self.points)


def read_points(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str | int] | None = None,
    prefix: str | None = None,
    key: str | None = None,
    lonlat: bool = False,
    normalize: bool = False,
    weights: str | int | None = None,
    drop_bad: bool = False,
    max_points: int | None = None,
    seed: int = 0,
) -> PointSet:
    """Points on the sphere from a file.

    Parameters
    ----------
    path : path
        A .npy, .npz, .csv (.tsv), .parquet, .geojson, .pt or .safetensors file. Nothing is ever unpickled.
    columns : sequence of str or int, optional
        The coordinates, by name or by number counted from 0. Without it: all columns but the weights; in Parquet the
        list-typed column, if there is exactly one.
    prefix : str, optional
        The coordinates are the columns that begin so, in the order of their numbers ("x_2" before "x_10").
    key : str, optional
        Which array of a .npz, .pt or .safetensors file that holds several.
    lonlat : bool
        The coordinates are longitude and latitude in degrees. Columns of the usual names (lat, latitude, lon, long,
        lng, longitude, ra, dec, in any case) are found; otherwise `columns` names the two, longitude first. GeoJSON
        always has such.
    normalize : bool
        Scale rows to unit length; otherwise rows of another length are refused.
    weights : str or int, optional
        The column (or array, or GeoJSON property) of weights.
    drop_bad : bool
        Leave out rows that cannot be points (missing, text, NaN, a latitude beyond 90, a zero vector, a negative
        weight), and count them; otherwise the first is refused.
    max_points : int, optional
        Keep at most so many points, chosen at random while the file is read. All rows are still checked. Memory then
        does not grow with the number of rows for .npy, .npz (in C order), .csv and .safetensors files; for Parquet it
        grows with the largest row group, as the file stores it. GeoJSON files are parsed as a whole.
    seed : int
        Decides, together with the content of the file, which points `max_points` keeps; at least 0.

    Returns
    -------
    PointSet
        With `.points`, `.weights`, `.lonlat`, `.columns`, `.dropped` and `.total`. A .npy file that needs no change
        stays on the disk, mapped to memory.

    Raises
    ------
    ValueError
        For a file that is not what it should be, with its name and the line (CSV) or row, counted from 0.
    OSError
        For a file that is not there, is a directory, or may not be read.

    See Also
    --------
    iter_points : the same in batches, for files larger than memory.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sphereot import datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/points.npy", np.array([[3.0, 0.0, 4.0], [0.0, 2.0, 0.0]]))
    ...     datasets.read_points(f"{folder}/points.npy", normalize=True).points
    array([[0.6, 0. , 0.8],
           [0. , 1. , 0. ]])
    """
    if max_points is not None:
        max_points = as_whole_number("max_points", max_points, 1, "the number of points to keep")
        seed = as_whole_number("seed", seed, 0, "a seed")
    wanted = _wanted(columns, prefix, key, weights, lonlat, normalize, None, in_parts=max_points is not None)
    source = _open(Path(path), wanted)
    sets = _point_sets(source, normalize, drop_bad)
    if max_points is None:
        return _all_points(source, sets, normalize)
    return _random_points(source, sets, max_points, generator_of(source.path, seed))


def iter_points(
    path: str | os.PathLike[str],
    *,
    batch_rows: int | None = None,
    columns: Sequence[str | int] | None = None,
    prefix: str | None = None,
    key: str | None = None,
    lonlat: bool = False,
    normalize: bool = False,
    weights: str | int | None = None,
    drop_bad: bool = False,
) -> Iterator[PointSet]:
    """Points from a file, a batch at a time: all files but GeoJSON are never in memory as a whole.

    Parameters
    ----------
    path, columns, prefix, key, lonlat, normalize, weights, drop_bad
        As in `read_points`.
    batch_rows : int, optional
        Rows of the file to a batch; about 32 MB of numbers by default.

    Yields
    ------
    PointSet
        Some of the points; `.dropped` counts the rows left out of this batch. A batch may be empty.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sphereot import datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/points.npy", np.tile(np.eye(3), (4, 1)))
    ...     [len(batch) for batch in datasets.iter_points(f"{folder}/points.npy", batch_rows=5)]
    [5, 5, 2]
    """
    if batch_rows is not None:
        batch_rows = as_whole_number("batch_rows", batch_rows, 1, "the number of rows to a batch")
    source = _open(Path(path), _wanted(columns, prefix, key, weights, lonlat, normalize, batch_rows, in_parts=True))
    return _point_sets(source, normalize, drop_bad)


def _wanted(
    columns: Sequence[str | int] | None,
    prefix: str | None,
    key: str | None,
    weights: str | int | None,
    lonlat: bool,
    normalize: bool,
    batch_rows: int | None,
    *,
    in_parts: bool,
) -> Wanted:
    if isinstance(columns, str):
        raise TypeError(f"columns: got the text {columns!r}; give a list of names or numbers.")
    if columns is not None and not len(columns):
        raise ValueError("columns: none are named; name at least two, or leave columns out.")
    if not isinstance(lonlat, bool):
        raise TypeError(f"lonlat: got {lonlat!r}; give True and name the two columns with columns, longitude first.")
    named = None if columns is None else tuple(columns)
    return Wanted(named, prefix, key, weights, lonlat, normalize, batch_rows, in_parts)


def _open(path: Path, wanted: Wanted) -> Source:
    with path.open("rb") as file:  # an OSError names the file where it is missing, a directory or not ours to read
        head = file.read(_HEAD_BYTES)
    if not head:
        raise ValueError(f"{path}: is empty.")
    opener = _FORMATS.get(path.suffix.lower())
    packed = next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), None)
    if packed is not None and (packed != "zip" or opener not in _ZIP_FORMATS):
        raise ValueError(f"{path}: is compressed with {packed}; unpack it first.")
    if opener is None:
        raise ValueError(f"{path}: files of kind {path.suffix!r} are not read here; there are {', '.join(_FORMATS)}.")
    source = opener(path, wanted)
    if source.lonlat and len(source.columns) != 2:
        raise ValueError(f"{path}: longitude and latitude are two columns, but {len(source.columns)} are chosen.")
    return source


def _point_sets(source: Source, normalize: bool, drop_bad: bool) -> Iterator[PointSet]:
    for batch in source.batches():
        if batch.values.shape[1] < 2:
            raise ValueError(
                f"{source.path}: points have {batch.values.shape[1]} coordinate, but a sphere needs at least 2 (the "
                "circle S^1); choose more columns."
            )
        good = usable(batch, source.lonlat)
        bad = int(len(good) - good.sum())
        if bad and source.lonlat:
            require_not_swapped(source, batch, drop_bad)
        if bad and not drop_bad:
            refuse_first(source, batch, good)
        kept = _only(batch, good) if bad else batch
        yield _point_set(source, kept, normalize, bad)


def _point_set(source: Source, batch: Batch, normalize: bool, dropped: int) -> PointSet:
    degrees = None
    if source.lonlat:
        degrees = batch.values.astype(np.float64, copy=False)
        points = from_lonlat(degrees)
    elif normalize and len(batch.values):
        points = unit_vectors(batch.values)
    else:
        points = as_unit(source, batch)
    return PointSet(points, batch.weights, degrees, source.path, source.columns, dropped, len(points))


def _all_points(source: Source, sets: Iterator[PointSet], normalize: bool) -> PointSet:
    parts = list(sets)
    dropped, total = sum(part.dropped for part in parts), sum(len(part) for part in parts)
    _require_rows(source, total, dropped)
    weights = None if parts[0].weights is None else _joined([part.weights for part in parts])
    _require_weights(source, weights)
    degrees = None if parts[0].lonlat is None else _joined([part.lonlat for part in parts])
    held = [part.points for part in parts]
    del parts  # so that joining can free each batch
    changed = normalize or source.lonlat or dropped > 0
    points = _joined(held) if source.whole is None or changed else source.whole
    return PointSet(points, weights, degrees, source.path, source.columns, dropped, total)


def _random_points(source: Source, sets: Iterator[PointSet], count: int, generator: np.random.Generator) -> PointSet:
    dropped = total = 0

    def parts() -> Iterator[tuple[np.ndarray[Any, Any] | None, ...]]:
        nonlocal dropped, total
        for part in sets:
            dropped, total = dropped + part.dropped, total + len(part)
            yield part.points, part.weights, part.lonlat

    columns = random_rows(parts(), count, generator)
    _require_rows(source, total, dropped)
    points, weights, degrees = columns
    _require_weights(source, weights)
    return PointSet(points, weights, degrees, source.path, source.columns, dropped, total)


def _require_rows(source: Source, total: int, dropped: int) -> None:
    if not total:
        but = f" but {dropped} bad ones" if dropped else ""
        raise ValueError(f"{source.path}: there are no rows in it{but}.")


def _require_weights(source: Source, weights: np.ndarray[Any, Any] | None) -> None:
    if weights is not None and not (weights > 0).any():
        raise ValueError(f"{source.path}: all weights in {source.weights_name!r} are zero; at least one must not be.")


def _only(batch: Batch, good: np.ndarray[Any, Any]) -> Batch:
    weights = None if batch.weights is None else batch.weights[good]
    return Batch(batch.values[good], weights, np.asarray(batch.rows)[good])


def _joined(parts: list[Any]) -> np.ndarray[Any, Any]:
    """All parts in one array; each is let go once it is copied, so that there are never two copies of everything."""
    if len(parts) == 1:
        return np.asarray(parts[0])
    joined = np.empty((sum(len(part) for part in parts), *parts[0].shape[1:]), parts[0].dtype)
    filled = 0
    for part in _taken(parts):
        joined[filled : filled + len(part)] = part
        filled += len(part)
    return joined


def _taken(parts: list[Any]) -> Iterator[Any]:
    parts.reverse()
    while parts:
        yield parts.pop()
