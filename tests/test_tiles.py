"""Many dimensions: several slices at a time in the kernel, against products of whole matrices by NumPy."""

import numpy as np
import pytest
import scipy.stats

from sphereot import _native, get_num_threads, great_circles, set_num_threads, sphere
from sphereot._native import gradients, slices
from sphereot._native.frames import drawn_frames
from sphereot._native.gradients import Wanted

pytestmark = pytest.mark.skipif(not _native.available, reason="there is no compiled kernel")

BOTH = Wanted(points=True, weights=True)


def problem(n, m, dim, n_slices, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x, y = (sphere.random_uniform(k, dim, seed=rng).astype(dtype) for k in (n, m))
    a, b = rng.random(n), rng.random(m)
    return x, y, a, b, great_circles(n_slices, dim, seed=1).astype(dtype)


def results(x, y, a, b, frames, p):
    """Values and gradients, with weights and without, to another measure and to the uniform one."""
    two = gradients.mean_gradients(x, y, a, b, frames, p, [BOTH, BOTH])
    plain = gradients.mean_gradients(x, y, None, None, frames, p, [Wanted(True, False), Wanted(False, False)])
    one = gradients.mean_gradients_uniform(x, a, frames, p, BOTH)
    equal = gradients.mean_gradients_uniform(x, None, frames, p, Wanted(True, False))
    found = [two[0], *two[1], *two[2], plain[0], plain[1][0], one[0], *one[1], equal[0], equal[1][0]]
    return [np.asarray(value) for value in found]


@pytest.mark.parametrize("p", [1.0, 2.0, 2.5])
@pytest.mark.parametrize(
    ("n", "m", "dim", "n_slices"),
    [
        (1, 2, 9, 1),
        (5, 33, 9, 7),
        (33, 33, 17, 8),
        (70, 64, 64, 50),
        (40, 41, 131, 101),
        (200, 150, 40, 300),
        (3, 4, 20, 300),
    ],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-10)])
def test_tiles_are_products_of_matrices(n, m, dim, n_slices, p, dtype, tolerance, monkeypatch):
    """Sizes about those of registers and tiles. Float32 turns may round to neighbors on the grid of 2^-24."""
    arguments = problem(n, m, dim, n_slices, dtype)
    found = results(*arguments, p)
    monkeypatch.setattr(slices, "MOST_COORDINATES_BY_TILE", 0)
    for ours, theirs in zip(found, results(*arguments, p), strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max()


def test_the_number_of_threads_does_not_show():
    arguments = problem(300, 200, 40, 200, np.float32)
    before = get_num_threads()
    try:
        found = []
        for threads in (1, 2, 5):
            set_num_threads(threads)
            found.append(results(*arguments, 2.0))
    finally:
        set_num_threads(before)
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("dim", [3, 40])
def test_frames_drawn_in_the_kernel_are_those_of_the_array(dim, monkeypatch):
    """Slice by slice they are made first, by tiles never; in blocks of slices the planes go on where they stopped."""
    x = sphere.random_uniform(70, dim, seed=0).astype(np.float32)
    drawn = drawn_frames(50, dim, seed=4)
    wanted = Wanted(True, False)
    for points_a_call in (slices.POINTS_A_CALL, 1):
        monkeypatch.setattr(slices, "POINTS_A_CALL", points_a_call)
        value, (gradient, _) = gradients.mean_gradients_uniform(x, None, drawn, 2.0, wanted)
        expected, (expected_gradient, _) = gradients.mean_gradients_uniform(x, None, drawn.array(), 2.0, wanted)
        assert value == expected
        assert np.array_equal(gradient, expected_gradient)
        costs = slices.slice_costs_uniform(x, None, drawn, 2.0)
        assert np.array_equal(costs, slices.slice_costs_uniform(x, None, drawn.array(), 2.0))
    assert np.array_equal(drawn[10:20].array(), drawn.array()[10:20])


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 4), (65, 3), (64, 8), (130, 67)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transpose(shape, dtype):
    """Sizes about those of the squares, and of the blocks of rows."""
    matrix = np.random.default_rng(0).normal(size=shape).astype(dtype)
    assert np.array_equal(slices.coordinate_rows(matrix), matrix.T)


def test_random_frames_are_uniform():
    """A coordinate of a uniform unit vector, squared, is Beta(1/2, (d - 1)/2); so is an inner product of two frames."""
    dim = 7
    frames = drawn_frames(4000, dim, seed=3).array()
    np.testing.assert_allclose(frames.mT @ frames, np.broadcast_to(np.eye(2), (4000, 2, 2)), atol=1e-6)
    law = scipy.stats.beta(0.5, (dim - 1) / 2)
    for k in range(dim):
        for column in range(2):
            assert scipy.stats.kstest(frames[:, k, column] ** 2, law.cdf).pvalue > 1e-4
    neighbors = np.sum(frames[:-1:2, :, 0] * frames[1::2, :, 1], axis=1)
    assert scipy.stats.kstest(neighbors**2, law.cdf).pvalue > 1e-4
    assert abs(np.mean(frames)) < 5 / np.sqrt(dim * frames.size)  # coordinates have variance 1 / d


def test_random_normals_are_normal():
    """Angles show themselves in the plane; lengths in high dimension, where a unit vector times sqrt(d) is normal."""
    angles = np.arctan2(*drawn_frames(20_000, 2, seed=5).array()[:, :, 0].T) / (2 * np.pi) + 0.5
    assert scipy.stats.kstest(angles, "uniform").pvalue > 1e-4
    signs = drawn_frames(20_000, 2, seed=6).array()
    orientation = np.linalg.det(signs.astype(np.float64))
    assert abs(np.mean(orientation)) < 5 / np.sqrt(20_000)
    high = drawn_frames(1, 100_000, seed=7).array()[0] * np.sqrt(100_000)
    assert scipy.stats.kstest(high[:, 0], "norm").pvalue > 1e-4
    assert abs(np.corrcoef(high.T)[0, 1]) < 1e-6  # orthogonal by construction
    assert abs(scipy.stats.kurtosis(high[:, 0])) < 5 * np.sqrt(24 / 100_000)


def test_fresh_frames_differ_and_seeds_repeat():
    torch = pytest.importorskip("torch")
    like = torch.zeros(1)
    first, second = (great_circles(3, 5, like=like) for _ in range(2))
    assert not torch.equal(first, second)
    assert first.dtype == torch.float32
    assert np.array_equal(drawn_frames(3, 5, seed=2**64 - 1).array(), drawn_frames(3, 5, seed=2**64 - 1).array())
    assert np.array_equal(drawn_frames(3, 5, seed=9).array(), drawn_frames(8, 5, seed=9).array()[:3])
