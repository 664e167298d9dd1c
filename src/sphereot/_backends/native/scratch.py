"""Memory that calls of the kernel use again: a training needs the same arrays in every epoch.

Fresh memory is mapped page by page when it is first written to. For the exponential-map flow that is up to a fifth of
an epoch, depending on where the allocator of the C library has put the arrays before.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sphereot._backends.native.blocks import Floats

__all__ = ["scratch"]

_MAX_BYTES = 1 << 26  # of an array: the page faults of larger ones are a small part of the work on them
_MAX_BLOCKS = 6

_blocks: list[Any] = []  # arrays of bytes that nothing uses


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
    # Other threads may take blocks meanwhile: each step of a list is atomic, and the size is checked again.
    for _ in range(len(_blocks)):
        try:
            block = _blocks.pop(0)
        except IndexError:
            break
        if size <= block.size <= 2 * size:
            return block
        _blocks.append(block)
    return np.empty(size, np.uint8)


class _Lease:
    """Owner of a block, as NumPy sees it: the base of all arrays in the block."""

    def __init__(self, block: Any):
        self._block, self.__array_interface__ = block, block.__array_interface__

    def __del__(self) -> None:
        if _blocks is not None and len(_blocks) < _MAX_BLOCKS:  # None at the end of the interpreter
            _blocks.append(self._block)
