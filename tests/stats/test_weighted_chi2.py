import math

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from sphereot.stats._uniformity_null import WeightedChiSquares

PROBABILITIES = [1e-20, 1e-8, 0.001, 0.01, 0.05, 0.3, 0.5, 0.7, 0.95, 0.999]


def chi_squares(weights, degrees_of_freedom, **options):
    return WeightedChiSquares(np.array(weights, dtype=float), np.array(degrees_of_freedom, dtype=float), **options)


@pytest.mark.parametrize("degrees", [1, 2, 3.5, 10, 128, 1e4, 1e8])
def test_one_weight_is_chi_square(degrees):
    """Relative precision in the upper tail, however far."""
    x = scipy.stats.chi2.isf(PROBABILITIES, degrees)
    got = [chi_squares([3.0], [degrees]).survival(3.0 * value) for value in x]
    expected = scipy.stats.chi2.sf(x, degrees)
    assert_allclose(got, expected, rtol=1e-7 if degrees > 1e6 else 1e-10, atol=1e-9 if degrees > 1e6 else 0)


def test_two_equal_pairs_have_a_closed_form():
    """With two degrees of freedom each, distinct weights give a mixture of exponentials."""
    weights = np.array([1.0, 0.5, 0.2])
    x = np.array([0.01, 0.5, 2.0, 8.0, 40.0])
    factors = [np.prod([w / (w - other) for other in weights if other != w]) for w in weights]
    expected = sum(factor * np.exp(-x / (2 * w)) for factor, w in zip(factors, weights, strict=True))
    got = [chi_squares(weights, [2, 2, 2]).survival(value) for value in x]
    assert_allclose(got, expected, rtol=1e-11)


def test_many_tiny_weights_are_precise():
    """1e12 degrees of freedom multiply every rounding error of the logarithm."""
    mixed = chi_squares([1.0, 1e-12], [4.0, 1e12])
    assert_allclose(mixed.survival(1.0 + 9.0), scipy.stats.chi2.sf(9.0, 4), rtol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_equals_sum_of_characteristic_function(seed):
    """Davies' sum, at the center and in both tails, for weights and degrees of freedom of all sizes."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 8))
    weights = 10 ** rng.uniform(-4, 0, count)
    degrees = np.ceil(10 ** rng.uniform(0, 3, count)) + 12  # so many that the sum has an end
    distribution = chi_squares(weights, degrees)
    deviation = math.sqrt(distribution.variance)
    t = (np.arange(200_000) + 0.5) * (2 * math.pi / (distribution.mean + 40 * deviation))
    t = t[: int(np.searchsorted(t, 1e4 / deviation))]
    log_function = sum(-0.5 * m * np.log1p(-2j * w * t) for w, m in zip(weights, degrees, strict=True))
    for x in distribution.mean + deviation * np.array([-3.0, -2.0, -1.0, -0.1, 0.0, 0.5, 2.0, 4.0]):
        if x > 0:
            expected = 0.5 + float(np.sum(np.exp(log_function - 1j * t * x).imag / (np.arange(len(t)) + 0.5))) / math.pi
            assert_allclose(distribution.survival(x), expected, rtol=0, atol=1e-9)


def test_equals_simulation(rng):
    weights, degrees = [1.0, 0.7, 0.1, 0.05], [1.0, 3.0, 10.0, 25.0]
    sample = sum(w * rng.chisquare(m, 200_000) for w, m in zip(weights, degrees, strict=True))
    distribution = chi_squares(weights, degrees)
    for x in np.quantile(sample, [0.02, 0.3, 0.5, 0.9, 0.99]):
        share = np.mean(sample > x)
        assert abs(distribution.survival(x) - share) < 4 * math.sqrt(share * (1 - share) / len(sample))


def test_remainder_has_mean_and_variance():
    """What a remainder leaves out, a third cumulant that is wrong by 4e-7, changes probabilities by less than 1e-6."""
    whole = chi_squares([1.0, 0.0005, 0.001], [3.0, 1000.0, 400.0])
    distribution = WeightedChiSquares.with_remainder(
        np.array([1.0]), np.array([3.0]), mean=0.9, variance=2 * (1000 * 0.0005**2 + 400 * 0.001**2)
    )
    assert_allclose([distribution.mean, distribution.variance], [whole.mean, whole.variance])
    for x in (1.0, 4.0, 12.0):
        assert_allclose(distribution.survival(x), whole.survival(x), rtol=0, atol=1e-6)
    constant = WeightedChiSquares.with_remainder(np.array([1.0]), np.array([3.0]), mean=0.9, variance=0.0)
    assert_allclose(constant.survival(0.9 + 4.0), scipy.stats.chi2.sf(4.0, 3), rtol=1e-10)
    assert constant.survival(0.5) == 1.0


def test_scaled_about_mean():
    distribution = chi_squares([1.0, 0.5], [2.0, 3.0])
    scaled = distribution.scaled_about_mean(0.5)
    assert_allclose([scaled.mean, scaled.variance], [distribution.mean, distribution.variance / 4])
    assert_allclose(scaled.survival(distribution.mean + 1.0), distribution.survival(distribution.mean + 2.0), rtol=1e-9)


@pytest.mark.parametrize("probability", [1e-6, 0.01, 0.5, 0.99])
def test_quantile_inverts_survival(probability):
    distribution = chi_squares([1.0, 0.5], [2.0, 3.0])
    assert_allclose(distribution.survival(distribution.quantile(probability)), probability, rtol=1e-6)


def test_does_not_increase():
    distribution = chi_squares([1.0, 0.5, 0.1], [1.0, 2.0, 30.0])
    values = [distribution.survival(x) for x in np.linspace(0.0, 4 * distribution.mean, 200)]
    assert values[0] == 1.0
    assert np.all(np.diff(values) <= 1e-12)
