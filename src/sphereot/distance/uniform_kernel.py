"""The kernel whose double sum is SSW_2 to the uniform distribution, without great circles."""

from typing import Any, overload

from numpy.typing import NDArray

from sphereot._arrays.libraries import namespace, readable
from sphereot._arrays.types import ArrayLike, ArrayT, NumpyArrayLike
from sphereot._arrays.validation import as_int, as_reals
from sphereot._backends.uniform_kernel import kernel_value


@overload
def uniform_kernel(cosines: NumpyArrayLike, dim: int) -> NDArray[Any]: ...


@overload
def uniform_kernel(cosines: ArrayT, dim: int) -> ArrayT: ...


def uniform_kernel(cosines: ArrayLike, dim: int) -> Any:
    """Compute the kernel K_d of SSW_2 to the uniform distribution, from the cosines of angles between points.

    For unit vectors x_i with weights a_i that add up to 1, the mean over all great circles is a double sum,
    SSW_2^2(mu, Unif) = sum_ij a_i a_j K_d(<x_i, x_j>). K_d is positive definite, falls from 1/12 at equal points to
    -1/24 at opposite points, and has mean zero under the uniform distribution.

    Parameters
    ----------
    cosines : array, any shape
        Inner products of unit vectors, in [-1, 1] up to rounding.
    dim : int
        Dimension d of the space around the sphere S^{d-1}, at least 2.

    Returns
    -------
    array
        Values of K_d, with the shape, library and dtype of `cosines`.

    Notes
    -----
    Given the cosine, the error is below 1e-14 in float64 and below 1e-7 in float32. For angles near 0, the rounding of
    the cosine changes K_d by at most 2e-9 in float64 and 4e-5 in float32.

    The derivative is infinite at 1 and, for d > 2, at -1. Automatic differentiation gives 0 at both.

    See :doc:`/background/uniformity` for the formulas and their proofs.

    Examples
    --------
    SSW_2 of four points on S^2 to the uniform distribution:

    >>> import numpy as np
    >>> from sphereot import uniform_kernel
    >>> x = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]) / 3**0.5
    >>> squared = np.mean(uniform_kernel(x @ x.T, 3))
    >>> print(f"{squared**0.5:.6f}")
    0.090597
    """
    dim = as_int("dim", dim, 2, "the dimension")
    array = as_reals("cosines", cosines)
    values = readable(array)
    if values is not None:
        xp = namespace(values)
        outside = xp.abs(values) > 1.0 + 1e3 * float(xp.finfo(values.dtype).eps)
        if bool(xp.any(outside)):
            largest = float(xp.max(xp.abs(values)))
            raise ValueError(
                f"cosines must be in [-1, 1], got a value of size {largest:.4g}. Normalize the points first with "
                "sphereot.sphere.normalize(x)."
            )
    return kernel_value(0.5 - 0.5 * array, dim)
