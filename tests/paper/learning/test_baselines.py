"""Divergences to a prior, each against a value that another formula or program gives, and gradients."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from numpy.testing import assert_allclose
from scipy import integrate

from paper.learning.baselines import MMD, SW, CircularGSW, Divergence, Sinkhorn, half_squared_arcs
from sphereot import sphere

ALL = [
    SW(20),
    CircularGSW(20),
    MMD("imq"),
    MMD("rbf"),
    MMD("imq", scale=0.5),
    pytest.param("sinkhorn", id="Sinkhorn"),
]


@pytest.fixture
def divergence(request):
    if request.param == "sinkhorn":
        pytest.importorskip("geomloss")
        return Sinkhorn()
    return request.param


def points(n, dim, seed):
    return sphere.random_uniform(n, dim, seed=seed, like=torch.empty(0, dtype=torch.float64))


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
@pytest.mark.parametrize("scale", [None, 0.7])
def test_mmd_equals_a_double_loop(kernel, scale):
    """The U-statistic, term by term."""
    x, y = points(7, 4, 0).numpy(), points(5, 4, 1).numpy()
    c = 8.0 if scale is None else scale

    def k(a, b):
        square = sum((s - t) ** 2 for s, t in zip(a, b, strict=True))
        return c / (c + square) if kernel == "imq" else math.exp(-square / c)

    within_x = sum(k(x[i], x[j]) for i in range(7) for j in range(7) if i != j) / 42
    within_y = sum(k(y[i], y[j]) for i in range(5) for j in range(5) if i != j) / 20
    between = sum(k(a, b) for a in x for b in y) / 35
    value = MMD(kernel, scale)(torch.from_numpy(x), torch.from_numpy(y))
    assert_allclose(float(value), within_x + within_y - 2 * between, rtol=1e-12)


def test_mmd_is_unbiased():
    """Its mean over samples of one distribution is 0: 400 pairs, within four standard errors."""
    values = [float(MMD("imq", scale=0.5)(points(10, 3, 2 * k), points(10, 3, 2 * k + 1))) for k in range(400)]
    assert abs(np.mean(values)) < 4 * np.std(values) / math.sqrt(len(values))


def test_sinkhorn_equals_geomloss_called_directly():
    """With a cost written in another way: arccos of the inner product."""
    geomloss = pytest.importorskip("geomloss")
    x, y = points(30, 5, 0), points(25, 5, 1)

    def cost(a, b):
        return torch.arccos((a @ b.transpose(-1, -2)).clamp(-1, 1)) ** 2 / 2

    theirs = geomloss.SamplesLoss("sinkhorn", p=2, blur=0.1, scaling=0.8, diameter=math.pi, cost=cost)
    assert_allclose(float(Sinkhorn(blur=0.1, scaling=0.8)(x, y)), float(theirs(x, y)), rtol=1e-6)


def test_sinkhorn_tends_to_the_geodesic_wasserstein_distance():
    """Half of W_2^2 by a linear program, for a small regularization."""
    pytest.importorskip("geomloss")
    ot = pytest.importorskip("ot")
    x, y = points(20, 3, 0), points(20, 3, 1)
    cost = sphere.geodesic_distance(x[:, None], y[None]).numpy() ** 2 / 2
    assert_allclose(float(Sinkhorn(blur=0.02, scaling=0.99)(x, y)), ot.emd2([], [], cost), rtol=1e-3)


def test_costs_of_sinkhorn_are_half_squared_arcs():
    """Also at equal points and antipodes, where the clamped sine costs at most the root of its precision."""
    x = torch.cat([points(4, 3, 0), torch.eye(3, dtype=torch.float64)])
    y = torch.cat([x, -x])
    assert_allclose(half_squared_arcs(x, y), sphere.geodesic_distance(x[:, None], y[None]) ** 2 / 2, atol=1e-6)


def test_circular_gsw_of_two_points_by_quadrature():
    """Between two single points of the plane, GSW_2^2 is a mean over angles of a squared difference of distances."""
    x, y, radius = torch.tensor([[0.6, 0.8]]), torch.tensor([[-1.0, 0.0]]), 1.5

    def integrand(angle):
        center = radius * np.array([math.cos(angle), math.sin(angle)])
        return (np.linalg.norm(x[0].numpy() - center) - np.linalg.norm(y[0].numpy() - center)) ** 2 / (2 * math.pi)

    expected = integrate.quad(integrand, 0, 2 * math.pi)[0]
    values = [float(CircularGSW(2000, radius)(x, y, seed=k)) for k in range(20)]
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert abs(np.mean(values) - expected) < 4 * error
    assert error < 0.01 * expected


def test_circular_gsw_equals_sorting_of_distances():
    """For samples of one size, W_2^2 on the line matches the sorted distances."""
    x, y = points(9, 4, 0), points(9, 4, 1)
    generator = torch.Generator().manual_seed(3)
    directions = torch.nn.functional.normalize(torch.randn(6, 4, generator=generator, dtype=torch.float64), dim=1)
    u, v = (np.sort(np.linalg.norm(2.0 * directions[:, None] - p, axis=-1), axis=1) for p in (x, y))
    assert_allclose(float(CircularGSW(6)(x, y, seed=3)), ((u - v) ** 2).mean(), rtol=1e-9)


def test_euclidean_sw_equals_pot():
    ot = pytest.importorskip("ot")
    x, y = points(12, 5, 0), points(9, 5, 1)
    values = [float(SW(500)(x, y, seed=k)) for k in range(10)]
    theirs = [ot.sliced_wasserstein_distance(x.numpy(), y.numpy(), n_projections=500, seed=k) ** 2 for k in range(10)]
    assert abs(np.mean(values) - np.mean(theirs)) < 4 * math.hypot(np.std(values), np.std(theirs)) / math.sqrt(10)


@pytest.mark.parametrize("divergence", ALL, indirect=True)
def test_gradient_by_finite_differences(divergence):
    """Along a random direction, with the slices of one seed.

    geomloss differentiates as if its iterations had converged: they nearly have for a large regularization.
    """
    rtol = 2e-4
    if isinstance(divergence, Sinkhorn):
        divergence, rtol = Sinkhorn(blur=1.0, scaling=0.998), 5e-3
    x, y = points(15, 4, 0), points(15, 4, 1)
    move = torch.randn(15, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)

    def value(step):
        moved = torch.nn.functional.normalize(x + step * move, dim=1)
        return divergence(moved, y, seed=7)

    step = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(value(step), step)
    h = 1e-5
    difference = (float(value(torch.tensor(h))) - float(value(torch.tensor(-h)))) / (2 * h)
    assert_allclose(float(slope), difference, rtol=rtol, atol=1e-9)


@pytest.mark.parametrize("divergence", ALL, indirect=True)
def test_gradients_are_finite_where_points_meet(divergence):
    """Codes equal to points of the target, and their antipodes."""
    y = points(6, 3, 0)
    codes = torch.cat([y[:3], -y[3:]]).requires_grad_()
    divergence(codes, y, seed=0).backward()
    assert bool(torch.isfinite(codes.grad).all())


@pytest.mark.parametrize("divergence", ALL, indirect=True)
def test_one_interface(divergence):
    """A scalar of the dtype of the codes; seeds repeat; another size of the target is fine."""
    x, y = points(10, 4, 0).float(), points(8, 4, 1).float()
    value = divergence(x, y, seed=1)
    assert isinstance(divergence, Divergence)
    assert (value.shape, value.dtype) == (torch.Size([]), torch.float32)
    assert float(value) == float(divergence(x, y, seed=1))
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    assert float(divergence(x, y, seed=generators[0])) == float(divergence(x, y, seed=generators[1]))
    state = torch.random.get_rng_state()
    divergence(x, y)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("divergence", ALL, indirect=True)
def test_half_precision(divergence):
    """Codes of an encoder under autocast: the value is that of float32 codes with the same digits."""
    x, y = points(40, 4, 0).to(torch.bfloat16), points(40, 4, 1)
    expected = float(divergence(x.float(), y.float(), seed=1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = divergence(x, y, seed=1)
    assert value.dtype == torch.float32
    assert float(value) == expected


def test_radius_of_circular_gsw():
    """Distances from centers far away differ by heights, so that SW is the limit; near centers give another value."""
    x, y = points(6, 3, 0), points(6, 3, 1)
    far, near = float(CircularGSW(50, radius=1e4)(x, y, seed=2)), float(CircularGSW(50, radius=0.5)(x, y, seed=2))
    assert_allclose(far, float(SW(50)(x, y, seed=2)), rtol=1e-3)
    assert abs(near - far) > 0.05 * far


@pytest.mark.parametrize("divergence", ALL, indirect=True)
def test_far_distributions_are_farther(divergence):
    """A cluster is farther from uniform than a uniform sample is."""
    y = points(200, 3, 0)
    toward = torch.tensor([2.0, 0.0, 0.0], dtype=torch.float64)
    cluster = torch.nn.functional.normalize(toward + points(200, 3, 1), dim=1)
    assert float(divergence(cluster, y, seed=0)) > 3 * abs(float(divergence(points(200, 3, 2), y, seed=0)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MMD("cauchy"), r"kernel: got 'cauchy'; choose 'imq' or 'rbf'"),
        (lambda: MMD(scale=-1.0), r"scale: the scale of the kernel must be a positive number, got -1.0"),
        (lambda: SW(0), r"n_projections: .*, got 0"),
        (lambda: CircularGSW(radius=math.nan), r"radius: .*, got nan"),
        (lambda: SW(10)(torch.eye(3), torch.eye(4)), r"target: shape is \(4, 4\), but codes \(3, 3\)"),
        (lambda: MMD()(torch.eye(3)[:1], torch.eye(3)), r"an unbiased MMD needs at least 2"),
        (lambda: SW()(torch.ones(3), torch.eye(3)), r"codes: shape is \(3,\)"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_scaling():
    pytest.importorskip("geomloss")
    with pytest.raises(ValueError, match=r"scaling: got 1.5"):
        Sinkhorn(scaling=1.5)
