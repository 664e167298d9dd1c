"""`sphereot reproduce`: run an experiment of the paper, and show its results and those of the paper."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable

from sphereot.cli.errors import reports_errors
from sphereot.cli.options import NonnegativeSeed
from sphereot.cli.outputs import warnings_in_one_line

__all__ = ["reproduce"]


class _Reporter:
    """Progress of an experiment on stderr: one bar per part on a terminal; elsewhere a line every 30 seconds.

    The heading is printed when the first part begins, so that an error about the arguments stands alone.
    """

    def __init__(self, progress: Progress, heading: str):
        self._progress, self._heading, self._task, self._printed = progress, heading, TaskID(0), 0.0

    def begin(self, label: str, total: int, done: int) -> None:
        if self._heading:
            Console().print(self._heading)
            self._heading = ""
        self._task = self._progress.add_task(label, total=total, completed=done)
        self._print_line()

    def advance(self) -> None:
        self._progress.advance(self._task)
        if self._progress.tasks[self._task].finished or time.monotonic() - self._printed >= 30:
            self._print_line()

    def _print_line(self) -> None:
        self._printed = time.monotonic()
        task = self._progress.tasks[self._task]
        if self._progress.disable:
            typer.echo(f"{task.description}: {task.completed:.0f} of {task.total:.0f}", err=True)


@reports_errors("reproduce")
def reproduce(
    name: Annotated[str, typer.Argument(help="Name of the experiment, or [bold]list[/bold] to list all.")],
    preset: Annotated[
        str,
        typer.Option(
            help="Size of the run: quick (under a minute), cpu, paper (the size in the paper), or another preset that "
            "[bold]list[/bold] shows."
        ),
    ] = "quick",
    seed: NonnegativeSeed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="out/reproduce/NAME-PRESET")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start again: discard an interrupted run, replace finished results.")
    ] = False,
    replot: Annotated[bool, typer.Option("--replot", help="Only draw the figures of a finished run.")] = False,
) -> None:
    """Run an experiment of the paper, write its numbers and figures, and show what the paper reports.

    The same command continues an interrupted run where it stopped, and shows the results of a finished run. A folder
    holds the results of one run.

    For example: sphereot reproduce list

    sphereot reproduce rotation

    sphereot reproduce kappa --preset paper --seed 1 --out results/kappa
    """
    console = Console()
    from sphereot import experiments

    if name == "list":
        console.print(_listing(experiments))
        return
    experiment = experiments.find(name)
    folder = out or Path("out", "reproduce", f"{name}-{preset}")
    if replot:
        files = experiments.replot(folder, experiment)
        console.print(f"Written: {', '.join(map(str, files))}", highlight=False)
        return
    heading = f"[bold]{experiment.title}[/bold]\n{experiment.section}; preset {preset}, seed {seed}"
    errors = Console(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=errors, transient=True, disable=not errors.is_terminal,
    ) as progress, warnings_in_one_line():  # fmt: skip
        result = experiments.run_experiment(
            experiment, preset=preset, seed=seed, out=folder, reporter=_Reporter(progress, heading), fresh=fresh
        )
    if result.earlier is not None:
        console.print(f"{heading}\nThis run was finished on {result.earlier}. Compute it again with --fresh.")
    console.print(_table(result.table.columns, result.table.rows, result.table.note))
    console.print(f"[bold]The paper:[/bold] {experiment.paper}")
    verb = "Written" if result.earlier is None else "Files"
    console.print(f"{result.seconds:.1f} s. {verb}: {', '.join(map(str, result.files))}", highlight=False)


def _listing(experiments: Any) -> RichTable:
    known = [experiments.find(name) for name in experiments.NAMES]
    rows = [
        (
            each.name,
            f"{each.title}\n[dim]{each.section}[/dim]\n"
            f"presets: {', '.join(each.presets)}" + (f"; data: {each.needs}" if each.needs else ""),
        )
        for each in known
    ]
    note = "Data are downloaded, or read from the folder that SPHEREOT_DATA names."
    table = _table(("name", "what it shows, section of the paper, presets and data"), rows, note)
    table.columns[0].no_wrap = True
    return table


def _table(columns: Any, rows: Any, note: str) -> RichTable:
    table = RichTable(caption=note or None)
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "default")
    for row in rows:
        table.add_row(*row)
    return table
