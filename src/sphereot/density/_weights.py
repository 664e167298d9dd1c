"""Weights of the points of an estimator: of its constructor, or of `fit` as scikit-learn passes them."""

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy
from sphereot._arrays.validation import as_weights

__all__ = ["fit_weights", "scaled_weights"]


def fit_weights(weights: Array | None, sample_weight: Array | None, x: Array) -> Array | None:
    """Validated weights of the points x: `sample_weight` of `fit`, or `weights` of the constructor; None for equal."""
    if sample_weight is None:
        return as_weights("weights", weights, "x", x)
    if weights is not None:
        raise ValueError("sample_weight: the estimator was made with weights; give weights once, to fit.")
    return as_weights("sample_weight", sample_weight, "x", x)


def scaled_weights(weights: Array | None, n: int) -> NDArray[np.float64]:
    """Validated weights as a NumPy array with a total of 1; equal for None."""
    masses = np.ones(n) if weights is None else to_numpy(weights).astype(np.float64)
    masses = masses / masses.max()  # the sum of very large weights would overflow
    scaled: NDArray[np.float64] = masses / masses.sum()
    return scaled
