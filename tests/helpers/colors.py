"""Colors in images: their location, luminance and contrast. Channels are in [0, 255]."""

import numpy as np

__all__ = ["contrast", "luminance", "middle_of"]


def luminance(colors) -> np.ndarray:
    """Relative luminance of colors, shape (..., 3), as WCAG 2.2 defines it."""
    channels = np.asarray(colors) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other) -> np.ndarray:
    """Ratio of luminances of colors, shape (..., 3), as WCAG 2.2 defines it."""
    pair = luminance(one) + 0.05, luminance(other) + 0.05
    return np.maximum(*pair) / np.minimum(*pair)


def middle_of(image: np.ndarray, color, tolerance: float = 40) -> np.ndarray:
    """Mean row and column of the pixels of a color."""
    indices = np.argwhere(np.abs(image - np.array(color)).max(axis=-1) <= tolerance)
    assert len(indices) > 0, "nothing of that color"
    return indices.mean(axis=0)
