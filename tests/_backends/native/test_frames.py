"""Frames drawn by the kernel: their distribution, and that they do not depend on where they are drawn."""

import numpy as np
import pytest
import scipy.stats

from sphereot import great_circles, sphere
from sphereot._backends import native as _native
from sphereot._backends.native import backend, blocks, gradients
from sphereot._backends.native.frames import FrameSeed
from sphereot._backends.native.gradients import Wanted
from sphereot._backends.protocol import Measure

pytestmark = pytest.mark.skipif(not _native.available, reason="there is no compiled kernel")


@pytest.mark.parametrize("dim", [3, 40])
def test_frames_drawn_in_the_kernel_equal_the_array(dim, monkeypatch):
    """Drawn inside the kernel or beforehand as an array, in one block or in several, a seed gives the same frames."""
    x = sphere.random_uniform(70, dim, seed=0).astype(np.float32)
    frame_seed = FrameSeed(50, dim, seed=4)
    measures, wanted = [Measure(x)], [Wanted(True, False)]
    for planar_bytes in (None, 1):
        if planar_bytes is not None:  # in 40 dimensions by products of matrices, a few slices at a time
            monkeypatch.setattr(blocks, "MAX_COORDINATES_BY_TILE", 0)
            monkeypatch.setattr(blocks, "PLANAR_BYTES", planar_bytes)
        value, [(gradient, _)] = gradients.mean_gradients(measures, frame_seed, 2.0, wanted)
        expected, [(expected_gradient, _)] = gradients.mean_gradients(measures, frame_seed.array(), 2.0, wanted)
        assert value == expected
        assert np.array_equal(gradient, expected_gradient)
        costs = backend.slice_costs(measures, frame_seed, 2.0)
        assert np.array_equal(costs, backend.slice_costs(measures, frame_seed.array(), 2.0))
    assert np.array_equal(frame_seed.block(10, 20).array(), frame_seed.array()[10:20])


def test_random_frames_are_uniform():
    """A coordinate of a uniform unit vector, squared, is Beta(1/2, (d - 1)/2); so is an inner product of two frames."""
    dim = 7
    frames = FrameSeed(4000, dim, seed=3).array()
    np.testing.assert_allclose(frames.mT @ frames, np.broadcast_to(np.eye(2), (4000, 2, 2)), atol=1e-6)
    beta = scipy.stats.beta(0.5, (dim - 1) / 2)
    for k in range(dim):
        for column in range(2):
            assert scipy.stats.kstest(frames[:, k, column] ** 2, beta.cdf).pvalue > 1e-4
    neighbors = np.sum(frames[:-1:2, :, 0] * frames[1::2, :, 1], axis=1)
    assert scipy.stats.kstest(neighbors**2, beta.cdf).pvalue > 1e-4
    assert abs(np.mean(frames)) < 5 / np.sqrt(dim * frames.size)  # coordinates have variance 1 / d


def test_random_normals_are_normal():
    """Angles are tested in the plane; lengths in high dimension, where a unit vector times sqrt(d) is normal."""
    angles = np.arctan2(*FrameSeed(20_000, 2, seed=5).array()[:, :, 0].T) / (2 * np.pi) + 0.5
    assert scipy.stats.kstest(angles, "uniform").pvalue > 1e-4
    signs = FrameSeed(20_000, 2, seed=6).array()
    orientation = np.linalg.det(signs.astype(np.float64))
    assert abs(np.mean(orientation)) < 5 / np.sqrt(20_000)
    high = FrameSeed(1, 100_000, seed=7).array()[0] * np.sqrt(100_000)
    assert scipy.stats.kstest(high[:, 0], "norm").pvalue > 1e-4
    assert abs(np.corrcoef(high.T)[0, 1]) < 1e-6  # orthogonal by construction
    assert abs(scipy.stats.kurtosis(high[:, 0])) < 5 * np.sqrt(24 / 100_000)


def test_fresh_frames_differ_and_seeds_repeat():
    torch = pytest.importorskip("torch")
    like = torch.zeros(1)
    first, second = (great_circles(3, 5, like=like) for _ in range(2))
    assert not torch.equal(first, second)
    assert first.dtype == torch.float32
    assert np.array_equal(FrameSeed(3, 5, seed=2**64 - 1).array(), FrameSeed(3, 5, seed=2**64 - 1).array())
    assert np.array_equal(FrameSeed(3, 5, seed=9).array(), FrameSeed(8, 5, seed=9).array()[:3])
