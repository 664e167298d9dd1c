"""Optimization on spheres: Riemannian SGD and Adam with the interface of `torch.optim`, and SSW gradient flows.

`gradient_flow` moves points to a sample, to the uniform distribution, or to a barycenter. `ParticleFlow` does the same
step by step. All of them need PyTorch when they are used.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sphereot._support.extras import require
from sphereot.optim.gradient_flow import FlowResult, ParticleFlow, gradient_flow

if TYPE_CHECKING:
    from sphereot.optim.riemannian import RiemannianAdam, RiemannianSGD

__all__ = ["FlowResult", "ParticleFlow", "gradient_flow"]
if find_spec("torch") is not None:
    __all__ += ["RiemannianAdam", "RiemannianSGD"]


def __getattr__(name: str) -> Any:
    if name not in ("RiemannianAdam", "RiemannianSGD"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("torch", f"sphereot.optim.{name}")
    from sphereot.optim import riemannian

    return getattr(riemannian, name)
