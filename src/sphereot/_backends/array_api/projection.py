"""Projection of points onto great circles with the array API, in blocks of bounded memory."""

import math
from collections.abc import Iterator

from sphereot._arrays.libraries import Array, is_double, namespace, product, without_gradient
from sphereot._backends.protocol import Measure, Measures, n_atoms

__all__ = ["TURNS_PER_BLOCK", "blocks", "on_circles", "project"]

# Turns per block, over all measures: the computation needs a few dozen arrays of this size at a time.
TURNS_PER_BLOCK = 1 << 21


def project(x: Array, frames: Array) -> Array:
    """Turns (L, n) of points (n, d) on the great circles of frames (L, d, 2)."""
    xp = namespace(x, frames)
    planar = product(x, frames)  # (L, n, 2)
    first, second = planar[..., 0], planar[..., 1]
    square = first * first + second * second
    # A point orthogonal to the plane, to rounding, gets turn 0 and no gradient; that of atan2 would be infinite.
    orthogonal = square <= 64 * float(xp.finfo(x.dtype).eps) ** 2
    first = xp.where(orthogonal, xp.ones_like(first), first)
    second = xp.where(orthogonal, xp.zeros_like(second), second)
    turns = xp.atan2(second, first) * (0.5 / math.pi)
    if is_double(x):
        # The kernel's bound on the gradient (cpp/solvers/gradients.hpp): within 2^-20 of the pole it is scaled by
        # (|q| 2^20)^2. In single precision all of that is rounding, and has no gradient already.
        constant = without_gradient(turns)
        scale = without_gradient(xp.where(square < 2.0**-40, square * 2.0**40, xp.ones_like(square)))
        turns = constant + scale * (turns - constant)
    turns = xp.where(turns < 0, turns + 1.0, turns)
    return xp.where(turns >= 1.0, xp.zeros_like(turns), turns)  # -1e-9 + 1 rounds to 1


def on_circles(measures: Measures, frames: Array) -> Measures:
    """The projections of measures on great circles, one row of turns per circle."""
    return [Measure(project(x, frames), None if a is None else a[None, :]) for x, a in measures]


def blocks(frames: Array, measures: Measures) -> Iterator[Array]:
    """Split the frames into blocks of at most `TURNS_PER_BLOCK` turns over all measures."""
    size = max(1, TURNS_PER_BLOCK // n_atoms(measures))
    for start in range(0, frames.shape[0], size):
        yield frames[start : min(start + size, frames.shape[0]), ...]
