"""Kernel density estimates: against SciPy's von Mises-Fisher, against quadrature, and in what they promise."""

import pickle
import tracemalloc

import numpy as np
import pytest
from helpers.bad_input import refusal_test
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from sphereot import sphere
from sphereot.density import SphericalKDE, components
from sphereot.density.components import fit_concentrations, log_bessel, sample_around, scaled_log_normalizer


def mixture(x, weights, kappa, points):
    """The estimate by SciPy, one kernel after the other."""
    return sum(
        w * stats.vonmises_fisher(mu, kappa).pdf(points) for w, mu in zip(weights / weights.sum(), x, strict=True)
    )


# ---- the kernel ----


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 10, 64, 301, 1000])
@pytest.mark.parametrize("kappa", [1e-6, 0.3, 5.0, 99.0, 101.0, 1e3, 1e5, 1e7])
def test_normalizer_of_every_dimension_and_concentration(dim, kappa):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        order, k = mpmath.mpf(dim) / 2 - 1, mpmath.mpf(kappa)
        expected = (
            order * mpmath.log(k) - (order + 1) * mpmath.log(2 * mpmath.pi) - mpmath.log(mpmath.besseli(order, k)) + k
        )
    assert_allclose(scaled_log_normalizer(dim, kappa), float(expected), rtol=2e-12, atol=2e-12)


@pytest.mark.parametrize("order", [0.0, 0.5, 3.0, 12.5])
@pytest.mark.parametrize("kappa", [0.01, 1.0, 40.0, 400.0, 5000.0])
def test_bessel_functions(order, kappa):
    assert_allclose(log_bessel(order, kappa), np.log(special.ive(order, kappa)), rtol=1e-11)


def test_zero_concentration_is_uniform():
    for dim in (2, 3, 8):
        area = 2 * np.pi ** (dim / 2) / special.gamma(dim / 2)
        assert_allclose(scaled_log_normalizer(dim, 0.0), -np.log(area))


@pytest.mark.parametrize("dim", [2, 3, 20])
@pytest.mark.parametrize("resultant", [1e-6, 0.2, 0.9, 0.9999])
def test_fitted_concentration_solves_its_equation(dim, resultant):
    kappa = float(fit_concentrations(dim, np.array([resultant]))[0])
    ratio = special.ive(dim / 2, kappa) / special.ive(dim / 2 - 1, kappa)
    assert_allclose(ratio, resultant, rtol=1e-9)


@pytest.mark.parametrize(("dim", "kappa"), [(2, 0.7), (2, 200.0), (3, 3.0), (3, 1e5), (6, 0.01), (40, 60.0)])
def test_kernel_samples_have_the_law_of_the_kernel(dim, kappa):
    """The cosine to the mean, against its distribution function by quadrature; the rest is symmetric around it."""
    rng = np.random.default_rng(1)
    mean = sphere_sample(rng, 1, dim)
    x = sample_around(np.repeat(mean, 4000, axis=0), kappa, rng)
    assert_allclose(np.linalg.norm(x, axis=1), 1)
    angle = sphere.geodesic_distance(x, mean)
    # In the angle, for the density in the cosine has poles on the circle.
    top = min(np.pi, 30 / np.sqrt(kappa))
    grid = np.linspace(0, top, 20001)
    log_density = kappa * (np.cos(grid) - 1)
    density = np.exp(log_density) * np.sin(grid) ** (dim - 2)
    distribution = integrate.cumulative_simpson(density, x=grid, initial=0)
    assert stats.kstest(angle, lambda t: np.interp(t, grid, distribution / distribution[-1])).pvalue > 1e-4
    around = x - np.sum(x * mean, axis=1, keepdims=True) * mean
    error = around.std(axis=0) / np.sqrt(4000)
    assert np.all(np.abs(around.mean(axis=0)) <= 5 * error + 1e-12)


# ---- the estimate ----


@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("bandwidth", [0.08, 0.5, 2.0])
def test_equals_the_mixture_of_scipy(dim, bandwidth, rng):
    x, points, weights = sphere_sample(rng, 15, dim, shift=1), sphere_sample(rng, 40, dim), rng.random(15)
    weights[3] = 0
    model = SphericalKDE(bandwidth, weights).fit(x)
    expected = mixture(x, weights, bandwidth**-2, points)
    assert_allclose(model.density(points), expected, rtol=1e-9)
    assert_allclose(model.log_density(points), np.log(expected), rtol=1e-9)
    assert model.score(points) == pytest.approx(np.log(expected).mean())
    assert len(model.points_) == 14


@pytest.mark.parametrize("bandwidth", [0.05, 0.3, 1.5, None, "rule-of-thumb"])
def test_integrates_to_one_on_the_circle_and_the_sphere(bandwidth, rng):
    circle = SphericalKDE(bandwidth).fit(sphere_sample(rng, 60, 2, shift=1))
    angle = np.arange(4000) * 2 * np.pi / 4000  # equal steps: exact for periodic functions
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert_allclose(circle.density(around).mean() * 2 * np.pi, 1, rtol=1e-10)

    ball = SphericalKDE(bandwidth).fit(sphere_sample(rng, 60, 3, shift=1))
    nodes, weights = special.roots_legendre(200)
    phi = np.arange(400) * 2 * np.pi / 400
    points = sphere.from_spherical(np.arccos(nodes)[:, None], phi[None])
    values = ball.density(points.reshape(-1, 3)).reshape(200, 400)
    assert_allclose(weights @ values.mean(axis=1) * 2 * np.pi, 1, rtol=1e-8)


def test_integrates_to_one_in_many_dimensions(rng):
    """By importance sampling from the uniform measure, whose density is 1 / area: within five standard errors."""
    dim = 40
    model = SphericalKDE(0.7).fit(sphere_sample(rng, 30, dim, shift=3))
    area = 2 * np.pi ** (dim / 2) / special.gamma(dim / 2)
    values = area * model.density(sphere.random_uniform(200_000, dim, seed=0))
    assert abs(values.mean() - 1) < 5 * values.std() / np.sqrt(len(values))


def test_samples_follow_the_density(rng):
    """The estimate's mean vector is the weighted mean of the points, times the mean cosine of the kernel."""
    x, weights = sphere_sample(rng, 5, 4), rng.random(5)
    model = SphericalKDE(0.4, weights).fit(x)
    drawn = model.sample(40_000, seed=0)
    cosine = special.ive(2, 0.4**-2) / special.ive(1, 0.4**-2)
    expected = cosine * weights @ x / weights.sum()
    assert np.all(np.abs(drawn.mean(axis=0) - expected) < 5 * drawn.std(axis=0) / 200)
    assert np.array_equal(model.sample(7, seed=3), model.sample(7, seed=3))
    assert not np.array_equal(model.sample(7), model.sample(7))


def test_memory_is_bounded(rng):
    """20,000 points at 20,000 places would be 3.2 GB at once."""
    x = sphere_sample(rng, 20_000, 3)
    model = SphericalKDE(0.1).fit(x)
    tracemalloc.start()
    model.log_density(x[:2000])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 8 * components._BLOCK_ENTRIES
    assert 4 * 8 * components._BLOCK_ENTRIES < 2000 * 20_000 * 8


def test_far_points_have_a_log_density():
    model = SphericalKDE(0.01).fit(np.array([[1.0, 0.0, 0.0]]))
    got = model.log_density(np.array([[-1.0, 0.0, 0.0]]))
    assert_allclose(got, np.log(1e4 / (2 * np.pi)) - 2e4, rtol=1e-12)
    assert model.density(np.array([[-1.0, 0.0, 0.0]])) == 0


# ---- bandwidths ----


@pytest.mark.parametrize("dim", [2, 3, 4, 6])
@pytest.mark.parametrize("shift", [1, 4])
def test_rule_of_thumb_minimizes_the_asymptotic_error(dim, shift, rng):
    """h = (q (4 pi)^(-q/2) / (n R))^(1/(q+4)), R the integral of the squared Laplacian of the fitted density."""
    x = sphere_sample(rng, 200, dim, shift=shift)
    q = dim - 1
    kappa = float(fit_concentrations(dim, np.linalg.norm(x.mean(axis=0), keepdims=True))[0])
    height = np.exp(scaled_log_normalizer(dim, kappa))

    def squared_laplacian(t):
        laplacian = height * np.exp(kappa * (np.cos(t) - 1)) * (kappa**2 * np.sin(t) ** 2 - q * kappa * np.cos(t))
        return laplacian**2 * np.sin(t) ** (q - 1)

    belt = 2 * np.pi ** (q / 2) / special.gamma(q / 2)  # the area of S^{q-1}
    roughness = belt * integrate.quad(squared_laplacian, 0, np.pi, limit=200)[0]
    expected = (q * (4 * np.pi) ** (-q / 2) / (200 * roughness)) ** (1 / (q + 4))
    assert_allclose(SphericalKDE("rule-of-thumb").fit(x).bandwidth_, expected, rtol=1e-6)


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_cross_validation_maximizes_the_leave_one_out_likelihood(dim, rng):
    x, weights = sphere_sample(rng, 80, dim, shift=2), rng.random(80)

    def left_out(bandwidth):
        scores = []
        for i in range(80):
            rest = np.arange(80) != i
            scores.append(SphericalKDE(bandwidth, weights[rest]).fit(x[rest]).score(x[i : i + 1]))
        return weights @ np.array(scores)

    best = SphericalKDE(weights=weights).fit(x).bandwidth_
    assert left_out(best) >= max(left_out(best * factor) for factor in (0.3, 0.7, 0.93, 1.07, 1.4, 3)) - 1e-12


def test_cross_validation_sees_modes_that_balance_each_other(rng):
    """Six clouds on the axes: their mean is zero, and the rule of thumb knows nothing else."""
    centers = np.concatenate([np.eye(3), -np.eye(3)])
    x = sphere.normalize(np.repeat(centers, 400, axis=0) + 0.1 * rng.normal(size=(2400, 3)))
    by_cv = SphericalKDE().fit(x)
    assert 0.02 < by_cv.bandwidth_ < 0.1
    fresh = sphere.normalize(np.repeat(centers, 400, axis=0) + 0.1 * rng.normal(size=(2400, 3)))
    assert by_cv.score(fresh) > SphericalKDE("rule-of-thumb").fit(x).score(fresh) + 0.5


def test_width_shrinks_with_the_sample(rng):
    """By the rate n^(-1/(d+3)), from what 1000 points choose."""
    x = sphere_sample(rng, 16_000, 3, shift=2)
    small, great = SphericalKDE().fit(x[:1000]).bandwidth_, SphericalKDE().fit(x).bandwidth_
    assert great / small == pytest.approx(16 ** (-1 / 6), rel=0.2)


def test_repeated_points_do_not_draw_the_width_to_zero(rng):
    x = sphere_sample(rng, 100, 3, shift=2)
    once, thrice = SphericalKDE().fit(x).bandwidth_, SphericalKDE().fit(np.tile(x, (3, 1))).bandwidth_
    assert thrice == pytest.approx(once, rel=1e-6)


def test_equal_weights_are_no_weights(rng):
    x = sphere_sample(rng, 50, 3, shift=1)
    for bandwidth in ("cv", "rule-of-thumb"):
        weighted = SphericalKDE(bandwidth, np.full(50, 7.0)).fit(x)
        assert weighted.bandwidth_ == pytest.approx(SphericalKDE(bandwidth).fit(x).bandwidth_, rel=1e-9)


# ---- conventions ----


def test_parameters_are_kept_and_attributes_end_with_an_underscore(rng):
    weights = [1, 2, 3]
    model = SphericalKDE(bandwidth="cv", weights=weights)
    assert model.get_params() == {"bandwidth": "cv", "weights": weights}
    assert model.weights is weights
    before = set(vars(model))
    assert model.fit(np.eye(3)) is model
    assert all(name.endswith("_") for name in set(vars(model)) - before)
    assert model.bandwidth == "cv"
    assert model.concentration_ == pytest.approx(model.bandwidth_**-2)
    assert model.set_params(bandwidth=0.2, weights=None).fit(np.eye(4)).n_features_in_ == 4
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.density(np.eye(4)), model.density(np.eye(4)))
    with pytest.raises(ValueError, match="Invalid parameter 'width'"):
        model.set_params(width=1)


@pytest.mark.parametrize("name", ["torch", "jax", "array_api_strict"])
def test_densities_come_in_the_library_of_the_points(name, rng):
    module = pytest.importorskip({"jax": "jax.numpy"}.get(name, name))
    x, points = sphere_sample(rng, 30, 3), sphere_sample(rng, 10, 3)
    model = SphericalKDE(0.2).fit(module.asarray(x))
    got = model.density(module.asarray(points))
    assert type(got) is type(module.asarray(points))
    expected = SphericalKDE(0.2).fit(x).density(points)
    assert_allclose(np.from_dlpack(got), expected, rtol=1e-12)
    single = module.asarray(points.astype(np.float32))
    assert model.log_density(single).dtype == single.dtype


def test_single_precision_points_have_the_density_of_double_ones(rng):
    """Their length is off by 1e-7, which a concentration of 1e6 must not show."""
    x = sphere_sample(rng, 500, 3)
    double = SphericalKDE(0.001).fit(x[:1]).log_density(x[:1])
    single = SphericalKDE(0.001).fit(x[:1].astype(np.float32)).log_density(x[:1].astype(np.float32))
    assert_allclose(single, double, rtol=1e-6)


X = np.eye(3)
FAULTS = {
    "zero": (
        lambda: SphericalKDE(0.0).fit(X),
        ValueError,
        r"bandwidth must be a positive number of radians, 'cv' or 'rule-of-thumb', got 0\.0",
    ),
    "negative": (
        lambda: SphericalKDE(-1).fit(X),
        ValueError,
        "bandwidth must be a positive number of radians, 'cv' or 'rule-of-thumb', got -1",
    ),
    "nan": (
        lambda: SphericalKDE(float("nan")).fit(X),
        ValueError,
        "bandwidth must be a positive number of radians, 'cv' or 'rule-of-thumb', got nan",
    ),
    "infinite": (
        lambda: SphericalKDE(float("inf")).fit(X),
        ValueError,
        "bandwidth must be a positive number of radians, 'cv' or 'rule-of-thumb', got inf",
    ),
    "word": (
        lambda: SphericalKDE("scott").fit(X),
        ValueError,
        "bandwidth must be a positive number of radians, 'cv' or 'rule-of-thumb', got 'scott'",
    ),
    "list": (
        lambda: SphericalKDE([0.1]).fit(X),
        ValueError,
        r"bandwidth must be a positive number of radians, 'cv' or 'rule-of-thumb', got \[0\.1\]",
    ),
    "one point": (
        lambda: SphericalKDE().fit(X[:1]),
        ValueError,
        r"bandwidth cannot be chosen, because all points are at one location. Give a number",
    ),
    "one place": (lambda: SphericalKDE("rule-of-thumb").fit(X[[1, 1]]), ValueError, "all points are at one location"),
    "not unit": (lambda: SphericalKDE(0.1).fit(2 * X), ValueError, "x: row 0 has length 2"),
    "weights": (
        lambda: SphericalKDE(0.1, [1, 2]).fit(X),
        ValueError,
        "weights must have one weight for each point of x",
    ),
    "negative weights": (
        lambda: SphericalKDE(0.1, [1, 2, -1]).fit(X),
        ValueError,
        "weights: weights cannot be negative, got -1",
    ),
    "not fitted": (lambda: SphericalKDE().density(X), ValueError, r"call fit\(x\) first"),
    "no sample": (lambda: SphericalKDE().sample(3), ValueError, r"call fit\(x\) first"),
    "dimension": (lambda: SphericalKDE(0.1).fit(X).density(np.eye(2)), ValueError, "dimension 2 and the fitted sample"),
    "count": (lambda: SphericalKDE(0.1).fit(X).sample(0), ValueError, "n: .*, got 0"),
}

test_bad_input = refusal_test(FAULTS)
