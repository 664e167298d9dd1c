"""Density estimation on the sphere: flows trained by SSW or by likelihood, kernel estimates, mixtures, averages."""

from sphereot._support.extras import require

require("torch", "sphereot.density", extra="density")

from sphereot.density.averaging import DensityAverage
from sphereot.density.estimator import DensityEstimator
from sphereot.density.training import History

__all__ = ["DensityAverage", "DensityEstimator", "History"]
