"""Losses of two views: values by double loops, gradients, compiled, in half precision, bad input."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from numpy.testing import assert_allclose
from torch import nn

import sphereot
from paper.learning.view_losses import GaussianPotentialLoss, NTXentLoss, SWUniformityLoss
from sphereot.torch import AlignmentUniformityLoss, LossParts, UniformityLoss


def views(n=9, dim=4, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(n, dim, generator=generator, dtype=torch.float64)
    moved = [images + 0.3 * torch.randn(n, dim, generator=generator, dtype=torch.float64) for _ in range(2)]
    return tuple(nn.functional.normalize(view, dim=1).to(dtype) for view in moved)


LOSSES = {
    "SSW": lambda: AlignmentUniformityLoss(20.0, UniformityLoss(n_projections=20, seed=3, fixed=True)),
    "exact": lambda: AlignmentUniformityLoss(20.0),
    "unbiased": lambda: AlignmentUniformityLoss(20.0, UniformityLoss(method="exact", unbiased=True)),
    "Gaussian": lambda: AlignmentUniformityLoss(1.0, GaussianPotentialLoss()),
    "alpha": lambda: AlignmentUniformityLoss(1.0, alpha=1.5),
    "NT-Xent": lambda: NTXentLoss(0.2),
}
ALL = LOSSES | {"SW": lambda: AlignmentUniformityLoss(1.0, SWUniformityLoss(20, seed=0))}


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_nt_xent_equals_a_double_loop(temperature):
    a, b = (view.numpy() for view in views())
    both, n = np.concatenate([a, b]), len(a)
    total = 0.0
    for i in range(2 * n):
        other = (i + n) % (2 * n)
        terms = sum(math.exp(both[i] @ both[j] / temperature) for j in range(2 * n) if j != i)
        total -= math.log(math.exp(both[i] @ both[other] / temperature) / terms)
    assert_allclose(NTXentLoss(temperature)(*views()), total / (2 * n), rtol=1e-12)


def test_nt_xent_equals_cross_entropy():
    """As the publication's code has it: a classification of the other view."""
    a, b = views()
    both = torch.cat([a, b])
    logits = (both @ both.T / 0.5).fill_diagonal_(-1e9)
    labels = torch.cat([torch.arange(9, 18), torch.arange(9)])
    assert_allclose(NTXentLoss(0.5)(a, b), nn.functional.cross_entropy(logits, labels), rtol=1e-9)


@pytest.mark.parametrize("t", [0.5, 2.0])
def test_gaussian_potential_equals_a_double_loop(t):
    x = views()[0].numpy()
    pairs = [math.exp(-t * sum((x[i] - x[j]) ** 2)) for i in range(9) for j in range(i)]
    assert_allclose(GaussianPotentialLoss(t)(views()[0]), math.log(np.mean(pairs)), rtol=1e-12)


def test_gaussian_potential_of_uniform_points():
    """Its limit on S^2 in closed form: the mean of exp(-2t (1 - c)) over c uniform on [-1, 1]."""
    t = 2.0
    expected = math.log((1 - math.exp(-4 * t)) / (4 * t))
    values = [
        float(GaussianPotentialLoss(t)(sphereot.sphere.random_uniform(400, 3, seed=k, like=torch.empty(0))))
        for k in range(20)
    ]
    assert abs(np.mean(values) - expected) < 4 * np.std(values) / math.sqrt(20) + 1e-3


def test_alignment_and_weight():
    a, b = views()
    parts = AlignmentUniformityLoss(7.0).forward_components(a, b)
    assert_allclose(parts.alignment, np.mean(np.sum((a.numpy() - b.numpy()) ** 2, axis=1)), rtol=1e-12)
    each = [sphereot.ssw_uniform(view, method="exact") for view in (a, b)]
    assert_allclose(parts.uniformity, (each[0] + each[1]) / 2, rtol=1e-12)
    assert_allclose(parts.total, parts.alignment + 3.5 * (each[0] + each[1]), rtol=1e-12)
    parts = AlignmentUniformityLoss(1.0, alpha=1.0).forward_components(a, b)
    assert_allclose(parts.alignment, np.linalg.norm(a - b, axis=1).mean(), rtol=1e-9)


def test_sw_term_is_that_of_pot():
    ot = pytest.importorskip("ot")
    x = views(60)[0]
    ours = [float(SWUniformityLoss(200, seed=k)(x)) for k in range(20)]
    theirs = []
    for k in range(20):
        uniform = sphereot.sphere.random_uniform(60, 4, seed=100 + k)
        theirs.append(ot.sliced_wasserstein_distance(x.numpy(), uniform, n_projections=200, seed=k) ** 2)
    error = math.hypot(np.std(ours), np.std(theirs)) / math.sqrt(20)
    assert abs(np.mean(ours) - np.mean(theirs)) < 4 * error


@pytest.mark.parametrize("name", ALL)
def test_parts(name):
    """The loss is a tensor, so that autograd and scalers treat it as any loss; its parts are a named tuple."""
    a, b = (view.requires_grad_() for view in views())
    total, parts = ALL[name]()(a, b), ALL[name]().forward_components(a, b)
    assert isinstance(total, torch.Tensor)
    assert isinstance(parts, LossParts)
    assert all(part.shape == () for part in (total, *parts))
    assert total.item() == parts.total.item()
    scaled = torch.amp.GradScaler("cpu", init_scale=4.0).scale(total / 2)
    gradients = torch.autograd.grad(scaled, (a, b), retain_graph=True)
    total.backward(retain_graph=True)
    for view, gradient in zip((a, b), gradients, strict=True):
        assert_allclose(gradient, 2 * view.grad, rtol=1e-12)
        assert bool(torch.isfinite(view.grad).all())
        assert float(view.grad.abs().sum()) > 0


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_by_finite_differences(name):
    """Along a random direction of both views."""
    a, b = views()
    loss = LOSSES[name]()
    moves = [torch.randn(9, 4, generator=torch.Generator().manual_seed(s), dtype=torch.float64) for s in (5, 6)]

    def value(step):
        return loss(*(nn.functional.normalize(v + step * m, dim=1) for v, m in zip((a, b), moves, strict=True)))

    step = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(value(step), step)
    h = 1e-6
    difference = (value(torch.tensor(h)) - value(torch.tensor(-h))) / (2 * h)
    assert_allclose(slope, difference, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_finite_where_views_coincide(name):
    """Equal views, and equal images within a view."""
    a = views()[0]
    a[1] = a[0]
    a, b = a.clone().requires_grad_(), a.clone().requires_grad_()
    ALL[name]()(a, b).backward()
    assert bool(torch.isfinite(a.grad).all() and torch.isfinite(b.grad).all())


@pytest.mark.parametrize("name", LOSSES)
def test_compiled(name):
    """Without a break of the graph, to the same value and gradient."""
    torch.compiler.reset()
    loss, (a, b) = LOSSES[name](), (view.requires_grad_() for view in views())
    plain = loss(a, b)
    expected = torch.autograd.grad(plain, (a, b))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    value = compiled(a, b)
    assert_allclose(value.detach(), plain.detach(), rtol=1e-12)
    for got, grad in zip(torch.autograd.grad(value, (a, b)), expected, strict=True):
        assert_allclose(got, grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_half_precision(name):
    """Under autocast and with half-precision embeddings the value is that of float32, to the precision of the input."""
    a, b = views(40, dtype=torch.bfloat16)
    expected = ALL[name]()(*(nn.functional.normalize(v.float(), dim=1) for v in (a, b))).item()
    loss = ALL[name]()
    loss.normalize = True
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(a, b).item() == pytest.approx(expected, rel=1e-4)


def test_normalize():
    a, b = views()
    for loss in (AlignmentUniformityLoss(2.0, normalize=True), NTXentLoss(normalize=True)):
        assert_allclose(loss(3 * a, 0.5 * b), loss(a, b), rtol=1e-12)
    assert_allclose(GaussianPotentialLoss(normalize=True)(3 * a), GaussianPotentialLoss()(a), rtol=1e-12)


def test_seeded_stream_of_the_sw_term_resumes():
    """The number of draws is part of the state."""
    x = views()[0]
    whole = SWUniformityLoss(10, seed=1)
    expected = [float(whole(x)) for _ in range(3)]
    first, second = SWUniformityLoss(10, seed=1), SWUniformityLoss(10, seed=1)
    values = [float(first(x)) for _ in range(2)]
    second.load_state_dict(first.state_dict())
    assert [*values, float(second(x))] == expected
    assert len(set(expected)) == 3


def test_a_batch_of_one_has_a_defined_value_or_a_message():
    a, b = views(1)
    assert NTXentLoss()(a, b).item() == pytest.approx(0.0, abs=1e-12)
    assert AlignmentUniformityLoss(1.0).forward_components(a, b).uniformity.item() == pytest.approx(1 / 12)
    with pytest.raises(ValueError, match=r"a potential of pairs needs at least 2 points"):
        AlignmentUniformityLoss(1.0, GaussianPotentialLoss())(a, b)
    with pytest.raises(ValueError, match=r"unbiased"):
        AlignmentUniformityLoss(1.0, UniformityLoss(method="exact", unbiased=True))(a, b)


@pytest.mark.parametrize("make", [lambda: AlignmentUniformityLoss(1.0), lambda: NTXentLoss()])
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda a, b: (a, b[:-1]), ValueError, r"view_b must have the shape of view_a \(9, 4\), got \(8, 4\)"),
        (lambda a, b: (2 * a, b), ValueError, r"view_a: row 0 has length 2.*normalize=True"),
        (lambda a, b: (a, b * math.nan), ValueError, r"view_b: row 0 holds NaN"),
        (lambda a, b: (a[0], b[0]), ValueError, r"view_a must have shape \(n, d\), .* got \(4,\)"),
        (lambda a, b: (a[:0], b[:0]), ValueError, r"view_a: there are no points"),
        (lambda a, b: (a.numpy(), b), TypeError, r"view_a must be a torch tensor of shape \(n, d\), got ndarray"),
    ],
)
def test_bad_views(make, change, error, message):
    with pytest.raises(error, match=message):
        make()(*change(*views()))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: AlignmentUniformityLoss(-1.0), ValueError, r"weight: .*, got -1.0"),
        (lambda: AlignmentUniformityLoss(math.nan), ValueError, r"weight: .*, got nan"),
        (
            lambda: AlignmentUniformityLoss(1.0, "ssw"),
            TypeError,
            "uniformity must be a loss module or a function of points, got str",
        ),
        (lambda: AlignmentUniformityLoss(1.0, alpha=0), ValueError, r"alpha: .*, got 0"),
        (
            lambda: AlignmentUniformityLoss(1.0, UniformityLoss(), gather=True),
            ValueError,
            r"gather must be equal for the loss and its uniformity term, .*Make it with gather=True",
        ),
        (lambda: NTXentLoss(0.0), ValueError, r"temperature: .*, got 0.0"),
        (lambda: GaussianPotentialLoss(-2), ValueError, r"t: .*, got -2"),
        (lambda: SWUniformityLoss(0), ValueError, r"n_projections: .*, got 0"),
        (lambda: SWUniformityLoss(gather=True), ValueError, r"gather: the ranks must draw the same directions"),
        (lambda: GaussianPotentialLoss()(2 * torch.eye(3)), ValueError, r"x: row 0 has length 2.*normalize=True"),
    ],
)
def test_bad_options(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_representation():
    assert repr(NTXentLoss(0.2, normalize=True)) == "NTXentLoss(temperature=0.2, normalize=True)"
    assert "SWUniformityLoss(5, seed=1)" in repr(AlignmentUniformityLoss(1.0, SWUniformityLoss(5, seed=1)))


def test_weight_that_rises(tmp_path):
    """The weight is a function of the number of calls in training mode, which is part of the state."""
    a, b = views(20)
    loss = AlignmentUniformityLoss(lambda step: 10.0 * 2**step)
    parts = [loss.forward_components(a, b) for _ in range(3)]
    for step, (total, alignment, uniformity) in enumerate(parts):
        assert torch.equal(total, alignment + 10.0 * 2**step * uniformity)
    loss.eval()
    assert torch.equal(loss(a, b), loss(a, b))
    resumed = AlignmentUniformityLoss(lambda step: 10.0 * 2**step)
    resumed.load_state_dict(loss.state_dict())
    assert torch.equal(resumed(a, b), loss(a, b))
    with pytest.raises(ValueError, match=r"weight: .*at least 0"):
        AlignmentUniformityLoss(lambda step: -1.0)(a, b)
