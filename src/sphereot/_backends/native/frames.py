"""Uniformly distributed planes by the kernel, for those who do not ask for a seed."""

import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.native.calls import kernel, threads_for

__all__ = ["Frames", "FramesToDraw", "as_array", "frames_to_draw"]


@dataclass(frozen=True)
class FramesToDraw:
    """Frames (L, d, 2) not yet made: the kernel can draw them where it needs them, slice by slice in its threads."""

    n_frames: int
    dim: int
    seed: int
    first: int = 0

    itemsize = 4

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.n_frames, self.dim, 2

    def __len__(self) -> int:
        return self.n_frames

    def __getitem__(self, block: slice) -> "FramesToDraw":
        start, stop, _ = block.indices(self.n_frames)
        return replace(self, n_frames=stop - start, first=self.first + start)

    def array(self) -> NDArray[np.float32]:
        """The frames themselves, in half the time that NumPy or torch need for normals alone."""
        frames: NDArray[Any] = np.empty(self.shape, np.float32)
        kernel().random_frames(self.seed, self.first, frames, threads_for(frames.size // 8))
        return frames


Frames = NDArray[np.floating[Any]] | FramesToDraw


def as_array(frames: Frames) -> NDArray[np.floating[Any]]:
    """Frames, made if they are not yet."""
    return frames.array() if isinstance(frames, FramesToDraw) else frames


def frames_to_draw(n_frames: int, dim: int, seed: int | None = None) -> FramesToDraw:
    """Frames of independent planes, in single precision.

    Parameters
    ----------
    seed : int, optional
        Below 2^64; newly drawn from the system's entropy by default. It is not the seed of `great_circles`, which
        gives the same frames in every library.
    """
    return FramesToDraw(n_frames, dim, secrets.randbits(64) if seed is None else seed)
