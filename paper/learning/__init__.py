"""Self-supervised learning on the sphere: augmented views, an encoder, training, linear evaluation (Appendix C.7).

The losses are in `sphereot.torch`, measures to watch a training in `sphereot.metrics`.
"""

from sphereot._support.extras import require

require("torch", "sphereot.self_supervised", extra="self_supervised")

from sphereot.self_supervised.augmentations import Augmentation
from sphereot.self_supervised.linear_evaluation import LinearEvaluation, linear_evaluation
from sphereot.self_supervised.resnet import ResNet18
from sphereot.self_supervised.training import PretrainingHistory, embed_all, pretrain, train_classifier

__all__ = [
    "Augmentation",
    "LinearEvaluation",
    "PretrainingHistory",
    "ResNet18",
    "embed_all",
    "linear_evaluation",
    "pretrain",
    "train_classifier",
]
