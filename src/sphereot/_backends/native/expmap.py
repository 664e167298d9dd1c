"""Exponential-map normalizing flow on S^2 in the compiled kernel: all blocks in one call, their gradient in another.

The forward pass stores the points before each block and the moments there, about ten numbers per point and block. The
exponentials, one per point and component, are computed again in the backward pass instead of being stored.

Memory is reused, because every epoch of a training run needs the same arrays: new memory is mapped page by page when it
is first written to, which takes up to a fifth of an epoch.
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
_EXPONENTIALS_PER_POINT = 8  # sorting one point, the unit of `threads_for`, takes as long as these
_MAX_BYTES = 1 << 26  # of an array that is kept: page faults are a small part of the work on larger ones
_MAX_BLOCKS = 6
_blocks: dict[int, Any] = {}  # unused arrays of bytes by their id, oldest first


@dataclass(frozen=True)
class FlowRecord:
    """What the backward pass needs from the forward pass, for n points and B blocks."""

    states: Floats  # (B + 1, 3, n), the points before each block, and their images
    moments: (
        Floats  # (B, 3, n), gradients of the potentials; (B, 9, n) with the upper half of Hessians for determinants
    )
    determinants: Floats | None  # (B, n), of the differential of each block


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
    stored = record.states, record.moments, record.determinants
    outputs = d_x, d_slopes, d_loads
    native.kernel.flow_backward(slopes, loads, *stored, d_y, d_log_det, *outputs, _threads(slopes, n))
    return d_x, np.add.reduce(d_slopes, axis=0), np.add.reduce(d_loads, axis=0)


def _threads(slopes: Floats, n: int) -> int:
    return native.threads_for(slopes.shape[0] * slopes.shape[1] * n // _EXPONENTIALS_PER_POINT)


# ---- memory ----


def scratch(shape: tuple[int, ...], dtype: DTypeLike) -> Floats:
    """An array with arbitrary contents; its memory is used again when no array refers to it any more."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if not 0 < size <= _MAX_BYTES:
        return np.empty(shape, dtype)
    # Other threads may take blocks meanwhile: each operation on the dictionary is atomic, and only one of them gets it.
    for key, block in list(_blocks.items()):
        if size <= block.size <= 2 * size and _blocks.pop(key, None) is not None:
            break
    else:
        block = np.empty(size, np.uint8)
    array: Floats = np.asarray(_Lease(block))[:size].view(dtype).reshape(shape)
    return array


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
