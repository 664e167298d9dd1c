"""Base classes of density estimators: the API of scikit-learn (with its `BaseEstimator` if it is installed), files."""

import inspect
import json
import math
import os
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, is_numpy, to_kind, to_numpy
from sphereot._arrays.random import numpy_generator
from sphereot._arrays.types import ArrayT, Numbers, Points, Seed
from sphereot._arrays.validation import as_int, as_points, as_weights, own_weights, require_same_dim
from sphereot._support.atomic_write import reason_of, write_aside
from sphereot.density.components import VonMisesFisherComponents, normalized_float64

FORMAT = "sphereot-density-1"  # of model files


class _Parameters:
    """Replacement of scikit-learn's `BaseEstimator`: parameters and `repr`."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters by name."""
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params: Any) -> Self:
        """Change constructor parameters; the next `fit` uses them."""
        names = self._get_param_names()
        for name, value in params.items():
            if name not in names:
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {names!r}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if v is not defaults[k].default]
        return f"{type(self).__name__}({', '.join(changed)})"


if TYPE_CHECKING:
    BaseEstimator: TypeAlias = _Parameters
    NotFittedError, _UNUSED = ValueError, ""
else:
    try:
        from sklearn.base import BaseEstimator
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.metadata_routing import UNUSED as _UNUSED
    except ModuleNotFoundError:
        BaseEstimator, NotFittedError, _UNUSED = _Parameters, ValueError, None


class DensityModel(BaseEstimator):
    """Base class of the density estimators on the sphere S^{d-1}.

    Attributes
    ----------
    n_features_in_ : int
        Dimension d of the space around the sphere.
    """

    n_features_in_: int
    set_fit_request: Callable[..., Self]
    set_score_request: Callable[..., Self]

    _model: ClassVar[str]  # its name in model files
    # scikit-learn calls the points X, and would treat `x` as metadata.
    __metadata_request__fit: ClassVar[Any] = {"x": _UNUSED}
    __metadata_request__score: ClassVar[Any] = {"x": _UNUSED}
    __metadata_request__predict: ClassVar[Any] = {"x": _UNUSED}
    __metadata_request__predict_proba: ClassVar[Any] = {"x": _UNUSED}

    @abstractmethod
    def fit(self, x: Points, y: None = None) -> Self:
        """Fit the density to unit vectors `x`, shape (n, d), and return the estimator. `y` is ignored."""

    @abstractmethod
    def _log_density(self, points: Array) -> NDArray[np.float64]:
        """Log-density at validated points."""

    @abstractmethod
    def _sample(self, n: int, seed: Any) -> NDArray[np.floating[Any]]:
        """Draw unit vectors (n, d)."""

    @abstractmethod
    def _arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and other values of the fitted density for a model file."""

    @abstractmethod
    def _restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Set the fitted attributes to what `_arrays` returned; `values` is the whole description of the file."""

    @overload
    def log_density(self, points: ArrayT) -> ArrayT: ...

    @overload
    def log_density(self, points: Points) -> Any: ...

    def log_density(self, points: Points) -> Any:
        """Compute the log-density at points.

        Parameters
        ----------
        points : array, shape (m, d)
            Unit vectors.

        Returns
        -------
        array, shape (m,)
            Logarithm of the density per unit area of the sphere, in the library of `points`, without gradients. The
            log-density of the uniform distribution on S^2 is -log(4 pi) = -2.53.
        """
        at = self._as_points(points)
        return as_library_of(at, self._log_density(at))

    score_samples = log_density

    @overload
    def density(self, points: ArrayT) -> ArrayT: ...

    @overload
    def density(self, points: Points) -> Any: ...

    def density(self, points: Points) -> Any:
        """Compute the density at points; see `log_density`."""
        at = self._as_points(points)
        return as_library_of(at, np.exp(self._log_density(at)))

    def score(self, x: Points, y: None = None, sample_weight: Numbers | None = None) -> float:
        """Compute the mean log-density of the points `x`, shape (m, d). A larger value is a better fit.

        `sample_weight`, shape (m,), contains nonnegative weights of the points in the mean; equal by default.
        """
        points = self._as_points(x, "x")
        weights = as_weights("sample_weight", sample_weight, "x", points)
        values = self._log_density(points)
        return float(np.mean(values) if weights is None else np.average(values, weights=to_numpy(weights)))

    def sample(
        self, n: int = 1, seed: Seed = None, *, random_state: "Seed | np.random.RandomState" = None
    ) -> NDArray[Any]:
        """Draw points from the estimate.

        Parameters
        ----------
        n : int, default 1
            Number of points.
        seed : int, generator or None
            Seed, or a numpy Generator (for `FlowDensity`, a torch.Generator). Global random state is not used.
        random_state : as `seed`, or a numpy RandomState
            scikit-learn's name for `seed`. Only one of the two may be given.

        Returns
        -------
        array, shape (n, d)
            Unit vectors.
        """
        self._require_fit()
        n = as_int("n", n, 1, "the number of points")
        if random_state is not None:
            if seed is not None:
                raise ValueError("random_state must not be given with seed, which has the same meaning, got both.")
            if isinstance(random_state, np.random.RandomState):
                random_state = int(random_state.randint(2**31 - 1))
            seed = random_state
        return self._sample(n, seed)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted model and its parameters into one safetensors file; `sphereot.density.load` reads it."""
        from safetensors.numpy import save

        self._require_fit()
        arrays, values = self._arrays()
        description = {"parameters": self._file_parameters(), "dim": self.n_features_in_} | values
        metadata = {"format": FORMAT, "description": json.dumps(description, default=_as_python)}
        # Bytes first: the library's own writing of a file raises errors of its own on a full disk.
        content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata)
        with write_aside(path) as aside:
            aside.write_bytes(content)
        return Path(path)

    def _file_parameters(self) -> dict[str, Any]:
        """The model's name and its parameters. Weights are part of the arrays, and a function is not written."""
        parameters = {"model": self._model} | self.get_params(deep=False)
        parameters.pop("weights", None)
        if "progress" in parameters:
            parameters["progress"] = parameters["progress"] is True
        return parameters

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Make the model from what `_file_parameters` returned; it is not fitted yet."""
        return cls(**{name: parameters[name] for name in cls._get_param_names() if name in parameters})

    def _weighted_sample(
        self, x: Points, weights: Numbers | None, sample_weight: Numbers | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Select the points of positive weight, and scale their weights; `weights` are those of the constructor."""
        sample_weight = own_weights(sample_weight, x)
        rows = as_points("x", x, weighted=True)
        if sample_weight is not None and weights is not None:
            raise ValueError("sample_weight must be None for an estimator with weights. Give weights only to fit.")
        name, given = ("weights", weights) if sample_weight is None else ("sample_weight", sample_weight)
        valid = as_weights(name, given, "x", rows)
        masses = np.ones(rows.shape[0]) if valid is None else to_numpy(valid).astype(np.float64)
        masses = masses / masses.max()  # the sum of very large weights would overflow
        masses = masses / masses.sum()
        return normalized_float64(rows)[masses > 0], masses[masses > 0]

    def _as_points(self, points: Points, name: str = "points") -> Array:
        self._require_fit()
        at = as_points(name, points, weighted=True)
        require_same_dim(name, at, "the fitted sample", np.empty((1, self.n_features_in_)))
        return at

    def _require_fit(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit(x) first.")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that this is a density estimator."""
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.estimator_type = "density_estimator"
        return tags


class ComponentModel(DensityModel):
    """Density that is a weighted sum of von Mises-Fisher densities.

    Attributes
    ----------
    components_ : VonMisesFisherComponents
        Means, concentrations and weights.
    """

    components_: VonMisesFisherComponents
    _fitted_values: ClassVar[tuple[str, ...]] = ()  # other attributes in model files

    def _log_density(self, points: Array) -> NDArray[np.float64]:
        return self.components_.log_density(normalized_float64(points))

    def _sample(self, n: int, seed: Any) -> NDArray[np.float64]:
        return self.components_.sample(n, numpy_generator(seed))

    def _arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return dict(vars(self.components_)), {name: getattr(self, name) for name in self._fitted_values}

    def _restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        means, kappas, weights = (arrays[name].astype(np.float64) for name in ("means", "concentrations", "weights"))
        if means.shape != (len(means), values["dim"]) or not kappas.shape == weights.shape == (len(means),):
            raise ValueError(f"its components have shapes {means.shape}, {kappas.shape} and {weights.shape}")
        if not np.allclose(np.linalg.norm(means, axis=1), 1.0, rtol=0.0, atol=1e-6):
            raise ValueError("its means are not unit vectors")
        if np.any(kappas < 0) or np.any(weights <= 0) or not math.isclose(weights.sum(), 1.0, rel_tol=1e-6):
            raise ValueError("its concentrations or weights are out of range")
        self.components_ = VonMisesFisherComponents(means, kappas, weights)
        for name in self._fitted_values:
            if name in values:  # files of an earlier version do not have them
                setattr(self, name, values[name])


def as_library_of(points: Array, values: NDArray[np.float64]) -> Any:
    """Convert values at points to the library and dtype of the points; with NumPy they stay in float64."""
    return values if is_numpy(points) else to_kind(values, points)


def _as_python(value: Any) -> Any:
    """Convert a NumPy number for JSON: settings can come from a grid or a table."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"{value!r} cannot be written to a model file; use a plain number or text for this parameter.")
    return value.tolist()


def read_model_file(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read the arrays and the description of a model file, without running code from it.

    Raises ValueError with the name of the file if it is damaged.
    """
    from safetensors import SafetensorError, safe_open

    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(2, "there is no such model file", str(file))
    try:
        with safe_open(file, framework="np") as opened:
            metadata = opened.metadata() or {}
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, TypeError) as error:  # a TypeError for a dtype that NumPy does not have
        message = f"{file}: this is not a complete model file ({reason_of(error)}); write it again with `density fit`."
        raise ValueError(message) from error
    if metadata.get("format") != FORMAT:
        raise ValueError(
            f"{file}: this safetensors file is not a density model of sphereot (format {metadata.get('format')!r}, not "
            f"{FORMAT!r}); give a file that `density fit` wrote."
        )
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float64) or not np.isfinite(array).all():
            raise ValueError(
                f"{file}: this model file is damaged: {name!r} must contain finite numbers in float32 or float64; "
                "write it again with `density fit`."
            )
    try:
        description = json.loads(metadata["description"])
        if not isinstance(description, dict):
            raise ValueError("it is not an object")
    except (KeyError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{file}: the description in this model file cannot be read ({reason_of(error)}); write the file again "
            "with `density fit`."
        ) from error
    return arrays, description
