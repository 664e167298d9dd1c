"""Rows of a file of points: choose the columns of the coordinates, find invalid rows, draw a random subset."""

import errno
import hashlib
import math
import pickle
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sphereot._arrays.libraries import unit_length_tolerance
from sphereot._support.text import listed, lonlat_order, natural_order, plural, shorten
from sphereot.datasets.addresses import Source, partition_keys, size_and_head

LABEL_OPTIONS = "--time, --by, --groups or --id"
"""Options of commands that name columns of text."""

_BATCH_VALUES = 1 << 22
_ALWAYS_ALLOWED_BYTES = 1 << 28
_MAX_COMPRESSION = 100  # distinct numbers do not compress to a hundredth
_WARNED_BY_FROM_LONLAT = 100  # rows, or more
_STREAM = (0xD21F,)  # makes the choice of rows independent of great circles and permutations of the same seed
_HEAD_BYTES = 1 << 20

Columns = Sequence[np.ndarray[Any, Any] | None]
"""Arrays with the same number of rows, or None for weights and degrees that a file does not have."""


@contextmanager
def reading_errors(source: Source, problem: str, explain: Callable[[], str] | None = None) -> Iterator[None]:
    """Raise errors of a reader as a ValueError of one line: the file, `problem` or the result of `explain`, and why."""
    try:
        yield
    except (MemoryError, ImportError):
        raise
    # Damaged files raise many kinds of errors: of zip, zlib, tokens, indices, or an OSError of a seek.
    except Exception as error:
        text = str(error).strip()
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise MemoryError(f"{source}: there is not enough memory to map it.") from error
        if text.startswith(str(source)):  # an error of this package
            raise
        if explain and (explanation := explain()):
            raise ValueError(f"{source}, {explanation}") from error
        if isinstance(error, pickle.UnpicklingError) or "pickle" in text.lower() or "Python objects" in text:
            raise ValueError(
                f"{source}: holds Python objects, which are never unpickled (they could run code). Save plain numbers."
            ) from error
        reason = text.splitlines()[0][:160] if text else type(error).__name__
        raise ValueError(f"{source}: {problem} ({reason}).") from error


@dataclass(frozen=True)
class Selection:
    """Part of a file to read. The fields are arguments of `read_points`, except `batch_rows` and `in_parts`."""

    columns: Sequence[str | int] | None = None
    prefix: str | None = None
    key: str | None = None
    weights: str | int | None = None
    lonlat: bool = False
    normalize: bool = False
    batch_rows: int | None = None
    in_parts: bool = False  # the caller does not keep all rows, so reading should need little memory
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise TypeError(f"columns must be a list of names or numbers, got the string {self.columns!r}.")
        if self.columns is not None and not len(self.columns):
            raise ValueError(
                "columns must name at least two columns, got an empty list. To use all, leave columns out."
            )
        if not isinstance(self.lonlat, bool):
            raise TypeError(f"lonlat must be True or False, got {self.lonlat!r}. Name the columns with columns.")
        if isinstance(self.labels, str):
            raise TypeError(f"labels must be a list of names, got the string {self.labels!r}.")

    def rows_per_batch(self, width: int) -> int:
        """Return the number of rows per batch for rows of `width` numbers: `batch_rows`, or 32 MB."""
        return self.batch_rows or max(_BATCH_VALUES // max(width, 1), 1)


@dataclass(frozen=True)
class Batch:
    """Some rows of a file: `values` (n, k), with NaN for missing values and text; `weights` (n,) if selected.

    `labels` are the selected columns of text, (n,) each, by name. `rows` are the row numbers in the file, counted from
    0 together with blank lines.
    """

    values: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any] | None
    rows: Sequence[int] | np.ndarray[Any, Any]
    labels: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)


def require_plausible_size(source: Source, name: str, declared: int, stored: int) -> None:
    """Raise an error if a file declares far more data than it stores, which could exhaust the memory."""
    if declared > max(_ALWAYS_ALLOWED_BYTES, _MAX_COMPRESSION * stored):
        raise ValueError(
            f"{source}: {name} needs {declared / 1e6:,.0f} MB in memory, more than {_MAX_COMPRESSION} times its "
            f"{stored / 1e6:,.3f} MB in the file, and could be made to exhaust the memory. If it is right, read it in "
            "parts with iter_points or max_points (--max-points), or save it as .npy."
        )


@dataclass(frozen=True)
class PointFile:
    """An opened file of points.

    Attributes
    ----------
    columns : tuple of str
        Names of the coordinates, longitude before latitude if `lonlat`.
    locate : callable (row) -> str
        Location of a row, counted from 0, for messages: "line 17", "row 15", "feature 15".
    quote : callable (row, column) -> str, optional
        Text of a value in a text file. The weights are column -1.
    whole : array, optional
        All values, if the file is mapped to memory and they can be used unchanged.
    nan_message : str
        Message about a row with NaN, if there is no text to quote.
    """

    source: Source
    columns: tuple[str, ...]
    lonlat: bool
    batches: Callable[[], Iterator[Batch]]
    locate: Callable[[int], str]
    quote: Callable[[int, int], str | None] | None = None
    whole: np.ndarray[Any, Any] | None = None
    weights_name: str = "weights"
    nan_message: str = "holds NaN or infinity"


# ---- columns ----


def choose(source: Source, names: Sequence[str], selection: Selection) -> tuple[list[int], int | None]:
    """Return the indices of the selected columns among `names`, and the index of the weights.

    Examples
    --------
    >>> choose(Source(Path("a.csv")), ["id", "x_0", "x_1", "w"], Selection(prefix="x_", weights="w"))
    ([1, 2], 3)
    >>> choose(Source(Path("a.csv")), ["LATITUDE", " LONGITUDE"], Selection(lonlat=True))
    ([1, 0], None)
    """
    weights = None if selection.weights is None else find(source, names, selection.weights, "weights")
    if selection.columns is not None and selection.prefix is not None:
        raise ValueError("columns and prefix cannot be combined. Give one of them.")
    if selection.columns is not None:
        indices = [find(source, names, column, "columns") for column in selection.columns]
        if len(set(indices)) < len(indices):
            named = listed([str(column) for column in selection.columns])
            raise ValueError(f"columns must name each column once, got {named}.")
    elif selection.prefix is not None:
        indices = [k for k, name in enumerate(names) if name.strip().startswith(selection.prefix) and k != weights]
        if not indices:
            raise ValueError(f"{source}: no column begins with {selection.prefix!r}. There are {listed(names)}.")
        # By the numbers in the names, so that files with columns in another order agree.
        indices.sort(key=lambda k: natural_order(names[k].strip()))
    elif selection.lonlat:
        return _detected_lonlat(source, names, weights), weights
    else:
        labels = [find_label(source, names, label) for label in selection.labels]
        indices = [k for k in range(len(names)) if k != weights and k not in labels]
        order = lonlat_order([names[k] for k in indices])
        if order is not None:
            longitude, latitude = (names[indices[k]].strip() for k in order)
            raise ValueError(
                f"{source}: the columns {longitude!r} and {latitude!r} look like longitudes and latitudes. Pass "
                "lonlat=True (--lonlat), or name the columns of the coordinates."
            )
    if selection.lonlat:
        if len(indices) != 2:
            count = plural(len(indices), "column")
            raise ValueError(f"{source}: columns must be longitude and latitude, in this order, got {count}.")
        order = lonlat_order([names[k] for k in indices])  # columns with the usual names may come in any order
        indices = indices if order is None else [indices[k] for k in order]
    return indices, weights


def find(source: Source, names: Sequence[str], column: str | int, argument: str) -> int:
    """Return the index of a column, by its name (without blanks around it) or by its number counted from 0."""
    index = _index(names, column)
    if index is not None:
        return index
    remedy = " For a file without weights, give - (--weights)." if argument == "weights" else ""
    raise ValueError(f"{source}: {argument}: there is no column {column!r}. There are {listed(names)}.{remedy}")


def find_label(source: Source, names: Sequence[str], label: str) -> int | None:
    """Return the index of a column of text; None for a key of the partition, as `day` in day=2026-03-01/a.parquet."""
    index = _index(names, label)
    keys = partition_keys(source.path)
    if index is None and label not in keys:
        there = listed([*names, *keys])
        raise ValueError(f"{source}: there is no column {label!r} (of {LABEL_OPTIONS}). There are {there}.")
    return index


def _index(names: Sequence[str], column: str | int) -> int | None:
    stripped = [name.strip() for name in names]
    if isinstance(column, str) and column.strip() in stripped:
        return stripped.index(column.strip())
    if isinstance(column, int) or re.fullmatch(r"\d+", column.strip()):
        number = int(column)
        if 0 <= number < len(names):
            return number
    return None


def _detected_lonlat(source: Source, names: Sequence[str], weights: int | None) -> list[int]:
    order = lonlat_order(["" if k == weights else name for k, name in enumerate(names)])
    if order is not None:
        return list(order)
    rest = [k for k in range(len(names)) if k != weights]
    if len(rest) == 2 and all(re.fullmatch(r"\d+", names[k]) for k in rest):
        return rest  # columns without names are longitude, latitude
    raise ValueError(
        f"{source}: it is not clear which of the columns {listed(names)} are longitude and latitude. Name the two, "
        "longitude first, with columns (--columns)."
    )


# ---- valid rows ----


def valid_rows(batch: Batch, lonlat: bool) -> np.ndarray[Any, Any]:
    """Return a mask of the rows that can be points: finite, not zero, in the range of degrees, with a weight >= 0.

    Examples
    --------
    >>> valid_rows(Batch(np.array([[10.0, 91.0], [10.0, 45.0], [np.nan, 1.0]]), None, range(3)), lonlat=True)
    array([False,  True, False])
    """
    values = batch.values
    valid: np.ndarray[Any, Any] = np.isfinite(values).all(axis=1)
    if lonlat:
        with np.errstate(invalid="ignore"):
            valid &= (np.abs(values[:, 0]) <= 360) & (np.abs(values[:, 1]) <= 90)
    else:
        valid &= values.any(axis=1)
    if batch.weights is not None:
        with np.errstate(invalid="ignore"):
            valid &= np.isfinite(batch.weights) & (batch.weights >= 0)
    return valid


def require_not_swapped(point_file: PointFile, batch: Batch, drop_bad: bool) -> None:
    """Raise an error if longitude and latitude are swapped: dropping invalid rows would drop half of the Earth."""
    beyond = np.abs(batch.values[:, 1]) > 90
    if drop_bad and _looks_swapped(batch) and beyond.mean() > 0.05:
        raise ValueError(
            f"{point_file.source}: {int(beyond.sum())} latitudes are beyond 90 degrees and no longitude is, so the "
            f"columns {point_file.columns[1]!r} and {point_file.columns[0]!r} seem to be swapped. Fix the file."
        )


def warn_of_radians(point_file: PointFile, lonlat: np.ndarray[Any, Any]) -> None:
    """Warn if the few longitudes and latitudes of a short file could all be radians.

    A uniformly distributed location is within these limits with probability 0.001.
    """
    if 2 <= len(lonlat) < _WARNED_BY_FROM_LONLAT and bool((np.abs(lonlat) <= (2 * math.pi, math.pi / 2)).all()):
        warnings.warn(
            f"{point_file.source}: no longitude is beyond 2 pi and no latitude beyond pi / 2, as if they were in "
            "radians, but degrees are expected. Convert radians first, for example with numpy.rad2deg.",
            UserWarning,
            stacklevel=2,
        )


def raise_for_first_invalid(point_file: PointFile, batch: Batch, valid: np.ndarray[Any, Any]) -> None:
    """Raise an error about the first invalid row of a batch."""
    k = int(np.argmin(valid))
    values, row = batch.values[k], int(batch.rows[k])
    weight = float("nan") if batch.weights is None else float(batch.weights[k])
    remedy = "Fix the row, or drop such rows with drop_bad=True (--drop-bad)."
    not_finite = np.flatnonzero(~np.isfinite(values))
    if not_finite.size:
        problem = _nan_message(point_file, row, int(not_finite[0]))
    elif point_file.lonlat and abs(values[1]) > 90:
        problem = f"the latitude is {values[1]:.6g}, beyond 90 degrees"
        if _looks_swapped(batch):
            remedy = f"If the columns are swapped, name them in the order longitude, latitude. {remedy}"
    elif point_file.lonlat and abs(values[0]) > 360:
        problem = f"the longitude is {values[0]:.6g}, beyond 360 degrees"
    elif not point_file.lonlat and not values.any():
        problem = "is the zero vector, which has no direction"
    elif weight < 0:
        problem = f"the weight is {weight:.6g}, but weights cannot be negative"
    else:
        problem = _nan_message(point_file, row, -1)
    raise ValueError(f"{point_file.source}, {point_file.locate(row)}: {problem}. {remedy}")


def as_unit_rows(point_file: PointFile, batch: Batch) -> np.ndarray[Any, Any]:
    """Return rows of unit length as float32 or float64, or raise an error that names the first row of another length.

    Half precision stores lengths with two or three digits, so its rows are normalized in float32.
    """
    values = batch.values
    half = values.dtype == np.float16
    values = values.astype(np.float32) if half else values
    tolerance = unit_length_tolerance(float(np.finfo(values.dtype).eps), half=half)
    with np.errstate(over="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
    is_unit = np.abs(lengths - 1) <= tolerance
    if not is_unit.all():
        k = int(np.argmin(is_unit))
        remedy = "Pass normalize=True (--normalize) if only directions matter"
        if values.shape[1] == 2:
            remedy = (
                "Pass lonlat=True (--lonlat) if the two columns are a longitude and a latitude, or normalize=True "
                "(--normalize) if they are points on a circle"
            )
        where = f"{point_file.source}, {point_file.locate(int(batch.rows[k]))}"
        raise ValueError(f"{where}: has length {lengths[k]:.4g}, but points must be unit vectors. {remedy}.")
    return values / lengths[:, None] if half else values


def _nan_message(point_file: PointFile, row: int, column: int) -> str:
    """Describe a value that was read as NaN."""
    names = point_file.columns or ("",)
    # A list-typed column has one name for all coordinates.
    name = point_file.weights_name if column == -1 else names[min(column, len(names) - 1)]
    text = None if point_file.quote is None else point_file.quote(row, column)
    if text is None:
        return f"{name!r} {point_file.nan_message}" if column == -1 else point_file.nan_message
    return f"{name!r} is {shorten(text, 40)!r}, not a finite number" if text.strip() else f"{name!r} is missing"


def _looks_swapped(batch: Batch) -> bool:
    """Return whether some latitudes, but no longitudes, are beyond 90 degrees."""
    return not bool((np.abs(batch.values[:, 0]) > 90).any()) and bool((np.abs(batch.values[:, 1]) > 90).any())


# ---- random rows ----


def file_generator(paths: Sequence[Path], seed: int) -> np.random.Generator:
    """Create a random generator from `seed` and the content of the files (size and first MiB), not from their names."""
    content = hashlib.sha256()
    for path in paths:
        size, head = size_and_head(path, _HEAD_BYTES)
        content.update(size.to_bytes(8, "little") + head)
    words = np.frombuffer(content.digest(), np.uint32).tolist()
    return np.random.default_rng(np.random.SeedSequence([seed, *words], spawn_key=_STREAM))


def random_rows(parts: Iterable[Columns], count: int, generator: np.random.Generator) -> list[Any]:
    """Choose `count` random rows, in their order, from arrays that come in parts; all rows if there are fewer.

    Every row gets a random key, and the rows with the smallest keys are chosen. The choice therefore does not depend on
    the parts, and at most `2 * count` rows are stored in addition to one part.

    Examples
    --------
    >>> parts = [[np.arange(0, 70)], [np.arange(70, 100)]]
    >>> (rows,) = random_rows(parts, 5, np.random.default_rng(0))
    >>> rows
    array([ 3, 11, 13, 20, 92])
    """
    held: list[Columns] = []
    keys: list[np.ndarray[Any, Any]] = []
    size, bound = 0, 1.0
    for part in parts:
        drawn = generator.random(next(len(column) for column in part if column is not None))
        chosen = np.flatnonzero(drawn < bound)
        held.append(_rows(part, chosen))
        keys.append(drawn[chosen])
        size += len(chosen)
        if size > 2 * count:
            held, keys = _smallest(held, keys, count)
            size, bound = count, float(keys[0].max())
    if not held:
        return []
    if size > count:
        held, keys = _smallest(held, keys, count)
    return list(_concatenate_parts(held))


def _smallest(
    held: list[Columns], keys: list[np.ndarray[Any, Any]], count: int
) -> tuple[list[Columns], list[np.ndarray[Any, Any]]]:
    """Return the `count` rows with the smallest keys, in their order, as one part."""
    joined = np.concatenate(keys)
    rows = np.sort(np.argsort(joined, kind="stable")[:count])
    return [_rows(_concatenate_parts(held), rows)], [joined[rows]]


def _concatenate_parts(held: list[Columns]) -> Columns:
    return [
        None if column[0] is None else np.concatenate([part for part in column if part is not None])
        for column in zip(*held, strict=True)
    ]


def _rows(columns: Columns, rows: np.ndarray[Any, Any]) -> Columns:
    return [None if column is None else np.asarray(column)[rows] for column in columns]
