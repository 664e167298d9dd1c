"""`sphereot drift`: test windows of points for drift from a reference; the exit code is for pipelines."""

import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereot._arrays.validation import as_method
from sphereot._support.column_names import name_sky
from sphereot.cli.errors import names_missing_extra, reports_errors
from sphereot.cli.labels import texts
from sphereot.cli.moved_rows import MovedRows, moved_rows
from sphereot.cli.options import (
    SAMPLE,
    AsJson,
    Frames,
    Groups,
    Method,
    NoWeights,
    Order,
    Projections,
    ReadOptions,
    Seed,
    reads_points,
)
from sphereot.cli.outputs import finite_or_none, for_reader, print_json, require_writable
from sphereot.cli.points import (
    REMEDY_GROUPS,
    input_files,
    load_sketch,
    note_repeated_locations,
    read_files,
    refuse_weights,
    status,
)
from sphereot.cli.result_text import drift_text
from sphereot.cli.sketch_distances import any_sketch, refuse_for_sketches
from sphereot.cli.time_windows import Every, Time, divide_by_time, require_both
from sphereot.cli.units import PER_TURN, Lengths, Unit, as_unit

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.stats import DriftResult

__all__ = ["drift"]

_EXIT_DRIFT = 3
_LARGE_FILE = 100_000  # points
_SHOWN = 5  # rows that moved, of those in the record


@reports_errors()
@reads_points
def drift(
    context: typer.Context,
    reference: Annotated[Path, typer.Argument(help=f"The reference: {SAMPLE}.", show_default=False)],
    reading: ReadOptions,
    current: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Windows to compare with it: files, folders and addresses; a quoted pattern is one window per match.",
            show_default=False,
        ),
    ] = None,
    time: Time = None,
    every: Every = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Also write a report, an HTML page that opens from disk.")
    ] = None,
    alpha: Annotated[
        float, typer.Option("--alpha", help="Level: the probability of an alarm in any window if there is no drift.")
    ] = 0.05,
    permutations: Annotated[
        int | None,
        typer.Option(
            "--permutations", help="Number of permutations for each window.", show_default="999, more for many windows"
        ),
    ] = None,
    projections: Projections = 200,
    method: Method = "quasi",
    max_points: Annotated[
        int | None,
        typer.Option("--max-points", help="Test at most this many points of each file, a random sample.", min=1),
    ] = None,
    groups: Groups = None,
    identifier: Annotated[
        str | None,
        typer.Option(
            "--id", help="Column with an identifier of each point, to name the rows that moved.", show_default=False
        ),
    ] = None,
    p: Order = 1.0,
    seed: Seed = 0,
    weights: NoWeights = None,
    unit: Unit = None,
    as_json: AsJson = False,
    frames: Frames = False,
) -> None:
    """Test whether windows of points have drifted from a reference.

    Each window gets an exact permutation test on the Spherical Sliced-Wasserstein distance to the reference, with
    Holm's correction for the number of windows. Order 1 detects clusters that move, order 2 a change of their spread.
    On sentence embeddings of one topic, order 2 (--p 2) detected more drift than order 1, the default.
    The exit code is 0 without drift, 3 with drift in any window, and 2 after an error.

    Points must be independent, or --groups must say which belong together: windows of whole documents differ without
    any drift. For a window that has drifted, the rows that contribute most to the distance are listed.

    This week against last month: sphereot drift month.npy week.npy

    Embeddings day by day, with a report: sphereot drift reference.parquet day-*.parquet --columns embedding
    --normalize --report drift.html

    Sentences of documents, and which of them are new: sphereot drift reference.parquet today.parquet --columns
    embedding --groups document --id sentence

    A table with a column of times, week by week; the first week is the reference: sphereot drift log.parquet --columns
    embedding --normalize --time created --every week

    Locations, in kilometers: sphereot drift 2024.csv '2025-*.csv' --lonlat --unit km

    Stored summaries, made by `sphereot sketch --groups`: sphereot drift reference.sketch today.sketch

    In a pipeline, on large files: sphereot drift reference.npy today.npy --max-points 20000 --json > drift.json
    """
    from sphereot._support.text import plural, printable
    from sphereot.stats import drift_test

    refuse_weights(weights, "drift")
    require_both(time, every)
    current = input_files(current or [])
    paths = [reference, *current]
    sketched = any_sketch(paths)
    if sketched:
        _require_all_sketches(paths)
        refuse_for_sketches(context, reading, "time", "projections", "method", "max_points", "groups", "identifier")
    if not current and time is None:
        raise ValueError("CURRENT: no file was given to compare with the reference; give one, or --time and --every.")
    if report is not None:
        require_writable("--report", [report], paths)
        with names_missing_extra("plot"):  # before the work, not after it
            from sphereot.report import drift_page
    options: dict[str, Any] = {"p": p, "alpha": alpha, "permutations": permutations, "seed": seed, "progress": True}
    names, title = _labels(current), f"Drift from {reference.name}"
    first: PointSet | None = None
    sets: Sequence[PointSet] = []
    if sketched:
        sketches = [load_sketch(path) for path in paths]
        lengths = Lengths(p, sketches[0].dim, as_unit(unit, sketches[0].dim))
        result = drift_test(sketches[0], sketches[1:], labels=names, **options)
        read = [_file_record(path, sketch.n, sketch.n, None) for path, sketch in zip(paths, sketches, strict=True)]
    else:
        with status("Reading ..."):
            labels = tuple(dict.fromkeys(name for name in (groups, identifier, time) if name is not None))
            first, *sets = read_files(paths, reading, labels=labels, max_points=max_points, seed=seed)
        lengths = Lengths(p, first.points.shape[1], as_unit(unit, first.points.shape[1]))
        if max_points is None:
            _note_large([first, *sets])
        if time is not None and every is not None:
            if not sets:
                title = f"Drift from the first {every} of {reference.name}"
            first, sets, names = divide_by_time(first, sets, time, every)
        if groups is None:
            note_repeated_locations([first, *sets], REMEDY_GROUPS)
        result = drift_test(
            first.points, [window.points for window in sets], labels=names,
            groups=None if groups is None else [texts(part, groups) for part in (first, *sets)],
            n_projections=projections, method=as_method(method), **options,
        )  # fmt: skip
        read = [_file_record(points.path, points.total, len(points), points.dropped) for points in (first, *sets)]
    moved: list[MovedRows | None] = [None] * len(result.windows)
    if first is not None:
        moved = [
            moved_rows(first, window, test.test, identifier) if test.drifted else None
            for window, test in zip(sets, result.windows, strict=True)
        ]
    if report is not None:
        with status("Writing the report ..."):
            drift_page(
                report,
                result,
                None if first is None else first.points,
                None if first is None else [window.points for window in sets],
                title=title,
                columns=None if first is None else _named_columns(first, result.dim),
                earth=first is not None and first.lonlat is not None and not name_sky(first.columns),
                settings=_settings(seed),
                moved=[None if rows is None else rows.as_text() for rows in moved],
                unit=None if unit is None else (unit, PER_TURN[unit]),
            )
    if as_json:
        print_json(_record(result, read, moved, seed, report, frames, lengths))
    else:
        _print_result(result, lengths)
        for window, rows in zip(result.windows, moved, strict=True):
            if rows is not None:
                new, gone = rows.as_text()
                typer.echo(f"  {window.label}, new: {', '.join(new[:_SHOWN])}")
                typer.echo(f"  {window.label}, gone from the reference: {', '.join(gone[:_SHOWN])}")
        dropped = sum(file["dropped"] or 0 for file in read)
        if dropped:
            typer.echo(f"  {plural(dropped, 'bad row')} left out")
        if report is not None:
            typer.echo(f"Report: {printable(str(report))}")
    if result.drifted:
        raise typer.Exit(_EXIT_DRIFT)


def _require_all_sketches(paths: Sequence[Path]) -> None:
    others = [path for path in paths if path.suffix != ".sketch"]
    if others:
        raise ValueError(
            f"{others[0]}: is not a sketch, but a test needs all files as sketches with groups, or all as data. Make a "
            "sketch with `sphereot sketch --groups`."
        )


def _print_result(result: "DriftResult", lengths: Lengths) -> None:
    """Print the table, and that a distance in degrees or kilometers is no displacement unless p = 1."""
    typer.echo(drift_text(result, lengths))
    if lengths.p != 1 and lengths.units != ["turns"]:
        typer.echo(for_reader(f"  {lengths.meaning}"))


def _note_large(sets: "Sequence[PointSet]") -> None:
    largest = max(map(len, sets))
    if largest > _LARGE_FILE:
        typer.echo(
            f"Note: {largest} points take a while; --max-points 20000 tests a random sample of each file.", err=True
        )


def _labels(paths: Sequence[Path]) -> list[str]:
    """File names if they are all different, full paths if not; repeated files are numbered."""
    names = [path.name for path in paths]
    if len(set(names)) == len(names):
        return names
    names = [str(path) for path in paths]
    repeats = [names[:k].count(name) for k, name in enumerate(names)]
    return [f"{name} ({count + 1})" if count else name for name, count in zip(names, repeats, strict=True)]


def _named_columns(points: "PointSet", dim: int) -> tuple[str, ...] | None:
    """Names of the coordinates, or None if the file only numbers them."""
    names = points.columns
    return None if len(names) != dim or all(name.isdigit() for name in names) else names


def _settings(seed: int) -> dict[str, str]:
    return {
        "Seed": str(seed),
        "Command": shlex.join(["sphereot", *sys.argv[1:]]),
        "Made on": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
    }


def _file_record(path: Path, points: int, tested: int, dropped: int | None) -> dict[str, Any]:
    """What JSON says of a file; how many rows were dropped is not known of a sketch."""
    return {"path": str(path), "points": points, "points_tested": tested, "dropped": dropped}


def _record(
    result: "DriftResult",
    read: Sequence[dict[str, Any]],
    moved: "Sequence[MovedRows | None]",
    seed: int,
    report: Path | None,
    frames: bool,
    lengths: Lengths,
) -> dict[str, Any]:
    """The result as JSON, with the same fields for data files and for sketches."""
    reference, *files = read
    windows = [
        {
            **file,
            "label": window.label,
            "value": window.value,
            **lengths.record(window.value),
            "band": list(window.band),
            "ratio": finite_or_none(window.ratio),
            "p_value": window.p_value,
            "adjusted_p_value": window.adjusted_p_value,
            "drifted": window.drifted,
            "circle": {
                "cost": window.circle.cost,
                "null_mean": window.circle.null_mean,
                **({"frame": window.circle.frame.tolist()} if frames else {}),
            },
            "moved": None if rows is None else rows.record(),
        }
        for file, window, rows in zip(files, result.windows, moved, strict=True)
    ]
    return {
        "drifted": result.drifted,
        "summary": result.summary,
        "windows": windows,
        "reference": reference,
        "alpha": result.alpha,
        "p": result.p,
        "n_projections": result.n_projections,
        "permutations": result.permutations,
        "seed": seed,
        "dim": result.dim,
        "report": None if report is None else str(report),
    }
