"""Independent replicates of sets of great circles: a mean with its standard error, whatever the method.

The great circles of one set may depend on each other; sets do not. Each set gives an unbiased estimate of the mean
over all great circles, and the spread of R such estimates gives the standard error of their mean, with R - 1 degrees
of freedom.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["further_sizes", "mean_and_error", "replicate_sizes"]

_REPLICATES = 8
# With control variates in high dimension the gain does not come from the arrangement within a replicate, and more
# degrees of freedom make up for estimates that are not quite normally distributed.
_CONTROLLED_REPLICATES = 16
_HIGHEST_SPREAD_GAIN = 16  # the highest dimension in which well-placed great circles gain much beyond control variates
_FEWEST_REPLICATES = 4


def replicate_sizes(n_projections: int, dim: int, method: str, *, controlled: bool = False) -> list[int]:
    """How many great circles each replicate has: sizes that differ by one at most.

    Eight replicates, or 16 with control variates in high dimension; fewer, but at least four, where that leaves
    enough for an orthogonal block in each. Independent great circles are replicates of one.

    >>> replicate_sizes(200, 3, "quasi")
    [25, 25, 25, 25, 25, 25, 25, 25]
    >>> replicate_sizes(200, 64, "quasi")
    [34, 34, 33, 33, 33, 33]
    """
    if method == "iid":
        return [1] * n_projections
    block = dim // 2 if dim % 2 == 0 else dim
    count = _CONTROLLED_REPLICATES if controlled and dim > _HIGHEST_SPREAD_GAIN else _REPLICATES
    if not controlled and n_projections // count < block and n_projections // block >= _FEWEST_REPLICATES:
        count = n_projections // block
    count = min(count, n_projections)
    size, larger = divmod(n_projections, count)
    return [size + (k < larger) for k in range(count)]


def mean_and_error(
    sizes: NDArray[np.float64], means: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean over great circles and its standard error, from the means of replicates, shape (R, ...).

    A replicate counts by its number of great circles: sum over r of n_r (m_r - m)^2 / (R - 1) estimates the variance
    of one.
    """
    sizes = sizes.reshape(-1, *[1] * (means.ndim - 1))
    total = sizes.sum()
    mean = (sizes * means).sum(axis=0) / total
    if len(means) == 1:
        return mean, np.full_like(mean, np.nan)
    differences = means - mean
    largest = np.max(np.abs(differences), axis=0)  # squares of costs of a large order would underflow
    scaled = differences / np.where(largest > 0, largest, 1.0)
    return mean, largest * np.sqrt((sizes * scaled**2).sum(axis=0) / (len(means) - 1) / total)


def further_sizes(sizes: list[int], count: int) -> list[int]:
    """Sizes of further replicates, of at most `count` great circles in all, that repeat those of the first ones.

    Replicates of one size have one variance, whatever the method.

    >>> further_sizes([4, 4, 3], 12)
    [4, 4, 3]
    """
    further: list[int] = []
    while (size := sizes[len(further) % len(sizes)]) <= count:
        further.append(size)
        count -= size
    return further
