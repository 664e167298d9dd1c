"""Densities on the sphere that are weighted sums of von Mises-Fisher densities: values and samples.

    f(x) = sum over i of w_i C_d(kappa_i) exp(kappa_i <x, mean_i>)

Every term integrates to 1, so f does if the weights add up to 1. A term with kappa_i = 0 is the uniform distribution.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sphereot.density._kernels import log_sum_exp_in_single, row_blocks
from sphereot.density._near_components import near_components
from sphereot.density._vmf import sample_around, scaled_log_normalizers

__all__ = ["VonMisesFisherComponents", "kernel_log_densities"]


@dataclass(frozen=True, eq=False)
class VonMisesFisherComponents:
    """Weighted sum of von Mises-Fisher densities, in float64.

    Attributes
    ----------
    means : array, shape (k, d)
        Unit vectors.
    concentrations : array, shape (k,)
        kappa of each component, at least 0.
    weights : array, shape (k,)
        Positive, with a total of 1.

    Examples
    --------
    >>> components = VonMisesFisherComponents(np.eye(3)[:2], np.array([0.0, 50.0]), np.array([0.2, 0.8]))
    >>> np.exp(components.log_density(np.eye(3))).round(3)
    array([0.016, 6.382, 0.016])
    """

    means: NDArray[np.float64]
    concentrations: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def average(
        cls, parts: Iterable["VonMisesFisherComponents"], weights: Iterable[float]
    ) -> "VonMisesFisherComponents":
        """The average of several densities: their components together, with products of weights."""
        pairs = list(zip(parts, weights, strict=True))
        total = sum(weight for _, weight in pairs)
        return cls(
            np.concatenate([part.means for part, _ in pairs]),
            np.concatenate([part.concentrations for part, _ in pairs]),
            np.concatenate([part.weights * (weight / total) for part, weight in pairs]),
        )

    def log_density(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-density at unit vectors in float64, shape (m, d), to 1e-6, in blocks of pairs with components."""
        values = np.empty(len(points))
        log_factors = np.log(self.weights) + scaled_log_normalizers(self.means.shape[1], self.concentrations)
        for rows, columns in near_components(points, self.means, self.concentrations, log_factors):
            exponents = points[rows] @ self.means[columns].T
            exponents -= 1.0
            exponents *= self.concentrations[columns]
            exponents += log_factors[columns]
            values[rows] = log_sum_exp_in_single(exponents)
        return values

    def sample(self, n: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Draw unit vectors, shape (n, d)."""
        rows = generator.choice(len(self.means), size=n, p=self.weights)
        return sample_around(self.means[rows], self.concentrations[rows], generator)


def kernel_log_densities(
    points: NDArray[np.float64], centers: NDArray[np.float64], concentrations: Iterable[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Log-densities of several kernel estimates with the same centers, to 1e-6, in blocks of all pairs.

    Parameters
    ----------
    points : array, shape (m, d)
        Where to evaluate, unit vectors in float64.
    centers : array, shape (n, d)
        Unit vectors in float64, of equal weight.
    concentrations : iterable of arrays, shape (n,)
        kappa of each center, one array per estimate.

    Returns
    -------
    array, shape (m, number of estimates)
    """
    kappas = list(concentrations)
    log_factors = [scaled_log_normalizers(centers.shape[1], kappa) - np.log(len(centers)) for kappa in kappas]
    values = np.empty((len(points), len(kappas)))
    for rows in row_blocks(len(points), len(centers)):
        gap = points[rows] @ centers.T
        gap -= 1.0
        for k, (kappa, log_factor) in enumerate(zip(kappas, log_factors, strict=True)):
            exponents = gap * kappa
            exponents += log_factor
            values[rows, k] = log_sum_exp_in_single(exponents)
    return values
