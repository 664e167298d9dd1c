"""Drawing the frames of great circles: independent, in orthogonal blocks, or evenly spread (Section 3.2)."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, device, full_precision, in_host_memory, namespace, to_kind
from sphereot._arrays.random import fresh_generator, is_own_generator, normal_source, require_seed_when_staged

_LARGEST_SPREAD_SETS = {16: 200, 64: 128}  # by highest dimension: spreading L planes costs L^2 d
# Spreading saves about 2 L / d^2 of the variance that blocks leave: less in higher dimension, and it costs more.
_HIGHEST_SPREAD_DIM = max(_LARGEST_SPREAD_SETS)


def draw_frames(n_projections: int, dim: int, method: str, seed: Any, like: Array | None) -> Array:
    """Draw frames (L, d, 2) in the library, dtype and device of `like`; see `sphereot.great_circles`."""
    if seed is None:
        seed = fresh_generator(like)
    if is_own_generator(seed):
        draw = normal_source(seed, like)
        if in_host_memory(like):  # NumPy is faster: the arrays are too small for torch's threads
            return to_kind(frames_from_normals(lambda shape: draw(shape).numpy(), n_projections, dim, method), like)
        with full_precision(like):
            return frames_from_normals(draw, n_projections, dim, method)
    require_seed_when_staged(seed, like)
    # NumPy draws for every library, so that one seed gives the same great circles in all of them.
    return to_kind(frames_from_normals(normal_source(seed), n_projections, dim, method), like)


def frames_from_normals(draw: Callable[..., Array], n_projections: int, dim: int, method: str) -> Array:
    """Draw frames (L, d, 2) by a method, from a function `draw(shape)` of standard normal numbers."""
    if method == "iid":
        return independent_frames(draw, n_projections, dim)
    half = dim // 2
    # In the plane there is only one great circle. Up to d/2 planes, orthogonal planes have the largest distances.
    if method == "quasi" and dim > 2 and n_projections > half:
        if dim <= _HIGHEST_SPREAD_DIM:
            return _draw_spread(draw, [n_projections], dim)
        if dim % 2 == 0 and n_projections % half > 0:
            n_balanced = half + n_projections % half  # an incomplete block together with a complete one
            frames = _rotate(draw, [harmonic_planes(n_balanced, dim)])
            if n_balanced == n_projections:
                return frames
            blocks = _draw_orthogonal_blocks(draw, n_projections - n_balanced, dim)
            return namespace(frames).concat([frames, blocks], axis=0)
    return _draw_orthogonal_blocks(draw, n_projections, dim)


def independent_frames(draw: Callable[..., Array], n_frames: int, dim: int) -> Array:
    """Draw independent frames (Algorithm 1): Gram-Schmidt of two Gaussian vectors is uniform on V_{d,2}, without QR."""
    gaussian = draw((n_frames, 2, dim))
    return _gram_schmidt(gaussian[:, 0, :], gaussian[:, 1, :])


def _draw_orthogonal_blocks(draw: Callable[..., Array], n_frames: int, dim: int) -> Array:
    """Draw frames in blocks whose projectors sum to a multiple of the identity; the last block may be incomplete."""
    block = dim // 2 if dim % 2 == 0 else dim
    n_blocks = -(-n_frames // block)
    block = min(block, n_frames)
    axes = haar_matrices(draw, n_blocks, dim, min(2 * n_frames, dim))
    xp = namespace(axes)
    # Axes 0 1, 2 3, ..., in odd dimension twice around. The first planes of a block stay orthogonal.
    around = xp.arange(2 * block, device=device(axes)) % dim
    frames = xp.reshape(xp.take(axes, around, axis=2), (n_blocks, dim, block, 2))
    return xp.reshape(xp.permute_dims(frames, (0, 2, 1, 3)), (n_blocks * block, dim, 2))[:n_frames, :, :]


def replicate_frames(draw: Callable[..., Array], sizes: Sequence[int], dim: int, method: str) -> Array:
    """Draw the frames of several independent sets, one after the other."""
    if method == "quasi" and 2 < dim <= _HIGHEST_SPREAD_DIM and min(sizes) > dim // 2:
        return _draw_spread(draw, sizes, dim)
    sets = [frames_from_normals(draw, size, dim, method) for size in sizes]
    return namespace(sets[0]).concat(sets, axis=0)


def _draw_spread(draw: Callable[..., Array], sizes: Sequence[int], dim: int) -> Array:
    """Draw evenly spread sets of several sizes; a size too large for a set becomes several sets."""
    largest = next(size for highest, size in _LARGEST_SPREAD_SETS.items() if dim <= highest)
    parts = [len(part) for size in sizes for part in np.array_split(np.arange(size), -(-size // largest))]
    return _rotate(draw, [spread_planes(size, dim) for size in parts])


def _rotate(draw: Callable[..., Array], sets: list[NDArray[np.float64]]) -> Array:
    """Rotate each set of frames by an independent random rotation, so that each frame is uniform."""
    dim = sets[0].shape[1]
    rotations = haar_matrices(draw, len(sets), dim, dim)
    xp = namespace(rotations)
    rotated = []
    for shape, group in groupby(enumerate(sets), key=lambda item: item[1].shape):
        first, *others = (index for index, _ in group)  # sets of one size are the same
        fixed = xp.asarray(sets[first], dtype=rotations.dtype, device=device(rotations))
        images = rotations[first : first + 1 + len(others), None, :, :] @ fixed[None, ...]
        rotated.append(xp.reshape(images, (-1, *shape[1:])))
    frames = xp.concat(rotated, axis=0)
    # Some accelerators multiply matrices in less than the array's precision; the frames must be orthonormal to it.
    return _gram_schmidt(frames[..., 0], frames[..., 1])


def haar_matrices(draw: Callable[..., Array], n_matrices: int, dim: int, n_columns: int) -> Array:
    """Draw the first columns of uniform (Haar) orthogonal matrices, shape (n_matrices, dim, n_columns)."""
    gaussian = draw((n_matrices, dim, n_columns))
    xp = namespace(gaussian)
    q, r = xp.linalg.qr(gaussian)
    # QR leaves the signs to the implementation; only a positive diagonal of R makes Q uniform (Mezzadri, 2007).
    diagonal = xp.linalg.diagonal(r)[:, None, :]
    return xp.where(diagonal < 0, -q, q)


def _gram_schmidt(first: Array, second: Array) -> Array:
    """Orthonormal frames, shape (L, d, 2), of the planes through two vectors each, shapes (L, d)."""
    xp = namespace(first)

    def normalize(vectors: Array) -> Array:
        return vectors / xp.sqrt(xp.vecdot(vectors, vectors))[:, None]

    first = normalize(first)
    for _ in range(2):  # The second pass removes what cancellation left of `first` in nearly parallel pairs.
        second = normalize(second - xp.vecdot(first, second)[:, None] * first)
    return xp.stack([first, second], axis=-1)


_STEPS = 30  # four times this number reduces the variance by a further fifth to two fifths for d = 4 to 8
# Rounding makes the planes equal on all machines. The grid is coarse compared with the errors of a step, 1e-15, and
# fine compared with the distances of the planes.
_GRID = 2.0**16
_DIGITS_OF_STEP = 6


@lru_cache(maxsize=16)
def spread_planes(n_planes: int, dim: int) -> NDArray[np.float64]:
    """Frames, shape (n_planes, dim, 2), of planes far apart from each other, for dim >= 3; callers must not write.

    The sum of the distances is maximized by descent with step sizes of Barzilai and Borwein.
    """
    gaussian = np.random.RandomState([n_planes, dim]).standard_normal((2, n_planes, dim))
    frames = best_frames = _place_on_grid(gaussian)
    energy, slope = _energy_and_slope(frames)
    best_energy = energy
    step = 0.5 / n_planes  # The slope is a sum over all other planes.
    for iteration in range(_STEPS):
        moved = _place_on_grid(frames - step * slope)
        energy, moved_slope = _energy_and_slope(moved)
        if energy < best_energy:  # not every step descends
            best_energy, best_frames = energy, moved
        change, bend = moved - frames, moved_slope - slope
        curvature = abs(float(np.vdot(change, bend)))
        if curvature < 1e-12:
            break
        long_step, short_step = np.vdot(change, change) / curvature, curvature / np.vdot(bend, bend)
        step = float(f"{long_step if iteration % 2 == 0 else short_step:.{_DIGITS_OF_STEP}g}")
        frames, slope = moved, moved_slope
    return np.ascontiguousarray(np.moveaxis(best_frames, 0, -1))


def _place_on_grid(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormalize n pairs of vectors, shape (2, n, d), and round them."""
    frames = np.ascontiguousarray(np.moveaxis(_gram_schmidt(*pairs), -1, 0))
    return np.asarray(np.round(frames * _GRID) / _GRID)


def harmonic_planes(n_planes: int, dim: int) -> NDArray[np.float64]:
    """Frames, shape (n_planes, dim, 2), whose projectors sum to a multiple of the identity; always the same.

    A complex vector z is a plane of R^d, through (Re z, Im z) and (-Im z, Re z); the vectors here are the columns of
    dim / 2 rows of a discrete Fourier transform. Needs an even dim and at least dim / 2 planes.
    """
    half = dim // 2
    # Frequencies in a row would make neighbors nearly parallel.
    frequencies = np.random.default_rng((n_planes, dim)).permutation(n_planes)[:half]
    phases = 2 * np.pi / n_planes * (np.outer(np.arange(n_planes), frequencies) % n_planes)
    real, imaginary = np.cos(phases) / np.sqrt(half), np.sin(phases) / np.sqrt(half)
    return np.stack([np.concatenate([real, imaginary], axis=1), np.concatenate([-imaginary, real], axis=1)], axis=-1)


def _energy_and_slope(frames: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Minus the sum of mutual distances, and its gradient along the Grassmannian, for frames of shape (2, n, d)."""
    first, second = frames
    gram_11, gram_12, gram_22 = first @ first.T, first @ second.T, second @ second.T
    squared_distance = 2 - (gram_11**2 + gram_12**2 + (gram_12**2).T + gram_22**2)
    # A plane's pull on itself lies in the plane, and the last lines remove it; its distance must only not be zero.
    np.fill_diagonal(squared_distance, 1.0)
    distance = np.sqrt(squared_distance)
    for gram in (gram_11, gram_12, gram_22):
        gram /= distance
    slope = np.stack([gram_11 @ first + gram_12 @ second, gram_12.T @ first + gram_22 @ second])
    within_plane = np.einsum("aid,bid->abi", frames, slope)
    slope -= np.einsum("abi,aid->bid", within_plane, frames)
    return -float(np.sum(distance)), slope
