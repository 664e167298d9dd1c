"""Averages of density estimates, weighted by the likelihood of held-out points (stacking); reading of model files.

Every candidate is fitted to the points outside a fold, and evaluated at the points inside. The weights of the average
maximize the likelihood of these values. Then the candidates with a weight are fitted to all points.
"""

import math
import os
from collections.abc import Callable
from itertools import compress, count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy
from sphereot._arrays.random import numpy_generator
from sphereot._arrays.types import Points
from sphereot._arrays.validation import as_int, as_points
from sphereot._support.atomic_write import reason_of
from sphereot._support.extras import Progress, progress_bar
from sphereot.density._estimator import ComponentModel, DensityModel, read_model_file
from sphereot.density.components import (
    Floats,
    VonMisesFisherComponents,
    group_by_location,
    kernel_log_densities,
)
from sphereot.density.kde import WIDEST, AdaptiveKDE, SphericalKDE, adaptive_bandwidths, cross_validated_bandwidth
from sphereot.density.mixture import VonMisesFisherMixture
from sphereot.sphere import normalize

if TYPE_CHECKING:
    from sphereot.density.flow import FlowDensity

_CANDIDATES = ("kernels", "mixtures", "flow")
_FOLDS = ("locations", "rows")

_N_FOLDS = 5
_MOST_POINTS = 10_000  # to choose the weights, which needs all pairs of points
_LEAST_WEIGHT = 0.01
_BANDWIDTH_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_ADAPTIVE = (
    *((neighbors, scale) for neighbors in (1, 2) for scale in (0.5, 0.7, 1.0, 1.4, 2.0)),
    *((neighbors, scale) for neighbors in (3, 5, 8, 16) for scale in (0.25, 0.5, 0.7, 1.0, 1.4)),
    *((32, scale) for scale in (0.25, 0.5, 1.0)),
)
_COMPONENTS = (16, 64, 256)


class AverageDensity(ComponentModel):
    """Average of many density estimates, with weights that maximize the likelihood of held-out points.

    Parameters
    ----------
    folds : {"locations", "rows"}, default "locations"
        How cross-validation divides the points. "locations" keeps repeated points together, so the weights are right
        for points at new locations. With "rows", the weights are right for new points that repeat old locations.
    candidates : tuple of {"kernels", "mixtures", "flow"}, default ("kernels", "mixtures")
        Estimates to average, in addition to the uniform distribution: 6 kernel estimates and 33 adaptive kernel
        estimates; mixtures of 16, 64 and 256 components; a flow. The flow is slow: it is trained six times.
    flow : FlowDensity, optional
        Settings of the candidate "flow", an exponential-map flow. By default it is trained by likelihood, with early
        stopping on a tenth of the points.
    seed : int, optional
        Seed of the random numbers, to make a fit reproducible.
    progress : bool or callable (done, total), default False
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
        Weight of the flow.

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
        """Fit the estimates to unit vectors, shape (n, d), at three or more locations, and choose their weights.

        The weights are chosen on a random part of at most 10,000 points. `y` is ignored.
        """
        points = normalize(to_numpy(as_points("x", x)).astype(np.float64))
        self._check_parameters()
        generator = numpy_generator(self.seed)
        subset = points[np.sort(generator.permutation(len(points))[:_MOST_POINTS])]
        fold = draw_folds(subset, self.folds, generator)
        n_folds = int(fold.max()) + 1
        candidates = _list_candidates(subset, self.candidates)
        seed = int(generator.integers(2**31))
        values = np.empty((len(subset), len(candidates)))
        n_kernels = sum(one.kind in ("bandwidth", "neighbors") for one in candidates)
        total = (n_folds + 1) * (min(n_kernels, 1) + len(candidates) - n_kernels - 1)
        with progress_bar(self.progress, "fits", total) as show:
            counter = count(1)

            def advance() -> None:
                show(next(counter))

            for k in range(n_folds):
                parts = self._fit_candidates(candidates, subset[fold != k], seed, advance)
                kernels, test = parts[:n_kernels], subset[fold == k]
                others = [
                    part._log_density if isinstance(part, DensityModel) else part.log_density
                    for part in parts[n_kernels:]
                ]
                columns = [log_density(test)[:, None] for log_density in others]
                if kernels:
                    kappas = [kernel.concentrations for kernel in kernels]
                    columns.insert(0, kernel_log_densities(test, kernels[0].means, kappas))
                values[fold == k] = np.concatenate(columns, axis=1)
            # One point of the uniform distribution keeps the density positive far from all points.
            prior = np.eye(values.shape[1])[-1]
            chosen = stacking_weights(values, prior=prior) >= _LEAST_WEIGHT
            chosen[-1] = True
            weights = stacking_weights(values[:, chosen], prior=prior[chosen])
            candidates = list(compress(candidates, chosen))
            parts = self._fit_candidates(candidates, points, seed, advance)
            show(total)
        self.shares_ = {one.name: float(weight) for one, weight in zip(candidates, weights, strict=True)}
        self.flow_weight_ = self.shares_.get("flow", 0.0)
        self.flow_ = parts.pop(-2) if self.flow_weight_ else None
        of_parts = weights if self.flow_ is None else np.delete(weights, -2)
        self.components_ = VonMisesFisherComponents.average(parts, of_parts.tolist())
        self.n_features_in_ = points.shape[1]
        return self

    def _check_parameters(self) -> None:
        if self.folds not in _FOLDS:
            raise ValueError(f"folds must be one of {', '.join(map(repr, _FOLDS))}, got {self.folds!r}.")
        given = self.candidates
        if not isinstance(given, tuple | list) or not given or not all(name in _CANDIDATES for name in given):
            raise ValueError(
                f"candidates must be a tuple of one or more of {', '.join(map(repr, _CANDIDATES))}, got {given!r}."
            )
        if self.flow is not None:
            if "flow" not in given:
                raise ValueError(f"flow must be None unless 'flow' is one of the candidates, got {self.flow!r}.")
            self.flow._check_parameters()
            if self.flow.model != "expmap":
                raise ValueError(f"flow must have the model 'expmap', got {self.flow.model!r}.")

    def _fit_candidates(
        self, candidates: "list[_Candidate]", points: Floats, seed: int, advance: Callable[[], None]
    ) -> list[Any]:
        """Fit all candidates to points: each becomes a `VonMisesFisherComponents`, or a `FlowDensity`."""
        n, dim = points.shape
        equal = np.full(n, 1 / n)
        widths = [np.full(n, one.setting) for one in candidates if one.kind == "bandwidth"]
        if pairs := [one.setting for one in candidates if one.kind == "neighbors"]:
            widths += adaptive_bandwidths(points, pairs)
        parts: list[Any] = [VonMisesFisherComponents(points, width**-2, equal) for width in widths]
        if parts:
            advance()
        for one in candidates[len(parts) : -1]:
            if one.kind == "mixture":
                n_components = min(one.setting, len(group_by_location(points)[0]))
                parts.append(VonMisesFisherMixture(n_components, seed=seed)._fit_sample(points, equal).components_)
            else:
                from sphereot.density.flow import FlowDensity

                settings = {} if self.flow is None else self.flow.get_params(deep=False)
                defaults = {"loss": "nll", "validation_fraction": 0.1, "patience": 300}
                settings |= {name: settings.get(name) or value for name, value in defaults.items()}
                parts.append(FlowDensity(**settings | {"seed": seed, "progress": False})._fit_sample(points))
            advance()
        uniform = VonMisesFisherComponents(np.eye(1, dim), np.zeros(1), np.ones(1))
        return [*parts, uniform]

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
    """Compute the weights of the average with the largest likelihood, shape (k,), by expectation maximization.

    `log_densities`, shape (n, k), are the values of k estimates at n points to which they were not fitted. `prior`,
    shape (k,), contains numbers of points that are already assigned to the estimates.

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
    """Assign each point at random to one of five folds (fewer for fewer points), by "locations" or by "rows"."""
    first, location = group_by_location(points)
    if len(first) < 3:
        raise ValueError(
            f"x must have points at three or more locations, got {len(first)}. Use SphericalKDE with a bandwidth."
        )
    if by == "rows":
        folds: NDArray[np.intp] = generator.permutation(len(points)) % min(_N_FOLDS, len(points))
        return folds
    of_locations = generator.permutation(len(first)) % min(_N_FOLDS, len(first))
    return of_locations[location]


class _Candidate(NamedTuple):
    """An estimate to average: its kind, and the bandwidth, neighbors and scale, or number of components."""

    name: str
    kind: Literal["bandwidth", "neighbors", "mixture", "flow", "uniform"]
    setting: Any = None


def _list_candidates(points: Floats, wanted: tuple[str, ...]) -> list[_Candidate]:
    """List the candidates for points: kernels first, and the uniform distribution last."""
    n_locations = len(group_by_location(points)[0])
    found: list[_Candidate] = []
    if "kernels" in wanted:
        best = cross_validated_bandwidth(points, np.full(len(points), 1 / len(points)))
        widths = [min(factor * best, WIDEST) for factor in _BANDWIDTH_FACTORS]
        pairs = [pair for pair in _ADAPTIVE if pair[0] < n_locations / 2] or [(1, 1.0)]
        found += [_Candidate(f"kernel, bandwidth {width:.3g}", "bandwidth", width) for width in widths]
        found += [_Candidate(f"kernel, neighbors {k}, scale {c:g}", "neighbors", (k, c)) for k, c in pairs]
    if "mixtures" in wanted:
        counts = [size for size in _COMPONENTS if size <= n_locations / 4] or [1]
        found += [_Candidate(f"mixture, components {size}", "mixture", size) for size in counts]
    if "flow" in wanted:
        found.append(_Candidate("flow", "flow"))
    return [*found, _Candidate("uniform", "uniform")]


# ---- model files ----

# Files of earlier versions contain all these parameters, for every model.
_SHARED = {
    "model", "loss", "n_blocks", "n_components", "epochs", "lr", "final_lr", "n_projections", "method",
    "validation_fraction", "patience", "bandwidth", "folds", "candidates", "seed", "progress", "columns",
}  # fmt: skip


def load(path: str | os.PathLike[str]) -> DensityModel:
    """Read a model that the method `save` of a density estimator wrote.

    Parameters
    ----------
    path : str or path
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
    kinds: dict[str, type[DensityModel]] = {
        "kde": SphericalKDE,
        "adaptive": AdaptiveKDE,
        "mixture": VonMisesFisherMixture,
        "auto": AverageDensity,
    }
    try:
        parameters = dict(description["parameters"])
        name = parameters["model"]
        if name in ("expmap", "stereo"):
            from sphereot.density.flow import FlowDensity

            kinds[name] = FlowDensity
        if name not in kinds:
            raise ValueError(f"model must be one of 'expmap', 'stereo', {', '.join(map(repr, kinds))}, got {name!r}.")
        kind = kinds[name]
        if name == "mixture" and "epochs" in parameters:
            del parameters["n_components"]  # of a flow, in files of an earlier version
        unknown = set(parameters) - _SHARED - set(kind._get_param_names())
        if unknown:
            raise ValueError(f"there is no parameter {', '.join(map(repr, sorted(unknown)))}")
        model = kind._from_parameters(parameters)
        model.n_features_in_ = as_int("dim", description["dim"], 2, "the dimension")
        model._restore(arrays, description)
    except MemoryError:
        raise
    except Exception as error:  # a description can be wrong in any way, and the message always names the file
        raise ValueError(
            f"{path}: this model file is damaged, or does not fit this version of sphereot ({reason_of(error)})."
        ) from error
    return model
