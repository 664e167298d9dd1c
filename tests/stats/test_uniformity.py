"""The test of uniformity: its statistics against textbook formulas and known distributions, and its level."""

import math

import numpy as np
import pytest
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, chisquare, ks_2samp, kstest

import sphereot
from sphereot.stats import clear_null_cache, uniformity_test
from sphereot.stats._testing import independent_generator
from sphereot.stats._uniformity_statistics import bingham, gine, rayleigh
from sphereot.stats.uniformity import _cached_null


def watson_u2(turns):
    """Watson's U^2 as textbooks give it, for turns in [0, 1)."""
    n = len(turns)
    z = np.sort(turns)
    spread = np.sum((z - (2 * np.arange(1, n + 1) - 1) / (2 * n)) ** 2)
    return spread + 1 / (12 * n) - n * (np.mean(z) - 0.5) ** 2


def axial_sample(rng, n, dim, spread):
    """Symmetric under x -> -x, longer along the first axis."""
    x = rng.normal(size=(n, dim))
    x[:, 0] *= spread
    return sphereot.sphere.normalize(x)


def classical(result):
    return {test.name: test for test in result.classical}


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(("n", "dim"), [(60, 3), (50, 64), (1, 2)])
def test_statistic_is_ssw_to_uniform(n, dim, p, rng):
    x = sphere_sample(rng, n, dim)
    result = uniformity_test(x, p=p, simulations=5, n_projections=20, seed=4)
    assert result.slice_costs.mean() == pytest.approx(result.statistic)
    expected = sphereot.ssw_uniform(x, p=p, projections=result.projections)
    assert result.statistic == pytest.approx(float(expected), rel=1e-12)


def test_on_the_circle_it_is_watsons_test(rng):
    turns = rng.random(40) ** 1.5
    x = np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], axis=1)
    result = uniformity_test(x, simulations=5, n_projections=3, seed=0)
    assert 40 * result.statistic == pytest.approx(watson_u2(turns), rel=1e-9)


@pytest.mark.parametrize(("n", "dim"), [(3, 2), (10, 3), (200, 3), (30, 64)])
def test_mean_of_the_null_sample_is_known(n, dim):
    """n SSW_2^2 of uniform points is the mean of Watson's U^2, whose expectation is 1/12 for every n."""
    null = n * uniformity_test(sphereot.sphere.random_uniform(n, dim, seed=0), simulations=500, seed=1).null
    assert abs(null.mean() - 1 / 12) < 5 * null.std() / math.sqrt(500)


def test_rayleigh_and_bingham_follow_chi_square():
    rng = np.random.default_rng(0)
    for dim in (2, 3, 6):
        samples = [sphere_sample(rng, 400, dim) for _ in range(400)]
        assert kstest([rayleigh(x) for x in samples], chi2(dim).cdf).pvalue > 1e-4
        assert kstest([bingham(x) for x in samples], chi2((dim - 1) * (dim + 2) / 2).cdf).pvalue > 1e-4


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_gine_against_a_loop_over_pairs(dim, rng, monkeypatch):
    """All pairs by hand, whatever the size of a block; and E(F_n) = 4/4 + 1/2 for every n and d."""
    x = sphere_sample(rng, 25, dim, shift=1)
    angles = [math.acos(np.clip(x[i] @ x[j], -1, 1)) for i in range(25) for j in range(i)]
    ratio = math.gamma((dim - 1) / 2) / math.gamma(dim / 2)
    ajne = 25 / 4 - sum(angles) / (math.pi * 25)
    even = 25 / 2 - (dim - 1) / 50 * ratio**2 * sum(math.sin(angle) for angle in angles)
    assert gine(x) == pytest.approx(4 * ajne + even, rel=1e-9)
    monkeypatch.setattr("sphereot.stats._uniformity_statistics._PAIRS_PER_BLOCK", 60)
    assert gine(x) == pytest.approx(4 * ajne + even, rel=1e-9)
    values = np.array([gine(sphere_sample(rng, 12, dim)) for _ in range(600)])
    assert abs(values.mean() - 1.5) < 5 * values.std() / math.sqrt(600)


@pytest.mark.parametrize(("n", "dim"), [(20, 3), (15, 64)])
def test_level_is_exact(n, dim):
    """Over 400 uniform samples, p-values with 19 simulations fall evenly on 1/20, ..., 20/20, for all tests."""
    rng = np.random.default_rng(dim)
    ranks = {"SSW_2": [], "even part": [], "Rayleigh": [], "Bingham": [], "Giné": []}
    for _ in range(400):
        result = uniformity_test(sphere_sample(rng, n, dim), simulations=19, n_projections=10, seed=rng)
        for test in (*result.components, *result.classical):
            ranks[test.name].append(round(20 * test.p_value))
    for found in ranks.values():
        assert chisquare(np.bincount(found, minlength=21)[1:]).pvalue > 1e-4


def test_unimodal_sample(rng):
    result = uniformity_test(sphere_sample(rng, 150, 3, shift=0.6), statistic="ssw", simulations=199, seed=0)
    assert result.p_value == 1 / 200
    assert classical(result)["Rayleigh"].p_value == 1 / 200
    assert result.effect > 5
    assert result.ratio > 2


def test_axial_sample(rng):
    """Symmetric under x -> -x: Bingham sees it, and SSW too if it is strong; Rayleigh cannot."""
    x = axial_sample(rng, 150, 3, 2.5)
    x = np.concatenate([x, -x])  # the mean is exactly zero
    result = uniformity_test(x, simulations=199, seed=0)
    assert classical(result)["Bingham"].p_value == 1 / 200
    assert classical(result)["Rayleigh"].p_value == 1
    assert result.p_value < 0.05


def test_what_was_simulated_is_kept():
    clear_null_cache()
    one, other = sphereot.sphere.random_uniform(30, 3, seed=0), sphereot.sphere.random_uniform(30, 3, seed=1)
    settings = {"simulations": 9, "n_projections": 7}
    first = uniformity_test(one, **settings)
    second = uniformity_test(other, **settings)
    assert_array_equal(first.null, second.null)
    assert_array_equal(first.projections, second.projections)
    assert _cached_null.cache_info().misses == 1
    assert np.any(uniformity_test(one, seed=5, **settings).null != first.null)
    assert np.any(uniformity_test(one[:20], **settings).null != first.null)
    kept = _cached_null.cache_info().currsize
    generator = np.random.default_rng(0)
    drawn = [uniformity_test(one, seed=generator, **settings).null for _ in range(2)]
    assert np.any(drawn[0] != drawn[1])
    assert _cached_null.cache_info().currsize == kept
    clear_null_cache()
    assert np.any(uniformity_test(one, **settings).null != first.null)


def test_seeds_repeat_whether_or_not_anything_is_kept():
    x = sphereot.sphere.random_uniform(30, 3, seed=0)
    before = uniformity_test(x, simulations=9, seed=3).null
    clear_null_cache()
    assert_array_equal(uniformity_test(x, simulations=9, seed=3).null, before)
    assert_array_equal(uniformity_test(x, simulations=9, seed=independent_generator(3, x)).null, before)


@pytest.mark.parametrize("p", [1, 2])
def test_fewer_null_points_give_the_same_distribution(p):
    """n^(p/2) SSW_p^p of 400 points, simulated with 100: 400 draws of each show no difference."""
    x = sphereot.sphere.random_uniform(400, 3, seed=0)
    frames = sphereot.great_circles(20, 3, seed=0)
    exact = uniformity_test(x, p=p, simulations=400, projections=frames, seed=1).null
    scaled = uniformity_test(x, p=p, simulations=400, projections=frames, seed=2, null_points=100).null
    assert ks_2samp(exact, scaled).pvalue > 1e-4
    assert scaled.mean() == pytest.approx(exact.mean(), rel=0.15)


def test_many_points_are_compared_with_fewer(monkeypatch):
    """Above 10,000 points pairs are not looked at, and above 2,000 the null sample is simulated with 2,000."""
    monkeypatch.setattr("sphereot.stats.uniformity._MAX_NULL_POINTS", 50)
    monkeypatch.setattr("sphereot.stats.uniformity._MAX_POINTS_IN_PAIRS", 100)
    x = sphereot.sphere.random_uniform(101, 3, seed=0)
    result = uniformity_test(x, simulations=200, n_projections=20, seed=1)
    assert list(classical(result)) == ["Rayleigh", "Bingham"]
    assert abs(101 * result.null.mean() - 1 / 12) < 5 * 101 * result.null.std() / math.sqrt(200)


@pytest.mark.parametrize("library", ["torch", "jax", "array_api_strict"])
def test_libraries(library, rng):
    module = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))
    x = sphere_sample(rng, 30, 3)
    expected = uniformity_test(x, simulations=9, n_projections=5, seed=0)
    found = uniformity_test(module.asarray(x), simulations=9, n_projections=5, seed=0)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert_allclose(found.null, expected.null, rtol=1e-9)
    if library == "torch":
        own = [
            uniformity_test(module.asarray(x), simulations=9, n_projections=5, seed=module.Generator().manual_seed(5))
            for _ in range(2)
        ]
        assert_array_equal(own[0].null, own[1].null)


def test_report(rng):
    result = uniformity_test(sphere_sample(rng, 40, 3), simulations=19, n_projections=5, seed=0)
    text = str(result)
    assert "40 points in dimension 3, 5 great circles, 19 simulated samples" in text
    for name in ("SSW_2^2", "Rayleigh", "Bingham", "Giné"):
        assert name in text
    assert (result.n, result.dim, result.n_projections, result.simulations) == (40, 3, 5, 19)


X = sphere_sample(np.random.default_rng(0), 9, 3)
FAULTS = {
    "no simulations": (
        {"simulations": 0},
        r"simulations: the number of simulated samples must be an integer of at least 1, got 0",
    ),
    "order": ({"p": 0.5}, r"p: .*, got 0.5"),
    "projections": ({"n_projections": 0}, r"n_projections: .*, got 0"),
    "too many null points": ({"null_points": 10}, r"null_points must be at most the number of points \(9\), got 10"),
    "no null points": ({"null_points": 0}, r"null_points: .*, got 0"),
    "seed": ({"seed": -1}, r"seed: .*, got -1"),
    "points": ({"x": 2 * X}, r"x: row 0 has length 2"),
    "frames": ({"projections": np.ones((2, 3, 2))}, r"projections: the frames are not orthonormal"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input(fault):
    arguments, message = FAULTS[fault]
    with pytest.raises(ValueError, match=message):
        uniformity_test(**{"x": X, **arguments})


def test_seed_of_a_wrong_kind():
    with pytest.raises(TypeError, match=r"seed: .*, got str"):
        uniformity_test(X, seed="7")


def test_progress_is_told_once_and_changes_nothing():
    """Simulated samples are the steps; there are none where the samples are kept from before."""
    x = sphereot.sphere.random_uniform(30, 3, seed=0)
    settings = {"simulations": 9, "n_projections": 7, "seed": 3}
    clear_null_cache()
    quiet = uniformity_test(x, **settings)
    clear_null_cache()
    steps = []
    for _ in range(2):
        told = uniformity_test(x, progress=lambda done, total: steps.append((done, total)), **settings)
        assert_array_equal(told.null, quiet.null)
    assert steps == [(k, 9) for k in range(1, 10)]


def test_what_was_broken_off_is_not_kept():
    """Ctrl-C in the midst of the simulation: the next call simulates all of it."""
    x = sphereot.sphere.random_uniform(30, 3, seed=0)
    settings = {"simulations": 9, "n_projections": 7, "seed": 3}
    clear_null_cache()

    def interrupt(done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        uniformity_test(x, progress=interrupt, **settings)
    found = uniformity_test(x, **settings)
    clear_null_cache()
    assert_array_equal(found.null, uniformity_test(x, **settings).null)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [2, 3, 100])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_one_point_says_nothing(dim, p, dtype):
    """Every single point is as far from uniform as any other: all statistics are ties, and all p-values 1."""
    for seed in range(3):
        x = sphereot.sphere.random_uniform(1, dim, seed=seed).astype(dtype)
        x *= dtype(1 + 5e-5 if dtype is np.float32 else 1)  # rows of float32 may be off by so much
        result = uniformity_test(x, p=p, simulations=49, n_projections=10, seed=seed)
        assert [result.p_value, *(test.p_value for test in result.classical)] == [1, 1, 1, 1]
        assert result.effect == 0
