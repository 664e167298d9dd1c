"""`python -m paper`: run the experiments of the paper, and compare their results with what the paper reports."""

import json
import threading
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

import paper
from paper import overview
from paper.experiment import Experiment, Result, replot, run_experiment
from paper.run_context import join_logs
from sphereot.cli.options import NonnegativeSeed
from sphereot.cli.show import command, warnings_in_one_line

app = typer.Typer(
    help="Run the experiments of the paper, and compare their results with what the paper reports.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[str, typer.Argument(help="Name of the experiment; the command list shows them.")]
Preset = Annotated[
    str,
    typer.Option(
        help="Size of the run: quick (under a minute), cpu, paper (the size in the paper), or another preset that the "
        "command list shows."
    ),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Start again: discard an interrupted run, replace finished results.")
]


@app.command("list", help="Show what is reproduced with which verdict, and the experiments with presets and data.")
@command("paper")
def show_experiments() -> None:
    """List the experiments."""
    console = Console()
    console.print(_table(overview.COLUMNS, overview.table(), "Verdicts on the records in paper/results."))
    rows = []
    for name in paper.NAMES:
        experiment = paper.find(name)
        data = f"; data: {experiment.needs}" if experiment.needs else ""
        presets = ", ".join(experiment.presets)
        rows.append([name, f"{experiment.title}\n[dim]{experiment.section}[/dim]\npresets: {presets}{data}"])
    note = "Data are downloaded, or read from the folder that SPHEREOT_DATA names."
    table = _table(["name", "what it shows, section of the paper, presets and data"], rows, note)
    table.columns[0].no_wrap = True
    console.print(table)


@app.command(
    help="Run an experiment, write its numbers and figures, and show what the paper reports. The same command "
    "continues an interrupted run where it stopped, and shows the results of a finished run. A folder "
    "has the results of one run."
)
@command("paper")
def run(
    name: Name,
    preset: Preset = "quick",
    seed: NonnegativeSeed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="out/paper/NAME-PRESET")
    ] = None,
    fresh: Fresh = False,
    start: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Where to begin among the units of each part, for several processes: see join."
        ),
    ] = 0.0,
    redraw: Annotated[bool, typer.Option("--replot", help="Only draw the figures of a finished run.")] = False,
) -> None:
    """Run an experiment."""
    experiment = paper.find(name)
    folder = out or Path("out", "paper", f"{name}-{preset}")
    if redraw:
        files = replot(folder, experiment)
        Console().print(f"Written: {', '.join(map(str, files))}", highlight=False)
    else:
        _run(experiment, preset, seed, folder, fresh, start)


@app.command(
    "all",
    help="Run all experiments one after the other, each into out/paper/NAME-PRESET, and show a verdict on each. The "
    "exit code is 1 if one of the verdicts is bad.",
)
@command("paper")
def run_all(preset: Preset = "quick", seed: NonnegativeSeed = 0, fresh: Fresh = False) -> None:
    """Run all experiments."""
    rows = []
    for name in paper.NAMES:
        folder = Path("out", "paper", f"{name}-{preset}")
        result = _run(paper.find(name), preset, seed, folder, fresh)
        rows.append((name, *overview.judge_run(result, folder), f"{result.seconds:.0f}"))
    note = "The checks are those of the command compare that make sense at this size; numbers must be finite."
    Console().print(_table(("experiment", "checked", "verdict", "seconds"), rows, note))
    if {overview.NOT_MET, overview.NOT_FINITE} & {verdict for _, _, verdict, _ in rows}:
        raise typer.Exit(1)


@app.command(
    help="Join the finished units of interrupted runs of one experiment, which several processes ran in different "
    "folders with different values of --start. The command run with the same --out continues from the joined units.",
)
@command("paper")
def join(
    folders: Annotated[list[Path], typer.Argument(help="Folders of the runs, of the same preset, seed and version.")],
    out: Annotated[Path, typer.Option(help="Folder for the joined run.")],
) -> None:
    """Join the logs of several processes."""
    units, differing = join_logs(folders, out)
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"{out}: {units} finished units.")
    for unit in differing:
        console.print(f"The first of several different results is kept: {unit}", markup=False)


@app.command(
    help="Show the results of an experiment in paper/results, and what the paper reports. Without a name, show the "
    "verdict on every figure, table and statement of the paper."
)
@command("paper")
def compare(
    name: Annotated[str | None, typer.Argument(help="Name of the experiment; the command list shows them.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the verdicts as a table in Markdown.")] = False,
) -> None:
    """Compare the committed records with the paper."""
    console = Console()
    if name is None:
        if markdown:
            typer.echo(overview.markdown(), nl=False)
        else:
            console.print(_table(overview.COLUMNS, overview.table(), "Verdicts on the records in paper/results."))
        return
    experiment = paper.find(name)
    console.print(f"[bold]{experiment.title}[/bold]\n{experiment.section}")
    for path in sorted(overview.RESULTS.glob("*/result.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["experiment"] == name:
            table = record["table"]
            console.print(
                f"\n{path.parent.name}: preset {record['preset']}, seed {record['seed']}, version {record['version']}, "
                f"{record['date']}",
                highlight=False,
            )
            console.print(_table(table["columns"], table["rows"], table["note"]))
    console.print(f"[bold]The paper:[/bold] {experiment.paper}")


def _run(experiment: Experiment, preset: str, seed: int, folder: Path, fresh: bool, start: float = 0.0) -> Result:
    console, errors = Console(), Console(stderr=True)
    heading = f"[bold]{experiment.title}[/bold]\n{experiment.section}; preset {preset}, seed {seed}"
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=errors, transient=True, disable=not errors.is_terminal,
    ) as progress, warnings_in_one_line(), _Reporter(progress, heading) as reporter:  # fmt: skip
        result = run_experiment(
            experiment, preset=preset, seed=seed, out=folder, reporter=reporter, fresh=fresh, start=start
        )
    if result.earlier is not None:
        console.print(f"{heading}\nThis run was finished on {result.earlier}. Compute it again with --fresh.")
    console.print(_table(result.table.columns, result.table.rows, result.table.note))
    console.print(f"[bold]The paper:[/bold] {experiment.paper}")
    verb = "Written" if result.earlier is None else "Files"
    console.print(f"{result.seconds:.1f} s. {verb}: {', '.join(map(str, result.files))}", highlight=False)
    return result


class _Reporter:
    """Progress of an experiment on stderr: one bar per part on a terminal; elsewhere a line every minute.

    The heading is printed when the first part begins, so that an error about the arguments stands alone.
    """

    interval = 60.0
    """Seconds between two lines. A thread prints them, because a unit can take many minutes."""

    def __init__(self, progress: Progress, heading: str):
        self._progress, self._heading, self._task, self._start = progress, heading, TaskID(0), time.monotonic()
        self._ended, self._clock = threading.Event(), threading.Thread(target=self._print_lines, daemon=True)

    def __enter__(self) -> "_Reporter":
        if self._progress.disable:
            self._clock.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._progress.disable:
            self._clock.join()

    def begin(self, label: str, total: int, done: int) -> None:
        if self._heading:
            Console().print(self._heading)
            self._heading = ""
        self._task = self._progress.add_task(label, total=total, completed=done)
        self._print_line()

    def advance(self) -> None:
        self._progress.advance(self._task)
        if self._progress.tasks[self._task].finished:
            self._print_line()

    def _print_lines(self) -> None:
        while not self._ended.wait(self.interval):
            if self._progress.tasks:
                self._print_line()

    def _print_line(self) -> None:
        task = self._progress.tasks[self._task]
        if self._progress.disable:
            minutes = (time.monotonic() - self._start) / 60
            typer.echo(f"{task.description}: {task.completed:.0f} of {task.total:.0f}, {minutes:.0f} min", err=True)


def _table(columns: Any, rows: Any, note: str) -> RichTable:
    table = RichTable(caption=note or None)
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "default")
    for row in rows:
        table.add_row(*row)
    return table


if __name__ == "__main__":
    app(prog_name="python -m paper")
