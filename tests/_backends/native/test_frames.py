"""Frames drawn by the kernel: their distribution."""

import numpy as np
import pytest
import scipy.stats

from sphereot import great_circles
from sphereot._backends import native as _native
from sphereot._backends import random_frames

pytestmark = pytest.mark.skipif(not _native.available, reason="there is no compiled kernel")


def test_random_frames_are_uniform():
    """A coordinate of a uniform unit vector, squared, is Beta(1/2, (d - 1)/2); so is an inner product of two frames."""
    dim = 7
    frames = random_frames(4000, dim, seed=3)
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
    angles = np.arctan2(*random_frames(20_000, 2, seed=5)[:, :, 0].T) / (2 * np.pi) + 0.5
    assert scipy.stats.kstest(angles, "uniform").pvalue > 1e-4
    signs = random_frames(20_000, 2, seed=6)
    orientation = np.linalg.det(signs.astype(np.float64))
    assert abs(np.mean(orientation)) < 5 / np.sqrt(20_000)
    high = random_frames(1, 100_000, seed=7)[0] * np.sqrt(100_000)
    assert scipy.stats.kstest(high[:, 0], "norm").pvalue > 1e-4
    assert abs(np.corrcoef(high.T)[0, 1]) < 1e-6  # orthogonal by construction
    assert abs(scipy.stats.kurtosis(high[:, 0])) < 5 * np.sqrt(24 / 100_000)


def test_fresh_frames_differ_and_seeds_repeat():
    torch = pytest.importorskip("torch")
    like = torch.zeros(1)
    first, second = (great_circles(3, 5, like=like) for _ in range(2))
    assert not torch.equal(first, second)
    assert first.dtype == torch.float32
    assert np.array_equal(random_frames(3, 5, seed=2**64 - 1), random_frames(3, 5, seed=2**64 - 1))
    assert np.array_equal(random_frames(3, 5, seed=9), random_frames(8, 5, seed=9)[:3])
