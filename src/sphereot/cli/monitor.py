"""`sphereot monitor`: test new windows for drift from a stored reference as they arrive."""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sphereot._support.atomic_write import write_text
from sphereot._support.text import printable
from sphereot._support.units import TURNS, UNITS
from sphereot.cli import files as reader
from sphereot.cli import options as opt
from sphereot.cli import show

if TYPE_CHECKING:
    from sphereot.stats import DriftMonitor


@show.command()
def monitor(
    context: typer.Context,
    reference: Annotated[Path, typer.Argument(help="Reference: a sketch with groups, created by `sphereot sketch`.")],
    history: Annotated[
        Path, typer.Option(help="File with the results of all windows. The first run creates it, later runs extend it.")
    ],
    reading: opt.UnweightedReadOptions,
    windows: Annotated[
        list[Path] | None,
        typer.Argument(
            help="New windows, in their order: sketches with groups, or data (files as for `drift`, folders, URLs). A "
            "quoted pattern gives one window per file."
        ),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(help="Probability of one or more false alarms in any --horizon windows in a row, without drift."),
    ] = 0.05,
    horizon: Annotated[int, typer.Option(help="Number of windows for which --alpha holds.", min=1)] = 365,
    permutations: Annotated[
        int | None,
        typer.Option(help="Number of permutations if the p-value is small.", show_default="4 x horizon / alpha"),
    ] = None,
    groups: opt.Groups = None,
    label: Annotated[
        str | None,
        typer.Option(help="Label of the window, if there is only one.", show_default="name of the file and the date"),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Date or time for the labels, in ISO 8601, if the windows are from the past or a job is repeated.",
            show_default="today, in UTC",
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait while another process writes to the history.", min=0)
    ] = 60.0,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every line of the history, without a window.")
    ] = False,
    metrics: Annotated[
        Path | None, typer.Option(help="Write metrics for the textfile collector of Prometheus (.prom).")
    ] = None,
    report: opt.Report = None,
    statistic: Annotated[
        str | None,
        typer.Option(
            help="combined: SSW_1, SSW_2 and a statistic of axes, in one p-value. ssw: SSW of the order --p only.",
            show_default="the statistic of the history, combined for a new history",
        ),
    ] = None,
    p: opt.OrderShown = None,
    seed: opt.NonnegativeSeed = 0,
    unit: opt.Unit = None,
    as_json: opt.AsJson = False,
) -> None:
    r"""Test new windows for drift every day, with few false alarms.

    Each window is compared with the reference by permutations of whole groups, at the level alpha / horizon. In any
    --horizon windows in a row, the probability of a false alarm is at most --alpha. Without --groups, each row of a
    data file is a group.

    The result of each window is appended to the history. A window whose points are already in the history is not tested
    again, so a job can be repeated. With --json, the command prints one line of JSON per new window.

    Exit codes: 0 no drift in the new windows, 3 drift, 2 error. The metrics contain the times of the last success and
    of the last error.

    Create the sketch of the reference once:
        sphereot sketch last-month/ -o reference.sketch --columns embedding \
            --groups document --projections 64 --bins 512

    Test the new file every day:
        sphereot monitor reference.sketch today.parquet --columns embedding \
            --groups document --history drift.jsonl --report drift.html \
            --metrics /var/lib/node_exporter/drift.prom

    Write the report again, without a new window:
        sphereot monitor reference.sketch --history drift.jsonl --report page.html

    Check the history:
        sphereot monitor reference.sketch --history drift.jsonl --verify
    """
    from sphereot.stats import DriftMonitor
    from sphereot.stats.prometheus import failure_text

    for option, output in (("--history", history), ("--metrics", metrics), ("--report", report)):
        show.require_writable(option, [output], [reference, *(windows or [])])
    results = []
    try:
        paths = reader.input_files(windows or [])
        labels = _choose_labels(paths, label, time)
        if verify and paths:
            raise ValueError("--verify only checks the history. Test windows in another call.")
        if not (paths or verify or metrics or report):
            raise ValueError("WINDOWS must be at least one file, unless --verify, --metrics or --report is given.")
        if reference.suffix != ".sketch":
            command = f"sphereot sketch {reference} -o reference.sketch --groups ..."
            raise ValueError(f"{reference}: is not a sketch. Create one with `{command}`.")
        if report is not None:
            from sphereot.report import monitor_page  # an error here, before the work, if a package is missing
        if paths and all(path.suffix == ".sketch" for path in paths):
            opt.refuse_for_sketches(context, reading, "groups")
        first = reader.load_sketch(reference)
        watching = DriftMonitor(
            first,
            history=history,
            alpha=alpha,
            horizon=horizon,
            statistic=cast(Any, statistic),
            p=p,
            permutations=permutations,
            seed=seed,
            wait=wait,
        )
        lengths = show.lengths_for(watching.p, first.dim, unit)
        for index, (path, name) in enumerate(zip(paths, labels, strict=True)):
            with reader.status(f"Testing {printable(path.name)} ..."):
                if path.suffix == ".sketch":
                    window = reader.load_sketch(path)
                else:
                    arguments = reading.for_file(index, len(paths))
                    window = reader.sketch_file(path, arguments, first, groups=True, column=groups)
                result = watching.check(window, label=name, name=path.stem)
            results.append(result)
            if as_json:
                record = result.as_record() | lengths.record(lengths.turns(result.value))
                del record["densities"]
                typer.echo(json.dumps(record, allow_nan=False))
            else:
                typer.echo(show.monitor_text(result, lengths))
            _write_metrics(metrics, watching, history.stem)  # now, since a later window may raise an error
        if results and not as_json and watching.p != 1 and lengths.units != [TURNS]:
            typer.echo(show.for_reader(lengths.meaning))
        if verify:
            typer.echo(f"{printable(str(history))}: {watching.verify()}")
        if not paths:
            _write_metrics(metrics, watching, history.stem)
        if report is not None:
            with reader.status("Writing the report ..."):
                monitor_page(
                    report,
                    watching,
                    title=f"Drift from {reference.name}",
                    settings={"History": str(history)},
                    unit=None if unit is None else (unit, UNITS[unit].per_turn),
                )
            if not as_json:
                typer.echo(f"Report: {printable(str(report))}")
        if not paths and not verify and not as_json:
            typer.echo(show.drift_for_reader(watching.summary, watching.p))
    except Exception:
        if metrics is not None:
            with suppress(OSError):  # the first error is reported
                write_text(metrics, failure_text(_read_metrics(metrics), history.stem))
        raise
    if any(result.drifted for result in results):
        raise typer.Exit(show.EXIT_DRIFT)


def _choose_labels(paths: Sequence[Path], label: str | None, time: str | None) -> list[str | None]:
    """Return the labels of the options, or None for a label from the name of the file and the date."""
    if label is not None:
        if len(paths) != 1:
            raise ValueError(f"--label requires exactly one window, got {len(paths)}.")
        if time is not None:
            raise ValueError("--time is part of the default label. Leave out --time or --label.")
        return [label]
    if time is None:
        return [None] * len(paths)
    try:
        datetime.fromisoformat(time)
    except ValueError:
        raise ValueError(
            f"--time must be a time such as 2026-03-01 or 2026-03-01T06:00, got {time!r}. To divide rows into windows "
            "by a column of times, use `sphereot sketch --time ... --every ...` first."
        ) from None
    return [f"{path.stem} {time}" for path in paths]


def _write_metrics(metrics: Path | None, monitor: "DriftMonitor", name: str) -> None:
    from sphereot.stats.prometheus import prometheus_text

    if metrics is not None:
        write_text(metrics, prometheus_text(monitor, name, previous=_read_metrics(metrics)))


def _read_metrics(metrics: Path) -> str:
    """Return the previous metrics, if there are any."""
    return metrics.read_text(encoding="utf-8", errors="replace") if metrics.is_file() else ""
