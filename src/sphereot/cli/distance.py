"""`sphereot distance` and `sphereot pairwise`: distances between samples in files."""

import math
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereot._arrays.validation import as_method
from sphereot._support.text import cost_unit, plural, printable
from sphereot._support.units import Lengths, finite_or_none, format_with_error
from sphereot.cli import files as reader
from sphereot.cli import options as opt
from sphereot.cli import show
from sphereot.distance import pairwise_ssw_estimate, ssw_estimate

if TYPE_CHECKING:
    from sphereot.datasets import PointSet

_NEAR_EXPECTED = 1.5  # times the expected value for equal distributions: below, the bootstrap is not reliable

RelativeTolerance = Annotated[
    float | None,
    typer.Option(help="Largest relative standard error. The number of great circles is doubled until it is reached."),
]
MaxProjections = Annotated[int, typer.Option(help="Largest number of great circles with --rtol.")]


@show.command()
def distance(
    context: typer.Context,
    a: opt.FirstFile,
    b: opt.SecondFile,
    reading: opt.WeightedReadOptions,
    p: opt.OrderByData = None,
    projections: opt.Projections = 200,
    method: Annotated[
        str | None,
        typer.Option(
            help="How to draw the great circles: quasi (evenly spread), orthogonal, iid (independent), or importance "
            "(more often near the poles of concentrated samples).",
            show_default="the best for the data",
        ),
    ] = None,
    rtol: RelativeTolerance = None,
    max_projections: MaxProjections = 100_000,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            help="Number of resamples of the points, such as 200. Shows a 95% confidence interval, and the distance "
            "that is expected if the distributions are equal."
        ),
    ] = None,
    seed: opt.Seed = 0,
    unit: opt.Unit = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compute the distance between two samples.

    Each row of a file is a point on the sphere. The command prints SSW_p^p and its root, the distance SSW_p, in turns
    (1 turn = 360 degrees) and, on S^2, also in degrees. SSW_1, the default for locations, is the mean displacement
    along great circles.

    The number after ± is the standard error from the choice of great circles, not from the sampling of the points. Use
    --bootstrap for a confidence interval, or `sphereot test` to test whether the distributions differ.

    Compare two samples of unit vectors:
        sphereot distance a.npy b.npy

    Compare the directions of embeddings:
        sphereot distance old.parquet new.parquet --columns embedding --normalize

    Compare locations on the Earth, with weights:
        sphereot distance then.csv now.csv --lonlat --weights population --unit km

    Compare a stored summary with new data:
        sphereot distance 2025.sketch today.npy
    """
    p = opt.order_for(p, reading)
    if reader.any_sketch([a, b]):
        _print_sketches(context, [a, b], reading, p, unit, as_json)
        return
    x, y = reader.read_files([a, b], reading)
    estimate = ssw_estimate(
        x.points, y.points, p=p, x_weights=x.weights, y_weights=y.weights, n_projections=projections,
        method=None if method is None else as_method(method, also=("importance",)), seed=seed,
        rtol=rtol, max_projections=max_projections, bootstrap=bootstrap, progress=True,
    )  # fmt: skip
    lengths = show.lengths_for(p, x.points.shape[1], unit)
    root = (estimate.distance, estimate.distance_standard_error)
    note, count = _note(lengths, [estimate.standard_error]), estimate.n_projections
    if as_json:
        record: dict[str, Any] = {"value": estimate.value, "standard_error": finite_or_none(estimate.standard_error)}
        record |= {**lengths.record(*root), "note": note, "p": p, "n_projections": count}
        record |= {"method": estimate.method, "n_replicates": estimate.n_replicates, "reliable": estimate.reliable}
        if bootstrap is not None:
            record |= {"sampling_interval": list(estimate.sampling_interval()), "noise_floor": estimate.noise_floor}
        show.print_json({**record, "seed": seed, "files": [_file_record(x), _file_record(y)]})
        return
    drawn, name = f"({count} great circles, {estimate.method})", show.for_reader(f"SSW_{p:g}")
    if p == 1:
        typer.echo(f"{name} = {lengths.roots_with_error(*root)}   {drawn}")
    else:
        power = show.for_reader(lengths.name)
        shown = format_with_error(estimate.value, estimate.standard_error)
        typer.echo(f"{power} = {shown} {show.for_reader(cost_unit(p))}   {drawn}")
        typer.echo(f"{name:<{len(power)}} = {lengths.roots_with_error(*root)}")
    if bootstrap is not None:
        values = (*estimate.sampling_interval(), estimate.noise_floor)
        low, high, expected = (lengths.units[-1].per_turn * lengths.turns(value) for value in values)
        shown = lengths.units[-1].name
        typer.echo(f"95% confidence interval of {name} for the distributions: {low:.6g} to {high:.6g} {shown}")
        typer.echo(f"Expected value of {name} if the distributions are equal: {expected:.6g} {shown}")
        if low <= 0 or estimate.value <= _NEAR_EXPECTED * estimate.noise_floor:
            typer.echo(
                "The distance is close to this value, so the interval is not reliable. Use `sphereot test` to test "
                "whether the distributions differ."
            )
    typer.echo(show.for_reader(note))
    typer.echo(f"{reader.file_summary(x)}\n{reader.file_summary(y)}")
    _warn_if_inaccurate(rtol, [(estimate.value, estimate.standard_error)], count)
    if not estimate.reliable:
        typer.echo(
            "Note: a few rare great circles contribute a large part of the value, so the standard error may be too "
            "small. Leave out --method, or increase --projections.",
            err=True,
        )


@show.command()
def pairwise(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Two or more samples: files (as for `distance`), folders and URLs. A quoted pattern gives one sample "
            "per file."
        ),
    ],
    reading: opt.WeightedReadOptions,
    p: opt.OrderByData = None,
    projections: opt.Projections = 200,
    method: opt.Method = "quasi",
    rtol: RelativeTolerance = None,
    max_projections: MaxProjections = 100_000,
    seed: opt.Seed = 0,
    unit: opt.Unit = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compute the distances between all pairs of samples.

    All pairs share the same great circles, and each file is read, projected and sorted only once. The output numbers
    the samples, [0], [1] and so on, and lists one pair per line.

    Compare three days:
        sphereot pairwise monday.npy tuesday.npy wednesday.npy

    Compare all files of a folder, with JSON output for a script:
        sphereot pairwise cities/*.csv --lonlat --json
    """
    files = reader.input_files(files)
    if len(files) < 2:
        raise ValueError(f"FILES must be at least two files, got {len(files)}.")
    p = opt.order_for(p, reading)
    if reader.any_sketch(files):
        _print_sketches(context, files, reading, p, unit, as_json)
        return
    sets = reader.read_files(files, reading)
    estimate = pairwise_ssw_estimate(
        [points.points for points in sets], weights=[points.weights for points in sets], p=p,
        n_projections=projections, method=as_method(method), seed=seed,
        rtol=rtol, max_projections=max_projections, progress=True,
    )  # fmt: skip
    values, errors, count = estimate.values.tolist(), estimate.standard_errors.tolist(), estimate.n_projections
    distances, distance_errors = estimate.distances.tolist(), estimate.distance_standard_errors.tolist()
    lengths = show.lengths_for(p, sets[0].points.shape[1], unit)
    pairs = list(combinations(range(len(sets)), 2))
    note = _note(lengths, [errors[i][j] for i, j in pairs])
    if as_json:
        record: dict[str, Any] = {"values": values}
        record["standard_errors"] = [[finite_or_none(error) for error in row] for row in errors]
        if lengths.unit is not None:
            scaled = [[lengths.unit.per_turn * value for value in row] for row in distances]
            record |= {"unit": unit, "distances": scaled}
        record |= {"note": note, "p": p, "n_projections": count, "method": estimate.method}
        record |= {"n_replicates": estimate.n_replicates, "seed": seed, "files": [_file_record(x) for x in sets]}
        show.print_json(record)
        return
    for k, points in enumerate(sets):
        typer.echo(f"[{k}] {reader.file_summary(points)}")
    head = "SSW_1" if p == 1 else f"{lengths.name} in {cost_unit(p)}, and SSW_{p:g}"
    typer.echo(show.for_reader(f"{head}; {count} great circles, {estimate.method}"))
    for i, j in pairs:
        power = "" if p == 1 else f"{format_with_error(values[i][j], errors[i][j]):<26} "
        typer.echo(f"[{i}] [{j}]  {power}{lengths.roots_with_error(distances[i][j], distance_errors[i][j])}")
    typer.echo(show.for_reader(note))
    _warn_if_inaccurate(rtol, [(values[i][j], errors[i][j]) for i, j in pairs], count)


def _note(lengths: Lengths, errors: Sequence[float]) -> str:
    """Explain the numbers: the distance, and its standard error if it is known."""
    if any(map(math.isnan, errors)):
        return lengths.meaning
    return (
        f"± is the standard error from the choice of great circles, not from the sampling of the points. "
        f"{lengths.meaning}"
    )


def _warn_if_inaccurate(rtol: float | None, numbers: Sequence[tuple[float, float]], count: int) -> None:
    worst = max((error / value for value, error in numbers if value > 0), default=0.0)
    if rtol is not None and not worst <= rtol:
        typer.echo(
            f"Note: {count} great circles reach a relative standard error of {worst:.2g}, not {rtol:g}. Increase "
            "--max-projections.",
            err=True,
        )


def _file_record(points: "PointSet") -> dict[str, Any]:
    n, dim = points.points.shape
    columns = list(points.columns) if dim <= 16 else None
    record = {"path": str(points.path), "points": n, "dim": dim, "columns": columns}
    return record | {"weighted": points.weights is not None, "dropped": points.dropped}


def _print_sketches(
    context: typer.Context, paths: Sequence[Path], reading: opt.ReadOptions, p: float, unit: str | None, as_json: bool
) -> None:
    """Print the distances of all pairs of sketches. Data files among them are summarized as the first sketch."""
    from sphereot.sketch import pairwise

    mixed = any(path.suffix != ".sketch" for path in paths)
    circles = ("projections", "method", "rtol", "max_projections", "bootstrap", "seed")
    opt.refuse_for_sketches(context, None if mixed else reading, *circles)
    loaded = {path: reader.load_sketch(path) for path in paths if path.suffix == ".sketch"}
    first = next(iter(loaded.values()))
    sketches = [
        loaded[path] if path in loaded else reader.sketch_file(path, reading.for_file(index, len(paths)), first)
        for index, path in enumerate(paths)
    ]
    lengths = show.lengths_for(p, first.dim, unit)
    distances = pairwise(sketches, p=p)
    values, bounds = distances.value.tolist(), distances.error_bound.tolist()
    if as_json:
        files = [{"path": str(path), "points": sketch.n} for path, sketch in zip(paths, sketches, strict=True)]
        record = {"values": values, "error_bounds": bounds, "unit": "turns", "p": p, "note": reader.SKETCH_NOTE}
        show.print_json({**record, "n_projections": first.n_projections, "bins": first.bins, "files": files})
        return
    for k, path in enumerate(paths):
        typer.echo(f"[{k}] {printable(str(path))}: {plural(sketches[k].n, 'point')}")
    name = show.for_reader(f"SSW_{p:g}")
    for i, j in combinations(range(len(paths)), 2):
        typer.echo(f"[{i}] [{j}]  {name} = {lengths.roots_with_error(values[i][j], bounds[i][j])}")
    typer.echo(reader.SKETCH_NOTE)
