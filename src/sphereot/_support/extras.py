"""Import optional packages, or raise an error that names the extra to install."""

from importlib import import_module
from typing import Any

__all__ = ["require"]

# Package: its name in prose, and the extra of sphereot that installs it.
_EXTRAS = {
    "filelock": ("filelock", "monitor"),
    "fsspec": ("fsspec", "remote"),
    "jax": ("JAX", "jax"),
    "matplotlib": ("matplotlib", "plot"),
    "polars": ("polars", "data"),
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
