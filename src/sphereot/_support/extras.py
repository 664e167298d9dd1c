"""Optional packages, with the extra that installs them, and progress bars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

# Package: its name in prose, and the extra of sphereot that installs it.
_EXTRAS = {
    "filelock": ("filelock", "monitor"),
    "fsspec": ("fsspec", "remote"),
    "jax": ("JAX", "jax"),
    "matplotlib": ("matplotlib", "plot"),
    "polars": ("polars", "data"),
    "pooch": ("pooch", "data"),
    "pyarrow": ("pyarrow", "data"),
    "rich": ("rich", "cli"),
    "safetensors": ("safetensors", "data"),
    "torch": ("PyTorch", "torch"),
}


def require(package: str, user: str, extra: str | None = None, command: str | None = None) -> Any:
    """Import an optional package, or raise an error that names the extra to install.

    An error inside the package, such as a missing shared library, is not replaced.

    Parameters
    ----------
    package : str
        Name of the package, as in an import statement.
    user : str
        What needs the package, for the message.
    extra : str, optional
        Extra that installs the package, if `_EXTRAS` does not list it.
    command : str, optional
        Command that installs the package, if no extra does.

    Examples
    --------
    >>> require("not_there", "sphereot.example", extra="example")
    Traceback (most recent call last):
    ModuleNotFoundError: sphereot.example needs not_there: pip install 'sphereot[example]'.
    """
    title, default = _EXTRAS.get(package, (package, package))
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        install = command or f"pip install 'sphereot[{extra or default}]'"
        message = f"{user} needs {title}: {install}."
        raise ModuleNotFoundError(message, name=package) from error


Progress = bool | Callable[[int, int], object]
"""Whether to show a progress bar, or a function that gets the number of completed steps and the total."""


@contextmanager
def progress_bar(progress: Progress, label: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show progress: the context gives a function to call with the number of completed steps.

    The bar is drawn on stderr, and only if that is a terminal.

    >>> with progress_bar(lambda done, total: print(f"{done} of {total}"), "steps", 3) as show:
    ...     show(1)
    1 of 3
    """
    if callable(progress):

        def show(done: int) -> None:
            progress(done, total)

        yield show
        return
    if progress is False:
        yield lambda done: None
        return
    if progress is not True:
        raise TypeError(f"progress must be True, False or a function of two numbers (done, total), got {progress!r}.")
    require("rich", "progress=True")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total, completed=done)
        yield lambda done: bar.update(task, completed=done)
