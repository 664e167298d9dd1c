"""Euclidean norms whose gradients are finite at the zero vector."""

from sphereot._arrays.libraries import Array, namespace

__all__ = ["safe_norm", "unit_or_zero"]


def safe_norm(v: Array) -> Array:
    """Euclidean norms of vectors (..., d), shape (..., 1), without overflow; the gradient at 0 is 0."""
    xp = namespace(v)
    largest = xp.max(xp.abs(v), axis=-1, keepdims=True)
    zero = largest == 0
    scale = xp.where(zero, xp.ones_like(largest), largest)
    # Both branches of a `where` are differentiated, and 0 times infinity is NaN: the root must not see zero at all.
    squares = xp.where(zero, xp.ones_like(largest), xp.sum((v / scale) ** 2, axis=-1, keepdims=True))
    return xp.where(zero, xp.zeros_like(largest), scale * xp.sqrt(squares))


def unit_or_zero(v: Array) -> tuple[Array, Array]:
    """Normalized vectors (..., d), zero for the zero vector, and their norms (..., 1)."""
    xp = namespace(v)
    length = safe_norm(v)
    return v / xp.where(length == 0, xp.ones_like(length), length), length
