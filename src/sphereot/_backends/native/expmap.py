"""Exponential-map normalizing flow on S^2 in the compiled kernel: all blocks in one call, their gradient in another.

The forward pass stores the points before each block and the moments there, some ten numbers per point and block. The
exponentials, one per point and component, are computed again in the backward pass instead of being stored.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sphereot._backends.native.blocks import Floats
from sphereot._backends.native.calls import kernel, threads_for
from sphereot._backends.native.scratch import scratch

__all__ = ["Record", "flow_backward", "flow_forward"]

_RUN = 256  # points that the kernel moves through the blocks together
_MAX_GROUPS = 16  # partial sums over points; their number depends on sizes alone, so threads cannot change a result
_EXPONENTIALS_PER_POINT = 8  # `threads_for` counts in sorted points; sorting one takes as long as these


@dataclass(frozen=True)
class Record:
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


def flow_forward(x: Floats, slopes: Floats, loads: Floats) -> Record:
    """Map points (3, n) through blocks with slopes (B, K, 4) and loads (B, K, 3), or 12 for determinants too."""
    n_blocks, (_, n) = slopes.shape[0], x.shape
    hessian = loads.shape[2] == 12
    states = scratch((n_blocks + 1, 3, n), x.dtype)
    states[0] = x
    moments = scratch((n_blocks, 9 if hessian else 3, n), x.dtype)
    determinants = scratch((n_blocks, n), x.dtype) if hessian else None
    kernel().flow_forward(slopes, loads, states, moments, determinants, _threads(slopes, n))
    return Record(states, moments, determinants)


def flow_backward(
    record: Record, slopes: Floats, loads: Floats, d_y: Floats, d_log_det: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """Gradients in points, slopes and loads from cotangents (3, n) of the images and (n,) of the log-determinants."""
    n = d_y.shape[1]
    groups = min(_MAX_GROUPS, -(-n // _RUN))
    d_x: Any = np.empty(d_y.shape, d_y.dtype)
    d_slopes, d_loads = (scratch((groups, *of.shape), of.dtype) for of in (slopes, loads))
    d_slopes.fill(0)
    d_loads.fill(0)
    kernel().flow_backward(
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
    return threads_for(slopes.shape[0] * slopes.shape[1] * n // _EXPONENTIALS_PER_POINT)
