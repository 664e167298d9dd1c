"""Density estimation on the sphere: normalizing flows trained by SSW or by likelihood, and kernel density estimates."""

from sphereot._support.extras import require

require("torch", "sphereot.density", extra="density")

from sphereot.density.estimator import DensityEstimator
from sphereot.density.training import History

__all__ = ["DensityEstimator", "History"]
