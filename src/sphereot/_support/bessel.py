"""Normalizing constant of the von Mises-Fisher distribution and ratio of Bessel functions, for any array library.

The density of Appendix B.3 has the normalizer (2 pi)^{d/2} I_nu(kappa) / kappa^nu with nu = d/2 - 1. Relative to the
area of the sphere it is the moment generating function of the height t = <mu, x> of a uniform point,

    M(kappa) = E[exp(kappa t)] = Gamma(nu + 1) (2 / kappa)^nu I_nu(kappa),

which is smooth at kappa = 0. One formula covers every dimension and concentration. Debye's expansion of I_nu is uniform
in kappa, and accurate to rounding for orders of 20 or more. The three-term recurrence, which is stable downwards, leads
from there to smaller orders. All terms vanish with kappa, so that log M keeps its relative precision when it is tiny,
and automatic differentiation is exact at 0.
"""

from fractions import Fraction
from functools import cache, lru_cache

from sphereot._arrays.libraries import Array, constant_when_compiled, namespace

_MIN_ORDER = 20
_TERMS = 10  # at order 20 the next term of Debye's expansion is below 4e-14


def log_mean_exponential(concentration: Array, dim: int, *, scaled: bool = False) -> Array:
    """Compute log M(kappa) = log E[exp(kappa t)] for the height t of a uniform point on S^{d-1}.

    Parameters
    ----------
    concentration : array, floating
        kappa, at least 0.
    dim : int
        Number of coordinates d, at least 1.
    scaled : bool, default False
        Return log M(kappa) - kappa, which stays small if kappa is large.

    Returns
    -------
    array
        Values of the shape of `concentration`. The derivative of log M is the Bessel ratio A_d(kappa).

    Examples
    --------
    On S^2, log M(kappa) is log(sinh(kappa) / kappa):

    >>> import numpy as np
    >>> log_mean_exponential(np.array([0.0, 1.0]), 3)
    array([0.        , 0.16143936])
    """
    xp = namespace(concentration)
    order, steps = _expansion_order(dim)
    squared = concentration * concentration
    radius = xp.sqrt(squared + order * order)
    above = squared / (radius + order)  # radius - order
    leading = -order * (above + concentration) / (radius + concentration) if scaled else above
    value = (
        leading
        - order * xp.log1p(above / (2.0 * order))
        - 0.25 * xp.log1p(squared / (order * order))
        - above / radius * _horner(_quotient(order), order / radius)
    )
    ratio = _slope_at(order, squared, radius)
    for k in reversed(range(steps)):
        rising = dim / 2 + k
        value = value + xp.log1p(squared * ratio / (2.0 * rising))
        ratio = 1.0 / (2.0 * rising + squared * ratio)
    return value


def bessel_ratio_slope(concentration: Array, dim: int) -> Array:
    """Compute A_d(kappa) / kappa, where A_d = I_{d/2} / I_{d/2-1} is the mean height of a von Mises-Fisher point.

    The parameters are those of `log_mean_exponential`. The value at kappa = 0 is 1 / d.

    Examples
    --------
    >>> import numpy as np
    >>> bessel_ratio_slope(np.array([0.0, 1e5]), 4)
    array([2.50000e-01, 9.99985e-06])
    """
    xp = namespace(concentration)
    order, steps = _expansion_order(dim)
    squared = concentration * concentration
    ratio = _slope_at(order, squared, xp.sqrt(squared + order * order))
    for k in reversed(range(steps)):
        ratio = 1.0 / (dim + 2.0 * k + squared * ratio)
    return ratio


def _expansion_order(dim: int) -> tuple[float, int]:
    """Order at which Debye's expansion is evaluated, and number of recurrence steps from there down to d/2 - 1."""
    order = dim / 2 - 1
    steps = max(0, -int(-(_MIN_ORDER - order) // 1))
    return order + steps, steps


def _slope_at(order: float, squared: Array, radius: Array) -> Array:
    """I_{order+1} / (kappa I_order): derivative of Debye's expansion, with large terms canceled analytically."""
    p = order / radius
    return 1.0 / (radius + order) - (0.5 + p * _horner(_derivative(order), p)) / (radius * radius)


def _horner(coefficients: tuple[float, ...], p: Array) -> Array:
    """Polynomial in `p` by Horner's rule, lowest coefficient first."""
    value = coefficients[-1] + 0.0 * p
    for coefficient in reversed(coefficients[:-1]):
        value = value * p + coefficient
    return value


# ---- Debye's expansion: log I_nu(kappa) = s - nu log((nu + s) / kappa) - log(2 pi s) / 2 + D(p), with
# s = sqrt(nu^2 + kappa^2), p = nu / s and D(p) = sum_k D_k(p) / nu^k ----


@cache
def _debye_polynomials() -> list[list[Fraction]]:
    """Exact coefficients of D_0 = 0, D_1, ...: the formal logarithm of the u_k of DLMF 10.41.9."""
    u = [[Fraction(1)]]
    for _ in range(_TERMS):
        following = [Fraction(0)] * (len(u[-1]) + 3)
        for j, c in enumerate(u[-1]):
            following[j + 1] += Fraction(j, 2) * c + c / (8 * (j + 1))
            following[j + 3] -= Fraction(j, 2) * c + 5 * c / (8 * (j + 3))
        u.append(following)
    logs = [[Fraction(0)]]
    for k in range(1, _TERMS + 1):
        coefficients = [k * c for c in u[k]]
        for m in range(1, k):
            for i, a in enumerate(logs[m]):
                for j, b in enumerate(u[k - m]):
                    coefficients[i + j] -= m * a * b
        logs.append([c / k for c in coefficients])
    return logs


@lru_cache(maxsize=256)
def _debye(order: float) -> list[Fraction]:
    """Coefficients of D(p)."""
    total = [Fraction(0)] * (3 * _TERMS + 1)
    for k, polynomial in enumerate(_debye_polynomials()):
        for j, c in enumerate(polynomial):
            total[j] += c / Fraction(order) ** k
    return total


@constant_when_compiled
@lru_cache(maxsize=256)
def _derivative(order: float) -> tuple[float, ...]:
    """Coefficients of D'(p)."""
    return tuple(float(j * c) for j, c in enumerate(_debye(order)))[1:]


@constant_when_compiled
@lru_cache(maxsize=256)
def _quotient(order: float) -> tuple[float, ...]:
    """Coefficients of (D(p) - D(1)) / (p - 1), by synthetic division.

    D(1) is the correction of Stirling's formula, so that the factor Gamma(nu + 1) of M needs no evaluation.
    """
    quotient, carry = [], Fraction(0)
    for c in reversed(_debye(order)[1:]):
        carry += c
        quotient.append(float(carry))
    return tuple(reversed(quotient))
