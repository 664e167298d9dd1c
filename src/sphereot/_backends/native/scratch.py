"""Memory that calls of the kernel use again: a training needs the same arrays in every epoch.

Fresh memory is mapped page by page when it is first written to. For the exponential-map flow that is up to a fifth of
an epoch, depending on where the allocator of the C library has put the arrays before. At most six blocks of at most
64 MB are held, those that were used last.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sphereot._backends.native.blocks import Floats

__all__ = ["scratch"]

_MAX_BYTES = 1 << 26  # of an array: the page faults of larger ones are a small part of the work on them
_MAX_BLOCKS = 6

_blocks: dict[int, Any] = {}  # arrays of bytes that nothing uses, by their id, oldest first


def scratch(shape: tuple[int, ...], dtype: DTypeLike) -> Floats:
    """An array with arbitrary contents; its memory is used again when no array refers to it any more."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if not 0 < size <= _MAX_BYTES:
        return np.empty(shape, dtype)
    lease = np.asarray(_Lease(_block(size)))
    array: Floats = lease[:size].view(dtype).reshape(shape)
    return array


def _block(size: int) -> Any:
    """A block of at least `size` bytes, and at most twice as many."""
    # Other threads may take blocks meanwhile: each operation on the dictionary is atomic, and only one of them gets it.
    for key, block in list(_blocks.items()):
        if size <= block.size <= 2 * size and _blocks.pop(key, None) is not None:
            return block
    return np.empty(size, np.uint8)


class _Lease:
    """Owner of a block, as NumPy sees it: the base of all arrays in the block."""

    def __init__(self, block: Any):
        self._block, self.__array_interface__ = block, block.__array_interface__

    def __del__(self) -> None:
        if _blocks is None:  # at the end of the interpreter
            return
        for oldest in list(_blocks)[: max(0, len(_blocks) + 1 - _MAX_BLOCKS)]:
            _blocks.pop(oldest, None)
        _blocks[id(self._block)] = self._block
