"""The kernel K_d of SSW_2 to the uniform distribution, as a function of the angle between two points.

SSW_2^2(mu, Unif) is the double sum of K_d(gamma_ij) over the points of mu. With D_d(gamma) the variance of the angle
between the projections of two points at the angle gamma on a random great circle (its mean is gamma),

    K_d(gamma) = 1/12 - gamma / (4 pi) + (gamma^2 + D_d(gamma)) / (8 pi^2),

and D_d solves a differential equation with a power series on either side of sin^2 gamma = 1/2. See
docs/background/uniformity.md for the proofs. The variable is the square of the half chord, h^2 = |x - y|^2 / 4 =
(1 - cos gamma) / 2: from differences of coordinates it is precise for close points, where the cosine is not.

K_d is the sum of an odd part 1/16 - gamma / (8 pi) and an even part (K_d(gamma) + K_d(pi - gamma)) / 2. A weight of the
even part makes departures that are symmetric under x -> -x count more.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, constant_when_compiled, is_double, namespace

LARGEST, SMALLEST = 1 / 12, -1 / 24  # K_d(0) and K_d(pi), for every d

_TERMS = 64  # the series are needed up to 1/2 only
_NODES = 240


def kernel_value(half_chord_squares: Array, dim: int, even_weight: float = 1.0) -> Array:
    """K_d at h^2 = |x - y|^2 / 4 in [0, 1], its even part times a weight; values outside count as the nearer end.

    Automatic differentiation gives zero at both ends, where the derivative is infinite: at equal points it is the mean
    of the gradients along all directions.

    >>> kernel_value(np.array([0.0, 1.0]), 3) - np.array([1 / 12, -1 / 24])
    array([0., 0.])
    """
    xp = namespace(half_chord_squares)
    inside = (half_chord_squares > 0.0) & (half_chord_squares < 1.0)
    # A value replaced before the square root has no infinite derivative that would turn to NaN behind `where`.
    squares = xp.where(inside, half_chord_squares, 0.5 + 0.0 * half_chord_squares)
    nearer = xp.where(squares > 0.5, 1.0 - squares, squares)
    to_end = 2.0 * xp.asin(xp.sqrt(nearer))  # min(gamma, pi - gamma)
    # From the nearer end, which keeps the rounding error of float32 below 3e-8.
    linear = xp.where(squares > 0.5, (even_weight - 1) * to_end, (even_weight + 1) * to_end) / (8 * math.pi)
    shift = (even_weight - 1) / 48 + 0.0 * squares
    end = xp.where(half_chord_squares > 0.5, SMALLEST + shift, LARGEST + shift)
    variance = _variance(4.0 * nearer * (1.0 - nearer), dim)
    return xp.where(inside, end - (linear - even_weight * (to_end * to_end + variance) / (8 * math.pi**2)), end)


def largest_value(even_weight: float = 1.0) -> float:
    """The kernel at equal points, for every d."""
    return LARGEST + (even_weight - 1) / 48


def _variance(sine_squares: Array, dim: int) -> Array:
    """D_d at z = sin^2 gamma in (0, 1]."""
    if dim == 2:
        return 0.0 * sine_squares
    smooth, logarithmic = variance_polynomials(index(dim), is_double(sine_squares))  # no symbol of torch.compile
    u = 2.0 * sine_squares - 1.0
    log = namespace(sine_squares).log(sine_squares)
    return sine_squares * (_power_series(smooth, u) + _power_series(logarithmic, u) * log)


@constant_when_compiled
@lru_cache(maxsize=256)
def variance_polynomials(dim: int, double: bool = True) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Coefficients of polynomials P and R such that D_d = z (P(u) + R(u) log z), with z = sin^2 gamma, u = 2 z - 1.

    The constant terms come first. The error of K_d is below 1e-15 in double precision, and otherwise below 2e-10.
    """
    p_degree, r_degree = (8, 7) if double else (4, 3)
    # Nodes gather at 0, where z log z is least smooth, and at 1.
    z = (0.5 - 0.5 * np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)) ** 1.5
    basis = np.polynomial.chebyshev.chebvander(2.0 * z - 1.0, p_degree) * z[:, None]
    basis = np.hstack([basis, basis[:, : r_degree + 1] * np.log(z)[:, None]])
    fitted = np.linalg.lstsq(basis, _variance_by_series(z, dim), rcond=None)[0]
    smooth, logarithmic = (_monomials(part) for part in np.split(fitted, [p_degree + 1]))
    return smooth, logarithmic


def _monomials(chebyshev: NDArray[np.float64]) -> tuple[float, ...]:
    """Coefficients of powers, the same number as of Chebyshev polynomials."""
    powers = np.polynomial.chebyshev.cheb2poly(chebyshev)  # without the highest if they are zero
    return tuple(float(c) for c in np.pad(powers, (0, len(chebyshev) - len(powers))))


# ---- D_d by its power series ----


def _variance_by_series(sine_squares: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """D_d at z = sin^2 gamma in (0, 1], to rounding.

    It solves 4 z (1 - z) D'' + (2 (d - 1) - 2 d z) D' = A_d - (d - 2) log z. The series is in powers of z and z^j log z
    up to z = 1/2, and in powers of cos^2 gamma = 1 - z above.
    """
    z = sine_squares
    smooth, logarithmic = _series_at_zero(dim)
    near_one = _series_at_one(dim)
    at_half = 0.5 * (_power_series(smooth, 0.5) + _power_series(logarithmic, 0.5) * math.log(0.5))
    constant = at_half - _power_series(near_one, 0.5)
    low = np.minimum(z, 0.5)
    below = low * (_power_series(smooth, low) + _power_series(logarithmic, low) * np.log(low))
    above = constant + _power_series(near_one, np.minimum(1.0 - z, 0.5))
    return np.asarray(np.where(z <= 0.5, below, above))


def _series_at_zero(dim: int) -> tuple[list[float], list[float]]:
    """Coefficients of (P, R) in D_d = z (P(z) + R(z) log z)."""
    r = -(dim - 2) / (2 * (dim - 1))
    p = (_equation_constant(dim) - 4 * r) / (2 * (dim - 1))
    smooth, logarithmic = [p - r], [r]
    for j in range(1, _TERMS):
        growth, divisor = 2 * j - 2 + dim, 2 * j + dim - 1
        p = (p * growth + 2 * r / divisor) / divisor
        r = r * growth / divisor
        smooth.append((p - r / (j + 1)) / (j + 1))
        logarithmic.append(r / (j + 1))
    return smooth, logarithmic


def _series_at_one(dim: int) -> list[float]:
    """Coefficients of D_d in powers of cos^2 gamma, without the constant, which is given as 0."""
    a = [0.0] * (_TERMS + 1)
    # Either direction of the recurrence is unstable where the other is stable.
    if dim <= 24:
        a[1] = _equation_constant(dim) / 2
        for j in range(1, _TERMS):
            a[j + 1] = (2 * j * (2 * j + dim - 2) * a[j] + (dim - 2) / j) / ((2 * j + 1) * (2 * j + 2))
    else:
        a[_TERMS] = -0.5 / _TERMS**2  # the limit for large d; its error is 2^-64 at 1/2
        for j in reversed(range(1, _TERMS)):
            a[j] = ((2 * j + 1) * (2 * j + 2) * a[j + 1] - (dim - 2) / j) / (2 * j * (2 * j + dim - 2))
    return a


def _equation_constant(dim: int) -> float:
    """A_d = (d - 2) (digamma((d - 1)/2) - digamma(d/2)) = -2 (d - 2) (1/(d-1) - 1/d + 1/(d+1) - ...)."""
    first = dim - 1
    start = max(first, 30)  # from where on the asymptotic series has 16 digits
    inverse = 1.0 / (start * start)
    tail = 0.5 / start + inverse * (
        1 / 4 + inverse * (-1 / 8 + inverse * (1 / 4 + inverse * (-17 / 16 + inverse * 31 / 4)))
    )
    for k in reversed(range(first, start)):
        tail = 1.0 / k - tail
    return -2 * (dim - 2) * tail


def _power_series(coefficients: Sequence[float], x: Any) -> Any:
    value = coefficients[-1] + 0.0 * x
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value
