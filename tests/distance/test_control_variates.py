"""Control variates: their means, and that adjusting by them removes variance but no mean."""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose

import sphereot
from sphereot._backends.protocol import Measure
from sphereot.distance.control_variates import ControlVariates, apply_controls


def measures(rng, dim, weighted):
    x, y = sphere_sample(rng, 60, dim), sphere_sample(rng, 45, dim, shift=1)
    if not weighted:
        return [Measure(x, None), Measure(y, None)]
    return [Measure(x, rng.uniform(0, 1, 60)), Measure(y, rng.uniform(0, 1, 45))]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dim", [3, 6, 20])
def test_means_are_those_over_many_great_circles(rng, dim, weighted):
    """The means over 20,000 independent great circles agree within 4.5 standard errors; there are ten of them."""
    controls = ControlVariates.of(measures(rng, dim, weighted), rng)
    values = controls.values(sphereot.great_circles(20_000, dim, seed=1))
    assert values.shape == (20_000, 10)
    errors = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert (np.abs(values.mean(axis=0) - controls.means) <= 4.5 * errors).all()


def test_the_first_is_the_squared_difference_of_the_distribution_functions(rng):
    """Watson's two-sample distance: the variance over the circle of F - G, here on a fine grid."""
    x, y = sphere_sample(rng, 30, 5), sphere_sample(rng, 20, 5, shift=1)
    controls = ControlVariates.of([Measure(x, None), Measure(y, None)], rng)
    frames = sphereot.great_circles(6, 5, seed=0)
    grid = (np.arange(200_000) + 0.5) / 200_000
    for values, u, v in zip(
        controls.values(frames), sphereot.project(x, frames), sphereot.project(y, frames), strict=True
    ):
        levels = [np.searchsorted(np.sort(turns), grid) / len(turns) for turns in (u, v)]
        assert_allclose(values[0], np.var(levels[0] - levels[1]), rtol=1e-3)


def test_one_measure_has_the_cost_of_order_two(rng):
    x = sphere_sample(rng, 40, 6, shift=1)
    controls = ControlVariates.of([Measure(x, None)], rng)
    frames = sphereot.great_circles(5, 6, seed=0)
    values = controls.values(frames)
    assert values.shape == (5, 3)
    assert_allclose(values[:, 0], sphereot.ssw_estimate(x, projections=frames).slice_costs)
    assert_allclose(controls.means[0], sphereot.ssw_uniform(x, method="exact"))


def test_adjusting_removes_what_controls_explain_and_keeps_the_mean(rng):
    """Over 400 draws the mean stays within 4 standard errors of the truth, and the variance falls to the noise."""
    truth, sizes = 3.0, [10] * 10
    folds = np.repeat(np.arange(10), sizes)
    plain, better = [], []
    for _ in range(400):
        controls = rng.exponential(size=(100, 2))
        values = truth + 2 * (controls[:, 0] - 1) - (controls[:, 1] - 1) + 0.1 * rng.standard_normal(100)
        plain.append(values.mean())
        better.append(apply_controls(values, controls, np.ones(2), folds, (0, 1, 2)).mean())
    assert abs(np.mean(better) - truth) <= 4 * np.std(better) / 20
    assert np.var(better) < 0.01 * np.var(plain)


def test_few_great_circles_are_left_as_they_are(rng):
    values, controls = rng.standard_normal(8), rng.standard_normal((8, 3))
    assert_allclose(apply_controls(values, controls, np.zeros(3), np.arange(8), (0, 1, 3)), values)


def test_constant_controls_do_no_harm(rng):
    values = rng.standard_normal(100)
    folds = np.repeat(np.arange(10), 10)
    assert_allclose(apply_controls(values, np.ones((100, 2)), np.ones(2), folds, (0, 2)), values, atol=1e-12)
