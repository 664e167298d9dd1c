"""Normalizing flows: determinants against brute force, densities against quadrature, inverses, gradients, bad input."""

import math

import numpy as np
import pytest
from helpers.absent_modules import import_error
from scipy import integrate

torch = pytest.importorskip("torch")

from torch.autograd import gradcheck

from sphereot import sphere
from sphereot.distributions import HypersphericalUniform, VonMisesFisher
from sphereot.flows import ExponentialMapFlow, Flow, RealNVP, StandardNormal, StereographicFlow
from sphereot.flows import _expmap as newton
from sphereot.flows._expmap import differential, moments, move_with_log_det, stumpff
from sphereot.flows.realnvp import stereographic_log_det

F64 = torch.float64


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def uniform(n, dim, seed=1, dtype=F64):
    return HypersphericalUniform(dim, dtype=dtype).sample((n,), seed=source(seed))


def exponential(dim, n_blocks=1, n_components=7, *, strength=0.8, beta=5.0, seed=0, dtype=F64):
    """A flow that is far from the identity, with unequal alpha and beta up to `beta`."""
    generator = source(seed)
    flow = ExponentialMapFlow(dim, n_blocks, n_components, strength=strength, seed=generator, dtype=F64)
    with torch.no_grad():
        flow.alpha_logits += torch.randn(flow.alpha_logits.shape, generator=generator, dtype=F64)
        concentration = 0.1 + beta * torch.rand(flow.beta_roots.shape, generator=generator, dtype=F64)
        flow.beta_roots.copy_(concentration + torch.log(-torch.expm1(-concentration)))
        flow.mu_vectors *= 1.7  # only directions count
    return flow.to(dtype)


def stereo(dim, n_blocks=4, *, spread=0.1, seed=0, dtype=F64):
    """A stereographic flow with random last layers."""
    generator = source(seed)
    flow = StereographicFlow(dim, n_blocks, (8, 8), seed=generator, dtype=F64)
    with torch.no_grad():
        for networks in (flow.plane.log_scales, flow.plane.shifts):
            for network in networks:
                network[-1].weight.copy_(spread * torch.randn(network[-1].weight.shape, generator=generator))
    return flow.to(dtype)


def as_printed(flow, x):
    """The exponential-map flow of the paper at one point, from the gradient of its potential by autograd."""
    parts = flow.components()
    for alpha, beta, mu in zip(parts.alpha, parts.beta, parts.mu, strict=True):

        def potential(point, alpha=alpha, beta=beta, mu=mu):
            return (alpha / beta * torch.exp(beta * (mu @ point - 1))).sum()

        v = torch.func.grad(potential)(x)
        v = v - (x @ v) * x
        length = torch.linalg.vector_norm(v)
        x = torch.cos(length) * x + torch.sin(length) * v / length
    return x


def tangent_frame(x):
    """Orthonormal basis of the tangent space at one point, as columns."""
    return torch.linalg.svd(x[None])[2][1:].T


def sphere_quadrature(n=60):
    """Points of S^2 and weights that integrate polynomials of degree below 2n without error, to the area 4 pi."""
    height, weight = np.polynomial.legendre.leggauss(n)
    angle = 2 * np.pi * np.arange(2 * n) / (2 * n)
    points = sphere.from_spherical(np.arccos(height)[:, None], angle[None, :]).reshape(-1, 3)
    return torch.from_numpy(points), torch.from_numpy(np.repeat(weight, 2 * n) * np.pi / n)


# ---- determinants ----


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("dim", [2, 3, 5])
def test_exponential_map_is_as_printed(dim, n_blocks):
    """Images, and 1/2 log det(E^T J^T J E) by autograd of the formula of the paper."""
    flow = exponential(dim, n_blocks)
    x = uniform(20, dim)
    with torch.no_grad():
        y, log_det = flow.forward_and_log_det(x)
        torch.testing.assert_close(flow(x), y, rtol=0, atol=1e-14)
    for point, image, found in zip(x, y, log_det, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda z: as_printed(flow, z), point) @ tangent_frame(point)
        assert torch.linalg.vector_norm(as_printed(flow, point) - image) < 1e-12
        assert abs(0.5 * torch.logdet(jacobian.T @ jacobian) - found) < 1e-10


@pytest.mark.parametrize("dim", [3, 5])
def test_stereographic_log_det_is_brute_force(dim):
    flow = stereo(dim)
    x = uniform(20, dim)
    with torch.no_grad():
        z, log_det = flow.forward_and_log_det(x)
        torch.testing.assert_close(flow(x), z)
    for point, found in zip(x, log_det, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: flow(v / torch.linalg.vector_norm(v)), point)
        assert abs(torch.linalg.slogdet(jacobian @ tangent_frame(point))[1] - found) < 1e-10


@pytest.mark.parametrize("beta", [1.0, 30.0, 1000.0])
def test_closed_form_on_s2_is_the_matrix(beta):
    """The invariants of `move_with_log_det` against the determinant of M, near sharp components too."""
    flow = exponential(3, 1, 5, strength=0.95, beta=beta)
    parts = flow.components()
    x = torch.cat([uniform(200, 3), parts.mu[0], torch.nn.functional.normalize(parts.mu[0] + 0.03, dim=-1)]).detach()
    slopes, loads = (of_all[0] for of_all in flow._coefficients(F64, hessian=True))
    columns = x.T.contiguous()
    found = moments(columns, slopes, loads)
    expected = torch.linalg.slogdet(differential(columns, found))[1]
    torch.testing.assert_close(move_with_log_det(columns, found)[1], expected, rtol=0, atol=1e-8)


def test_float32_keeps_its_digits_near_sharp_components():
    """At beta = 1000 the Hessian is a thousand times the determinant's terms; 1e-3 allows beta times the rounding."""
    flow = exponential(3, 3, 10, strength=0.9, beta=1000.0)
    x = torch.cat([uniform(500, 3), flow.components().mu.reshape(-1, 3)]).detach()
    exact = flow.forward_and_log_det(x)[1]
    found = flow.float().forward_and_log_det(x.float())[1]
    assert (found - exact).abs().max() < 1e-3


def test_determinant_is_positive_for_every_parameter():
    """Every block is a diffeomorphism: sums of alpha to 0.999, beta to 3000, at the centers and opposite them."""
    for seed in range(20):
        flow = exponential(3, 1, 6, strength=0.99, beta=3000.0 ** ((seed + 1) / 20), seed=seed)
        mu = flow.components().mu[0].detach()
        slopes, loads = (of_all[0] for of_all in flow._coefficients(F64, hessian=True))
        columns = torch.cat([uniform(500, 3, seed), mu, -mu]).T.contiguous()
        assert (torch.linalg.det(differential(columns, moments(columns, slopes, loads))) > 0).all()


def test_stumpff_functions():
    r = torch.linspace(1e-3, 1, 50, dtype=F64)
    c0, c1, c2, c3, c4, c5 = stumpff(r * r)
    torch.testing.assert_close(c0, torch.cos(r), rtol=0, atol=2e-16)
    torch.testing.assert_close(c1, torch.sin(r) / r, rtol=0, atol=4e-16)
    torch.testing.assert_close(c2, 2 * (torch.sin(r / 2) / r) ** 2, rtol=1e-13, atol=0)
    # The others by the integral of Taylor's remainder: c_k = integral over [0, 1] of (1 - t)^(k-1) / (k-1)! cos(r t).
    for k, c in ((3, c3), (4, c4), (5, c5)):
        for radius, found in zip(r[::7].tolist(), c[::7].tolist(), strict=True):
            expected = integrate.quad(lambda t, k=k, r=radius: (1 - t) ** (k - 1) * math.cos(r * t), 0, 1)[0]
            assert found == pytest.approx(expected / math.factorial(k - 1), rel=1e-12)


# ---- densities ----


@pytest.mark.parametrize("from_base", [False, True])
@pytest.mark.parametrize("n_blocks", [1, 3, 6])
def test_exponential_map_density_integrates_to_one(n_blocks, from_base):
    points, weights = sphere_quadrature()
    for seed in range(2):
        distribution = Flow(exponential(3, n_blocks, 5, strength=0.6, seed=seed), from_base=from_base)
        with torch.no_grad():
            density = distribution.log_prob(points).exp()
        assert density.max() > 1.1 * density.min()  # not just uniform
        assert abs((weights * density).sum() - 1) < 1e-3


@pytest.mark.parametrize("n_blocks", [1, 3, 6])
def test_stereographic_density_integrates_to_one(n_blocks):
    """With the exponent d - 1. The networks have kinks, so that quadrature is good to 1e-3 only."""
    points, weights = sphere_quadrature(300)
    distribution = Flow(stereo(3, n_blocks))
    with torch.no_grad():
        assert abs((weights * distribution.log_prob(points).exp()).sum() - 1) < 1e-3
        # With the exponent d, as printed, it is not 1.
        u = distribution.transform._project(points)
        printed = distribution.log_prob(points) + stereographic_log_det(u) / 2
        assert abs((weights * printed.exp()).sum() - 1) > 0.05


@pytest.mark.parametrize("dim", [2, 4, 5])
def test_density_integrates_to_one_in_other_dimensions(dim):
    """By importance: the mean of the density over uniform points, times the area, within five standard errors."""
    distributions = [Flow(exponential(dim, 2, 4))] + ([Flow(stereo(dim))] if dim > 2 else [])
    x = uniform(40_000, dim)
    area = math.exp(HypersphericalUniform(dim).entropy())
    for distribution in distributions:
        with torch.no_grad():
            values = distribution.log_prob(x).exp() * area
        assert abs(values.mean() - 1) < 5 * values.std() / math.sqrt(len(x))
        assert values.std() > 0.2


@pytest.mark.parametrize(
    "make", [lambda: exponential(3, 2, 4), lambda: stereo(3)], ids=["exponential", "stereographic"]
)
@pytest.mark.parametrize("from_base", [False, True])
def test_samples_follow_the_density(make, from_base):
    """Moments of samples against moments of the density by quadrature, within five standard errors."""
    if from_base and isinstance(make(), StereographicFlow):
        pytest.skip("its base is in the plane")
    distribution = Flow(make(), from_base=from_base)
    points, weights = sphere_quadrature(150)
    sample = distribution.sample((20_000,), seed=source(3))
    assert not sample.requires_grad
    with torch.no_grad():
        masses = weights * distribution.log_prob(points).exp()
    for moment in (lambda x: x, lambda x: x[:, :, None] * x[:, None, :]):
        values = moment(sample).reshape(len(sample), -1)
        expected = (masses[:, None] * moment(points).reshape(len(points), -1)).sum(0)
        error = values.std(0) / math.sqrt(len(sample)) + 1e-12
        assert ((values.mean(0) - expected).abs() < 5 * error + 1e-4).all()


def test_untrained_flow_is_almost_uniform():
    """Within 0.001 in the mean, as documented; the weaker the start, the closer."""
    x = uniform(5000, 3, dtype=torch.float32)
    uniform_value = -math.log(4 * math.pi)
    for n_blocks, n_components in ((1, 10), (6, 5), (48, 100)):
        distribution = Flow(ExponentialMapFlow(3, n_blocks, n_components, seed=source()))
        assert abs(distribution.log_prob(x).mean() - uniform_value) < 1e-3
    distribution = Flow(ExponentialMapFlow(3, 6, 5, strength=1e-7, seed=source(), dtype=F64))
    assert (
        distribution.log_prob(x.double() / x.double().norm(dim=-1, keepdim=True)) - uniform_value
    ).abs().max() < 1e-5


def test_log_prob_of_samples_comes_with_them():
    for distribution in (Flow(exponential(3, 2)), Flow(exponential(3, 2), from_base=True), Flow(stereo(3))):
        x, log_prob = distribution.rsample_and_log_prob((50,), seed=source(5))
        torch.testing.assert_close(log_prob, distribution.log_prob(x), rtol=0, atol=1e-9)
        torch.testing.assert_close(x, distribution.rsample((50,), seed=source(5)), rtol=0, atol=0)


def test_any_base():
    """A base of one's own: with the identity, nearly, the flow has its density."""
    base = VonMisesFisher(torch.tensor([0.0, 0.6, 0.8], dtype=F64), 4.0)
    x = uniform(100, 3)
    for from_base in (False, True):
        distribution = Flow(
            ExponentialMapFlow(3, 2, 5, strength=1e-8, seed=source(), dtype=F64), base, from_base=from_base
        )
        torch.testing.assert_close(distribution.log_prob(x), base.log_prob(x), rtol=0, atol=1e-6)
        assert distribution.sample((7,), seed=source()).shape == (7, 3)


# ---- inverses ----


@pytest.mark.parametrize(
    ("dim", "n_blocks", "n_components", "strength", "beta"),
    [
        (3, 1, 7, 0.8, 5),
        (3, 6, 5, 0.95, 10),
        (3, 2, 4, 0.999, 1000),
        (3, 12, 50, 0.5, 50),
        (2, 3, 4, 0.9, 10),
        (5, 3, 10, 0.9, 20),
        (12, 2, 5, 0.9, 100),
    ],
)
def test_exponential_map_inverse(dim, n_blocks, n_components, strength, beta):
    """Both ways round, also from steep blocks, at the centers and opposite them."""
    flow = exponential(dim, n_blocks, n_components, strength=strength, beta=beta)
    mu = flow.components().mu[0].detach()
    x = torch.cat([uniform(300, dim), mu, -mu, torch.eye(dim, dtype=F64), -torch.eye(dim, dtype=F64)])
    with torch.no_grad():
        torch.testing.assert_close(flow.inverse(flow(x)), x, rtol=0, atol=1e-9)
        torch.testing.assert_close(flow(flow.inverse(x)), x, rtol=0, atol=1e-9)
        y, log_det = flow.forward_and_log_det(x)
        torch.testing.assert_close(flow.inverse_and_log_det(y)[1], -log_det, rtol=0, atol=1e-5)


def test_inverse_in_float32():
    flow = exponential(3, 6, 5, dtype=torch.float32)
    x = uniform(1000, 3, dtype=torch.float32)
    with torch.no_grad():
        found = flow.inverse(flow(x))
    assert found.dtype == torch.float32
    assert (found - x).norm(dim=-1).max() < 1e-5


@pytest.mark.parametrize("dim", [3, 4, 6])
def test_stereographic_inverse(dim):
    flow = stereo(dim)
    x = uniform(500, dim)
    with torch.no_grad():
        z, log_det = flow.forward_and_log_det(x)
        back, inverse_log_det = flow.inverse_and_log_det(z)
    torch.testing.assert_close(back, x, rtol=0, atol=1e-9)
    torch.testing.assert_close(flow.inverse(z), back)
    torch.testing.assert_close(inverse_log_det, -log_det, rtol=0, atol=1e-8)


def test_inverse_says_when_it_fails(monkeypatch):
    """A solver that may not take a step cannot find the points, and says so instead of returning them."""
    monkeypatch.setattr(newton, "_STEPS", 1)
    flow = exponential(3, 3)
    with pytest.raises(RuntimeError, match=r"inverse of block 2 did not converge for \d+ of 50 points.*float64"):
        flow.inverse(uniform(50, 3))


# ---- gradients ----


@pytest.mark.parametrize("method", ["forward", "forward_and_log_det", "inverse_and_log_det"])
@pytest.mark.parametrize("dim", [2, 3, 4])
def test_gradients_of_the_exponential_map(dim, method):
    """In points and parameters, against finite differences; those of the inverse by the implicit function theorem."""
    flow = exponential(dim, 2, 2)
    names = [name for name, _ in flow.named_parameters()]

    def work(x, *parameters):
        given = {f"flow.{name}": value for name, value in zip(names, parameters, strict=True)}
        return torch.func.functional_call(_Method(flow, method), given, (x / x.norm(dim=-1, keepdim=True),))

    assert gradcheck(work, (uniform(2, dim).requires_grad_(), *flow.parameters()), atol=1e-6)


class _Method(torch.nn.Module):
    """A module whose call is a method of a flow."""

    def __init__(self, flow, method):
        super().__init__()
        self.flow, self.method = flow, method

    def forward(self, *arguments):
        return getattr(self.flow, self.method)(*arguments)


def test_gradients_of_the_stereographic_flow():
    flow = stereo(4)
    x = uniform(5, 4).requires_grad_()
    assert gradcheck(lambda x: flow.forward_and_log_det(x / x.norm(dim=-1, keepdim=True)), (x,))
    z = torch.randn(5, 3, generator=source(), dtype=F64, requires_grad=True)
    assert gradcheck(flow.inverse_and_log_det, (z,))


def test_partial_gradients_on_s2():
    """A loss of the determinant alone, and of the image alone, have the gradients that their sum has."""
    flow = exponential(3, 2)
    x = uniform(10, 3)

    def gradients(of_image, of_log_det):
        y, log_det = flow.forward_and_log_det(x)
        loss = of_image * y[:, 0].sum() + of_log_det * log_det.sum()
        return torch.autograd.grad(loss, list(flow.parameters()))

    y, log_det = flow.forward_and_log_det(x)
    only_image = torch.autograd.grad(y[:, 0].sum(), list(flow.parameters()), retain_graph=True)
    only_log_det = torch.autograd.grad(log_det.sum(), list(flow.parameters()))
    for both, one, other in zip(gradients(1, 1), only_image, only_log_det, strict=True):
        torch.testing.assert_close(both, one + other)


def test_second_derivatives_are_refused():
    flow = exponential(3)
    x = uniform(3, 3).requires_grad_()
    for work in (flow, flow.forward_and_log_det):
        total = sum(result.sum() for result in work(x))
        with pytest.raises(RuntimeError, match=r"first derivatives only.*create_graph"):
            torch.autograd.grad(total, x, create_graph=True)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("dim", [2, 3, 5])
def test_nothing_is_singular(dim, dtype):
    """Values and gradients are finite at the poles, at x = mu and x = -mu, and where the displacement is zero."""
    flow = exponential(dim, 2, 3, dtype=dtype)
    with torch.no_grad():
        flow.mu_vectors[0, 0] = torch.eye(dim)[0]
        flow.mu_vectors[1] = torch.eye(dim)[0]  # all of one block at a pole: no displacement there at all
    axes = torch.eye(dim, dtype=dtype)
    x = torch.cat([axes, -axes, flow.components().mu.detach().reshape(-1, dim)]).requires_grad_()
    y, log_det = flow.forward_and_log_det(x)
    assert torch.isfinite(y).all()
    assert torch.isfinite(log_det).all()
    back, inverse_log_det = flow.inverse_and_log_det(y)
    gradients = torch.autograd.grad(
        y.sum() + log_det.sum() + back.sum() + inverse_log_det.sum(), [x, *flow.parameters()]
    )
    assert all(torch.isfinite(gradient).all() for gradient in gradients)

    still = ExponentialMapFlow(dim, 1, 1, strength=0.5, dtype=dtype)  # one component: no displacement at +-mu
    with torch.no_grad():
        still.mu_vectors[0, 0] = torch.eye(dim)[0]
    pole = torch.stack([axes[0], -axes[0]]).requires_grad_()
    image, log_det = still.forward_and_log_det(pole)
    torch.testing.assert_close(image, pole)
    # At mu the map is a contraction by 1 - alpha, opposite a stretch by 1 + alpha exp(-2 beta), in d - 1 directions.
    expected = torch.log(torch.tensor([0.5, 1 + 0.5 * math.exp(-2.0)], dtype=dtype)) * (dim - 1)
    torch.testing.assert_close(log_det, expected, rtol=1e-5, atol=1e-6)
    assert torch.isfinite(torch.autograd.grad(log_det.sum() + image.sum(), pole)[0]).all()


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_stereographic_flow_at_its_pole(dtype):
    """The point that goes to infinity has a density that is small, and nothing is NaN."""
    distribution = Flow(stereo(3, dtype=dtype))
    axes = torch.eye(3, dtype=dtype)
    x = torch.cat([axes, -axes]).requires_grad_()
    value = distribution.log_prob(x)
    assert torch.isfinite(value).all()
    assert value[3] < -1e6
    assert torch.isfinite(torch.autograd.grad(value.sum(), x)[0]).all()


def test_training_recovers_a_distribution():
    """Maximum likelihood brings the mean log-likelihood within 0.03 of the truth, from 1.6 below it."""
    truth = VonMisesFisher(torch.tensor([0.0, 0.0, 1.0]), 10.0)
    x, held_out = truth.sample((1000,), seed=source(1)), truth.sample((1000,), seed=source(2))
    distribution = Flow(ExponentialMapFlow(3, 4, 8, seed=source()))
    before = distribution.log_prob(held_out).mean()
    optimizer = torch.optim.Adam(distribution.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        loss = -distribution.log_prob(x).mean()
        loss.backward()
        optimizer.step()
    expected = truth.log_prob(held_out).mean()
    assert before < expected - 1
    assert distribution.log_prob(held_out).mean() > expected - 0.03


# ---- modules ----


@pytest.mark.parametrize("make", [lambda seed: exponential(3, 2, seed=seed), lambda seed: stereo(3, seed=seed)])
def test_state_dict_round_trip(make, tmp_path):
    distribution, other = Flow(make(0)), Flow(make(1))
    x = uniform(20, 3)
    assert not torch.equal(distribution.log_prob(x), other.log_prob(x))
    torch.save(distribution.state_dict(), tmp_path / "flow.pt")
    other.load_state_dict(torch.load(tmp_path / "flow.pt", weights_only=True))
    assert torch.equal(distribution.log_prob(x), other.log_prob(x))


def test_parameter_counts_of_the_paper():
    """24,000 for 48 blocks of 100 components; 27,520 for 10 couplings in the plane."""
    assert sum(p.numel() for p in ExponentialMapFlow(3, 48, 100).parameters()) == 24_000
    assert sum(p.numel() for p in StereographicFlow(3).parameters()) == 27_520


def test_constraints_hold_for_any_parameters():
    flow = ExponentialMapFlow(4, 3, 6, dtype=F64)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.copy_(10 * torch.randn(parameter.shape, generator=source(), dtype=F64))
    parts = flow.components()
    assert (parts.alpha >= 0).all()
    assert (parts.alpha.sum(-1) <= 1).all()
    assert (parts.beta > 0).all()
    torch.testing.assert_close(parts.mu.norm(dim=-1), torch.ones(3, 6, dtype=F64))


def test_strength_is_the_initial_sum():
    parts = ExponentialMapFlow(3, 2, 9, strength=0.3, dtype=F64).components()
    torch.testing.assert_close(parts.alpha.sum(-1), torch.full((2,), 0.3, dtype=F64))
    torch.testing.assert_close(parts.beta, torch.ones(2, 9, dtype=F64))


TRANSFORMS = {
    "exponential": lambda seed=None: ExponentialMapFlow(3, 2, 4, seed=seed),
    "stereographic": lambda seed=None: StereographicFlow(3, 2, seed=seed),
    "realnvp": lambda seed=None: RealNVP(3, seed=seed),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_no_global_randomness(name):
    """Initial weights and samples: the global random state is neither changed nor read, with a seed or without."""
    make = TRANSFORMS[name]

    def same(one, other):
        return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))

    state = torch.random.get_rng_state()
    assert same(make(source(4)), make(source(4)))
    assert same(make(4), make(source(4)))
    distribution = Flow(ExponentialMapFlow(3, seed=source()))
    assert torch.equal(distribution.sample((5,), seed=source()), distribution.sample((5,), seed=0))
    make()
    distribution.sample((5,))
    assert torch.equal(torch.random.get_rng_state(), state)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        one, drawn = make(), distribution.sample((5,))
        torch.manual_seed(0)
        assert not same(one, make())
        assert not torch.equal(drawn, distribution.sample((5,)))


@pytest.mark.parametrize("call", ["sample", "rsample", "rsample_and_log_prob"])
def test_a_base_of_torch_is_seeded_too(call):
    """torch's distributions draw from the global random state alone; it is as it was after the draw."""
    covariance = torch.eye(3, dtype=F64)
    distribution = Flow(
        RealNVP(3, dtype=F64, seed=0), torch.distributions.MultivariateNormal(covariance[0], covariance)
    )

    def draw(**seed):
        drawn = getattr(distribution, call)((5,), **seed)
        return drawn[0] if isinstance(drawn, tuple) else drawn

    state = torch.random.get_rng_state()
    generator = source(3)
    first, second = draw(seed=generator), draw(seed=generator)
    assert torch.equal(first, draw(seed=3))
    assert not torch.equal(first, second)
    assert not torch.equal(draw(), draw())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_shapes_and_dtypes():
    flow = exponential(3, 2, dtype=torch.float32)
    x = uniform(24, 3, dtype=torch.float32).reshape(2, 3, 4, 3)
    y, log_det = flow.forward_and_log_det(x)
    assert y.shape == x.shape
    assert log_det.shape == (2, 3, 4)
    assert flow.inverse(y).shape == x.shape
    torch.testing.assert_close(flow(x[1, 2, 3]), y[1, 2, 3])
    assert flow(uniform(2, 3)).dtype == F64  # the wider of the two
    assert flow(x[:0]).shape == (0, 3, 4, 3)
    assert flow.inverse(x[:0]).shape == (0, 3, 4, 3)
    assert flow(x.bfloat16()).dtype == torch.float32
    assert Flow(flow).sample().shape == (3,)
    assert Flow(stereo(4)).sample((2, 5)).shape == (2, 5, 4)
    assert Flow(flow.double()).sample((2,)).dtype == F64
    normal = StandardNormal(3)
    assert normal.log_prob(torch.zeros(2, 3)).tolist() == pytest.approx([-1.5 * math.log(2 * math.pi)] * 2)


def test_autocast_does_not_touch_the_flow():
    flow = exponential(3, 2, dtype=torch.float32)
    x = uniform(50, 3, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = flow.forward_and_log_det(x)
    torch.testing.assert_close(inside, flow.forward_and_log_det(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: ExponentialMapFlow(1), ValueError, "dim: .*, got 1"),
        (lambda: ExponentialMapFlow(3, 0), ValueError, "n_blocks: .*, got 0"),
        (lambda: ExponentialMapFlow(3, 1, 0), ValueError, "n_components: .*, got 0"),
        (lambda: ExponentialMapFlow(3, strength=1.0), ValueError, r"strength must be in \(0, 1\), got 1\.0"),
        (lambda: ExponentialMapFlow(3)(torch.ones(4, 3)), ValueError, r"x: row 0 has length 1.732.*normalize"),
        (lambda: ExponentialMapFlow(3)(torch.full((4, 3), math.nan)), ValueError, "x: row 0 holds NaN"),
        (
            lambda: ExponentialMapFlow(3)(torch.eye(4)),
            ValueError,
            r"x must have the dimension of the flow \(3\), got points in dimension 4",
        ),
        (
            lambda: ExponentialMapFlow(3)(np.eye(3)),
            TypeError,
            r"x must be a torch tensor of unit vectors, shape \(\.\.\., d\), got ndarray",
        ),
        (
            lambda: ExponentialMapFlow(3)(torch.eye(3, dtype=torch.int64)),
            TypeError,
            "x must have a real floating dtype, got torch.int64",
        ),
        (
            lambda: ExponentialMapFlow(3)(torch.tensor(1.0)),
            ValueError,
            r"x must contain unit vectors, shape \(\.\.\., d\), got a single number",
        ),
        (lambda: ExponentialMapFlow(3).inverse(2 * torch.eye(3)), ValueError, "y: row 0 has length 2"),
        (
            lambda: ExponentialMapFlow(3)(torch.eye(3, device="meta")),
            ValueError,
            r"x must be on the device of the flow \(cpu\), got points on meta",
        ),
        (lambda: StereographicFlow(2), ValueError, "dim: .*, got 2"),
        (
            lambda: StereographicFlow(3)(torch.eye(4)),
            ValueError,
            r"x must have the dimension of the flow \(3\), got points in dimension 4",
        ),
        (lambda: RealNVP(1), ValueError, "features: .*, got 1"),
        (lambda: RealNVP(2)(torch.ones(3, 3)), ValueError, r"x must have shape \(\.\.\., 2\), got \(3, 3\)"),
        (
            lambda: RealNVP(2)([1.0, 2.0]),
            TypeError,
            r"x must be a floating torch tensor of shape \(\.\.\., 2\), got list",
        ),
        (lambda: RealNVP(2, seed=-1), ValueError, "seed: .*, got -1"),
        (lambda: ExponentialMapFlow(3, seed=np.random.default_rng(0)), TypeError, "seed: .*, got Generator"),
        (lambda: Flow(ExponentialMapFlow(3)).sample((2,), seed=0.5), TypeError, "seed: .*, got float"),
        (
            lambda: Flow(torch.nn.Identity()),
            TypeError,
            r"transform must be a sphereot\.flows\.FlowTransform, such as an ExponentialMapFlow, got Identity",
        ),
        (
            lambda: Flow(ExponentialMapFlow(3), "uniform"),
            TypeError,
            r"base must be a torch\.distributions\.Distribution or None, got str",
        ),
        (
            lambda: Flow(ExponentialMapFlow(3), HypersphericalUniform(4)),
            ValueError,
            r"base must be a distribution of vectors of shape \(3,\), got shape \(4,\)",
        ),
    ],
)
def test_bad_input(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_import_without_torch_names_the_extra():
    assert "pip install 'sphereot[torch]'" in import_error("import sphereot.flows", absent="torch")
