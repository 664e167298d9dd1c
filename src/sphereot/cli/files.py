"""Reading the files of points that a command gets: samples, labels, and windows of time."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sphereot._arrays.validation import require_labels
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
    "± is a bound of the error of the sketches on their great circles; the choice of great circles and the sampling of "
    "the points come on top."
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
    from sphereot._arrays.validation import require_same_dim

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


def read_batches(
    path: Path, reading: ReadOptions, labels: Sequence[str] = (), *, of: tuple[int, int] = (0, 1)
) -> "Iterator[PointSet]":
    """The points of a file in parts; `of` is its number, and that of all files."""
    from sphereot import datasets

    return datasets.iter_points(path, **reading.for_file(*of), labels=labels)


def input_files(paths: Sequence[Path]) -> list[Path]:
    """Files in the order in which they are given; but if that is the order of the alphabet, week2 before week10.

    Patterns such as week*.npy, which a shell leaves alone inside quotes, stand for the files they match.

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
    """A sketch from a file or an address; of a pattern, the sum of the sketches that it matches."""
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
    from sphereot.sketch import Sketch

    layout = like.layout
    count = layout.groups if groups else 1
    sketch = Sketch(layout.dim, layout.n_projections, layout.bins, layout.seed, method=layout.method, groups=count)
    for batch in read_batches(path, reading, () if column is None else (column,), of=of):
        if batch.points.shape[1] != layout.dim:
            raise ValueError(
                f"{path}: points have dimension {batch.points.shape[1]}, but the sketches have {layout.dim}; choose "
                "the columns with --columns."
            )
        grouped: Sequence[Any] | None = None
        if groups:
            grouped = range(sketch.n, sketch.n + len(batch)) if column is None else texts(batch, column)
        sketch.update(batch.points, batch.weights, grouped)
    return sketch


def _read_points(path: Path, arguments: dict[str, Any]) -> "PointSet":
    import numpy as np

    from sphereot import datasets

    if str(path) == "-" or path.is_fifo() or path.is_char_device():
        raise ValueError(f"{path}: is a stream, but files are read more than once; save it to a file first.")
    try:
        with np.errstate(invalid="ignore"):  # NumPy warns of numbers in damaged files
            return datasets.read_points(path, **arguments)
    except (ValueError, TypeError, OSError, MemoryError, ImportError):
        raise
    except Exception as error:  # most likely the file is damaged: name it
        raise ValueError(f"{path}: cannot be read ({type(error).__name__}: {error}).") from error


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

    def count_repeated(points: "PointSet") -> int:
        hashes = np.fromiter((hash(row.tobytes()) for row in points.points), np.int64, len(points))
        counts = np.unique(hashes, return_counts=True)[1]
        return int(counts[counts > 1].sum())

    repeated, points = max(
        ((count_repeated(points), points) for points in sets), key=lambda pair: pair[0] / len(pair[1])
    )
    if repeated > _MANY_REPEATED * len(points):
        typer.echo(
            f"Note: {repeated:,} of the {plural(len(points), 'point')} of {printable(str(points.path))} have the same "
            "location as another point. The test assumes independent points. If rows of one location depend on each "
            f"other (one station, document or user), the p-value is too small. {remedy}",
            err=True,
        )


@contextmanager
def status(message: str) -> Iterator[None]:
    """Show a message with a spinner on stderr, if that is a terminal."""
    from rich.console import Console

    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(message):
        yield


def refuse_weights(weights: str | None, command: str) -> None:
    """Raise an error that explains why a test takes no weights, and what to do instead."""
    if weights is not None:
        raise ValueError(
            f"--weights: `sphereot {command}` takes none, because its p-value is for points of equal weight; with "
            "weights it would also react to a change of the weights. Leave --weights out. Where a weight counts "
            "independent observations, repeat the row as often. `sphereot distance --weights` gives the weighted "
            "distance, without a test."
        )


def texts(batch: Any, column: str) -> list[str]:
    """The values of a column as text; an error if one is missing."""
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
        labels: list[str] = period_labels(texts(points, time), every).tolist()
    except ValueError as error:
        message = str(error)
        remedy = message.replace("times:", f"{points.path}: column {time!r},").replace("every:", "--every:")
        raise ValueError(remedy) from error
    return labels


def divide_by_time(
    reference: "PointSet", sets: "Sequence[PointSet]", time: str, every: str
) -> "tuple[PointSet, list[PointSet], list[str]]":
    """The reference, the windows in the order of time, and their names.

    Without other files the first period of the reference's file is the reference, and the others are the windows. A
    window may have points of several files; they have the label `LOCATION` besides their own, and the numbers of their
    rows in the files.
    """
    import numpy as np

    parts = sets or [reference]
    numbers = [np.arange(len(part)) if part.rows is None else np.asarray(part.rows) for part in parts]
    origin = np.repeat(np.arange(len(parts)), list(map(len, parts)))
    rows = np.concatenate(numbers)
    points = np.concatenate([part.points for part in parts])
    lonlat = [part.lonlat for part in parts if part.lonlat is not None]
    degrees = np.concatenate(lonlat) if lonlat else None
    labels = {name: np.concatenate([part.labels[name] for part in parts]) for name in parts[0].labels}
    suffixes = [f" of {part.path.name}" if len(parts) > 1 else "" for part in parts]
    labels[LOCATION] = np.array([f"row {row}{suffixes[k]}" for row, k in zip(rows, origin, strict=True)])
    names = np.concatenate([periods(part, time, every) for part in parts])
    windows = []
    for name in sorted(set(names.tolist())):
        chosen = np.flatnonzero(names == name)
        window = replace(
            parts[origin[chosen[0]]],
            points=points[chosen],
            lonlat=None if degrees is None else degrees[chosen],
            labels={column: values[chosen] for column, values in labels.items()},
            dropped=0,  # of the file, not of the period
            total=len(chosen),
            rows=rows[chosen],
        )
        windows.append((str(name), window))
    if not sets:
        (_, first), *windows = windows
        if not windows:
            raise ValueError(f"--every: all points are of one {every}; choose a shorter time, or give a reference.")
        reference = replace(first, dropped=reference.dropped)
    return reference, [window for _, window in windows], [name for name, _ in windows]
