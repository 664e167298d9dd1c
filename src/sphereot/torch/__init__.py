"""Losses for PyTorch: SSW between batches of embeddings, and to the uniform measure.

`sphereot.ssw` and its like take tensors and are differentiable; the modules here keep what training needs: the slices,
the options, and the sharing of a batch over processes.
"""

from sphereot._support.extras import require

require("torch", "sphereot.torch")

from sphereot._backends.torch.backend import portable_path
from sphereot.torch.losses import SSWLoss, UniformityLoss

__all__ = ["SSWLoss", "UniformityLoss", "portable_path"]
