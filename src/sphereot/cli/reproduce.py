"""`sphereot reproduce`: run an experiment of the paper, and show its results and those of the paper."""

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


class _Bar:
    """Progress of an experiment, one bar per part."""

    def __init__(self, progress: Progress):
        self._progress, self._task = progress, TaskID(0)

    def begin(self, label: str, total: int, done: int) -> None:
        self._task = self._progress.add_task(label, total=total, completed=done)

    def advance(self) -> None:
        self._progress.advance(self._task)


@reports_errors("reproduce")
def reproduce(
    name: Annotated[str, typer.Argument(help="Name of the experiment, or [bold]list[/bold] to list all.")],
    preset: Annotated[
        str, typer.Option(help="Size of the run: quick (under a minute), cpu, or paper (the size in the paper).")
    ] = "quick",
    seed: NonnegativeSeed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="out/reproduce/NAME-PRESET")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start again instead of continuing an interrupted run.")
    ] = False,
    replot: Annotated[bool, typer.Option("--replot", help="Only draw the figures of a finished run.")] = False,
) -> None:
    """Run an experiment of the paper, write its numbers and figures, and show what the paper reports.

    The same command continues an interrupted run where it stopped. Only one run at a time can use a folder.

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
    console.print(f"[bold]{experiment.title}[/bold]\n{experiment.section}; preset {preset}, seed {seed}")
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console, transient=True,
    ) as progress, warnings_in_one_line():  # fmt: skip
        result = experiments.run_experiment(
            experiment, preset=preset, seed=seed, out=folder, reporter=_Bar(progress), fresh=fresh
        )
    console.print(_table(result.table.columns, result.table.rows, result.table.note))
    console.print(f"[bold]The paper:[/bold] {experiment.paper}")
    console.print(f"{result.seconds:.1f} s. Written: {', '.join(str(file) for file in result.files)}", highlight=False)


def _listing(experiments: Any) -> RichTable:
    known = [experiments.find(name) for name in experiments.NAMES]
    rows = [(experiment.name, experiment.title, experiment.section) for experiment in known]
    return _table(("name", "what it shows", "in the paper"), rows, "")


def _table(columns: Any, rows: Any, note: str) -> RichTable:
    table = RichTable(caption=note or None)
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "default")
    for row in rows:
        table.add_row(*row)
    return table
