"""Averages of density estimates: a dictionary of candidates, weighted by the likelihood of points held out (stacking).

Every candidate is fitted to the points outside a fold and evaluated at those inside. The weights of the average
maximize the likelihood of these values; then the candidates with a weight are fitted to all points.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import compress, count
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy
from sphereot._arrays.random import numpy_generator
from sphereot._arrays.types import Points
from sphereot._arrays.validation import as_int, as_points
from sphereot._support.atomic_write import reason_of
from sphereot._support.extras import Progress, progress_bar
from sphereot.density._estimator import ComponentModel, DensityModel, read_model_file
from sphereot.density.components import VonMisesFisherComponents, group_by_location, kernel_log_densities
from sphereot.density.kde import AdaptiveKDE, SphericalKDE, adaptive_bandwidths
from sphereot.density.mixture import VonMisesFisherMixture
from sphereot.sphere import normalize

if TYPE_CHECKING:
    from sphereot.density.flow import FlowDensity

_CANDIDATES = ("kernels", "mixtures", "flow")
_FOLDS = ("locations", "rows")

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

Floats = NDArray[np.float64]


class AverageDensity(ComponentModel):
    """Average of many density estimates, with weights by cross-validation: the largest likelihood of new points.

    Parameters
    ----------
    folds : {"locations", "rows"}
        How cross-validation divides the points. "locations" keeps repeated points together: weights are right for new
        locations. With "rows", a repeated point counts as a success of the narrowest kernels: weights are right for new
        points that repeat old locations as often as these repeat each other.
    candidates : tuple of {"kernels", "mixtures", "flow"}
        Estimates to average, besides the uniform distribution: kernel estimates of 6 bandwidths and 33 adaptive ones,
        mixtures of 16, 64 and 256 components, and a flow. The flow is trained six times, for a weight that is near zero
        on the data of the paper, and is left out by default.
    flow : FlowDensity, optional
        Settings of the candidate "flow", an exponential-map flow. By default it is trained by likelihood, with early
        stopping on a tenth of the points.
    seed : int, optional
        Makes a fit reproducible.
    progress : bool or callable (done, total)
        Show a progress bar, or call a function with the number of fits done and their total.

    Attributes
    ----------
    components_ : VonMisesFisherComponents
        The components of all kernel estimates, mixtures and the uniform distribution.
    shares_ : dict of str to float
        Weight of each estimate in the average, by name.
    flow_ : FlowDensity or None
        The fitted flow, if it has a weight.
    flow_weight_ : float
        Its weight.
    n_features_in_ : int
        Dimension d of the space around the sphere.

    Examples
    --------
    >>> from sphereot import sphere
    >>> from sphereot.density import AverageDensity
    >>> x = sphere.normalize(sphere.random_uniform(200, 3, seed=0) + [1.0, 0.0, 0.0])
    >>> bool(AverageDensity(seed=0).fit(x).score(x) > -2.5)  # the uniform distribution has -2.53
    True
    """

    _model = "auto"

    def __init__(
        self,
        *,
        folds: Literal["locations", "rows"] = "locations",
        candidates: tuple[str, ...] = ("kernels", "mixtures"),
        flow: "FlowDensity | None" = None,
        seed: int | None = None,
        progress: Progress = False,
    ) -> None:
        self.folds, self.candidates, self.flow = folds, candidates, flow
        self.seed, self.progress = seed, progress

    def fit(self, x: Points, y: None = None) -> Self:
        """Fit the estimates to points, and choose their weights.

        Parameters
        ----------
        x : array, shape (n, d)
            Unit vectors, at three locations or more. Of more than 10,000, a random part decides on the weights.
        y : None
            Ignored; present for the API of scikit-learn.

        Returns
        -------
        AverageDensity
            This estimate.
        """
        points = normalize(to_numpy(as_points("x", x)).astype(np.float64))
        self._check_parameters()
        generator = numpy_generator(self.seed)
        part = points[np.sort(generator.permutation(len(points))[:_MOST_POINTS])]
        fold = draw_folds(part, self.folds, generator)
        n_folds = int(fold.max()) + 1
        dictionary = _Dictionary.for_points(part, self.candidates, self._fit_flow)
        seed = int(generator.integers(2**31))
        values = np.empty((len(part), len(dictionary.names)))
        total = (n_folds + 1) * dictionary.rounds
        with progress_bar(self.progress, "fits", total) as show:
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
            dictionary = dictionary.restrict(chosen)
            parts, self.flow_ = dictionary.fit(points, seed, advance)
            show(total)
        self.shares_ = {name: float(weight) for name, weight in zip(dictionary.names, weights, strict=True)}
        self.flow_weight_ = self.shares_.get("flow", 0.0)
        of_parts = np.delete(weights, -2) if dictionary.has_flow else weights
        self.components_ = VonMisesFisherComponents.average(parts, of_parts.tolist())
        self.n_features_in_ = points.shape[1]
        return self

    def _check_parameters(self) -> None:
        if self.folds not in _FOLDS:
            raise ValueError(f"folds: got {self.folds!r}; choose one of {', '.join(map(repr, _FOLDS))}.")
        given = self.candidates
        if not isinstance(given, tuple | list) or not given or not all(name in _CANDIDATES for name in given):
            raise ValueError(
                f"candidates: got {given!r}; give a tuple of one or more of {', '.join(map(repr, _CANDIDATES))}."
            )
        if self.flow is not None:
            if "flow" not in given:
                raise ValueError(f"flow: got {self.flow!r}, but 'flow' is not one of the candidates; leave flow out.")
            self.flow._check_parameters()
            if self.flow.model != "expmap":
                raise ValueError(f"flow: got the model {self.flow.model!r}, but 'expmap' is needed; choose it.")

    def _fit_flow(self, points: Floats, seed: int) -> "FlowDensity":
        from sphereot.density.flow import FlowDensity

        settings = {} if self.flow is None else self.flow.get_params(deep=False)
        defaults = {"loss": "nll", "validation_fraction": 0.1, "patience": 300}
        settings |= {name: settings.get(name) or value for name, value in defaults.items()}
        return FlowDensity(**settings | {"seed": seed, "progress": False}).fit(points)

    def _log_density(self, points: Array) -> Floats:
        at = normalize(to_numpy(points).astype(np.float64))
        values = self.components_.log_density(at)
        if self.flow_ is None:
            return values
        of_flow = math.log(self.flow_weight_) + self.flow_._log_density(at)
        both: Floats = np.logaddexp(math.log1p(-self.flow_weight_) + values, of_flow)
        return both

    def _sample(self, n: int, seed: Any) -> Floats:
        generator = numpy_generator(seed)
        if self.flow_ is None:
            return self.components_.sample(n, generator)
        n_flow = int(generator.binomial(n, self.flow_weight_))
        parts = [self.components_.sample(n - n_flow, generator)]
        if n_flow:
            drawn = self.flow_.sample(n_flow, seed=int(generator.integers(2**31))).astype(np.float64)
            parts.append(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
        return generator.permutation(np.concatenate(parts))

    def _file_parameters(self) -> dict[str, Any]:
        parameters = super()._file_parameters()
        flow = parameters.pop("flow")
        return parameters if flow is None else flow.get_params(deep=False) | parameters

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> Self:
        candidates, flow = parameters["candidates"], None
        if isinstance(candidates, list):  # JSON has no tuples
            candidates = tuple(candidates)
        if isinstance(candidates, tuple) and "flow" in candidates:
            from sphereot.density.flow import FlowDensity

            flow = FlowDensity._from_parameters(parameters | {"model": "expmap", "seed": None, "progress": False})
        return super()._from_parameters(parameters | {"candidates": candidates, "flow": flow})

    def _arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, _ = super()._arrays()
        if self.flow_ is not None:
            arrays |= {f"flow.{name}": array for name, array in self.flow_._arrays()[0].items()}
        return arrays, {"shares": self.shares_, "flow_weight": self.flow_weight_}

    def _restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        self._check_parameters()
        super()._restore(arrays, values)
        self.shares_ = {str(name): float(share) for name, share in values["shares"].items()}
        self.flow_, self.flow_weight_ = None, float(values["flow_weight"])
        of_flow = {name.removeprefix("flow."): arrays[name] for name in arrays if name.startswith("flow.")}
        if not 0 <= self.flow_weight_ < 1 or bool(of_flow) != (self.flow_weight_ > 0):
            raise ValueError(f"the weight of its flow is {self.flow_weight_}")
        if of_flow:
            from sphereot.density.flow import FlowDensity

            self.flow_ = FlowDensity(**({} if self.flow is None else self.flow.get_params(deep=False)))
            self.flow_.n_features_in_ = self.n_features_in_
            self.flow_._restore(of_flow, {"history": {"losses": [], "validation": []}})


def stacking_weights(log_densities: Floats, *, prior: Floats | None = None, steps: int = 2000) -> Floats:
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
    scaled: Floats = weights / weights.sum()
    return scaled


def draw_folds(points: Floats, by: str, generator: np.random.Generator) -> NDArray[np.intp]:
    """Fold of each point, at random: 0, ..., 4, or fewer for fewer points or locations.

    With ``by="locations"`` all points at one location are in one fold.
    """
    first, location = group_by_location(points)
    if len(first) < 3:
        raise ValueError(
            f"x: the points are at {len(first)} locations, but an average of estimates needs three or more; choose "
            "SphericalKDE with a bandwidth."
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
    fit_flow: "Callable[[Floats, int], FlowDensity]"

    @classmethod
    def for_points(
        cls, points: Floats, candidates: tuple[str, ...], fit_flow: "Callable[[Floats, int], FlowDensity]"
    ) -> "_Dictionary":
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

    def restrict(self, chosen: NDArray[np.bool_]) -> "_Dictionary":
        """The candidates for which `chosen`, in the order of `names`, is True."""
        flags = chosen.tolist()
        n_bandwidths, n_kernels = len(self.bandwidths), len(self.bandwidths) + len(self.adaptive)
        return replace(
            self,
            bandwidths=list(compress(self.bandwidths, flags)),
            adaptive=list(compress(self.adaptive, flags[n_bandwidths:])),
            counts=list(compress(self.counts, flags[n_kernels:])),
            has_flow=self.has_flow and flags[-2],
        )

    @property
    def rounds(self) -> int:
        """The number of steps of a fit of all candidates, for a progress bar."""
        return bool(self.bandwidths or self.adaptive) + len(self.counts) + self.has_flow

    def concentrations(self, points: Floats) -> list[Floats]:
        """Concentrations at the points, for each kernel estimate."""
        widths = [np.full(len(points), width) for width in self.bandwidths]
        if self.adaptive:
            widths += adaptive_bandwidths(points, self.adaptive)
        return [width**-2 for width in widths]

    def mixture(self, points: Floats, n_components: int, seed: int) -> VonMisesFisherComponents:
        """A mixture fitted to the points."""
        n_components = min(n_components, len(group_by_location(points)[0]))
        return VonMisesFisherMixture(n_components, seed=seed).fit(points).components_

    def log_densities(self, train: Floats, test: Floats, seed: int, advance: Callable[[], None]) -> Floats:
        """Log-densities at `test` of all candidates fitted to `train`, shape (m, number of candidates)."""
        columns = []
        if self.bandwidths or self.adaptive:
            columns.append(kernel_log_densities(test, train, self.concentrations(train)))
            advance()
        for n_components in self.counts:
            columns.append(self.mixture(train, n_components, seed).log_density(test)[:, None])
            advance()
        if self.has_flow:
            columns.append(self.fit_flow(train, seed)._log_density(test)[:, None])
            advance()
        columns.append(_uniform(train.shape[1]).log_density(test)[:, None])
        return np.concatenate(columns, axis=1)

    def fit(
        self, points: Floats, seed: int, advance: Callable[[], None]
    ) -> "tuple[list[VonMisesFisherComponents], FlowDensity | None]":
        """All candidates fitted to the points: those with components, and the flow."""
        equal = np.full(len(points), 1 / len(points))
        parts = [VonMisesFisherComponents(points, kappas, equal) for kappas in self.concentrations(points)]
        if parts:
            advance()
        for n_components in self.counts:
            parts.append(self.mixture(points, n_components, seed))
            advance()
        flow = None
        if self.has_flow:
            flow = self.fit_flow(points, seed)
            advance()
        return [*parts, _uniform(points.shape[1])], flow


def _uniform(dim: int) -> VonMisesFisherComponents:
    return VonMisesFisherComponents(np.eye(1, dim), np.zeros(1), np.ones(1))


# ---- model files ----

_MODELS = ("expmap", "stereo", "kde", "adaptive", "mixture", "auto")
# Parameters that are in every file of an earlier version, whether its model has them or not.
_SHARED = {
    "model", "loss", "n_blocks", "n_components", "epochs", "lr", "final_lr", "n_projections", "method",
    "validation_fraction", "patience", "bandwidth", "folds", "candidates", "seed", "progress", "columns",
}  # fmt: skip


def load(path: str | os.PathLike[str]) -> DensityModel:
    """Read a model that the method `save` of a density estimator wrote.

    Parameters
    ----------
    path : path
        The model file.

    Returns
    -------
    SphericalKDE, AdaptiveKDE, VonMisesFisherMixture, FlowDensity or AverageDensity
        The fitted model, of the class that was saved.

    Raises
    ------
    ValueError
        For a file that is truncated, or is not a density model.

    Examples
    --------
    >>> import tempfile
    >>> from sphereot import density
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = density.SphericalKDE(0.3).fit(np.eye(3)).save(f"{folder}/model.safetensors")
    ...     kde = density.load(path)
    >>> kde
    SphericalKDE(bandwidth=0.3)
    """
    arrays, description = read_model_file(path)
    try:
        return _from_file(arrays, description)
    except MemoryError:
        raise
    except Exception as error:  # a description can be wrong in any way; the message names the file in all cases
        raise ValueError(
            f"{path}: this model file is damaged, or does not fit this version of sphereot ({reason_of(error)})."
        ) from error


def _from_file(arrays: dict[str, NDArray[Any]], description: dict[str, Any]) -> DensityModel:
    parameters = dict(description["parameters"])
    name = parameters["model"]
    if name not in _MODELS:
        raise ValueError(f"model: got {name!r}; choose one of {', '.join(map(repr, _MODELS))}.")
    kind: type[DensityModel]
    if name in ("expmap", "stereo"):
        from sphereot.density.flow import FlowDensity

        kind = FlowDensity
    else:
        kinds = {"kde": SphericalKDE, "adaptive": AdaptiveKDE, "mixture": VonMisesFisherMixture, "auto": AverageDensity}
        kind = kinds[name]
    if name == "mixture" and "epochs" in parameters:
        del parameters["n_components"]  # of a flow, in files of an earlier version
    unknown = set(parameters) - _SHARED - set(kind._get_param_names())
    if unknown:
        raise ValueError(f"there is no parameter {', '.join(map(repr, sorted(unknown)))}")
    model = kind._from_parameters(parameters)
    model.n_features_in_ = as_int("dim", description["dim"], 2, "the dimension")
    model._restore(arrays, description)
    return model
