"""Commands from functions; their errors are one line on stderr and exit code 2."""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, get_type_hints

import typer

from sphereot._support.text import printable
from sphereot.cli.options import Debug
from sphereot.cli.show import warnings_in_one_line

_FAILURE = 2
_EXPECTED = (ValueError, TypeError, OSError, MemoryError)


def command(extra: str = "data") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: bad files and arguments end it with one line on stderr and exit code 2.

    The option `--debug`, which is added, shows the traceback instead. Other errors are errors of the program: Python
    shows their traceback, with exit code 1. A parameter `reading` becomes one option per field of its type, a
    `ReadOptions`.

    Parameters
    ----------
    extra : str
        The extra of sphereot that has the packages of this command; the message names it where one is missing.

    Examples
    --------
    >>> from sphereot.cli.options import ReadOptions
    >>> @command()
    ... def show(reading: ReadOptions, seed: int = 0) -> None:
    ...     print(reading.columns, seed)
    >>> show(columns=["x,y"], seed=3)
    ['x,y'] 3
    >>> list(inspect.signature(show).parameters)
    ['columns', 'prefix', 'key', 'lonlat', 'normalize', 'drop_bad', 'seed', 'debug']
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        parameters = dict(inspect.signature(function, eval_str=True).parameters)
        options: dict[str, inspect.Parameter] = {}
        kind: Any = parameters["reading"].annotation if "reading" in parameters else None
        if kind is not None:
            types = get_type_hints(kind, include_extras=True)
            options = {field.name: _option(field.name, field.default, types[field.name]) for field in fields(kind)}

        @functools.wraps(function)
        def run(debug: bool = False, **arguments: Any) -> None:
            if kind is not None:
                arguments["reading"] = kind(**{name: arguments.pop(name) for name in options if name in arguments})
            with one_line_errors(*_EXPECTED, debug=debug), names_missing_extra(extra, debug=debug):
                if debug:
                    function(**arguments)
                else:
                    with warnings_in_one_line():
                        function(**arguments)

        expanded: list[inspect.Parameter] = []
        for name, parameter in parameters.items():
            expanded += options.values() if name == "reading" else [parameter]
        expanded.append(_option("debug", False, Debug))
        run.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in expanded}
        return run

    return decorate


def _option(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


@contextmanager
def one_line_errors(*kinds: type[Exception], debug: bool = False) -> Iterator[None]:
    """Turn errors of these kinds into one line on stderr and exit code 2; typer ends silently if stdout was closed."""
    try:
        yield
    except kinds as error:
        if isinstance(error, BrokenPipeError) and error.filename is None:  # as in `sphereot ... | head -1`
            raise
        if isinstance(error, OSError) and error.strerror:
            text = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
        elif isinstance(error, MemoryError) and not str(error):
            text = "there is not enough memory."
        else:
            text = str(error) or type(error).__name__
        _report(printable(text), debug)  # names of files and columns may hold line breaks and bytes that are not text
        raise typer.Exit(_FAILURE) from error


@contextmanager
def names_missing_extra(extra: str, debug: bool = False) -> Iterator[None]:
    """Turn an ImportError into one line on stderr that names the extra to install, and exit code 2."""
    try:
        yield
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("sphereot"):
            raise
        reason = (str(error).splitlines() or ["no reason given"])[0]
        if isinstance(error, ModuleNotFoundError) or isinstance(error.__cause__, ModuleNotFoundError):
            text = f"this command needs more packages: pip install 'sphereot[{extra}]' ({reason})."
        else:  # such as a shared library for which there is not enough memory
            text = f"a package cannot be loaded ({reason}); free memory, or pip install 'sphereot[{extra}]' again."
        _report(text, debug)
        raise typer.Exit(_FAILURE) from error


def _report(text: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    else:
        typer.echo(f"Error: {text}", err=True)
