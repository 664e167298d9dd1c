"""The functions of the paper's program: its great circles, and the exact costs on them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")
ot = pytest.importorskip("ot")

from helpers.tensors import points, weights

from sphereot.compat.bonet import sliced_wasserstein_sphere, sliced_wasserstein_sphere_unif


def turns_of_program(x, seed, n_projections):
    """Positions as the program computes them, after a seed."""
    torch.manual_seed(seed)
    frames, _ = torch.linalg.qr(torch.randn((n_projections, x.shape[1], 2)))
    planar = torch.einsum("ldk,nd->lnk", frames.to(x), x)
    return (torch.atan2(-planar[..., 1], -planar[..., 0]) + np.pi) / (2 * np.pi)


@pytest.mark.parametrize("p", [1, 2])
def test_two_samples(p):
    """Against a linear program on every great circle that the program draws."""
    x, y = points(6, 4, grad=True), points(5, 4, seed=1)
    a, b = weights(6), weights(5)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        value = sliced_wasserstein_sphere(3 * x, y, 9, "cpu", u_weights=a, v_weights=b, p=p)
        u, v = (turns_of_program(z.detach(), 7, 9).numpy() for z in (x, y))
    gaps = np.abs(u[:, :, None] - v[:, None, :])
    costs = np.minimum(gaps, 1 - gaps) ** p
    masses = [np.asarray(w / w.sum()) for w in (a, b)]
    assert_allclose(float(value.detach()), np.mean([ot.emd2(*masses, cost) for cost in costs]), rtol=1e-6)
    value.backward()
    assert bool(torch.isfinite(x.grad).all())


def test_uniform():
    """Equation 13 of the paper on every great circle."""
    x = points(8, 5)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        value = sliced_wasserstein_sphere_unif(x, 11, "cpu")
        u = np.sort(turns_of_program(x, 3, 11).numpy(), axis=1)
    n = u.shape[1]
    linear = np.sum((n + 1 - 2 * np.arange(1, n + 1)) * u, axis=1) / n**2
    expected = np.mean(u**2, axis=1) - np.mean(u, axis=1) ** 2 + linear + 1 / 12
    assert_allclose(float(value), expected.mean(), rtol=1e-6)
