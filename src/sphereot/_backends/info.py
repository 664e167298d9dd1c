"""What is active on this machine: version, path, instruction set, threads."""

import platform
from dataclasses import dataclass

import numpy as np

from sphereot._backends import native as _native

__all__ = ["Info", "info", "installed_version"]


@dataclass(frozen=True)
class Info:
    """What runs here; `str()` gives a readable page.

    Attributes
    ----------
    version : str
        Of sphereot.
    path : {"native", "portable"}
        What NumPy arrays take: the compiled kernel, or array-API code.
    instruction_set : str or None
        The build of the kernel in use: "baseline", "avx2" or "avx512".
    threads : int
        How many threads the kernel uses.
    numpy, python, machine : str
        Versions and the processor's architecture.
    """

    version: str
    path: str
    instruction_set: str | None
    threads: int
    numpy: str
    python: str
    machine: str

    def __str__(self) -> str:
        if self.path == "native":
            path = f"native (compiled kernel, {self.instruction_set})"
        else:
            path = "portable (array-API code; no compiled kernel was found or SPHEREOT_KERNEL is 'off')"
        return "\n".join(
            [
                f"sphereot  {self.version}",
                f"path      {path}",
                f"threads   {self.threads}",
                f"numpy     {self.numpy}",
                f"python    {self.python} on {self.machine}",
            ]
        )


def info() -> Info:
    """What is active on this machine: which path, instruction set and how many threads.

    Examples
    --------
    >>> import sphereot
    >>> sphereot.info().path in ("native", "portable")
    True
    """
    return Info(
        version=installed_version(),
        path="portable" if _native.instruction_set is None else "native",
        instruction_set=_native.instruction_set,
        threads=1 if _native.instruction_set is None else _native.get_num_threads(),
        numpy=np.__version__,
        python=platform.python_version(),
        machine=platform.machine(),
    )


def installed_version() -> str:
    """The version of the installed package; "unknown" where Python found its files without an installation."""
    from importlib.metadata import PackageNotFoundError, version  # slow to load: some 0.05 s

    try:
        return version("sphereot")
    except PackageNotFoundError:
        return "unknown"
