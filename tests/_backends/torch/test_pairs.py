"""PyTorch: SSW to the uniform distribution without slices has second derivatives, and those of forward mode."""

import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from helpers.tensors import points, weights

import sphereot
from sphereot.torch import UniformityLoss, array_api_backend

normalize = torch.nn.functional.normalize
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own, in forward mode


def cost(x, w=None, unbiased=False):
    return sphereot.ssw_uniform(normalize(x, dim=-1), weights=w, method="exact", unbiased=unbiased)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("d", [2, 3, 9])  # in more than 8 dimensions from products of points
def test_derivatives_by_finite_differences(d, unbiased, portable):
    """First and second derivatives in points and weights, in reverse and in forward mode."""
    inputs = points(5, d, grad=True), weights(5, grad=True)
    with array_api_backend(force=portable):
        assert torch.autograd.gradcheck(lambda x, w: cost(x, w, unbiased), inputs, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(lambda x, w: cost(x, w, unbiased), inputs)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("d", [3, 9])
def test_every_way_to_a_hessian(d, portable):
    """Those of torch.func and autograd, mixed ones too, are one matrix."""
    x = points(5, d)
    with array_api_backend(force=portable):
        expected = torch.autograd.functional.hessian(cost, x)
        ways = {
            "hessian": torch.func.hessian(cost)(x),
            "reverse": torch.func.jacrev(torch.func.jacrev(cost))(x),
            "forward": torch.func.jacfwd(torch.func.jacfwd(cost))(x),
            "batch": torch.func.vmap(torch.func.hessian(cost))(x[None])[0],
        }
        for name, hessian in ways.items():
            assert_allclose(hessian, expected, atol=1e-15, err_msg=name)
        outer = x.clone().requires_grad_()
        (row,) = torch.autograd.grad(torch.func.grad(cost)(outer)[0, 0], outer)
        assert_allclose(row, expected[0, 0], atol=1e-15)


def test_compiled():
    """A compiled derivative of a derivative, and the double backward pass of a graph compiled without autograd."""
    x = points(5, 3)

    def penalty(x):
        return torch.func.grad(cost)(x).square().sum()

    expected = torch.func.grad(penalty)(x)
    torch.compiler.reset()
    assert_allclose(
        torch.compile(torch.func.grad(penalty), fullgraph=True, backend="aot_eager")(x), expected, atol=1e-15
    )
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(torch.compile(cost, backend="eager")(leaf), leaf, create_graph=True)
    assert_allclose(torch.autograd.grad(gradient.square().sum(), leaf)[0], expected, atol=1e-15)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_for_several_dimensions(dynamic, portable):
    """torch.compile follows the second dimension as a symbol, and its coefficients are constants of a graph."""
    torch.compiler.reset()
    loss = UniformityLoss(method="exact")
    with array_api_backend(force=portable):
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for d in (9, 12, 3, 4):
            x = normalize(points(5, d)).requires_grad_()
            assert_allclose(compiled(x).detach(), loss(x).detach(), rtol=1e-13)
            gradients = (torch.autograd.grad(one(x), x)[0] for one in (compiled, loss))
            assert_allclose(*gradients, atol=1e-15)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("settings", [{"method": "exact"}, {"n_projections": 10, "seed": 0, "fixed": True}], ids=str)
def test_one_graph_for_every_number_of_points(settings, portable):
    torch.compiler.reset()
    loss = UniformityLoss(**settings)
    with array_api_backend(force=portable), torch._dynamo.config.patch(recompile_limit=1):
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        for n in (20, 21, 40):
            x = normalize(points(n, 9))
            expected = loss(x)  # draws the great circles once
            torch._dynamo.mark_dynamic(x, 0)
            assert_allclose(compiled(x), expected, rtol=1e-13)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coincident_points_have_finite_second_derivatives(dtype, portable):
    """There K_d has none; a pair of equal points then contributes 0, as to the gradient."""
    x = points(6, 4, dtype=dtype)
    x[1] = x[0]
    x.requires_grad_()
    with array_api_backend(force=portable):
        loss = UniformityLoss(method="exact")
        (gradient,) = torch.autograd.grad(loss(x), x, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), x)
    assert second.isfinite().all()


def test_gradient_penalty_trains():
    """One step of MAML: the outer gradient through an inner step, against a difference quotient."""
    x = points(6, 3)
    loss = UniformityLoss(method="exact", normalize=True)

    def after_inner_step(x):
        x = x if x.requires_grad else x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(x), x, create_graph=True)
        return loss(x - 2.0 * gradient)

    leaf = x.clone().requires_grad_()
    (outer,) = torch.autograd.grad(after_inner_step(leaf), leaf)
    move, h = points(6, 3, seed=1), 1e-5
    quotient = (after_inner_step(x + h * move) - after_inner_step(x - h * move)).detach() / (2 * h)
    assert_allclose((outer * move).sum(), quotient, rtol=1e-6)
