"""Read points from files, folders and patterns: tables, arrays and GeoJSON."""

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
_NOTES = (".txt", ".json")  # in folders with other files they contain notes or settings, not points
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"(\xb5/\xfd": "zstd",
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "zip",
    **{b"BZh%d1AY&SY" % level: "bzip2" for level in range(1, 10)},
}


@dataclass(frozen=True, eq=False)
class PointSet:
    """Points from a file, or from several files of one sample.

    Attributes
    ----------
    points : array, shape (n, d)
        Unit vectors, float32 or float64.
    weights : array, shape (n,), or None
        Nonnegative weights, if `weights` was given.
    lonlat : array, shape (n, 2), or None
        Longitudes and latitudes in degrees, if the coordinates of the file are longitude and latitude.
    path : Path
        File, folder, pattern or URL, as it was given.
    columns : tuple of str
        Names of the columns of the coordinates, in the first file.
    dropped : int
        Number of rows that were dropped because they are not valid points.
    total : int
        Number of points in the file. `points` is a random subset of them if `max_points` was given.
    labels : dict of str to array, shape (n,)
        Columns that `labels` named. Their values are text, or None if a value is missing.
    n_files : int
        Number of files that were read.
    rows : sequence of int, shape (n,), or None
        Row numbers of the points, counted from 0 over all files together with the dropped rows. None if they are 0, 1,
        2 and so on.
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
        """Return the points, so that functions accept a `PointSet` as an array."""
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
        .safetensors file. Nothing is ever unpickled. For a folder, or a pattern such as ``"log/**/*.parquet"``, the
        rows of all files are read, in the natural order of the names. The files must have the same format. A URL such
        as "s3://bucket/day.parquet" is copied to a temporary file first, by fsspec (extra `remote`).
    columns : sequence of str or int, optional
        Columns of the coordinates, by name or by number counted from 0. By default, they are all columns except the
        weights, or the only column of lists of a Parquet file.
    prefix : str, optional
        Use all columns whose names begin with this prefix, in the order of their numbers ("x_2" before "x_10").
    key : str, optional
        Name of the array in a .npz, .pt or .safetensors file with several arrays.
    lonlat : bool, default False
        Whether the coordinates are longitude and latitude in degrees. Columns with usual names are detected (lon, lat,
        longitude, ra, dec, ...; galactic glon, glat, l, b; ecliptic elon, elat). Otherwise name the two with `columns`,
        longitude first. GeoJSON is always read in this way. A warning is given if all numbers could be radians.
    normalize : bool, default False
        Scale rows to unit length. If False, rows of another length raise an error.
    weights : str or int, optional
        Column, array or GeoJSON property with the weights.
    labels : sequence of str, optional
        Columns of a table to read as text, such as a day, a document or an identifier. They can also be keys of a
        partitioned table, whose folders have names such as day=2026-03-01.
    drop_bad : bool, default False
        Skip and count rows that are not valid points (missing, text, NaN, a latitude beyond 90, a zero vector, a
        negative weight). If False, the first such row raises an error.
    max_points : int, optional
        Keep at most this number of points, chosen at random while the file is read. All rows are still checked. The
        memory does not grow with the number of rows, except for GeoJSON files and large row groups of Parquet files.
    seed : int, default 0
        Seed of the random choice, at least 0. The choice also depends on the content of the file.

    Returns
    -------
    PointSet
        Points and their properties. The points of a .npy file stay on the disk, mapped to memory, if they need no
        conversion.

    Raises
    ------
    ValueError
        If the content is not valid. The message names the file and the line (CSV) or row, counted from 0.

    See Also
    --------
    iter_points : Read the points in batches, for files larger than memory.

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
        seed = as_int("seed", seed, 0, "the seed")
    selection = Selection(columns, prefix, key, weights, lonlat, normalize, None, max_points is not None, labels)
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
        # The copy is removed, so points must not stay mapped to it.
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
    """Read points on the sphere in batches, for files larger than memory (except GeoJSON).

    Parameters
    ----------
    batch_rows : int, optional
        Number of rows of the file per batch. By default, a batch has about 32 MB of numbers.
    path, columns, prefix, key, lonlat, normalize, weights, labels, drop_bad
        See `read_points`.

    Yields
    ------
    PointSet
        Points of one batch, which may be empty. `path` is the path of its file, and `rows` is never None.

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
    with path.open("rb") as file:  # raises an OSError with the name if it cannot be read
        head = file.read(16)  # enough for every signature of a compression
    if not head:
        raise ValueError(f"{source}: is empty.")
    opener = opener_for(path)
    compression = next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), None)
    zipped_csv = compression == "gzip" and opener is open_csv and path.suffix.lower() == ".gz"
    if compression is not None and not zipped_csv and (compression != "zip" or opener not in (open_npz, open_pt)):
        raise ValueError(f"{source}: is compressed with {compression}. Unpack it first.")
    if opener is None or (extension_of(path) == ".txt" and not is_separated(path)):
        raise ValueError(
            f"{source}: the type of the file must be one of {', '.join(FORMATS)} (.txt with values separated by "
            f"commas, semicolons or tabs), got {path.suffix!r}."
        )
    if selection.labels and opener not in (open_csv, open_parquet, open_feather, open_json_lines):
        raise ValueError(
            f"{source}: has no columns of text, such as {listed(selection.labels)} (of {LABEL_OPTIONS}). Give a table: "
            "CSV, Parquet, Feather or JSON Lines."
        )
    return opener(source, selection)


def _sets_of_files(files: Sequence[Path], selection: Selection, drop_bad: bool) -> Iterator[PointSet]:
    """Yield the points of several files. Each file is opened only when it is read."""
    dim: int | None = None
    columns: tuple[str, ...] | None = None
    first_row = 0  # of a file, among the rows of all files
    for file in files:
        with local_copy(file) as source:
            point_file = _open(source, selection)
            columns = columns or point_file.columns
            named = selection.columns is None and not point_file.lonlat  # otherwise names may differ between files
            if named and point_file.columns != columns:
                if sorted(point_file.columns) != sorted(columns):
                    raise ValueError(
                        f"{source}: has the columns {listed(point_file.columns)}, but {files[0]} has {listed(columns)}."
                        " Choose columns that all files of the sample have with columns (--columns)."
                    )
                point_file = _open(source, replace(selection, columns=columns, prefix=None))
            end = first_row
            for batch, end in _point_sets(point_file, selection.normalize, drop_bad, first_row):  # noqa: B007
                dim = dim or batch.points.shape[1]
                if batch.points.shape[1] != dim:
                    raise ValueError(
                        f"{source}: points have dimension {batch.points.shape[1]}, but points of {files[0]} have {dim}."
                    )
                # The copy is removed, so points must not stay mapped to it.
                yield batch if source.copy is None else replace(batch, points=np.array(batch.points))
            first_row = end


def _point_sets(
    point_file: PointFile, normalize: bool, drop_bad: bool, first_row: int = 0
) -> Iterator[tuple[PointSet, int]]:
    """Yield the points of each batch, with rows numbered from `first_row`, and the number of the next row."""
    end = first_row
    for batch in point_file.batches():
        dim = batch.values.shape[1]
        if dim < 2:
            raise ValueError(f"{point_file.source}: points must have at least 2 coordinates, got {dim}.")
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
        rows: Any = np.asarray(batch.rows) + first_row
        if len(rows) and int(rows[-1]) - int(rows[0]) + 1 == len(rows):
            rows = range(int(rows[0]), int(rows[-1]) + 1)  # needs no memory
        path, columns = point_file.source.path, point_file.columns
        result = PointSet(
            points, batch.weights, degrees, path, columns, n_invalid, len(points), batch.labels, rows=rows
        )
        yield result, end


def _all_points(
    source: Source, weights_name: str, sets: Iterator[PointSet], whole: np.ndarray[Any, Any] | None = None
) -> PointSet:
    """Join the points of a sample. `whole` contains the same points if no row is dropped."""
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
    del parts  # so _concatenate can free each batch
    points = _concatenate(arrays) if whole is None or dropped else whole
    return PointSet(points, weights, degrees, source.path, columns, dropped, total, labels, rows=rows)


def _rows_with_gaps(parts: Sequence[Any]) -> np.ndarray[Any, Any] | None:
    """Join increasing row numbers. The result is None if no row is missing, to save memory."""
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
        but = f" except {plural(dropped, 'bad one')}" if dropped else ""
        raise ValueError(f"{source}: there are no rows in it{but}.")


def _require_weights(source: Source, name: str, weights: np.ndarray[Any, Any] | None) -> None:
    if weights is not None and not (weights > 0).any():
        raise ValueError(f"{source}: all weights in {name!r} are zero. At least one must be positive.")


def _concatenate(parts: list[Any]) -> np.ndarray[Any, Any]:
    """Concatenate arrays and empty the list: each part is freed after it is copied, so memory is not doubled."""
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


def extension_of(path: Path) -> str:
    """Return the extension of a name in lower case, without .gz.

    >>> extension_of(Path("quakes.CSV")), extension_of(Path("quakes.csv.gz"))
    ('.csv', '.csv')
    """
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def opener_for(path: Path) -> Opener | None:
    """Return the reader for the extension of a file, or None."""
    return FORMATS.get(extension_of(path))


def files_of_sample(path: Path) -> list[Path] | None:
    """List the files of points of a folder or a pattern, in natural order; None if the path is a single file.

    Files with other extensions are left out, in folders also names that begin with a period or an underscore.
    """
    files = files_at(path)
    if files is None:
        return None
    points = [file for file in files if opener_for(file) is not None]
    data = [file for file in points if extension_of(file) not in _NOTES] or points
    if not data:
        raise IsADirectoryError(errno.EISDIR, f"holds no files of points ({', '.join(FORMATS)})", str(path))
    formats = {opener_for(file): extension_of(file) for file in data}
    if len(formats) > 1:
        extensions = sorted(formats.values())
        pattern = f"*{extensions[0]}" if is_pattern(path) else f"{path}/**/*{extensions[0]}"
        raise ValueError(
            f"{path}: the files of a sample must have the same format, got {', '.join(extensions)}. Give a pattern "
            f"for one format, such as '{pattern}'."
        )
    return sorted(data, key=lambda file: natural_order(str(file)))
