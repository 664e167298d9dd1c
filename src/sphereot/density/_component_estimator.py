"""What estimators whose density is a sum of von Mises-Fisher components have in common: the API of scikit-learn."""

import inspect
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import Columns
from sphereot._arrays.libraries import Array, is_numpy, to_kind, to_numpy
from sphereot._arrays.types import ArrayT, Numbers, Points
from sphereot._arrays.validation import as_int, as_points_or_table, as_weights, require_same_dim
from sphereot._support.scikit_learn import ScikitLearnDensity, not_fitted_error, seed_or_random_state
from sphereot.density._kernels import normalized_float64
from sphereot.density.components import VonMisesFisherComponents

__all__ = ["ComponentEstimator", "weighted_mean"]


class ComponentEstimator(ScikitLearnDensity):
    """Density estimator with the fitted attribute `components_`; see `AdaptiveKDE` and `VonMisesFisherMixture`."""

    components_: VonMisesFisherComponents
    columns: Columns | None

    @overload
    def log_density(self, points: NDArray[Any]) -> NDArray[Any]: ...

    @overload
    def log_density(self, points: ArrayT) -> ArrayT: ...

    @overload
    def log_density(self, points: Points) -> Any: ...

    def log_density(self, points: Points) -> Any:
        """Log-density at points.

        Parameters
        ----------
        points : array, shape (m, d)
            Unit vectors.

        Returns
        -------
        array, shape (m,)
            Log-density against the surface measure of the sphere, in the library of `points`.
        """
        at = self._as_points(points)
        values = self.components_.log_density(normalized_float64(at))
        return values if is_numpy(at) else to_kind(values, at)

    score_samples = log_density

    @overload
    def density(self, points: NDArray[Any]) -> NDArray[Any]: ...

    @overload
    def density(self, points: ArrayT) -> ArrayT: ...

    @overload
    def density(self, points: Points) -> Any: ...

    def density(self, points: Points) -> Any:
        """Density at points; see `log_density`."""
        at = self._as_points(points)
        values = np.exp(self.components_.log_density(normalized_float64(at)))
        return values if is_numpy(at) else to_kind(values, at)

    def score(self, x: Points, y: None = None, sample_weight: Numbers | None = None) -> float:
        """Mean log-density of the points `x`, shape (m, d): the larger, the better the estimate fits them.

        `sample_weight`, shape (m,), are nonnegative weights of the points in the mean; equal by default.
        """
        points = self._as_points(x, "x")
        return weighted_mean(self.components_.log_density(normalized_float64(points)), sample_weight, points)

    def sample(
        self,
        n: int = 1,
        seed: int | np.random.Generator | None = None,
        *,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
    ) -> NDArray[np.float64]:
        """Draw points from the estimate.

        Parameters
        ----------
        n : int
            Number of points.
        seed : int, numpy Generator or None
            Source of randomness; no global random state is read or changed.
        random_state : int, numpy RandomState, numpy Generator or None
            scikit-learn's name for `seed`; give one of them.

        Returns
        -------
        array, shape (n, d)
            Unit vectors.
        """
        self._require_fit()
        generator = np.random.default_rng(seed_or_random_state(seed, random_state))
        return self.components_.sample(as_int("n", n, 1, "the number of points"), generator)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters by name, for the API of scikit-learn."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change constructor parameters; the next `fit` uses them."""
        names = self._parameter_names()
        for name, value in params.items():
            if name not in names:
                raise ValueError(f"{name} is not a parameter of {type(self).__name__}; choose from {', '.join(names)}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self).__init__).parameters
        changed = {
            name: value
            for name, value in self.get_params().items()
            if value is not parameters[name].default and name != "weights"
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def _as_points(self, points: Points, name: str = "points") -> Array:
        self._require_fit()
        at = as_points_or_table(name, points, self.columns)
        require_same_dim(name, at, "the fitted sample", self.components_.means)
        return at

    def _require_fit(self) -> None:
        if not hasattr(self, "components_"):
            raise not_fitted_error(f"This {type(self).__name__} has no points yet; call fit(x) first.")


def weighted_mean(values: NDArray[np.floating[Any]], sample_weight: Numbers | None, x: Array) -> float:
    """Mean of one value per point of `x`, with weights unless they are None."""
    weights = as_weights("sample_weight", sample_weight, "x", x)
    return float(np.mean(values) if weights is None else np.average(values, weights=to_numpy(weights)))
