"""Version, backend for NumPy arrays, instruction set and number of threads on this machine."""

import platform
from dataclasses import dataclass

import numpy as np

from sphereot._backends import native as _native

__all__ = ["Info", "info", "installed_version"]


@dataclass(frozen=True)
class Info:
    """What `sphereot.info` returns: version, backend, instruction set, threads; `str()` gives a readable table.

    Attributes
    ----------
    version : str
        Of sphereot.
    path : {"native", "portable"}
        The backend for NumPy arrays: the compiled kernel ("native"), or array-API code ("portable").
    instruction_set : str or None
        The instruction set of the kernel: "baseline", "avx2" or "avx512"; None without a kernel.
    threads : int
        The number of threads that the kernel uses.
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
    """Version, backend for NumPy arrays, instruction set and number of threads on this machine.

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
    """The version of the installed package; "unknown" if its files are importable but not installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to load: some 0.05 s

    try:
        return version("sphereot")
    except PackageNotFoundError:
        return "unknown"
