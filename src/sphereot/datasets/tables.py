"""Points in CSV, Parquet, Feather and JSON Lines files: the selected columns are read in batches.

Parquet is read by pyarrow, which needs memory for one row group and raises errors for damaged files. Other formats are
read by polars, which also converts the columns of all formats.
"""

import csv
import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np

from sphereot._support.extras import require
from sphereot.datasets.addresses import Source, partition_keys
from sphereot.datasets.rows import (
    LABEL_OPTIONS,
    Batch,
    PointFile,
    Selection,
    choose,
    find,
    find_label,
    reading_errors,
    require_plausible_size,
)

_PROBLEM = "cannot be read; it may be truncated or of another format"
_LIST_WIDTH = 2048  # assumed: the length of lists is known only after reading
_PARQUET_ROWS = 1 << 17  # at most in a batch
_SEPARATORS = ",;\t"


def open_csv(source: Source, selection: Selection) -> PointFile:
    """Open a CSV file: comma, semicolon or tab, `#` comments, with or without a line of names."""
    pl = require("polars", f"{source}: reading this type of file")
    skipped, line = _first_line(source.local)
    if not line:
        raise ValueError(f"{source}: there are no rows in it.")
    separator = max(_SEPARATORS, key=line.count)
    # Tab-separated values are often written without quotes (GBIF), so a quote in a text would begin a field of many
    # lines. Programs that quote fields also quote the names.
    is_quoted = separator != "\t" or '"' in line
    options: dict[str, Any] = {
        "separator": separator,
        "quote_char": '"' if is_quoted else None,
        "skip_lines": skipped,
        "comment_prefix": "#",
        "encoding": "utf8-lossy",
        "infer_schema": False,  # all columns are text, so messages can quote values that are not numbers
        "glob": False,
    }
    with reading_errors(source, _PROBLEM):
        scan = pl.scan_csv(source.local, **options)
        names = scan.collect_schema().names()
        has_header = not all(_is_number(name.partition("_duplicated_")[0]) for name in names)
        if not has_header:
            scan = pl.scan_csv(source.local, has_header=False, **options)
            names = [str(k) for k in range(len(names))]
    indices, weights = choose(source, names, selection)
    lines = _Lines(source.local, skipped, separator, has_header, is_quoted)
    chosen = [*indices, *([] if weights is None else [weights])]
    around = None if is_quoted else ' \r"'  # None is blanks only: polars has removed the quotes
    numbers = [
        pl.nth(k).str.strip_chars(around).cast(pl.Float64, strict=False).alias(str(i)) for i, k in enumerate(chosen)
    ]
    texts = _label_columns(source, names, selection, len(numbers), pl)

    def batches() -> Iterator[Batch]:
        first = 0
        with reading_errors(source, _PROBLEM, lines.first_ragged):
            table = scan.select(numbers + texts)
            for frame in table.collect_batches(chunk_size=selection.rows_per_batch(len(chosen))):
                values = frame[:, : len(numbers)].to_numpy()
                labels = {label: frame[label].to_numpy() for label in selection.labels}
                rows = np.arange(first, first + len(values))
                first += len(values)
                # A blank line is a row without values, as is a row of empty fields: only their text differs.
                empty = np.isnan(values).all(axis=1)
                if empty.any():
                    not_blank = ~(empty & np.isin(rows, lines.blank_rows))
                    values, rows = values[not_blank], rows[not_blank]
                    labels = {label: column[not_blank] for label, column in labels.items()}
                coordinates = np.ascontiguousarray(values[:, : len(indices)])
                yield Batch(coordinates, None if weights is None else values[:, -1], rows, labels)

    return PointFile(
        source,
        tuple(names[k].strip() for k in indices),
        selection.lonlat,
        batches,
        locate=lines.locate,
        quote=lambda row, column: lines.field(row, chosen[column]),
        weights_name="weights" if weights is None else names[weights].strip(),
    )


def open_parquet(source: Source, selection: Selection) -> PointFile:
    """Open a Parquet file. If it has exactly one column of lists, this column contains the coordinates."""
    pl = require("polars", f"{source}: reading this type of file")
    require("pyarrow", f"{source}: reading this type of file")
    from pyarrow import parquet

    def frames(columns: Sequence[str], rows: int) -> Iterator[Any]:
        with parquet.ParquetFile(source.local) as file:
            for group in range(file.num_row_groups):  # one at a time, so its memory is free after its last batch
                for batch in file.iter_batches(
                    min(rows, _PARQUET_ROWS), row_groups=[group], columns=columns, use_threads=False
                ):
                    yield pl.from_arrow(batch)

    with reading_errors(source, _PROBLEM), parquet.ParquetFile(source.local) as file:
        empty = pl.from_arrow(file.schema_arrow.empty_table())
        schema, count = dict(empty.schema), file.metadata.num_rows
    return _open_columns(source, selection, schema, count, frames)


def open_feather(source: Source, selection: Selection) -> PointFile:
    """Open a Feather (Arrow IPC) file, as `open_parquet`."""
    return _open_scan(source, selection, lambda pl: pl.scan_ipc(source.local, glob=False))


def open_json_lines(source: Source, selection: Selection) -> PointFile:
    """Open a file with one JSON object per line, as `open_parquet`."""
    return _open_scan(source, selection, lambda pl: pl.scan_ndjson(source.local, infer_schema_length=1000))


def _open_scan(source: Source, selection: Selection, open_with: Callable[[Any], Any]) -> PointFile:
    pl = require("polars", f"{source}: reading this type of file")
    with reading_errors(source, _PROBLEM):
        scan = open_with(pl)
        schema = dict(scan.collect_schema())
        count = scan.select(pl.len()).collect().item()

    def frames(columns: Sequence[str], rows: int) -> Iterator[Any]:
        yield from scan.select(columns).collect_batches(chunk_size=rows)

    return _open_columns(source, selection, schema, count, frames)


def _open_columns(
    source: Source,
    selection: Selection,
    schema: dict[str, Any],
    count: int,
    frames: Callable[[Sequence[str], int], Iterator[Any]],
) -> PointFile:
    """Open a table with a schema: `frames(columns, rows)` reads columns in data frames of at most `rows` rows."""
    import polars as pl

    names = list(schema)
    inner = {name: getattr(kind, "inner", None) for name, kind in schema.items()}
    lists = [name for name, kind in inner.items() if kind is not None and kind.is_numeric()]
    indices: list[int]
    if selection.columns is None and selection.prefix is None and not selection.lonlat and len(lists) == 1:
        indices = [names.index(lists[0])]
        weights = None if selection.weights is None else find(source, names, selection.weights, "weights")
    else:
        indices, weights = choose(source, names, selection)
    chosen = [names[k] for k in indices]
    vector = chosen[0] if len(chosen) == 1 and chosen[0] in lists else None
    for name in [*(chosen if vector is None else []), *([] if weights is None else [names[weights]])]:
        if not schema[name].is_numeric():
            raise ValueError(
                f"{source}: column {name!r} must contain numbers, got type {schema[name]}. Choose the coordinates with "
                "columns or prefix (--columns, --prefix)."
            )
    kinds = {str(schema[name] if inner[name] is None else inner[name]) for name in chosen}
    # Half precision is kept until the lengths of rows are validated, since it has a larger tolerance.
    kind = pl.Float16 if kinds == {"Float16"} else pl.Float32 if kinds <= {"Float16", "Float32"} else pl.Float64
    coordinates = [pl.col(name).cast(pl.List(kind) if vector else kind).alias(str(i)) for i, name in enumerate(chosen)]
    weight = [] if weights is None else [pl.col(names[weights]).cast(pl.Float64).alias("weights")]
    texts = _label_columns(source, names, selection, len(coordinates), pl)
    needed = list(dict.fromkeys(name for column in coordinates + weight + texts for name in column.meta.root_names()))
    known_width = getattr(schema[vector], "size", None) if vector else len(indices)
    width = known_width or _LIST_WIDTH
    if not selection.in_parts:
        require_plausible_size(source, "the table", 4 * count * (known_width or 1), source.local.stat().st_size)

    def batches() -> Iterator[Batch]:
        first, dim = 0, None
        with reading_errors(source, _PROBLEM):
            for read in frames(needed, selection.rows_per_batch(width)):
                frame = read.select(coordinates + weight + texts)
                if vector:
                    values = _vectors(source, frame["0"], dim, pl)
                    dim = values.shape[1]
                else:
                    values = np.ascontiguousarray(frame[:, : len(coordinates)].to_numpy())
                numbers = range(first, first + len(values))
                first += len(values)
                labels = {label: frame[label].to_numpy() for label in selection.labels}
                yield Batch(values, frame["weights"].to_numpy() if weight else None, numbers, labels)
        if first != count:  # if a thread of polars fails, the batches end without an error
            raise ValueError(f"{source}: has {count} rows, but only {first} can be read. It seems to be damaged.")

    return PointFile(
        source,
        tuple(chosen),
        selection.lonlat,
        batches,
        locate=lambda row: f"row {row}",
        weights_name="weights" if weights is None else names[weights],
        nan_message="is missing, holds NaN or infinity"
        + ("" if vector is None else f", or has a list {vector!r} of another length than the first"),
    )


def _label_columns(source: Source, names: Sequence[str], selection: Selection, count: int, pl: Any) -> list[Any]:
    """Return expressions of the columns of text. The names of coordinates are the numbers below `count` then."""
    taken = {"weights", *map(str, range(count))}.intersection(selection.labels)
    if taken:
        raise ValueError(
            f"{source}: the name of a column (of {LABEL_OPTIONS}) must not be a number or 'weights', got "
            f"{min(taken)!r}. Rename it first."
        )
    keys = partition_keys(source.path)
    columns = []
    for label in selection.labels:
        index = find_label(source, names, label)
        text = pl.lit(keys[label], pl.String) if index is None else pl.col(names[index]).cast(pl.String)
        columns.append(text.alias(label))
    return columns


def _vectors(source: Source, lists: Any, dim: int | None, pl: Any) -> np.ndarray[Any, Any]:
    """Return the values of a column of lists as an array, with NaN for rows without a list of length `dim`."""
    lengths = lists.list.len().cast(pl.Int64).fill_null(-1).to_numpy()
    if dim is None:
        positive = lengths[lengths > 0]
        if not positive.size:
            raise ValueError(f"{source}: the lists are empty. Choose another column with columns (--columns).")
        dim = int(positive[0])
    has_length = lengths == dim
    flat: np.ndarray[Any, Any] = lists.filter(pl.Series(has_length)).explode().to_numpy(writable=True)
    if has_length.all():
        return flat.reshape(-1, dim)
    values = np.full((len(lengths), dim), np.nan, flat.dtype)
    values[has_length] = flat.reshape(-1, dim)
    return values


@dataclass(frozen=True)
class _Lines:
    """Text of the lines of a CSV file, read only for messages. Rows are counted as in polars."""

    path: Path
    skipped: int  # lines before the table
    separator: str
    has_header: bool
    is_quoted: bool

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line numbers, from 1, and fields of the first line and of all rows."""
        number = 0

        def lines() -> Iterator[str]:
            nonlocal number
            with _open_text(self.path, "") as file:
                for number, line in enumerate(file, 1):
                    if number > self.skipped and not line.startswith("#"):
                        yield line

        with suppress(csv.Error):
            quoting: Any = csv.QUOTE_MINIMAL if self.is_quoted else csv.QUOTE_NONE
            for fields in csv.reader(lines(), delimiter=self.separator, quoting=quoting):
                yield number, fields

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        return islice(self._records(), int(self.has_header), None)

    def locate(self, row: int) -> str:
        """Return the line of a row, for messages."""
        line, _ = next(islice(self._rows(), row, None), (0, []))
        return f"line {line}" if line else f"row {row}"

    def field(self, row: int, column: int) -> str | None:
        """Return the text of a field, or None if there is no such row."""
        line, fields = next(islice(self._rows(), row, None), (0, []))
        if not line:
            return None
        return fields[column] if column < len(fields) else ""

    @cached_property
    def blank_rows(self) -> list[int]:
        """Numbers of the rows that are blank lines."""
        return [k for k, (_, fields) in enumerate(self._rows()) if len(fields) < 2 and not "".join(fields).strip()]

    def first_ragged(self) -> str:
        """Return a message about the first line with too many fields, or no text."""
        width = 0
        for line, fields in self._records():
            width = width or len(fields)
            if len(fields) > width:
                return f"line {line}: has {len(fields)} fields, but the first line has {width}. Fix the line."
        return ""


def is_separated(path: Path) -> bool:
    """Return whether there are commas, semicolons or tabs in the first line of the table in a text file."""
    line = _first_line(path)[1]
    return any(separator in line for separator in _SEPARATORS)


def _first_line(path: Path) -> tuple[int, str]:
    """Return the number of lines before the table, and its first line; no text if there is no table."""
    with _open_text(path, "\n") as file:
        lines = ((number, line) for number, line in enumerate(file) if line.strip() and not line.startswith("#"))
        return next(lines, (0, ""))


def _open_text(path: Path, newline: str) -> TextIO:
    """Open a text file that may be compressed with gzip."""
    if path.suffix.lower() == ".gz":
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline=newline))
    return path.open(encoding="utf-8-sig", errors="replace", newline=newline)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
