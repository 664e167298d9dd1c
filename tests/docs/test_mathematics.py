"""The values that docs/background/ssw.md lists."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sphereot
from sphereot import circle
from sphereot.sphere import geodesic_distance, normalize, random_uniform

CIRCLES = {dim: sphereot.great_circles(20_000, dim, method="quasi", seed=0) for dim in (3, 5)}


def at_angle(gamma, dim):
    """Two points at the angle gamma."""
    x, y = np.zeros((1, dim)), np.zeros((1, dim))
    x[0, 0] = 1
    y[0, :2] = math.cos(gamma), math.sin(gamma)
    return x, y


@pytest.mark.parametrize("dim", [3, 5])
@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.5])
def test_order_1_of_two_points_is_their_angle(dim, gamma):
    value = sphereot.ssw(*at_angle(gamma, dim), p=1, projections=CIRCLES[dim])
    assert_allclose(2 * math.pi * value, gamma, rtol=1e-2)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.5])
def test_order_2_of_two_points(gamma):
    """D_3 of docs/background/uniformity.md is the variance of the projected angle."""
    variance = math.log(math.sin(gamma / 2) ** 2) * math.log(math.cos(gamma / 2) ** 2)
    value = sphereot.ssw(*at_angle(gamma, 3), projections=CIRCLES[3])
    assert_allclose(4 * math.pi**2 * value, gamma**2 + variance, rtol=1e-2)


def test_opposite_points(rng):
    x = random_uniform(1, 5, seed=rng)
    for p in (1, 2, 7):
        assert_allclose(sphereot.ssw(x, -x, p=p, root=True, seed=0), 0.5)


def test_grows_with_the_order(rng):
    x, y = random_uniform(30, 4, seed=rng), random_uniform(20, 4, seed=rng)
    values = [sphereot.ssw(x, y, p=p, root=True, seed=0) for p in (1, 1.5, 2, 4, 8, 16)]
    assert values == sorted(values)
    assert values[-1] <= 0.5


@pytest.mark.parametrize("seed", range(5))
def test_order_1_is_at_most_the_wasserstein_distance(seed):
    """Over all great circles; 20,000 of them are off by less than 1 %."""
    assignment = pytest.importorskip("scipy.optimize").linear_sum_assignment
    rng = np.random.default_rng(seed)
    x, y = (normalize(rng.normal(size=(40, 3)) + shift) for shift in ([1, 0, 0], [0, 1, 0]))
    angles = geodesic_distance(x[:, None], y[None])
    wasserstein = angles[assignment(angles)].mean()
    assert 2 * math.pi * sphereot.ssw(x, y, p=1, projections=CIRCLES[3]) <= wasserstein * 1.01


@pytest.mark.parametrize("dim", [3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_order_1_is_at_most_the_wasserstein_distance_with_weights(dim, seed):
    """W_1 by a linear program over all couplings, with weights and unequal sizes."""
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(seed)
    x, y = normalize(rng.normal(size=(12, dim)) + 0.5), normalize(rng.normal(size=(9, dim)))
    a, b = rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(9))
    angles = geodesic_distance(x[:, None], y[None])
    rows, columns = np.kron(np.eye(12), np.ones(9)), np.kron(np.ones(12), np.eye(9))
    program = optimize.linprog(angles.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b]))
    ssw = sphereot.ssw(x, y, p=1, x_weights=a, y_weights=b, projections=CIRCLES[dim])
    assert 2 * math.pi * ssw <= program.fun * 1.01


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("weight", "error"), [(1e-4, 1e-12), (1e-8, 1e-8), (1e-12, 3e-4), (1e-15, 0.3), (1e-17, 1.0)])
def test_tiny_weights_have_few_digits(p, weight, error):
    """Masses are rounded by up to 2^-52 of the total; see docs/background/circle.md for the errors."""
    u = np.random.default_rng(0).uniform(size=(50, 2))
    gap = np.abs(u[:, 0] - u[:, 1])
    exact = weight / (1 + weight) * np.minimum(gap, 1 - gap) ** p
    values = circle.wasserstein(u, u[:, :1], p=p, u_weights=np.array([1.0, weight]))
    assert_allclose(values, exact, rtol=error, atol=0)
    assert np.all(np.abs(values - exact) <= 2**-52)
    assert np.all(values == 0) == (weight < 1e-16)
