"""The compiled kernel: loads the build for this machine, and sets the number of threads.

The kernel is built once for each instruction set (see CMakeLists.txt); the best one that this machine can run is
imported. The environment variable SPHEREOT_KERNEL names another (`baseline`, `avx2`, `avx512`) or turns it `off`.
"""

import importlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, check_numpy_rows_with, is_numpy, is_torch

Floats: TypeAlias = NDArray[np.floating[Any]]

_THREADS = re.compile(r"0*[1-9][0-9]{0,5}")  # at most six digits: no machine has more threads


def _load() -> tuple[str | None, ModuleType | None]:
    wanted = os.environ.get("SPHEREOT_KERNEL", "auto")
    if wanted == "off":
        return None, None
    try:
        baseline = importlib.import_module("sphereot._backends.native._kernel_baseline")
    except ModuleNotFoundError:  # installed without a compiler
        return None, None
    supported = list(baseline.supported_instruction_sets())
    if wanted not in ("auto", *supported):
        raise ImportError(
            f"SPHEREOT_KERNEL must be 'auto', 'off' or an instruction set of this machine {supported}, got {wanted!r}."
        )
    for name in supported if wanted == "auto" else [wanted]:
        try:
            return name, importlib.import_module(f"sphereot._backends.native._kernel_{name}")
        except ModuleNotFoundError:  # this platform has no such build
            continue
    return "baseline", baseline


kernel: Any
instruction_set, kernel = _load()
available = kernel is not None
if kernel is not None:
    check_numpy_rows_with(lambda rows, tolerance: bool(kernel.have_unit_length(rows, tolerance)))


def serves(array: Array) -> bool:
    """Whether the kernel can compute on `array`: it was built, and the array is in the main memory."""
    return available and (is_numpy(array) or (is_torch(array) and array.device.type == "cpu"))


def _default_threads() -> int:
    named = os.environ.get("SPHEREOT_NUM_THREADS")
    if named is not None:
        if not _THREADS.fullmatch(named):
            raise ImportError(f"SPHEREOT_NUM_THREADS must be an integer of at least 1, or unset, got {named[:40]!r}.")
        return int(named)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_threads = _default_threads()
_limit: ContextVar[int | None] = ContextVar("threads", default=None)


def get_num_threads() -> int:
    """Return the number of threads that the kernel uses.

    Examples
    --------
    >>> import sphereot
    >>> sphereot.get_num_threads() >= 1
    True
    """
    limit = _limit.get()
    return _threads if limit is None else min(_threads, limit)


def threads_for(points: int, dim: int = 0) -> int:
    """Number of threads worth starting for a call of the kernel; `points` is points times great circles.

    Starting a thread costs about 10 us. Projecting `dim` coordinates costs about dim / 200 of sorting one point.
    """
    return 1 if points * (200 + dim) < 20_000 * 200 else get_num_threads()


@contextmanager
def threads_limited_to(n: int) -> Iterator[None]:
    """Use at most `n` threads inside the block, only on this thread: for work that already runs in parallel."""
    token = _limit.set(n)
    try:
        yield
    finally:
        _limit.reset(token)


def set_num_threads(n: int) -> None:
    """Set the number of threads that the kernel uses. Results do not depend on it.

    Parameters
    ----------
    n : int
        Number of threads, at least 1. The environment variable SPHEREOT_NUM_THREADS sets the value at the start.

    Examples
    --------
    >>> import sphereot
    >>> before = sphereot.get_num_threads()
    >>> sphereot.set_num_threads(1)
    >>> sphereot.get_num_threads()
    1
    >>> sphereot.set_num_threads(before)
    """
    global _threads
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n: the number of threads must be an integer of at least 1, got {n!r}.")
    _threads = int(n)
