"""The weight of the even part of K_d: the loss of points together with their antipodes is the even part alone."""

import numpy as np
import pytest
from helpers.bad_input import refusal_test
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose

import sphereot

DIMS = [2, 3, 7, 9, 64]


def even_part(x, weights=None):
    """U of the points and their antipodes: the pairs (x, y) and (x, -y) have the mean K_even."""
    both = None if weights is None else np.concatenate([weights, weights])
    return sphereot.ssw_uniform(np.concatenate([x, -x]), weights=both, method="exact")


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 10.0])
def test_equals_the_loss_with_antipodes(rng, dim, weighted, factor):
    x = sphere_sample(rng, 150, dim, shift=0.3)
    weights = rng.random(150) if weighted else None
    plain = sphereot.ssw_uniform(x, weights=weights, method="exact")
    value = sphereot.ssw_uniform(x, weights=weights, method="exact", even_weight=factor)
    assert_allclose(value, plain + (factor - 1) * even_part(x, weights), rtol=1e-12, atol=1e-15)
    single = sphereot.ssw_uniform(x.astype(np.float32), weights=weights, method="exact", even_weight=factor)
    assert_allclose(single, value, rtol=1e-4, atol=1e-7 * max(1, factor))


def test_collapse_onto_a_great_subsphere_counts_more():
    """Shares of the largest value for uniform points on S^(k-1) in S^9, from the eigenvalues of K_d."""
    shares = {}
    for factor in (1.0, 10.0):
        largest = sphereot.ssw_uniform(np.eye(10)[:1], method="exact", even_weight=factor)
        plane = np.pad(sphereot.sphere.random_uniform(2000, 5, seed=0), ((0, 0), (0, 5)))
        shares[factor] = sphereot.ssw_uniform(plane, method="exact", even_weight=factor) / largest
    assert_allclose(shares[1.0], 0.012, atol=1e-3)
    assert shares[10.0] > 2.5 * shares[1.0]


def test_unbiased(rng):
    """Without the pairs i = j, whose value depends on the weight of the even part too."""
    x, factor = sphere_sample(rng, 40, 5), 4.0
    biased = sphereot.ssw_uniform(x, method="exact", even_weight=factor)
    at_zero = sphereot.ssw_uniform(x[:1], method="exact", even_weight=factor)
    assert_allclose(at_zero, 1 / 16 + factor / 48)
    unbiased = sphereot.ssw_uniform(x, method="exact", even_weight=factor, unbiased=True)
    assert_allclose(unbiased, (biased - at_zero / 40) / (1 - 1 / 40), rtol=1e-10)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("dim", [3, 12])
def test_gradients_in_torch(dim, force):
    """First and second derivatives, in points and weights, on both backends; and the loss."""
    torch = pytest.importorskip("torch")
    from sphereot.torch import UniformityLoss, array_api_backend

    x = torch.tensor(sphere_sample(np.random.default_rng(0), 9, dim), requires_grad=True)
    a = torch.rand(9, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = UniformityLoss(method="exact", even_weight=6.0)
    assert repr(loss) == "UniformityLoss(p=2, method='exact', even_weight=6.0)"

    def cost(x, a):
        return loss(torch.nn.functional.normalize(x, dim=-1), a)

    with array_api_backend(force=force):
        expected = sphereot.ssw_uniform(x.detach().numpy(), weights=a.detach().numpy(), method="exact", even_weight=6.0)
        assert_allclose(float(cost(x, a).detach()), expected, rtol=1e-12)
        assert torch.autograd.gradcheck(cost, (x, a), atol=1e-7)
        assert torch.autograd.gradgradcheck(cost, (x, a), atol=1e-6)
        torch.compiler.reset()
        compiled = torch.compile(cost, backend="aot_eager", fullgraph=True)
        assert_allclose(float(compiled(x, a).detach()), expected, rtol=1e-12)


def test_gradients_in_jax():
    jax = pytest.importorskip("jax")
    torch = pytest.importorskip("torch")
    points = sphere_sample(np.random.default_rng(1), 9, 4).astype(np.float32)

    def cost(x):
        return sphereot.ssw_uniform(x, method="exact", even_weight=6.0)

    x = torch.tensor(points, requires_grad=True)
    cost(x).backward()
    value, gradient = jax.jit(jax.value_and_grad(cost))(points)
    assert_allclose(value, cost(points), rtol=1e-5)
    assert_allclose(gradient, x.grad, atol=1e-6)


test_bad_input = refusal_test(
    {
        "negative": (
            lambda: sphereot.ssw_uniform(np.eye(3), method="exact", even_weight=-1),
            ValueError,
            "even_weight: .*at least 0",
        ),
        "nan": (lambda: sphereot.ssw_uniform(np.eye(3), method="exact", even_weight=np.nan), ValueError, "even_weight"),
        "slices": (
            lambda: sphereot.ssw_uniform(np.eye(3), even_weight=2),
            ValueError,
            "unbiased and even_weight: got a value with method='iid'. Pass method='exact'",
        ),
    }
)
