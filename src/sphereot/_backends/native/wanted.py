"""Which gradients of a measure are wanted, and how they come back."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.native.blocks import Floats

__all__ = ["Gradient", "Wanted"]

Gradient: TypeAlias = tuple[Floats | None, NDArray[np.float64] | None]
"""The gradient in the points of a measure and the gradient in its weights."""


@dataclass(frozen=True)
class Wanted:
    """Which gradients of a measure to compute."""

    points: bool
    weights: bool
