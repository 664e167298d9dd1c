"""`sphereot drift`: test windows of points for drift from a reference; the exit code is for pipelines."""

import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereot._arrays.validation import as_method
from sphereot.cli.errors import names_missing_extra, reports_errors
from sphereot.cli.moved_rows import MovedRows, moved_rows
from sphereot.cli.options import (
    SAMPLE,
    AsJson,
    Frames,
    Method,
    NoWeights,
    Order,
    Projections,
    ReadOptions,
    Seed,
    reads_points,
)
from sphereot.cli.outputs import finite_or_none, for_reader, print_json, require_writable
from sphereot.cli.points import input_files, load_sketch, read_files, refuse_weights, status
from sphereot.cli.result_text import drift_text
from sphereot.cli.sketch_distances import any_sketch
from sphereot.cli.time_windows import Every, Time, divide_by_time, require_both
from sphereot.cli.units import PER_TURN, Lengths, Unit, as_unit

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.stats import DriftResult

__all__ = ["drift"]

_EXIT_DRIFT = 1
_LARGE_FILE = 100_000  # points
_SHOWN = 5  # rows that moved, of those in the record


@reports_errors()
@reads_points
def drift(
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
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            help="Column with the document, user or session of each point: whole groups are permuted.",
            show_default=False,
        ),
    ] = None,
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
    The exit code is 0 without drift, 1 with drift in any window, and 2 after an error.

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
    _reserve_buffers()
    from sphereot._support.text import printable
    from sphereot.stats import drift_test

    refuse_weights(weights, "drift")
    require_both(time, every)
    current = input_files(current or [])
    if not current and time is None:
        raise ValueError("CURRENT: no file was given to compare with the reference; give one, or --time and --every.")
    if any_sketch([reference, *current]):
        options = {"p": p, "alpha": alpha, "permutations": permutations, "seed": seed}
        if time is not None:
            raise ValueError("--time: divides the rows of data files; for sketches, give it to `sphereot sketch`.")
        _drift_of_sketches(reference, current, report, options, unit=unit, as_json=as_json)
        return
    if report is not None:
        require_writable("--report", [report], [reference, *current])
        with names_missing_extra("plot"):  # before the work, not after it
            from sphereot.report import drift_page
    with status("Reading ..."):
        labels = tuple(dict.fromkeys(name for name in (groups, identifier, time) if name is not None))
        first, *sets = read_files([reference, *current], reading, labels=labels, max_points=max_points, seed=seed)
    lengths = Lengths(p, first.points.shape[1], as_unit(unit, first.points.shape[1]))
    if max_points is None:
        _note_large([first, *sets])
    names, title = _labels(current), f"Drift from {reference.name}"
    if time is not None and every is not None:
        if not sets:
            title = f"Drift from the first {every} of {reference.name}"
        first, sets, names = divide_by_time(first, sets, time, every)
    points, windows = first.points, [window.points for window in sets]
    result = drift_test(
        points, windows, labels=names, p=p, alpha=alpha, permutations=permutations,
        groups=None if groups is None else [_texts(part, groups) for part in (first, *sets)],
        n_projections=projections, method=as_method(method), seed=seed, progress=True,
    )  # fmt: skip
    moved = [
        moved_rows(first, window, test.test, identifier) if test.drifted else None
        for window, test in zip(sets, result.windows, strict=True)
    ]
    if report is not None:
        with status("Writing the report ..."):
            drift_page(
                report,
                result,
                points,
                windows,
                title=title,
                columns=_named_columns(first, result.dim),
                earth=first.lonlat is not None,
                settings=_settings(seed),
                moved=[None if rows is None else rows.as_text() for rows in moved],
                unit=None if unit is None else (unit, PER_TURN[unit]),
            )
    if as_json:
        print_json(_record(result, first, sets, moved, seed, report, frames, lengths))
    else:
        _print_result(result, lengths)
        for window, rows in zip(result.windows, moved, strict=True):
            if rows is not None:
                new, gone = rows.as_text()
                typer.echo(f"  {window.label}, new: {', '.join(new[:_SHOWN])}")
                typer.echo(f"  {window.label}, gone from the reference: {', '.join(gone[:_SHOWN])}")
        dropped = sum(points.dropped for points in (first, *sets))
        if dropped:
            typer.echo(f"  {dropped} bad rows left out")
        if report is not None:
            typer.echo(f"Report: {printable(str(report))}")
    if result.drifted:
        raise typer.Exit(_EXIT_DRIFT)


def _drift_of_sketches(
    reference: Path,
    current: Sequence[Path],
    report: Path | None,
    options: dict[str, Any],
    *,
    unit: str | None,
    as_json: bool,
) -> None:
    """The test on sketches with groups, which needs no data."""
    from sphereot.stats import drift_test

    others = [path for path in (reference, *current) if path.suffix != ".sketch"]
    if others:
        raise ValueError(
            f"{others[0]}: is no sketch, and a test needs all files as sketches with groups, or all as data; make a "
            "sketch with `sphereot sketch --groups`."
        )
    if report is not None:
        require_writable("--report", [report], [reference, *current])
        with names_missing_extra("plot"):
            from sphereot.report import drift_page
    first, *windows = (load_sketch(path) for path in (reference, *current))
    lengths = Lengths(options["p"], first.dim, as_unit(unit, first.dim))
    result = drift_test(first, windows, labels=_labels(current), progress=True, **options)
    if report is not None:
        drift_page(
            report,
            result,
            title=f"Drift from {reference.name}",
            settings=_settings(options["seed"]),
            unit=None if unit is None else (unit, PER_TURN[unit]),
        )
    if as_json:
        listed = [
            {
                "path": str(path),
                "label": window.label,
                "points": window.n,
                "value": window.value,
                **lengths.record(window.value),
                "band": list(window.band),
                "ratio": finite_or_none(window.ratio),
                "p_value": window.p_value,
                "adjusted_p_value": window.adjusted_p_value,
                "drifted": window.drifted,
            }
            for path, window in zip(current, result.windows, strict=True)
        ]
        record = {"drifted": result.drifted, "summary": result.summary, "windows": listed, "alpha": result.alpha}
        record |= {"p": result.p, "permutations": result.permutations, "reference": str(reference)}
        print_json(record | {"report": None if report is None else str(report)})
    else:
        _print_result(result, lengths)
        if report is not None:
            typer.echo(f"Report: {report}")
    if result.drifted:
        raise typer.Exit(_EXIT_DRIFT)


def _print_result(result: "DriftResult", lengths: Lengths) -> None:
    """Print the table, and that a distance in degrees or kilometers is no displacement unless p = 1."""
    typer.echo(drift_text(result, lengths))
    if lengths.p != 1 and lengths.units != ["turns"]:
        typer.echo(for_reader(f"  {lengths.meaning}"))


def _reserve_buffers() -> None:
    """Make the BLAS library of NumPy allocate its buffers now, while there is memory.

    It allocates them at the first matrix product. Where that fails it ends the process with exit code 1, which would
    mean drift.
    """
    import numpy as np

    square = np.ones((256, 256))
    square @ square


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


def _texts(points: "PointSet", column: str) -> list[str]:
    """The labels of a column; a row without one is a group of its own."""
    return [f"{points.path}, row {k}" if text is None else str(text) for k, text in enumerate(points.labels[column])]


def _record(
    result: "DriftResult",
    first: "PointSet",
    sets: "Sequence[PointSet]",
    moved: "Sequence[MovedRows | None]",
    seed: int,
    report: Path | None,
    frames: bool,
    lengths: Lengths,
) -> dict[str, Any]:
    windows = [
        {
            "path": str(points.path),
            "label": window.label,
            "points": points.total,
            "points_tested": window.n,
            "dropped": points.dropped,
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
        for points, window, rows in zip(sets, result.windows, moved, strict=True)
    ]
    return {
        "drifted": result.drifted,
        "summary": result.summary,
        "windows": windows,
        "reference": {
            "path": str(first.path),
            "points": first.total,
            "points_tested": result.n_reference,
            "dropped": first.dropped,
        },
        "alpha": result.alpha,
        "p": result.p,
        "n_projections": result.n_projections,
        "permutations": result.permutations,
        "seed": seed,
        "dim": result.dim,
        "report": None if report is None else str(report),
    }
