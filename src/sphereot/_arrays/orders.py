"""Large orders p without underflow: |s|^p leaves the range of floating-point numbers long before s does.

Up to `LARGEST_PLAIN_ORDER` costs W_p^p are computed directly. Beyond, distances W_p are computed instead: costs are
summed in units of the largest one, and the root of the sum is multiplied by that unit.
"""

from sphereot._arrays.libraries import Array, namespace, readable, without_gradient

__all__ = ["LARGEST_ORDER", "LARGEST_PLAIN_ORDER", "costs_of", "power_mean", "rooted", "rooted_in_unit", "unit_of"]

# Displacements are multiples of 2^-24 in single precision: their fourth powers are 2^-96 at least.
LARGEST_PLAIN_ORDER = 4.0
# The largest order tested. There W_p equals the largest displacement up to a factor between mass^(1/p) and 1.
LARGEST_ORDER = 1000.0


def unit_of(sizes: Array) -> Array:
    """`sizes` with 1 in place of values that are not positive, to divide by."""
    xp = namespace(sizes)
    return xp.where(sizes > 0, sizes, xp.ones_like(sizes))


def power_mean(distances: Array, p: float) -> Array:
    """The power mean (mean of d^p)^(1/p) over the first axis, accurate for every p; without a derivative.

    >>> import numpy as np
    >>> float(power_mean(np.array([1e-9, 1e-9]), 100)), float(power_mean(np.zeros(2), 100))
    (1e-09, 0.0)
    """
    xp = namespace(distances)
    largest = xp.max(distances, axis=0)
    return largest * xp.mean((distances / unit_of(largest)) ** p, axis=0) ** (1.0 / p)


def rooted(costs: Array, p: float, root: bool) -> Array:
    """Costs, or their p-th roots if `root` is set; the gradient of a root at 0 is 0, and NaN stays NaN."""
    if not root or p == 1:
        return costs
    xp = namespace(costs)
    zero = costs <= 0
    roots = xp.where(zero, xp.zeros_like(costs), xp.where(zero, xp.ones_like(costs), costs) ** (1.0 / p))
    return roots[()] if roots.ndim == 0 else roots


def rooted_in_unit(distance: Array, mean: Array, p: float) -> Array:
    """A distance with the gradient that follows from `mean`, the mean cost in units of that distance.

    Where the distance is 0 the root has no derivative; the gradient there is 0.
    """
    xp = namespace(distance)
    distance = without_gradient(distance)
    zero = distance <= 0
    return xp.where(zero, distance, distance * xp.where(zero, xp.ones_like(mean), mean) ** (1.0 / p))


def costs_of(distances: Array, p: float) -> Array:
    """Costs W_p^p from distances W_p of shape (L, ...); an error where all slices underflow to 0.

    Where values cannot be read (see `readable`) there is no error, and the costs are 0.
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
