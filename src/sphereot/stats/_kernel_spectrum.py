"""Eigenvalues of the kernel K_d of SSW_2 to the uniform distribution, for null distributions."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Spectrum(NamedTuple):
    """K_d as an integral operator under the uniform probability measure, by degree of harmonics."""

    degrees: NDArray[np.int64]  # 1, 2, ..., degree_max; constants, of degree 0, have eigenvalue 0
    eigenvalues: NDArray[np.float64]  # lambda_l > 0
    multiplicities: NDArray[np.float64]  # dimension m_l of the space of harmonics of degree l; infinite above 1e308
    shares: NDArray[np.float64]  # lambda_l m_l, which add up to K_d(0) = 1/12 over all degrees; always finite


def gegenbauer_eigenvalues(dim: int, degree_max: int) -> Spectrum:
    """Compute the eigenvalues of K_d and their multiplicities, up to a degree.

    lambda_l = B(l/2, d/2)^2 / (16 pi^2) for odd l, with B the beta function; for even l = 2 j this times
    1 - (1/2)_j (d/2 - 1)_j / (j! ((d-1)/2)_j).

    >>> spectrum = gegenbauer_eigenvalues(3, 3)
    >>> spectrum.eigenvalues, spectrum.multiplicities
    (array([0.015625  , 0.00211086, 0.00097656]), array([3., 5., 7.]))
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
