"""Files of points on the command line: the options that say how to read them, and how reading ends badly."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphereot.cli.native_stderr import panics_told
from sphereot.cli.options import ReadOptions

if TYPE_CHECKING:
    from sphereot.datasets import PointSet

__all__ = ["label", "read_files", "refuse_weights", "waiting"]


def read_files(
    paths: Sequence[Path], reading: ReadOptions, *, max_points: int | None = None, seed: int = 0
) -> "list[PointSet]":
    """The points of files that are to be compared: of one dimension, with columns in the same order."""
    from sphereot._arrays.validation import require_same_dim

    columns = None if reading.columns is None else reading.columns.split(",")
    told: dict[str, Any] = {**vars(reading), "columns": columns, "max_points": max_points, "seed": seed}
    found: list[PointSet] = []
    for path in paths:
        points = _read_points(path, told)
        first = found[0] if found else points
        if points.columns != first.columns and sorted(points.columns) == sorted(first.columns):
            # The same columns in another order would be another rotation of the sphere.
            points = _read_points(path, {**told, "prefix": None, "columns": first.columns})
        require_same_dim(str(first.path), first.points, str(path), points.points)
        found.append(points)
    return found


def _read_points(path: Path, told: dict[str, Any]) -> "PointSet":
    import numpy as np

    from sphereot import datasets

    if str(path) == "-" or path.is_fifo() or path.is_char_device():
        raise ValueError(f"{path}: is a stream, but files are looked at more than once; save it to a file first.")
    try:
        with panics_told(path), np.errstate(invalid="ignore"):  # damaged files hold numbers that NumPy warns of
            return datasets.read_points(path, **told)
    except (ValueError, TypeError, OSError, MemoryError, ImportError):
        raise
    except Exception as error:  # the file may be to blame, and is named in any case
        raise ValueError(f"{path}: cannot be read ({type(error).__name__}: {error}).") from error


def label(points: "PointSet") -> str:
    """One line on what was read from a file."""
    from sphereot._support.text import printable

    n, dim = points.points.shape
    dropped = f", {points.dropped} rows dropped" if points.dropped else ""
    weighted = "" if points.weights is None else ", weighted"
    return f"{printable(str(points.path))}: {n} point{'s' * (n != 1)} in dimension {dim}{weighted}{dropped}"


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """Show on a terminal that work is under way; stdout stays clean."""
    from rich.console import Console

    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    # On a copy of stderr: while files are read, what goes to stderr itself is held back.
    with os.fdopen(os.dup(2), "w") as terminal, Console(file=terminal).status(message):
        yield


def refuse_weights(weights: str | None, command: str) -> None:
    """Say why a test takes no weights, and what there is instead."""
    if weights is not None:
        raise ValueError(
            f"--weights: `sphereot {command}` takes none, for its p-value is one of points that all count alike; with "
            "weights it would also answer to a change in the weights. Leave --weights out; where a weight is a number "
            "of independent observations, repeat the row so often; `sphereot distance --weights` gives the weighted "
            "distance, without a test."
        )
