"""Optional packages: import them or name the extra to install; progress bars, drawn by one of them."""

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
    """Import an optional package; if it is not installed, say which extra installs it.

    An error raised while the package itself is imported, such as a missing shared library, is not replaced.

    Parameters
    ----------
    package : str
        Name of the package, as in an import statement.
    user : str
        What needs the package, as the error message starts.
    extra : str, optional
        The extra to name, if it is not the one that installs this package alone.
    command : str, optional
        The command that installs it, where no extra does.

    Returns
    -------
    module
        The package.

    Raises
    ------
    ModuleNotFoundError
        If the package is not installed.

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
    if callable(progress):

        def show(done: int) -> None:
            progress(done, total)

        yield show
        return
    if progress is False:
        yield lambda done: None
        return
    if progress is not True:
        raise TypeError(f"progress: got {progress!r}; give True, False, or a function of two numbers, done and total.")
    require("rich", "progress=True")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total, completed=done)
        yield lambda done: bar.update(task, completed=done)
