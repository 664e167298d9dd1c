"""How a command ends badly: one line that says what and where, and exit code 2."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

__all__ = ["refuse", "requires"]


@contextmanager
def refuse(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds into a message on stderr and exit code 2."""
    try:
        yield
    except kinds as error:
        typer.echo(f"Error: {_message(error)}", err=True)
        raise typer.Exit(2) from error


@contextmanager
def requires(extra: str) -> Iterator[None]:
    """Name the extra to install where a package is missing."""
    try:
        yield
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("sphereot"):
            raise
        reason = (str(error).splitlines() or ["no more is known"])[0]
        if isinstance(error, ModuleNotFoundError) or isinstance(error.__cause__, ModuleNotFoundError):
            text = f"this command needs more packages: pip install 'sphereot[{extra}]' ({reason})."
        else:  # such as a shared library for which there is not enough memory
            text = f"a package cannot be loaded ({reason}); free memory, or pip install 'sphereot[{extra}]' again."
        typer.echo(f"Error: {text}", err=True)
        raise typer.Exit(2) from error


def _message(error: Exception) -> str:
    from sphereot._support.text import printable

    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    else:
        text = str(error) or "there is not enough memory." * isinstance(error, MemoryError) or type(error).__name__
    return printable(text)  # names of files and columns may hold line breaks and bytes that are no text
