"""Great circles: frames are orthonormal, each plane is uniform, and sets have the properties of their method."""

import hashlib
import importlib

import array_api_compat
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sphereot import great_circles
from sphereot.slicing.drawing import spread_planes

METHODS = ["iid", "orthogonal", "quasi"]
CIRCLES = [(1, 2), (5, 2), (1, 3)]
BLOCKS = [(2, 3), (7, 4), (10, 5), (16, 32), (40, 33), (50, 65), (20, 300)]  # Cut and whole, even and odd.
SETS = [(64, 3), (1000, 3), (70, 66), (110, 66)]  # Spread in one set, in several; balanced alone, beside a block.


def projectors(frames):
    """UU^T, shape (L, d, d)."""
    return frames @ np.swapaxes(frames, -1, -2)


def empty(library, dtype):
    """An array whose library and floating type the frames should have."""
    module = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))
    return module.asarray([0.0], dtype=getattr(module, dtype))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "dim"), CIRCLES + BLOCKS + SETS)
def test_frames_are_orthonormal(method, n, dim):
    frames = great_circles(n, dim, method=method, seed=1)
    assert isinstance(frames, np.ndarray)
    assert frames.dtype == np.float64
    assert frames.shape == (n, dim, 2)
    gram = np.swapaxes(frames, 1, 2) @ frames
    # A dot product of d terms and a normalization round by less than (d + 10) units in the last place.
    assert_allclose(gram, np.broadcast_to(np.eye(2), gram.shape), rtol=0, atol=(dim + 10) * np.finfo(float).eps)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "torch", "jax", "array_api_strict"])
@pytest.mark.parametrize("method", METHODS)
def test_frames_have_the_library_and_dtype_of_like(method, library, dtype):
    like = empty(library, dtype)
    for n, dim in [(9, 2), (20, 5), (70, 16)]:
        frames = great_circles(n, dim, method=method, seed=3, like=like)
        assert array_api_compat.array_namespace(frames) is array_api_compat.array_namespace(like)
        assert frames.dtype == like.dtype
        assert array_api_compat.device(frames) == array_api_compat.device(like)
        result = np.from_dlpack(frames).astype(np.float64)
        assert result.shape == (n, dim, 2)
        gram = np.swapaxes(result, 1, 2) @ result
        tolerance = (dim + 10) * np.finfo(dtype).eps
        assert_allclose(gram, np.broadcast_to(np.eye(2), gram.shape), rtol=0, atol=tolerance)


@pytest.mark.parametrize("method", METHODS)
def test_runs_under_jit_with_a_key(method):
    jax = pytest.importorskip("jax")
    like = jax.numpy.zeros(1)

    def draw(key):
        return great_circles(30, 5, method=method, seed=key, like=like)

    key = jax.random.key(4)
    # Fusing operations may change the last bits of float32.
    assert_allclose(jax.jit(draw)(key), draw(key), rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "dim"), [(4, 3), (5, 4), (7, 5), (12, 8), (40, 66)])
def test_each_plane_is_uniform(method, n, dim):
    """Unbiasedness: the first and the last plane of a draw, over many draws, follow the uniform distribution.

    For a uniform plane and a fixed unit vector a, a^T UU^T a follows Beta(1, (d-2)/2). By the inequality of Dvoretzky,
    Kiefer, Wolfowitz and Massart the empirical distribution function of N draws leaves a band of half-width
    sqrt(log(2 / alpha) / 2N) with probability below alpha. E[UU^T] = 2/d I is held to Hoeffding's band, entries
    of a projector having a range of 1 (diagonal: [0, 1]; off it: [-1/2, 1/2]). alpha = 1e-6 for each band.
    """
    n_draws, alpha = 2000, 1e-6
    draws = np.stack([great_circles(n, dim, method=method, seed=seed)[[0, -1]] for seed in range(n_draws)])
    skew = np.arange(1.0, dim + 1) / np.linalg.norm(np.arange(1.0, dim + 1))
    for planes in np.moveaxis(projectors(draws), 1, 0):
        for axis in (np.eye(dim)[0], np.eye(dim)[-1], skew):
            share = np.sort(np.clip(axis @ planes @ axis, 0, 1))
            exact = 1 - (1 - share) ** ((dim - 2) / 2)
            steps = np.arange(n_draws + 1) / n_draws
            gap = max(np.max(steps[1:] - exact), np.max(exact - steps[:-1]))
            assert gap < np.sqrt(np.log(2 / alpha) / (2 * n_draws))
        error = np.max(np.abs(np.mean(planes, axis=0) - 2 / dim * np.eye(dim)))
        assert error < np.sqrt(np.log(2 * dim**2 / alpha) / (2 * n_draws))


@pytest.mark.parametrize(("dim", "block"), [(3, 3), (4, 2), (5, 5), (8, 4), (9, 9), (32, 16)])
def test_orthogonal_blocks_sum_to_the_identity(dim, block):
    """Each whole block integrates every linear function of the projector without error."""
    frames = great_circles(3 * block, dim, method="orthogonal", seed=0)
    sums = np.sum(projectors(frames).reshape(3, block, dim, dim), axis=1)
    assert_allclose(sums, np.broadcast_to(2 * block / dim * np.eye(dim), sums.shape), rtol=0, atol=1e-13)
    assert np.max(np.abs(projectors(frames)[0] - projectors(frames)[block])) > 0.01  # Blocks are drawn independently.


@pytest.mark.parametrize("method", ["orthogonal", "quasi"])
@pytest.mark.parametrize("dim", [4, 5, 32, 33, 100])
def test_few_planes_are_mutually_orthogonal(method, dim):
    n = dim // 2
    columns = np.moveaxis(great_circles(n, dim, method=method, seed=0), 0, 1).reshape(dim, 2 * n)
    assert_allclose(columns.T @ columns, np.eye(2 * n), rtol=0, atol=1e-13)


def test_quasi_leaves_no_hole_on_the_sphere():
    """The normals of 64 great circles of S^2 come close to every direction.

    64 caps of radius r around the normals, up to sign, cover the half sphere only if 64 (1 - cos r) >= 1. The best
    covering of a plane, hexagonal, needs 1.1 times that radius; 1.5 times is still without a hole. Independent normals
    leave holes of about log(64) / 64 of the area: twice the radius.
    """
    least_radius = np.arccos(1 - 1 / 64)
    frames = great_circles(64, 3, method="quasi", seed=0)
    normals = np.cross(frames[:, :, 0], frames[:, :, 1])
    directions = np.random.default_rng(0).standard_normal((20_000, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    nearest = np.max(np.abs(directions @ normals.T), axis=1)
    assert np.max(np.arccos(nearest)) < 1.5 * least_radius


@pytest.mark.parametrize("method", ["orthogonal", "quasi"])
@pytest.mark.parametrize("dim", [3, 32])
def test_variance_is_below_that_of_independent_circles(method, dim):
    """The mean of (a^T UU^T a)^2 over 64 planes varies less than half as much as with independent planes.

    The share s = a^T UU^T a is Beta(1, (d-2)/2), so the variance of s^2 is known, and s itself, which whole blocks
    integrate exactly, explains a known part of it: corr(s, s^2)^2 = 0.95 for d = 3 and 0.83 for d = 32. What is left
    is far below half. Were the variance not reduced, 200 draws would show less than half of it with probability 1e-9.
    """
    n, n_draws = 64, 200
    axis = np.eye(dim)[0]
    rising = np.cumprod(dim / 2 + np.arange(4))  # E[s^k] = k! / ((d/2) (d/2 + 1) ... (d/2 + k - 1)).
    independent = (24 / rising[3] - (2 / rising[1]) ** 2) / n
    means = [
        np.mean((axis @ projectors(great_circles(n, dim, method=method, seed=seed)) @ axis) ** 2)
        for seed in range(n_draws)
    ]
    assert np.var(means) < independent / 2


@pytest.mark.parametrize(("n", "dim"), [(64, 3), (20, 7), (50, 32), (40, 64), (34, 66), (100, 66), (500, 768)])
def test_quasi_is_nearly_a_tight_frame(n, dim):
    """Planes that repel each other balance: the linear part of the cost is integrated almost exactly, for any L > d/2.

    The excess of |sum UU^T|_F^2 over its minimum, 4 L^2 / d, has expectation L (2 - 4/d) for independent planes.
    """
    columns = np.moveaxis(great_circles(n, dim, method="quasi", seed=0), 0, 1).reshape(dim, 2 * n)
    total = columns @ columns.T
    assert np.sum(total**2) - 4 * n**2 / dim < 0.01 * n * (2 - 4 / dim)


def test_spread_planes_are_always_the_same():
    before = spread_planes(30, 4).copy()
    spread_planes.cache_clear()
    assert_array_equal(spread_planes(30, 4), before)


# Recorded on x86-64 with AVX-512; the matrix products of other machines round differently, the planes must not.
CHECKSUMS = {
    (25, 3): "cf3d35ba6c02c053",
    (200, 3): "6f7618fd0602903f",
    (100, 4): "6dd17a8f0ca23d8b",
    (64, 10): "16e4a723950ec06c",
    (64, 32): "b9ecd38e1f9242d4",
    (128, 64): "7442f1bf226c2748",
}


@pytest.mark.parametrize(("size", "checksum"), CHECKSUMS.items())
def test_spread_planes_are_those_recorded(size, checksum):
    """Estimates with a seed stay the same between machines and versions."""
    spread_planes.cache_clear()
    planes = spread_planes(*size)
    assert hashlib.sha256(planes.astype("<f8").tobytes()).hexdigest()[:16] == checksum
    # Multiples of 2^-16, and so orthonormal to d times that; a rotation makes them orthonormal to rounding.
    assert_array_equal(planes * 2**16, np.round(planes * 2**16))
    assert_allclose(planes.mT @ planes, np.broadcast_to(np.eye(2), (size[0], 2, 2)), atol=1e-4)


@pytest.mark.parametrize("dim", [3, 8, 64])
def test_many_planes_are_several_sets(dim):
    """Beyond the largest set there are several, rotated independently; all frames are orthonormal."""
    frames = great_circles(450, dim, method="quasi", seed=0)
    assert frames.shape == (450, dim, 2)
    assert_allclose(frames.mT @ frames, np.broadcast_to(np.eye(2), (450, 2, 2)), atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_seeds(method):
    """The same seed repeats, another seed or none does not, and a generator continues."""

    def draw(seed):
        return great_circles(20, 4, method=method, seed=seed)

    assert_array_equal(draw(7), draw(7))
    assert_array_equal(draw(np.random.default_rng(7)), draw(np.random.default_rng(7)))
    generator = np.random.default_rng(7)
    for one, other in [(draw(7), draw(8)), (draw(None), draw(None)), (draw(generator), draw(generator))]:
        assert np.max(np.abs(one - other)) > 0.01


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", [None, 5])
def test_no_global_random_state_is_touched(method, library, seed):
    like = empty(library, "float64")

    def states():
        legacy = np.random.get_state()  # noqa: NPY002 (the state that must not change)
        yield from (legacy[1], legacy[2])
        if library == "torch":
            yield importlib.import_module("torch").random.get_rng_state().numpy()

    before = [np.copy(state) for state in states()]
    spread_planes.cache_clear()
    great_circles(20, 4, method=method, seed=seed, like=like)
    for now, then in zip(states(), before, strict=True):
        assert_array_equal(now, then)


@pytest.mark.parametrize("number", [0, -3, 2.0, 1.5, "10", None, True, np.nan])
def test_number_of_projections_must_be_a_positive_int(number):
    with pytest.raises(
        ValueError, match=r"^n_projections: the number of great circles must be an integer of at least 1, got "
    ):
        great_circles(number, 3)


@pytest.mark.parametrize("dim", [1, 0, -1, 3.0, "3", None])
def test_dimension_must_be_an_int_of_at_least_two(dim):
    with pytest.raises(ValueError, match=r"^dim: the dimension of .* must be an integer of at least 2, got "):
        great_circles(10, dim)


@pytest.mark.parametrize("method", ["sobol", "IID", "", None])
def test_error_of_an_unknown_method_lists_the_known(method):
    with pytest.raises(ValueError, match=r"^method must be one of 'iid', 'orthogonal', 'quasi', got "):
        great_circles(10, 3, method=method)


def test_numpy_integers_are_accepted():
    assert great_circles(np.int64(3), np.int32(4), seed=0).shape == (3, 4, 2)
