"""`sphereot drift`: test windows of points for drift from a reference; the exit code is for pipelines."""

import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereot._arrays.validation import as_method
from sphereot._support.text import name_sky, plural, printable, shorten
from sphereot._support.units import UNITS
from sphereot.cli.files import (
    LOCATION,
    REMEDY_GROUPS,
    any_sketch,
    divide_by_time,
    input_files,
    load_sketch,
    note_repeated_locations,
    read_files,
    refuse_weights,
    require_both,
    status,
    texts,
)
from sphereot.cli.options import (
    SAMPLE,
    AsJson,
    Every,
    Frames,
    Groups,
    Method,
    NoWeights,
    Order,
    Projections,
    ReadOptions,
    Seed,
    Time,
    Unit,
    refuse_for_sketches,
)
from sphereot.cli.show import (
    EXIT_DRIFT,
    command,
    drift_text,
    lengths_for,
    names_missing_extra,
    print_json,
    require_writable,
)

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.stats import TwoSampleResult

_LARGE_FILE = 100_000  # points
_COUNT = 20  # rows that moved, in the record
_SHOWN = 5  # rows that moved, of those in the record

MovedRows = dict[str, list[dict[str, Any]]]
"""Rows of a window that are new, and rows of the reference that have gone; the first contribute most.

Each has `row`, the number of the row in its file, counted from 0, `contribution`, and `id` if there is one.
"""


@command()
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
    from sphereot.stats import drift_test

    refuse_weights(weights, "drift")
    require_both(time, every)
    current = input_files(current or [])
    paths = [reference, *current]
    sketched = any_sketch(paths)
    if sketched:
        if data := [path for path in paths if path.suffix != ".sketch"]:
            raise ValueError(
                f"{data[0]}: is not a sketch, but a test needs all files as sketches with groups, or all as data. Make "
                "a sketch with `sphereot sketch --groups`."
            )
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
        lengths = lengths_for(p, sketches[0].dim, unit)
        result = drift_test(sketches[0], sketches[1:], labels=names, **options)
        read = [_file_record(path, sketch.n, sketch.n, None) for path, sketch in zip(paths, sketches, strict=True)]
    else:
        with status("Reading ..."):
            labels = tuple(dict.fromkeys(name for name in (groups, identifier, time) if name is not None))
            first, *sets = read_files(paths, reading, labels=labels, max_points=max_points, seed=seed)
        lengths = lengths_for(p, first.points.shape[1], unit)
        largest = max(map(len, [first, *sets]))
        if max_points is None and largest > _LARGE_FILE:
            typer.echo(
                f"Note: {largest} points take a while; --max-points 20000 tests a random sample of each file.", err=True
            )
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
            find_moved_rows(first, window, found.test, identifier) if found.drifted else None
            for window, found in zip(sets, result.windows, strict=True)
        ]
    named = [None if rows is None else _name_rows(rows) for rows in moved]
    if report is not None:
        columns = None if first is None else first.columns  # a file may only number them
        if columns is not None and (len(columns) != result.dim or all(name.isdigit() for name in columns)):
            columns = None
        settings = {
            "Seed": str(seed),
            "Command": shlex.join(["sphereot", *sys.argv[1:]]),
            "Made on": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        }
        with status("Writing the report ..."):
            drift_page(
                report,
                result,
                title=title,
                columns=columns,
                earth=first is not None and first.lonlat is not None and not name_sky(first.columns),
                settings=settings,
                rows=named,
                unit=None if unit is None else (unit, UNITS[unit].per_turn),
            )
    if as_json:
        record = result.as_record()
        for fields, file, window, rows in zip(record["windows"], read[1:], result.windows, moved, strict=True):
            del fields["densities"]
            if frames:
                fields["circle"]["frame"] = window.circle.frame.tolist()
            fields |= {**file, **lengths.record(lengths.turns(window.value)), "moved": rows}
        print_json(record | {"reference": read[0], "seed": seed, "report": None if report is None else str(report)})
    else:
        typer.echo(drift_text(result, lengths))
        for window, names_of_rows in zip(result.windows, named, strict=True):
            if names_of_rows is not None:
                new, missing = names_of_rows
                typer.echo(f"  {window.label}, new: {', '.join(new[:_SHOWN])}")
                typer.echo(f"  {window.label}, gone from the reference: {', '.join(missing[:_SHOWN])}")
        dropped = sum(file["dropped"] or 0 for file in read)
        if dropped:
            typer.echo(f"  {plural(dropped, 'bad row')} left out")
        if report is not None:
            typer.echo(f"Report: {printable(str(report))}")
    if result.drifted:
        raise typer.Exit(EXIT_DRIFT)


def _labels(paths: Sequence[Path]) -> list[str]:
    """File names if they are all different, full paths if not; repeated files are numbered."""
    names = [path.name for path in paths]
    if len(set(names)) == len(names):
        return names
    names = [str(path) for path in paths]
    repeats = [names[:k].count(name) for k, name in enumerate(names)]
    return [f"{name} ({count + 1})" if count else name for name, count in zip(names, repeats, strict=True)]


def _file_record(path: Path, points: int, tested: int, dropped: int | None) -> dict[str, Any]:
    """What JSON says of a file; how many rows were dropped is not known of a sketch."""
    return {"path": str(path), "points": points, "points_tested": tested, "dropped": dropped}


def find_moved_rows(
    reference: "PointSet", window: "PointSet", test: "TwoSampleResult | None", identifier: str | None
) -> MovedRows | None:
    """The rows that contribute most, on the great circles of the test; None without a test."""
    from sphereot.stats.differences import contributions_on

    if test is None:
        return None
    contributions = contributions_on(test.projections, reference.points, window.points, test.p)

    def list_rows(points: "PointSet", rows: Any, values: Any) -> list[dict[str, Any]]:
        numbers = rows if points.rows is None else points.rows[rows]
        listed = [{"row": int(k), "contribution": float(value)} for k, value in zip(numbers, values[rows], strict=True)]
        label = LOCATION if identifier is None else identifier
        if label not in points.labels:
            return listed
        names = points.labels[label][rows].tolist()
        return [{"id": name, **item} for name, item in zip(names, listed, strict=True)]

    return {
        "new": list_rows(window, contributions.new(_COUNT), contributions.y),
        "gone": list_rows(reference, contributions.missing(_COUNT), contributions.x),
    }


def _name_rows(moved: MovedRows) -> tuple[list[str], list[str]]:
    """Identifiers, or numbers of rows, of both lists."""
    new, missing = (
        [shorten(printable(str(item.get("id", f"row {item['row']}"))), 60) for item in items]
        for items in moved.values()
    )
    return new, missing
