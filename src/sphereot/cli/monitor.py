"""`sphereot monitor`: test windows for drift as they come, for months, against a stored reference."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sphereot.cli.errors import names_missing_extra, reports_errors
from sphereot.cli.options import AsJson, NonnegativeSeed, NoWeights, Order, ReadOptions, reads_points
from sphereot.cli.outputs import drift_for_reader, for_reader, require_writable
from sphereot.cli.points import input_files, load_sketch, refuse_weights, status
from sphereot.cli.result_text import monitor_text
from sphereot.cli.sketch_distances import summarized
from sphereot.cli.units import PER_TURN, Lengths, Unit, as_unit

__all__ = ["monitor"]

_EXIT_DRIFT = 1


@reports_errors()
@reads_points
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
        typer.Option("--label", help="Name of the window, if there is one.", show_default="name of the file"),
    ] = None,
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
    history, which is small and has all that the report needs. A window that the history has is not tested again, so
    that a job can be repeated. The exit code is 0 without drift in the new windows, 1 with drift, and 2 after an error.

    Once: sphereot sketch last-month/ -o reference.sketch --columns embedding --groups document --projections 64
    --bins 512

    Every day: sphereot monitor reference.sketch today.parquet --columns embedding --groups document --history
    drift.jsonl --metrics /var/lib/node_exporter/drift.prom --report drift.html

    The page again, without a new window: sphereot monitor reference.sketch --history drift.jsonl --report drift.html

    With --json, one line of JSON per new window.
    """
    from sphereot._support.atomic_write import write_text
    from sphereot._support.text import printable
    from sphereot.stats import DriftMonitor

    refuse_weights(weights, "monitor")
    paths = input_files(windows or [])
    if not paths and metrics is None and report is None:
        raise ValueError("windows: none was given, and neither --report nor --metrics; give one of these.")
    if label is not None and len(paths) != 1:
        raise ValueError(
            f"--label: names one window, but {len(paths)} were given; test them one by one, or leave it out."
        )
    if reference.suffix != ".sketch":
        raise ValueError(
            f"{reference}: is no sketch; make one with `sphereot sketch {reference} -o reference.sketch --groups ...`."
        )
    inputs = [reference, *paths]
    for option, output in (("--history", history), ("--metrics", metrics), ("--report", report)):
        if output is not None:
            require_writable(option, [output], inputs)
    if report is not None:
        with names_missing_extra("plot"):  # before the work, not after it
            from sphereot.report import monitor_page
    first = load_sketch(reference)
    lengths = Lengths(p, first.dim, as_unit(unit, first.dim))
    watching = DriftMonitor(
        first, history=history, alpha=alpha, horizon=horizon, p=p, permutations=permutations, seed=seed
    )
    results = []
    for index, path in enumerate(paths):
        with status(f"Testing {printable(path.name)} ..."):
            if path.suffix == ".sketch":
                window = load_sketch(path)
            else:
                window = summarized(path, reading, first, of=(index, len(paths)), groups=True, column=groups)
            results.append(watching.check(window, label=label or path.stem))
        if as_json:
            record = {name: value for name, value in results[-1].as_record().items() if name != "densities"}
            record |= lengths.record(results[-1].value)
            typer.echo(json.dumps(record, allow_nan=False))
        else:
            typer.echo(monitor_text(results[-1], lengths))
    if results and not as_json and p != 1 and lengths.units != ["turns"]:
        typer.echo(for_reader(lengths.meaning))
    if metrics is not None:
        from sphereot.stats.prometheus import prometheus_text

        write_text(metrics, prometheus_text(watching, history.stem))
    if report is not None:
        with status("Writing the report ..."):
            monitor_page(
                report,
                watching,
                title=f"Drift from {reference.name}",
                settings={"History": str(history)},
                unit=None if unit is None else (unit, PER_TURN[unit]),
            )
        if not as_json:
            typer.echo(f"Report: {printable(str(report))}")
    if not paths and not as_json:
        typer.echo(drift_for_reader(watching.summary, watching.p))
    if any(result.drifted for result in results):
        raise typer.Exit(_EXIT_DRIFT)
