"""Exponential-map normalizing flow on S^2 in the compiled kernel: all blocks in one call, their gradient in another.

The forward pass stores the points before each block and the moments there, some ten numbers per point and block. The
exponentials, one per point and component, are computed again in the backward pass instead of being stored.

Memory is used again, because a training needs the same arrays in every epoch: fresh memory is mapped page by page when
it is first written to, up to a fifth of an epoch. At most six blocks of at most 64 MB are held, those used last.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sphereot._backends import native
from sphereot._backends.native import Floats

_RUN = 256  # points that the kernel moves through the blocks together
_MAX_GROUPS = 16  # partial sums over points; their number depends on sizes alone, so threads cannot change a result
_EXPONENTIALS_PER_POINT = 8  # `threads_for` counts in sorted points; sorting one takes as long as these


_MAX_BYTES = 1 << 26  # of an array: the page faults of larger ones are a small part of the work on them
_MAX_BLOCKS = 6

_blocks: dict[int, Any] = {}  # arrays of bytes that nothing uses, by their id, oldest first


@dataclass(frozen=True)
class FlowRecord:
    """What the backward pass needs from the forward pass, for n points and B blocks.

    Attributes
    ----------
    states : array, shape (B + 1, 3, n)
        The points before each block, and their images.
    moments : array, shape (B, 3, n) or (B, 9, n)
        Gradient of the potential of each block, and the upper half of its Hessian where determinants are wanted.
    determinants : array, shape (B, n), or None
        Of the differential of each block.
    """

    states: Floats
    moments: Floats
    determinants: Floats | None


def flow_forward(x: Floats, slopes: Floats, loads: Floats) -> FlowRecord:
    """Map points (3, n) through blocks with slopes (B, K, 4) and loads (B, K, 3), or 12 for determinants too."""
    n_blocks, (_, n) = slopes.shape[0], x.shape
    hessian = loads.shape[2] == 12
    states = scratch((n_blocks + 1, 3, n), x.dtype)
    states[0] = x
    moments = scratch((n_blocks, 9 if hessian else 3, n), x.dtype)
    determinants = scratch((n_blocks, n), x.dtype) if hessian else None
    native.kernel.flow_forward(slopes, loads, states, moments, determinants, _threads(slopes, n))
    return FlowRecord(states, moments, determinants)


def flow_backward(
    record: FlowRecord, slopes: Floats, loads: Floats, d_y: Floats, d_log_det: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """Gradients in points, slopes and loads from cotangents (3, n) of the images and (n,) of the log-determinants."""
    n = d_y.shape[1]
    groups = min(_MAX_GROUPS, -(-n // _RUN))
    d_x: Any = np.empty(d_y.shape, d_y.dtype)
    d_slopes, d_loads = (scratch((groups, *of.shape), of.dtype) for of in (slopes, loads))
    d_slopes.fill(0)
    d_loads.fill(0)
    native.kernel.flow_backward(
        slopes,
        loads,
        record.states,
        record.moments,
        record.determinants,
        d_y,
        d_log_det,
        d_x,
        d_slopes,
        d_loads,
        _threads(slopes, n),
    )
    return d_x, np.add.reduce(d_slopes, axis=0), np.add.reduce(d_loads, axis=0)


def _threads(slopes: Floats, n: int) -> int:
    return native.threads_for(slopes.shape[0] * slopes.shape[1] * n // _EXPONENTIALS_PER_POINT)


# ---- memory ----


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
