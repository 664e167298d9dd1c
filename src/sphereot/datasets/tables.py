"""Tables in CSV and Parquet files, read by polars in batches: only the wanted columns, only some rows at a time."""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sphereot.datasets.columns import choose, find
from sphereot.datasets.parquet_row_groups import row_group_sizes, row_ranges
from sphereot.datasets.point_file import Batch, Source, Wanted, default_rows, no_quote, require_in_proportion

__all__ = ["open_csv", "open_parquet"]

_LIST_WIDTH = 512  # lists tell their length only when read
_BATCHES_PER_SLICE = 2


def open_csv(path: Path, wanted: Wanted) -> Source:
    """The wanted columns of a CSV file: comma, semicolon or tab, `#` comments, with or without a line of names."""
    pl = _polars(path)
    skipped, separator = _first_line(path)
    options: dict[str, Any] = {
        "separator": separator,
        "skip_lines": skipped,
        "comment_prefix": "#",
        "encoding": "utf8-lossy",
        "infer_schema": False,  # all text: a value that is no number is then found and quoted, not guessed at
        "glob": False,
    }
    with _told(path, pl):
        scan = pl.scan_csv(path, **options)
        names = scan.collect_schema().names()
        named = not all(_is_number(name.partition("_duplicated_")[0]) for name in names)
        if not named:
            scan = pl.scan_csv(path, has_header=False, **options)
            names = [str(k) for k in range(len(names))]
    places, weights = choose(path, names, wanted)
    lines = _Lines(path, separator, named)
    chosen = [*places, *([] if weights is None else [weights])]
    numbers = [pl.nth(k).str.strip_chars().cast(pl.Float64, strict=False).alias(str(i)) for i, k in enumerate(chosen)]

    def batches() -> Iterator[Batch]:
        first = 0
        with _told(path, pl, lines.first_ragged):
            for frame in scan.select(numbers).collect_batches(chunk_size=wanted.rows_of(len(chosen))):
                values = frame.to_numpy()
                rows = np.arange(first, first + len(values))
                first += len(values)
                # A blank line gives a row without values; only the file itself tells it from a row of empty fields.
                empty = np.isnan(values).all(axis=1)
                if empty.any():
                    kept = ~(empty & np.isin(rows, lines.blank_rows))
                    values, rows = values[kept], rows[kept]
                count = len(places)
                yield Batch(np.ascontiguousarray(values[:, :count]), None if weights is None else values[:, -1], rows)

    return Source(
        path,
        tuple(names[k].strip() for k in places),
        wanted.lonlat,
        batches,
        locate=lines.locate,
        quote=lambda row, column: lines.field(row, chosen[column]),
        weights_name="weights" if weights is None else names[weights].strip(),
    )


def open_parquet(path: Path, wanted: Wanted) -> Source:
    """The wanted columns of a Parquet file; a single list-typed column holds the points as a whole."""
    pl = _polars(path)
    with _told(path, pl):
        scan = pl.scan_parquet(path, glob=False)
        schema = dict(scan.collect_schema())
        count = scan.select(pl.len()).collect().item()  # the footer knows
    names = list(schema)
    lists = [name for name, kind in schema.items() if _is_number_list(kind)]
    places: list[int]
    if wanted.columns is None and wanted.prefix is None and not wanted.lonlat and len(lists) == 1:
        places = [names.index(lists[0])]
        weights = None if wanted.weights is None else find(path, names, wanted.weights, "weights")
    else:
        places, weights = choose(path, names, wanted)
    chosen = [names[k] for k in places]
    vector = chosen[0] if len(chosen) == 1 and chosen[0] in lists else None
    for name in [*(chosen if vector is None else []), *([] if weights is None else [names[weights]])]:
        if not schema[name].is_numeric():
            raise ValueError(
                f"{path}: column {name!r} has type {schema[name]}, not numbers; choose the coordinates with columns or "
                "prefix (--columns, --prefix)."
            )
    kinds = {str(getattr(schema[name], "inner", schema[name])) for name in chosen}
    # Half precision stays what it is until the lengths of rows are judged.
    kind = pl.Float16 if kinds == {"Float16"} else pl.Float32 if kinds <= {"Float16", "Float32"} else pl.Float64
    coordinates = [pl.nth(k).cast(pl.List(kind) if vector else kind).alias(str(i)) for i, k in enumerate(places)]
    weight = [] if weights is None else [pl.nth(weights).cast(pl.Float64).alias("weights")]
    sized = getattr(schema[vector], "size", None) if vector else len(places)
    width = sized or _LIST_WIDTH
    if not wanted.in_parts:
        require_in_proportion(path, "the table", 4 * count * (sized or 1), path.stat().st_size)

    def batches() -> Iterator[Batch]:
        first, dim = 0, None
        rows, table = wanted.rows_of(width), scan.select(coordinates + weight)
        with _told(path, pl):
            if wanted.in_parts:
                frames = _slices(path, table, count, rows, _BATCHES_PER_SLICE * default_rows(width))
            else:
                frames = table.collect_batches(chunk_size=rows)  # reads several row groups ahead
            for frame in frames:
                if vector:
                    values = _vectors(path, frame["0"], dim, pl)
                    dim = values.shape[1]
                else:
                    values = np.ascontiguousarray(frame.select(pl.exclude("weights")).to_numpy())
                numbers = range(first, first + len(values))
                first += len(values)
                yield Batch(values, frame["weights"].to_numpy() if weight else None, numbers)
        if first != count:  # a thread of polars that fails over a damaged page ends the batches without an error
            raise ValueError(f"{path}: has {count} rows, but only {first} can be read; it seems to be damaged.")

    return Source(
        path,
        tuple(chosen),
        wanted.lonlat,
        batches,
        locate=lambda row: f"row {row}",
        quote=no_quote,
        weights_name="weights" if weights is None else names[weights],
        absent="is missing, holds NaN or infinity"
        + ("" if vector is None else f", or has not as many numbers in {vector!r} as the rows before"),
    )


def _slices(path: Path, table: Any, count: int, rows: int, least: int) -> Iterator[Any]:
    """All rows with little memory, at most `rows` at a time: polars holds one row group, as it is stored, and a slice.

    Slices have about `least` rows even where batches are smaller, for a row group is read anew for each slice of it.
    """
    sizes = row_group_sizes(path)
    for first, size in row_ranges(sizes if sum(sizes) == count else [count], max(rows, least)):
        yield from table.slice(first, size).collect().iter_slices(rows)


def _vectors(path: Path, lists: Any, dim: int | None, pl: Any) -> np.ndarray[Any, Any]:
    """Values of a list-typed column; rows without a list, or with one of another length than `dim`, become NaN."""
    lengths = lists.list.len().cast(pl.Int64).fill_null(-1).to_numpy()
    if dim is None:
        there = lengths[lengths > 0]
        if not there.size:
            raise ValueError(f"{path}: the lists hold no numbers; choose another column with columns (--columns).")
        dim = int(there[0])
    fits = lengths == dim
    flat: np.ndarray[Any, Any] = lists.filter(pl.Series(fits)).explode().to_numpy()
    if fits.all():
        return flat.reshape(-1, dim)
    values = np.full((len(lengths), dim), np.nan, flat.dtype)
    values[fits] = flat.reshape(-1, dim)
    return values


@dataclass(frozen=True)
class _Lines:
    """Lines of a CSV file as text, read anew when a fault must be shown: rows counted as polars counts them."""

    path: Path
    separator: str
    named: bool

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Line numbers, from 1, and fields of the first line and of all rows."""
        number, begun = 0, False

        def lines() -> Iterator[str]:
            nonlocal number, begun
            with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
                for line in file:
                    number += 1
                    begun = begun or (bool(line.strip()) and not line.startswith("#"))
                    if begun and not line.startswith("#"):
                        yield line

        with suppress(csv.Error):
            for fields in csv.reader(lines(), delimiter=self.separator):
                yield number, fields

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        return islice(self._records(), int(self.named), None)

    def locate(self, row: int) -> str:
        line, _ = next(islice(self._rows(), row, None), (0, []))
        return f"line {line}" if line else f"row {row}"

    def field(self, row: int, column: int) -> str | None:
        line, fields = next(islice(self._rows(), row, None), (0, []))
        return None if not line else fields[column] if column < len(fields) else ""

    @cached_property
    def blank_rows(self) -> list[int]:
        return [k for k, (_, fields) in enumerate(self._rows()) if len(fields) < 2 and not "".join(fields).strip()]

    def first_ragged(self) -> str:
        """Where a line has more fields than the first, if one has."""
        width = 0
        for line, fields in self._records():
            width = width or len(fields)
            if len(fields) > width:
                return f"line {line}: has {len(fields)} fields, but the first line has {width}; mend the line."
        return ""


@contextmanager
def _told(path: Path, pl: Any, explain: Callable[[], str] | None = None) -> Iterator[None]:
    """Say what polars says in one line, with the file, and with what `explain` finds."""
    try:
        yield
    except pl.exceptions.NoDataError as error:
        raise ValueError(f"{path}: there are no rows in it.") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        found = explain() if explain else ""
        if found:
            raise ValueError(f"{path}, {found}") from error
        reason = str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
        raise ValueError(f"{path}: cannot be read; it may be truncated or of another format ({reason}).") from error


def _polars(path: Path) -> Any:
    try:
        import polars
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{path}: CSV and Parquet files are read by polars: pip install 'sphereot[data]'.", name=error.name
        ) from error
    return polars


def _first_line(path: Path) -> tuple[int, str]:
    """How many lines, blank or comments, stand before the first of the table, and what separates its fields."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        for number, line in enumerate(file):
            if line.strip() and not line.startswith("#"):
                return number, max(",;\t", key=line.count)
    return 0, ","


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_number_list(kind: Any) -> bool:
    inner = getattr(kind, "inner", None)
    return inner is not None and bool(inner.is_numeric())
