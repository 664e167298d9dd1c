"""PyTorch: torch.compile, torch.func, autocast, checkpoints and data loader workers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from helpers.tensors import points, weights

import sphereot
from sphereot import circle
from sphereot._backends.torch.operators import cost_operator
from sphereot.torch import SSWLoss, UniformityLoss, array_api_backend

ORDERS = [1, 1.5, 2, 3]
normalize = torch.nn.functional.normalize


def test_operators_pass_opcheck():
    x, y = points(6, 3, grad=True), points(5, 3, grad=True)
    frames = sphereot.great_circles(4, 3, seed=0, like=x.detach())
    a, b = weights(6, grad=True), weights(5, grad=True)
    u, v = torch.rand(3, 6, dtype=torch.float64), torch.rand(3, 5, dtype=torch.float64)
    for inputs in (
        (x, None, y, None, frames, 2.0, [True, False, True, False], None),
        (x, a, y, b, frames, 1.5, [True, True, True, True], None),
        (x, a, y, b, frames, 8.0, [True, True, True, True], None),
        (x, a, None, None, frames, 2.0, [True, True, False, False], None),
        (x, a, None, None, frames, 8.0, [True, True, False, False], None),
        (u.requires_grad_(), None, v, None, None, 2.0, [True, False, False, False], None),
        (u, None, None, None, None, 2.0, [True, False, False, False], None),
        (x, a, None, None, None, 2.0, [True, True, False, False], [0.0, 1.0]),
    ):
        torch.library.opcheck(cost_operator, inputs)
    draws = torch.zeros((), dtype=torch.int64)
    torch.library.opcheck(torch.ops.sphereot.next_great_circles.default, (4, 3, "iid", 0, draws, x.detach()))


@pytest.mark.parametrize("path", ["native", "portable"])
def test_compiles_as_one_graph(path):
    x, y = points(20, 3, grad=True), points(20, 3, shift=1)

    def loss(x, y):
        return sphereot.ssw(x, y, seed=0, n_projections=6) + sphereot.ssw_uniform(x, seed=1, n_projections=6)

    with array_api_backend(force=path == "portable"):
        torch.compiler.reset()
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        assert_allclose(compiled(x, y).detach(), loss(x, y).detach(), rtol=1e-12)
        expected, got = (torch.autograd.grad(f(x, y), x)[0] for f in (loss, compiled))
        assert_allclose(got, expected, rtol=1e-9, atol=1e-14)


def test_all_pairs_of_samples_under_transforms():
    """`pairwise_ssw` in a compiled graph and under vmap; the kernel computes all pairs at once elsewhere."""
    samples = [points(n, 3, seed=n) for n in (5, 6, 7)]

    def matrix(*samples):
        return sphereot.pairwise_ssw(samples, seed=0, n_projections=8)

    expected = matrix(*samples)
    assert_allclose(torch.compile(matrix, fullgraph=True, backend="eager")(*samples), expected, atol=1e-15)
    batch = torch.func.vmap(matrix)(*(x[None] for x in samples))
    assert_allclose(batch[0], expected, atol=1e-15)


def test_compiled_slices_are_fresh():
    """Without a seed, a compiled graph draws when it runs, not when it is traced."""
    x = points(20, 3)
    compiled = torch.compile(lambda x: sphereot.ssw_uniform(x, n_projections=5), fullgraph=True, backend="aot_eager")
    assert len({float(compiled(x)) for _ in range(4)}) == 4


def test_func_transforms():
    batch, y = torch.stack([points(10, 3, seed=s) for s in range(4)]), points(8, 3, shift=1)
    frames = sphereot.great_circles(5, 3, seed=0, like=y)

    def loss(x):
        return sphereot.ssw(x, y, projections=frames)

    expected = torch.stack([loss(x) for x in batch])
    assert_allclose(torch.func.vmap(loss)(batch), expected)
    gradients = []
    for x in batch:
        leaf = x.clone().requires_grad_()
        gradients.append(torch.autograd.grad(loss(leaf), leaf)[0])
    assert_allclose(torch.func.grad(loss)(batch[0]), gradients[0])
    assert_allclose(torch.func.vmap(torch.func.grad(loss))(batch), torch.stack(gradients))
    turns = torch.rand(3, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert_allclose(torch.func.vmap(circle.wasserstein)(turns, turns.flip(0)), circle.wasserstein(turns, turns.flip(0)))
    uniform = torch.func.grad(lambda x: sphereot.ssw_uniform(x, projections=frames))(batch[0])
    leaf = batch[0].clone().requires_grad_()
    assert_allclose(uniform, torch.autograd.grad(sphereot.ssw_uniform(leaf, projections=frames), leaf)[0])


def test_autocast_and_half_types():
    x, y = points(30, 4, dtype=torch.float32, grad=True), points(30, 4, shift=1, dtype=torch.float32)
    expected = sphereot.ssw(x, y, seed=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert sphereot.ssw(x, y, seed=0).detach() == expected.detach()
    half = x.detach().bfloat16().requires_grad_()
    SSWLoss(seed=0)(half, y).backward()
    assert half.grad.dtype == torch.bfloat16
    assert torch.isfinite(half.grad).all()


def _loss_of_a_worker(index):
    return float(sphereot.ssw_uniform(points(3000, 3, seed=index), seed=0))


class _Losses(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return _loss_of_a_worker(index)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_data_loader_workers():
    expected = [_loss_of_a_worker(k) for k in range(4)]
    result = torch.cat(list(torch.utils.data.DataLoader(_Losses(), batch_size=2, num_workers=2)))
    assert result.tolist() == expected


def test_blocks_of_the_array_api_backend_under_transforms():
    """Several blocks give the gradients of one: in autograd, in a second backward pass, in torch.func and compiled."""
    x, y = points(12, 3, grad=True), points(9, 3, shift=1, grad=True)
    frames = sphereot.great_circles(10, 3, seed=0, like=x)

    def cost(x, y):
        return sphereot.ssw(x, y, projections=frames)

    expected = torch.autograd.grad(cost(x, y), (x, y))
    with array_api_backend(force=True, block_size=4):
        value = cost(x, y)
        for _ in range(2):
            result = torch.autograd.grad(3 * value, (x, y), retain_graph=True)
            assert all(torch.allclose(g, 3 * e, rtol=1e-9, atol=1e-12) for g, e in zip(result, expected, strict=True))
        (only_y,) = torch.autograd.grad(cost(x.detach(), y), y)
        assert torch.allclose(only_y, expected[1], rtol=1e-9, atol=1e-12)
        assert torch.allclose(torch.func.grad(cost)(x.detach(), y.detach()), expected[0], rtol=1e-9, atol=1e-12)
        each = torch.func.vmap(torch.func.grad(cost), (0, None))(torch.stack([x, x]).detach(), y.detach())
        assert torch.allclose(each[1], expected[0], rtol=1e-9, atol=1e-12)
        compiled = torch.compile(cost, fullgraph=True, backend="aot_eager")
        result = torch.autograd.grad(compiled(x, y), (x, y))
        assert all(torch.allclose(g, e, rtol=1e-9, atol=1e-12) for g, e in zip(result, expected, strict=True))


@pytest.mark.parametrize("fault", ["negative", "zero", "nan", "infinite", "points"])
@pytest.mark.parametrize("path", ["native", "portable"])
def test_invalid_values_under_a_trace_give_nan(path, fault):
    """Values cannot be validated then; they must not lead to an index out of range or an endless search."""
    x, y, w = points(20, 3), points(15, 3), weights(20)
    bad = {"negative": w - 0.6, "zero": 0 * w, "nan": w * torch.nan, "infinite": w / 0}.get(fault, w)
    if fault == "points":
        x = torch.where(torch.arange(20)[:, None] == 3, torch.nan, x)

    def cost(x, w):
        return sphereot.ssw(x, y, x_weights=w, seed=0), sphereot.ssw_uniform(x, weights=w, p=3, seed=0)

    with array_api_backend(force=path == "portable"):
        result = torch.func.vmap(cost)(torch.stack([x, points(20, 3)]), torch.stack([bad, w]))
        assert all(torch.isnan(f[0]) and torch.isfinite(f[1]) for f in result)
        torch.compiler.reset()
        assert all(torch.isnan(f) for f in torch.compile(cost, fullgraph=True, backend="aot_eager")(x, bad))
    if path == "native":
        assert torch.isnan(torch.func.grad(lambda w: cost(x, w)[0])(bad)).all()


def test_backward_through_vmap():
    x, y = torch.stack([points(8, 3, seed=s) for s in range(3)]).requires_grad_(), points(6, 3, shift=1)

    def cost(x):
        return sphereot.ssw(x, y, seed=0) + circle.wasserstein(x[:, 0], y[:, 0])

    (expected,) = torch.autograd.grad(sum(cost(one) for one in x), x)
    (result,) = torch.autograd.grad(torch.func.vmap(cost)(x).sum(), x)
    assert_allclose(result, expected, atol=1e-14)


def test_nested_derivatives_are_an_error():
    x, y = points(8, 3), points(6, 3, shift=1)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: sphereot.ssw(x, y, seed=0))(y).square().sum())(x)


@pytest.mark.parametrize("block_size", [None, 7])
def test_checkpoints_and_batched_gradients(block_size):
    x, y = points(10, 3, grad=True), points(8, 3, shift=1)

    def cost(x):
        return sphereot.ssw(x, y, seed=0)

    (expected,) = torch.autograd.grad(cost(x), x)
    with array_api_backend(force=block_size is not None, block_size=block_size):
        (result,) = torch.autograd.grad(torch.utils.checkpoint.checkpoint(cost, x, use_reentrant=False), x)
        assert_allclose(result, expected, rtol=1e-9, atol=1e-12)
    jacobian = torch.autograd.functional.jacobian(lambda x: cost(x)[None] * torch.ones(3), x, vectorize=True)
    assert_allclose(jacobian[2], expected, rtol=1e-9, atol=1e-12)


def test_half_types_compiled():
    """The dtype of the great circles at run time is the one that the graph was compiled for."""
    x, y = (points(20, 3, seed=s).bfloat16() for s in range(2))
    torch.library.opcheck(torch.ops.sphereot.great_circles.default, (5, 3, "iid", 0, x))
    loss = SSWLoss(seed=0, fixed=True)
    value = loss(x, y)
    assert torch.compile(loss, backend="aot_eager")(x, y) == value
    assert torch.isfinite(sphereot.ssw(x, y, x_weights=torch.rand(20).bfloat16(), seed=0))


def test_circles_are_not_differentiated():
    x, y = points(10, 3, grad=True), points(8, 3, shift=1)
    frames = sphereot.great_circles(6, 3, seed=0, like=x).requires_grad_()
    for block_size in (None, 2):
        with array_api_backend(force=block_size is not None, block_size=block_size):
            assert not sphereot.ssw(x.detach(), y, projections=frames).requires_grad
            (result,) = torch.autograd.grad(sphereot.ssw(x, y, projections=frames), frames, allow_unused=True)
            assert result is None


def test_estimates_accept_weights_that_require_grad():
    x, a = points(10, 3), weights(10, grad=True)
    for estimate in (sphereot.ssw_estimate(x, x_weights=a, seed=0), sphereot.ssw_estimate(x, x, x_weights=a, seed=0)):
        assert np.isfinite(estimate.value)


# ---- losses under torch.func ----


def _calls(loss, y):
    """The loss of a sample under each transform of torch.func, and the same result from autograd."""

    def cost(x):
        return loss(x, y) if isinstance(loss, SSWLoss) else loss(x)

    def call(x):
        return torch.func.functional_call(loss, {}, (x, y) if isinstance(loss, SSWLoss) else (x,))

    def gradient(x):
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(cost(leaf), leaf)[0]

    def each_gradient(batch):
        leaf = batch.clone().requires_grad_()
        total = loss(leaf, y.expand(len(batch), *y.shape)) if isinstance(loss, SSWLoss) else loss(leaf)
        return torch.autograd.grad(total, leaf)[0]

    func = torch.func
    return {
        "grad": (func.grad(cost), gradient),
        "value": (lambda x: func.grad_and_value(cost)(x)[1], cost),
        "jacrev": (func.jacrev(cost), gradient),
        "vjp": (lambda x: func.vjp(cost, x)[1](torch.ones((), dtype=x.dtype))[0], gradient),
        "functional_call": (call, cost),
        "grad of functional_call": (func.grad(call), gradient),
        "vmap of grad": (func.vmap(func.grad(cost)), each_gradient),
        "grad of vmap": (func.grad(lambda batch: func.vmap(cost)(batch).sum()), each_gradient),
    }


_WAYS = [(kind, way, False) for kind in (SSWLoss, UniformityLoss) for way in _calls(UniformityLoss(), None)]
_WAYS += [(SSWLoss, way, True) for way in ("grad", "jacrev", "functional_call", "vmap of grad", "grad of vmap")]
_WAYS += [(UniformityLoss, way, True) for way in ("grad of functional_call", "vmap of grad")]


@pytest.mark.parametrize(("kind", "way", "compiled"), _WAYS)
def test_seeded_losses_under_func(kind, way, compiled):
    """Values and gradients equal those of the eager loss for each draw, draws are counted, and it compiles once."""
    y, batch = points(8, 3, shift=1), torch.stack([points(10, 3, seed=s) for s in range(3)])
    given = batch if "vmap" in way else batch[0]
    loss, plain = (kind(seed=3, n_projections=5, reduction="sum") for _ in range(2))
    function, expected = _calls(loss, y)[way][0], _calls(plain, y)[way][1]
    if compiled:
        torch.compiler.reset()
        function = torch.compile(function, fullgraph=True, backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for draws in range(1, 4):
            assert_allclose(function(given), expected(given), rtol=1e-9, atol=1e-14)
            assert loss.state_dict()["draws"] == draws
    assert loss(batch[0], *([y] * (kind is SSWLoss))) == plain(batch[0], *([y] * (kind is SSWLoss)))


def test_losses_share_their_slices_under_vmap():
    """All members of a vmap batch use the same great circles, as in a batch (B, n, d)."""
    batch = torch.stack([points(10, 3, seed=s) for s in range(3)])
    expected = UniformityLoss(seed=1, reduction="none")(batch)
    for compiled in (False, True):
        loss = UniformityLoss(seed=1)
        function = torch.func.vmap(loss)
        if compiled:
            torch.compiler.reset()
            function = torch.compile(function, fullgraph=True, backend="aot_eager")
        assert_allclose(function(batch), expected, rtol=1e-12)
        assert loss.state_dict()["draws"] == 1


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("make", [lambda: UniformityLoss(n_projections=4), lambda: _unseeded])
def test_randomness_of_vmap(make, compiled):
    """Circles without a seed follow the option of vmap, as random numbers of torch do; with a seed they are shared."""
    batch = torch.stack(3 * [points(10, 3, dtype=torch.float32)])

    def values(function, randomness):
        function = torch.func.vmap(function, randomness=randomness)
        if compiled:
            torch.compiler.reset()
            function = torch.compile(function, backend="aot_eager")
        return function(batch)

    assert len(values(make(), "same").unique()) == 1
    assert len(values(make(), "different").unique()) == 3
    with pytest.raises(RuntimeError, match=r"drawn at random inside torch\.func\.vmap. Pass a seed"):
        values(make(), "error")
    for randomness in ("same", "different", "error"):
        assert len(values(UniformityLoss(n_projections=4, seed=0), randomness).unique()) == 1


def _unseeded(x):
    return sphereot.ssw_uniform(x, n_projections=4)


def test_fixed_losses_under_func():
    """Great circles of the first call are kept as a plain tensor; in a compiled transform they must exist before."""
    x = points(10, 3)
    loss = UniformityLoss(fixed=True, n_projections=5)
    gradient = torch.func.grad(loss)(x)
    assert not torch._C._functorch.is_functorch_wrapped_tensor(loss.frames)
    assert_allclose(torch.func.grad(loss)(x), gradient)
    torch.compiler.reset()
    assert_allclose(torch.compile(torch.func.grad(loss), fullgraph=True, backend="aot_eager")(x), gradient, rtol=1e-9)
    with pytest.raises(Exception, match="Call the loss once before"):
        torch.compile(torch.func.grad(UniformityLoss(fixed=True)), fullgraph=True, backend="aot_eager")(x)


@pytest.mark.parametrize("cost", ["ssw", "ssw_uniform", "circle"])
def test_compiled_func_transforms(cost):
    """Derivatives of torch.func inside torch.compile equal those of autograd; second derivatives are NaN."""
    x, y, w = points(10, 3), points(8, 3, shift=1), weights(10)
    costs = {
        "ssw": lambda x, w: sphereot.ssw(x, y, x_weights=w, p=1.5, seed=0, n_projections=5),
        "ssw_uniform": lambda x, w: sphereot.ssw_uniform(x, weights=w, seed=0, n_projections=5),
        "circle": lambda x, w: circle.wasserstein(x.mT, y.mT, u_weights=w).sum(),
    }
    function = costs[cost]
    leaves = x.clone().requires_grad_(), w.clone().requires_grad_()
    expected = torch.autograd.grad(function(*leaves), leaves)

    def compiled(transformed):
        torch.compiler.reset()
        return torch.compile(transformed, fullgraph=True, backend="aot_eager")

    result = compiled(torch.func.grad(function, argnums=(0, 1)))(x, w)
    for got, wants in zip(result, expected, strict=True):
        assert_allclose(got, wants, rtol=1e-9, atol=1e-12)
    twice = compiled(torch.func.grad(lambda x: torch.func.grad(function)(x, w).square().sum()))
    assert torch.isnan(twice(x)).all()


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_forward_mode_error_suggests_reverse_mode():
    x, y = points(10, 3), points(8, 3, shift=1)

    def cost(x):
        return sphereot.ssw(x, y, seed=0)

    def dual(x):
        with torch.autograd.forward_ad.dual_level():
            return cost(torch.autograd.forward_ad.make_dual(x, x))

    for forward in (
        torch.func.jacfwd(cost),
        torch.func.hessian(cost),
        lambda x: torch.func.jvp(cost, (x,), (x,)),
        dual,
    ):
        with pytest.raises(NotImplementedError, match=r"Use reverse mode: .*torch\.func\.grad"):
            forward(x)
