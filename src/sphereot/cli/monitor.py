"""`sphereot monitor`: test windows for drift as they come, for months, against a stored reference."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sphereot._support.text import printable
from sphereot._support.units import TURNS, UNITS
from sphereot.cli.files import input_files, load_sketch, refuse_weights, sketch_file, status
from sphereot.cli.options import AsJson, NonnegativeSeed, NoWeights, Order, ReadOptions, Unit
from sphereot.cli.show import (
    EXIT_DRIFT,
    command,
    drift_for_reader,
    for_reader,
    lengths_for,
    monitor_text,
    names_missing_extra,
    require_writable,
    warnings_in_one_line,
)

if TYPE_CHECKING:
    from sphereot.stats import DriftMonitor


@command()
def monitor(
    reference: Annotated[
        Path, typer.Argument(help="The reference: a sketch with groups, made by `sphereot sketch`.", show_default=False)
    ],
    history: Annotated[
        Path, typer.Option("--history", help="File with the results so far, made or continued.", show_default=False)
    ],
    reading: ReadOptions,
    windows: Annotated[
        list[Path] | None,
        typer.Argument(
            help="New windows, in their order: sketches with groups, or data (files as for drift, folders, addresses); "
            "a quoted pattern is one window per match.",
            show_default=False,
        ),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option("--alpha", help="Level: probability of any alarm in --horizon windows if there is no drift."),
    ] = 0.05,
    horizon: Annotated[int, typer.Option("--horizon", help="Number of windows that share the level.", min=1)] = 365,
    permutations: Annotated[
        int | None,
        typer.Option(
            "--permutations", help="Permutations of a window that differs.", show_default="4 x horizon / alpha"
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            help="For data files: column with the document, user or session of each point.",
            show_default="every row by itself",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label", help="Label of the window, if there is one.", show_default="name of the file and the date"
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            help="Time of the windows for their labels, ISO 8601: for windows of the past, or jobs that are repeated.",
            show_default="today, in UTC",
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", help="Seconds to wait while another process writes to the history.", min=0)
    ] = 60.0,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every line of the history, without a new window.")
    ] = False,
    metrics: Annotated[
        Path | None,
        typer.Option(
            "--metrics", help="Also write the state for Prometheus (textfile collector), .prom.", show_default=False
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Also write the history as an HTML page that opens from disk.")
    ] = None,
    p: Order = 1.0,
    seed: NonnegativeSeed = 0,
    weights: NoWeights = None,
    unit: Unit = None,
    as_json: AsJson = False,
) -> None:
    """Test new windows for drift from a stored reference, day by day, with a bound on false alarms over time.

    Every window is tested against the reference by permutations of whole groups, at level alpha / horizon: in any
    --horizon windows in a row, the probability of a false alarm is at most --alpha. Results are appended to the
    history, which is small and has all that the report needs. A window whose points the history has is not tested
    again, so that a job can be repeated. The exit code is 0 without drift in the new windows, 3 with drift, and 2 after
    an error; the metrics say when the last success and the last error were.

    Once: sphereot sketch last-month/ -o reference.sketch --columns embedding --groups document --projections 64
    --bins 512

    Every day: sphereot monitor reference.sketch today.parquet --columns embedding --groups document --history
    drift.jsonl --metrics /var/lib/node_exporter/drift.prom --report drift.html

    The page again, without a new window: sphereot monitor reference.sketch --history drift.jsonl --report drift.html

    Check the history: sphereot monitor reference.sketch --history drift.jsonl --verify

    With --json, one line of JSON per new window.
    """
    from sphereot.stats import DriftMonitor

    refuse_weights(weights, "monitor")
    for option, output in (("--history", history), ("--metrics", metrics), ("--report", report)):
        if output is not None:
            require_writable(option, [output], [reference, *(windows or [])])
    results = []
    with _errors_in_metrics(metrics, history.stem), warnings_in_one_line():
        paths = input_files(windows or [])
        labels = _labels(paths, label, time)
        if verify and paths:
            raise ValueError("--verify: checks the history alone; test windows in another call.")
        if not (paths or verify or metrics or report):
            raise ValueError("windows: none was given, and neither --report nor --metrics; give one of these.")
        if reference.suffix != ".sketch":
            raise ValueError(
                f"{reference}: is not a sketch; make one with `sphereot sketch {reference} -o reference.sketch "
                "--groups ...`."
            )
        if report is not None:
            with names_missing_extra("plot"):  # before the work, not after it
                from sphereot.report import monitor_page
        first = load_sketch(reference)
        lengths = lengths_for(p, first.dim, unit)
        watching = DriftMonitor(
            first, history=history, alpha=alpha, horizon=horizon, p=p, permutations=permutations, seed=seed, wait=wait
        )
        for index, (path, name) in enumerate(zip(paths, labels, strict=True)):
            with status(f"Testing {printable(path.name)} ..."):
                if path.suffix == ".sketch":
                    window = load_sketch(path)
                else:
                    window = sketch_file(path, reading, first, of=(index, len(paths)), groups=True, column=groups)
                results.append(watching.check(window, label=name, name=path.stem))
            if as_json:
                record = {name: value for name, value in results[-1].as_record().items() if name != "densities"}
                record |= lengths.record(lengths.turns(results[-1].value))
                typer.echo(json.dumps(record, allow_nan=False))
            else:
                typer.echo(monitor_text(results[-1], lengths))
            _write_metrics(metrics, watching, history.stem)  # an error of a later window keeps this state
        if results and not as_json and p != 1 and lengths.units != [TURNS]:
            typer.echo(for_reader(lengths.meaning))
        if verify:
            typer.echo(f"{printable(str(history))}: {watching.verify()}")
        if not paths:
            _write_metrics(metrics, watching, history.stem)
        if report is not None:
            with status("Writing the report ..."):
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
            typer.echo(drift_for_reader(watching.summary, watching.p))
    if any(result.drifted for result in results):
        raise typer.Exit(EXIT_DRIFT)


def _labels(paths: Sequence[Path], label: str | None, time: str | None) -> list[str | None]:
    """The labels that the options ask for; None where the monitor chooses one by the name of the file and the date."""
    if label is not None:
        if len(paths) != 1:
            raise ValueError(
                f"--label: names one window, but {len(paths)} were given; test them one by one, or leave it out."
            )
        if time is not None:
            raise ValueError("--time: is part of the default label; leave out --time or --label.")
        return [label]
    if time is None:
        return [None] * len(paths)
    try:
        datetime.fromisoformat(time)
    except ValueError:
        raise ValueError(
            f"--time: {time!r} is not a time; give one such as 2026-03-01 or 2026-03-01T06:00. To divide rows into "
            "windows by a column of times, use `sphereot sketch --time ... --every ...` first."
        ) from None
    return [f"{path.stem} {time}" for path in paths]


@contextmanager
def _errors_in_metrics(metrics: Path | None, name: str) -> Iterator[None]:
    """Note an error in the metrics, so that an alert can fire."""
    try:
        yield
    except Exception:
        if metrics is not None:
            from sphereot._support.atomic_write import write_text
            from sphereot.stats.prometheus import failure_text

            with suppress(OSError):  # the first error is the one to report
                write_text(metrics, failure_text(_text_of(metrics), name))
        raise


def _write_metrics(metrics: Path | None, monitor: "DriftMonitor", name: str) -> None:
    from sphereot._support.atomic_write import write_text
    from sphereot.stats.prometheus import prometheus_text

    if metrics is not None:
        write_text(metrics, prometheus_text(monitor, name, previous=_text_of(metrics)))


def _text_of(metrics: Path) -> str:
    """The metrics that were written before, if there are any."""
    return metrics.read_text(encoding="utf-8", errors="replace") if metrics.is_file() else ""
