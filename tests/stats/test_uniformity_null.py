import math

import numpy as np
import pytest
import scipy.special
from numpy.testing import assert_allclose

from sphereot._backends.uniform_kernel import kernel_value
from sphereot.stats._uniformity_null import limit_distribution, null_distribution, null_tail_probability


def watson_tail(x: float) -> float:
    """The limit of Watson's U^2 (Watson, 1961)."""
    k = np.arange(1, 200)
    return float(2 * np.sum((-1.0) ** (k - 1) * np.exp(-2 * (math.pi * k) ** 2 * x)))


@pytest.mark.parametrize("x", [0.03, 0.0833, 0.12, 0.187, 0.268, 0.6])
def test_circle_has_the_limit_of_watson(x):
    """On the circle n SSW_2^2 is Watson's U^2, with infinitely many weights."""
    assert_allclose(limit_distribution(2).survival(x), watson_tail(x), rtol=1e-9)


def test_published_critical_values_of_watson():
    """Mardia and Jupp (2000), Appendix 2.7, asymptotic row."""
    values = [limit_distribution(2).quantile(level) for level in (0.1, 0.05, 0.025, 0.01)]
    assert_allclose(values, [0.152, 0.187, 0.222, 0.268], atol=6e-4)


@pytest.mark.parametrize("dim", [2, 3, 10, 128, 768, 100_000])
def test_limit_has_mean_and_variance_of_kernel(dim):
    """Mean K_d(0), and twice the mean square of K_d by quadrature over the angle."""
    step = min(0.02, 0.2 / math.sqrt(dim))
    u = np.arange(-3.2, 3.2, step)
    angles = math.pi / (1 + np.exp(-math.pi * np.sinh(u)))
    density = np.cosh(u) * angles * (math.pi - angles) * np.sin(angles) ** (dim - 2)
    square = density @ kernel_value(np.sin(angles / 2) ** 2, dim) ** 2 / density.sum()
    limit = limit_distribution(dim)
    assert_allclose(limit.mean, 1 / 12, rtol=1e-12)
    assert_allclose(limit.variance, 2 * square, rtol=1e-8)
    for n in (3, 50):
        assert_allclose(null_distribution(n, dim).mean, 1 / 12, rtol=1e-12)
        assert_allclose(null_distribution(n, dim).variance, 2 * square * (1 - 1 / n), rtol=1e-8)


def simulated(n: int, dim: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """n SSW_2^2 of uniform samples."""
    x = rng.normal(size=(count, n, dim))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    cosines = (x @ x.transpose(0, 2, 1))[:, *np.triu_indices(n, 1)]
    return 1 / 12 + 2 / n * kernel_value(0.5 - 0.5 * cosines, dim).sum(axis=1)


@pytest.mark.parametrize("dim", [2, 3, 10, 128])
@pytest.mark.parametrize("n", [10, 50])
def test_level(n, dim, rng):
    """Within 3 binomial standard errors over 4,000 uniform samples, at 5 and 1 %."""
    statistics = simulated(n, dim, 4000, rng)
    distribution = null_distribution(n, dim)
    for level in (0.05, 0.01):
        rejected = np.mean(statistics > distribution.quantile(level))
        assert abs(rejected - level) < 3 * math.sqrt(level * (1 - level) / len(statistics))


@pytest.mark.parametrize("dim", [2, 3, 10, 1000])
def test_two_points_are_exact(dim):
    """P is the probability of at most the angle: a regularized incomplete beta function."""
    angles = np.array([0.01, 0.4, math.pi / 2 - 0.02, math.pi / 2 + 0.1, 3.0])
    lower = scipy.special.betainc((dim - 1) / 2, 0.5, np.sin(angles) ** 2) / 2
    expected = np.where(angles < math.pi / 2, lower, 1 - lower)
    statistics = 1 / 12 + kernel_value(np.sin(angles / 2) ** 2, dim)
    got = [null_tail_probability(float(value), 2, dim) for value in statistics]
    assert_allclose(got, expected, rtol=1e-9, atol=1e-300)
