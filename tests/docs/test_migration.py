"""The migration pages: calls of both packages agree, and the statements about both are true.

Blocks that begin with the name of the other package run only if it is installed; the others always run. Independent
formulas check the same statements if it is not.
"""

import importlib.util
import math
import re
import warnings

import numpy as np
import pytest
from helpers.documents import DOCS, python_blocks
from numpy.testing import assert_allclose

import sphereot
from sphereot import circle, sphere
from sphereot.compat import pot
from sphereot.density import SphericalKDE, VonMisesFisherMixture
from sphereot.stats import drift_test, uniformity_test

# By page or section: the first line of a block, the module, what the blocks of sphereot need, and the tolerance.
PACKAGES = {
    "pot.md": ("POT", "ot", [], 1e-4),
    "scikit-learn.md": ("scikit-learn", "sklearn", ["sklearn"], None),
    "others.md, SciPy": ("SciPy", "scipy", ["torch"], 1e-9),
    "others.md, R": ("R", None, [], None),
    "others.md, geomloss": ("geomloss", "geomloss", ["torch"], 1e-2),
    "others.md, ott-jax": ("ott-jax", "ott", ["jax"], 1e-5),
    "others.md, geoopt": ("geoopt", "geoopt", ["torch"], 1e-9),
    "others.md, evidently": ("evidently", "evidently", [], None),
}
IMPORTS = "import numpy as np\nimport sphereot\nfrom sphereot import sphere"  # at the beginning of the page others.md


def package(name):
    """A package or module that may be missing, imported without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


def run(block, page, namespace, *, quietly):
    with warnings.catch_warnings():
        if quietly:
            warnings.simplefilter("ignore")
        exec(compile(block, page, "exec"), namespace)


def assert_same(here, there, tolerance):
    pairs = zip(here, there, strict=True) if isinstance(here, list) else [(here, there)]
    for ours, theirs in pairs:
        assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=tolerance, atol=1e-12)


@pytest.mark.parametrize("place", PACKAGES)
def test_calls_side_by_side(place, tmp_path, monkeypatch):
    """Values named `there` and `here` agree, if the other package is installed."""
    title, module, needed, tolerance = PACKAGES[place]
    page, _, section = place.partition(", ")
    namespace, compared = {}, 0
    if section:
        exec(IMPORTS, namespace)
    for name in needed:
        namespace[name] = pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    is_installed = module is not None and importlib.util.find_spec(module) is not None
    for block in python_blocks(f"migration/{page}", section):
        if block.startswith(f"# {title}\n"):
            if is_installed:
                run(block, place, namespace, quietly=True)
            continue
        run(block, place, namespace, quietly=False)
        if "here" in namespace and "there" in namespace:
            assert_same(namespace.pop("here"), namespace.pop("there"), tolerance)
            compared += 1
    if is_installed and tolerance is not None:
        assert compared


def test_pages_are_complete():
    sections = re.findall(r"^## (.*)", (DOCS / "migration/others.md").read_text(encoding="utf-8"), re.M)
    assert {place.partition(", ")[2] for place in PACKAGES} == {"", *sections}
    assert {path.name for path in (DOCS / "migration").glob("*.md")} == {place.partition(",")[0] for place in PACKAGES}


# ---- POT ----


@pytest.mark.parametrize("seed", [595, 1150, 1302, 1907])
def test_pot_ends_at_wrong_cuts(seed):
    """The four seeds below 2,000 whose pair of small samples gets a value beyond the largest possible one."""
    ot = package("ot")
    rng = np.random.default_rng(seed)
    n, m = rng.integers(2, 12, 2)
    u, v = rng.random(n), rng.random(m)
    assert n != m
    assert 0.51 < ot.wasserstein_circle(u, v, p=2)[0] < 0.81
    gap = np.abs(u[:, None] - v[None])
    assert_allclose(circle.wasserstein(u, v), ot.emd2([], [], np.minimum(gap, 1 - gap) ** 2), rtol=1e-9)


def test_pot_does_not_scale_weights():
    """Weights with the totals 4 and 8: the value of POT is not that of the distributions, and ours is."""
    ot = pytest.importorskip("ot")
    u, v, a, b = np.array([0.1, 0.4, 0.7]), np.array([0.2, 0.9]), np.array([2.0, 1, 1]), np.array([3.0, 5])
    assert_allclose(ot.wasserstein_circle(u, v, a / 4, b / 8, p=1), 0.1875)
    assert_allclose(ot.wasserstein_circle(u, v, a, b, p=1), 1.4)
    assert_allclose(circle.wasserstein(u, v, p=1, u_weights=a, v_weights=b), 0.1875)
    assert_allclose(pot.wasserstein_circle(u, v, a, b, p=1), 0.1875)


def test_pot_needs_the_number_of_projections():
    ot = package("ot")
    x, frames = sphere.random_uniform(10, 3, seed=0), sphereot.great_circles(7, 3, seed=0)
    with pytest.raises(ValueError, match="reshape"):
        ot.sliced_wasserstein_sphere(x, x, projections=frames)


def test_gradient_at_equal_samples():
    ot, torch = package("ot"), package("torch")
    x = torch.tensor(sphere.random_uniform(10, 3, seed=0), requires_grad=True)
    (theirs,) = torch.autograd.grad(ot.sliced_wasserstein_sphere(x, x.detach().clone(), seed=0), x)
    (ours,) = torch.autograd.grad(sphereot.ssw(x, x.detach().clone(), seed=0), x)
    assert torch.isnan(theirs).any()
    assert not ours.any()


# ---- ott-jax ----


def test_circle_is_an_assignment(rng):
    """What ott-jax's Hungarian algorithm solves, by SciPy: for d = 2 there is a single great circle."""
    assignment = package("scipy.optimize").linear_sum_assignment
    x, y = (sphere.normalize(rng.normal(size=(40, 2)) + shift) for shift in (0.0, 1.0))
    cost = (sphere.geodesic_distance(x[:, None], y[None]) / (2 * math.pi)) ** 2
    assert_allclose(sphereot.ssw(x, y, seed=0), cost[assignment(cost)].mean(), rtol=1e-9)
    assert_allclose(sphereot.ssw(x, y, seed=0), sphereot.ssw(x, y, seed=1), rtol=1e-9)


def test_ott_slices_along_lines(rng):
    """Its sliced distance is that of sorted inner products, not rooted, on the same directions in every call."""
    jax, sliced = package("jax"), package("ott.tools.sliced")
    key = jax.random.key(1)
    x, y = (sphere.normalize(rng.normal(size=(30, 3)) + shift) for shift in (0.0, 1.0))
    directions = sphere.normalize(np.asarray(jax.random.normal(key, (50, 3))))
    expected = np.mean((np.sort(x @ directions.T, axis=0) - np.sort(y @ directions.T, axis=0)) ** 2)
    value, _ = sliced.sliced_wasserstein(jax.numpy.asarray(x), jax.numpy.asarray(y), n_proj=50, rng=key)
    assert_allclose(value, expected, rtol=1e-6)
    calls = [sliced.sliced_wasserstein(jax.numpy.asarray(x), jax.numpy.asarray(y), n_proj=50)[0] for _ in range(2)]
    assert calls[0] == calls[1]
    with pytest.raises(ValueError, match="seed"):
        jax.jit(sphereot.ssw)(jax.numpy.asarray(x), jax.numpy.asarray(y))


# ---- geomloss ----


def test_geomloss_takes_half_of_the_squared_chord(rng):
    torch, ot = package("torch"), package("ot")
    loss = package("geomloss").SamplesLoss
    x, y = (torch.tensor(sphere.normalize(rng.normal(size=(20, 2)) + shift)) for shift in (0.0, 1.0))
    options = {"blur": 0.003, "scaling": 0.95, "backend": "tensorized"}
    chords = np.linalg.norm(x[:, None] - y[None], axis=-1)
    assert_allclose(loss("sinkhorn", p=2, **options)(x, y), ot.emd2([], [], chords**2) / 2, rtol=0.05)
    assert_allclose(loss("sinkhorn", p=1, **options)(x, y), ot.emd2([], [], chords), rtol=0.05)
    assert loss("sinkhorn", **options)(torch.stack([x, y]), torch.stack([y, x])).shape == (2,)


def test_conversion_to_half_squared_radians():
    """Of two points on a circle: arc^2 / 2 is (2 pi)^2 / 2 times SSW_2^2."""
    x, y = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert_allclose((2 * math.pi) ** 2 / 2 * sphereot.ssw(x, y, seed=0), (math.pi / 2) ** 2 / 2)
    assert round((2 * math.pi) ** 2 / 2, 1) == 19.7


# ---- geoopt ----


def test_geometry_by_formulas(rng):
    """What the page says of sphereot's side, against textbook formulas."""
    x, y = sphere.random_uniform(20, 4, seed=0), sphere.random_uniform(20, 4, seed=1)
    v = rng.normal(size=(20, 4))
    v -= np.sum(x * v, axis=1, keepdims=True) * x
    length = np.linalg.norm(v, axis=1, keepdims=True)
    assert_allclose(sphere.exp(x, v + 3 * x), np.cos(length) * x + np.sin(length) * v / length, atol=1e-12)
    cosine = np.sum(x * y, axis=1, keepdims=True)
    expected = np.arccos(cosine) * (y - cosine * x) / np.sqrt(1 - cosine**2)
    assert_allclose(sphere.log(x, y), expected, atol=1e-12)
    assert_allclose(np.linalg.norm(sphere.log(x, -x), axis=1), math.pi)
    moved = v - np.sum(y * v, axis=1, keepdims=True) / (1 + cosine) * (x + y)
    assert_allclose(sphere.parallel_transport(x, y, v), moved, atol=1e-12)
    assert_allclose(np.linalg.norm(moved, axis=1, keepdims=True), length)
    assert not sphere.geodesic_distance(x, x).any()
    with pytest.raises(ValueError, match="zero"):
        sphere.normalize(np.zeros((1, 3)))


def test_geoopt_differs_where_the_page_says(rng):
    torch, geoopt = package("torch"), package("geoopt")
    manifold = geoopt.Sphere()
    x, y = (torch.tensor(sphere.random_uniform(20, 3, seed=k)) for k in (0, 1))
    assert_allclose(manifold.dist(x, x), math.acos(1 - 1e-7))
    assert_allclose(manifold.dist(x.float(), x.float()), math.acos(1 - 1e-4), rtol=1e-3)
    assert (manifold.logmap(x, -x).norm(dim=1) < 1e-6).all()
    v = sphere.to_tangent(x, torch.tensor(rng.normal(size=(20, 3))))
    carried = manifold.transp(x, y, v)
    assert_allclose(carried, sphere.to_tangent(y, v))
    assert (carried.norm(dim=1) <= v.norm(dim=1) + 1e-12).all()
    off = manifold.expmap(x, v + 0.5 * x).norm(dim=1)
    assert ((off - 1).abs() > 1e-3).any()


def descent_by_formula(x, y, retraction):
    """Twenty steps toward y: along the geodesic, or straight and then normalized."""
    for _ in range(20):
        step = 0.05 * (y - np.sum(x * y, axis=1, keepdims=True) * x)
        length = np.linalg.norm(step, axis=1, keepdims=True)
        along = np.cos(length) * x + np.sin(length) / length * step
        x = along if retraction == "exp" else sphere.normalize(x + step)
    return x


def descent(optimizer, points, y):
    for _ in range(20):
        optimizer.zero_grad()
        (-points * y).sum().backward()
        optimizer.step()
    return np.asarray(points.detach())


@pytest.mark.parametrize("retraction", ["exp", "normalize"])
def test_descent(retraction):
    torch = package("torch")
    x, y = sphere.random_uniform(5, 3, seed=0), sphere.random_uniform(5, 3, seed=1)
    points = torch.tensor(x, requires_grad=True)
    optimizer = sphereot.optim.RiemannianSGD([points], lr=0.05, retraction=retraction)
    ours = descent(optimizer, points, torch.tensor(y))
    assert_allclose(ours, descent_by_formula(x, y, retraction), atol=1e-12)


@pytest.mark.parametrize("retraction", ["exp", "normalize"])
def test_descent_of_geoopt(retraction):
    torch, geoopt = package("torch"), package("geoopt")
    x, y = sphere.random_uniform(5, 3, seed=0), sphere.random_uniform(5, 3, seed=1)
    manifold = geoopt.SphereExact() if retraction == "exp" else geoopt.Sphere()
    points = geoopt.ManifoldParameter(torch.tensor(x), manifold=manifold)
    theirs = descent(geoopt.optim.RiemannianSGD([points], lr=0.05), points, torch.tensor(y))
    assert_allclose(theirs, descent_by_formula(x, y, retraction), atol=1e-12)


# ---- SciPy ----


def test_scipy_differs_where_the_page_says(rng):
    stats, distance = package("scipy.stats"), package("scipy.spatial.distance")
    assert_allclose(stats.wasserstein_distance([0.05], [0.95]), 0.9)
    assert_allclose(circle.wasserstein(np.array([0.05]), np.array([0.95]), p=1), 0.1)
    x = sphere.normalize(rng.normal(size=(20, 3)) + 4 * np.eye(3)[2])
    assert np.abs(stats.directional_stats(x).mean_direction - sphere.frechet_mean(x)).max() > 1e-5
    near = sphere.normalize(np.array([1.0, 1e-9, 0.0]))
    assert np.arccos(1 - distance.cosine(np.eye(3)[0], near)) == 0
    assert_allclose(sphere.geodesic_distance(np.eye(3)[0], near), 1e-9)


def test_scipy_density_in_high_dimension():
    stats, torch = package("scipy.stats"), package("torch")
    from sphereot.distributions import VonMisesFisher

    mean = np.eye(500)[0]
    with np.errstate(divide="ignore"):
        assert np.isinf(stats.vonmises_fisher(mean, 1).logpdf(mean))
    # The mean of exp(kappa t) under the uniform distribution is nearly exp(kappa^2 / 2d) in high dimension.
    log_area = math.log(2) + 250 * math.log(math.pi) - math.lgamma(250)
    value = float(VonMisesFisher(torch.tensor(mean), 1.0).log_prob(torch.tensor(mean)))
    assert_allclose(value, 1 - 1 / 1000 - log_area, atol=1e-5)
    with pytest.raises(ValueError, match="kappa=0"):
        stats.vonmises_fisher(np.eye(3)[0], 0)
    uniform = VonMisesFisher(torch.eye(3)[0], 0.0).log_prob(torch.eye(3)[1])
    assert_allclose(float(uniform), -math.log(4 * math.pi), rtol=1e-6)


def test_areas_as_weights():
    spatial = package("scipy.spatial")
    stations = sphere.random_uniform(100, 3, seed=0)
    areas = spatial.SphericalVoronoi(stations).calculate_areas()
    values = [sphereot.ssw_uniform(stations, weights=weights, method="exact") for weights in (None, areas)]
    assert [round(value, 5) for value in values] == [0.00059, 0.0002]


# ---- R ----


def angles_of_pairs(x):
    return np.arccos(np.clip(x @ x.T, -1, 1))[np.triu_indices(len(x), 1)]


@pytest.mark.parametrize("dim", [2, 3, 6])
def test_sphunif_statistics(dim, rng):
    """Rayleigh, Bingham, Ajne and Giné by the textbook formulas, which sphunif computes."""
    x = sphere.normalize(rng.normal(size=(60, dim)) + 0.2)
    n, angles = len(x), angles_of_pairs(x)
    scatter = x.T @ x / n
    ajne = n / 4 - np.sum(angles) / (math.pi * n)
    factor = (math.gamma((dim - 1) / 2) / math.gamma(dim / 2)) ** 2
    even = n / 2 - (dim - 1) / (2 * n) * factor * np.sum(np.sin(angles))
    expected = {
        "Rayleigh": dim * n * np.sum(x.mean(axis=0) ** 2),
        "Bingham": n * dim * (dim + 2) / 2 * (np.trace(scatter @ scatter) - 1 / dim),
        "Giné": 4 * ajne + even,
    }
    computed = {test.name: test.statistic for test in uniformity_test(x).classical}
    assert list(computed) == list(expected)
    for name, value in expected.items():
        assert_allclose(computed[name], value, rtol=1e-9)
    # The odd part of the kernel K_d is arcsin(cos) / (8 pi), whatever the dimension.
    odd = np.sum(np.arcsin(np.clip(x @ x.T, -1, 1))) / (8 * math.pi * n)
    assert_allclose(ajne, 4 * odd, rtol=1e-6)


def test_rayleigh_with_correction(rng):
    """Jupp's correction is in Directional's statistic, and in our p-value; sphunif's p-value has none."""
    chi2 = package("scipy.stats").chi2
    x = sphere.normalize(rng.normal(size=(40, 3)) + 0.2)
    test = uniformity_test(x).classical[0]
    corrected = (1 - 1 / 80) * test.statistic + test.statistic**2 / (80 * 5)
    assert_allclose(test.p_value, chi2.sf(corrected, 3), rtol=1e-9)
    assert abs(test.p_value - chi2.sf(test.statistic, 3)) > 1e-6


def test_watson(rng):
    """U^2 of angles, for Directional in degrees and for sphunif in radians; for d = 2 PCvM is twice that."""
    degrees = rng.uniform(0, 360, 30)
    n, turns = 30, np.sort(degrees) / 360
    square = np.sum((turns - (np.arange(n) + 0.5) / n - turns.mean() + 0.5) ** 2) + 1 / (12 * n)
    assert_allclose(n * circle.wasserstein_uniform(degrees / 360), square)
    x = np.stack([np.cos(2 * math.pi * turns), np.sin(2 * math.pi * turns)], axis=1)
    assert_allclose(n * sphereot.ssw_uniform(x, method="exact"), square)
    psi = angles_of_pairs(x)
    projected = 2 / n * (n * (n - 1) / 4 + np.sum(psi * (psi - 2 * math.pi)) / (4 * math.pi**2)) + 0.5 - n / 3
    assert_allclose(projected, 2 * square)


def test_projected_cramer_von_mises_is_another_statistic_on_s2():
    """For d = 3 PCvM is a sum of chords, and not a multiple of n SSW_2^2."""
    ratios = []
    for seed in range(2):
        x = sphere.random_uniform(20, 3, seed=seed)
        projected = 20 / 6 - np.sum(np.sin(angles_of_pairs(x) / 2)) / 40
        ratios.append(projected / (20 * sphereot.ssw_uniform(x, method="exact")))
    assert abs(ratios[0] / ratios[1] - 1) > 0.01


def test_angles_of_directional():
    """`euclid` of Directional measures its first angle from the first axis; ours are longitude and latitude."""
    first, second = np.deg2rad([70.0, 30.0])
    vector = np.array([math.cos(first), math.sin(first) * math.cos(second), math.sin(first) * math.sin(second)])
    assert_allclose(sphere.to_lonlat(vector[[1, 2, 0]]), [30, 20])
    longitude, latitude = np.deg2rad([30.0, 20.0])
    expected = [
        math.cos(latitude) * math.cos(longitude),
        math.cos(latitude) * math.sin(longitude),
        math.sin(latitude),
    ]
    assert_allclose(sphere.from_lonlat([30.0, 20.0]), expected)


def test_kernel_and_likelihood_of_directional(rng):
    """The kernel has the concentration 1 / h^2, and one component the concentration of maximum likelihood."""
    x = sphere.normalize(rng.normal(size=(50, 3)) + 2 * np.eye(3)[2])
    kappa = 1 / 0.3**2
    constant = kappa / (4 * math.pi * math.sinh(kappa))
    expected = np.mean(constant * np.exp(kappa * (x @ x.T)), axis=1)
    assert_allclose(SphericalKDE(0.3).fit(x).density(x), expected, rtol=1e-9)
    fitted = VonMisesFisherMixture(1).fit(x).components_.concentrations[0]
    resultant = np.linalg.norm(x.mean(axis=0))
    assert_allclose(1 / math.tanh(fitted) - 1 / fitted, resultant, rtol=1e-6)


# ---- evidently ----


def test_false_alarms():
    """Of 20 pairs of samples of one distribution, how many each method takes for drift."""
    methods = package("evidently.legacy.metrics.data_drift.embedding_drift_methods")
    pandas = package("pandas")
    alarms = dict.fromkeys(("mmd", "mmd at 95 %", "ratio", "ssw"), 0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        reference, current = (sphere.normalize(rng.normal(size=(n, 8)) + np.eye(8)[0]) for n in (200, 100))
        frames = [pandas.DataFrame(points, columns=[f"c{k}" for k in range(8)]) for points in (current, reference)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alarms["mmd"] += bool(methods.mmd(bootstrap=True)(*frames)[1])
            alarms["mmd at 95 %"] += bool(methods.mmd(bootstrap=True, quantile_probability=0.95)(*frames)[1])
            alarms["ratio"] += bool(methods.ratio()(*frames)[1])
            if seed == 0:
                methods.model()(*(copied := [frame.copy() for frame in frames]))
                assert all("target" in frame.columns for frame in copied)
        alarms["ssw"] += drift_test(reference, [current], permutations=199, seed=seed).drifted
    assert alarms["mmd"] == alarms["ratio"] == 20
    assert alarms["mmd at 95 %"] == 0
    assert alarms["ssw"] == 0
