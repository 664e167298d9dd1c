"""The kernel build in use, and the number of threads worth starting for a call."""

from typing import Any

from sphereot._backends import native as _native

__all__ = ["kernel", "threads_for"]


def kernel() -> Any:
    """Return the build of the kernel in use; asked for per call, because tests exchange it."""
    return _native.kernel


def threads_for(points: int, dim: int = 0) -> int:
    """Number of threads worth starting.

    Starting one costs about 10 us, so small jobs run on the calling thread. `points` is points times slices. Projecting
    `dim` coordinates costs about dim / 200 of sorting one point.
    """
    return 1 if points * (200 + dim) < 20_000 * 200 else _native.get_num_threads()
