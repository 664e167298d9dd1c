"""Files of points on the command line: the options that say how to read them, and how reading ends badly."""

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereot.cli.errors import refuse, requires

if TYPE_CHECKING:
    from sphereot.datasets import PointSet

__all__ = ["ReadOptions", "ended_plainly", "label", "read_files", "waiting"]

Columns = Annotated[
    str | None,
    typer.Option("--columns", help="The coordinates: names or numbers from 0, with commas between, as in x,y,z."),
]
Prefix = Annotated[str | None, typer.Option("--prefix", help="The coordinates are the columns that begin so.")]
Key = Annotated[str | None, typer.Option("--key", help="Which array, of a .npz, .pt or .safetensors file.")]
LonLat = Annotated[
    bool,
    typer.Option("--lonlat", help="Longitudes and latitudes in degrees, found by their names or told by --columns."),
]
Normalize = Annotated[bool, typer.Option("--normalize", help="Scale rows to unit length.")]
Weights = Annotated[str | None, typer.Option("--weights", help="The column of weights.")]
DropBad = Annotated[
    bool, typer.Option("--drop-bad", help="Leave out and count rows that cannot be points, instead of refusing them.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")]


@dataclass(frozen=True)
class ReadOptions:
    """How to read files of points; as the arguments of `sphereot.datasets.read_points`."""

    columns: str | None = None
    prefix: str | None = None
    key: str | None = None
    lonlat: bool = False
    normalize: bool = False
    weights: str | None = None
    drop_bad: bool = False


def read_files(paths: Sequence[Path], options: ReadOptions) -> "list[PointSet]":
    """The points of files that are to be compared: of one dimension, with columns in the same order."""
    from sphereot import datasets
    from sphereot.arrays import require_same_dim

    told: dict[str, Any] = {**vars(options), "columns": options.columns and options.columns.split(",")}
    found: list[PointSet] = []
    for path in paths:
        points = datasets.read_points(path, **told)
        first = found[0] if found else points
        if points.columns != first.columns and sorted(points.columns) == sorted(first.columns):
            # The same columns in another order would be another rotation of the sphere.
            points = datasets.read_points(path, **{**told, "prefix": None, "columns": first.columns})
        require_same_dim(str(first.path), first.points, str(path), points.points)
        found.append(points)
    return found


def label(points: "PointSet") -> str:
    """One line on what was read from a file."""
    n, dim = points.points.shape
    dropped = f", {points.dropped} rows dropped" if points.dropped else ""
    weighted = "" if points.weights is None else ", weighted"
    return f"{points.path}: {n} point{'s' * (n != 1)} in dimension {dim}{weighted}{dropped}"


@contextmanager
def ended_plainly(debug: bool, extra: str = "data") -> Iterator[None]:
    """End with exit code 2 for bad files and calls: one line on stderr, or the traceback if `debug`."""
    if not debug:
        with refuse(ValueError, TypeError, OSError, MemoryError), requires(extra):
            yield
        return
    try:
        yield
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        traceback.print_exc()
        raise typer.Exit(2) from error


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """Show on a terminal that work is under way; stdout stays clean."""
    from rich.console import Console

    with Console(stderr=True).status(message):
        yield
