"""`sphereot drift`: test windows of points for drift from a reference."""

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
from sphereot.cli import files as reader
from sphereot.cli import options as opt
from sphereot.cli import show

if TYPE_CHECKING:
    from sphereot.datasets import PointSet

_LARGE_FILE = 100_000  # points
_COUNT = 20  # new and missing rows, in JSON
_SHOWN = 5  # of these, as text


@show.command()
def drift(
    context: typer.Context,
    reference: Annotated[Path, typer.Argument(help=f"Reference: {opt.SAMPLE}.")],
    reading: opt.UnweightedReadOptions,
    windows: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Windows to compare with the reference: files, folders or URLs. A quoted pattern such as 'day-*.npy' "
            "gives one window per file."
        ),
    ] = None,
    time: opt.Time = None,
    every: opt.Every = None,
    report: opt.Report = None,
    alpha: Annotated[
        float, typer.Option(help="Probability of one or more false alarms, over all windows, if there is no drift.")
    ] = 0.05,
    permutations: Annotated[
        int | None,
        typer.Option(help="Number of permutations per window.", show_default="999, or more for many windows"),
    ] = None,
    projections: opt.Projections = 200,
    method: opt.Method = "quasi",
    max_points: Annotated[
        int | None, typer.Option(help="Use a random sample of at most this number of points from each file.", min=1)
    ] = None,
    groups: opt.Groups = None,
    identifier: Annotated[
        str | None,
        typer.Option("--id", help="Column with an identifier of each row, shown in the list of new and missing rows."),
    ] = None,
    statistic: opt.Statistic = "combined",
    p: opt.OrderShown = None,
    seed: opt.Seed = 0,
    unit: opt.Unit = None,
    as_json: opt.AsJson = False,
    frames: opt.Frames = False,
) -> None:
    r"""Test whether windows have drifted from a reference.

    Each window is compared with the reference by an exact permutation test of the Spherical Sliced-Wasserstein
    distances SSW_1 and SSW_2, and of a statistic of axes and bands. With Holm's correction, the probability of any
    false alarm in all windows together is at most --alpha.

    The points of a window must be independent. If rows belong together, such as the sentences of a document, name the
    column that identifies them with --groups. Without it, expect false alarms.

    For each window that has drifted, the command lists the rows that contribute most: rows that are new in the window,
    and rows of the reference that are missing from it.

    Exit codes: 0 no drift, 3 drift in at least one window, 2 error.

    Compare this week with last month:
        sphereot drift month.npy week.npy

    Compare one file per day with a reference, and write a report:
        sphereot drift reference.npy 'day-*.npy' --report drift.html

    Divide one table into weeks, of which the first is the reference:
        sphereot drift log.parquet --columns embedding --time created --every week

    Permute whole documents, and list the sentences that explain the drift:
        sphereot drift reference.parquet today.parquet --columns embedding \
            --groups document --id sentence

    Compare locations, in kilometers:
        sphereot drift 2024.csv '2025-*.csv' --lonlat --unit km

    Compare stored summaries, created with `sphereot sketch --groups`:
        sphereot drift reference.sketch today.sketch

    Test a random sample of large files, with JSON output for a script:
        sphereot drift reference.npy today.npy --max-points 20000 --json
    """
    from sphereot.stats import drift_test
    from sphereot.stats.differences import contributions_on

    reader.require_both(time, every)
    windows = reader.input_files(windows or [])
    paths = [reference, *windows]
    sketched = reader.any_sketch(paths)
    if sketched:
        if data := [path for path in paths if path.suffix != ".sketch"]:
            raise ValueError(
                f"{data[0]}: is not a sketch, but other files are. Give only data files, or only sketches. Create a "
                "sketch with `sphereot sketch --groups`."
            )
        opt.refuse_for_sketches(context, reading, "time", "projections", "method", "max_points", "groups", "identifier")
    if not windows and time is None:
        raise ValueError("WINDOWS must be at least one file, or --time and --every must be given.")
    if report is not None:
        show.require_writable("--report", [report], paths)
        from sphereot.report import drift_page  # an error here, before the work, if a package is missing
    options: dict[str, Any] = {
        "statistic": statistic,
        "p": p,
        "alpha": alpha,
        "permutations": permutations,
        "seed": seed,
        "progress": True,
    }
    labels, title = _label_files(windows), f"Drift from {reference.name}"
    sets: Sequence[PointSet] = []  # the reference and the windows, if they are not sketches
    if sketched:
        sketches = [reader.load_sketch(path) for path in paths]
        show.lengths_for(1, sketches[0].dim, unit)  # an error here, before the work, if the unit does not fit
        result = drift_test(sketches[0], sketches[1:], labels=labels, **options)
        files = [_file_record(path, sketch.n, sketch.n, None) for path, sketch in zip(paths, sketches, strict=True)]
    else:
        columns = tuple(dict.fromkeys(name for name in (groups, identifier, time) if name is not None))
        sets = reader.read_files(paths, reading, labels=columns, max_points=max_points, seed=seed)
        show.lengths_for(1, sets[0].points.shape[1], unit)  # see above
        largest = max(map(len, sets))
        if max_points is None and largest > _LARGE_FILE:
            typer.echo(
                f"Note: a test of {largest} points needs time. Use --max-points 20000 to test random samples.", err=True
            )
        if time is not None and every is not None:
            if not windows:
                title = f"Drift from the first {every} of {reference.name}"
            first, parts, labels = reader.divide_by_time(sets[0], sets[1:], time, every)
            sets = [first, *parts]
        result = drift_test(
            sets[0].points, [window.points for window in sets[1:]], labels=labels,
            groups=None if groups is None else [reader.read_labels(points, groups) for points in sets],
            n_projections=projections, method=as_method(method), **options,
        )  # fmt: skip
        files = [_file_record(points.path, points.total, len(points), points.dropped) for points in sets]
    lengths = show.lengths_for(result.p, result.dim, unit)
    moved: list[dict[str, list[dict[str, Any]]] | None] = [None] * len(result.windows)
    for k, window in enumerate(result.windows):
        if sets and window.drifted and window.test is not None:
            test, part = window.test, sets[k + 1]
            contributions = contributions_on(test.projections, sets[0].points, part.points, test.p)
            moved[k] = {
                "new": _list_rows(part, contributions.new(_COUNT), contributions.y, identifier),
                "gone": _list_rows(sets[0], contributions.missing(_COUNT), contributions.x, identifier),
            }
    named = [None if lists is None else (_name_rows(lists["new"]), _name_rows(lists["gone"])) for lists in moved]
    if report is not None:
        names = sets[0].columns if sets else ()  # a file may only number them
        now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
        settings = {"Seed": str(seed), "Command": shlex.join(["sphereot", *sys.argv[1:]]), "Made on": now}
        with reader.status("Writing the report ..."):
            drift_page(
                report,
                result,
                title=title,
                columns=names if len(names) == result.dim and not all(map(str.isdigit, names)) else None,
                earth=bool(sets) and sets[0].lonlat is not None and not name_sky(names),
                settings=settings,
                rows=named,
                unit=None if unit is None else (unit, UNITS[unit].per_turn),
            )
    if as_json:
        record = result.as_record()
        for fields, file, window, rows in zip(record["windows"], files[1:], result.windows, moved, strict=True):
            del fields["densities"]
            if frames:
                fields["circle"]["frame"] = window.circle.frame.tolist()
            fields |= {**file, **lengths.record(lengths.turns(window.value)), "moved": rows}
        record |= {"reference": files[0], "seed": seed, "report": None if report is None else str(report)}
        show.print_json(record)
    else:
        typer.echo(show.drift_text(result, lengths))
        for window, lists in zip(result.windows, named, strict=True):
            if lists is not None:
                typer.echo(f"  {window.label}, new: {', '.join(lists[0][:_SHOWN])}")
                typer.echo(f"  {window.label}, missing: {', '.join(lists[1][:_SHOWN])}")
        if dropped := sum(file["dropped"] or 0 for file in files):
            typer.echo(f"  {plural(dropped, 'bad row')} left out")
        if report is not None:
            typer.echo(f"Report: {printable(str(report))}")
    if result.drifted:
        raise typer.Exit(show.EXIT_DRIFT)


def _label_files(paths: Sequence[Path]) -> list[str]:
    """Return file names if they all differ, otherwise full paths. Repeated files are numbered."""
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    repeats = [names[:k].count(name) for k, name in enumerate(names)]
    return [f"{name} ({count + 1})" if count else name for name, count in zip(names, repeats, strict=True)]


def _file_record(path: Path, points: int, tested: int, dropped: int | None) -> dict[str, Any]:
    """Describe a file in JSON. The number of dropped rows of a sketch is not known."""
    return {"path": str(path), "points": points, "points_tested": tested, "dropped": dropped}


def _list_rows(points: "PointSet", rows: Any, contributions: Any, identifier: str | None) -> list[dict[str, Any]]:
    """Describe rows in JSON: their numbers in the file, counted from 0, contributions, and identifiers if known."""
    numbers = rows if points.rows is None else points.rows[rows]
    pairs = zip(numbers, contributions[rows], strict=True)
    listed: list[dict[str, Any]] = [{"row": int(number), "contribution": float(value)} for number, value in pairs]
    names = points.labels.get(reader.LOCATION if identifier is None else identifier)
    if names is None:
        return listed
    return [{"id": name, **item} for name, item in zip(names[rows].tolist(), listed, strict=True)]


def _name_rows(items: Sequence[dict[str, Any]]) -> list[str]:
    return [shorten(printable(str(item.get("id", f"row {item['row']}"))), 60) for item in items]
