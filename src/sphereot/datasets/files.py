"""Read points from files, folders and patterns: tables, arrays and GeoJSON.

Errors name the file, the line or row, what is wrong with it, and what to do.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sphereot._arrays.validation import as_int
from sphereot._support.text import listed, natural_order, plural
from sphereot.datasets.addresses import Source, address_of, files_at, is_pattern, local_copy
from sphereot.datasets.arrays import open_npy, open_npz, open_pt, open_safetensors
from sphereot.datasets.geojson import open_geojson
from sphereot.datasets.rows import (
    LABEL_OPTIONS,
    Batch,
    PointFile,
    Selection,
    as_unit_rows,
    file_generator,
    raise_for_first_invalid,
    random_rows,
    require_not_swapped,
    valid_rows,
    warn_of_radians,
)
from sphereot.datasets.tables import is_separated, open_csv, open_feather, open_json_lines, open_parquet
from sphereot.sphere import from_lonlat
from sphereot.sphere import normalize as unit_vectors

Opener = Callable[[Source, Selection], PointFile]

FORMATS: dict[str, Opener] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".csv": open_csv,
    ".tsv": open_csv,
    ".txt": open_csv,
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".feather": open_feather,
    ".arrow": open_feather,
    ".jsonl": open_json_lines,
    ".ndjson": open_json_lines,
    ".geojson": open_geojson,
    ".json": open_geojson,
    ".pt": open_pt,
    ".pth": open_pt,
    ".safetensors": open_safetensors,
}
TABLES: tuple[Opener, ...] = (open_csv, open_parquet, open_feather, open_json_lines)
ZIP_FORMATS: tuple[Opener, ...] = (open_npz, open_pt)
_NOTES = (".txt", ".json")  # in folders with files of other kinds they hold notes or settings, not points
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"(\xb5/\xfd": "zstd",
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "zip",
    **{b"BZh%d1AY&SY" % level: "bzip2" for level in range(1, 10)},
}
_HEAD_BYTES = 16  # enough for every signature above


@dataclass(frozen=True, eq=False)
class PointSet:
    """Points read from a file, or from several files of one sample.

    Attributes
    ----------
    points : array, shape (n, d)
        Unit vectors, float32 or float64.
    weights : array, shape (n,), or None
        Nonnegative weights, if `weights` was given.
    lonlat : array, shape (n, 2), or None
        Longitudes and latitudes in degrees, if the file holds those.
    path : Path
        The file, folder, pattern or address, as it was given.
    columns : tuple of str
        Names of the columns that hold the coordinates, in the first file.
    dropped : int
        The number of rows left out because they could not be points.
    total : int
        The number of points in the file, of which `points` are a random subset if `max_points` was given.
    labels : dict of str to array, shape (n,)
        The columns of text that `labels` named; text, or None where there is none.
    n_files : int
        The number of files that were read.
    rows : sequence of int, shape (n,), or None
        Row numbers of the points, counted from 0 together with the rows left out; those of several files are counted
        on from file to file. None if they are 0, 1, 2 and so on, as where all rows were read as points.
    """

    points: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any] | None
    lonlat: np.ndarray[Any, Any] | None
    path: Path
    columns: tuple[str, ...]
    dropped: int
    total: int
    labels: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    n_files: int = 1
    rows: Sequence[int] | np.ndarray[Any, Any] | None = None

    def __len__(self) -> int:
        return len(self.points)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """The points, so that functions take a `PointSet` in place of an array."""
        return np.array(self.points, dtype, copy=copy)


def read_points(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str | int] | None = None,
    prefix: str | None = None,
    key: str | None = None,
    lonlat: bool = False,
    normalize: bool = False,
    weights: str | int | None = None,
    labels: Sequence[str] = (),
    drop_bad: bool = False,
    max_points: int | None = None,
    seed: int = 0,
) -> PointSet:
    """Read points on the sphere from a file, or from all files of a folder or pattern.

    Parameters
    ----------
    path : path
        A .npy, .npz, .csv (.tsv, .txt, .csv.gz), .parquet, .feather (.arrow), .jsonl (.ndjson), .geojson, .pt or
        .safetensors file. Nothing is ever unpickled. Of a folder, or a pattern such as ``"log/**/*.parquet"``, the
        rows of all files, in the natural order of their names; the files are of one kind. An address such as
        "s3://bucket/day.parquet" is copied to a temporary file first, by fsspec (the extra `remote`).
    columns : sequence of str or int, optional
        The columns of the coordinates, by name or by number counted from 0. Default: all columns but the weights; in
        Parquet the list-typed column, if there is exactly one.
    prefix : str, optional
        The coordinates are the columns whose names begin with this prefix, in the order of their numbers ("x_2" before
        "x_10").
    key : str, optional
        Name of the array in a .npz, .pt or .safetensors file that holds several.
    lonlat : bool
        The coordinates are longitude and latitude in degrees. Columns of the usual names (lat, latitude, lon, long,
        lng, longitude, ra, dec, in any case) are detected, and without them galactic (glon and glat, l and b) or
        ecliptic ones (elon and elat); otherwise `columns` names the two, longitude first. GeoJSON always holds
        longitude and latitude. A warning says so if all numbers could be radians.
    normalize : bool
        Scale rows to unit length; otherwise rows of another length raise an error.
    weights : str or int, optional
        The column (or array, or GeoJSON property) that holds the weights.
    labels : sequence of str
        Columns of a table to read beside the points, as text: a day, a document, an identifier. The keys of a
        partitioned table, whose folders have names such as day=2026-03-01, are columns too.
    drop_bad : bool
        Leave out rows that cannot be points (missing, text, NaN, a latitude beyond 90, a zero vector, a negative
        weight), and count them; otherwise the first raises an error.
    max_points : int, optional
        Keep at most this number of points, chosen at random while the file is read. All rows are still checked. For
        .npy, .npz (in C order), .csv and .safetensors files memory then does not grow with the number of rows; for
        Parquet it grows with the largest row group, as the file stores it. GeoJSON files are parsed as a whole.
    seed : int
        Decides, together with the content of the file, which points `max_points` keeps; at least 0.

    Returns
    -------
    PointSet
        With `.points`, `.weights`, `.lonlat`, `.columns`, `.dropped`, `.total` and `.rows`. The points of a .npy file
        that need no conversion stay on the disk, mapped to memory.

    Raises
    ------
    ValueError
        For bad content, with the name of the file and the line (CSV) or row, counted from 0.
    OSError
        If the file does not exist, is a directory, or may not be read.

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
        max_points = as_int("max_points", max_points, 1, "the number of points to keep")
        seed = as_int("seed", seed, 0, "a seed")
    in_parts = max_points is not None
    selection = Selection(columns, prefix, key, weights, lonlat, normalize, None, in_parts, labels)
    path = Path(path)
    files = files_of_sample(path)
    if files is not None:
        sets = _sets_of_files(files, selection, drop_bad)
        if max_points is None:
            result = _all_points(Source(path), str(weights), sets)
        else:
            result = _random_points(Source(path), str(weights), sets, max_points, file_generator(files, seed))
        return replace(result, n_files=len(files))
    with local_copy(path) as source:
        point_file = _open(source, selection)
        sets = (batch for batch, _ in _point_sets(point_file, normalize, drop_bad))
        if max_points is not None:
            generator = file_generator([source.local], seed)
            return _random_points(source, point_file.weights_name, sets, max_points, generator)
        whole = None if normalize or point_file.lonlat else point_file.whole
        result = _all_points(source, point_file.weights_name, sets, whole)
        # A copy is removed, so that points must not stay mapped to it.
        return result if source.copy is None else replace(result, points=np.array(result.points))


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
    labels: Sequence[str] = (),
    drop_bad: bool = False,
) -> Iterator[PointSet]:
    """Read points on the sphere from files in batches, for files larger than memory (GeoJSON excepted).

    Parameters
    ----------
    path, columns, prefix, key, lonlat, normalize, weights, labels, drop_bad
        As in `read_points`.
    batch_rows : int, optional
        Rows of the file per batch; about 32 MB of numbers by default.

    Yields
    ------
    PointSet
        The points of one batch; `.dropped` counts the rows left out of it, `.path` is that of its file, and `.rows`
        are never None. A batch may be empty.

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
        batch_rows = as_int("batch_rows", batch_rows, 1, "the number of rows per batch")
    selection = Selection(columns, prefix, key, weights, lonlat, normalize, batch_rows, True, labels)
    path = Path(path)
    files = files_of_sample(path)
    if files is not None or address_of(path) is not None:
        return _sets_of_files(files or [path], selection, drop_bad)
    return (batch for batch, _ in _point_sets(_open(Source(path), selection), normalize, drop_bad))


def _open(source: Source, selection: Selection) -> PointFile:
    path = source.local
    with path.open("rb") as file:  # the OSError of a missing file or one without permission names it
        head = file.read(_HEAD_BYTES)
    if not head:
        raise ValueError(f"{source}: is empty.")
    opener = opener_for(path)
    compression = next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), None)
    zipped_csv = compression == "gzip" and opener is open_csv and path.suffix.lower() == ".gz"
    if compression is not None and not zipped_csv and (compression != "zip" or opener not in ZIP_FORMATS):
        raise ValueError(f"{source}: is compressed with {compression}; unpack it first.")
    if opener is None or (ending_of(path) == ".txt" and not is_separated(path)):
        raise ValueError(
            f"{source}: got a file of type {path.suffix!r}; give one of {', '.join(FORMATS)} (.txt with values "
            "separated by commas, semicolons or tabs)."
        )
    if selection.labels and opener not in TABLES:
        raise ValueError(
            f"{source}: has no columns of text, but {listed(selection.labels)} (of {LABEL_OPTIONS}) would be one; give "
            "a table: CSV, Parquet, Feather or JSON Lines."
        )
    point_file = opener(source, selection)
    if point_file.lonlat and len(point_file.columns) != 2:
        raise ValueError(
            f"{source}: got {plural(len(point_file.columns), 'column')} for longitude and latitude; name two."
        )
    return point_file


def _sets_of_files(files: Sequence[Path], selection: Selection, drop_bad: bool) -> Iterator[PointSet]:
    """The points of several files, one after the other; each is opened only when it is read."""
    dim: int | None = None
    columns: tuple[str, ...] | None = None
    first_row = 0  # of a file, among the rows of all files
    for file in files:
        with local_copy(file) as source:
            point_file = _open(source, selection)
            columns = columns or point_file.columns
            named = selection.columns is None and not point_file.lonlat  # else names may differ from file to file
            if named and point_file.columns != columns:
                if sorted(point_file.columns) != sorted(columns):
                    raise ValueError(
                        f"{source}: has the columns {listed(point_file.columns)}, but {files[0]} has {listed(columns)};"
                        " files of one sample need the same columns: choose them with columns (--columns)."
                    )
                point_file = _open(source, replace(selection, columns=columns, prefix=None))
            end = first_row
            for batch, end in _point_sets(point_file, selection.normalize, drop_bad, first_row):  # noqa: B007
                dim = dim or batch.points.shape[1]
                if batch.points.shape[1] != dim:
                    raise ValueError(
                        f"{source}: points have dimension {batch.points.shape[1]}, but those of {files[0]} have {dim}; "
                        "files of one sample need points of one dimension."
                    )
                # A copy is removed, so that points must not stay mapped to it.
                yield batch if source.copy is None else replace(batch, points=np.array(batch.points))
            first_row = end


def _point_sets(
    point_file: PointFile, normalize: bool, drop_bad: bool, first_row: int = 0
) -> Iterator[tuple[PointSet, int]]:
    """Pairs of the points of a batch, whose rows are numbered from `first_row`, and the number of the row after it."""
    end = first_row
    for batch in point_file.batches():
        if batch.values.shape[1] < 2:
            raise ValueError(
                f"{point_file.source}: points have {plural(batch.values.shape[1], 'coordinate')}, but a sphere needs "
                "at least 2 (the circle S^1); choose more columns."
            )
        if len(batch.rows):
            end = first_row + int(batch.rows[-1]) + 1
        valid = valid_rows(batch, point_file.lonlat)
        n_invalid = int(len(valid) - valid.sum())
        if n_invalid and point_file.lonlat:
            require_not_swapped(point_file, batch, drop_bad)
        if n_invalid and not drop_bad:
            raise_for_first_invalid(point_file, batch, valid)
        if n_invalid:
            weights = None if batch.weights is None else batch.weights[valid]
            labels = {name: values[valid] for name, values in batch.labels.items()}
            batch = Batch(batch.values[valid], weights, np.asarray(batch.rows)[valid], labels)
        degrees = None
        if point_file.lonlat:
            degrees = batch.values.astype(np.float64, copy=False)
            warn_of_radians(point_file, degrees)
            points = from_lonlat(degrees)
        elif normalize and len(batch.values):
            points = unit_vectors(batch.values)
        else:
            points = as_unit_rows(point_file, batch)
        # Row numbers increase; a range, if none is left out between them, needs no memory.
        first, last = (int(batch.rows[0]), int(batch.rows[-1])) if len(batch.rows) else (0, -1)
        rows: Any = np.asarray(batch.rows) + first_row
        if last - first + 1 == len(rows):
            rows = range(first_row + first, first_row + last + 1)
        path, columns = point_file.source.path, point_file.columns
        yield (
            PointSet(points, batch.weights, degrees, path, columns, n_invalid, len(points), batch.labels, rows=rows),
            end,
        )


def _all_points(
    source: Source, weights_name: str, sets: Iterator[PointSet], whole: np.ndarray[Any, Any] | None = None
) -> PointSet:
    """All points of a sample; `whole` has them too, if all rows are points."""
    parts = list(sets)
    dropped, total = sum(part.dropped for part in parts), sum(len(part) for part in parts)
    _require_rows(source, total, dropped)
    columns = parts[0].columns
    weights = None if parts[0].weights is None else _concatenate([part.weights for part in parts])
    _require_weights(source, weights_name, weights)
    degrees = None if parts[0].lonlat is None else _concatenate([part.lonlat for part in parts])
    labels = {name: np.concatenate([part.labels[name] for part in parts]) for name in parts[0].labels}
    rows = _rows_with_gaps([part.rows for part in parts if len(part)])
    arrays = [part.points for part in parts]
    del parts  # so that concatenating can free each batch
    points = _concatenate(arrays) if whole is None or dropped else whole
    return PointSet(points, weights, degrees, source.path, columns, dropped, total, labels, rows=rows)


def _rows_with_gaps(parts: Sequence[Any]) -> np.ndarray[Any, Any] | None:
    """Row numbers, which increase, as one array; None if none is left out, so that they need no memory."""
    if int(parts[-1][-1]) + 1 == sum(map(len, parts)):
        return None
    return np.concatenate([_as_array(part) for part in parts])


def _as_array(rows: Any) -> np.ndarray[Any, Any]:
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else np.asarray(rows)


def _random_points(
    source: Source, weights_name: str, sets: Iterator[PointSet], count: int, generator: np.random.Generator
) -> PointSet:
    dropped = total = 0
    columns: tuple[str, ...] = ()
    names: list[str] = []

    def parts() -> Iterator[tuple[np.ndarray[Any, Any] | None, ...]]:
        nonlocal dropped, total, columns
        for part in sets:
            dropped, total = dropped + part.dropped, total + len(part)
            names[:], columns = part.labels, columns or part.columns
            yield part.points, part.weights, part.lonlat, _as_array(part.rows), *part.labels.values()

    arrays = random_rows(parts(), count, generator)
    _require_rows(source, total, dropped)
    points, weights, degrees, rows, *texts = arrays
    _require_weights(source, weights_name, weights)
    labels = dict(zip(names, texts, strict=True))
    return PointSet(
        points, weights, degrees, source.path, columns, dropped, total, labels, rows=_rows_with_gaps([rows])
    )


def _require_rows(source: Source, total: int, dropped: int) -> None:
    if not total:
        but = f" but {plural(dropped, 'bad one')}" if dropped else ""
        raise ValueError(f"{source}: there are no rows in it{but}.")


def _require_weights(source: Source, name: str, weights: np.ndarray[Any, Any] | None) -> None:
    if weights is not None and not (weights > 0).any():
        raise ValueError(f"{source}: all weights in {name!r} are zero; at least one must be positive.")


def _only(batch: Batch, mask: np.ndarray[Any, Any]) -> Batch:
    weights = None if batch.weights is None else batch.weights[mask]
    labels = {name: values[mask] for name, values in batch.labels.items()}
    return Batch(batch.values[mask], weights, np.asarray(batch.rows)[mask], labels)


def _concatenate(parts: list[Any]) -> np.ndarray[Any, Any]:
    """Concatenate arrays and empty the list: each part is freed once it is copied, so that memory is not doubled."""
    if len(parts) == 1:
        return np.asarray(parts[0])
    kind = np.result_type(*{part.dtype for part in parts})
    joined = np.empty((sum(len(part) for part in parts), *parts[0].shape[1:]), kind)
    filled = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        joined[filled : filled + len(part)] = part
        filled += len(part)
    return joined


# ---- the files of a sample ----


def ending_of(path: Path) -> str:
    """The ending of a name in lower case, without that of a compression by gzip.

    >>> ending_of(Path("quakes.CSV")), ending_of(Path("quakes.csv.gz"))
    ('.csv', '.csv')
    """
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def opener_for(path: Path) -> Opener | None:
    """The reader of a file by the ending of its name; None if there is none."""
    return FORMATS.get(ending_of(path))


def files_of_sample(path: Path) -> list[Path] | None:
    """The files of points in a folder, or of those that a pattern matches; None if the path is that of one file.

    They are in the natural order of their names, week2 before week10. Files that hold no points by their names are left
    out: in folders also those whose names, or those of their folders, begin with a period or an underscore.

    Raises
    ------
    ValueError
        If the files are of several kinds, such as CSV and Parquet, or no file has a name that the pattern matches.
    IsADirectoryError
        If there are no files of points in the folder.
    """
    files = files_at(path)
    if files is None:
        return None
    points = [file for file in files if opener_for(file) is not None]
    data = [file for file in points if ending_of(file) not in _NOTES] or points
    if not data:
        endings = ", ".join(FORMATS)
        raise IsADirectoryError(errno.EISDIR, f"holds no files of points ({endings}); give another", str(path))
    kinds: dict[Opener | None, list[Path]] = {}
    for file in data:
        kinds.setdefault(opener_for(file), []).append(file)
    if len(kinds) > 1:
        examples = [ending_of(of_kind[0]) for of_kind in kinds.values()]
        pattern = f"*{examples[0]}" if is_pattern(path) else f"{path}/**/*{examples[0]}"
        raise ValueError(
            f"{path}: holds files of several kinds ({', '.join(sorted(examples))}), but a sample needs one kind; "
            f"give a pattern that matches one, such as '{pattern}'."
        )
    return sorted(data, key=lambda file: natural_order(str(file)))
