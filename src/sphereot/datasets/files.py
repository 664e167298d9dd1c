"""Points from files of one's own: .npy, .npz, .csv, .parquet, .geojson, .pt, .safetensors.

A file that is not what it should be gets an error with its name, the line or row, what was found, and what to do.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sphereot.arrays import as_whole_number
from sphereot.datasets.geojson import open_geojson
from sphereot.datasets.rows import as_unit, refuse_first, require_not_swapped, usable
from sphereot.datasets.source import Batch, Source, Wanted
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
    """

    points: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any] | None
    lonlat: np.ndarray[Any, Any] | None
    path: Path
    columns: tuple[str, ...]
    dropped: int

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

    Returns
    -------
    PointSet
        With `.points`, `.weights`, `.lonlat`, `.columns` and `.dropped`. A .npy file that needs no change stays on
        the disk, mapped to memory.

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
    source = _open(Path(path), _wanted(columns, prefix, key, weights, lonlat, normalize, None))
    parts = list(_point_sets(source, normalize, drop_bad))
    dropped = sum(part.dropped for part in parts)
    if not sum(len(part) for part in parts):
        raise ValueError(f"{source.path}: there are no rows in it" + f" but {dropped} bad ones" * (dropped > 0) + ".")
    each = None if parts[0].weights is None else _joined([part.weights for part in parts])
    if each is not None and not (each > 0).any():
        raise ValueError(f"{source.path}: all weights in {source.weights_name!r} are zero; at least one must not be.")
    degrees = None if parts[0].lonlat is None else _joined([part.lonlat for part in parts])
    held = [part.points for part in parts]
    del parts  # so that joining can free each batch
    changed = normalize or source.lonlat or dropped > 0
    points = _joined(held) if source.whole is None or changed else source.whole
    return PointSet(points, each, degrees, source.path, source.columns, dropped)


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
    """Points from a file, a batch at a time: .npy, .csv and .parquet files are never in memory as a whole.

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
    source = _open(Path(path), _wanted(columns, prefix, key, weights, lonlat, normalize, batch_rows))
    return _point_sets(source, normalize, drop_bad)


def _wanted(
    columns: Sequence[str | int] | None,
    prefix: str | None,
    key: str | None,
    weights: str | int | None,
    lonlat: bool,
    normalize: bool,
    batch_rows: int | None,
) -> Wanted:
    if isinstance(columns, str):
        raise TypeError(f"columns: got the text {columns!r}; give a list of names or numbers.")
    if columns is not None and not len(columns):
        raise ValueError("columns: none are named; name at least two, or leave columns out.")
    if not isinstance(lonlat, bool):
        raise TypeError(f"lonlat: got {lonlat!r}; give True and name the two columns with columns, longitude first.")
    return Wanted(None if columns is None else tuple(columns), prefix, key, weights, lonlat, normalize, batch_rows)


def _open(path: Path, wanted: Wanted) -> Source:
    with path.open("rb") as file:  # an OSError names the file where it is missing, a directory or not ours to read
        if not file.read(1):
            raise ValueError(f"{path}: is empty.")
    opener = _FORMATS.get(path.suffix.lower())
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
    return PointSet(points, batch.weights, degrees, source.path, source.columns, dropped)


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
