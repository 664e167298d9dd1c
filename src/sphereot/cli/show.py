"""Run commands and show results: errors and warnings in one line, units, text or JSON; check output files."""

import functools
import inspect
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from sphereot._support.checkpoints import CheckpointWarning
from sphereot._support.text import cost_name, plural, printable, typeset
from sphereot._support.units import TURNS, UNITS, Lengths
from sphereot.cli.options import Debug

if TYPE_CHECKING:
    from sphereot.stats import DriftResult, MonitoredWindow, TwoSampleResult

EXIT_DRIFT = 3
"""Exit code of a test that has found drift."""

IMAGE_TYPES = (".png", ".pdf", ".svg")
"""Extensions of the images that commands write."""

_COLUMN = re.compile(r"\bSSW_[\d^]+(?=  )")  # in a table, in which the following columns must stay aligned


def command(extra: str = "data") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: bad files and arguments end it with one line on stderr and exit code 2.

    The new option `--debug` shows the traceback instead. Other errors are errors of the program: Python shows their
    traceback, with exit code 1. A parameter `reading`, a `ReadOptions`, becomes one option for each field of its type.
    `extra` is the extra of sphereot that installs the packages of the command, for the message if one is missing.

    >>> from sphereot.cli.options import ReadOptions
    >>> @command()
    ... def show(reading: ReadOptions, seed: int = 0) -> None:
    ...     print(reading.columns, seed)
    >>> show(columns=["x,y"], seed=3)
    ['x,y'] 3
    >>> list(inspect.signature(show).parameters)
    ['columns', 'prefix', 'key', 'lonlat', 'normalize', 'drop_bad', 'seed', 'debug']
    """

    def option(name: str, default: Any, annotation: Any) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        kind: Any = None
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
            if name != "reading":
                parameters.append(parameter)
                continue
            kind = parameter.annotation
            types = get_type_hints(kind, include_extras=True)
            parameters += [option(field.name, field.default, types[field.name]) for field in fields(kind)]
        parameters.append(option("debug", False, Debug))

        @functools.wraps(function)
        def run(debug: bool = False, **arguments: Any) -> None:
            try:
                if kind is not None:
                    names = [field.name for field in fields(kind) if field.name in arguments]
                    arguments["reading"] = kind(**{name: arguments.pop(name) for name in names})
                with nullcontext() if debug else warnings_in_one_line():
                    function(**arguments)
            except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
                if isinstance(error, BrokenPipeError) and error.filename is None:  # as in `sphereot ... | head -1`
                    raise
                if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("sphereot"):
                    raise
                if debug:
                    traceback.print_exc()
                else:  # names of files and columns may hold line breaks and bytes that are not text
                    typer.echo(f"Error: {printable(error_text(error, extra))}", err=True)
                raise typer.Exit(2) from error

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def error_text(error: Exception, extra: str) -> str:
    """Describe an error in one line. `extra` is the extra that installs the packages of the command.

    >>> error_text(FileNotFoundError(2, "No such file or directory", "a.npy"), "data")
    'a.npy: No such file or directory.'
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    text = str(error) or ("there is not enough memory." if isinstance(error, MemoryError) else type(error).__name__)
    if not isinstance(error, ImportError) or isinstance(error.__cause__, ModuleNotFoundError):
        return text  # the message of `require` already names the extra of a missing package
    reason = text.splitlines()[0]
    if isinstance(error, ModuleNotFoundError):
        return f"this command needs more packages: pip install 'sphereot[{extra}]' ({reason})."
    # For example, there is not enough memory for a shared library.
    return f"a package cannot be loaded ({reason}). Free memory, or pip install 'sphereot[{extra}]' again."


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Show each warning as one line on stderr, without the line of source code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        typer.echo(f"Warning: {printable(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", CheckpointWarning)
        warnings.showwarning = show
        yield


def lengths_for(p: float, dim: int, unit: str | None) -> Lengths:
    """Return the formats of distances in a unit, None for the default; raise an error if the unit does not fit.

    >>> lengths_for(1, 3, "km").text(0.1)
    '4003 km'
    """
    if unit is None:
        return Lengths(p, dim)
    if unit not in UNITS:
        raise ValueError(f"--unit must be one of {', '.join(UNITS)}, got {unit!r}.")
    if unit == "km" and dim != 3:
        raise ValueError(f"--unit km is only for locations on the Earth, got points with {dim} coordinates.")
    return Lengths(p, dim, UNITS[unit])


def for_reader(text: str) -> str:
    """Write names of distances with subscripts, SSW₁, if stdout is a terminal that can show them."""
    if not sys.stdout.isatty():
        return text
    try:
        shown = typeset(_COLUMN.sub(lambda name: typeset(name[0]).ljust(len(name[0])), text))
        shown.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return text
    return shown


def drift_for_reader(text: str, p: float) -> str:
    """Apply `for_reader` to the summary of a drift test, except to the names of windows."""
    name = cost_name(p)
    return re.sub(rf"(?<=\(){re.escape(name)}(?= (?:is )?\S+ times )", for_reader(name), text)


def print_json(record: dict[str, Any]) -> None:
    """Print a record as JSON: one line for programs, indented on a terminal. NaN and infinity raise an error."""
    typer.echo(json.dumps(record, indent=2 if sys.stdout.isatty() else None, allow_nan=False))


def two_sample_text(result: "TwoSampleResult", lengths: Lengths) -> str:
    """Format the result of a two-sample test."""
    groups = "" if result.n_groups is None else f" of {result.n_groups[0]} and {result.n_groups[1]} groups"
    turns = lengths.turns(result.statistic)
    if lengths.p == 1:
        also = "".join(f" = {unit.per_turn * turns:.4g} {unit.name}" for unit in lengths.units[1:])
    else:
        also = f", SSW_{lengths.p:g} = {lengths.roots(turns)}"
    lines = [
        f"{result.title}: {result.n:,} and {plural(result.m, 'point')} in dimension {result.dim}",
        f"  distance  {lengths.text(result.statistic, 6)}{also}",
        f"  expected  {lengths.with_deviation(result.null_mean, result.null_deviation, 6)}  "
        f"({plural(result.permutations, 'permutation')}{groups}, {plural(result.n_projections, 'great circle')})",
        f"  effect    {result.effect:.2f} standard deviations above the expected value, ratio {result.ratio:.3g}",
        f"  p-value   {result.p_value:.4g}",
        *result.component_lines(),
    ]
    for circle in result.circles[:1]:
        expected = lengths.with_deviation(circle.null_mean, circle.null_deviation, 4)
        lines.append(f"  largest difference on one great circle: {lengths.text(circle.cost)} (expected {expected})")
    lines.append(f"  {lengths.meaning}")
    if result.note is not None:
        lines.append(f"  {result.note}")
    return for_reader("\n".join(lines))


def drift_text(result: "DriftResult", lengths: Lengths) -> str:
    """Format the result of a drift test: its summary, and a table of the windows."""
    lines = [drift_for_reader(result.summary, result.p), result.table(lengths, for_reader)]
    if lengths.p != 1 and lengths.units != [TURNS]:
        lines.append(for_reader(f"  {lengths.meaning}"))
    return "\n".join(lines)


def monitor_text(window: "MonitoredWindow", lengths: Lengths) -> str:
    """Format the result of one window of a monitor in one line."""
    distance = f"SSW_{lengths.p:g} {lengths.roots(lengths.turns(window.value))}"
    if lengths.p != 1:
        distance = f"{lengths.name} {lengths.text(window.value)} ({distance})"
    verdict = "DRIFT" if window.drifted else "no drift"
    return (
        f"{window.label}: {verdict}; {for_reader(distance)}, {window.ratio:.3g} times its expected value without "
        f"drift; adjusted p-value {window.adjusted_p_value:.2g}; {plural(window.n, 'point')}"
    )


def require_writable(option: str, outputs: Iterable[Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Raise an error for output files that cannot be written, or that are input files, before any work is done.

    Inputs may be files, folders and patterns. None, for an option that is not given, is skipped.
    """
    from sphereot.datasets.addresses import address_of, files_at
    from sphereot.datasets.files import opener_for

    given = [output for output in outputs if output is not None]
    read: list[Path] = []
    for path in inputs if any(output.exists() for output in given) else ():
        if path is not None and address_of(path) is None:
            found = files_at(path)  # of a folder or a pattern
            known = [file for file in found or () if file.suffix == ".sketch" or opener_for(file) is not None]
            read += known if found is not None else [path] if path.exists() else []
    for output in given:
        if output.is_dir():
            raise ValueError(f"{option}: {output} is a folder. Give the name of a file in it.")
        if output.exists() and any(output.samefile(path) for path in read):
            raise ValueError(f"{option}: {output} is one of the files to read. Give another name.")
        if output.exists() and not os.access(output, os.W_OK):
            raise ValueError(f"{option}: {output} is write-protected. Give another name, or change its mode.")
        if output.exists() and not output.is_file():
            continue  # a device or a FIFO is not replaced by a new file
        folder = Path(os.path.realpath(output)).parent
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            cause = f"its folder {folder} is write-protected" if folder.is_dir() else f"{folder} is not a folder"
            raise ValueError(f"{option}: {output} cannot be written, because {cause}. Give another name.")
