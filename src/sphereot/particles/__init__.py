"""SSW gradient flows of particles: move points to a sample, to the uniform distribution, or to a barycenter.

`gradient_flow` runs one from start to end; `ParticleFlow`, which needs PyTorch, takes one step at a time.
"""

from importlib.util import find_spec
from typing import Any

from sphereot._support.extras import require
from sphereot.particles.flow import FlowResult, gradient_flow

__all__ = ["FlowResult", "gradient_flow"]
if find_spec("torch") is not None:
    __all__ += ["ParticleFlow"]


def __getattr__(name: str) -> Any:
    if name != "ParticleFlow":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("torch", "sphereot.particles.ParticleFlow")
    from sphereot.particles.descent import ParticleFlow

    return ParticleFlow
