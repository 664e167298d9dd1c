"""Bootstrap of the points: coverage of the interval, the noise floor, and bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sphereot
from sphereot.sphere import normalize, random_uniform


def sample(rng, n, shift):
    return normalize(rng.normal(size=(n, 3)) + shift * np.eye(3)[0])


@pytest.mark.parametrize("p", [1, 2])
def test_coverage(p):
    """90 % intervals hold the distance of the distributions in 90 % of samples: bounds are 4 standard errors of 100.

    It is a statement on large samples; `python -m benchmarks.bootstrap` measures smaller ones too.
    """
    rng = np.random.default_rng(0)
    frames = sphereot.great_circles(100, 3, method="quasi", seed=0)
    large = [sample(rng, 40_000, shift) for shift in (0.0, 1.0)]
    truth = float(sphereot.ssw(*large, p=p, projections=frames))
    held = 0
    for trial in range(100):
        x, y = sample(rng, 300, 0.0), sample(rng, 250, 1.0)
        low, high = sphereot.ssw_estimate(x, y, p=p, bootstrap=100, seed=trial).sampling_interval(0.9)
        held += low <= truth <= high
    assert 78 <= held <= 99


def test_noise_floor_is_the_mean_over_samples_of_one_distribution():
    rng = np.random.default_rng(1)
    values = [float(sphereot.ssw(sample(rng, 80, 0.5), sample(rng, 50, 0.5), seed=k)) for k in range(60)]
    floors = [
        sphereot.ssw_estimate(sample(rng, 80, 0.5), sample(rng, 50, 0.5), bootstrap=10, seed=k).noise_floor
        for k in range(20)
    ]
    error = np.hypot(np.std(values) / np.sqrt(60), np.std(floors) / np.sqrt(20))
    assert abs(np.mean(values) - np.mean(floors)) < 5 * error
    uniform = sphereot.ssw_estimate(random_uniform(50, 4, seed=0), bootstrap=10, seed=0).noise_floor
    assert_allclose(uniform, 1 / (12 * 50), rtol=0.25)  # K_d(0) / n


def test_value_is_not_changed():
    """The value and its error over great circles are those without a bootstrap; resamples follow from the seed."""
    rng = np.random.default_rng(2)
    x, y = sample(rng, 40, 0.0), sample(rng, 30, 1.0)
    weights = rng.uniform(0.5, 1.5, 40)
    plain = sphereot.ssw_estimate(x, y, x_weights=weights, seed=3)
    first, second = (sphereot.ssw_estimate(x, y, x_weights=weights, seed=3, bootstrap=20) for _ in range(2))
    assert (first.value, first.standard_error) == (plain.value, plain.standard_error)
    assert first.sampling_interval() == second.sampling_interval()
    assert first.sampling_interval()[0] < first.value
    assert "95% confidence interval (sampling of the points)" in str(first)
    assert "expected value if the distributions are equal" in str(first)


def test_messages():
    x = np.eye(3)
    plain = sphereot.ssw_estimate(x, x, seed=0)
    with pytest.raises(ValueError, match=r"needs resamples. Call ssw_estimate\(..., bootstrap=200\)"):
        plain.sampling_interval()
    with pytest.raises(ValueError, match="noise_floor needs resamples"):
        _ = plain.noise_floor
    with pytest.raises(ValueError, match="bootstrap"):
        sphereot.ssw_estimate(x, x, bootstrap=2)
    with pytest.raises(ValueError, match=r"level: .*, got 2"):
        sphereot.ssw_estimate(x, x, seed=0, bootstrap=10).sampling_interval(2)
