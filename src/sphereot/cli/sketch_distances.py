"""Commands on sketches in place of data files, mixed with data files too: distances with bounds of their errors."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sphereot._support.text import plural, printable
from sphereot.cli.labels import texts
from sphereot.cli.native_stderr import raise_panics
from sphereot.cli.options import ReadOptions
from sphereot.cli.outputs import for_reader, print_json
from sphereot.cli.points import load_sketch
from sphereot.cli.units import PER_TURN, Lengths, as_unit

if TYPE_CHECKING:
    from sphereot.sketch import Sketch

__all__ = ["any_sketch", "print_pairs", "print_uniformity", "refuse_for_sketches", "summarized"]

_NOTE = (
    "± is a bound of the error of the sketches on their great circles; the choice of great circles and the sampling of "
    "the points come on top."
)


def any_sketch(paths: Sequence[Path]) -> bool:
    """Whether one of the files is a sketch."""
    return any(path.suffix == ".sketch" for path in paths)


def refuse_for_sketches(context: typer.Context, reading: ReadOptions | None, *names: str) -> None:
    """Raise an error if one of these options was given, or one of `reading`: sketches cannot follow them."""
    refused = [*names, *(() if reading is None else vars(reading))]
    given = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in refused and str(context.get_parameter_source(parameter.name)).endswith("COMMANDLINE")
    ]
    if given:
        raise ValueError(
            f"{', '.join(given)}: cannot be given for sketches, which have no rows, and the great circles and groups "
            "they were made with. `sphereot sketch` makes others: its --help lists options such as --projections."
        )


def print_pairs(
    paths: Sequence[Path], reading: ReadOptions, p: float, *, unit: str | None = None, as_json: bool
) -> None:
    """Print the distances of all pairs of files; data files are summarized as the first sketch is."""
    from sphereot.sketch import pairwise

    sketches = _read(paths, reading)
    unit = as_unit(unit, sketches[0].dim)
    distances = pairwise(sketches, p=p)
    values, bounds = distances.value.tolist(), distances.error_bound.tolist()
    files = [{"path": str(path), "points": sketch.n} for path, sketch in zip(paths, sketches, strict=True)]
    if as_json:
        record = {"values": values, "error_bounds": bounds, "unit": "turns", "p": p, "note": _NOTE}
        print_json({**record, "n_projections": sketches[0].n_projections, "bins": sketches[0].bins, "files": files})
        return
    for k, path in enumerate(paths):
        typer.echo(f"[{k}] {printable(str(path))}: {plural(sketches[k].n, 'point')}")
    for i, j in combinations(range(len(paths)), 2):
        name = for_reader(f"SSW_{p:g}")
        typer.echo(f"[{i}] [{j}]  {name} = {_in_units(values[i][j], bounds[i][j], sketches[0].dim, unit)}")
    typer.echo(_NOTE)


def print_uniformity(path: Path, reading: ReadOptions, p: float, *, unit: str | None = None, as_json: bool) -> None:
    """Print the distance of a sketch to the uniform distribution."""
    (sketch,) = _read([path], reading)
    unit = as_unit(unit, sketch.dim)
    distance = sketch.distance_to_uniform(p=p)
    if as_json:
        record = Lengths(1, sketch.dim, unit).record(distance.value)
        record |= {"error_bound": distance.error_bound, "p": p, "points": sketch.n}
        print_json({**record, "n_projections": sketch.n_projections, "bins": sketch.bins, "note": _NOTE})
        return
    name = for_reader(f"SSW_{p:g}")
    typer.echo(f"{name} to uniform = {_in_units(distance.value, distance.error_bound, sketch.dim, unit)}")
    typer.echo(
        f"{printable(str(path))}: {plural(sketch.n, 'point')}. {_NOTE} "
        "A test with a p-value needs the points themselves."
    )


def _read(paths: Sequence[Path], reading: ReadOptions) -> "list[Sketch]":
    loaded = {path: load_sketch(path) for path in paths if path.suffix == ".sketch"}
    first = next(iter(loaded.values()))
    return [
        loaded[path] if path in loaded else summarized(path, reading, first, of=(index, len(paths)))
        for index, path in enumerate(paths)
    ]


def summarized(
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
    from sphereot import datasets
    from sphereot.sketch import Sketch

    layout = like.layout
    count = layout.groups if groups else 1
    sketch = Sketch(layout.dim, layout.n_projections, layout.bins, layout.seed, method=layout.method, groups=count)
    arguments: dict[str, Any] = {**reading.for_file(*of), "labels": () if column is None else (column,)}
    with raise_panics(path):
        for batch in datasets.iter_points(path, **arguments):
            if batch.points.shape[1] != layout.dim:
                raise ValueError(
                    f"{path}: points have dimension {batch.points.shape[1]}, but the sketches have {layout.dim}; "
                    "choose the columns with --columns."
                )
            labels = None
            if groups:
                rows = range(sketch.n, sketch.n + len(batch))
                labels = list(rows) if column is None else texts(batch, column)
            sketch.update(batch.points, batch.weights, labels)
    return sketch


def _in_units(value: float, bound: float, dim: int, unit: str | None = None) -> str:
    units = ["turns", *(["degrees"] if dim == 3 else [])] if unit is None else [unit]
    return " = ".join(f"{PER_TURN[name] * value:.6g} ± {PER_TURN[name] * bound:.2g} {name}" for name in units)
