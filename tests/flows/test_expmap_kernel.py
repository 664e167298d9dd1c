"""The flow in the kernel against the same flow in torch's operations, which test_flows.py holds to the formulas."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sphereot import get_num_threads, set_num_threads
from sphereot._backends import native as _native
from sphereot.flows import ExponentialMapFlow, exponential

pytestmark = pytest.mark.skipif(not _native.available, reason="there is no compiled kernel")

F64 = torch.float64


def a_flow(dtype, *, n_blocks=3, n_components=7, sharpest=30.0, seed=0):
    """A flow with parameters all over their range."""
    generator = torch.Generator().manual_seed(seed)
    flow = ExponentialMapFlow(3, n_blocks, n_components, seed=generator, dtype=dtype)
    with torch.no_grad():
        flow.alpha_logits.uniform_(-3.0, 1.0, generator=generator)
        flow.beta_roots.uniform_(-2.0, sharpest, generator=generator)
    return flow


def points(n, dtype, seed=1):
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return torch.nn.functional.normalize(x, dim=1).requires_grad_()


def passes(flow, x):
    """Images, determinants, and gradients in points and parameters of sums with uneven weights."""
    of = [x, *flow.parameters()]
    weights = torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view_as(x)
    y, log_det = flow.forward_and_log_det(x)
    moved = flow(x)
    return [
        y,
        log_det,
        moved,
        *torch.autograd.grad((y * weights).sum() + (log_det * weights[:, 1]).sum(), of),
        *torch.autograd.grad((moved * weights).sum(), of),
    ]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-5), (F64, 1e-12)])
@pytest.mark.parametrize("n", [1, 255, 256, 257, 700])
def test_kernel_is_torch(n, dtype, tolerance, monkeypatch):
    """Runs of the kernel are 256 points long: sizes about it, and no multiple of it."""
    flow, x = a_flow(dtype), points(n, dtype)
    found = passes(flow, x)
    monkeypatch.setattr(exponential, "_kernel_serves", lambda *_: False)
    for ours, theirs in zip(found, passes(flow, x), strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        assert (ours - theirs).abs().max() <= tolerance * theirs.abs().max()


def test_gradients_are_finite_differences():
    flow, x = a_flow(F64, n_blocks=2, n_components=4, sharpest=5.0), points(3, F64)

    def total(vectors, logits, roots, centers):
        unit = torch.nn.functional.normalize(vectors, dim=1)
        values = {"alpha_logits": logits, "beta_roots": roots, "mu_vectors": centers}
        return torch.func.functional_call(
            Both(flow), {f"flow.{name}": value for name, value in values.items()}, (unit,)
        )

    assert torch.autograd.gradcheck(total, (x, *(p.detach().clone().requires_grad_() for p in flow.parameters())))


class Both(torch.nn.Module):
    def __init__(self, flow):
        super().__init__()
        self.flow = flow

    def forward(self, x):
        return (*self.flow.forward_and_log_det(x), self.flow(x))


def test_the_number_of_threads_does_not_show():
    flow, x = a_flow(torch.float32, n_blocks=8, n_components=60), points(3000, torch.float32)
    before = get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            set_num_threads(threads)
            results.append(passes(flow, x))
    finally:
        set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 2e-7), (np.float64, 5e-16)])
def test_exponential_function(dtype, bound):
    """One component with load (0, 0, 1): the gradient of the potential is the exponential itself.

    The kernel takes powers of two: slopes times log2 e are rounded, which adds half a unit in the last place of the
    exponent, as much as the rounding of <x, slope> does at other points.
    """
    from sphereot._backends.native.expmap import flow_forward

    exponents = np.concatenate([np.linspace(-80, 0, 4001), -np.logspace(-20, 0, 500), [1e-7, 5.0]]).astype(dtype)
    x = np.stack([np.zeros_like(exponents), np.zeros_like(exponents), np.ones_like(exponents)])
    loads = np.array([[[0, 0, 1]]], dtype)
    for exponent in exponents[:: max(1, len(exponents) // 400)]:
        slopes = np.array([[[0, 0, exponent, 0]]], dtype)
        found = flow_forward(x[:, :1], slopes, loads).moments[0, 2, 0]
        assert abs(found - math.exp(exponent)) <= (2 * bound + np.finfo(dtype).eps * abs(exponent)) * math.exp(exponent)


def test_far_components_do_not_count_and_nan_stays():
    """exp of a large negative number is below the smallest normal one; NaN must reach the loss, which reports it."""
    flow, x = a_flow(torch.float32, n_blocks=1, n_components=2), points(5, torch.float32)
    with torch.no_grad():
        flow.beta_roots.fill_(1e6)
        flow.mu_vectors.copy_(-x[:2])
    assert torch.allclose(flow(x)[:1], x[:1], atol=1e-6)
    with torch.no_grad():
        flow.beta_roots[0, 0] = math.nan
    y, log_det = flow.forward_and_log_det(x)
    assert y.isnan().all()
    assert log_det.isnan().all()


def test_frozen_parameters_and_points():
    """Gradients for those who want them, and the same ones."""
    flow, x = a_flow(F64), points(20, F64)
    expected = torch.autograd.grad(flow(x).square().sum() + flow(x)[:, 0].sum(), [flow.mu_vectors, x])
    flow.alpha_logits.requires_grad_(False)
    assert torch.equal(
        torch.autograd.grad(flow(x).square().sum() + flow(x)[:, 0].sum(), flow.mu_vectors)[0], expected[0]
    )
    flow.requires_grad_(False)
    assert torch.equal(torch.autograd.grad(flow(x).square().sum() + flow(x)[:, 0].sum(), x)[0], expected[1])
    assert not flow(x.detach()).requires_grad


@pytest.mark.filterwarnings("ignore")  # the tracer warns of what it meets on its way
def test_compiled_flow_takes_torch_operations():
    flow, x = a_flow(F64), points(10, F64).detach()
    compiled = torch.compile(flow, backend="eager")
    torch.testing.assert_close(compiled(x), flow(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float32, 0x7FC00001), (torch.float64, 0x7FF8000000000001)])
def test_nan_with_other_bits(dtype, bits):
    """A NaN may carry any bits, and powers of two look at the lowest ones: it must stay one all the same."""
    integers = np.array([bits], np.int32 if dtype == torch.float32 else np.int64)
    flow, x = a_flow(dtype, n_blocks=1, n_components=2), points(5, dtype)
    with torch.no_grad():
        flow.beta_roots[0, 0] = torch.from_numpy(integers.view(np.float32 if dtype == torch.float32 else np.float64))[0]
    assert flow(x).isnan().all()
