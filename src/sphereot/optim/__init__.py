"""Riemannian optimizers for parameters that are unit vectors: SGD and Adam with the interface of `torch.optim`."""

from sphereot._support.extras import require

require("torch", "sphereot.optim")

from sphereot.optim.riemannian import RiemannianAdam, RiemannianSGD

__all__ = ["RiemannianAdam", "RiemannianSGD"]
