"""`sphereot distance` and `sphereot pairwise`: SSW between files of points."""

import math
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereot import pairwise_ssw_estimate, ssw_estimate
from sphereot._arrays.validation import as_method
from sphereot._support.text import cost_unit, plural, printable
from sphereot._support.units import Lengths, finite_or_none, format_with_error
from sphereot.cli.files import (
    SKETCH_NOTE,
    any_sketch,
    file_summary,
    input_files,
    load_sketch,
    read_files,
    sketch_file,
    status,
)
from sphereot.cli.options import (
    AsJson,
    FirstFile,
    Method,
    OrderByData,
    Projections,
    ReadOptions,
    SecondFile,
    Seed,
    Unit,
    WeightedReadOptions,
    order_for,
    refuse_for_sketches,
)
from sphereot.cli.show import command, for_reader, lengths_for, print_json

if TYPE_CHECKING:
    from sphereot import SSWEstimate
    from sphereot.datasets import PointSet
    from sphereot.sketch import Sketch

_NEAR_CHANCE = 1.5  # times the value of two samples of one distribution: below it, the bootstrap is not reliable

RelativeTolerance = Annotated[
    float | None,
    typer.Option(
        "--rtol",
        help="Double the number of great circles until the standard error is at most this fraction of the value.",
    ),
]
EstimateMethod = Annotated[
    str | None,
    typer.Option(
        "--method",
        help="How great circles are drawn: quasi (well placed), orthogonal, iid, or importance (more often near the "
        "poles of tight samples). Default: the best for the data.",
        show_default=False,
    ),
]
MaxProjections = Annotated[int, typer.Option("--max-projections", help="Largest number of great circles with --rtol.")]


@command()
def distance(
    context: typer.Context,
    a: FirstFile,
    b: SecondFile,
    reading: WeightedReadOptions,
    p: OrderByData = None,
    projections: Projections = 200,
    method: EstimateMethod = None,
    rtol: RelativeTolerance = None,
    max_projections: MaxProjections = 100_000,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            "--bootstrap",
            help="Number of resamples of the points, for an interval over their draw and the level of chance: 200.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    unit: Unit = None,
    as_json: AsJson = False,
) -> None:
    """Spherical Sliced-Wasserstein distance between the points of two files.

    Each row of a file is a point on the sphere. The command prints SSW_p^p and its root SSW_p, in turns (a great circle
    has length 1) and, on S^2, in degrees; --unit chooses another. SSW_1, the default for locations, is the mean
    displacement along great circles. SSW_2 is none: it weighs the few circles on which a point moves far, and for
    points 10 degrees apart it is 14.8 degrees.
    The standard error after ± is that from the choice of great circles only, not from the sampling of the points.
    A row that is not a point ends the command with exit code 2 and a message with file and line. Nothing is unpickled.

    Two samples of unit vectors: sphereot distance a.npy b.npy

    Directions of embeddings: sphereot distance old.parquet new.parquet --columns embedding --normalize

    Columns with a common prefix, to one percent: sphereot distance a.csv b.csv --prefix x_ --rtol 0.01

    Locations on the earth: sphereot distance quakes.csv fires.geojson --lonlat --unit km

    With an interval over the draw of the points: sphereot distance a.npy b.npy --bootstrap 200

    The rows of many files as one sample: sphereot distance then.parquet 'now/**/*.parquet' --columns embedding

    Cities, weighted, for a script: sphereot distance then.csv now.csv --lonlat --weights population --json

    A stored summary and new data: sphereot distance 2025.sketch today.npy
    """
    p = order_for(p, reading)
    if any_sketch([a, b]):
        _refuse_for_sketches(context, reading, [a, b])
        print_pairs([a, b], reading, p, unit=unit, as_json=as_json)
        return
    with status("Reading ..."):
        x, y = read_files([a, b], reading)
    estimate = ssw_estimate(
        x.points,
        y.points,
        p=p,
        x_weights=x.weights,
        y_weights=y.weights,
        n_projections=projections,
        method=None if method is None else as_method(method, also=("importance",)),
        seed=seed,
        rtol=rtol,
        max_projections=max_projections,
        progress=True,
        bootstrap=bootstrap,
    )
    lengths = lengths_for(p, x.points.shape[1], unit)
    root = (estimate.distance, estimate.distance_standard_error)
    note, count = _note(lengths, [estimate.standard_error]), estimate.n_projections
    if as_json:
        record: dict[str, Any] = {"value": estimate.value, "standard_error": finite_or_none(estimate.standard_error)}
        record |= {**lengths.record(*root), "note": note, "p": p, "n_projections": count}
        record |= {"method": estimate.method, "n_replicates": estimate.n_replicates, "reliable": estimate.reliable}
        if bootstrap is not None:
            record |= {"sampling_interval": list(estimate.sampling_interval()), "noise_floor": estimate.noise_floor}
        print_json({**record, "seed": seed, "files": [_file_record(x), _file_record(y)]})
        return
    drawn = f"({count} great circles, {estimate.method})"
    if p == 1:  # the distance is its own power
        typer.echo(for_reader(f"SSW_1 = {lengths.roots_with_error(*root)}   {drawn}"))
    else:
        power, name = for_reader(lengths.name), for_reader(f"SSW_{p:g}")
        shown = format_with_error(estimate.value, estimate.standard_error)
        typer.echo(f"{power} = {shown} {for_reader(cost_unit(p))}   {drawn}")
        typer.echo(f"{name:<{len(power)}} = {lengths.roots_with_error(*root)}")
    if bootstrap is not None:
        _print_sampling(estimate, lengths)
    typer.echo(for_reader(note))
    typer.echo(f"{file_summary(x)}\n{file_summary(y)}")
    _warn_if_inaccurate(rtol, [(estimate.value, estimate.standard_error)], count)
    if not estimate.reliable:
        typer.echo(
            "Note: a few rare great circles carry a large part of the value, so ± cannot be trusted. "
            "Leave out --method, or draw more with --projections.",
            err=True,
        )


@command()
def pairwise(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Two or more samples: files (as for distance), folders and addresses; a quoted pattern is one sample "
            "per match.",
            show_default=False,
        ),
    ],
    reading: WeightedReadOptions,
    p: OrderByData = None,
    projections: Projections = 200,
    method: Method = "quasi",
    rtol: RelativeTolerance = None,
    max_projections: MaxProjections = 100_000,
    seed: Seed = 0,
    unit: Unit = None,
    as_json: AsJson = False,
) -> None:
    """Distances between all pairs of several files, on shared great circles.

    Each file is read once, and projected and sorted once per great circle, so many pairs take little more time than
    their files. Files and options are those of `sphereot distance`.

    The days of a week: sphereot pairwise monday.npy tuesday.npy wednesday.npy

    All files of a folder, as JSON: sphereot pairwise cities/*.csv --lonlat --json
    """
    files = input_files(files)
    if len(files) < 2:
        raise ValueError(f"FILES: got {len(files)}, but pairs need at least two files; give another one.")
    p = order_for(p, reading)
    if any_sketch(files):
        _refuse_for_sketches(context, reading, files)
        print_pairs(files, reading, p, unit=unit, as_json=as_json)
        return
    with status("Reading ..."):
        sets = read_files(files, reading)
    estimate = pairwise_ssw_estimate(
        [points.points for points in sets],
        p=p,
        weights=[points.weights for points in sets],
        n_projections=projections,
        method=as_method(method),
        seed=seed,
        rtol=rtol,
        max_projections=max_projections,
        progress=True,
    )
    values, errors, count = estimate.values.tolist(), estimate.standard_errors.tolist(), estimate.n_projections
    distances, distance_errors = estimate.distances.tolist(), estimate.distance_standard_errors.tolist()
    lengths = lengths_for(p, sets[0].points.shape[1], unit)
    pairs = list(combinations(range(len(sets)), 2))
    note = _note(lengths, [errors[i][j] for i, j in pairs])
    if as_json:
        in_unit = {}
        if lengths.unit is not None:
            scaled = [[lengths.unit.per_turn * value for value in row] for row in distances]
            in_unit = {"unit": unit, "distances": scaled}
        print_json(
            {
                "values": values,
                "standard_errors": [[finite_or_none(error) for error in row] for row in errors],
                **in_unit,
                "note": note,
                "p": p,
                "n_projections": count,
                "method": estimate.method,
                "n_replicates": estimate.n_replicates,
                "seed": seed,
                "files": [_file_record(points) for points in sets],
            }
        )
        return
    for k, points in enumerate(sets):
        typer.echo(f"[{k}] {file_summary(points)}")
    head = "SSW_1" if p == 1 else f"{lengths.name} in {cost_unit(p)}, and SSW_{p:g}"
    typer.echo(for_reader(f"{head}; {count} great circles, {estimate.method}"))
    for i, j in pairs:
        power = "" if p == 1 else f"{format_with_error(values[i][j], errors[i][j]):<26} "
        typer.echo(f"[{i}] [{j}]  {power}{lengths.roots_with_error(distances[i][j], distance_errors[i][j])}")
    typer.echo(for_reader(note))
    _warn_if_inaccurate(rtol, [(values[i][j], errors[i][j]) for i, j in pairs], count)


def _refuse_for_sketches(context: typer.Context, reading: WeightedReadOptions, paths: Sequence[Path]) -> None:
    mixed = any(path.suffix != ".sketch" for path in paths)  # the options of reading are for the data files
    circles = ("projections", "method", "rtol", "max_projections", "bootstrap", "seed")
    refuse_for_sketches(context, None if mixed else reading, *circles)


def _print_sampling(estimate: "SSWEstimate", lengths: Lengths) -> None:
    """Print the interval over the draw of the points, and what two samples of one distribution would have."""
    unit = lengths.units[-1]
    low, high, chance = (
        unit.per_turn * lengths.turns(value) for value in (*estimate.sampling_interval(), estimate.noise_floor)
    )
    name = for_reader(f"SSW_{lengths.p:g}")
    typer.echo(f"Over the draw of the points, {name} is {low:.6g} to {high:.6g} {unit.name} with probability 95%.")
    typer.echo(f"Two samples of one distribution, of these sizes, have {name} = {chance:.6g} {unit.name}.")
    if low <= 0 or estimate.value <= _NEAR_CHANCE * estimate.noise_floor:
        typer.echo(
            "The distance is about that of chance, where the interval is not reliable: it holds for distributions that "
            "differ. Ask sphereot test whether they do."
        )


def _note(lengths: Lengths, errors: Sequence[float]) -> str:
    """What the numbers mean and do not mean: displacements along great circles, no error of sampling."""
    if any(map(math.isnan, errors)):  # nothing after ± is printed
        return lengths.meaning
    return (
        f"± is the error from the choice of great circles only, not from the sampling of the points. {lengths.meaning}"
    )


def _warn_if_inaccurate(rtol: float | None, numbers: Sequence[tuple[float, float]], count: int) -> None:
    worst = max((error / value for value, error in numbers if value > 0), default=0.0)
    if rtol is not None and not worst <= rtol:
        typer.echo(
            f"Note: {count} great circles reach a relative standard error of {worst:.2g}, not {rtol:g}; give more with "
            "--max-projections.",
            err=True,
        )


def _file_record(points: "PointSet") -> dict[str, Any]:
    n, dim = points.points.shape
    return {
        "path": str(points.path),
        "points": n,
        "dim": dim,
        "columns": list(points.columns) if dim <= 16 else None,
        "weighted": points.weights is not None,
        "dropped": points.dropped,
    }


# ---- sketches in place of data files, mixed with data files too ----


def print_pairs(
    paths: Sequence[Path], reading: ReadOptions, p: float, *, unit: str | None = None, as_json: bool
) -> None:
    """Print the distances of all pairs of files; data files are summarized as the first sketch is."""
    from sphereot.sketch import pairwise

    sketches = _read_sketches(paths, reading)
    lengths = lengths_for(p, sketches[0].dim, unit)
    distances = pairwise(sketches, p=p)
    values, bounds = distances.value.tolist(), distances.error_bound.tolist()
    files = [{"path": str(path), "points": sketch.n} for path, sketch in zip(paths, sketches, strict=True)]
    if as_json:
        record = {"values": values, "error_bounds": bounds, "unit": "turns", "p": p, "note": SKETCH_NOTE}
        print_json({**record, "n_projections": sketches[0].n_projections, "bins": sketches[0].bins, "files": files})
        return
    for k, path in enumerate(paths):
        typer.echo(f"[{k}] {printable(str(path))}: {plural(sketches[k].n, 'point')}")
    for i, j in combinations(range(len(paths)), 2):
        name = for_reader(f"SSW_{p:g}")
        typer.echo(f"[{i}] [{j}]  {name} = {lengths.roots_with_error(values[i][j], bounds[i][j])}")
    typer.echo(SKETCH_NOTE)


def _read_sketches(paths: Sequence[Path], reading: ReadOptions) -> "list[Sketch]":
    loaded = {path: load_sketch(path) for path in paths if path.suffix == ".sketch"}
    first = next(iter(loaded.values()))
    return [
        loaded[path] if path in loaded else sketch_file(path, reading, first, of=(index, len(paths)))
        for index, path in enumerate(paths)
    ]
