"""Geometry of the sphere S^{d-1}: points as unit vectors."""

from typing import Any

from sphereot.arrays import Array, as_vectors, namespace, normal_source

__all__ = ["normalize", "random_uniform"]


def normalize(x: Array) -> Array:
    """Scale vectors to unit length.

    Parameters
    ----------
    x : array, shape (..., d)
        Nonzero, finite vectors.

    Returns
    -------
    array, shape (..., d)
        Unit vectors of the same directions.

    Raises
    ------
    ValueError
        If a vector is zero, NaN or infinite, for then it has no direction.

    Examples
    --------
    >>> import numpy as np
    >>> from sphereot import sphere
    >>> sphere.normalize(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    x = as_vectors("x", x)
    xp = namespace(x)
    # Scaling first keeps the squares of very long and very short vectors within range.
    x = x / xp.max(xp.abs(x), axis=-1, keepdims=True)
    return x / xp.linalg.vector_norm(x, axis=-1, keepdims=True)


def random_uniform(n: int, dim: int, *, seed: Any = None, like: Array | None = None) -> Array:
    """Points drawn from the uniform measure on the sphere.

    Parameters
    ----------
    n : int
        Number of points.
    dim : int
        Dimension d of the space around the sphere S^{d-1}.
    seed : int, generator or None
        Source of randomness, as in `sphereot.ssw`.
    like : array, optional
        The points take the library, floating type and device of this array. Without it: NumPy, float64.

    Returns
    -------
    array, shape (n, d)
        Unit vectors.

    Examples
    --------
    >>> from sphereot import sphere
    >>> sphere.random_uniform(5, 3, seed=0).shape
    (5, 3)
    """
    return normalize(normal_source(seed, like)((n, dim)))
