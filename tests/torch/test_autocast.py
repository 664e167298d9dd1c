"""PyTorch: under autocast every loss is that of full precision, with its first and second derivatives."""

import pytest

torch = pytest.importorskip("torch")

from helpers.tensors import points

from paper.learning.view_losses import GaussianPotentialLoss, NTXentLoss, SWUniformityLoss
from sphereot.distributions import PowerSpherical, VonMisesFisher
from sphereot.torch import AlignmentUniformityLoss, SSWLoss, UniformityLoss, array_api_backend

N, DIM = 4096, 64
SCALE = 65536.0  # the first scale of torch.amp.GradScaler


def sliced():
    return UniformityLoss(n_projections=10, seed=0, fixed=True)


LOSSES = {
    "uniformity": sliced,
    "two samples": lambda: SSWLoss(n_projections=10, seed=0, fixed=True),
    "normalized": lambda: SSWLoss(n_projections=10, seed=0, fixed=True, normalize=True),
    "views": lambda: AlignmentUniformityLoss(20.0, sliced()),
    "SW": lambda: SWUniformityLoss(10, seed=0),
    "exact": lambda: UniformityLoss(method="exact"),
    "NT-Xent": lambda: NTXentLoss(0.2),
    "Gaussian": lambda: GaussianPotentialLoss(),
}
ALL_PAIRS = ("exact", "NT-Xent", "Gaussian")  # their cost grows as the square of the number of points
TWO_SAMPLES = ("two samples", "normalized", "views", "NT-Xent")


def sample(name, n):
    count = 2 if name in TWO_SAMPLES else 1
    return [points(n, DIM, seed=k, shift=0.1, dtype=torch.float32, grad=True) for k in range(count)]


def scaled_loss(name, batches, dtype=None):
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        return SCALE * LOSSES[name]()(*batches)


def assert_close(found, expected):
    """To the rounding of sums in float32. In half precision the gradients were off by 0.3 % to 50 %."""
    for part, whole in zip(found, expected, strict=True):
        assert float((part - whole).norm() / whole.norm()) < 2e-6


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_have_full_precision(name, portable):
    """Also if the backward pass itself runs under autocast."""
    batches = sample(name, 512 if name in ALL_PAIRS else N)
    with array_api_backend(force=portable):
        value = scaled_loss(name, batches)
        expected = torch.autograd.grad(value, batches)
        for dtype in (torch.float16, torch.bfloat16):
            again = scaled_loss(name, batches, dtype)
            assert again.dtype == torch.float32
            assert float(again.detach()) == pytest.approx(float(value.detach()), rel=1e-6)
            assert_close(torch.autograd.grad(again, batches, retain_graph=True), expected)
            with torch.autocast("cpu", dtype=dtype):
                assert_close(torch.autograd.grad(again, batches), expected)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("name", ALL_PAIRS)
def test_second_derivatives_have_full_precision(name, portable):
    batches = sample(name, 128)

    def penalty_gradient(dtype):
        gradients = torch.autograd.grad(scaled_loss(name, batches, dtype), batches, create_graph=True)
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            return torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), batches)

    with array_api_backend(force=portable):
        expected = penalty_gradient(None)
        for dtype in (torch.float16, torch.bfloat16):
            assert_close(penalty_gradient(dtype), expected)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated")  # by torch.compile itself
@pytest.mark.parametrize("name", ["uniformity", "exact", "Gaussian"])
def test_compiled_and_transformed(name):
    """In a compiled graph and under torch.func, where the derivative is traced together with the value."""
    (x,) = sample(name, 256)
    with array_api_backend(force=True):
        loss = LOSSES[name]()
        loss(x)  # fixed circles are drawn outside of the transforms
        expected = torch.autograd.grad(SCALE * loss(x), x)
        torch.compiler.reset()
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        with torch.autocast("cpu", dtype=torch.float16):
            assert_close(torch.autograd.grad(SCALE * compiled(x), x), expected)
            gradient = torch.func.grad(lambda x: SCALE * loss(x))
            assert_close([gradient(x.detach())], expected)
            assert_close([torch.func.vmap(gradient)(x.detach()[None])[0]], expected)
            assert_close([torch.compile(gradient, fullgraph=True, backend="aot_eager")(x.detach())], expected)


def test_half_points_are_normalized_in_full_precision():
    """The gradient is rounded once, at the end: that of float32 points with the same digits, in half precision."""
    half = (3 * points(200, 8, dtype=torch.float32)).half().requires_grad_()
    wide = half.detach().float().requires_grad_()
    loss = SSWLoss(n_projections=20, seed=0, fixed=True, normalize=True)
    target = points(200, 8, seed=1, dtype=torch.float32)
    (expected,) = torch.autograd.grad(SCALE * loss(wide, target), wide)
    (found,) = torch.autograd.grad(SCALE * loss(half, target), half)
    assert torch.equal(found, expected.half())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_embeddings_in_half_precision(dtype):
    """Views that were rounded to half precision have other lengths than 1 in float32; they are still valid."""
    views = [points(200, 8, seed=k, dtype=torch.float32).to(dtype) for k in range(2)]
    loss = AlignmentUniformityLoss(20.0)
    assert float(loss(*views)) == pytest.approx(float(loss(*(torch.nn.functional.normalize(v.float()) for v in views))))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("family", [VonMisesFisher, PowerSpherical])
@pytest.mark.parametrize(("shape", "dim"), [((), 3), ((), 8), ((50,), 8)])
def test_drawn_points_have_full_precision(family, shape, dim, dtype):
    """A latent code drawn under autocast is a unit vector, with the gradient of full precision."""
    loc = points(max(1, *shape, 1), dim, dtype=torch.float32).reshape(*shape, dim).requires_grad_()
    kappa = torch.full(shape, 5.0, requires_grad=True)

    def draw(enabled):
        with torch.autocast("cpu", dtype=dtype, enabled=enabled):
            x = family(loc, kappa).rsample((20,), seed=0)
            value = UniformityLoss(method="exact")(x.reshape(-1, dim))
        return x, torch.autograd.grad(value, (loc, kappa))

    (expected, gradients), (found, half_gradients) = draw(False), draw(True)
    assert float((found.detach().norm(dim=-1) - 1).abs().max()) < 1e-6
    assert torch.equal(found, expected)
    assert_close(half_gradients, gradients)
