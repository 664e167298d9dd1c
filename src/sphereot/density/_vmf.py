"""The von Mises-Fisher distribution in NumPy: normalizing constant, samples, fit of the concentration.

The density is C_d(kappa) exp(kappa <x, mean>), with one float kappa. `scaled_log_normalizer` is the logarithm of
C_d(kappa) exp(kappa), the largest value of the density, which does not overflow or underflow where C_d(kappa) does.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._support.bessel import bessel_ratio_slope, log_mean_exponential
from sphereot.sphere.maps import log_area


def scaled_log_normalizer(dim: int, kappa: float | NDArray[np.float64]) -> Any:
    """log(C_d(kappa)) + kappa of one or more kappa, against the surface measure of S^{d-1}.

    >>> math.isclose(scaled_log_normalizer(3, 0.0), -math.log(4 * math.pi))
    True
    """
    return -log_area(dim) - log_mean_exponential(np.asarray(kappa, np.float64), dim, scaled=True)


def log_bessel(order: float, kappa: float) -> float:
    """log(I_order(kappa) exp(-kappa)) of the modified Bessel function, for kappa > 0 and an integer 2 order."""
    mean = float(log_mean_exponential(np.float64(kappa), round(2 * order) + 2, scaled=True))
    return order * math.log(0.5 * kappa) - math.lgamma(order + 1) + mean


def mean_cosine(dim: int, kappa: float) -> float:
    """Mean of <x, mean> under vMF(mean, kappa): the ratio I_{d/2}(kappa) / I_{d/2-1}(kappa)."""
    return kappa * float(bessel_ratio_slope(np.float64(kappa), dim))


def fit_concentrations(dim: int, resultants: NDArray[np.float64], largest: float = math.inf) -> NDArray[np.float64]:
    """Maximum-likelihood kappas in [0, largest] for mean vectors of lengths `resultants` in [0, 1]."""
    # The mean cosine rises with kappa: what is beyond that of the largest kappa is at the bound.
    bounded = resultants < (mean_cosine(dim, largest) if math.isfinite(largest) else 1.0)
    inside = np.where(bounded & (resultants > 0), resultants, 0.5)
    # Start from the approximation of Banerjee et al. (2005), then take Newton steps (Sra, 2012).
    kappa = inside * (dim - inside**2) / (1 - inside**2)
    for _ in range(20):
        ratio = kappa * bessel_ratio_slope(kappa, dim)
        step = (ratio - inside) / (1 - ratio**2 - (dim - 1) / kappa * ratio)
        kappa = np.maximum(kappa / 10, kappa - step)
        if np.all(np.abs(step) <= 1e-10 * kappa):
            break
    fitted: NDArray[np.float64] = np.where(bounded, np.where(resultants > 0, np.minimum(kappa, largest), 0.0), largest)
    return fitted


def sample_around(
    means: NDArray[np.float64], kappa: float | NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """One draw of vMF(mean, kappa) for each row of `means`, shape (n, d); one kappa, or one per row."""
    n, dim = means.shape
    # 1 - <x, mean> by rejection (Wood, 1994), which stays accurate for large kappa.
    if isinstance(kappa, np.ndarray):
        gap, open_rows = np.empty(n), np.arange(n)
        while len(open_rows):
            proposed, log_accept = _propose(dim, kappa[open_rows], generator)
            is_accepted = np.log(generator.random(len(open_rows))) <= log_accept
            gap[open_rows[is_accepted]] = proposed[is_accepted]
            open_rows = open_rows[~is_accepted]
    else:
        gap = np.empty(0)
        while len(gap) < n:
            tries = int(1.6 * (n - len(gap))) + 16
            proposed, log_accept = _propose(dim, np.full(tries, kappa), generator)
            gap = np.concatenate([gap, proposed[np.log(generator.random(tries)) <= log_accept]])
        gap = gap[:n]
    tangent = generator.standard_normal((n, dim))
    tangent -= np.sum(tangent * means, axis=1, keepdims=True) * means
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    points = (1 - gap)[:, None] * means + np.sqrt(gap * (2 - gap))[:, None] * tangent
    scaled: NDArray[np.float64] = points / np.linalg.norm(points, axis=1, keepdims=True)
    return scaled


def _propose(
    dim: int, kappa: NDArray[np.float64], generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Proposed values of 1 - <x, mean>, one per kappa, and the logarithms of their probabilities of acceptance."""
    half = (dim - 1) / 2
    b = half / (kappa + np.hypot(kappa, half))
    mode_gap = 2 * b / (1 + b)
    z = generator.beta(half, half, len(kappa))
    gap = 2 * b * z / (1 - (1 - b) * z)
    # log acceptance: kappa (t - t0) + (d - 1) log((1 - t0 t) / (1 - t0^2)), with t = 1 - gap and t0 = 1 - mode_gap.
    shift = mode_gap - gap
    log_accept = kappa * shift + (dim - 1) * np.log1p(-(1 - mode_gap) * shift / (mode_gap * (2 - mode_gap)))
    return gap, log_accept
