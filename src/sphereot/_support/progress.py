"""Progress bars in the terminal, or progress callbacks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sphereot._support.extras import require

__all__ = ["Progress", "progress_bar"]

Progress = bool | Callable[[int, int], object]
"""Whether to show a progress bar; or a function to call with the number of steps done and the total."""


@contextmanager
def progress_bar(progress: Progress, label: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show progress: the context gives a function to call with the number of steps done.

    The bar is drawn on stderr, so that stdout can be piped, and only if stderr is a terminal.

    >>> with progress_bar(False, "steps", 3) as show:
    ...     show(1)
    >>> with progress_bar(lambda done, total: print(f"{done} of {total}"), "steps", 3) as show:
    ...     show(1)
    1 of 3
    """
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress: got {progress!r}; give True, False, or a function of two numbers, done and total.")
    if progress is False:
        yield lambda done: None
        return
    if progress is not True:
        yield _reporter(progress, total)
        return
    require("rich", "progress=True")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total, completed=done)
        yield lambda done: bar.update(task, completed=done)


def _reporter(callback: Callable[[int, int], object], total: int) -> Callable[[int], None]:
    def report(done: int) -> None:
        callback(done, total)

    return report
