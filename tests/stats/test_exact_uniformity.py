"""The test of uniformity without slices and simulations: statistic, p-values, level, power and errors."""

import math

import numpy as np
import pytest
import scipy.stats
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose

import sphereot
from sphereot.stats import _uniformity_statistics as statistic_module
from sphereot.stats import uniformity_test
from sphereot.stats._uniformity_null import null_distribution, null_tail_probability
from sphereot.stats._uniformity_statistics import (
    bingham,
    bingham_tail_probability,
    gine,
    gine_limit,
    gine_tail_probability,
    rayleigh,
    rayleigh_tail_probability,
)
from sphereot.stats.uniformity import _LEAST_ASYMPTOTIC_POINTS

SMALLEST = 5e-324


def p_values(result):
    return [result.p_value, *(test.p_value for test in result.classical)]


def cosines_of_uniform(rng, count, n, dim):
    x = rng.normal(size=(count, n, dim))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    return np.clip((x @ x.transpose(0, 2, 1))[:, *np.triu_indices(n, 1)], -1, 1)


# ---- the statistic ----


@pytest.mark.parametrize(("n", "dim"), [(10, 2), (40, 3), (60, 30)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_statistic_is_the_mean_over_all_great_circles(n, dim, dtype, rng):
    x = sphere_sample(rng, n, dim, shift=0.3).astype(dtype)
    result = uniformity_test(x)
    assert result.statistic == pytest.approx(float(sphereot.ssw_uniform(x.astype(float), method="exact")), abs=3e-9)
    assert (result.method, result.null_method, result.standard_error) == ("exact", "asymptotic", 0.0)
    assert (result.simulations, result.null.shape) == (0, (0,))


def test_many_points_are_sliced(rng, monkeypatch):
    """Above the limit: within 4 standard errors of the sum over pairs (7 degrees of freedom: 0.5 %)."""
    for dim in (3, 10):
        x = sphere_sample(rng, 3000, dim, shift=0.02)
        exact = uniformity_test(x, seed=0)
        monkeypatch.setattr(statistic_module, "MAX_POINTS_IN_PAIRS", 2000)
        sliced = uniformity_test(x, seed=0)
        monkeypatch.undo()
        assert sliced.standard_error > 0
        assert abs(sliced.statistic - exact.statistic) < 4 * sliced.standard_error
        assert sliced.standard_error < 0.08 * sliced.null_deviation
        assert sliced.p_value == pytest.approx(exact.p_value, rel=0.2)
        assert sliced.n_projections == 1024
        assert sliced.statistic == pytest.approx(np.mean(sliced.slice_costs))
        assert "standard error of SSW_2^2" in str(sliced)
        assert "standard error of SSW_2^2" not in str(exact)


def test_many_points_in_many_dimensions(rng, monkeypatch):
    """Harmonics and blocks: within 4 standard errors (15 degrees of freedom) of all pairs, for points in an order too.

    The standard error is small against the null's deviation, where that of great circles is not.
    """
    x = np.concatenate([sphere_sample(rng, 1500, 64), sphere_sample(rng, 1500, 64, shift=0.5)])
    exact = uniformity_test(x)
    monkeypatch.setattr(statistic_module, "MAX_POINTS_IN_PAIRS", 2000)
    estimated = uniformity_test(x, seed=0)
    assert 0 < estimated.standard_error < 0.1 * estimated.null_deviation
    assert abs(estimated.statistic - exact.statistic) < 4 * estimated.standard_error
    assert estimated.n_projections == 0
    assert "all great circles" in str(estimated)
    errors = []
    for _ in range(20):
        x = sphere_sample(rng, 2048, 64)
        estimated = uniformity_test(x, seed=rng)
        difference = estimated.statistic - float(sphereot.ssw_uniform(x, method="exact"))
        errors.append(difference / estimated.standard_error)
    # Student's distribution with 15 degrees of freedom, of variance 15/13: twenty have a mean square of 1.15 +- 0.4.
    assert 0.3 < np.mean(np.square(errors)) < 2.8


def test_hundreds_of_thousands_of_points(rng):
    """A departure of degree 1 that a sum over pairs would need minutes for; its standard error is small on S^2."""
    x = rng.standard_normal((200_000, 3), dtype=np.float32)
    x[:, 0] += 0.015
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    result = uniformity_test(x, seed=0)
    assert result.standard_error < 0.01 * result.null_deviation
    assert result.p_value < 1e-4
    assert [test.name for test in result.classical] == ["Rayleigh", "Bingham"]


def test_on_a_circle_one_slice_is_exact(rng):
    turns = rng.random(30_000)
    x = np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], axis=1)
    result = uniformity_test(x)
    assert result.standard_error == 0
    assert_allclose(result.statistic, sphereot.circle.wasserstein_uniform(turns), rtol=1e-6)


# ---- p-values ----


def test_effect_and_ratio_come_from_exact_moments(rng):
    """Mean 1/12 and variance 2 (1 - 1/n) E K^2 of n SSW_2^2, with E K^2 by simulation: within 4 standard errors."""
    n, dim = 40, 4
    result = uniformity_test(sphere_sample(rng, n, dim))
    squares = sphereot.uniform_kernel(cosines_of_uniform(rng, 200_000, 2, dim)[:, 0], dim) ** 2
    deviation = math.sqrt(2 * (1 - 1 / n) * squares.mean()) / n
    error = 0.5 * deviation * squares.std() / squares.mean() / math.sqrt(len(squares))
    assert abs(result.null_deviation - deviation) < 4 * error
    assert_allclose(result.null_mean, 1 / 12 / n)
    assert_allclose(result.effect, (result.statistic - result.null_mean) / result.null_deviation)
    assert_allclose(result.ratio, 12 * n * result.statistic)


@pytest.mark.parametrize("dim", [2, 3, 20])
def test_simulated_and_asymptotic_p_values_agree(dim, rng):
    """Over samples from uniform to concentrated: within 4 binomial standard errors of 2,000 simulations."""
    for shift in (0, 0.1, 0.2, 0.3):
        x = sphere_sample(rng, 60, dim, shift=shift)
        known, simulated = (p_values(uniformity_test(x, null=null, seed=0)) for null in ("asymptotic", None))
        assert known == simulated
        simulated = p_values(uniformity_test(x, simulations=2000, seed=0))
        for ours, theirs in zip(known, simulated, strict=True):
            # 1 % for the error of the approximations, which is of order 1 / n
            assert abs(ours - theirs) < 4 * math.sqrt(max(ours * (1 - ours), 1e-3) / 2000) + 0.01


@pytest.mark.parametrize("dim", [2, 3, 10, 128])
def test_levels(dim):
    """Over 4,000 samples of the fewest points without simulation, at 5 and 1 %, all within 3 standard errors."""
    rng = np.random.default_rng(dim)
    n = _LEAST_ASYMPTOTIC_POINTS
    cosines = cosines_of_uniform(rng, 4000, n, dim)
    sines = np.sqrt(1 - cosines**2)
    mean_sine = math.exp(2 * math.lgamma(dim / 2) - math.lgamma((dim + 1) / 2) - math.lgamma((dim - 1) / 2))
    values = {
        null_tail_probability: 1 / 12 + 2 / n * sphereot.uniform_kernel(cosines, dim).sum(axis=1),
        rayleigh_tail_probability: dim + 2 * dim / n * cosines.sum(axis=1),
        bingham_tail_probability: dim * (dim + 2) / 2 * (1 + 2 / n * (cosines**2).sum(axis=1) - n / dim),
        gine_tail_probability: 1.5
        + 2 / n * (2 / np.pi * np.arcsin(cosines) + 0.5 - sines / (2 * mean_sine)).sum(axis=1),
    }
    for tail, statistics in values.items():
        for level in (0.05, 0.01):
            # Tail probabilities fall: the share below the level is that above the critical value.
            low, high = 0.0, float(statistics.max()) + 1
            for _ in range(30):
                middle = (low + high) / 2
                low, high = (middle, high) if tail(middle, n, dim) > level else (low, middle)
            rejected = np.mean(statistics > high)
            assert abs(rejected - level) < 3 * math.sqrt(level * (1 - level) / 4000), (tail, level)


def test_the_variance_of_slices_is_part_of_the_null(monkeypatch):
    """In dimension 64, 8 x 4 circles have a standard error near the null's deviation; the level of 5 % still holds.

    400 samples: 3 binomial standard errors, and 1 % for a standard error that is known from 8 groups only.
    """
    monkeypatch.setattr(statistic_module, "MAX_POINTS_IN_PAIRS", 10)
    monkeypatch.setattr(statistic_module, "_ERROR_OF_CIRCLES", 0.0)  # in place of blocks
    monkeypatch.setattr(statistic_module, "CIRCLES_PER_GROUP", 4)
    rng = np.random.default_rng(3)
    results = [uniformity_test(sphere_sample(rng, 40, 64), seed=rng) for _ in range(400)]
    assert np.mean([result.standard_error / result.null_deviation for result in results]) > 0.5
    rejected = np.mean([result.p_value <= 0.05 for result in results])
    assert abs(rejected - 0.05) < 3 * math.sqrt(0.05 * 0.95 / 400) + 0.01


def test_small_probabilities(rng):
    """Rayleigh and SSW agree in the far tail; what is less than any float is not 0, and p-values never rise."""
    x = sphere_sample(rng, 200, 3, shift=0.5)
    result = uniformity_test(x)
    assert 1e-10 < result.p_value < 1e-6
    assert result.p_value == pytest.approx(result.classical[0].p_value, rel=3)
    for n, dim in ((10, 2), (1000, 3), (10_000, 128), (10**6, 100_000)):
        for tail, mean, largest in (
            (null_tail_probability, 1 / 12, n / 12),
            (rayleigh_tail_probability, dim, n * dim),
            (bingham_tail_probability, (dim - 1) * (dim + 2) / 2, n * (dim - 1) * (dim + 2) / 2),
            (gine_tail_probability, 1.5, 1.5 * n),
        ):
            values = [tail(float(x), n, dim) for x in np.geomspace(mean / 100, largest, 25)]
            assert np.all(np.diff(values) <= 0), (tail, n, dim)
            assert min(values) >= SMALLEST
            assert values[0] <= 1
            assert values[-1] < 1e-3
    assert uniformity_test(np.repeat(np.eye(3)[:1], 1000, axis=0)).p_value < 1e-100


@pytest.mark.parametrize("n", [12, 20])
def test_moderately_small_levels(n):
    """At 0.1 %, over 40,000 samples on S^2: at most 3 standard errors above, and not less than 0.3 times."""
    rng = np.random.default_rng(n)
    distribution = null_distribution(n, 3)
    critical = distribution.quantile(1e-3)
    count, rejected = 40_000, 0
    for _ in range(40):
        cosines = cosines_of_uniform(rng, count // 40, n, 3)
        rejected += np.sum(1 / 12 + 2 / n * sphereot.uniform_kernel(cosines, 3).sum(axis=1) > critical)
    assert 0.3e-3 < rejected / count < 1e-3 + 3 * math.sqrt(1e-3 / count)


def test_critical_values_of_watson():
    """The asymptotic row of Mardia and Jupp (2000), Appendix 2.7, by the public function: p-values at these values."""
    rng = np.random.default_rng(0)
    x = sphere_sample(rng, 1000, 2)
    for u2, level in ((0.152, 0.1), (0.187, 0.05), (0.222, 0.025), (0.268, 0.01)):
        assert null_tail_probability(u2, len(x), 2) == pytest.approx(level, rel=0.02)


# ---- few points ----


@pytest.mark.parametrize("n", [3, 5, 9])
def test_few_points_are_simulated(n, rng):
    result = uniformity_test(sphere_sample(rng, n, 3), seed=0)
    assert (result.method, result.null_method, result.simulations) == ("exact", "simulated", 999)
    assert_allclose(result.null.mean(), 1 / 12 / n, rtol=0.1)


def test_two_points(rng):
    """SSW and Rayleigh see the angle alone: the probability of at most this angle is (1 - cos) / 2 on S^2."""
    x = sphere_sample(rng, 2, 3)
    result = uniformity_test(x, seed=0)
    assert result.null_method == "exact"
    assert result.p_value == pytest.approx((1 - x[0] @ x[1]) / 2, rel=1e-9)
    assert result.classical[0].p_value == pytest.approx(result.p_value, abs=4 * math.sqrt(0.25 / 999))


def test_one_point():
    for null in (None, "asymptotic"):
        result = uniformity_test(np.eye(4)[:1], null=null, seed=0)
        assert p_values(result) == [1, 1, 1, 1]
        assert (result.effect, result.ratio) == (0, pytest.approx(1, rel=1e-12))


# ---- the limit of Giné's statistic ----


@pytest.mark.parametrize("dim", [2, 3, 10, 128])
def test_gine_coefficients(dim):
    """Weights of degrees 1 to 4 by quadrature of the kernel over the angle."""
    step = min(0.02, 0.2 / math.sqrt(dim))
    u = np.arange(-3.2, 3.2, step)
    angles = math.pi / (1 + np.exp(-math.pi * np.sinh(u)))
    density = np.cosh(u) * angles * (math.pi - angles) * np.sin(angles) ** (dim - 2)
    density /= density.sum()
    sines = np.sin(angles)
    kernel = 1 - 2 * angles / math.pi + 0.5 - sines / (2 * (density @ sines))
    weights = gine_limit(dim).weights
    for degree in range(1, min(4, len(weights)) + (dim < 100)):
        # Legendre polynomials of the sphere, 1 at angle 0
        if dim == 2:
            polynomial = np.cos(degree * angles)
        else:
            polynomial = scipy.special.eval_gegenbauer(degree, dim / 2 - 1, np.cos(angles))
            polynomial /= scipy.special.eval_gegenbauer(degree, dim / 2 - 1, 1.0)
        assert_allclose(weights[degree - 1], density @ (kernel * polynomial), rtol=1e-7, atol=1e-13)
        if degree == len(weights) - 1:
            break
    assert_allclose(gine_limit(dim).variance, 2 * density @ kernel**2, rtol=1e-7)


def test_classical_tails_are_those_of_many_points(rng):
    """For many points: chi-square, and over 300 samples of 500 points a uniform distribution of Giné's p-values."""
    assert rayleigh_tail_probability(7.0, 10**9, 3) == pytest.approx(scipy.stats.chi2.sf(7.0, 3), rel=1e-6)
    assert bingham_tail_probability(9.0, 10**9, 3) == pytest.approx(scipy.stats.chi2.sf(9.0, 5), rel=1e-6)
    samples = [sphere_sample(rng, 200, 5) for _ in range(300)]
    for tail, statistic in (
        (rayleigh_tail_probability, rayleigh),
        (bingham_tail_probability, bingham),
        (gine_tail_probability, gine),
    ):
        assert scipy.stats.kstest([tail(statistic(x), 200, 5) for x in samples], "uniform").pvalue > 1e-4


# ---- options ----

X = sphere_sample(np.random.default_rng(0), 20, 3)


def test_nothing_is_random():
    assert p_values(uniformity_test(X)) == p_values(uniformity_test(X, seed=7))


def test_options_imply_the_rest():
    assert uniformity_test(X, p=1, simulations=9).method == "quasi"
    assert uniformity_test(X, n_projections=5, simulations=9).method == "quasi"
    assert uniformity_test(X, n_projections=5, simulations=9).null_method == "simulated"
    exact = uniformity_test(X, simulations=9, seed=0)
    assert (exact.method, exact.null_method, exact.simulations) == ("exact", "simulated", 9)
    assert uniformity_test(X, null="simulated", seed=0).simulations == 999
    assert uniformity_test(X, null_points=10, simulations=9, seed=0).simulations == 9
    drawn = uniformity_test(X, method="iid", n_projections=6, simulations=9, seed=0)
    assert (drawn.method, drawn.n_projections) == ("iid", 6)
    generator = np.random.default_rng(0)
    assert uniformity_test(X, null="simulated", simulations=9, seed=generator).method == "exact"


def test_reports():
    assert "20 points in dimension 3, all great circles, asymptotic null distribution" in str(uniformity_test(X))
    assert "all great circles, 9 simulated samples" in str(uniformity_test(X, simulations=9, seed=0))
    assert "exact null distribution" in str(uniformity_test(X[:2], seed=0))


FAULTS = {
    "method": ({"method": "grid"}, "method must be one of .*, got 'grid'"),
    "null": ({"null": "normal"}, "null must be 'asymptotic' or 'simulated', got 'normal'"),
    "order": ({"method": "exact", "p": 1}, "p: got 1, but method='exact' is for p = 2"),
    "circles": ({"method": "exact", "n_projections": 9}, "n_projections: got a value, but method='exact' draws no"),
    "sliced": ({"null": "asymptotic", "n_projections": 9}, "null='asymptotic' is known only for"),
    "simulations": ({"null": "asymptotic", "simulations": 9}, "simulations is not supported with null='asymptotic'"),
    "no simulations": ({"simulations": 0}, "simulations: .*, got 0"),
    "seed": ({"seed": -1}, "seed: .*, got -1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input(fault):
    options, message = FAULTS[fault]
    with pytest.raises(ValueError, match=message):
        uniformity_test(X, **options)


def test_too_many_points_to_simulate():
    x = sphereot.sphere.random_uniform(20_001, 3, seed=0).astype(np.float32)
    with pytest.raises(
        ValueError, match="method='exact' with simulated samples supports at most 20000 points, got 20001"
    ):
        uniformity_test(x, method="exact", simulations=9)
    assert uniformity_test(x, simulations=1, n_projections=2, seed=0).method == "quasi"
