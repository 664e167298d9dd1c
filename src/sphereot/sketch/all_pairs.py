"""Distances of all pairs of sketches, with error bounds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.validation import as_order
from sphereot.sketch.distances import distance, level_distances
from sphereot.sketch.sketch import Sketch

__all__ = ["PairwiseSketchDistances", "pairwise"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairwiseSketchDistances:
    """All distances among k sketches.

    Attributes
    ----------
    value : array, shape (k, k)
        SSW_p in turns; symmetric, 0 on the diagonal.
    error_bound : array, shape (k, k)
        Bounds of the errors of `value`; 0 on the diagonal.
    p : float
        The order.
    """

    value: Floats
    error_bound: Floats
    p: float

    @property
    def cost(self) -> Floats:
        """SSW_p^p."""
        costs: Floats = self.value**self.p
        return costs


def pairwise(sketches: Sequence[Sketch], p: float = 2) -> PairwiseSketchDistances:
    """Distances of all pairs of sketches.

    For p = 1 levels are computed once per sketch and great circle; memory is 16 bytes times bins, sketches and threads.

    Parameters
    ----------
    sketches : sequence of Sketch
        At least two sketches of the same great circles and bins; none of them empty.
    p : float
        Order, from 1 to 1000.

    Returns
    -------
    PairwiseSketchDistances

    Examples
    --------
    >>> import sphereot
    >>> days = [sphereot.Sketch(3, n_projections=50, bins=256).update(
    ...     sphereot.sphere.random_uniform(500, 3, seed=day)) for day in range(3)]
    >>> distances = sphereot.sketch.pairwise(days, p=1)
    >>> distances.value.shape, bool((distances.error_bound < 0.004).all())
    ((3, 3), True)
    """
    p = as_order(p)
    if len(sketches) < 2:
        raise ValueError(f"sketches: got {len(sketches)}, but pairs need at least 2 sketches.")
    for other in sketches[1:]:
        sketches[0].require_mergeable(other)
    parts = [sketch.bins_of_all_groups() for sketch in sketches]
    layout = sketches[0].layout
    k = len(parts)
    first, second = np.triu_indices(k, 1)
    if p == 1:
        values, bounds = level_distances(parts, layout)
    else:
        results = [distance(parts[i], parts[j], layout, p) for i, j in zip(first, second, strict=True)]
        values = np.array([result.value for result in results])
        bounds = np.array([result.error_bound for result in results])
    square = np.zeros((2, k, k))
    square[0, first, second] = square[0, second, first] = values
    square[1, first, second] = square[1, second, first] = bounds
    return PairwiseSketchDistances(square[0], square[1], p)
