"""Density estimation on the sphere: kernel estimates, mixtures, flows trained by SSW or by likelihood, averages."""

from typing import TYPE_CHECKING, Any

from sphereot._support.extras import require
from sphereot.density.adaptive_kde import AdaptiveKDE
from sphereot.density.components import VonMisesFisherComponents
from sphereot.density.kde import SphericalKDE
from sphereot.density.mixture import VonMisesFisherMixture

if TYPE_CHECKING:
    from sphereot.density.averaging import DensityAverage
    from sphereot.density.estimator import DensityEstimator
    from sphereot.density.training import History

__all__ = [
    "AdaptiveKDE",
    "DensityAverage",
    "DensityEstimator",
    "History",
    "SphericalKDE",
    "VonMisesFisherComponents",
    "VonMisesFisherMixture",
]


def __getattr__(name: str) -> Any:
    if name not in ("DensityAverage", "DensityEstimator", "History"):
        raise AttributeError(f"module 'sphereot.density' has no attribute {name!r}")
    require("torch", f"sphereot.density.{name}", extra="density")
    from sphereot.density import averaging, estimator, training

    modules = {"DensityAverage": averaging, "DensityEstimator": estimator, "History": training}
    return getattr(modules[name], name)
