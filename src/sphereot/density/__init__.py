"""Density estimation on the sphere: kernel estimates, mixtures, flows trained by SSW or by likelihood, averages."""

from typing import TYPE_CHECKING, Any

from sphereot._support.extras import require
from sphereot.density._estimator import DensityModel
from sphereot.density.averaging import AverageDensity, load
from sphereot.density.components import VonMisesFisherComponents
from sphereot.density.kde import AdaptiveKDE, SphericalKDE
from sphereot.density.mixture import VonMisesFisherMixture

if TYPE_CHECKING:
    from sphereot.density.flow import FlowDensity, History

__all__ = [
    "AdaptiveKDE",
    "AverageDensity",
    "DensityModel",
    "FlowDensity",
    "History",
    "SphericalKDE",
    "VonMisesFisherComponents",
    "VonMisesFisherMixture",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in ("FlowDensity", "History"):
        raise AttributeError(f"module 'sphereot.density' has no attribute {name!r}")
    require("torch", f"sphereot.density.{name}", extra="density")
    from sphereot.density import flow

    return getattr(flow, name)
