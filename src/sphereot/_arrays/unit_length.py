"""Tolerance of the rule that points have unit length."""

__all__ = ["unit_length_tolerance"]


def unit_length_tolerance(eps: float, *, half: bool) -> float:
    """How far the length of a unit vector may be from 1.

    Wide enough for vectors normalized in their own precision, narrow enough to catch vectors never normalized.

    Parameters
    ----------
    eps : float
        Machine epsilon of the floating type that the vectors have now.
    half : bool
        Whether they had a half-precision type before they were converted.

    Examples
    --------
    >>> unit_length_tolerance(2.0**-52, half=False), unit_length_tolerance(2.0**-23, half=True)
    (1e-06, 0.05)
    """
    return 0.05 if half else max(1e-6, 1e3 * eps)
