"""The kernel K_d of SSW_2 to the uniform distribution, as a function of the angle between two points.

SSW_2^2(mu, Unif) is the double sum of K_d(gamma_ij) over the points of mu. With D_d(gamma) the variance of the angle
between the projections of two points at the angle gamma on a random great circle (its mean is gamma),

    K_d(gamma) = 1/12 - gamma / (4 pi) + (gamma^2 + D_d(gamma)) / (8 pi^2),

and D_d solves a differential equation with a power series on either side of sin^2 gamma = 1/2. `docs/uniformity.md` has
the proofs. The variable is the square of the half chord, h^2 = |x - y|^2 / 4 = sin^2(gamma / 2) = (1 - cos gamma) / 2:
from differences of coordinates it is precise for close points, where the cosine is not.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, constant_when_compiled, is_double, namespace

LARGEST, SMALLEST = 1 / 12, -1 / 24  # K_d(0) and K_d(pi), whatever d is

_TERMS = 64  # the series are needed up to 1/2 only
_NODES = 240
_DOUBLE_DEGREES = (8, 7)  # of P and R in `variance_polynomials`; error of K_d below 1e-15
_SINGLE_DEGREES = (4, 3)  # error of K_d below 2e-10


def kernel_value(half_chord_squares: Array, dim: int) -> Array:
    """K_d at h^2 = |x - y|^2 / 4.

    Parameters
    ----------
    half_chord_squares : array, floating
        Values in [0, 1], of any shape. What is outside counts as the nearer end.
    dim : int
        Dimension d of the space around the sphere, at least 2.

    Returns
    -------
    array
        Of the same shape. Automatic differentiation gives zero at both ends (see `kernel_derivative`).

    Examples
    --------
    >>> kernel_value(np.array([0.0, 1.0]), 3) - np.array([1 / 12, -1 / 24])
    array([0., 0.])
    """
    xp = namespace(half_chord_squares)
    inside, squares, to_end, sine_squares = _angles(half_chord_squares)
    variance, _ = _variance(sine_squares, dim)
    # From the nearer end, which keeps the rounding error of float32 below 3e-8.
    linear = xp.where(squares > 0.5, 0.0 * to_end, to_end) / (4 * math.pi)
    end = xp.where(half_chord_squares > 0.5, SMALLEST + 0.0 * squares, LARGEST + 0.0 * squares)
    return xp.where(inside, end - (linear - (to_end * to_end + variance) / (8 * math.pi**2)), end)


def kernel_derivative(half_chord_squares: Array, dim: int) -> Array:
    """The derivative of K_d by the cosine of the angle, at h^2 = |x - y|^2 / 4.

    The gradient of K_d(gamma(x, y)) along the sphere at x is this derivative times y - <x, y> x. It has length
    1 / (4 pi) as y tends to x, with a direction that depends on the way; at y = x it is defined as zero, the mean of
    all directions, and at y = -x it is zero. So the derivative, infinite at both ends, is returned as zero there.

    Parameters
    ----------
    half_chord_squares : array, floating
        Values in [0, 1], of any shape.
    dim : int
        Dimension d of the space around the sphere, at least 2.

    Returns
    -------
    array
        Of the same shape, never negative.

    Examples
    --------
    At a right angle, for every dimension:

    >>> math.isclose(kernel_derivative(np.array(0.5), 7), 1 / (8 * math.pi))
    True
    """
    xp = namespace(half_chord_squares)
    inside, squares, to_end, sine_squares = _angles(half_chord_squares)
    _, slope = _variance(sine_squares, dim)
    supplement = xp.where(squares > 0.5, to_end, math.pi - to_end)
    derivative = (supplement / xp.sqrt(sine_squares) - (1.0 - 2.0 * squares) * slope) / (4 * math.pi**2)
    return xp.where(inside, derivative, 0.0 * squares)


def _angles(half_chord_squares: Array) -> tuple[Array, Array, Array, Array]:
    """Which values are inside (0, 1), and h^2, min(gamma, pi - gamma) and sin^2 gamma there (1/2 stands for others)."""
    xp = namespace(half_chord_squares)
    inside = (half_chord_squares > 0.0) & (half_chord_squares < 1.0)
    # A value replaced before the square root has no infinite derivative that would turn to NaN behind `where`.
    squares = xp.where(inside, half_chord_squares, 0.5 + 0.0 * half_chord_squares)
    nearer = xp.where(squares > 0.5, 1.0 - squares, squares)
    to_end = 2.0 * xp.asin(xp.sqrt(nearer))
    return inside, squares, to_end, 4.0 * nearer * (1.0 - nearer)


def _variance(sine_squares: Array, dim: int) -> tuple[Array, Array]:
    """D_d and its derivative, at z = sin^2 gamma in (0, 1]."""
    if dim == 2:
        return 0.0 * sine_squares, 0.0 * sine_squares
    xp = namespace(sine_squares)
    smooth, logarithmic = variance_polynomials(dim, is_double(sine_squares))
    u = 2.0 * sine_squares - 1.0
    log = xp.log(sine_squares)
    p, p_slope = _horner(smooth, u)
    r, r_slope = _horner(logarithmic, u)
    value = p + r * log
    return sine_squares * value, value + r + 2.0 * sine_squares * (p_slope + r_slope * log)


def _horner(coefficients: tuple[float, ...], u: Array) -> tuple[Array, Array]:
    """A polynomial and its derivative."""
    value, slope = coefficients[-1] + 0.0 * u, 0.0 * u
    for coefficient in reversed(coefficients[:-1]):
        slope = slope * u + value
        value = value * u + coefficient
    return value, slope


@constant_when_compiled
@lru_cache(maxsize=256)
def variance_polynomials(dim: int, double: bool = True) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Coefficients of polynomials P and R such that D_d = z (P(u) + R(u) log z), with z = sin^2 gamma, u = 2 z - 1.

    Parameters
    ----------
    dim : int
        Dimension d of the space around the sphere, at least 2.
    double : bool
        Degrees 8 and 7, with an error of K_d below 1e-15; otherwise 4 and 3, with one below 2e-10.

    Returns
    -------
    smooth, logarithmic : tuple of float
        Of P and of R, constant term first.
    """
    p_degree, r_degree = _DOUBLE_DEGREES if double else _SINGLE_DEGREES
    # Nodes gather at 0, where z log z is least smooth, and at 1.
    z = (0.5 - 0.5 * np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)) ** 1.5
    u = 2.0 * z - 1.0
    basis = np.polynomial.chebyshev.chebvander(u, p_degree) * z[:, None]
    basis = np.hstack([basis, basis[:, : r_degree + 1] * np.log(z)[:, None]])
    fitted = np.linalg.lstsq(basis, _variance_by_series(z, dim), rcond=None)[0]
    smooth, logarithmic = (_monomials(part) for part in np.split(fitted, [p_degree + 1]))
    return smooth, logarithmic


def _monomials(chebyshev: NDArray[np.float64]) -> tuple[float, ...]:
    """Coefficients of powers, as many as there are Chebyshev coefficients."""
    powers = np.polynomial.chebyshev.cheb2poly(chebyshev)  # without the highest if they are zero
    return tuple(float(c) for c in np.pad(powers, (0, len(chebyshev) - len(powers))))


# ---- D_d by its power series ----


def _variance_by_series(sine_squares: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """D_d at z = sin^2 gamma in (0, 1], to rounding, from the differential equation

        4 z (1 - z) D'' + (2 (d - 1) - 2 d z) D' = A_d - (d - 2) log z.

    Up to 1/2 by the series in powers of z and z^j log z; from there on by the one in t = cos^2 gamma = 1 - z.
    """  # noqa: D400
    z = np.asarray(sine_squares, dtype=np.float64)
    smooth, logarithmic = _series_at_zero(dim)
    near_one = _series_at_one(dim)
    at_half = 0.5 * (_power_series(smooth, 0.5) + _power_series(logarithmic, 0.5) * math.log(0.5))
    constant = at_half - _power_series(near_one, 0.5)
    low = np.minimum(z, 0.5)
    below = low * (_power_series(smooth, low) + _power_series(logarithmic, low) * np.log(low))
    above = constant + _power_series(near_one, np.minimum(1.0 - z, 0.5))
    variance: NDArray[np.float64] = np.where(z <= 0.5, below, above)
    return variance


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


def _power_series(coefficients: list[float], x: Any) -> Any:
    value = 0.0 * x
    for coefficient in reversed(coefficients):
        value = value * x + coefficient
    return value


# ---- Gegenbauer coefficients ----


class Spectrum(NamedTuple):
    """K_d as an integral operator under the uniform probability measure, by degree of harmonics.

    Attributes
    ----------
    degrees : array of int, shape (degree_max,)
        1, 2, ..., degree_max. Constants, of degree 0, have eigenvalue 0.
    eigenvalues : array, shape (degree_max,)
        lambda_l > 0.
    multiplicities : array, shape (degree_max,)
        Dimension m_l of the space of harmonics of degree l, as floats; infinite above 1e308.
    shares : array, shape (degree_max,)
        lambda_l m_l, which add up to K_d(0) = 1/12 over all degrees. Finite for every degree and dimension.
    """

    degrees: NDArray[np.int64]
    eigenvalues: NDArray[np.float64]
    multiplicities: NDArray[np.float64]
    shares: NDArray[np.float64]


def gegenbauer_eigenvalues(dim: int, degree_max: int) -> Spectrum:
    """Eigenvalues of K_d and their multiplicities, up to a degree.

    lambda_l = B(l/2, d/2)^2 / (16 pi^2) for odd l, with B the beta function; for even l = 2 j this times
    1 - (1/2)_j (d/2 - 1)_j / (j! ((d-1)/2)_j).

    Parameters
    ----------
    dim : int
        Dimension d of the space around the sphere, at least 2.
    degree_max : int
        Largest degree, at least 1.

    Returns
    -------
    Spectrum

    Examples
    --------
    >>> spectrum = gegenbauer_eigenvalues(3, 3)
    >>> spectrum.eigenvalues
    array([0.015625  , 0.00211086, 0.00097656])
    >>> spectrum.multiplicities
    array([3., 5., 7.])
    """
    degrees = np.arange(1, degree_max + 1)
    # B(l/2, d/2) by steps of 2 from l = 1 and l = 2, in logarithms: its square can be less than any float.
    log_beta = np.empty(degree_max)
    for first, start in ((1, _log_beta_of_half(dim)), (2, math.log(2 / dim))):
        steps = degrees[first - 1 : -2 : 2]
        log_beta[first - 1 :: 2] = np.concatenate([[start], start + np.cumsum(-np.log1p(dim / steps))])[
            : len(log_beta[first - 1 :: 2])
        ]
    j = np.arange(1, degree_max // 2 + 1)
    removed = np.cumprod((j - 0.5) / j * ((j + dim / 2 - 2) / (j + (dim - 3) / 2)))
    kept = np.ones(degree_max)
    kept[1::2] = 1.0 - removed
    log_eigenvalues = 2 * log_beta + np.log(kept / (16 * math.pi**2))
    log_binomial = np.concatenate([[0.0], np.cumsum(np.log1p((dim - 2) / degrees[:-1]))])
    log_multiplicities = log_binomial + np.log((2 * degrees + dim - 2) / degrees)
    with np.errstate(over="ignore"):
        multiplicities = np.exp(log_multiplicities)
    exact = multiplicities < 2**40
    multiplicities[exact] = np.round(multiplicities[exact])
    return Spectrum(degrees, np.exp(log_eigenvalues), multiplicities, np.exp(log_eigenvalues + log_multiplicities))


def _log_beta_of_half(dim: int) -> float:
    """Logarithm of B(1/2, d/2), precise where the difference of two `math.lgamma` is not."""
    x = dim / 2
    if x < 30:
        return math.lgamma(0.5) + math.lgamma(x) - math.lgamma(x + 0.5)
    inverse = 1 / (x * x)
    ratio = (-1 / 8 + inverse * (1 / 192 + inverse * (-1 / 640 + inverse * 17 / 14336))) / x
    return 0.5 * math.log(math.pi / x) - ratio
