"""Averages of density estimates: a dictionary of candidates, weighted by the likelihood of points held out (stacking).

Every candidate is fitted to the points outside a fold and evaluated at those inside. The weights of the average
maximize the likelihood of these values; then the candidates with a weight are fitted to all points.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray

from sphereot._support.extras import Progress, progress_bar
from sphereot.density.adaptive_kde import adaptive_bandwidths
from sphereot.density.components import VonMisesFisherComponents, kernel_log_densities
from sphereot.density.kde import SphericalKDE
from sphereot.density.locations import group_by_location
from sphereot.density.mixture import VonMisesFisherMixture
from sphereot.flows import Flow

__all__ = ["CANDIDATES", "FOLDS", "DensityAverage", "fit_average", "folds_of", "stacking_weights"]

CANDIDATES = ("kernels", "mixtures", "flow")
FOLDS = ("locations", "rows")

_N_FOLDS = 5
_MOST_POINTS = 10_000  # on which weights are chosen: candidates are compared at all pairs of points
_LEAST_WEIGHT = 0.01
_BANDWIDTH_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_WIDEST = 3.0  # radians
_ADAPTIVE = (
    *((neighbors, scale) for neighbors in (1, 2) for scale in (0.5, 0.7, 1.0, 1.4, 2.0)),
    *((neighbors, scale) for neighbors in (3, 5, 8, 16) for scale in (0.25, 0.5, 0.7, 1.0, 1.4)),
    *((32, scale) for scale in (0.25, 0.5, 1.0)),
)
_COMPONENTS = (16, 64, 256)
_BLOCK = 1 << 14

FlowFit = Callable[[NDArray[np.float64], int], Flow]
"""Fit of a flow to points (n, d), with a seed."""


@dataclass(frozen=True, eq=False)
class DensityAverage:
    """Average of von Mises-Fisher components and, if it has a weight, of a flow.

    Attributes
    ----------
    components : VonMisesFisherComponents
        The components of all kernel estimates, mixtures and the uniform distribution.
    flow : Flow, optional
        With the weight `flow_weight`.
    shares : dict
        Weight of each estimate in the average, by name.
    """

    components: VonMisesFisherComponents
    flow: Flow | None = None
    flow_weight: float = 0.0
    shares: dict[str, float] = field(default_factory=dict)

    def log_density(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-density at unit vectors in float64, shape (m, d)."""
        values = self.components.log_density(points)
        if self.flow is None:
            return values
        of_flow = math.log(self.flow_weight) + _flow_log_density(self.flow, points)
        both: NDArray[np.float64] = np.logaddexp(math.log1p(-self.flow_weight) + values, of_flow)
        return both

    def sample(self, n: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Draw unit vectors, shape (n, d)."""
        if self.flow is None:
            return self.components.sample(n, generator)
        n_flow = int(generator.binomial(n, self.flow_weight))
        parts = [self.components.sample(n - n_flow, generator)]
        if n_flow:
            drawn = self.flow.sample((n_flow,), seed=int(generator.integers(2**31))).numpy().astype(np.float64)
            parts.append(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
        return generator.permutation(np.concatenate(parts))

    def tensors(self) -> dict[str, torch.Tensor]:
        """The arrays of the average by name, for a model file."""
        arrays = (self.components.means, self.components.concentrations, self.components.weights)
        named = {name: torch.as_tensor(array).clone() for name, array in zip(_ARRAYS, arrays, strict=True)}
        if self.flow is not None:
            named |= {f"flow.{name}": tensor for name, tensor in self.flow.state_dict().items()}
        return named

    @classmethod
    def from_tensors(
        cls, tensors: dict[str, torch.Tensor], dim: int, flow: Flow | None, flow_weight: float, shares: dict[str, float]
    ) -> "DensityAverage":
        """The average of arrays by name; raises ValueError unless they are those of a density."""
        means, kappas, weights = (tensors[name].numpy().astype(np.float64) for name in _ARRAYS)
        if means.ndim != 2 or means.shape[1] != dim or kappas.shape != (len(means),) or weights.shape != (len(means),):
            raise ValueError(f"its components have shapes {means.shape}, {kappas.shape} and {weights.shape}")
        if not np.allclose(np.linalg.norm(means, axis=1), 1.0, rtol=0.0, atol=1e-6):
            raise ValueError("its means are no unit vectors")
        if np.any(kappas < 0) or np.any(weights <= 0) or not math.isclose(weights.sum(), 1.0, rel_tol=1e-6):
            raise ValueError("its concentrations or weights are out of range")
        if not 0 <= flow_weight < 1 or (flow is None) != (flow_weight == 0):
            raise ValueError(f"the weight of its flow is {flow_weight}")
        return cls(VonMisesFisherComponents(means, kappas, weights), flow, flow_weight, shares)


_ARRAYS = ("means", "concentrations", "weights")


def stacking_weights(
    log_densities: NDArray[np.float64], *, prior: NDArray[np.float64] | None = None, steps: int = 2000
) -> NDArray[np.float64]:
    """Weights of the average of densities with the largest likelihood, by expectation maximization.

    Parameters
    ----------
    log_densities : array, shape (n, k)
        Of k estimates at n points that they were not fitted to.
    prior : array, shape (k,), optional
        Counts of points that are taken as already assigned to the estimates.
    steps : int
        Largest number of steps.

    Returns
    -------
    array, shape (k,)
        Nonnegative, with a total of 1.

    Examples
    --------
    >>> stacking_weights(np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])).round(2)
    array([0.71, 0.29])
    """
    n, n_estimates = log_densities.shape
    extra = np.zeros(n_estimates) if prior is None else prior
    densities = np.exp(log_densities - log_densities.max(axis=1, keepdims=True))
    weights = np.full(n_estimates, 1 / n_estimates)
    for _ in range(steps):
        ratios = densities.T @ (1.0 / (densities @ weights))
        updated = (weights * ratios + extra) / (n + extra.sum())
        change = float(np.abs(updated - weights).max())
        weights = updated
        if change < 1e-8:
            break
    scaled: NDArray[np.float64] = weights / weights.sum()
    return scaled


def folds_of(points: NDArray[np.float64], by: str, generator: np.random.Generator) -> NDArray[np.intp]:
    """Fold of each point, at random: 0, ..., 4, or fewer for fewer points or locations.

    With ``by="locations"`` all points at one location are in one fold.
    """
    first, location = group_by_location(points)
    if len(first) < 3:
        raise ValueError(
            f"x: the points are at {len(first)} locations, but an average of estimates needs three or more; choose "
            "model='kde' with a bandwidth."
        )
    if by == "rows":
        folds: NDArray[np.intp] = generator.permutation(len(points)) % min(_N_FOLDS, len(points))
        return folds
    of_locations = generator.permutation(len(first)) % min(_N_FOLDS, len(first))
    return of_locations[location]


@dataclass(frozen=True)
class _Dictionary:
    """The candidates: bandwidths, neighbors and scales of kernel estimates, sizes of mixtures, a flow, and uniform."""

    bandwidths: list[float]
    adaptive: list[tuple[int, float]]
    counts: list[int]
    has_flow: bool
    fit_flow: FlowFit

    @classmethod
    def of(cls, points: NDArray[np.float64], candidates: tuple[str, ...], fit_flow: FlowFit) -> "_Dictionary":
        """The candidates for points: bandwidths around the best one, no more neighbors or components than there are."""
        n_locations = len(group_by_location(points)[0])
        bandwidths: list[float] = []
        adaptive: list[tuple[int, float]] = []
        counts: list[int] = []
        if "kernels" in candidates:
            best = SphericalKDE("cv").fit(points).bandwidth_
            bandwidths = [min(factor * best, _WIDEST) for factor in _BANDWIDTH_FACTORS]
            adaptive = [pair for pair in _ADAPTIVE if pair[0] < n_locations / 2] or [(1, 1.0)]
        if "mixtures" in candidates:
            counts = [size for size in _COMPONENTS if size <= n_locations / 4] or [1]
        return cls(bandwidths, adaptive, counts, "flow" in candidates, fit_flow)

    @property
    def names(self) -> list[str]:
        """The names of all candidates; the uniform distribution is the last."""
        return [
            *(f"kernel, bandwidth {width:.3g}" for width in self.bandwidths),
            *(f"kernel, neighbors {neighbors}, scale {scale:g}" for neighbors, scale in self.adaptive),
            *(f"mixture, components {size}" for size in self.counts),
            *(["flow"] if self.has_flow else []),
            "uniform",
        ]

    def restricted(self, chosen: NDArray[np.bool_]) -> "_Dictionary":
        """The candidates for which `chosen`, in the order of `names`, is True."""
        flags = iter(chosen.tolist())
        return _Dictionary(
            [width for width in self.bandwidths if next(flags)],
            [pair for pair in self.adaptive if next(flags)],
            [size for size in self.counts if next(flags)],
            self.has_flow and next(flags),
            self.fit_flow,
        )

    @property
    def rounds(self) -> int:
        """The number of steps of a fit of all candidates, for a progress bar."""
        return bool(self.bandwidths or self.adaptive) + len(self.counts) + self.has_flow

    def concentrations(self, points: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Concentrations at the points, for each kernel estimate."""
        widths = [np.full(len(points), width) for width in self.bandwidths]
        if self.adaptive:
            widths += adaptive_bandwidths(points, self.adaptive)
        return [width**-2 for width in widths]

    def mixture(self, points: NDArray[np.float64], n_components: int, seed: int) -> VonMisesFisherComponents:
        """A mixture fitted to the points."""
        n_components = min(n_components, len(group_by_location(points)[0]))
        return VonMisesFisherMixture(n_components, seed=seed).fit(points).components_

    def log_densities(
        self, train: NDArray[np.float64], test: NDArray[np.float64], seed: int, advance: Callable[[], None]
    ) -> NDArray[np.float64]:
        """Log-densities at `test` of all candidates fitted to `train`, shape (m, number of candidates)."""
        columns = []
        if self.bandwidths or self.adaptive:
            columns.append(kernel_log_densities(test, train, self.concentrations(train)))
            advance()
        for n_components in self.counts:
            columns.append(self.mixture(train, n_components, seed).log_density(test)[:, None])
            advance()
        if self.has_flow:
            columns.append(_flow_log_density(self.fit_flow(train, seed), test)[:, None])
            advance()
        columns.append(_uniform(train.shape[1]).log_density(test)[:, None])
        return np.concatenate(columns, axis=1)

    def average(
        self, points: NDArray[np.float64], weights: NDArray[np.float64], seed: int, advance: Callable[[], None]
    ) -> DensityAverage:
        """The average of all candidates fitted to the points."""
        equal = np.full(len(points), 1 / len(points))
        parts = [VonMisesFisherComponents(points, kappas, equal) for kappas in self.concentrations(points)]
        if parts:
            advance()
        for n_components in self.counts:
            parts.append(self.mixture(points, n_components, seed))
            advance()
        flow, flow_weight = None, 0.0
        if self.has_flow:
            flow, flow_weight = self.fit_flow(points, seed), float(weights[-2])
            advance()
        of_parts = np.delete(weights, -2) if self.has_flow else weights
        parts.append(_uniform(points.shape[1]))
        shares = {name: float(weight) for name, weight in zip(self.names, weights, strict=True)}
        return DensityAverage(VonMisesFisherComponents.average(parts, of_parts.tolist()), flow, flow_weight, shares)


def fit_average(
    points: NDArray[np.float64],
    *,
    candidates: tuple[str, ...],
    folds: str,
    fit_flow: FlowFit,
    generator: np.random.Generator,
    progress: Progress = False,
) -> DensityAverage:
    """Fit an average of estimates to points, with weights by cross-validation.

    Parameters
    ----------
    points : array, shape (n, d)
        Unit vectors in float64. Of more than 10,000, a random part decides on the weights.
    candidates : tuple of {"kernels", "mixtures", "flow"}
        Which estimates to consider beside the uniform distribution.
    folds : {"locations", "rows"}
        Whether points at one location stay in one fold.
    fit_flow : callable (points, seed) -> Flow
        Fits the candidate "flow".
    generator : numpy Generator
        Draws the folds and the seeds.
    progress : bool or callable (done, total)
        Show a progress bar, or call a function with the number of fits done and their total.
    """
    part = points[np.sort(generator.permutation(len(points))[:_MOST_POINTS])]
    fold = folds_of(part, folds, generator)
    n_folds = int(fold.max()) + 1
    dictionary = _Dictionary.of(part, candidates, fit_flow)
    seed = int(generator.integers(2**31))
    values = np.empty((len(part), len(dictionary.names)))
    total = (n_folds + 1) * dictionary.rounds
    with progress_bar(progress, "fits", total) as show:
        counter = count(1)

        def advance() -> None:
            show(next(counter))

        for k in range(n_folds):
            values[fold == k] = dictionary.log_densities(part[fold != k], part[fold == k], seed, advance)
        # One point of the uniform distribution keeps the density positive far from all points.
        prior = np.eye(values.shape[1])[-1]
        chosen = stacking_weights(values, prior=prior) >= _LEAST_WEIGHT
        chosen[-1] = True
        weights = stacking_weights(values[:, chosen], prior=prior[chosen])
        average = dictionary.restricted(chosen).average(points, weights, seed, advance)
        show(total)
    return average


def _uniform(dim: int) -> VonMisesFisherComponents:
    return VonMisesFisherComponents(np.eye(1, dim), np.zeros(1), np.ones(1))


def _flow_log_density(flow: Flow, points: NDArray[np.float64]) -> NDArray[np.float64]:
    data = torch.as_tensor(points.astype(np.float32))
    with torch.no_grad():
        values = torch.cat([flow.log_prob(block) for block in torch.split(data, _BLOCK)])
    in_double: NDArray[np.float64] = values.numpy().astype(np.float64)
    return in_double
