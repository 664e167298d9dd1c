"""Great circles: drawing them, and projecting points onto them (Section 3.2, Lemma 1).

A great circle is the intersection of the sphere with a plane, given by an orthonormal frame U in V_{d,2}. A point x is
projected to the angle of U^T x, in turns in [0, 1).
"""

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import (
    Array,
    constant_when_compiled,
    floating_dtype,
    in_host_memory,
    is_double,
    is_torch,
    is_torch_traced,
    namespace,
    to_kind,
    without_gradient,
)
from sphereot._arrays.random import seed_of_draw
from sphereot._arrays.types import ArrayT, Frames, Method, NumpyPoints, Seed, SupportsDLPack
from sphereot._arrays.validation import as_frames, as_int, as_method, as_points, as_slice_count, require_values
from sphereot._backends import backend_for, kernel_serves, random_frames
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
    """Draw great circles of the sphere S^{d-1}, as orthonormal frames of their planes.

    Parameters
    ----------
    n_projections : int
        Number L of great circles.
    dim : int
        Dimension d of the space around the sphere, at least 2.
    method : {"iid", "orthogonal", "quasi"}, default "iid"
        How to draw the great circles: independently, or spread evenly, which reduces the variance of a mean over them.
    seed : int, generator or None, default None
        Seed of the great circles: an int, or a generator of the array library (`numpy.random.Generator`,
        `torch.Generator`, or a JAX key). With None, every call draws new great circles. Global random state is never
        used. Under `jax.jit`, None raises an error: pass a JAX key.
    like : array, optional
        Array whose library, floating type and device the frames get. By default, NumPy and float64.

    Returns
    -------
    array, shape (L, d, 2)
        Frames U with U^T U = I.

    Notes
    -----
    For every method, each frame spans a uniformly distributed plane, so the mean over great circles is unbiased. The
    methods differ in how the L planes depend on each other:

    - ``"iid"``: independent planes, as in Algorithm 1.
    - ``"orthogonal"``: pairs of columns of random orthogonal matrices. In even dimension, a block contains d/2 mutually
      orthogonal planes. In odd dimension, it contains d planes that share their axes in a cycle. The projectors U U^T
      of a block add up to a multiple of the identity, so a cost that is linear in the projector has no error.
    - ``"quasi"`` (quasi-random, evenly spread): up to d = 64, planes with large mutual distances, under a random
      rotation. A set contains at most 200 planes (128 for d > 16). It is the same on every machine. For d > 64, the
      planes are orthogonal blocks. If d is even and L is not a multiple of d/2, an incomplete block is balanced
      together with a complete one.

    A standard error from the costs of single great circles is correct only for ``"iid"``. For the other methods it is
    too large; use `ssw_estimate`. See :doc:`/background/accuracy` for the variances of the methods.

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
    if is_torch(like):
        require_values("like", like)
    return draw_great_circles(n_projections, dim, as_method(method), seed, like)


def project(x: ArrayT | NumpyPoints, projections: Frames) -> ArrayT:
    """Project points onto great circles (Lemma 1).

    Parameters
    ----------
    x : array, shape (n, d)
        Unit vectors.
    projections : array, shape (L, d, 2)
        Orthonormal frames of the great circles, as returned by `great_circles`.

    Returns
    -------
    array, shape (L, n)
        Angular positions in [0, 1), in turns (1 turn = 360 degrees). A point orthogonal to the plane of a great circle
        has no nearest point on the circle and gets position 0.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> equator = np.eye(3)[None, :, :2]
    >>> sphereot.project(np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.0, -1.0, 0.0]]), equator)
    array([[0.  , 0.25, 0.75]])
    """
    points = as_points("x", x, weighted=True)
    turns: ArrayT = backend_for(points).project(points, as_frames(projections, points))
    return turns


def frames_for(x: Array, n_projections: int | None, projections: Array | None, seed: Any, method: Any = "iid") -> Array:
    """Validate `projections` for points `x`, or draw great circles: frames (L, d, 2)."""
    method = as_method(method)
    if projections is None:
        return draw_great_circles(as_slice_count(n_projections), x.shape[1], method, seed, x)
    frames = as_frames(projections, x)
    as_slice_count(n_projections, frames)
    return without_gradient(frames)  # no backend differentiates in the circles themselves


def draw_great_circles(n_projections: int, dim: int, method: str, seed: Any, like: Array | None) -> Array:
    """Draw `great_circles` for validated arguments."""
    if is_torch(like):
        torch = sys.modules["torch"]
        # An operator draws when a compiled graph runs, and as often as torch.func.vmap asks for.
        if torch.compiler.is_compiling() or (seed is None and is_torch_traced()):
            define_torch_operators()
            return torch.ops.sphereot.great_circles(n_projections, dim, method, seed, without_gradient(like))
    return _draw(n_projections, dim, method, seed, like)


def draw_next_great_circles(n_projections: int, dim: int, method: str, seed: int, draws: Array, like: Array) -> Array:
    """Draw the great circles of draw number `draws` of a seed, inside a trace of torch, and increment `draws`."""
    define_torch_operators()
    operators = sys.modules["torch"].ops.sphereot
    return operators.next_great_circles(n_projections, dim, method, seed, draws, without_gradient(like))


@constant_when_compiled
@cache
def define_torch_operators() -> None:
    """Define the operators of torch that draw great circles."""
    import torch

    arguments = "SymInt n_projections, SymInt dim, str method, SymInt"
    draw = torch.library.custom_op(
        "sphereot::great_circles",
        _draw,
        schema=f"({arguments}? seed, Tensor like) -> Tensor",
        mutates_args=(),
        tags=(torch.Tag.nondeterministic_seeded,),
    )
    draw_next = torch.library.custom_op(
        "sphereot::next_great_circles",
        _draw_and_count,
        schema=f"({arguments} seed, Tensor(a!) draws, Tensor like) -> Tensor",
        mutates_args=("draws",),
    )
    for operator in (draw, draw_next):
        operator.register_fake(_empty_frames)
        operator.register_vmap(lambda *args, operator=operator: _draw_for_members(operator, *args))


def _draw(n_projections: int, dim: int, method: str, seed: Any, like: Array | None) -> Array:
    # The kernel is faster for independent great circles of float32 tensors.
    if seed is None and method == "iid" and in_host_memory(like) and kernel_serves(like) and not is_double(like):
        return to_kind(random_frames(n_projections, dim), like)
    return draw_frames(n_projections, dim, method, seed, like)


def _draw_and_count(n_projections: int, dim: int, method: str, seed: int, draws: Array, like: Array) -> Array:
    frames = _draw(n_projections, dim, method, seed_of_draw(seed, int(draws)), like)
    draws += 1
    return frames


def _empty_frames(n_projections: int, dim: int, *settings: Any) -> Array:
    like = settings[-1]
    return like.new_empty((n_projections, dim, 2), dtype=floating_dtype(like))


def _draw_for_members(
    operator: Any, info: Any, in_dims: Sequence[int | None], *settings: Any
) -> tuple[Array, int | None]:
    """Draw for torch.func.vmap: without a seed by its `randomness`; with a seed, all members share the circles."""
    seed, like = settings[3], settings[-1]
    settings = (*settings[:-1], like if in_dims[-1] is None else like.select(in_dims[-1], 0))
    if seed is None and info.randomness == "error":
        raise RuntimeError(
            "seed: great circles would be drawn at random inside torch.func.vmap. Pass a seed, or call vmap with "
            "randomness='same' (the members share their circles) or randomness='different'."
        )
    if seed is None and info.randomness == "different":
        return namespace(like).stack([operator(*settings) for _ in range(info.batch_size)]), 0
    return operator(*settings), None
