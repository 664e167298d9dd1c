"""Random numbers of the tests: great circles, permutations and simulated samples from one seed."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy
from sphereot._arrays.random import numpy_generator
from sphereot._arrays.validation import as_frames, as_method, as_slice_count
from sphereot.slicing.circles import great_circles

__all__ = ["drawn_frames", "independent_generator"]


_STREAM_KEY = (0x55F7,)


def independent_generator(seed: Any, like: Array | None) -> np.random.Generator:
    """NumPy generator for a seed of any kind; a torch.Generator or a JAX key seeds it with a draw.

    An int gives another stream than `numpy.random.default_rng` of the same int. Otherwise points generated with that
    int would consist of the same numbers as the great circles, and a test has its level only if the two are
    independent.
    """
    generator = numpy_generator(seed, like)  # raises an error for what is not a seed
    if isinstance(seed, Integral):
        return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=_STREAM_KEY))
    return generator


def drawn_frames(
    n_projections: int | None, projections: Array | None, points: Array, seed: Any, method: Any = "quasi"
) -> NDArray[np.floating[Any]]:
    """Frames (L, d, 2) of a test as a NumPy array: `projections` validated, or drawn."""
    as_method(method)
    if projections is None:
        # Well-placed circles give more power than as many independent ones, and the level does not need independence.
        frames = great_circles(as_slice_count(n_projections), points.shape[1], method=method, seed=seed, like=points)
    else:
        frames = as_frames(projections, points)
        as_slice_count(n_projections, frames)
    return np.ascontiguousarray(to_numpy(frames))
