"""Large orders p: |s|^p leaves the range of floating-point numbers long before s does.

Up to `LARGEST_PLAIN_ORDER` costs W_p^p are computed as they are. Beyond, what must not vanish is kept as a distance
W_p: costs are added in units of the largest, and the root of the sum is multiplied by that.
"""

from sphereot._arrays.libraries import Array, namespace, readable, without_gradient

__all__ = ["LARGEST_ORDER", "LARGEST_PLAIN_ORDER", "costs_of", "power_mean", "rooted", "rooted_in_unit", "unit_of"]

# Displacements are multiples of 2^-24 in single precision: their fourth powers are 2^-96 at least.
LARGEST_PLAIN_ORDER = 4.0
# What is tested; W_p is the largest displacement, but for a factor between mass^(1/p) and 1.
LARGEST_ORDER = 1000.0


def unit_of(sizes: Array) -> Array:
    """`sizes`, with ones where they are not positive: fit to divide by."""
    xp = namespace(sizes)
    return xp.where(sizes > 0, sizes, xp.ones_like(sizes))


def power_mean(distances: Array, p: float) -> Array:
    """(mean of d^p)^(1/p) over the first axis. It is right for every p, and not made to be differentiated.

    >>> import numpy as np
    >>> float(power_mean(np.array([1e-9, 1e-9]), 100)), float(power_mean(np.zeros(2), 100))
    (1e-09, 0.0)
    """
    xp = namespace(distances)
    largest = xp.max(distances, axis=0)
    return largest * xp.mean((distances / unit_of(largest)) ** p, axis=0) ** (1.0 / p)


def rooted(costs: Array, p: float, root: bool) -> Array:
    """The root of order p of costs if `root` is set, else the costs; the gradient of the root at 0 is 0, its limit."""
    if not root or p == 1:
        return costs
    xp = namespace(costs)
    positive = costs > 0
    roots = xp.where(positive, xp.where(positive, costs, xp.ones_like(costs)) ** (1.0 / p), xp.zeros_like(costs))
    return roots[()] if roots.ndim == 0 else roots


def rooted_in_unit(distance: Array, mean: Array, p: float) -> Array:
    """A distance, and 0 where it is 0, with the derivative that `mean` has: the mean cost in units of that distance.

    Where the distance is 0 the root has no derivative; the gradient there is 0.
    """
    xp = namespace(distance)
    distance = without_gradient(distance)
    positive = distance > 0
    return xp.where(positive, distance * xp.where(positive, mean, xp.ones_like(mean)) ** (1.0 / p), distance)


def costs_of(distances: Array, p: float) -> Array:
    """W_p^p of W_p (L, ...), slices first. An error where all slices vanish though the distance does not.

    Where one cannot look (see `readable`) there is no error, and the costs are 0.
    """
    values = readable(distances)
    if values is not None:
        xp = namespace(values)
        largest = xp.max(values, axis=0)
        vanishing = (largest > 0) & (largest**p < xp.finfo(values.dtype).smallest_normal)
        if bool(xp.any(vanishing)):
            distance = float(xp.max(xp.where(vanishing, largest, xp.zeros_like(largest))))
            raise ValueError(
                f"p: the largest distance on a great circle is {distance:.3g} turns, and its power p = {p:g} is below "
                f"the smallest {values.dtype}; take a smaller p, or the distance itself: sphereot.ssw(..., root=True)."
            )
    return distances**p
