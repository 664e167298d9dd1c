"""Implementations of the sliced costs, one per array library, behind one protocol.

`native` is the compiled kernel, for NumPy arrays. `array_api` runs on every library that follows the array API
standard. `torch` and `jax` choose between the two by device, and add gradients. Other packages import from here, and no
implementation directly.
"""

import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sphereot._arrays.libraries import Array, framework
from sphereot._backends import native
from sphereot._backends.array_api import backend as array_api
from sphereot._backends.array_api import sketches as array_api_sketches
from sphereot._backends.native import backend as native_backend
from sphereot._backends.native import get_num_threads as get_num_threads
from sphereot._backends.native import set_num_threads as set_num_threads
from sphereot._backends.native import sketches as native_sketches
from sphereot._backends.native import threads_limited_to as threads_limited_to
from sphereot._backends.native.backend import random_frames as random_frames
from sphereot._backends.native.expmap import FlowRecord as FlowRecord
from sphereot._backends.native.expmap import flow_backward as flow_backward
from sphereot._backends.native.expmap import flow_forward as flow_forward
from sphereot._backends.protocol import Backend, SketchBackend

if TYPE_CHECKING:
    from sphereot._backends.torch import backend

    torch_backend = backend

kernel_serves = native.serves


def backend_for(array: Array) -> Backend:
    """Choose the backend for the library of `array`."""
    library = framework(array)
    if library == "torch":
        from sphereot._backends.torch import backend as torch_backend

        return torch_backend
    if library == "jax":
        from sphereot._backends.jax import backend as jax_backend

        return jax_backend
    return native_backend if native.serves(array) else array_api


def __getattr__(name: str) -> Any:
    if name == "torch_backend":  # torch is imported when it is first asked for
        from sphereot._backends.torch import backend

        return backend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def sketch_backend() -> SketchBackend:
    """Choose the backend of sketches: the compiled kernel, or NumPy if it is not built."""
    return native_sketches if native.available else array_api_sketches


@dataclass(frozen=True)
class Info:
    """Result of `sphereot.info`: version, backend, instruction set and threads. `str()` returns a readable table.

    Attributes
    ----------
    version : str
        Version of sphereot.
    backend : {"native", "portable"}
        The backend for NumPy arrays: the compiled kernel ("native"), or array-API code ("portable").
    instruction_set : str or None
        The instruction set of the kernel: "baseline", "avx2" or "avx512"; None without a kernel.
    threads : int
        The number of threads that the kernel uses.
    numpy, python, machine : str
        Versions and the processor's architecture.
    """

    version: str
    backend: str
    instruction_set: str | None
    threads: int
    numpy: str
    python: str
    machine: str

    def __str__(self) -> str:
        if self.backend == "native":
            backend = f"native (compiled kernel, {self.instruction_set})"
        else:
            backend = "portable (array-API code; no compiled kernel was found or SPHEREOT_KERNEL is 'off')"
        return (
            f"sphereot  {self.version}\nbackend   {backend}\nthreads   {self.threads}\nnumpy     {self.numpy}\n"
            f"python    {self.python} on {self.machine}"
        )


def info() -> Info:
    """Return the version, the backend for NumPy arrays, the instruction set and the number of threads.

    Examples
    --------
    >>> import sphereot
    >>> sphereot.info().backend in ("native", "portable")
    True
    """
    return Info(
        version=installed_version(),
        backend="portable" if native.instruction_set is None else "native",
        instruction_set=native.instruction_set,
        threads=1 if native.instruction_set is None else native.get_num_threads(),
        numpy=np.__version__,
        python=platform.python_version(),
        machine=platform.machine(),
    )


def installed_version() -> str:
    """The version of the installed package; "unknown" if its files are importable but not installed."""
    from importlib.metadata import PackageNotFoundError, version  # takes about 0.05 s to load

    try:
        return version("sphereot")
    except PackageNotFoundError:
        return "unknown"
