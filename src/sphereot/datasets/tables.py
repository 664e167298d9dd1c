"""Points in CSV, Parquet, Feather and JSON Lines files, read in batches: only the selected columns.

Parquet is read by pyarrow, which holds one row group as it is stored, and raises errors for damaged ones; the rest is
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
    no_quote,
    reading_errors,
    require_plausible_size,
)

_PROBLEM = "cannot be read; it may be truncated or of another format"
_LIST_WIDTH = 2048  # assumed: the length of lists is known only after reading
_PARQUET_ROWS = 1 << 17  # at most in a batch
_SEPARATORS = ",;\t"


def open_csv(source: Source, selection: Selection) -> PointFile:
    """Open a CSV file: comma, semicolon or tab, `#` comments, with or without a line of names.

    Quotes in tab-separated values are part of the text, unless there are some in the first line.
    """
    pl = require("polars", f"{source}: reading this type of file")
    form = _first_line(source.local)
    if form is None:
        raise ValueError(f"{source}: there are no rows in it.")
    skipped, separator, is_quoted = form
    options: dict[str, Any] = {
        "separator": separator,
        "quote_char": '"' if is_quoted else None,
        "skip_lines": skipped,
        "comment_prefix": "#",
        "encoding": "utf8-lossy",
        "infer_schema": False,  # all columns as text, so that a value that is no number can be quoted
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
    lines = _Lines(source.local, separator, has_header, is_quoted)
    chosen = [*indices, *([] if weights is None else [weights])]
    around = None if is_quoted else ' \r"'  # blanks, or also quotes that polars has not removed
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
                # A blank line gives a row without values; only the text tells it from a row of empty fields.
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
    """Open a Parquet file; a single list-typed column holds all coordinates."""
    pl = require("polars", f"{source}: reading this type of file")
    require("pyarrow", f"{source}: reading this type of file")
    from pyarrow import parquet

    def frames(columns: Sequence[str], rows: int) -> Iterator[Any]:
        with parquet.ParquetFile(source.local) as file:
            for group in range(file.num_row_groups):  # memory of a row group is free only after its last batch
                for batch in file.iter_batches(
                    min(rows, _PARQUET_ROWS), row_groups=[group], columns=columns, use_threads=False
                ):
                    yield pl.from_arrow(batch)

    with reading_errors(source, _PROBLEM), parquet.ParquetFile(source.local) as file:
        empty = pl.from_arrow(file.schema_arrow.empty_table())  # not by its name, which polars may take for a pattern
        schema, count = dict(empty.schema), file.metadata.num_rows
    return _open_columns(source, selection, schema, count, frames)


def open_feather(source: Source, selection: Selection) -> PointFile:
    """Open a Feather (Arrow IPC) file, as `open_parquet`."""
    pl = require("polars", f"{source}: reading this type of file")
    return _open_scan(source, selection, pl, lambda: pl.scan_ipc(source.local, glob=False))


def open_json_lines(source: Source, selection: Selection) -> PointFile:
    """Open a file with one JSON object per line, as `open_parquet`."""
    pl = require("polars", f"{source}: reading this type of file")
    return _open_scan(source, selection, pl, lambda: pl.scan_ndjson(source.local, infer_schema_length=1000))


def _open_scan(source: Source, selection: Selection, pl: Any, scanned: Callable[[], Any]) -> PointFile:
    with reading_errors(source, _PROBLEM):
        scan = scanned()
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
    """Open a table with types: `frames(columns, rows)` reads some columns in data frames of at most `rows` rows."""
    import polars as pl

    names = list(schema)
    lists = [
        name for name, kind in schema.items() if getattr(kind, "inner", None) is not None and kind.inner.is_numeric()
    ]
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
                f"{source}: column {name!r} has type {schema[name]}, not numbers; choose the coordinates with columns "
                "or prefix (--columns, --prefix)."
            )
    kinds = {str(getattr(schema[name], "inner", schema[name])) for name in chosen}
    # Half precision is kept until the lengths of rows are validated, which allow it a wider tolerance.
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
            raise ValueError(f"{source}: has {count} rows, but only {first} can be read; it seems to be damaged.")

    return PointFile(
        source,
        tuple(chosen),
        selection.lonlat,
        batches,
        locate=lambda row: f"row {row}",
        quote=no_quote,
        weights_name="weights" if weights is None else names[weights],
        nan_message="is missing, holds NaN or infinity"
        + ("" if vector is None else f", or has not as many numbers in {vector!r} as the rows before"),
    )


def _label_columns(source: Source, names: Sequence[str], selection: Selection, count: int, pl: Any) -> list[Any]:
    """Expressions of the columns of text; while they are read, coordinates have the numbers below `count` as names."""
    taken = {"weights", *map(str, range(count))}.intersection(selection.labels)
    if taken:
        raise ValueError(
            f"{source}: the column {min(taken)!r} (of {LABEL_OPTIONS}) needs another name than a number or 'weights'; "
            "rename it first."
        )
    keys = partition_keys(source.path)
    columns = []
    for label in selection.labels:
        index = find_label(source, names, label)
        text = pl.lit(keys[label], pl.String) if index is None else pl.col(names[index]).cast(pl.String)
        columns.append(text.alias(label))
    return columns


def _vectors(source: Source, lists: Any, dim: int | None, pl: Any) -> np.ndarray[Any, Any]:
    """Values of a list-typed column as an array; rows without a list of length `dim` become NaN."""
    lengths = lists.list.len().cast(pl.Int64).fill_null(-1).to_numpy()
    if dim is None:
        positive = lengths[lengths > 0]
        if not positive.size:
            raise ValueError(f"{source}: the lists hold no numbers; choose another column with columns (--columns).")
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
    """Text of the lines of a CSV file, read only for error messages; rows are counted as polars counts them."""

    path: Path
    separator: str
    has_header: bool
    is_quoted: bool

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Line numbers, from 1, and fields of the first line and of all rows."""
        number, in_table = 0, False

        def lines() -> Iterator[str]:
            nonlocal number, in_table
            with _open_text(self.path, "") as file:
                for line in file:
                    number += 1
                    in_table = in_table or (bool(line.strip()) and not line.startswith("#"))
                    if in_table and not line.startswith("#"):
                        yield line

        with suppress(csv.Error):
            reader = (
                csv.reader(lines(), delimiter=self.separator)
                if self.is_quoted
                else csv.reader(lines(), delimiter=self.separator, quoting=csv.QUOTE_NONE)
            )
            for fields in reader:
                yield number, fields

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        return islice(self._records(), int(self.has_header), None)

    def locate(self, row: int) -> str:
        """Line of a row, for messages."""
        line, _ = next(islice(self._rows(), row, None), (0, []))
        return f"line {line}" if line else f"row {row}"

    def field(self, row: int, column: int) -> str | None:
        """Text of a field, None if there is no such row."""
        line, fields = next(islice(self._rows(), row, None), (0, []))
        if not line:
            return None
        return fields[column] if column < len(fields) else ""

    @cached_property
    def blank_rows(self) -> list[int]:
        """Numbers of the rows that are blank lines."""
        return [k for k, (_, fields) in enumerate(self._rows()) if len(fields) < 2 and not "".join(fields).strip()]

    def first_ragged(self) -> str:
        """Message on the first line with more fields than the first one; empty if there is none."""
        width = 0
        for line, fields in self._records():
            width = width or len(fields)
            if len(fields) > width:
                return f"line {line}: has {len(fields)} fields, but the first line has {width}; fix the line."
        return ""


def is_separated(path: Path) -> bool:
    """Whether there are commas, semicolons or tabs in the first line of a text file that is no comment."""
    with _open_text(path, "\n") as file:
        line = next((line for line in file if line.strip() and not line.startswith("#")), "")
    return any(separator in line for separator in _SEPARATORS)


def _first_line(path: Path) -> tuple[int, str, bool] | None:
    """Number of lines before the table, separator of its fields, whether they are quoted; None if there is no table."""
    with _open_text(path, "\n") as file:
        for number, line in enumerate(file):
            if line.strip() and not line.startswith("#"):
                separator = max(_SEPARATORS, key=line.count)
                # Tab-separated values are written without quotes (GBIF), where a quote in a text would begin a field
                # of many lines; programs that quote fields quote the names too.
                return number, separator, separator != "\t" or '"' in line
    return None


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
