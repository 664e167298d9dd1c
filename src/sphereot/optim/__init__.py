"""Riemannian optimizers for parameters that are unit vectors, with the interface of `torch.optim`."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("sphereot.optim needs PyTorch: pip install 'sphereot[torch]'.") from error

from sphereot.optim.riemannian import RiemannianAdam, RiemannianSGD

__all__ = ["RiemannianAdam", "RiemannianSGD"]
