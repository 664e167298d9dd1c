"""PyTorch operators: gradients against finite differences and the other backend, and errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from helpers.tensors import points, weights

import sphereot
from sphereot import circle
from sphereot._backends.array_api import backend as array_api
from sphereot._backends.native import backend as native
from sphereot._backends.protocol import Measure
from sphereot.torch import array_api_backend

ORDERS = [1, 1.5, 2, 3]
normalize = torch.nn.functional.normalize


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize(("n", "m"), [(7, 7), (7, 5)])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("d", [3, 12])
def test_gradcheck(p, n, m, weighted, d):
    """Points and weights, away from ties, against finite differences (points are normalized inside)."""
    x, y = points(n, d, grad=True), points(m, d, shift=1, grad=True)
    a, b = (weights(n, grad=True), weights(m, seed=1, grad=True)) if weighted else (None, None)
    frames = sphereot.great_circles(4, d, seed=0, like=x)

    def cost(x, y, *ab):
        a, b = ab or (None, None)
        return sphereot.ssw(normalize(x), normalize(y), p=p, x_weights=a, y_weights=b, projections=frames)

    def cost_uniform(x, *a):
        return sphereot.ssw_uniform(normalize(x), p=p, weights=a[0] if a else None, projections=frames)

    assert torch.autograd.gradcheck(cost, (x, y, a, b) if weighted else (x, y), atol=1e-6)
    assert torch.autograd.gradcheck(cost_uniform, (x, a) if weighted else (x,), atol=1e-6)


@pytest.mark.parametrize("p", ORDERS)
def test_derivative_in_a_weight_of_zero(p):
    """The derivative from the right is the cost of adding a little mass there; atoms of weight 0 may be neighbors."""
    rng = np.random.default_rng(3)
    for trial in range(60):
        n, m = rng.integers(3, 8, 2)
        u, v = (torch.tensor(rng.random(k)) for k in (n, m))
        w = rng.random(n) + 0.1
        w[rng.permutation(n)[: rng.integers(1, n)]] = 0
        a = torch.tensor(w, requires_grad=True)
        b = None if trial % 2 else torch.tensor(rng.random(m) + 0.1)
        (result,) = torch.autograd.grad(circle.wasserstein(u, v, p=p, u_weights=a, v_weights=b), a)
        for k in np.flatnonzero(w == 0):
            values = [
                circle.wasserstein(u, v, p=p, u_weights=torch.tensor(w + h * (np.arange(n) == k)), v_weights=b)
                for h in (0, 1e-7)
            ]
            assert abs(float(result[k] - (values[1] - values[0]) / 1e-7)) < 1e-5, (trial, k)


@pytest.mark.parametrize("p", ORDERS)
def test_gradcheck_on_the_circle(p):
    rng = np.random.default_rng(5)
    u, v = (torch.tensor(rng.random(shape)).requires_grad_() for shape in ((2, 6), (2, 4)))
    a, b = weights(6, grad=True), weights(8).reshape(2, 4).requires_grad_()

    def cost(u, v, a, b):
        return circle.wasserstein(u, v, p=p, u_weights=a, v_weights=b)

    def cost_uniform(u, a):
        return circle.wasserstein_uniform(u, p=p, weights=a)

    assert torch.autograd.gradcheck(cost, (u, v, a, b), atol=1e-6)
    assert torch.autograd.gradcheck(cost_uniform, (u, a), atol=1e-6)
    assert torch.autograd.gradcheck(lambda u, v: circle.wasserstein(u, v, p=p), (u, v), atol=1e-6)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize(("n", "m"), [(40, 40), (40, 30)])
def test_native_gradient_equals_array_api_gradient(p, n, m):
    """The kernel's gradient and autograd through the array-API backend agree, for one block and for several."""
    x, y = points(n, 5, grad=True), points(m, 5, shift=1, grad=True)
    a = weights(n)
    frames = sphereot.great_circles(10, 5, seed=0, like=x)

    def gradients():
        values = [
            sphereot.ssw(x, y, p=p, projections=frames),
            sphereot.ssw(x, y, p=p, projections=frames, x_weights=a, root=True),
            sphereot.ssw_uniform(x, p=p, projections=frames) + sphereot.ssw_uniform(y, p=p, projections=frames),
        ]
        return [g for value in values for g in (value, *torch.autograd.grad(value, (x, y)))]

    expected = gradients()
    for block_size in (None, 3):
        with array_api_backend(force=True, block_size=block_size):
            for got, kernel in zip(gradients(), expected, strict=True):
                assert_allclose(got.detach(), kernel.detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("path", ["native", "portable"])
@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_at_degenerate_points(path, p, dtype):
    """At x = y (zero there), at coincident points, antipodes, and points orthogonal to the slice (none there).

    The matrix products of some libraries round a row by where it is in the matrix, so that off the kernel equal points
    in another order may be a few units of rounding apart, and for p = 1 have gradients.
    """
    x = points(20, 3, dtype=dtype)
    pole = torch.tensor([[0.0, 0.0, 1.0]], dtype=dtype)
    equator = torch.eye(3, dtype=dtype)[None, :, :2]
    cases = {
        "same": (x, x, None),
        "same in another order": (x, x.flip(0), None),
        "coincident": (x[:1].repeat(10, 1), x[:10], None),
        "antipodes": (x, -x, None),
        "orthogonal": (torch.cat([pole, x]), torch.cat([x, pole]), equator),
        "one each": (x[:1], -x[:1], None),
    }
    with array_api_backend(force=path == "portable"):
        for name, (one, other, frames) in cases.items():
            for root in (False, True):
                one, other = one.clone().requires_grad_(), other.clone().requires_grad_()
                value = sphereot.ssw(
                    one, other, p=p, projections=frames, seed=None if frames is not None else 0, root=root
                )
                result = torch.autograd.grad(value, (one, other))
                assert all(torch.isfinite(g).all() for g in result), name
                if name == "same" or (name == "same in another order" and path == "native"):
                    assert value == 0
                    assert all((g == 0).all() for g in result)
                if name == "same in another order":
                    assert value <= (8 * torch.finfo(dtype).eps) ** (1 if root else p)
                if name == "orthogonal":
                    assert (result[0][0] == 0).all()


@pytest.mark.parametrize("p", ORDERS)
def test_small_descent_step_never_raises_the_loss(p):
    """On the same slices, from 50 starts: a step of 1e-4 times the gradient never raises SSW_p^p."""
    for seed in range(50):
        x, y = points(15, 4, seed=seed, grad=True), points(12, 4, seed=seed + 100, shift=1)
        frames = sphereot.great_circles(8, 4, seed=seed, like=x)
        value = sphereot.ssw(x, y, p=p, projections=frames)
        (gradient,) = torch.autograd.grad(value, x)
        stepped = normalize(x.detach() - 1e-4 * gradient / gradient.norm())
        assert sphereot.ssw(stepped, y, p=p, projections=frames) < value.detach()


def test_gradients_do_not_depend_on_threads():
    x, y = points(2000, 3, dtype=torch.float32, grad=True), points(2000, 3, shift=1, dtype=torch.float32)
    wide = points(500, 64, dtype=torch.float32, grad=True)
    before, result = sphereot.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            sphereot.set_num_threads(threads)
            result.append(
                [
                    torch.autograd.grad(sphereot.ssw(x, y, seed=0), x)[0],
                    torch.autograd.grad(sphereot.ssw(x, y[:1500], seed=0), x)[0],
                    torch.autograd.grad(sphereot.ssw_uniform(wide, seed=0), wide)[0],
                ]
            )
    finally:
        sphereot.set_num_threads(before)
    for other in result[1:]:
        assert all(torch.equal(g, h) for g, h in zip(result[0], other, strict=True))


def test_weight_gradient_at_equal_weights_is_a_subgradient():
    """At ties of the levels the potential is not unique; whichever is returned supports the convex cost from below."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        u, v = torch.tensor(rng.random(6)), torch.tensor(rng.random(6))
        a = torch.full((6,), 1 / 6, dtype=torch.float64, requires_grad=True)
        value = circle.wasserstein(u, v, u_weights=a)
        (gradient,) = torch.autograd.grad(value, a)
        other = torch.tensor(rng.dirichlet(np.ones(6)))
        assert circle.wasserstein(u, v, u_weights=other) >= value + gradient @ (other - a) - 1e-12


def test_pairwise_is_differentiable():
    samples = [points(n, 3, shift=s, grad=True) for n, s in ((10, 0), (12, 1), (10, 2))]
    frames = sphereot.great_circles(6, 3, seed=0, like=samples[0].detach())
    square = sphereot.pairwise_ssw(samples, projections=frames)
    assert_allclose(
        square.detach(), sphereot.pairwise_ssw([s.detach() for s in samples], projections=frames), rtol=1e-10
    )
    gradient = torch.autograd.grad(square[0, 1], samples[0])[0]
    expected = torch.autograd.grad(sphereot.ssw(samples[0], samples[1], projections=frames), samples[0])[0]
    assert_allclose(gradient, expected)


def test_values_equal_those_of_the_kernel():
    """CPU tensors are computed by the kernel, with the same bits as NumPy arrays."""
    x, y = points(50, 3), points(40, 3, shift=1)
    frames = sphereot.great_circles(9, 3, seed=0)
    expected = native.mean_cost([Measure(x.numpy()), Measure(y.numpy())], frames, 2.0)
    assert float(sphereot.ssw(x, y, projections=torch.tensor(frames))) == float(expected)


@pytest.mark.parametrize("portable", [False, True])
def test_double_backward_is_an_error(portable):
    x, y = points(10, 3, grad=True), points(10, 3, shift=1)
    with array_api_backend(force=portable, block_size=7):
        (gradient,) = torch.autograd.grad(sphereot.ssw(x, y, seed=0), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.square().sum().backward()


def test_backward_without_grad():
    with pytest.raises(RuntimeError, match="does not require grad"):
        sphereot.ssw(points(5, 3), points(5, 3), seed=0).backward()


@pytest.mark.parametrize("p", [1.5, 2, 3])
def test_weight_gradients_without_the_kernel_equal_finite_differences(p):
    """In single and in several blocks of slices, of one sample or both; also in the circle function."""
    x, y = points(7, 3), points(6, 3, shift=1)
    a, b = weights(7) + 0.5, weights(6) + 0.5
    frames = sphereot.great_circles(5, 3, seed=0, like=x)

    def ssw(a, b):
        return sphereot.ssw(x, y, x_weights=a, y_weights=b, p=p, projections=frames)

    def on_circle(a, b):
        return circle.wasserstein(x[:, 0], y[:, 0], p=p, u_weights=a, v_weights=b)

    def on_rows(a, b):
        """Weights of their own in each row, fewer rows than atoms."""
        scale = torch.tensor([[1.0], [2.0], [5.0]], dtype=a.dtype)
        return circle.wasserstein(x.T, y.T, p=p, u_weights=scale * a, v_weights=b.expand(3, -1)).sum()

    for function, block_size in ((ssw, None), (ssw, 2), (on_circle, None), (on_rows, None)):
        with array_api_backend(force=True, block_size=block_size):
            leaves = a.clone().requires_grad_(), b.clone().requires_grad_()
            slopes = torch.autograd.grad(function(*leaves), leaves)
            for k, slope in enumerate(slopes):
                for j in range(len(slope)):
                    moved = torch.zeros_like(slope)
                    moved[j] = 1e-6
                    values = [
                        function(*(t + sign * moved if i == k else t for i, t in enumerate((a, b)))) for sign in (1, -1)
                    ]
                    assert_allclose((values[0] - values[1]) / 2e-6, slope[j], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("p", [1, 2])
def test_weight_gradients_of_the_backends_agree(p):
    x, y = points(9, 4), points(8, 4, shift=1)
    frames = sphereot.great_circles(6, 4, seed=0)
    measures = [Measure(x.numpy(), weights(9).numpy()), Measure(y.numpy(), weights(8).numpy() + 0.1)]
    expected = native.weight_gradients(measures, frames, p)
    for got, wanted in zip(array_api.weight_gradients(measures, frames, p), expected, strict=True):
        assert_allclose(got, wanted, atol=1e-9)
