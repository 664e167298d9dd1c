"""A progress bar in the terminal, for work longer than a few seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(wanted: bool, label: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """A function that is told how many of the `total` steps are done.

    >>> with progress_bar(False, "steps", 3) as show:
    ...     show(1)
    """
    if not wanted:
        yield lambda done: None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ModuleNotFoundError as error:
        raise ImportError("progress: the bar needs rich: pip install 'sphereot[cli]'.") from error
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task(label, total=total, completed=done)
        yield lambda done: bar.update(task, completed=done)
