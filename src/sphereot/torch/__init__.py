"""Losses for PyTorch: SSW between batches of embeddings, to the uniform distribution, and of two augmented views.

`sphereot.ssw` and similar functions accept tensors and are differentiable. The modules of this package also keep the
great circles and options of a training run, and can share a batch between processes. `SphericalAutoencoder` uses the
losses for a latent space on the sphere, and `sphereot.torch.metrics` contains measures of embeddings.
"""

from typing import TYPE_CHECKING

from sphereot._support.extras import require
from sphereot._support.lazy_modules import import_on_use

require("torch", "sphereot.torch")

from sphereot._backends import torch_backend
from sphereot.torch.alignment import AlignmentUniformityLoss, LossParts
from sphereot.torch.latent import Losses, SphericalAutoencoder
from sphereot.torch.losses import SSWLoss, UniformityLoss

if TYPE_CHECKING:
    from sphereot.torch import metrics as metrics

__all__ = [
    "AlignmentUniformityLoss",
    "LossParts",
    "Losses",
    "SSWLoss",
    "SphericalAutoencoder",
    "UniformityLoss",
    "array_api_backend",
]

array_api_backend = torch_backend.array_api_backend

__getattr__ = import_on_use(__name__, "metrics")
