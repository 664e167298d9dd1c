"""Arrays in memory that is not aligned are copied before the kernel reads them."""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from numpy.testing import assert_array_equal

import sphereot
from sphereot import circle
from sphereot._backends import native as _native

pytestmark = pytest.mark.skipif(not _native.available, reason="there is no compiled kernel")


def misaligned(array):
    """The same numbers at an address shifted by one byte."""
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    copy = buffer[1:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    assert not copy.flags.aligned
    return copy


class AlignedOnly:
    """The kernel, but arrays that are not aligned are an error."""

    def __init__(self, kernel):
        self._kernel = kernel

    def __getattr__(self, name):
        function = getattr(self._kernel, name)

        def call(*args):
            assert all(arg.flags.aligned for arg in args if isinstance(arg, np.ndarray)), name
            return function(*args)

        return call


@pytest.fixture
def kernel_of_aligned_arrays(monkeypatch):
    monkeypatch.setattr(_native, "kernel", AlignedOnly(_native.kernel))


def results(kind, dtype, dim):
    rng = np.random.default_rng(0)
    x, y = (kind(sphere_sample(rng, n, dim, dtype=dtype)) for n in (20, 15))
    a, b = kind(rng.random(20)), kind(rng.random(15).astype(dtype))
    frames = kind(sphereot.great_circles(6, dim, seed=0).astype(dtype))
    u, v, w = kind(rng.random((2, 9)).astype(dtype)), kind(rng.random(7).astype(dtype)), kind(rng.random(9))
    return [
        sphereot.ssw(x, y, x_weights=a, y_weights=b, projections=frames),
        sphereot.ssw_uniform(x, weights=a, projections=frames),
        sphereot.ssw_estimate(x, y, projections=frames).slice_costs,
        sphereot.pairwise_ssw([x, y], weights=[a, None], projections=frames),
        sphereot.project(x, frames),
        circle.wasserstein(u, v, u_weights=w),
        circle.wasserstein_uniform(u, weights=w),
        circle.transport_plan(v, u[0], v_weights=w).cost,
    ]


@pytest.mark.usefixtures("kernel_of_aligned_arrays")
@pytest.mark.parametrize("dim", [3, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_misaligned_arrays(dtype, dim):
    for got, expected in zip(results(misaligned, dtype, dim), results(np.asarray, dtype, dim), strict=True):
        assert_array_equal(got, expected)


@pytest.mark.usefixtures("kernel_of_aligned_arrays")
def test_misaligned_tensors():
    torch = pytest.importorskip("torch")
    x, y = (sphere_sample(np.random.default_rng(n), n, 3) for n in (20, 15))
    result = []
    for kind in (misaligned, np.asarray):
        points = torch.from_numpy(kind(x)).requires_grad_()
        loss = sphereot.ssw(points, torch.from_numpy(kind(y)), seed=0)
        result.append((loss, *torch.autograd.grad(loss, points)))
        result[-1] += (sphereot.pairwise_ssw([points.detach(), torch.from_numpy(kind(y))], seed=0),)
    assert all(torch.equal(got, wanted) for got, wanted in zip(*result, strict=True))
