"""PyTorch: gradients, transforms, compile, losses."""

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from generators import sphere_sample
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

import sphereot
from sphereot import circle
from sphereot._native import slices as native
from sphereot._seeds import seed_of_draw
from sphereot.torch import SSWLoss, UniformityLoss, ops, portable_path

ORDERS = [1, 1.5, 2, 3]
normalize = torch.nn.functional.normalize


def points(n, d, *, seed=0, shift=0.0, dtype=torch.float64, grad=False):
    x = torch.tensor(sphere_sample(np.random.default_rng([seed, n]), n, d, shift=shift), dtype=dtype)
    return x.requires_grad_(grad)


def weights(n, *, seed=0, grad=False):
    return torch.tensor(np.random.default_rng([seed, n, 1]).random(n) + 0.1).requires_grad_(grad)


# ---- gradients are right ----


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
    """The price of the first bit of mass, from the right; atoms of no weight may stand side by side."""
    rng = np.random.default_rng(3)
    for trial in range(60):
        n, m = rng.integers(3, 8, 2)
        u, v = (torch.tensor(rng.random(k)) for k in (n, m))
        w = rng.random(n) + 0.1
        w[rng.permutation(n)[: rng.integers(1, n)]] = 0
        a = torch.tensor(w, requires_grad=True)
        b = None if trial % 2 else torch.tensor(rng.random(m) + 0.1)
        (found,) = torch.autograd.grad(circle.wasserstein(u, v, p=p, u_weights=a, v_weights=b), a)
        for k in np.flatnonzero(w == 0):
            values = [
                circle.wasserstein(u, v, p=p, u_weights=torch.tensor(w + h * (np.arange(n) == k)), v_weights=b)
                for h in (0, 1e-7)
            ]
            assert abs(float(found[k] - (values[1] - values[0]) / 1e-7)) < 1e-5, (trial, k)


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
def test_native_gradient_equals_portable(p, n, m):
    """The kernel's gradient and autograd through the other path agree, with one block of slices and with several."""
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
        with portable_path(force=True, block_size=block_size):
            for got, kernel in zip(gradients(), expected, strict=True):
                assert_allclose(got.detach(), kernel.detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("path", ["native", "portable"])
@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_in_hard_places(path, p, dtype):
    """At x = y (zero there), at coincident points, antipodes, and points orthogonal to the slice (none there)."""
    x = points(20, 3, dtype=dtype)
    pole = torch.tensor([[0.0, 0.0, 1.0]], dtype=dtype)
    equator = torch.eye(3, dtype=dtype)[None, :, :2]
    cases = {
        "same": (x, x.flip(0), None),
        "coincident": (x[:1].repeat(10, 1), x[:10], None),
        "antipodes": (x, -x, None),
        "orthogonal": (torch.cat([pole, x]), torch.cat([x, pole]), equator),
        "one each": (x[:1], -x[:1], None),
    }
    with portable_path(force=path == "portable"):
        for name, (one, other, frames) in cases.items():
            for root in (False, True):
                one, other = one.clone().requires_grad_(), other.clone().requires_grad_()
                value = sphereot.ssw(
                    one, other, p=p, projections=frames, seed=None if frames is not None else 0, root=root
                )
                found = torch.autograd.grad(value, (one, other))
                assert all(torch.isfinite(g).all() for g in found), name
                if name == "same":
                    assert value == 0
                    assert all((g == 0).all() for g in found)
                if name == "orthogonal":
                    assert (found[0][0] == 0).all()


@pytest.mark.parametrize("p", ORDERS)
def test_small_descent_step_never_raises_the_loss(p):
    """On the same slices SSW_p^p is locally smooth downhill: 50 starts, a step of 1e-4 of the gradient's own length."""
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
    before, found = sphereot.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            sphereot.set_num_threads(threads)
            found.append(
                [
                    torch.autograd.grad(sphereot.ssw(x, y, seed=0), x)[0],
                    torch.autograd.grad(sphereot.ssw(x, y[:1500], seed=0), x)[0],
                    torch.autograd.grad(sphereot.ssw_uniform(wide, seed=0), wide)[0],
                ]
            )
    finally:
        sphereot.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(g, h) for g, h in zip(found[0], other, strict=True))


def test_weight_gradient_at_equal_weights_is_a_subgradient():
    """At ties of the levels the potential is not unique; whichever is given supports the convex cost from below."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        u, v = torch.tensor(rng.random(6)), torch.tensor(rng.random(6))
        a = torch.full((6,), 1 / 6, dtype=torch.float64, requires_grad=True)
        value = circle.wasserstein(u, v, u_weights=a)
        (gradient,) = torch.autograd.grad(value, a)
        other = torch.tensor(rng.dirichlet(np.ones(6)))
        assert circle.wasserstein(u, v, u_weights=other) >= value + gradient @ (other - a) - 1e-12


# ---- what torch does with functions ----


def test_operators_pass_opcheck():
    x, y = points(6, 3, grad=True), points(5, 3, grad=True)
    frames = sphereot.great_circles(4, 3, seed=0, like=x.detach())
    a, b = weights(6, grad=True), weights(5, grad=True)
    u, v = torch.rand(3, 6, dtype=torch.float64), torch.rand(3, 5, dtype=torch.float64)
    torch.library.opcheck(ops._mean_cost, (x, y, None, None, frames, 2.0, [True, False, True, False]))
    torch.library.opcheck(ops._mean_cost, (x, y, a, b, frames, 1.5, [True, True, True, True]))
    torch.library.opcheck(ops._mean_cost_uniform, (x, a, frames, 2.0, [True, True]))
    torch.library.opcheck(ops._circle_costs, (u.requires_grad_(), v, None, None, 2.0, [True, False, False, False]))
    torch.library.opcheck(ops._circle_costs_uniform, (u, None, 2.0, [True, False]))


@pytest.mark.parametrize("path", ["native", "portable"])
def test_compiles_as_one_graph(path):
    x, y = points(20, 3, grad=True), points(20, 3, shift=1)

    def loss(x, y):
        return sphereot.ssw(x, y, seed=0, n_projections=6) + sphereot.ssw_uniform(x, seed=1, n_projections=6)

    with portable_path(force=path == "portable"):
        torch.compiler.reset()
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        assert_allclose(compiled(x, y).detach(), loss(x, y).detach(), rtol=1e-12)
        expected, got = (torch.autograd.grad(f(x, y), x)[0] for f in (loss, compiled))
        assert_allclose(got, expected, rtol=1e-9, atol=1e-14)


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
    found = torch.cat(list(torch.utils.data.DataLoader(_Losses(), batch_size=2, num_workers=2)))
    assert found.tolist() == expected


def test_blocks_of_the_portable_path_under_transforms():
    """In several blocks: differentiated at once, also for a second backward pass; whole in torch.func, compiled."""
    x, y = points(12, 3, grad=True), points(9, 3, shift=1, grad=True)
    frames = sphereot.great_circles(10, 3, seed=0, like=x)

    def cost(x, y):
        return sphereot.ssw(x, y, projections=frames)

    expected = torch.autograd.grad(cost(x, y), (x, y))
    with portable_path(force=True, block_size=4):
        value = cost(x, y)
        for _ in range(2):
            found = torch.autograd.grad(3 * value, (x, y), retain_graph=True)
            assert all(torch.allclose(g, 3 * e, rtol=1e-9, atol=1e-12) for g, e in zip(found, expected, strict=True))
        (only_y,) = torch.autograd.grad(cost(x.detach(), y), y)
        assert torch.allclose(only_y, expected[1], rtol=1e-9, atol=1e-12)
        assert torch.allclose(torch.func.grad(cost)(x.detach(), y.detach()), expected[0], rtol=1e-9, atol=1e-12)
        each = torch.func.vmap(torch.func.grad(cost), (0, None))(torch.stack([x, x]).detach(), y.detach())
        assert torch.allclose(each[1], expected[0], rtol=1e-9, atol=1e-12)
        compiled = torch.compile(cost, fullgraph=True, backend="aot_eager")
        found = torch.autograd.grad(compiled(x, y), (x, y))
        assert all(torch.allclose(g, e, rtol=1e-9, atol=1e-12) for g, e in zip(found, expected, strict=True))


@pytest.mark.parametrize("fault", ["negative", "zero", "nan", "infinite", "points"])
@pytest.mark.parametrize("path", ["native", "portable"])
def test_what_has_no_distance_is_nan_under_a_trace(path, fault):
    """Nobody can look at values then; neither an index out of range nor an endless search may come of it."""
    x, y, w = points(20, 3), points(15, 3), weights(20)
    bad = {"negative": w - 0.6, "zero": 0 * w, "nan": w * torch.nan, "infinite": w / 0}.get(fault, w)
    if fault == "points":
        x = torch.where(torch.arange(20)[:, None] == 3, torch.nan, x)

    def cost(x, w):
        return sphereot.ssw(x, y, x_weights=w, seed=0), sphereot.ssw_uniform(x, weights=w, p=3, seed=0)

    with portable_path(force=path == "portable"):
        found = torch.func.vmap(cost)(torch.stack([x, points(20, 3)]), torch.stack([bad, w]))
        assert all(torch.isnan(f[0]) and torch.isfinite(f[1]) for f in found)
        torch.compiler.reset()
        assert all(torch.isnan(f) for f in torch.compile(cost, fullgraph=True, backend="aot_eager")(x, bad))
    if path == "native":
        assert torch.isnan(torch.func.grad(lambda w: cost(x, w)[0])(bad)).all()


def test_backward_through_vmap():
    x, y = torch.stack([points(8, 3, seed=s) for s in range(3)]).requires_grad_(), points(6, 3, shift=1)

    def cost(x):
        return sphereot.ssw(x, y, seed=0) + circle.wasserstein(x[:, 0], y[:, 0])

    (expected,) = torch.autograd.grad(sum(cost(one) for one in x), x)
    (found,) = torch.autograd.grad(torch.func.vmap(cost)(x).sum(), x)
    assert_allclose(found, expected, atol=1e-14)


def test_nested_transforms_are_refused():
    x, y = points(8, 3), points(6, 3, shift=1)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: sphereot.ssw(x, y, seed=0))(y).square().sum())(x)


@pytest.mark.parametrize("block_size", [None, 7])
def test_checkpoints_and_batched_gradients(block_size):
    x, y = points(10, 3, grad=True), points(8, 3, shift=1)

    def cost(x):
        return sphereot.ssw(x, y, seed=0)

    (expected,) = torch.autograd.grad(cost(x), x)
    with portable_path(force=block_size is not None, block_size=block_size):
        (found,) = torch.autograd.grad(torch.utils.checkpoint.checkpoint(cost, x, use_reentrant=False), x)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    jacobian = torch.autograd.functional.jacobian(lambda x: cost(x)[None] * torch.ones(3), x, vectorize=True)
    assert_allclose(jacobian[2], expected, rtol=1e-9, atol=1e-12)


def test_half_types_compiled():
    """What a compiled graph believes of the dtype of the circles is what they have."""
    x, y = (points(20, 3, seed=s).bfloat16() for s in range(2))
    torch.library.opcheck(ops._great_circles, (5, 3, "iid", 0, x))
    loss = SSWLoss(seed=0, fixed=True)
    value = loss(x, y)
    assert torch.compile(loss, backend="aot_eager")(x, y) == value
    assert torch.isfinite(sphereot.ssw(x, y, x_weights=torch.rand(20).bfloat16(), seed=0))


def test_circles_are_not_differentiated():
    x, y = points(10, 3, grad=True), points(8, 3, shift=1)
    frames = sphereot.great_circles(6, 3, seed=0, like=x).requires_grad_()
    for block_size in (None, 2):
        with portable_path(force=block_size is not None, block_size=block_size):
            assert not sphereot.ssw(x.detach(), y, projections=frames).requires_grad
            (found,) = torch.autograd.grad(sphereot.ssw(x, y, projections=frames), frames, allow_unused=True)
            assert found is None


def test_estimates_take_weights_that_require_grad():
    x, a = points(10, 3), weights(10, grad=True)
    for estimate in (sphereot.ssw_estimate(x, x_weights=a, seed=0), sphereot.ssw_estimate(x, x, x_weights=a, seed=0)):
        assert np.isfinite(estimate.value)


# ---- errors ----


@pytest.mark.parametrize("portable", [False, True])
def test_double_backward_is_refused(portable):
    x, y = points(10, 3, grad=True), points(10, 3, shift=1)
    with portable_path(force=portable, block_size=7):
        (gradient,) = torch.autograd.grad(sphereot.ssw(x, y, seed=0), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.square().sum().backward()


def test_backward_without_grad():
    with pytest.raises(RuntimeError, match="does not require grad"):
        sphereot.ssw(points(5, 3), points(5, 3), seed=0).backward()


def test_weights_off_the_kernel():
    x, a = points(5, 3), weights(5, grad=True)
    with portable_path(force=True), pytest.raises(RuntimeError, match="detach the weights"):
        sphereot.ssw(x, x, x_weights=a, seed=0)


# ---- modules ----


def test_ssw_loss_is_ssw():
    x, y = points(20, 3, grad=True), points(15, 3, shift=1)
    loss = SSWLoss(p=1.5, n_projections=30, seed=4)
    assert_allclose(loss(x, y).detach(), sphereot.ssw(x.detach(), y, p=1.5, n_projections=30, seed=4))
    second = loss(x, y).detach()
    assert_allclose(second, sphereot.ssw(x.detach(), y, p=1.5, n_projections=30, seed=seed_of_draw(4, 1)))
    assert second != SSWLoss(p=1.5, n_projections=30, seed=5)(x, y)  # streams of neighboring seeds do not overlap
    rooted = SSWLoss(n_projections=30, seed=4, root=True)
    assert_allclose(rooted(x, y).detach(), sphereot.ssw(x.detach(), y, n_projections=30, seed=4, root=True))
    a = weights(20)
    uniform = UniformityLoss(n_projections=30, seed=4, method="quasi")
    frames = sphereot.great_circles(30, 3, method="quasi", seed=4)
    assert_allclose(
        uniform(x, a).detach(), sphereot.ssw_uniform(x.detach().numpy(), projections=frames, weights=a.numpy())
    )


def test_fresh_and_fixed_slices():
    x = points(20, 3)
    fresh, fixed = UniformityLoss(), UniformityLoss(fixed=True)
    assert fresh(x) != fresh(x)
    assert fixed(x) == fixed(x)
    assert "frames" not in fresh.state_dict()
    with pytest.raises(ValueError, match="holds great circles for points in dimension 3, but these have dimension 4"):
        fixed(points(20, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("way", ["kernel", "portable", "vmap"])
def test_fresh_slices_have_the_right_mean(dtype, d, way):
    """Without a seed the kernel may draw the circles itself: the mean over calls is that over many seeded circles."""
    x = points(25, d, shift=1).to(dtype)
    loss = UniformityLoss(n_projections=40)

    def value():
        if way == "vmap":
            return torch.func.vmap(loss, randomness="same")(x[None])[0]
        with portable_path(force=way == "portable"):
            return loss(x)

    found = np.array([float(value()) for _ in range(60)])
    seeded = sphereot.ssw_uniform(normalize(x.double()), n_projections=100_000, seed=0)
    error = np.hypot(found.std(ddof=1) / np.sqrt(60), found.std(ddof=1) * np.sqrt(40 / 100_000))
    # Five standard errors, and what the points themselves are rounded by.
    assert abs(found.mean() - seeded) < 5 * error + 4 * float(seeded) * torch.finfo(dtype).eps
    assert len(np.unique(found)) == 60


def test_members_of_a_batch_share_their_slices():
    x = points(10, 20, dtype=torch.float32).requires_grad_()
    each = UniformityLoss(reduction="none")(torch.stack([x, x]))
    assert each[0] == each[1]
    each.sum().backward()
    assert torch.isfinite(x.grad).all()


def test_state_survives(tmp_path):
    """Fixed slices and the place in the stream of a seed are saved, loaded safely, and copied."""
    x = points(20, 3)
    fixed, streamed = UniformityLoss(fixed=True), UniformityLoss(seed=1)
    fixed(x), streamed(x)
    for loss, fresh in ((fixed, UniformityLoss(fixed=True)), (streamed, UniformityLoss(seed=1))):
        torch.save(loss.state_dict(), tmp_path / "loss.pt")
        fresh.load_state_dict(torch.load(tmp_path / "loss.pt", weights_only=True))
        copied = copy.deepcopy(loss)
        expected = loss(x)
        assert fresh(x) == expected
        assert copied(x) == expected


def test_state_in_files(tmp_path):
    """Tensors alone, so that safetensors takes them; nothing at all for a loss without a seed."""
    safetensors = pytest.importorskip("safetensors.torch")
    x = points(20, 3)
    model = torch.nn.ModuleDict({"loss": UniformityLoss(seed=1), "fresh": UniformityLoss()})
    model["loss"](x)
    assert list(model.state_dict()) == ["loss.draws"]
    safetensors.save_file(model.state_dict(), tmp_path / "model.safetensors")
    other = UniformityLoss(seed=1)
    other.load_state_dict({"draws": safetensors.load_file(tmp_path / "model.safetensors")["loss.draws"]})
    assert other(x) == model["loss"](x)
    other.load_state_dict({})  # from before the loss was part of the model
    with pytest.raises(RuntimeError, match="Unexpected key"):
        other.load_state_dict({"something": torch.zeros(1)})


def test_fixed_slices_load_where_they_fit():
    x = points(20, 3)
    used, fresh = UniformityLoss(fixed=True), UniformityLoss(fixed=True)
    before = fresh.state_dict()
    used(x)
    with pytest.raises(RuntimeError, match="frames: the state has 200 slices, the loss 50"):
        UniformityLoss(n_projections=50, fixed=True).load_state_dict(used.state_dict())
    used.load_state_dict(before)
    assert used.frames is None


def test_seeded_slices_compiled():
    """The number of the draw is no part of a compiled graph: it is compiled once, and goes on in the same stream."""
    x, y = points(20, 3), points(15, 3, shift=1)
    loss, plain = SSWLoss(seed=3, n_projections=5), SSWLoss(seed=3, n_projections=5)
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for _ in range(12):
        assert_allclose(compiled(x, y), plain(x, y), rtol=1e-12)
    assert loss(x, y) == plain(x, y)


def test_reductions():
    x, y = (torch.stack([points(8, 3, seed=s, shift=k) for s in range(3)]) for k in (0, 1))
    each = SSWLoss(seed=0, reduction="none")(x, y)
    assert each.shape == (3,)
    assert_allclose(each[1], sphereot.ssw(x[1], y[1], seed=0))
    assert_allclose(SSWLoss(seed=0)(x, y), each.mean())
    assert_allclose(SSWLoss(seed=0, reduction="sum")(x, y), each.sum())
    assert SSWLoss(seed=0, reduction="none")(x[0], y[0]).shape == ()
    assert UniformityLoss(seed=0, reduction="none")(x, weights(8)).shape == (3,)


def test_repr_tells_the_options():
    assert repr(SSWLoss(p=1)) == "SSWLoss(p=1, n_projections=200, method='iid')"
    assert "normalize=True" in repr(UniformityLoss(normalize=True))


def test_unnormalized_input():
    x = 3 * points(10, 3)
    with pytest.raises(ValueError, match=r"x: row 0 has length 3, .*sphereot\.sphere\.normalize"):
        UniformityLoss()(x)
    assert_allclose(UniformityLoss(normalize=True, seed=0)(x), UniformityLoss(seed=0)(x / 3), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SSWLoss(p=0.5), ValueError, "p: got 0.5"),
        (lambda: SSWLoss(n_projections=0), ValueError, "n_projections: got 0"),
        (lambda: SSWLoss(method="sobol"), ValueError, "method: found 'sobol'"),
        (lambda: SSWLoss(reduction="max"), ValueError, "reduction: got 'max'"),
        (lambda: SSWLoss(block_size=0), ValueError, "block_size: found 0"),
        (lambda: portable_path(block_size=-1).__enter__(), ValueError, "block_size: found -1"),
        (lambda: UniformityLoss()(torch.ones(0, 5, 3)), ValueError, r"x: shape is \(0, 5, 3\), a batch of no samples"),
        (lambda: UniformityLoss()(torch.ones(5, 1)), ValueError, "x: points have 1 coordinate"),
        (
            lambda: UniformityLoss(normalize=True)(torch.ones(2, 5, 3), torch.ones(3, 5)),
            ValueError,
            r"weights: shape is \(3, 5\), but points \(2, 5, 3\) need \(5,\) or \(2, 5\)",
        ),
        (
            lambda: SSWLoss(normalize=True)(torch.ones(5, 3), torch.ones(4, 3), None, torch.tensor(1.0)),
            ValueError,
            r"y_weights: shape is \(\), but points \(4, 3\) need \(4,\)",
        ),
        (
            lambda: SSWLoss(normalize=True)(torch.ones(5, 3), torch.ones(4, 3), [1.0] * 5),
            TypeError,
            "x_weights: got list",
        ),
        (lambda: UniformityLoss()(np.eye(3)), TypeError, "x: got ndarray"),
        (lambda: UniformityLoss()(torch.ones(3)), ValueError, r"x: shape is \(3,\)"),
        (lambda: UniformityLoss()(torch.eye(3, dtype=torch.int64)), TypeError, "x: dtype is torch.int64"),
        (lambda: SSWLoss()(torch.eye(3), torch.eye(3)[None]), ValueError, "same batch dimension"),
        (lambda: SSWLoss()(torch.eye(3), torch.eye(3).to("meta")), ValueError, "x is on cpu and y on meta"),
    ],
)
def test_errors_of_modules(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_two_processes_equal_one():
    """Each rank holds half the batch; value and gradients are those of one process with all of it."""
    script = Path(__file__).parent / "two_ranks.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "ranks agree" in done.stdout


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


def test_values_are_the_kernels():
    """CPU tensors go to the kernel: the same digits as NumPy."""
    x, y = points(50, 3), points(40, 3, shift=1)
    frames = sphereot.great_circles(9, 3, seed=0)
    expected = native.mean_cost(x.numpy(), y.numpy(), None, None, frames, 2.0)
    assert float(sphereot.ssw(x, y, projections=torch.tensor(frames))) == float(expected)


def test_fixed_slices_keep_their_precision_in_a_half_model():
    """Frames rounded to bfloat16 are off orthonormal by a percent; moving a model to half must not do that to them."""
    x = torch.nn.functional.normalize(torch.randn(16, 4, generator=torch.Generator().manual_seed(0)))
    loss = UniformityLoss(seed=0, fixed=True)
    before = loss(x)
    loss.bfloat16()
    assert loss(x) == before


def test_fixed_state_loads_into_a_loss_of_fresh_slices():
    x = torch.nn.functional.normalize(torch.randn(16, 4, generator=torch.Generator().manual_seed(0)))
    fixed = UniformityLoss(seed=0, fixed=True)
    fixed(x)
    state = fixed.state_dict()
    UniformityLoss(seed=0).load_state_dict(state)
    assert "frames" in state


@pytest.mark.parametrize("seed", [torch.Generator(), -1, 0.5])
def test_a_loss_counts_on_from_a_whole_number(seed):
    with pytest.raises(ValueError, match="seed"):
        UniformityLoss(seed=seed)
