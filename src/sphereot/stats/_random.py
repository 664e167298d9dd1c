"""Where the tests' random numbers come from: great circles, relabelings and simulated samples of one seed."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy
from sphereot._arrays.random import is_own_generator, normal_source
from sphereot._arrays.validation import as_frames, as_slice_count
from sphereot.slicing.circles import great_circles

__all__ = ["drawn_frames", "numpy_generator"]


_OWN_STREAM = (0x55F7,)


def numpy_generator(seed: Any, like: Array | None) -> np.random.Generator:
    """A NumPy generator for `seed`: itself, newly seeded, or seeded by a draw of a torch.Generator or a JAX key.

    An int gives another stream than `numpy.random.default_rng` of the same int: points that were made with it would
    else be made of the same numbers as the great circles, and a test's level holds only if the two are independent.
    """
    draw = normal_source(seed, like)  # refuses what is no seed
    if isinstance(seed, Integral):
        return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=_OWN_STREAM))
    if is_own_generator(seed):
        return np.random.default_rng(np.frombuffer(to_numpy(draw((8,))).tobytes(), np.uint32))
    return np.random.default_rng(seed)


def drawn_frames(
    n_projections: int | None, projections: Array | None, points: Array, seed: Any
) -> NDArray[np.floating[Any]]:
    """The great circles (L, d, 2) of a test as a NumPy array: those given, or drawn."""
    if projections is None:
        # Well-placed circles see more than as many independent ones, and a level asks for no independence among them.
        frames = great_circles(as_slice_count(n_projections), points.shape[1], method="quasi", seed=seed, like=points)
    else:
        frames = as_frames(projections, points)
        as_slice_count(n_projections, frames)
    return np.ascontiguousarray(to_numpy(frames))
