"""Output of commands: text for a terminal, JSON, checks that output files can be written, one-line warnings."""

import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from sphereot._support.checkpoints import CheckpointWarning
from sphereot._support.text import cost_name, typeset

__all__ = ["drift_for_reader", "finite_or_none", "for_reader", "print_json", "require_writable", "warnings_in_one_line"]

_COLUMN = re.compile(r"\bSSW_[\d^]+(?=  )")  # in a table: what follows must stay where it is


def for_reader(text: str) -> str:
    """Names of distances with subscripts, SSW₁, on a terminal that has them; plain for files and other programs."""
    if not sys.stdout.isatty():
        return text
    try:
        shown = typeset(_COLUMN.sub(lambda name: typeset(name[0]).ljust(len(name[0])), text))
        shown.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return text
    return shown


def drift_for_reader(text: str, p: float) -> str:
    """`for_reader` for the summary of a drift test: the name of the distance changes, those of windows do not."""
    name = cost_name(p)
    return re.sub(rf"(?<=\(){re.escape(name)}(?= \S+ times that of chance)", for_reader(name), text)


def print_json(record: dict[str, Any]) -> None:
    """Print a record as JSON: one line for programs, indented on a terminal; NaN and infinity are an error."""
    typer.echo(json.dumps(record, indent=2 if sys.stdout.isatty() else None, allow_nan=False))


def finite_or_none(value: float) -> float | None:
    """The value, or None (null in JSON) for NaN and infinity."""
    return value if math.isfinite(value) else None


def require_writable(option: str, outputs: Iterable[Path], inputs: Iterable[Path] = ()) -> None:
    """Raise an error for output files that cannot be written, or that are input files, before any work is done.

    Parameters
    ----------
    option : str
        The option that names the outputs, for the message.
    outputs : iterable of Path
        All files that the command will write.
    inputs : iterable of Path
        The files, folders and patterns that the command reads.

    Raises
    ------
    ValueError
        With a message that names the option and the file.
    """
    outputs = list(outputs)
    # Files in folders and of patterns are looked up only if an output could be one of them.
    read = _existing_files(inputs) if any(output.exists() for output in outputs) else []
    for output in outputs:
        if output.is_dir():
            raise ValueError(f"{option}: {output} is a folder; give the name of a file in it.")
        if output.exists() and any(output.samefile(path) for path in read):
            raise ValueError(f"{option}: {output} is one of the files to read; give another name.")
        if output.exists() and not os.access(output, os.W_OK):
            raise ValueError(f"{option}: {output} is write-protected; give another name, or change its mode.")
        if not output.exists() or output.is_file():  # devices and FIFOs need no new file in a folder
            _require_folder(option, output)


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Show each warning as one line on stderr, without the line of source code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        from sphereot._support.text import printable

        typer.echo(f"Warning: {printable(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", CheckpointWarning)
        warnings.showwarning = show
        yield


def _existing_files(paths: Iterable[Path]) -> list[Path]:
    """The files on this machine that are among the paths, in the folders, or match the patterns."""
    from sphereot.datasets.addresses import address_of, files_at
    from sphereot.datasets.files import opener_for

    existing: list[Path] = []
    for path in paths:
        if address_of(path) is not None:
            continue
        files = files_at(path)
        if files is None:
            existing += [path] if path.exists() else []
        else:
            existing += [file for file in files if file.suffix == ".sketch" or opener_for(file) is not None]
    return existing


def _require_folder(option: str, output: Path) -> None:
    """Raise an error for a file whose folder cannot be created or written to."""
    folder = Path(os.path.realpath(output)).parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise ValueError(f"{option}: {output} cannot be written, because {folder} is not a folder; give another name.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(
            f"{option}: {output} cannot be written, because its folder {folder} is write-protected; give another name."
        )
