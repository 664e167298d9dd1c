"""Frames of great circles that the kernel draws: independent, uniformly distributed, in single precision."""

import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.native.calls import kernel, threads_for

__all__ = ["FrameSeed", "Frames", "as_array", "frame_block", "frame_count", "fresh_frame_seed"]


@dataclass(frozen=True)
class FrameSeed:
    """A seed that stands for an array of frames: the kernel draws them slice by slice, where its threads need them.

    Attributes
    ----------
    n_frames : int
        The number L of frames.
    dim : int
        The dimension d of the space around the sphere.
    seed : int
        Below 2^64. It is not the seed of `great_circles`, which gives the same frames in every library.
    first : int
        Index of the first frame in the stream of the seed.
    """

    n_frames: int
    dim: int
    seed: int
    first: int = 0

    def block(self, start: int, stop: int) -> "FrameSeed":
        """Frames `start` to `stop` - 1 of these."""
        return replace(self, n_frames=stop - start, first=self.first + start)

    def array(self) -> NDArray[np.float32]:
        """Draw the frames, shape (L, d, 2), in half the time that NumPy or torch need for normal numbers alone."""
        frames: NDArray[Any] = np.empty((self.n_frames, self.dim, 2), np.float32)
        kernel().random_frames(self.seed, self.first, frames, threads_for(frames.size // 8))
        return frames


Frames = NDArray[np.floating[Any]] | FrameSeed


def fresh_frame_seed(n_frames: int, dim: int) -> FrameSeed:
    """A seed for new frames, drawn from the entropy of the operating system."""
    return FrameSeed(n_frames, dim, secrets.randbits(64))


def frame_count(frames: Frames) -> int:
    """The number L of frames."""
    return frames.n_frames if isinstance(frames, FrameSeed) else len(frames)


def frame_block(frames: Frames, block: slice) -> Frames:
    """The frames of a block of slices, `block.start` to `block.stop` - 1."""
    return frames.block(block.start, block.stop) if isinstance(frames, FrameSeed) else frames[block]


def as_array(frames: Frames) -> NDArray[np.floating[Any]]:
    """Frames as an array (L, d, 2), drawn if only their seed is there."""
    return frames.array() if isinstance(frames, FrameSeed) else frames
