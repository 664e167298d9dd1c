"""Great circles: drawing them, and projecting points onto them (Section 3.2, Lemma 1).

A great circle is the intersection of the sphere with a plane, and a plane is an orthonormal frame U in V_{d,2}
(Section 3.2). Algorithm 1 draws the frames independently and uniformly; two other sets of frames, each frame of which
is uniform too, give the same expectation with less variance. Points go to turns: x -> angle of U^T x, in [0, 1)
(Lemma 1).
"""

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import is_torch, is_torch_compiling, is_torch_traced
from sphereot._arrays.types import ArrayT, Frames, Method, Points, Seed, SupportsDLPack
from sphereot._arrays.validation import as_frames, as_int, as_method, as_points
from sphereot._backends import backend_for
from sphereot.slicing.drawing import draw_frames


@overload
def great_circles(
    n_projections: int, dim: int, *, method: Method = ..., seed: Seed = ..., like: None = ...
) -> NDArray[np.float64]: ...


@overload
def great_circles(n_projections: int, dim: int, *, method: Method = ..., seed: Seed = ..., like: ArrayT) -> ArrayT: ...


def great_circles(
    n_projections: int, dim: int, *, method: Method = "iid", seed: Seed = None, like: SupportsDLPack | None = None
) -> Any:
    """Draw great circles of the sphere S^{d-1}, as orthonormal frames of the planes that hold them.

    Parameters
    ----------
    n_projections : int
        The number L of great circles.
    dim : int
        The dimension d of the space around the sphere, at least 2.
    method : {"iid", "orthogonal", "quasi"}
        How great circles are drawn: independently, or placed so that their mean varies less; see Notes.
    seed : int, generator of the array library, JAX key or None
        Where the random numbers come from. None draws afresh; no global random state is read or changed. Under
        `jax.jit` None is an error, because what is drawn while tracing is the same in every call: pass a JAX key.
    like : array, optional
        The frames take the library, floating type and device of this array. Without it: NumPy, float64.

    Returns
    -------
    array, shape (L, d, 2)
        Frames U with U^T U = I.

    Raises
    ------
    ValueError
        For fewer than one projection, fewer than two dimensions, an unknown method, or under `jax.jit` no seed.

    Notes
    -----
    Section 3.2 integrates over the uniform distribution on V_{d,2}, and Algorithm 1 draws from it. Whatever the method,
    each single frame spans a uniformly distributed plane, so the mean over the slices is unbiased. The methods differ
    in how the L planes of one draw depend on each other:

    - ``"iid"``: independent, as in Algorithm 1.
    - ``"orthogonal"``: pairs of columns of Haar orthogonal matrices. In even dimension a block is d/2 mutually
      orthogonal planes, in odd dimension d planes that share their axes in a cycle. A block sums to a multiple of the
      identity, so the part of the cost linear in the projector U U^T is integrated without error.
    - ``"quasi"``: well-placed planes under one common random rotation. Up to d = 64 they are spread over the
      Grassmannian by maximizing their mutual distances, at most 200 in a set (128 from d = 17 on); this takes some
      milliseconds the first time for an (L, d), and is cached. The sets are the same on every machine. Beyond, they
      are orthogonal blocks again, but in even dimension nothing is lost by a cut block: its planes and those of one
      whole block are replaced by as many that balance. Up to L = d/2 mutually orthogonal planes are the best there
      is.

    See :doc:`/precision` for the variance of each method by dimension and L.

    A standard error computed from the costs of single slices is right for independent ones only; with the other methods
    it is too large, by the root of the ratio of the variances.

    Examples
    --------
    >>> from sphereot import great_circles
    >>> frames = great_circles(6, 4, method="orthogonal", seed=0)
    >>> frames.shape
    (6, 4, 2)
    >>> import numpy as np
    >>> np.allclose(frames.mT @ frames, np.eye(2))
    True
    >>> np.allclose(np.mean(frames @ frames.mT, axis=0), np.eye(4) / 2)
    True
    """
    n_projections = as_int("n_projections", n_projections, 1, "the number of great circles")
    dim = as_int("dim", dim, 2, "the dimension of the space around the sphere")
    method = as_method(method)
    return draw_great_circles(n_projections, dim, method, seed, like)


def draw_great_circles(n_projections: int, dim: int, method: str, seed: Any, like: Any) -> Any:
    """`great_circles` of validated arguments.

    An operator of torch draws when a compiled graph runs, and as often as `torch.func.vmap` asks for.
    """
    if like is not None and is_torch(like) and (is_torch_compiling(like) or (seed is None and is_torch_traced())):
        from sphereot.slicing.operators import great_circles_operator

        return great_circles_operator(n_projections, dim, method, seed, like)
    return draw_frames(n_projections, dim, method, seed, like)


@overload
def project(x: NDArray[Any], projections: Frames) -> NDArray[Any]: ...


@overload
def project(x: ArrayT, projections: Frames) -> ArrayT: ...


def project(x: Points, projections: Frames) -> Any:
    """Project points onto great circles (Lemma 1).

    Parameters
    ----------
    x : array, shape (n, d)
        Unit vectors.
    projections : array, shape (L, d, 2)
        Orthonormal frames, as `great_circles` gives.

    Returns
    -------
    array, shape (L, n)
        Turns in [0, 1); a point orthogonal to a plane, which has no nearest point on the circle, gets turn 0.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> equator = np.eye(3)[None, :, :2]
    >>> sphereot.project(np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.0, -1.0, 0.0]]), equator)
    array([[0.  , 0.25, 0.75]])
    """
    points = as_points("x", x, weighted=True)
    return backend_for(points).project(points, as_frames(projections, points))
