"""Great circles: drawing them, and projecting points onto them.

A great circle is the intersection of the sphere with a plane, and a plane is an orthonormal frame U in V_{d,2}
(Section 3.2). Algorithm 1 draws the frames independently and uniformly; two other sets of frames, each frame of which
is uniform too, give the same expectation with less variance. Points go to turns: x -> angle of U^T x, in [0, 1)
(Lemma 1).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import (
    Array,
    device,
    full_precision,
    in_host_memory,
    is_double,
    is_torch_compiling,
    namespace,
    to_kind,
)
from sphereot._arrays.random import fresh_generator, is_own_generator, normal_source, require_seed_when_staged
from sphereot._arrays.validation import as_frames, as_points, as_whole_number
from sphereot._backends import backend_for
from sphereot._backends import native as _native
from sphereot._backends.native.frames import FramesToDraw, frames_to_draw
from sphereot._support.calls import options_by_name
from sphereot.slicing.designs import harmonic_planes, spread_planes

__all__ = ["fresh_circles", "great_circles", "independent_frames", "project"]

_METHODS = ("iid", "orthogonal", "quasi")
_LARGEST_SPREAD_SET = 400  # Spreading costs L^2 d: more planes go in several sets, turned independently.
_HIGHEST_SPREAD_DIM = 64  # Spreading saves about 2 L / d^2 of what blocks leave: ever less, and it costs more.


@options_by_name
def great_circles(
    n_projections: int, dim: int, *, method: str = "iid", seed: Any = None, like: Array | None = None
) -> Array:
    """Draw great circles of the sphere S^{d-1}, as orthonormal frames of the planes that hold them.

    Parameters
    ----------
    n_projections : int
        The number L of great circles.
    dim : int
        The dimension d of the space around the sphere, at least 2.
    method : {"iid", "orthogonal", "quasi"}
        How the circles stand to each other; see Notes.
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
    The uniform law on V_{d,2} is what Section 3.2 integrates over and Algorithm 1 draws from. Whatever the method, each
    single frame spans a uniformly distributed plane, so the mean over the slices is unbiased. What differs is how the
    L planes of one draw stand to each other:

    - ``"iid"``: independent, as in Algorithm 1.
    - ``"orthogonal"``: pairs of columns of Haar orthogonal matrices. In even dimension a block is d/2 mutually
      orthogonal planes, in odd dimension d planes that share their axes in a cycle. A block sums to a multiple of the
      identity, so the part of the cost linear in the projector U U^T is integrated without error.
    - ``"quasi"``: well-placed planes, turned together by a random rotation. Up to d = 64 they are spread over the
      Grassmannian by maximizing their mutual distances, at most 400 in a set; this takes up to a second the
      first time for an (L, d), and is remembered. Beyond, they are orthogonal blocks again, but in even dimension
      nothing is lost by a cut block: its planes and those of one whole block are replaced by as many that balance.
      Up to L = d/2 mutually orthogonal planes are the best there is.

    Variance of SSW_2^2 relative to independent circles, orthogonal / quasi, mean over four pairs of clouds of 500
    points (standard errors about 6 percent of a value; 2026-11-15, ``python -m benchmarks.variance --dims 3 4 8 32 128
    --projections 16 64 90 200``):

    ===  =============  =============  =============  =============
    d    L = 16         L = 64         L = 90         L = 200
    ===  =============  =============  =============  =============
    3    0.27 / 0.0029  0.21 / 0.0006  0.20 / 0.0005  0.20 / 0.0002
    4    0.27 / 0.022   0.26 / 0.0044  0.27 / 0.0029  0.26 / 0.0019
    8    0.24 / 0.12    0.26 / 0.037   0.27 / 0.031   0.25 / 0.027
    32   0.23 / 0.23    0.23 / 0.19    0.26 / 0.19    0.24 / 0.16
    128  0.87 / 0.87    0.20 / 0.20    0.34 / 0.20    0.23 / 0.22
    ===  =============  =============  =============  =============

    The gain depends on the clouds: over 15 pairs on S^2, 64 quasi circles have the variance of 84 to 270,000
    independent ones, 2,250 in the median, and the least gain is with tight clusters close to each other (2026-11-17,
    ``python -m benchmarks.variance --range --dims 3 --repeats 4000``).

    Only independent slices show their precision by their spread: with the other methods a standard error computed from
    the costs of the slices is too large, by one over the root of these ratios.

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
    n_projections = as_whole_number("n_projections", n_projections, 1, "the number of great circles")
    dim = as_whole_number("dim", dim, 2, "the dimension of the space around the sphere")
    if method not in _METHODS:
        raise ValueError(f"method: found {method!r}, which is unknown; choose one of {', '.join(map(repr, _METHODS))}.")
    if is_torch_compiling(like):
        from sphereot._backends.torch import operators as ops

        return ops.great_circles(n_projections, dim, method, seed, like)
    if seed is None:
        if _kernel_draws(method, like):
            return to_kind(frames_to_draw(n_projections, dim).array(), like)
        seed = fresh_generator(like)
    if is_own_generator(seed):
        draw = normal_source(seed, like)
        if in_host_memory(like):  # NumPy builds faster: the arrays are too small for torch's threads
            return to_kind(_frames(lambda shape: draw(shape).numpy(), n_projections, dim, method), like)
        with full_precision(like):
            return _frames(draw, n_projections, dim, method)
    require_seed_when_staged(seed, like)
    # Whatever the library, NumPy draws and builds: one seed gives the same slices everywhere.
    return to_kind(_frames(normal_source(seed), n_projections, dim, method), like)


def fresh_circles(n_projections: int, dim: int, *, method: str, like: Array) -> Array | FramesToDraw:
    """`great_circles` without a seed; those that the kernel draws are left for it to draw where it needs them."""
    if _kernel_draws(method, like):
        return frames_to_draw(n_projections, dim)
    return great_circles(n_projections, dim, method=method, like=like)


def _kernel_draws(method: str, like: Array | None) -> bool:
    return method == "iid" and in_host_memory(like) and _native.serves(like) and not is_double(like)


def _frames(draw: Callable[..., Array], n_projections: int, dim: int, method: str) -> Array:
    if method == "iid":
        return independent_frames(draw, n_projections, dim)
    # In the plane all great circles are one; up to d/2 planes, orthogonal ones are as far apart as planes can be.
    if method == "quasi" and dim > 2 and n_projections > dim // 2:
        return _well_placed(draw, n_projections, dim)
    return _orthogonal_blocks(draw, n_projections, dim)


def project(x: Array, projections: Array) -> Array:
    """Turns of the geodesic projections of points on great circles (Lemma 1).

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
    x = as_points("x", x)
    return backend_for(x).project(x, as_frames(projections, x))


def independent_frames(draw: Callable[..., Array], n_frames: int, dim: int) -> Array:
    """Frames drawn one by one (Algorithm 1); Gram-Schmidt of two Gaussian vectors is uniform on V_{d,2}: no QR."""
    gaussian = draw((n_frames, 2, dim))
    return _gram_schmidt(gaussian[:, 0, :], gaussian[:, 1, :])


def _orthogonal_blocks(draw: Callable[..., Array], n_frames: int, dim: int) -> Array:
    """Frames in blocks whose projectors sum to a multiple of the identity; the last block may be cut short."""
    block = dim // 2 if dim % 2 == 0 else dim
    n_blocks = -(-n_frames // block)
    block = min(block, n_frames)
    axes = _haar(draw, n_blocks, dim, min(2 * n_frames, dim))
    xp = namespace(axes)
    # Axes 0 1, 2 3, ... and, in odd dimension, once more around: the first planes of a cut block stay orthogonal.
    around = xp.arange(2 * block, device=device(axes)) % dim
    frames = xp.reshape(xp.take(axes, around, axis=2), (n_blocks, dim, block, 2))
    return xp.reshape(xp.permute_dims(frames, (0, 2, 1, 3)), (n_blocks * block, dim, 2))[:n_frames, :, :]


def _well_placed(draw: Callable[..., Array], n_frames: int, dim: int) -> Array:
    """Spread frames in low dimension; in high dimension orthogonal blocks, a cut and a whole one balanced."""
    if dim <= _HIGHEST_SPREAD_DIM:
        n_sets = -(-n_frames // _LARGEST_SPREAD_SET)
        sizes = [n_frames // n_sets + (i < n_frames % n_sets) for i in range(n_sets)]
        return _turned(draw, [spread_planes(size, dim) for size in sizes])
    block = dim // 2
    if dim % 2 == 1 or n_frames % block == 0:
        return _orthogonal_blocks(draw, n_frames, dim)
    n_balanced = block + n_frames % block
    balanced = _turned(draw, [harmonic_planes(n_balanced, dim)])
    if n_balanced == n_frames:
        return balanced
    return namespace(balanced).concat([balanced, _orthogonal_blocks(draw, n_frames - n_balanced, dim)], axis=0)


def _turned(draw: Callable[..., Array], sets: list[NDArray[np.float64]]) -> Array:
    """Sets of frames, each turned by a random rotation of its own and so unbiased."""
    dim = sets[0].shape[1]
    rotations = _haar(draw, len(sets), dim, dim)
    xp = namespace(rotations)
    fixed = [xp.asarray(frames, dtype=rotations.dtype, device=device(rotations)) for frames in sets]
    turned = xp.concat([xp.tensordot(u, rotations[i, :, :], axes=((1,), (1,))) for i, u in enumerate(fixed)], axis=0)
    # Some accelerators multiply matrices in less than the array's precision; the frames must be orthonormal to it.
    return _gram_schmidt(turned[:, 0, :], turned[:, 1, :])


def _haar(draw: Callable[..., Array], n_matrices: int, dim: int, n_columns: int) -> Array:
    """First columns of Haar orthogonal matrices, shape (n_matrices, dim, n_columns)."""
    gaussian = draw((n_matrices, dim, n_columns))
    xp = namespace(gaussian)
    q, r = xp.linalg.qr(gaussian)
    # QR leaves the signs to the implementation; only a positive diagonal of R makes Q uniform (Mezzadri, 2007).
    diagonal = xp.linalg.diagonal(r)[:, None, :]
    return xp.where(diagonal < 0, -q, q)


def _gram_schmidt(first: Array, second: Array) -> Array:
    """Orthonormal frames, shape (L, d, 2), of the planes through two vectors each, shapes (L, d)."""
    xp = namespace(first)
    first = _unit(first)
    for _ in range(2):  # The second pass takes away what cancellation left of `first` in nearly parallel pairs.
        second = _unit(second - xp.vecdot(first, second)[:, None] * first)
    return xp.stack([first, second], axis=-1)


def _unit(vectors: Array) -> Array:
    xp = namespace(vectors)
    return vectors / xp.sqrt(xp.vecdot(vectors, vectors))[:, None]
