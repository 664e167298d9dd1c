"""Losses for PyTorch: SSW between batches of embeddings, to the uniform distribution, and of two augmented views.

`SphericalAutoencoder` uses them for a latent space on the sphere, `sphereot.torch.metrics` measures embeddings.

`sphereot.ssw` and its like take tensors and are differentiable; the modules here keep what training needs: the slices,
the options, and the sharing of a batch over processes.
"""

from sphereot._support.extras import require

require("torch", "sphereot.torch")

from sphereot._backends.torch.backend import portable_path
from sphereot.torch.alignment_uniformity import AlignmentUniformityLoss
from sphereot.torch.latent import Losses, SphericalAutoencoder
from sphereot.torch.losses import SSWLoss, UniformityLoss
from sphereot.torch.views import LossParts

__all__ = [
    "AlignmentUniformityLoss",
    "LossParts",
    "Losses",
    "SSWLoss",
    "SphericalAutoencoder",
    "UniformityLoss",
    "portable_path",
]
