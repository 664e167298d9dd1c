"""Definition and execution of an experiment: a configuration in; rows, a table, figures and a record out."""

import csv
import hashlib
import io
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from paper.common import summary
from paper.run_context import LOG_NAME, Reporter, Row, RunContext, UnitLog
from sphereot._backends import info
from sphereot._support.atomic_write import hold_lock, reason_of, write_text

_LOCK_NAME = "unfinished.lock"


@dataclass(frozen=True)
class Table:
    """Table to print: columns, rows of text, and a note."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """An experiment: how to reproduce one figure or table of the paper.

    Attributes
    ----------
    name, title : str
        Its name on the command line, and what it shows.
    section : str
        Section and figure of the paper.
    paper : str
        What the paper reports.
    presets : mapping
        Configurations (frozen dataclasses) by name: "quick" (under a minute), "cpu", "paper" (the paper's scale).
    run : callable (config, context) -> rows
        Takes the measurements, through `context.measure`, which reports progress, seeds and resumes.
    plot : callable (rows, config) -> figures by file name
    summarize : callable (rows, config) -> Table
    measured : tuple of str
        The columns that are measurements; the record has their mean and standard deviation over runs.
    pages : callable (rows, config) -> HTML by file name, optional
        Interactive pages, next to the figures.
    needs : str
        Data that the experiment reads; empty if it draws its own samples.
    """

    name: str
    title: str
    section: str
    paper: str
    presets: Mapping[str, Any]
    run: Callable[[Any, RunContext], list[Row]]
    plot: Callable[[list[Row], Any], Mapping[str, Any]]
    summarize: Callable[[list[Row], Any], Table]
    measured: tuple[str, ...]
    pages: Callable[[list[Row], Any], Mapping[str, str]] | None = None
    needs: str = ""


@dataclass(frozen=True)
class Result:
    """Result of a run: `rows` of measurements, the `table`, and the `files` written, `result.json` first.

    `seconds` is the duration with the parts before interruptions. `earlier` is the date of a run that had been
    finished before; it is None if this call has finished the run.
    """

    experiment: Experiment
    preset: str
    rows: list[Row]
    table: Table
    files: list[Path]
    seconds: float
    earlier: str | None = None


def run_experiment(
    experiment: Experiment,
    *,
    preset: str = "quick",
    seed: int = 0,
    out: str | os.PathLike[str],
    reporter: Reporter | None = None,
    fresh: bool = False,
    start: float = 0.0,
) -> Result:
    """Run an experiment and write its results into a folder.

    Parameters
    ----------
    experiment : Experiment
        As returned by `paper.find`.
    preset : str
        One of its presets.
    seed : int
        Where the random numbers come from.
    out : path
        Folder for `result.json` (configuration, seed, versions, machine, means over runs), `result.csv` (every row),
        `series.json` (rows with lists, such as losses step by step) and the figures. A run that was interrupted
        there is resumed. A finished run of the same configuration, seed and version is returned as it is.
    reporter : Reporter, optional
        Called with the progress.
    fresh : bool
        Start again: discard an interrupted run, or remove the files of a finished run.
    start : float, default 0
        Where to begin among the units of each part, from 0 to 1; the numbers do not depend on it.

    Raises
    ------
    ValueError
        If the folder holds the results of another experiment, configuration, seed or version, unless `fresh`.
    """
    if preset not in experiment.presets:
        raise ValueError(
            f"preset: got {preset!r}; for {experiment.name!r} choose one of {', '.join(experiment.presets)}."
        )
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    busy = f"{folder}: another run is at work in this folder; choose another folder, or wait until it ends."
    with hold_lock(folder / _LOCK_NAME, busy):
        return _run(experiment, preset, seed, folder, reporter, fresh, start)


def _run(
    experiment: Experiment,
    preset: str,
    seed: int,
    folder: Path,
    reporter: Reporter | None,
    fresh: bool,
    start: float,
) -> Result:
    config = experiment.presets[preset]
    header = {"experiment": experiment.name, "configuration": asdict(config), "seed": seed}
    header["version"] = version("sphereot")
    if fresh:
        _remove_finished(folder)
    elif (folder / "result.json").exists():
        return _read_finished(experiment, preset, header, folder)
    log = UnitLog(folder / LOG_NAME, header, fresh=fresh)
    rows = experiment.run(config, RunContext(seed, log, reporter, start=start))
    seconds = log.seconds
    plain = _without_lists(rows)
    table = experiment.summarize(rows, config)
    files = _draw(experiment, rows, config, folder)
    texts = {"result.csv": _csv(plain)} | ({"series.json": _series(rows)} if plain != rows else {})
    files = [write_text(folder / name, text) for name, text in texts.items()] + files
    record = header | {
        "preset": preset,
        "title": experiment.title,
        "section": experiment.section,
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(seconds, 1),
        "resumed": log.resumed,
        "versions": _versions(),
        "machine": _machine(),
        "table": {"columns": table.columns, "rows": table.rows, "note": table.note},
        "files": [file.name for file in files],
        "sha256": {name: _sha256(text.encode()) for name, text in texts.items()},
        "figures": summary(plain, experiment.measured),
    }
    files.insert(0, write_text(folder / "result.json", _json(record)))
    log.remove()
    return Result(experiment, preset, rows, table, files, seconds)


def _read_finished(experiment: Experiment, preset: str, header: Row, folder: Path) -> Result:
    """The finished run in a folder; an error if it is not the run with this header."""
    remedy = "Choose another folder with --out, or replace these results with --fresh."
    try:
        record = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        is_other = {name: record[name] for name in header} != json.loads(json.dumps(header))
        found = "{experiment} with preset {preset}, seed {seed} and version {version}".format_map(record)
        rows = [] if is_other else read_rows(folder, record)
        files = [folder / name for name in ("result.json", *record.get("files", []))]
        seconds, date = float(record["seconds"]), str(record["date"])
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, csv.Error, FileNotFoundError) as error:
        raise ValueError(f"{folder}: holds results that cannot be read ({reason_of(error)}). {remedy}") from error
    if is_other:
        raise ValueError(f"{folder}: holds the results of another run ({found}). {remedy}")
    # A kill between the last two steps of a run leaves the log of a run that is finished.
    UnitLog(folder / LOG_NAME, header, fresh=True).remove()
    table = experiment.summarize(rows, experiment.presets[preset])
    return Result(experiment, preset, rows, table, [file for file in files if file.exists()], seconds, date)


def _remove_finished(folder: Path) -> None:
    """Remove the files of a finished run, so that a folder never holds files of two runs."""
    path = folder / "result.json"
    if not path.exists():
        return
    try:
        names = [Path(name).name for name in json.loads(path.read_text(encoding="utf-8"))["files"]]
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{folder}: result.json does not list the files of its run ({reason_of(error)}). Remove the folder, or "
            "choose another folder with --out."
        ) from error
    for name in (*names, path.name):  # the list last: a kill in between leaves nothing unlisted
        (folder / name).unlink(missing_ok=True)


def replot(out: str | os.PathLike[str], experiment: Experiment) -> list[Path]:
    """Redraw the figures of a finished run from its `result.csv` and `series.json`."""
    folder = Path(out)
    try:
        record = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        if record["experiment"] != experiment.name:
            raise ValueError(f"it is of {record['experiment']!r}")
        config = experiment.presets[record["preset"]]
        rows = read_rows(folder, record)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, csv.Error) as error:
        raise ValueError(
            f"{folder}: holds no complete record of {experiment.name!r} ({reason_of(error)}); run it again."
        ) from error
    return _draw(experiment, rows, config, folder)


def read_rows(folder: Path, record: Row) -> list[Row]:
    """Read the rows that a run has written; files that do not belong to its record are an error, or are not read."""
    texts = {}
    for name, expected in record["sha256"].items():
        content = (folder / Path(name).name).read_bytes()
        if _sha256(content) != expected:
            raise ValueError(f"{name} belongs to another run, or was changed")
        texts[name] = content.decode()
    cells = csv.DictReader(io.StringIO(texts["result.csv"], newline=""))
    rows = [{name: _value(text) for name, text in row.items() if text != ""} for row in cells]
    for entry in json.loads(texts.get("series.json", "[]")):
        rows[entry.pop("row")] |= entry
    return rows


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _value(text: str) -> Any:
    """Convert a cell of the CSV to a number if possible."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _draw(experiment: Experiment, rows: list[Row], config: Any, folder: Path) -> list[Path]:
    """Write the figures and pages; their files."""
    from sphereot import plotting

    figures = experiment.plot(rows, config)
    files = [file for name, figure in figures.items() for file in plotting.save(figure, folder / name)]
    pages = {} if experiment.pages is None else experiment.pages(rows, config)
    return files + [write_text(folder / f"{name}.html", text) for name, text in pages.items()]


def _without_lists(rows: list[Row]) -> list[Row]:
    """The rows without their lists, as a CSV file can hold them."""
    return [{name: value for name, value in row.items() if not isinstance(value, list)} for row in rows]


def _series(rows: list[Row]) -> str:
    """JSON of the rows that have lists, one per line, each with its index among all rows."""
    with_lists = [
        {"row": k} | row for k, row in enumerate(rows) if any(isinstance(value, list) for value in row.values())
    ]
    return "[\n" + ",\n".join(map(json.dumps, with_lists)) + "\n]\n"


def _csv(rows: list[Row]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _json(record: Row) -> str:
    """JSON with one setting per line, so that records can be compared by eye."""
    lines = ",\n".join(f"    {json.dumps(row)}" for row in record["figures"])
    head = json.dumps(record | {"figures": []}, indent=2)
    return head.replace('"figures": []\n}', f'"figures": [\n{lines}\n  ]\n}}') + "\n"


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in ("sphereot", "numpy", "scipy", "torch", "POT", "matplotlib"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _machine() -> Row:
    here = info()
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "path": here.backend,
        "instruction_set": here.instruction_set,
        "threads": here.threads,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
