"""Read the files of a command: samples, labels, sketches, and windows of time."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sphereot._arrays.validation import require_labels, require_same_dim
from sphereot._support.text import natural_order, plural, printable
from sphereot.cli.options import ReadOptions

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.sketch import Sketch

LOCATION = "location of the row"
"""Label of points in windows of time: their row in the file, counted from 0."""

SKETCH_NOTE = (
    "± is a bound on the error of the sketches on their great circles. It does not contain the errors from the choice "
    "of great circles and from the sampling of the points."
)
"""Explanation of the error of a distance between sketches."""


def read_files(
    paths: Sequence[Path],
    reading: ReadOptions,
    *,
    labels: Sequence[str] = (),
    max_points: int | None = None,
    seed: int = 0,
    same_dim: bool = True,
) -> "list[PointSet]":
    """Read files to compare: with `same_dim`, of one dimension. Their columns are put into the same order."""
    sets: list[PointSet] = []
    with status("Reading ..."):
        for index, path in enumerate(paths):
            arguments = reading.for_file(index, len(paths))
            arguments |= {"labels": labels, "max_points": max_points, "seed": seed}
            points = _read_points(path, arguments)
            first = sets[0] if sets else points
            if points.columns != first.columns and sorted(points.columns) == sorted(first.columns):
                # The same columns in another order would rotate the sphere.
                points = _read_points(path, {**arguments, "prefix": None, "columns": first.columns})
            if same_dim:
                require_same_dim(str(first.path), first.points, str(path), points.points)
            sets.append(points)
    return sets


def _read_points(path: Path, arguments: dict[str, Any]) -> "PointSet":
    import numpy as np

    from sphereot.datasets import read_points

    if str(path) == "-" or path.is_fifo() or path.is_char_device():
        raise ValueError(f"{path}: is a stream, but files are read more than once. Save it to a file first.")
    try:
        with np.errstate(invalid="ignore"):  # NumPy warns of numbers in damaged files
            return read_points(path, **arguments)
    except (ValueError, TypeError, OSError, MemoryError, ImportError):
        raise
    except Exception as error:  # most likely, the file is damaged
        raise ValueError(f"{path}: cannot be read ({type(error).__name__}: {error}).") from error


def input_files(paths: Sequence[Path]) -> list[Path]:
    """Expand patterns such as 'week*.npy'. If the files are in alphabetical order, put week2 before week10.

    >>> [path.name for path in input_files([Path("week10.npy"), Path("week2.npy")])]
    ['week2.npy', 'week10.npy']
    """
    from sphereot.datasets.addresses import expand_patterns

    given = expand_patterns(paths)
    return sorted(given, key=lambda path: natural_order(str(path))) if given == sorted(given, key=str) else given


def any_sketch(paths: Sequence[Path]) -> bool:
    """Return whether a file is a sketch."""
    return any(path.suffix == ".sketch" for path in paths)


def load_sketch(path: Path) -> "Sketch":
    """Load a sketch from a file or a URL, or the sum of the sketches that match a pattern."""
    from sphereot.datasets.addresses import expand_patterns, local_copy
    from sphereot.sketch import Sketch

    sketches = []
    for file in expand_patterns([path]):
        with local_copy(file) as source:
            try:
                sketches.append(Sketch.from_bytes(source.local.read_bytes()))
            except ValueError as error:
                raise ValueError(f"{source}: {error}") from None
    return sum(sketches[1:], start=sketches[0])


def sketch_file(
    path: Path, arguments: dict[str, Any], like: "Sketch", *, groups: bool = False, column: str | None = None
) -> "Sketch":
    """Create a sketch of a data file, with the great circles and bins of another sketch.

    `arguments` are arguments of `iter_points`. With `groups`, the values of a column are divided among as many groups
    as in the other sketch. Without a column, each row is a group.
    """
    from sphereot.datasets import iter_points
    from sphereot.sketch import Sketch

    layout = like.layout
    count = layout.groups if groups else 1
    sketch = Sketch(layout.dim, layout.n_projections, layout.bins, layout.seed, method=layout.method, groups=count)
    for batch in iter_points(path, **arguments, labels=() if column is None else (column,)):
        dim = batch.points.shape[1]
        if dim != layout.dim:
            raise ValueError(
                f"{path}: points have dimension {dim}, but the sketches have {layout.dim}. Choose the columns with "
                "--columns."
            )
        rows = range(sketch.n, sketch.n + len(batch)) if groups else None
        sketch.update(batch.points, batch.weights, rows if column is None else read_labels(batch, column))
    return sketch


def file_summary(points: "PointSet") -> str:
    """Describe the points of a file in one line."""
    from sphereot.datasets.addresses import address_of

    n, dim = points.points.shape
    dropped = f", {plural(points.dropped, 'row')} dropped" if points.dropped else ""
    weighted = "" if points.weights is None else ", weighted"
    name = printable(address_of(points.path) or str(points.path))
    files = "" if points.n_files == 1 else f", of {points.n_files} files"
    return f"{name}: {plural(n, 'point')} in dimension {dim}{weighted}{dropped}{files}"


def status(message: str) -> AbstractContextManager[object]:
    """Show a message with a spinner on stderr, if that is a terminal."""
    from rich.console import Console

    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return Console(stderr=True).status(message) if is_terminal else nullcontext()


def read_labels(batch: Any, column: str) -> list[str]:
    """Return the values of a column as text. A missing value raises an error."""
    require_labels(f"{batch.path}: column {column!r}", batch.labels[column])
    return [str(label) for label in batch.labels[column].tolist()]


def require_both(time: str | None, every: str | None) -> None:
    """Raise an error if only one of the two options is given."""
    if time is not None and every is None:
        raise ValueError("--time requires --every, the length of a window: hour, day, week, month, quarter or year.")
    if every is not None and time is None:
        raise ValueError("--every requires --time, the column of the times.")


def name_periods(points: "PointSet", time: str, every: str) -> list[str]:
    """Return the name of the hour, day, week, month, quarter or year of every point."""
    from sphereot.datasets import time_windows

    times, names = read_labels(points, time), [""] * len(points)
    try:
        windows = time_windows(times, cast(Any, every))
    except ValueError as error:
        raise ValueError(f"{points.path}, column {time!r}: {error}") from error
    for name, rows in windows.items():
        for row in rows.tolist():
            names[row] = name
    return names


def divide_by_time(
    reference: "PointSet", sets: "Sequence[PointSet]", time: str, every: str
) -> "tuple[PointSet, list[PointSet], list[str]]":
    """Return the reference, the windows in the order of time, and their names.

    Without other files, the first period of the file is the reference, and the other periods are the windows. A window
    may contain points of several files. It has the label `LOCATION`, and the numbers of its rows in the files.
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
    names = np.concatenate([name_periods(part, time, every) for part in parts])
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
            raise ValueError(f"--every: all points are in one {every}. Choose a shorter time, or give a reference.")
        reference = replace(windows.pop(min(windows)), dropped=reference.dropped)
    return reference, list(windows.values()), list(windows)
