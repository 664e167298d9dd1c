"""Density estimation on the sphere: normalizing flows trained by SSW or likelihood, and kernel estimates."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("sphereot.density needs PyTorch: pip install 'sphereot[density]'.") from error

from sphereot.density.estimator import DensityEstimator
from sphereot.density.training import History, TrainingDivergedError

__all__ = ["DensityEstimator", "History", "TrainingDivergedError"]
