"""Distributions on the sphere: densities, samples, gradients and divergences against SciPy, mpmath and quadrature."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from helpers.absent_modules import import_error
from numpy.testing import assert_allclose
from scipy import integrate, interpolate, special, stats

torch = pytest.importorskip("torch")

from torch.distributions import Categorical, MixtureSameFamily, kl_divergence

from sphereot import sphere
from sphereot._support.bessel import bessel_ratio_slope, log_mean_exponential
from sphereot.distributions import HypersphericalUniform, PowerSpherical, VonMisesFisher, unit_vector
from sphereot.distributions.axial import COSINE, LOG_COSINE, drop_derivative

DISTRIBUTIONS = [VonMisesFisher, PowerSpherical]
DIMS = [2, 3, 5, 50, 500]
normalize = torch.nn.functional.normalize


def direction(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(shape, generator=generator, dtype=torch.float64), dim=-1).to(dtype)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def one_of_each(dim):
    return [*(distribution(direction(dim), 3.0) for distribution in DISTRIBUTIONS), HypersphericalUniform(dim)]


def log_angle_density(distribution, dim, kappa):
    """Logarithm, up to a constant, of the density of the cosine t = <loc, x>, as a function of the angle."""

    def log_density(theta):
        cosine = math.cos(theta) if distribution is VonMisesFisher else 2 * math.log(max(math.cos(theta / 2), 1e-300))
        return (dim - 2) * math.log(max(math.sin(theta), 1e-300)) + kappa * cosine

    return log_density


def angle_cdf(distribution, dim, kappa):
    """Cdf of the angle to `loc`, by adaptive quadrature between the points of a fine grid around the mode."""
    log_density = log_angle_density(distribution, dim, kappa)
    grid = np.linspace(0, math.pi, 4001)
    mode = grid[np.argmax([log_density(theta) for theta in grid])]
    width = 1 / math.sqrt((dim - 2) / max(math.sin(mode), 1e-2) ** 2 + kappa / 2 + 1)
    knots = np.unique(np.clip(np.linspace(mode - 10 * width, mode + 14 * width, 400), 0, math.pi))
    knots = np.unique(np.concatenate([[0.0], knots, [math.pi]]))
    top = max(log_density(theta) for theta in knots)
    masses = [
        integrate.quad(lambda s: math.exp(log_density(s) - top), low, high)[0]
        for low, high in itertools.pairwise(knots)
    ]
    levels = np.concatenate([[0.0], np.cumsum(masses)])
    levels /= levels[-1]

    return interpolate.PchipInterpolator(knots, levels)


def angles(points, loc):
    """Angles to `loc`, exact where points are close to it."""
    points, loc = points.double().numpy(), loc.double().numpy()
    return 2 * np.arctan2(np.linalg.norm(points - loc, axis=-1), np.linalg.norm(points + loc, axis=-1))


# ---- the normalizer ----


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 10, 50, 128, 500, 1000])
def test_normalizer_equals_mpmath(dim):
    """Log of the density's constant and its first two derivatives, for kappa from 0 to 1e5.

    The second derivative is a difference of order 1/kappa^2 between terms of order 1 at large kappa.
    """
    mpmath = pytest.importorskip("mpmath")
    nu = mpmath.mpf(dim) / 2 - 1
    kappas = [0.0, *(10.0**k for k in range(-8, 6))]

    def mean_exponential(order, kappa):
        if kappa < 100:
            return mpmath.hyp0f1(order + 1, mpmath.mpf(kappa) ** 2 / 4)
        return mpmath.besseli(order, kappa) * mpmath.gamma(order + 1) * (2 / mpmath.mpf(kappa)) ** order

    with mpmath.workdps(40):
        log_area = mpmath.log(2) + (nu + 1) * mpmath.log(mpmath.pi) - mpmath.loggamma(nu + 1)
        means = [mean_exponential(nu, kappa) for kappa in kappas]
        logs = [mpmath.log(mean) for mean in means]
        constants = [float(-log_area - log + kappa) for log, kappa in zip(logs, kappas, strict=True)]
        slopes = [mean_exponential(nu + 1, k) / mean / dim for k, mean in zip(kappas, means, strict=True)]
        ratios = [float(slope * kappa) for slope, kappa in zip(slopes, kappas, strict=True)]
        curvatures = [
            float(1 - (kappa * slope) ** 2 - (dim - 1) * slope) for slope, kappa in zip(slopes, kappas, strict=True)
        ]

    kappa = tensor(kappas).requires_grad_()
    log_mean = log_mean_exponential(kappa, dim)
    assert_allclose(log_mean.detach(), [float(log) for log in logs], rtol=1e-13)
    distribution = VonMisesFisher(direction(dim), kappa)
    # log_prob at the mode itself: its constant, with kappa added.
    assert_allclose(distribution.log_prob(distribution.loc[0]).detach(), constants, rtol=1e-12)
    assert_allclose(bessel_ratio_slope(kappa, dim).detach(), [float(slope) for slope in slopes], rtol=1e-13)
    (first,) = torch.autograd.grad(log_mean.sum(), kappa, create_graph=True)
    assert_allclose(first.detach(), ratios, rtol=1e-12)
    (second,) = torch.autograd.grad(first.sum(), kappa)
    assert_allclose(second, curvatures, rtol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [2, 3, 4, 10, 128, 1000])
def test_log_prob_equals_scipy(dim, dtype):
    """Wherever SciPy is finite; and finite where it is not."""
    loc = direction(dim, dtype=dtype)
    points = torch.cat([loc[None], -loc[None], direction(20, dim, seed=1, dtype=dtype)])
    rtol = 1e-6 if dtype == torch.float64 else 1e-5
    compared = 0
    for kappa in (1e-8, 1e-3, 0.5, 1.0, 10.0, 200.0, 1e3, 1e5):
        found = VonMisesFisher(loc, kappa).log_prob(points)
        assert found.dtype == dtype
        assert torch.isfinite(found).all()
        mu = sphere.normalize(loc.double().numpy())
        with np.errstate(all="ignore"):
            expected = stats.vonmises_fisher(mu, kappa).logpdf(sphere.normalize(points.double().numpy()))
        if np.isfinite(expected).all():
            compared += 1
            assert_allclose(found, expected, rtol=rtol, atol=rtol * (1 + kappa * 1e-1))
    assert compared >= 3


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("kappa", [0.0, 0.3, 4.0, 60.0])
def test_density_integrates_to_one(distribution, kappa):
    """Trapezoids on S^1, Gauss-Legendre in the cosine times trapezoids in the longitude on S^2.

    The tolerance on S^2 is for (1 + t)^0.3, whose derivative has a singularity at the antipode.
    """
    turns = torch.arange(2000, dtype=torch.float64) / 2000 * 2 * math.pi
    circle = torch.stack([torch.cos(turns), torch.sin(turns)], dim=-1)
    assert_allclose(distribution(direction(2), kappa).log_prob(circle).exp().mean() * 2 * math.pi, 1, rtol=1e-4)
    cosines, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(100))
    z, longitude = torch.meshgrid(cosines, turns[::10], indexing="ij")
    radius = torch.sqrt(1 - z * z)
    grid = torch.stack([radius * torch.cos(longitude), radius * torch.sin(longitude), z], dim=-1)
    density = distribution(direction(3), kappa).log_prob(grid).exp().mean(-1) * 2 * math.pi
    assert_allclose((density * weights).sum(), 1, rtol=1e-4)


@pytest.mark.parametrize("dim", [2, 3, 50])
def test_power_spherical_density(dim):
    """Against the Beta density of the cosine, divided by the area of the sphere at that cosine."""
    loc, points = direction(dim), direction(30, dim, seed=2)
    cosine = (points @ loc).numpy()
    for kappa in (0.0, 0.7, 25.0, 1e5):
        half = (dim - 1) / 2
        beta = stats.beta(half + kappa, half).logpdf((1 + cosine) / 2) - math.log(2)
        band = math.log(2) + half * math.log(math.pi) - math.lgamma(half) + (dim - 3) / 2 * np.log1p(-(cosine**2))
        assert_allclose(PowerSpherical(loc, kappa).log_prob(points), beta - band, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_zero_concentration_is_uniform(distribution):
    for dim in (2, 3, 17, 1000):
        points = torch.cat([direction(5, dim, seed=3), direction(1, dim), -direction(1, dim)])
        uniform = HypersphericalUniform(dim, dtype=torch.float64)
        found = distribution(direction(dim), 0.0)
        # The value at the antipode, where (1 + t)^0 is 0^0, included.
        assert_allclose(found.log_prob(points), uniform.log_prob(points), rtol=1e-14)
        assert_allclose(found.entropy(), uniform.entropy(), rtol=1e-14)
        assert_allclose(found.variance, uniform.variance, rtol=1e-12)
        assert_allclose(found.mean, 0.0, atol=1e-15)


def test_float32_keeps_the_digits_of_concentrated_distributions():
    """At kappa = 1e5 the float32 density is the float64 one: no digits are lost in kappa <loc, x>."""
    for distribution in DISTRIBUTIONS:
        for dim in (3, 100):
            wide = distribution(direction(dim), 1e5)
            points = wide.sample((200,), seed=0)
            single = distribution(direction(dim).float(), 1e5)
            # Coordinates rounded to 6e-8 move a point that is 3e-3 away by 2e-5 of this distance.
            expected = wide.log_prob(points)
            assert_allclose(single.log_prob(points.float()), expected, rtol=0, atol=2e-3 * math.sqrt(dim))


# ---- samples ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kappa", [0.0, 0.5, 20.0, 3000.0, 1e5])
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_samples_follow_the_distribution(distribution, dim, kappa, dtype):
    """Kolmogorov-Smirnov of the angle to the mean, fine enough where distributions are concentrated.

    100 cases share the level: a p-value below 1e-4 would be a surprise of one in a hundred suites, and seeds are fixed.
    """
    loc = direction(dim, seed=dim, dtype=dtype)
    points = distribution(loc, kappa).sample((4000,), seed=12)
    assert points.shape == (4000, dim)
    assert points.dtype == dtype
    eps = torch.finfo(dtype).eps
    assert_allclose(torch.linalg.vector_norm(points.double(), dim=-1), 1, rtol=0, atol=8 * eps)
    theta = angles(points, loc)
    if distribution is PowerSpherical:
        half = (dim - 1) / 2
        cdf = lambda a: special.betainc(half, half + kappa, np.sin(a / 2) ** 2)  # noqa: E731
    else:
        cdf = angle_cdf(distribution, dim, kappa)
    assert stats.kstest(theta, cdf).pvalue > 1e-4
    # The part across the axis is uniform: its mean is 0 and, in some direction, its square is Beta distributed.
    across = points.double() - (points.double() @ loc.double())[:, None] * loc.double()
    across = normalize(across, dim=-1)
    probe = torch.eye(dim, dtype=torch.float64)[-1]
    probe = normalize(probe - (probe @ loc.double()) * loc.double(), dim=0)
    projected = (across @ probe).numpy()
    if dim == 2:
        assert abs(np.sign(projected).mean()) < 5 / math.sqrt(4000)
    else:
        uniform = stats.beta((dim - 2) / 2, (dim - 2) / 2)
        assert stats.kstest((1 + projected) / 2, uniform.cdf).pvalue > 1e-4


def test_uniform_samples():
    """E[x x^T] = I / d, within 5 standard errors; cosines follow Beta((d-1)/2, (d-1)/2)."""
    for dim in (2, 3, 40):
        points = HypersphericalUniform(dim, dtype=torch.float64).sample((20_000,), seed=5)
        assert bool(unit_vector.check(points).all())
        cosines = (1 + (points @ direction(dim, seed=4)).numpy()) / 2
        assert stats.kstest(cosines, stats.beta((dim - 1) / 2, (dim - 1) / 2).cdf).pvalue > 1e-4
        second = points.T @ points / len(points)
        assert (second - torch.eye(dim) / dim).abs().max() < 5 * math.sqrt(3) / dim / math.sqrt(20_000) * 1.5


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_reflection_at_the_axes(distribution):
    """No mean direction is singular: the first axis, its antipode, and a neighbor of each."""
    for first in (1.0, -1.0):
        for tilt in (0.0, 1e-9, 1e-4):
            loc = normalize(tensor([first, tilt, 0.0, -tilt]), dim=0).requires_grad_()
            points = distribution(loc, 50.0).rsample((2000,), seed=1)
            assert_allclose(torch.linalg.vector_norm(points, dim=-1).detach(), 1, rtol=1e-12)
            expected = distribution(loc, 50.0).mean.detach()
            assert (points.mean(0).detach() - expected).abs().max() < 5 * 0.15 / math.sqrt(2000)
            (gradient,) = torch.autograd.grad(points.sum(), loc)
            assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("draw", ["sample", "rsample"])
def test_generators_and_seeds(draw):
    """An int gives what a generator of that seed gives; a generator goes on; no seed gives new points."""
    for distribution in one_of_each(6):
        points = getattr(distribution, draw)
        a, b = (points((7,), seed=seed) for seed in (3, np.int64(3)))
        assert torch.equal(a, b)
        generator = torch.Generator().manual_seed(3)
        assert torch.equal(a, points((7,), seed=generator))
        assert not torch.equal(a, points((7,), seed=generator))
        assert not torch.equal(a, points((7,), seed=4))
        assert not torch.equal(points((7,)), points((7,)))


@pytest.mark.parametrize("draw", ["sample", "rsample"])
def test_the_global_random_state_is_neither_read_nor_changed(draw):
    for distribution in one_of_each(6):
        points = getattr(distribution, draw)
        state = torch.random.get_rng_state()
        points((7,), seed=3)
        points((7,), seed=torch.Generator())
        points((7,))
        assert torch.equal(state, torch.random.get_rng_state())
        with torch.random.fork_rng():
            torch.manual_seed(0)
            a = points((7,))
            torch.manual_seed(0)
            assert not torch.equal(a, points((7,)))


@pytest.mark.parametrize("draw", ["sample", "rsample"])
@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (True, TypeError, "seed: the seed must be an int, a torch.Generator, or None, got bool"),
        (1.5, TypeError, "seed: .*, got float"),
        ("0", TypeError, "seed: .*, got str"),
        (np.random.default_rng(0), TypeError,
         "seed: the seed must be an int, a torch.Generator, or None, got Generator"),
        (-1, ValueError, "seed: the seed must be at least 0 and below 2.64, got -1"),
        (2**64, ValueError, "seed: .*, got 18446744073709551616"),
    ],
)  # fmt: skip
def test_bad_seeds(seed, error, message, draw):
    for distribution in one_of_each(3):
        with pytest.raises(error, match=message):
            getattr(distribution, draw)((2,), seed=seed)


def test_a_generator_on_another_device_is_refused():
    distribution = HypersphericalUniform(3, device="meta")
    assert distribution.sample((4,)).shape == (4, 3)
    with pytest.raises(ValueError, match=r"seed: the torch\.Generator must be on meta, .*, got one on cpu"):
        distribution.sample((4,), seed=torch.Generator())


def test_new_points_in_every_call_of_compiled_code_and_under_transforms():
    distribution = VonMisesFisher(direction(3), 3.0)
    state = torch.random.get_rng_state()
    for function in (
        torch.compile(lambda x: x + distribution.sample((4,)), backend="eager"),
        torch.func.grad(lambda x: (x.exp() * distribution.sample((4,))).sum()),
    ):
        x = torch.zeros(4, 3, dtype=torch.float64)
        assert not torch.equal(function(x), function(x))
    assert torch.equal(state, torch.random.get_rng_state())


# ---- gradients ----


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dim", [2, 3, 7, 60])
def test_gradcheck_of_log_prob(distribution, dim):
    points = direction(4, dim, seed=1)
    loc = direction(2, 1, dim, seed=2).requires_grad_()
    for kappa in (tensor([0.05, 2.0, 9.0, 40.0]), tensor([300.0, 500.0, 700.0, 1000.0])):
        inputs = (loc, kappa.requires_grad_())
        log_prob = lambda loc, kappa: distribution(normalize(loc, dim=-1), kappa).log_prob(points)  # noqa: E731
        assert torch.autograd.gradcheck(log_prob, inputs, atol=1e-6)
        assert torch.autograd.gradgradcheck(log_prob, inputs, atol=1e-5)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_gradients_at_zero_and_at_the_extreme(distribution):
    """d log p / d kappa at kappa = 0 is t for von Mises-Fisher and log((1 + t) / 2) minus its mean for the other."""
    for dim in (2, 3, 100):
        points = direction(9, dim, seed=1)
        kappa = torch.zeros(9, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(distribution(direction(dim), kappa).log_prob(points).sum(), kappa)
        cosine = points @ direction(dim)
        half = (dim - 1) / 2
        expected = cosine if distribution is VonMisesFisher else torch.log((1 + cosine) / 2)
        mean = 0.0 if distribution is VonMisesFisher else special.digamma(half) - special.digamma(2 * half)
        assert_allclose(gradient, expected - mean, rtol=1e-9, atol=1e-12)
        huge = torch.full((9,), 1e5, requires_grad=True)
        (gradient,) = torch.autograd.grad(
            distribution(direction(dim).float(), huge).log_prob(points.float()).sum(), huge
        )
        assert torch.isfinite(gradient).all()


def test_derivative_of_quantiles_on_s2():
    """The inverse cdf on S^2 in closed form: t = -log(1 - v (1 - exp(-2 kappa))) / kappa, differentiated by torch."""
    v = torch.linspace(0.001, 0.999, 101, dtype=torch.float64)
    for value in (0.1, 1.0, 10.0, 300.0, 1e5):
        kappa = tensor(value).requires_grad_()
        closed = lambda k: torch.log1p(v * torch.expm1(-2 * k)) / -k  # noqa: E731
        expected = torch.autograd.functional.jacobian(closed, kappa)
        mean = (kappa * bessel_ratio_slope(kappa, 3) - 1).detach()
        found = drop_derivative(closed(kappa).detach(), kappa.detach(), 3, COSINE, mean)
        assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("dim", [2, 3, 4, 30, 400])
def test_derivative_of_quantiles_of_beta(dim):
    """Against finite differences of SciPy's quantiles of the Beta distribution."""
    half = (dim - 1) / 2
    levels = np.array([1e-3, 0.1, 0.4, 0.6, 0.9, 0.999])
    for kappa in (0.5, 5.0, 200.0):
        step = 1e-4 * (kappa + half)
        up, down = (2 * stats.beta(half, half + k).ppf(levels) for k in (kappa + step, kappa - step))
        drop = torch.from_numpy(2 * stats.beta(half, half + kappa).ppf(levels))
        mean = tensor(special.digamma(half + kappa) - special.digamma(2 * half + kappa))
        found = drop_derivative(drop, tensor(kappa), dim, LOG_COSINE, mean)
        assert_allclose(found, (up - down) / (2 * step), rtol=1e-5)


@pytest.mark.parametrize("kappa", [0.0, 3.0, 80.0])
@pytest.mark.parametrize("dim", [2, 3, 5, 50])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_rsample_gives_the_gradient_of_expectations(distribution, dim, kappa):
    """The gradient of E[<c, x> + <c, x>^2] through samples, against that of the moments, within 5 standard errors."""
    c = direction(dim, seed=8)
    n = 20_000
    kappas = torch.full((n,), kappa, dtype=torch.float64, requires_grad=True)
    locs = direction(dim, seed=9).expand(n, dim).clone().requires_grad_()
    points = distribution(normalize(locs, dim=-1), kappas).rsample(seed=2)
    values = points @ c + (points @ c) ** 2
    slopes, turned = torch.autograd.grad(values.sum(), (kappas, locs))

    one = tensor(kappa).requires_grad_()
    loc = direction(dim, seed=9).requires_grad_()
    exact = distribution(normalize(loc, dim=-1), one)
    mean, along, across = exact._cosine_moments()
    cosine = c @ normalize(loc, dim=-1)
    moment = mean * cosine + (along + mean**2) * cosine**2 + across * (1 - cosine**2)
    for found, expected in zip((slopes[:, None], turned), torch.autograd.grad(moment, (one, loc)), strict=True):
        error = found.std(0) / math.sqrt(n)
        assert ((found.mean(0) - expected).abs() <= 5 * error + 1e-12).all()


def test_implicit_gradient_includes_the_rejection():
    """d/dkappa E[<loc, x>] = A'(kappa) at d = 5, kappa = 2, which is 0.14739; within 5 standard errors.

    A gradient through the proposal of the rejection sampler alone gives 0.1277 (pytorch issue 147048).
    """
    dim, kappa, n = 5, 2.0, 200_000
    ratio = special.ive(dim / 2, kappa) / special.ive(dim / 2 - 1, kappa)
    expected = 1 - ratio**2 - (dim - 1) / kappa * ratio
    kappas = torch.full((n,), kappa, dtype=torch.float64, requires_grad=True)
    loc = direction(dim)
    (slopes,) = torch.autograd.grad((VonMisesFisher(loc, kappas).rsample(seed=0) @ loc).sum(), kappas)
    error = float(slopes.std()) / math.sqrt(n)
    assert abs(float(slopes.mean()) - expected) < 5 * error
    assert 5 * error < 0.2 * (expected - 0.1277)  # narrow enough to tell the two apart


# ---- transforms ----

_FUNCTIONS = {
    "log_prob": lambda distribution: distribution.log_prob(torch.eye(distribution.dim, dtype=torch.float64)).sum(),
    "mean": lambda distribution: distribution.mean.sum(),
    "variance": lambda distribution: distribution.variance.sum(),
    "entropy": lambda distribution: distribution.entropy(),
}


@pytest.mark.parametrize("name", _FUNCTIONS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_vmap_over_concentrations(distribution, name):
    """With the default `validate_args`; numbers that are no concentrations give NaN, since no value can be read."""
    loc, kappas = direction(4), tensor([0.0, 0.5, 50.0])

    def function(kappa):
        return _FUNCTIONS[name](distribution(loc, kappa))

    single = [kappa.clone().requires_grad_() for kappa in kappas]
    slopes = [torch.autograd.grad(function(kappa), kappa)[0] for kappa in single]
    assert_allclose(torch.func.vmap(function)(kappas), [float(function(kappa)) for kappa in kappas], rtol=1e-12)
    assert_allclose(torch.func.vmap(torch.func.grad(function))(kappas), torch.stack(slopes), rtol=1e-9, atol=1e-14)
    assert torch.func.vmap(function)(tensor([-1.0, 1.0])).isnan().tolist() == [True, False]


@pytest.mark.parametrize("dim", [3, 60])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_compiled_as_one_graph(distribution, dim):
    """The coefficients of the normalizer are a constant of the graph; to trace their computation takes minutes."""
    torch.compiler.reset()

    def function(loc, kappa):
        return sum(part(distribution(loc, kappa)) for part in _FUNCTIONS.values())

    loc, kappa = direction(dim), tensor(3.0)
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    assert_allclose(compiled(loc, kappa), function(loc, kappa), rtol=1e-12)


# ---- moments, entropy, divergences ----


@pytest.mark.parametrize("kappa", [0.4, 7.0, 500.0])
@pytest.mark.parametrize("dim", [2, 3, 20])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_moments_and_entropy(distribution, dim, kappa):
    """Within 5 standard errors of those of samples; entropy = -E[log p]."""
    exact = distribution(direction(dim, seed=3), kappa)
    points = exact.sample((20_000,), seed=7)
    error = points.std(0) / math.sqrt(len(points))
    assert ((points.mean(0) - exact.mean).abs() < 5 * error).all()
    squares = (points - exact.mean) ** 2
    assert ((squares.mean(0) - exact.variance).abs() < 5 * squares.std(0) / math.sqrt(len(points))).all()
    logs = exact.log_prob(points)
    assert abs(logs.mean() + exact.entropy()) < 5 * logs.std() / math.sqrt(len(points))
    assert torch.equal(exact.mode, exact.loc)
    assert (exact.log_prob(exact.mode) >= logs).all()


@pytest.mark.parametrize("dim", [2, 3, 10, 100])
def test_divergence_to_uniform_as_in_the_paper(dim):
    """Appendix C.1: kappa I_{d/2} / I_{d/2-1} + (d/2-1) log kappa - d/2 log 2 pi - log I_{d/2-1} + log area."""
    kappa = np.array([0.5, 5.0, 50.0, 300.0])
    nu = dim / 2 - 1
    log_bessel = np.log(special.ive(nu, kappa)) + kappa
    area = dim / 2 * math.log(math.pi) + math.log(2) - math.lgamma(dim / 2)
    ratio = special.ive(nu + 1, kappa) / special.ive(nu, kappa)
    expected = kappa * ratio + nu * np.log(kappa) - dim / 2 * math.log(2 * math.pi) - log_bessel + area
    distribution = VonMisesFisher(direction(dim), torch.from_numpy(kappa))
    assert_allclose(kl_divergence(distribution, HypersphericalUniform(dim)), expected, rtol=1e-9)
    # Tiny concentrations: kappa^2 / (2 d), with all its digits.
    tiny = kl_divergence(VonMisesFisher(direction(dim), 1e-6), HypersphericalUniform(dim))
    assert_allclose(tiny, 1e-12 / (2 * dim), rtol=1e-10)


@pytest.mark.parametrize("dim", [2, 3, 12])
def test_divergences_by_monte_carlo(dim):
    def distributions(seed):
        loc = direction(dim, seed=seed)
        return VonMisesFisher(loc, 4.0 + seed), PowerSpherical(loc, 3.0 + seed)

    uniform = HypersphericalUniform(dim, dtype=torch.float64)
    (fisher, power), (other, other_power) = distributions(0), distributions(1)
    pairs = [
        (fisher, uniform),
        (power, uniform),
        (fisher, other),
        (power, other),
        (uniform, other),
        (uniform, other_power),
    ]
    for p, q in pairs:
        points = p.sample((40_000,), seed=1)
        logs = p.log_prob(points) - q.log_prob(points)
        assert abs(kl_divergence(p, q) - logs.mean()) < 5 * logs.std() / math.sqrt(len(logs))
    assert kl_divergence(uniform, uniform) == 0
    assert_allclose(kl_divergence(fisher, fisher), 0, atol=1e-14)
    with pytest.raises(ValueError, match="q must have the dimension of p"):
        kl_divergence(fisher, HypersphericalUniform(dim + 1))


# ---- torch.distributions ----


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_batches_broadcast_and_expand(distribution):
    locs, kappas = direction(4, 1, 5), tensor([1.0, 20.0, 1e4])
    batch = distribution(locs, kappas)
    assert batch.batch_shape == (4, 3)
    assert batch.event_shape == (5,)
    points = batch.sample((6, 2), seed=0)
    assert points.shape == (6, 2, 4, 3, 5)
    assert batch.log_prob(points).shape == (6, 2, 4, 3)
    assert batch.entropy().shape == batch.batch_shape
    assert batch.mean.shape == batch.variance.shape == (4, 3, 5)
    assert kl_divergence(batch, HypersphericalUniform(5)).shape == (4, 3)
    for i, j in ((0, 0), (3, 2)):
        single = distribution(locs[i, 0], kappas[j])
        assert_allclose(batch.log_prob(points)[..., i, j], single.log_prob(points[..., i, j, :]), rtol=1e-12)
    # The most concentrated members stay close to their own mean direction.
    assert ((points[..., 2, :] * locs[:, 0]).sum(-1) > 0.99).all()
    wider = distribution(locs[0, 0], 2.0).expand((7, 2))
    assert isinstance(wider, distribution)
    assert wider.batch_shape == (7, 2)
    assert wider.sample((3,)).shape == (3, 7, 2, 5)
    assert wider.log_prob(points[0, 0, 0, 0]).shape == (7, 2)
    assert distribution(locs, 1.0).sample((0,)).shape == (0, 4, 1, 5)
    for dim in (2, 3, 4):
        one = distribution(direction(dim).requires_grad_(), 2.0)
        assert one.sample().shape == one.rsample().shape == (dim,)
        assert one.sample((2, 3)).shape == one.rsample((2, 3)).shape == (2, 3, dim)
        assert one.rsample().requires_grad
        assert not one.sample().requires_grad
    uniform = HypersphericalUniform(5, (3,))
    assert uniform.sample((2,)).shape == (2, 3, 5)
    assert uniform.expand((4, 3)).entropy().shape == (4, 3)
    assert uniform.log_prob(points).shape == (6, 2, 4, 3)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_mixtures_through_torch(distribution):
    """Six modes on S^2, as the paper's target: density and samples of the mixture."""
    modes = torch.cat([torch.eye(3), -torch.eye(3)]).double()
    weights = tensor([0.3, 0.1, 0.1, 0.1, 0.2, 0.2])
    mixture = MixtureSameFamily(Categorical(weights), distribution(modes, 40.0))
    torch.manual_seed(0)
    points = mixture.sample((6000,))
    parts = torch.stack([distribution(mode, 40.0).log_prob(points).exp() for mode in modes])
    assert_allclose(mixture.log_prob(points), (weights @ parts).log(), rtol=1e-10)
    counts = torch.bincount((points @ modes.T).argmax(-1), minlength=6)
    assert stats.chisquare(counts.numpy(), 6000 * weights.numpy()).pvalue > 1e-4
    assert_allclose(mixture.mean, weights @ distribution(modes, 40.0).mean, atol=1e-15)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_half_types_are_computed_in_float32(distribution):
    loc = direction(8).to(torch.bfloat16)
    wide = distribution(loc, 3.0)
    assert wide.loc.dtype == torch.float32
    assert_allclose(torch.linalg.vector_norm(wide.loc), 1, rtol=1e-6)
    assert wide.sample((4,)).dtype == torch.float32
    assert distribution(direction(8, dtype=torch.float32), tensor(3.0)).sample().dtype == torch.float64
    assert distribution(direction(8), torch.tensor(3)).log_prob(direction(8)).dtype == torch.float64


# ---- bad input ----


NORTH = direction(3)
FAULTS = [
    ((NORTH * 1.1, 1.0), ValueError, r"loc: row 0 has length 1.1, .*sphereot.sphere.normalize\(loc\)"),
    ((NORTH * 0, 1.0), ValueError, "loc: row 0 is the zero vector"),
    ((NORTH * math.nan, 1.0), ValueError, "loc: row 0 holds NaN"),
    ((tensor([1.0]), 1.0), ValueError, "loc: points have 1 coordinate, but a sphere needs at least 2"),
    ((tensor(1.0), 1.0), ValueError, r"loc must contain unit vectors, shape \(\.\.\., d\), got a single number"),
    (([1.0, 0.0], 1.0), TypeError, "loc must be a torch tensor .*, got list"),
    ((torch.tensor([1, 0]), 1.0), TypeError, "loc must have a real floating dtype, got torch.int64"),
    ((NORTH, -0.5), ValueError, "concentration must be finite and at least 0, got -0.5"),
    ((NORTH, math.nan), ValueError, "concentration must be finite and at least 0, got nan"),
    ((NORTH, tensor([1.0, math.inf])), ValueError, "concentration must be finite and at least 0, got inf"),
    ((NORTH, torch.tensor(1j)), TypeError,
     "concentration must be a real number or tensor, got dtype torch.complex64"),
    ((direction(2, 3), torch.ones(3)), ValueError, r"loc must have .* concentration \(3,\), got \(2,\)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("distribution", "arguments", "error", "message"),
    [
        *((distribution, *fault) for distribution in DISTRIBUTIONS for fault in FAULTS),
        (HypersphericalUniform, (1,), ValueError, r"dim must be at least 2 \(the circle S\^1\), got 1"),
        (HypersphericalUniform, (3.0,), TypeError, "dim must be an int of at least 2, got float"),
        (partial(HypersphericalUniform, dtype=torch.float16), (3,), TypeError, r"dtype must be .*, got torch\.float16"),
    ],
)
def test_bad_parameters(distribution, arguments, error, message):
    with pytest.raises(error, match=message):
        distribution(*arguments)


@pytest.mark.parametrize("distribution", one_of_each(3))
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.stack([NORTH, 2 * NORTH]), r"value: row 1 has length 2, .*sphereot.sphere.normalize\(value\)"),
        (0.5 * NORTH, r"value: row 0 has length 0\.5"),
        (direction(4), "value has points in dimension 4 and the distribution in dimension 3"),
    ],
)
def test_bad_values(distribution, value, message):
    with pytest.raises(ValueError, match=message):
        distribution.log_prob(value)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_without_validation_nothing_is_checked(distribution):
    """No round of rejection goes on for ever."""
    assert distribution(direction(4), math.nan, validate_args=False).sample((3,)).shape == (3, 4)
    assert torch.isfinite(distribution(NORTH * 1.1, 1.0, validate_args=False).log_prob(2 * NORTH))


def test_validates_whatever_the_default_of_torch():
    """The first torch.compile of a process sets torch's default to False; ours must not depend on what ran before."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        for distribution in DISTRIBUTIONS:
            with pytest.raises(ValueError, match=r"loc: row 0 has length 1\.1"):
                distribution(direction(3) * 1.1, 1.0)
        with pytest.raises(ValueError, match=r"value: row 0 has length 0\.5"):
            HypersphericalUniform(3).log_prob(0.5 * direction(3))
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


def test_import_names_the_extra():
    assert "pip install 'sphereot[torch]'" in import_error("import sphereot.distributions", absent="torch")
