"""High dimension: the kernel projects several slices at a time, with the same results as a matrix product in NumPy."""

import numpy as np
import pytest

from sphereot import get_num_threads, great_circles, set_num_threads, sphere
from sphereot._backends import native as _native
from sphereot._backends.native import backend
from sphereot._backends.protocol import Measure, Wanted

pytestmark = pytest.mark.skipif(not _native.available, reason="there is no compiled kernel")

BOTH = Wanted(points=True, weights=True)


def problem(n, m, dim, n_slices, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x, y = (sphere.random_uniform(k, dim, seed=rng).astype(dtype) for k in (n, m))
    a, b = rng.random(n), rng.random(m)
    return x, y, a, b, great_circles(n_slices, dim, seed=1).astype(dtype)


def results(x, y, a, b, frames, p):
    """Values and gradients, with weights and without, to another measure and to the uniform one."""
    weighted, equal = [Measure(x, a), Measure(y, b)], [Measure(x), Measure(y)]
    points, nothing = Wanted(True, False), Wanted(False, False)
    value, (first, second) = backend.mean_gradients(weighted, frames, p, [BOTH, BOTH])
    plain, ((plain_points, _), _) = backend.mean_gradients(equal, frames, p, [points, nothing])
    one, (one_gradients,) = backend.mean_gradients(weighted[:1], frames, p, [BOTH])
    even, ((even_points, _),) = backend.mean_gradients(equal[:1], frames, p, [points])
    arrays = [value, *first, *second, plain, plain_points, one, *one_gradients, even, even_points]
    return [np.asarray(array) for array in arrays]


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
@pytest.mark.parametrize(("dtype", "tolerance", "relative"), [(np.float32, 2e-5, 1e-4), (np.float64, 1e-10, 1e-10)])
def test_tiles_equal_matrix_products(n, m, dim, n_slices, p, dtype, tolerance, relative, monkeypatch):
    """Sizes around those of registers and tiles. Float32 turns may round to neighbors on the grid of 2^-24."""
    arguments = problem(n, m, dim, n_slices, dtype)
    by_tile = results(*arguments, p)
    monkeypatch.setattr(backend, "MAX_COORDINATES_BY_TILE", 0)
    for ours, theirs in zip(by_tile, results(*arguments, p), strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= tolerance * max(1.0, np.abs(theirs).max())
        assert np.abs(ours - theirs).max() <= relative * np.abs(theirs).max()  # gradients are far below 1


def test_results_do_not_depend_on_threads():
    arguments = problem(300, 200, 40, 200, np.float32)
    before = get_num_threads()
    try:
        by_threads = []
        for threads in (1, 2, 5):
            set_num_threads(threads)
            by_threads.append(results(*arguments, 2.0))
    finally:
        set_num_threads(before)
    for other in by_threads[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(by_threads[0], other, strict=True))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 4), (65, 3), (64, 8), (130, 67)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transpose(shape, dtype):
    """Sizes just below and above those of the register tiles and of the blocks of rows."""
    matrix = np.random.default_rng(0).normal(size=shape).astype(dtype)
    assert np.array_equal(backend.coordinate_rows(matrix), matrix.T)
