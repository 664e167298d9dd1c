"""Losses for PyTorch: SSW between batches of embeddings, to the uniform measure, and losses of two augmented views.

`sphereot.ssw` and its like take tensors and are differentiable; the modules here keep what training needs: the slices,
the options, and the sharing of a batch over processes.
"""

from sphereot._support.extras import require

require("torch", "sphereot.torch")

from sphereot._backends.torch.backend import portable_path
from sphereot.torch.alignment_uniformity import AlignmentUniformityLoss
from sphereot.torch.losses import SSWLoss, UniformityLoss
from sphereot.torch.nt_xent import NTXentLoss
from sphereot.torch.uniformity_terms import GaussianPotentialLoss, SWUniformityLoss
from sphereot.torch.views import LossParts

__all__ = [
    "AlignmentUniformityLoss",
    "GaussianPotentialLoss",
    "LossParts",
    "NTXentLoss",
    "SSWLoss",
    "SWUniformityLoss",
    "UniformityLoss",
    "portable_path",
]
