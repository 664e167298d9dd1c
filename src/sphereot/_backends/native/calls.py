"""What every call of the kernel asks first: which build, and how many threads."""

from typing import Any

from sphereot._backends import native as _native

__all__ = ["kernel", "threads_for"]


def kernel() -> Any:
    """The build of the kernel in use."""
    return _native.kernel


def threads_for(points: int, dim: int = 0) -> int:
    """A thread costs some ten microseconds to start: small work stays on the calling one.

    `points` counts a point once a slice. Where the kernel projects too, that takes as long as sorting in some 200
    dimensions.
    """
    return 1 if points * (200 + dim) < 20_000 * 200 else _native.get_num_threads()
