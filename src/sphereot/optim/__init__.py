"""Optimization on the sphere with PyTorch: optimizers for unit vectors, and gradient flows of particles.

`sphereot.flow` is the short way to a gradient flow; `ParticleFlow` goes one step at a time, and can be saved and taken
up again.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("sphereot.optim needs PyTorch: pip install 'sphereot[torch]'.") from error

from sphereot.gradient_flow import DivergenceError, FlowResult, flow
from sphereot.optim.particles import ParticleFlow
from sphereot.optim.riemannian import RiemannianAdam, RiemannianSGD

__all__ = ["DivergenceError", "FlowResult", "ParticleFlow", "RiemannianAdam", "RiemannianSGD", "flow"]
