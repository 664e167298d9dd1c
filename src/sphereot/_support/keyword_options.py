"""Calls of public functions: a message that leads to the right call where Python's own would only count arguments."""

import functools
import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any, ParamSpec, TypeVar

__all__ = ["options_by_name"]

P = ParamSpec("P")
R = TypeVar("R")


def options_by_name(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function with keyword-only options, so that a wrong call names the options and the nearest of them.

    Examples
    --------
    >>> @options_by_name
    ... def power(x, *, p=2):
    ...     return x**p
    >>> power(2, 3)
    Traceback (most recent call last):
    TypeError: power: got 2 positional arguments, but takes only x by position; name the rest, as in power(x, p=3).
    >>> power(2, q=3)
    Traceback (most recent call last):
    TypeError: power: there is no argument 'q'; choose from x, p.
    """
    parameters = inspect.signature(function).parameters
    options = tuple(name for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY)
    positional = tuple(name for name in parameters if name not in options)
    known = frozenset(parameters)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) > len(positional):
            raise TypeError(_too_many(function.__name__, positional, options, args))
        for name in kwargs:
            if name not in known:
                raise TypeError(_unknown(function.__name__, name, tuple(parameters)))
        return function(*args, **kwargs)

    return checked


def _too_many(function: str, positional: tuple[str, ...], options: tuple[str, ...], args: tuple[Any, ...]) -> str:
    value = args[len(positional)]
    shown = repr(value) if isinstance(value, int | float | str) else "..."
    # Nobody means an order of 100: a count so large is that of the great circles.
    is_count = isinstance(value, Integral) and int(value) >= 10 and "n_projections" in options
    option = "n_projections" if is_count else options[0]
    others = f" ({', '.join(options)})" if len(options) > 1 else ""
    return (
        f"{function}: got {len(args)} positional arguments, but takes only {' and '.join(positional)} by position; "
        f"name the rest{others}, as in {function}({', '.join(positional)}, {option}={shown})."
    )


def _unknown(function: str, name: str, known: tuple[str, ...]) -> str:
    import difflib

    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else f"choose from {', '.join(known)}."
    return f"{function}: there is no argument {name!r}; {hint}"
