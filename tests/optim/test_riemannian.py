"""Optimizers on spheres: against torch's own on the circle, where both are the same, and against the geometry."""

import copy
import math

import pytest

torch = pytest.importorskip("torch")

from torch.testing import assert_close

from sphereot import sphere, ssw
from sphereot.optim import RiemannianAdam, RiemannianSGD

RETRACTIONS = ("exp", "normalize")


def points(*shape, seed=0):
    return sphere.normalize(torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


def slope(x):
    """Some loss that is neither linear nor a function of directions alone."""
    matrix = torch.linspace(-1, 2, x.shape[-1] ** 2, dtype=x.dtype).reshape(x.shape[-1], -1)
    return (x * (x @ matrix)).sum() + torch.exp(x[..., 0]).sum()


def make(name, params, retraction="exp"):
    return {
        "sgd": lambda: RiemannianSGD(params, 0.05, retraction=retraction),
        "momentum": lambda: RiemannianSGD(params, 0.05, momentum=0.8, retraction=retraction),
        "nesterov": lambda: RiemannianSGD(params, 0.05, momentum=0.8, nesterov=True, retraction=retraction),
        "adam": lambda: RiemannianAdam(params, 0.05, retraction=retraction),
    }[name]()


def descend(x, optimizer, steps, loss=slope):
    for _ in range(steps):
        optimizer.zero_grad()
        loss(x).backward()
        optimizer.step()


NAMES = ("sgd", "momentum", "nesterov", "adam")


@pytest.mark.parametrize("name", NAMES)
def test_on_the_circle_it_is_what_torch_does_with_angles(name):
    """S^1 is flat: unit vectors that follow geodesics go where their angles go under torch's own optimizer."""
    angle = torch.linspace(-3, 3, 40, dtype=torch.float64).requires_grad_()
    x = torch.stack([angle.cos(), angle.sin()], dim=-1).detach().requires_grad_()
    if name == "adam":
        own = torch.optim.Adam([angle], 0.05)
    else:
        own = torch.optim.SGD([angle], 0.05, momentum=0.0 if name == "sgd" else 0.8, nesterov=name == "nesterov")
    descend(angle, own, 50, lambda a: slope(torch.stack([a.cos(), a.sin()], dim=-1)))
    descend(x, make(name, [x]), 50)
    assert_close(x.detach(), torch.stack([angle.cos(), angle.sin()], dim=-1).detach(), atol=1e-9, rtol=0)


def test_a_step_is_the_exponential_map_or_the_retraction():
    start = points(20, 5)
    for retraction in RETRACTIONS:
        x = start.clone().requires_grad_()
        descend(x, RiemannianSGD([x], 0.3, retraction=retraction), 1)
        gradient = sphere.to_tangent(start, torch.func.grad(slope)(start))
        expected = (
            sphere.exp(start, -0.3 * gradient) if retraction == "exp" else sphere.normalize(start - 0.3 * gradient)
        )
        assert_close(x.detach(), expected, atol=1e-12, rtol=0)


def test_retraction_is_the_projected_descent_of_the_paper():
    """Gradients of SSW are orthogonal to the points, so the paper's x - step * gradient, normalized, is the same."""
    start, target = points(30, 3), points(25, 3, seed=1)
    x = start.clone().requires_grad_()
    descend(x, RiemannianSGD([x], 500.0, retraction="normalize"), 1, lambda x: ssw(x, target, n_projections=50, seed=0))
    y = start.clone().requires_grad_()
    ssw(y, target, n_projections=50, seed=0).backward()
    assert_close(x.detach(), sphere.normalize(start - 500.0 * y.grad), atol=1e-12, rtol=0)


@pytest.mark.parametrize("retraction", RETRACTIONS)
def test_momentum_is_carried_by_parallel_transport(retraction):
    """Two steps by hand, with the transport of `sphere`, which is a reflection and not a turn."""
    start = points(20, 4)
    x = start.clone().requires_grad_()
    optimizer = RiemannianSGD([x], 0.05, momentum=0.8, retraction=retraction)
    descend(x, optimizer, 1)
    after = x.detach().clone()
    descend(x, optimizer, 1)
    gradients = [sphere.to_tangent(at, torch.func.grad(slope)(at)) for at in (start, after)]
    momentum = 0.8 * sphere.parallel_transport(start, after, gradients[0]) + gradients[1]
    move = sphere.exp if retraction == "exp" else lambda at, v: sphere.normalize(at + v)
    assert_close(x.detach(), move(after, -0.05 * momentum), atol=1e-12, rtol=0)


@pytest.mark.parametrize("retraction", RETRACTIONS)
def test_descent_of_a_height_has_the_angles_known_by_hand(retraction):
    """Down -<a, x>, the angle t to a obeys t - lr sin t, or t - atan(lr sin t)."""
    x = torch.tensor([[math.cos(3.0), 0.0, math.sin(3.0)]], dtype=torch.float64).requires_grad_()
    optimizer, angle = RiemannianSGD([x], 0.3, retraction=retraction), 3.0
    for _ in range(60):
        descend(x, optimizer, 1, lambda x: -x[:, 0].sum())
        step = 0.3 * math.sin(angle)
        angle -= step if retraction == "exp" else math.atan(step)
        assert optimizer.step_length == pytest.approx(step, abs=1e-12)
    assert_close(x.detach(), torch.tensor([[math.cos(angle), 0.0, math.sin(angle)]], dtype=torch.float64))


@pytest.mark.parametrize("name", NAMES)
def test_turning_the_sphere_turns_the_path(name):
    """No axis is special, for Adam neither, whose means of squares by coordinate would make one so."""
    turn, _ = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    start = points(10, 4)
    x, y = start.clone().requires_grad_(), (start @ turn).requires_grad_()
    descend(x, make(name, [x]), 20)
    descend(y, make(name, [y]), 20, lambda y: slope(y @ turn.T))
    assert_close(y.detach(), x.detach() @ turn, atol=1e-10, rtol=0)


@pytest.mark.parametrize("retraction", RETRACTIONS)
@pytest.mark.parametrize("name", NAMES)
def test_points_stay_on_the_sphere(name, retraction):
    """After 1000 steps in single precision, in any shape."""
    x = points(4, 25, 3).float().requires_grad_()
    descend(x, make(name, [x], retraction), 1000)
    assert_close(torch.linalg.vector_norm(x.detach(), dim=-1), torch.ones(4, 25), atol=3e-7, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_state_goes_on_as_if_never_stopped(name, tmp_path):
    x = points(10, 3).requires_grad_()
    optimizer = make(name, [x])
    descend(x, optimizer, 5)
    torch.save({"x": x.detach(), "optimizer": optimizer.state_dict()}, tmp_path / "state.pt")
    descend(x, optimizer, 5)
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    y = saved["x"].requires_grad_()
    again = make(name, [y])
    again.load_state_dict(saved["optimizer"])
    descend(y, again, 5)
    assert torch.equal(x.detach(), y.detach())


def test_closures_groups_schedulers_and_missing_gradients():
    """The protocol of torch.optim: a loss is returned, each group has its own options, schedulers change them."""
    x, y, idle = (points(5, 3, seed=k).requires_grad_() for k in range(3))
    before = copy.deepcopy([x.detach().clone(), y.detach().clone(), idle.detach().clone()])
    optimizer = RiemannianSGD([{"params": [x, idle]}, {"params": [y], "lr": 0.0, "retraction": "normalize"}], 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    def closure():
        optimizer.zero_grad()
        loss = slope(x) + slope(y)
        loss.backward()
        return loss

    expected = float((slope(x) + slope(y)).detach())
    assert float(optimizer.step(closure).detach()) == pytest.approx(expected)
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    assert not torch.equal(x.detach(), before[0])
    assert_close(y.detach(), before[1], atol=1e-15, rtol=0)
    assert torch.equal(idle.detach(), before[2])


def test_no_gradient_no_move_and_no_nan():
    for name in NAMES:
        x = points(5, 3).requires_grad_()
        before = x.detach().clone()
        optimizer = make(name, [x])
        x.grad = torch.zeros_like(x)
        optimizer.step()
        assert_close(x.detach(), before, atol=1e-15, rtol=0)
        assert optimizer.step_length == 0


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda x: RiemannianSGD([2 * x.detach()], 0.1), r"params\[0\]: row 0 has length 2.*normalize"),
        (lambda x: RiemannianSGD([x], -1.0), r"lr must be finite and at least 0, got -1\.0"),
        (lambda x: RiemannianSGD([x], math.inf), "lr must be finite and at least 0, got inf"),
        (lambda x: RiemannianSGD([x], 0.1, momentum=1.0), r"momentum must be in \[0, 1\), got 1\.0"),
        (lambda x: RiemannianSGD([x], 0.1, nesterov=True), "nesterov must be False without momentum, got True"),
        (
            lambda x: RiemannianSGD([x], 0.1, retraction="log"),
            "retraction must be 'exp' or 'normalize', got 'log'",
        ),
        (lambda x: RiemannianAdam([x], 0.1, betas=(0.9, 1.5)), r"betas\[1\] must be in \[0, 1\), got 1\.5"),
        (lambda x: RiemannianAdam([x], 0.1, eps=0.0), r"eps must be positive, got 0\.0"),
    ],
)
def test_bad_options_are_named(build, said):
    with pytest.raises(ValueError, match=said):
        build(points(5, 3).requires_grad_())


def test_sparse_gradients_are_refused():
    x = points(5, 3).requires_grad_()
    x.grad = torch.zeros_like(x).to_sparse()
    with pytest.raises(ValueError, match="sparse"):
        RiemannianSGD([x], 0.1).step()
