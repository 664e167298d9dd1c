"""Losses for PyTorch: SSW between batches of embeddings, to the uniform distribution, and of two augmented views.

`SphericalAutoencoder` uses them for a latent space on the sphere, `sphereot.torch.metrics` measures embeddings.

`sphereot.ssw` and its like take tensors and are differentiable; the modules here keep what training needs: the slices,
the options, and the sharing of a batch over processes.
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
