"""Measures of embeddings on the sphere, to watch a training: alignment, uniformity, effective rank, nearest neighbors.

`Alignment`, `Uniformity`, `EffectiveRank`, `KNNAccuracy` and `SSWDistance`, between two streams, are torchmetrics
metrics; `functional` has the first four as plain functions, which need PyTorch alone.
"""

from sphereot._support.extras import require

require("torch", "sphereot.metrics", extra="metrics")
require("torchmetrics", "sphereot.metrics", extra="metrics")

from sphereot.metrics import functional
from sphereot.metrics.updating import Alignment, EffectiveRank, KNNAccuracy, SSWDistance, Uniformity

__all__ = ["Alignment", "EffectiveRank", "KNNAccuracy", "SSWDistance", "Uniformity", "functional"]
