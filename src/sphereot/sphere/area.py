"""Surface area of the sphere."""

import math

__all__ = ["log_area"]


def log_area(dim: int) -> float:
    """Logarithm of the surface area of S^{d-1} in R^d, 2 pi^{d/2} / Gamma(d/2).

    >>> math.isclose(math.exp(log_area(3)), 4 * math.pi)
    True
    """
    return math.log(2.0) + 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim)
