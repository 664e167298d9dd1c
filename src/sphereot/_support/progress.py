"""A progress bar in the terminal, for work longer than a few seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Progress", "progress_bar"]

Progress = bool | Callable[[int, int], object]
"""Whether to show a bar; or a function that is told how many steps are done, and of how many."""


@contextmanager
def progress_bar(wanted: Progress, label: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """A function that is told how many of the `total` steps are done.

    The bar is drawn on stderr, so that stdout can be piped, and only where that is a terminal.

    >>> with progress_bar(False, "steps", 3) as show:
    ...     show(1)
    >>> with progress_bar(lambda done, total: print(f"{done} of {total}"), "steps", 3) as show:
    ...     show(1)
    1 of 3
    """
    if not isinstance(wanted, bool) and not callable(wanted):
        raise TypeError(f"progress: got {wanted!r}; give True, False, or a function of two numbers, done and total.")
    if wanted is False:
        yield lambda done: None
        return
    if wanted is not True:
        told = wanted
        yield lambda done: _tell(told, done, total)
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ModuleNotFoundError as error:
        raise ImportError("progress: the bar needs rich: pip install 'sphereot[cli]'.") from error
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total, completed=done)
        yield lambda done: bar.update(task, completed=done)


def _tell(told: Callable[[int, int], object], done: int, total: int) -> None:
    told(done, total)
