"""Read the files that a command gets: samples, labels, sketches, and windows of time."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sphereot._arrays.validation import require_labels, require_same_dim
from sphereot._support.text import natural_order, plural, printable
from sphereot.cli.options import ReadOptions

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.sketch import Sketch

LOCATION = "location of the row"
"""Label of the points of windows: the row in its file, counted from 0."""

REMEDY_GROUPS = "Name the column of the group of each row with --groups."
"""What to do about rows that depend on each other, in a test that permutes groups."""

SKETCH_NOTE = (
    "± is a bound of the error of the sketches on their great circles. It does not contain the errors from the choice "
    "of great circles and from the sampling of the points."
)
"""What the error of a distance between sketches is."""

_MANY_REPEATED = 0.1  # of the points of a file


def read_files(
    paths: Sequence[Path],
    reading: ReadOptions,
    *,
    labels: Sequence[str] = (),
    max_points: int | None = None,
    seed: int = 0,
) -> "list[PointSet]":
    """Read files that will be compared: all of one dimension, with their columns in the same order."""
    sets: list[PointSet] = []
    for index, path in enumerate(paths):
        arguments = reading.for_file(index, len(paths))
        arguments |= {"labels": labels, "max_points": max_points, "seed": seed}
        points = _read_points(path, arguments)
        first = sets[0] if sets else points
        if points.columns != first.columns and sorted(points.columns) == sorted(first.columns):
            # The same columns in another order would be another rotation of the sphere.
            points = _read_points(path, {**arguments, "prefix": None, "columns": first.columns})
        require_same_dim(str(first.path), first.points, str(path), points.points)
        sets.append(points)
    return sets


def _read_points(path: Path, arguments: dict[str, Any]) -> "PointSet":
    import numpy as np

    from sphereot.datasets import read_points

    if str(path) == "-" or path.is_fifo() or path.is_char_device():
        raise ValueError(f"{path}: is a stream, but files are read more than once; save it to a file first.")
    try:
        with np.errstate(invalid="ignore"):  # NumPy warns of numbers in damaged files
            return read_points(path, **arguments)
    except (ValueError, TypeError, OSError, MemoryError, ImportError):
        raise
    except Exception as error:  # most likely the file is damaged: name it
        raise ValueError(f"{path}: cannot be read ({type(error).__name__}: {error}).") from error


def input_files(paths: Sequence[Path]) -> list[Path]:
    """Expand patterns such as 'week*.npy'; put week2 before week10 if the files are in the order of the alphabet.

    >>> [path.name for path in input_files([Path("week10.npy"), Path("week2.npy")])]
    ['week2.npy', 'week10.npy']
    """
    from sphereot.datasets.addresses import expand_patterns

    given = expand_patterns(paths)
    return sorted(given, key=lambda path: natural_order(str(path))) if given == sorted(given, key=str) else given


def any_sketch(paths: Sequence[Path]) -> bool:
    """Whether one of the files is a sketch."""
    return any(path.suffix == ".sketch" for path in paths)


def load_sketch(path: Path) -> "Sketch":
    """A sketch from a file or a URL; for a pattern, the sum of the sketches that it matches."""
    from sphereot.datasets.addresses import expand_patterns, local_copy
    from sphereot.sketch import Sketch

    total: Sketch | None = None
    for file in expand_patterns([path]):
        with local_copy(file) as source:
            try:
                loaded = Sketch.from_bytes(source.local.read_bytes())
            except ValueError as error:
                raise ValueError(f"{source}: {error}") from None
        total = loaded if total is None else total + loaded
    assert total is not None  # a pattern without matches is an error
    return total


def sketch_file(
    path: Path,
    reading: ReadOptions,
    like: "Sketch",
    *,
    of: tuple[int, int] = (0, 1),
    groups: bool = False,
    column: str | None = None,
) -> "Sketch":
    """A sketch of a data file on the great circles and bins of another; `of` is its number, and that of all files.

    With `groups` it has as many groups as the other, by the values of a column; without a column every row is a group.
    """
    from sphereot.datasets import iter_points
    from sphereot.sketch import Sketch

    layout = like.layout
    count = layout.groups if groups else 1
    sketch = Sketch(layout.dim, layout.n_projections, layout.bins, layout.seed, method=layout.method, groups=count)
    for batch in iter_points(path, **reading.for_file(*of), labels=() if column is None else (column,)):
        if batch.points.shape[1] != layout.dim:
            raise ValueError(
                f"{path}: points have dimension {batch.points.shape[1]}, but the sketches have {layout.dim}; choose "
                "the columns with --columns."
            )
        rows = range(sketch.n, sketch.n + len(batch)) if groups else None
        sketch.update(batch.points, batch.weights, rows if column is None else texts(batch, column))
    return sketch


def file_summary(points: "PointSet") -> str:
    """One line that says what was read from a file."""
    from sphereot.datasets.addresses import address_of

    n, dim = points.points.shape
    dropped = f", {plural(points.dropped, 'row')} dropped" if points.dropped else ""
    weighted = "" if points.weights is None else ", weighted"
    name = printable(address_of(points.path) or str(points.path))
    files = "" if points.n_files == 1 else f", of {points.n_files} files"
    return f"{name}: {plural(n, 'point')} in dimension {dim}{weighted}{dropped}{files}"


def note_repeated_locations(sets: "Sequence[PointSet]", remedy: str) -> None:
    """Print a note if many points of a file have the location of another one: tests need independent points."""
    import numpy as np

    for points in sets:
        hashes = np.fromiter((hash(row.tobytes()) for row in points.points), np.int64, len(points))
        counts = np.unique(hashes, return_counts=True)[1]
        repeated = int(counts[counts > 1].sum())
        if repeated > _MANY_REPEATED * len(points):
            typer.echo(
                f"Note: {repeated:,} of the {plural(len(points), 'point')} of {printable(str(points.path))} have the "
                "same location as another point. The test assumes independent points. If rows of one location depend "
                f"on each other (one station, document or user), the p-value is too small. {remedy}",
                err=True,
            )
            return


@contextmanager
def status(message: str) -> Iterator[None]:
    """Show a message with a spinner on stderr, if that is a terminal."""
    from rich.console import Console

    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(message):
        yield


def texts(batch: Any, column: str) -> list[str]:
    """The values of a column as text; an error if a value is missing."""
    require_labels(f"{batch.path}: column {column!r}", batch.labels[column])
    return [str(label) for label in batch.labels[column].tolist()]


def require_both(time: str | None, every: str | None) -> None:
    """Raise unless both options are given, or neither."""
    if time is not None and every is None:
        raise ValueError("--time: needs the length of a window; give --every hour, day, week, month, quarter or year.")
    if every is not None and time is None:
        raise ValueError("--every: needs the column of the times; give it with --time.")


def periods(points: "PointSet", time: str, every: str) -> list[str]:
    """The name of the hour, day, week, month, quarter or year of every point."""
    from sphereot.datasets.time_windows import period_labels

    try:
        return list(map(str, period_labels(texts(points, time), every)))
    except ValueError as error:
        message = str(error).replace("times:", f"{points.path}: column {time!r},").replace("every:", "--every:")
        raise ValueError(message) from error


def divide_by_time(
    reference: "PointSet", sets: "Sequence[PointSet]", time: str, every: str
) -> "tuple[PointSet, list[PointSet], list[str]]":
    """The reference, the windows in the order of time, and their names.

    Without other files, the first period of the reference's file is the reference, and the others are the windows. A
    window may have points of several files. It has the label `LOCATION`, and the numbers of its rows in the files.
    """
    import numpy as np

    parts = sets or [reference]
    origin = np.repeat(np.arange(len(parts)), list(map(len, parts)))
    rows = np.concatenate([np.arange(len(part)) if part.rows is None else np.asarray(part.rows) for part in parts])
    points = np.concatenate([part.points for part in parts])
    lonlat = [part.lonlat for part in parts if part.lonlat is not None]
    degrees = np.concatenate(lonlat) if lonlat else None
    labels = {name: np.concatenate([part.labels[name] for part in parts]) for name in parts[0].labels}
    suffixes = [f" of {part.path.name}" if len(parts) > 1 else "" for part in parts]
    labels[LOCATION] = np.array([f"row {row}{suffixes[k]}" for row, k in zip(rows, origin, strict=True)])
    names = np.concatenate([periods(part, time, every) for part in parts])
    windows = {}
    for name in np.unique(names).tolist():
        chosen = np.flatnonzero(names == name)
        windows[name] = replace(
            parts[origin[chosen[0]]],
            points=points[chosen],
            lonlat=None if degrees is None else degrees[chosen],
            labels={column: values[chosen] for column, values in labels.items()},
            dropped=0,  # of the file, not of the period
            total=len(chosen),
            rows=rows[chosen],
        )
    if not sets:
        if len(windows) < 2:
            raise ValueError(f"--every: all points are of one {every}; choose a shorter time, or give a reference.")
        reference = replace(windows.pop(min(windows)), dropped=reference.dropped)
    return reference, list(windows.values()), list(windows)
