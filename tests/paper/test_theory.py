"""Statements of the paper, each checked against something that does not use the code it is about."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import optimize, special

import paper
import sphereot
from sphereot import circle
from sphereot.radon import integration_set, radon_transform
from sphereot.sphere import geodesic_distance, normalize, random_uniform
from sphereot.stats._kernel_spectrum import gegenbauer_eigenvalues

TURNS = (np.arange(400) + 0.5) / 400


@pytest.mark.parametrize("dim", [3, 10, 60])
def test_projection_is_the_nearest_point_of_the_great_circle(dim):
    """Lemma 1: U^T x / |U^T x| minimizes the geodesic distance; here by a search on the circle."""
    frames, x = sphereot.great_circles(4, dim, seed=dim), random_uniform(5, dim, seed=dim)
    turns = sphereot.project(x, frames)
    for frame, row in zip(frames, turns, strict=True):
        for point, turn in zip(x, row, strict=True):

            def distance(angle, frame=frame, point=point):
                on_circle = frame @ np.array([np.cos(angle), np.sin(angle)])
                return float(geodesic_distance(on_circle[None], point[None])[0])

            grid = 2 * np.pi * TURNS
            start = grid[np.argmin([distance(angle) for angle in grid])]
            bounds = start - 0.02, start + 0.02
            best = optimize.minimize_scalar(distance, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x
            gap = abs(best / (2 * np.pi) - turn)
            assert min(gap, 1 - gap) < 1e-6


def zonal_harmonic(dim, degree):
    """The zonal harmonic about e_1 with the value 1 there."""
    order = dim / 2 - 1
    return lambda x: special.eval_gegenbauer(degree, order, x[..., 0]) / special.eval_gegenbauer(degree, order, 1.0)


@pytest.mark.parametrize("dim", [3, 4, 5, 6])
@pytest.mark.parametrize("degree", range(1, 9))
def test_no_zonal_harmonic_is_in_the_kernel_of_the_radon_transform(dim, degree):
    """Proposition 4 leaves open whether the kernel is null; no harmonic of these degrees is in it."""
    frame = normalize(np.eye(dim)[:2] + 0.3).T
    frame = np.linalg.qr(frame)[0][None]
    assert np.abs(radon_transform(zonal_harmonic(dim, degree), frame, TURNS[::20], n_nodes=8)).max() > 1e-3


@pytest.mark.parametrize("dim", [4, 5])
def test_even_perturbations_have_a_positive_distance(dim):
    """Equation 23 with the densities of Proposition 3: SSW_2^2 by the Radon transform is e^2 times an eigenvalue."""
    degree, size = 2, 0.5
    spectrum = gegenbauer_eigenvalues(dim, degree)
    expected = size**2 * spectrum.eigenvalues[-1] / spectrum.multiplicities[-1]
    area = 2 * np.pi ** (dim / 2) / special.gamma(dim / 2)
    harmonic = zonal_harmonic(dim, degree)
    frames = sphereot.great_circles(200, dim, method="quasi", seed=0)
    densities = radon_transform(lambda x: (1 + size * harmonic(x)) / area, frames, TURNS, n_nodes=6)
    assert_allclose(densities.mean(axis=1), 1, atol=1e-3)
    costs = circle.wasserstein_uniform(np.broadcast_to(TURNS, densities.shape), weights=densities)
    # 400 atoms in place of a density: each is within 1 / 800 of its mass, and the cost is larger by 1 / (12 400^2).
    assert_allclose(np.mean(costs) - 1 / (12 * 400**2), expected, rtol=0.03)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([1.0, 1.5, 2.0, 5.0]), st.integers(2, 6))
def test_pseudo_distance(seed, p, dim):
    """Proposition 5, on the same great circles: symmetric, zero for equal measures, and the triangle inequality."""
    rng = np.random.default_rng(seed)
    x, y, z = (random_uniform(int(n), dim, seed=rng) for n in rng.integers(1, 8, size=3))
    frames = sphereot.great_circles(10, dim, seed=seed)

    def distance(a, b):
        return sphereot.ssw(a, b, p=p, root=True, projections=frames)

    assert_allclose(distance(x, y), distance(y, x), atol=1e-12)
    # The root of a rounding error of 1e-16 is 1e-8 for p = 2, and larger for larger orders.
    assert distance(x, x[::-1]) <= 1e-15 ** (1 / p)
    assert distance(x, z) <= distance(x, y) + distance(y, z) + 1e-12


@pytest.mark.parametrize("dim", [3, 4, 7])
def test_both_inclusions_of_the_integration_set(dim):
    """Proposition 6: w + c Uz with w orthogonal to the great circle projects to z for c > 0, and to -z for c < 0."""
    rng = np.random.default_rng(dim)
    frame, turn = sphereot.great_circles(1, dim, seed=dim)[0], 0.3
    along = frame @ np.array([np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)])
    w = rng.normal(size=(20, dim))
    w -= w @ frame @ frame.T
    for factor, expected in ((0.4, turn), (-0.4, turn + 0.5)):
        assert_allclose(sphereot.project(normalize(w + factor * along), frame[None]), expected, atol=1e-12)
    nodes = integration_set(frame, turn, n_nodes=4, n_directions=30).points
    assert_allclose(nodes - (nodes @ along)[..., None] * along, nodes - nodes @ frame @ frame.T, atol=1e-12)
    assert np.all(nodes @ along > 0)


@pytest.mark.parametrize("p", [1, 2])
def test_weak_convergence(p):
    """Proposition 8: samples whose points move to those of another one, by an angle of 1 / k."""
    x, direction = random_uniform(30, 5, seed=0), random_uniform(30, 5, seed=1)
    tangent = normalize(direction - np.sum(direction * x, axis=1, keepdims=True) * x)
    frames = sphereot.great_circles(500, 5, seed=0)
    values = [
        sphereot.ssw(np.cos(1 / k) * x + np.sin(1 / k) * tangent, x, p=p, projections=frames, root=True)
        for k in (1, 10, 100, 1000)
    ]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 5e-3 * values[0] ** (1 / p)


@pytest.mark.parametrize("dim", [3, 20])
def test_sample_complexity_does_not_depend_on_the_dimension(dim):
    """Proposition 9 for different distributions and p = 1.

    On a circle of length 1, E W_1(mu_n, mu) is at most the integral of sqrt(F (1 - F) / n), which is at most
    1 / (2 sqrt(n)), so that beta(1, n) is at most 1 / sqrt(n).
    """
    rng, n = np.random.default_rng(dim), 100
    frames = sphereot.great_circles(50, dim, seed=0)

    def draw(size):
        shift = np.zeros(dim)
        shift[0] = 1.0
        return random_uniform(size, dim, seed=rng), normalize(rng.normal(size=(size, dim)) + shift)

    truth = sphereot.ssw(*draw(50_000), p=1, projections=frames)
    errors = [abs(sphereot.ssw(*draw(n), p=1, projections=frames) - truth) for _ in range(50)]
    assert 0 < np.mean(errors) <= 1 / np.sqrt(n)


def test_projection_complexity():
    """Proposition 10: the mean squared error with L great circles is the variance over great circles divided by L."""
    x, y = random_uniform(20, 3, seed=0), random_uniform(20, 3, seed=1)
    costs = sphereot.ssw_estimate(x, y, n_projections=20_000, method="iid", seed=0).slice_costs
    n_slices, repeats = 25, 800
    squares = (costs.reshape(repeats, n_slices).mean(axis=1) - costs.mean()) ** 2
    # The standard error of a variance from 800 nearly normal numbers is 5 %.
    assert_allclose(squares.mean(), costs.var() / n_slices, rtol=0.2)
    assert np.mean(np.sqrt(squares)) ** 2 <= costs.var() / n_slices


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_cost_is_convex_in_the_cut(p):
    """The integral of |F^-1(t) - (G - a)^-1(t)|^p is convex in the cut a, and its minimum is the distance."""
    rng, n = np.random.default_rng(0), 12
    u, v = np.sort(rng.uniform(size=(2, n)), axis=1)
    line = np.concatenate([v - 2, v - 1, v, v + 1, v + 2])
    shifts = range(-n, n + 1)  # cuts at multiples of 1 / n, between which the cost is linear
    costs = np.array([np.mean(np.abs(u - line[2 * n + k : 3 * n + k]) ** p) for k in shifts])
    assert np.all(np.diff(costs, 2) >= -1e-12)
    assert_allclose(circle.wasserstein(u, v, p=p), costs.min(), atol=1e-12)


def test_presets_are_as_printed():
    """Appendices C.3 to C.5."""
    for package in ("torch", "matplotlib"):
        pytest.importorskip(package)
    earth = paper.find("earth").presets["paper"]
    assert (earth.n_blocks, earth.n_components, earth.epochs, earth.splits) == (48, 100, 20_000, 5)
    flow = paper.find("flow_mixture").presets["paper"]
    assert (flow.layers, flow.units, flow.lr, flow.epochs, flow.n_projections, flow.n) == (
        5,
        100,
        1e-4,
        2000,
        1000,
        500,
    )
    power = paper.find("vi_power_spherical").presets["paper"]
    assert (power.steps, power.n_particles, power.mcmc_steps, power.step_size) == (2000, 500, 20, 1e-3)
    assert (power.n_projections, power.lr_mean, power.lr_kappa) == (1000, 2.0, 200.0)
    mixture = paper.find("vi_mixture").presets["paper"]
    assert (mixture.n_blocks, mixture.n_components, mixture.steps, mixture.mcmc_steps) == (6, 5, 10_000, 20)
    assert (mixture.step_size, mixture.lr) == (0.1, 1e-3)
