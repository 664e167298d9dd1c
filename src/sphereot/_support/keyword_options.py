"""Decorator for keyword-only options: errors of wrong calls name the options and show a right call."""

import functools
import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any, ParamSpec, TypeVar

__all__ = ["options_by_name"]

P = ParamSpec("P")
R = TypeVar("R")


def options_by_name(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function with keyword-only options, so that errors of wrong calls show how to pass them.

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
    TypeError: power: got an unknown argument 'q'; choose from x, p.
    """
    parameters = inspect.signature(function).parameters
    options = tuple(name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY)
    positional = tuple(name for name in parameters if name not in options)
    known = frozenset(parameters)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) > len(positional):
            raise TypeError(_too_many_message(function.__name__, positional, options, args))
        for name in kwargs:
            if name not in known:
                raise TypeError(_unknown_message(function.__name__, name, tuple(parameters)))
        return function(*args, **kwargs)

    return checked


def _too_many_message(
    function: str, positional: tuple[str, ...], options: tuple[str, ...], args: tuple[Any, ...]
) -> str:
    value = args[len(positional)]
    example = repr(value) if isinstance(value, int | float | str) else "..."
    # Nobody means an order of 100: so large a number is the count of great circles.
    is_count = isinstance(value, Integral) and int(value) >= 10 and "n_projections" in options
    option = "n_projections" if is_count else options[0]
    others = f" ({', '.join(options)})" if len(options) > 1 else ""
    return (
        f"{function}: got {len(args)} positional arguments, but takes only {' and '.join(positional)} by position; "
        f"name the rest{others}, as in {function}({', '.join(positional)}, {option}={example})."
    )


def _unknown_message(function: str, name: str, known: tuple[str, ...]) -> str:
    import difflib

    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else f"choose from {', '.join(known)}."
    return f"{function}: got an unknown argument {name!r}; {hint}"
