"""Great circles drawn near the poles of concentrated data: an unbiased weighted mean, with little variance."""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose
from scipy.stats import beta, kstest

import sphereot
from sphereot.slicing.near_centers import CenterMixture, centers_of, displaced_points, probability_of_length


def mixture(dim, n_centers=1, scale=0.05):
    centers = sphere_sample(np.random.default_rng(dim), n_centers, dim)
    return CenterMixture.of_scales(centers, np.full(n_centers, scale))


def cluster(rng, dim, spread, center=0, n=100):
    axis = np.eye(dim)[center]
    noise = rng.standard_normal((n, dim))
    noise -= np.outer(noise @ axis, axis)
    return sphereot.sphere.exp(axis, spread / np.sqrt(dim - 1) * noise)


@pytest.mark.parametrize("dim", [3, 4, 7, 64])
def test_the_probability_is_that_of_a_beta_variable(dim):
    squares = np.array([1e-12, 1e-4, 0.1, 0.5, 0.99])
    assert_allclose(probability_of_length(squares, dim), beta(1, (dim - 2) / 2).cdf(squares), rtol=1e-10)


@pytest.mark.parametrize("n_centers", [1, 3])
@pytest.mark.parametrize("dim", [3, 4, 9])
def test_weighted_means_are_those_of_uniform_great_circles(dim, n_centers):
    """E |U^T v|^2 = 2/d and E |U^T v|^4 = 8 / (d (d + 2)) for a unit vector v, within 4 standard errors."""
    generator = np.random.default_rng(1)
    v = sphere_sample(generator, 1, dim)[0]
    sums = []
    for _ in range(300):
        frames, weights, _ = mixture(dim, n_centers).draw(60, generator)
        squares = np.sum((v @ frames) ** 2, axis=1)
        sums.append([np.mean(weights), np.mean(weights * squares), np.mean(weights * squares**2)])
    means, errors = np.mean(sums, axis=0), np.std(sums, axis=0, ddof=1) / np.sqrt(len(sums))
    expected = [1, 2 / dim, 8 / (dim * (dim + 2))]
    assert (np.abs(means - expected) <= 4 * errors + 1e-12).all()


@pytest.mark.parametrize("dim", [3, 5, 16])
def test_frames_are_orthonormal_and_uniform_given_the_length(dim):
    generator = np.random.default_rng(2)
    one = mixture(dim)
    frames, _, _ = one.draw(2000, generator)
    assert_allclose(frames.mT @ frames, np.broadcast_to(np.eye(2), (2000, 2, 2)), atol=1e-12)
    # The component of the frame orthogonal to the center has no preferred direction.
    direction = np.linalg.svd(one.centers)[2][1]
    center = one.centers[0]
    planar = center @ frames  # U^T m
    w = np.einsum("ndj,nj->nd", frames, np.stack([-planar[:, 1], planar[:, 0]], axis=1)) / np.linalg.norm(
        planar, axis=1, keepdims=True
    )
    squares = (w @ direction) ** 2
    # Great circles of a block are balanced, so their distribution is closer to uniform than that of independent ones.
    assert kstest(squares, beta(0.5, (dim - 2) / 2).cdf).pvalue > 0.001


def test_weights_do_not_exceed_ten():
    generator = np.random.default_rng(3)
    one = mixture(5)
    frames, weights, strata = one.draw(128, generator)
    learned = one.reweight(weights * np.sum((one.centers[0] @ frames) ** 2, axis=1) ** -1.0, strata)
    assert_allclose(learned.shares.sum(), 1)
    assert learned.draw(5000, generator)[1].max() <= 10


def test_centers_are_found(rng):
    """One center for one cluster, several for several, none for points everywhere."""
    one = centers_of(cluster(rng, 3, 0.02), rng)
    assert one.centers.shape == (1, 3)
    assert one.centers[0, 0] > 0.999
    points = np.concatenate([cluster(rng, 3, 0.02, center) for center in range(3)])
    several = centers_of(points, rng)
    assert np.max(several.centers @ np.eye(3), axis=0).min() > 0.999  # each axis is near a center
    assert centers_of(sphere_sample(rng, 200, 3), rng) is None
    assert centers_of(np.repeat(np.eye(3)[:1], 20, axis=0), rng) is None
    assert centers_of(sphere_sample(rng, 50, 2), rng) is None


def test_antipodal_points_have_no_mean(rng):
    points = np.concatenate([cluster(rng, 4, 0.01), -cluster(rng, 4, 0.01)])
    found = centers_of(points, rng)
    assert np.abs(found.centers[:, 0]).min() > 0.999


def test_strata_of_a_wide_center_have_a_width():
    """In dimension 1536 nearly all lengths are below a scale of 1; weights keep their mean of 1."""
    generator = np.random.default_rng(4)
    two = CenterMixture.of_scales(np.eye(1536)[:2], np.array([1e-3, 1.0]))
    assert (np.diff(two.edges, axis=1) > 0).all()
    means = [two.draw(60, generator)[1].mean() for _ in range(3)]
    assert_allclose(np.mean(means), 1, rtol=0.2)


@pytest.mark.parametrize("dim", [3, 4, 20])
def test_great_circles_near_points_have_weights_of_mean_one(dim, rng):
    """Weighted means of 1 and of |U^T a|^2 are known: 1 and 2/d."""
    points = sphere_sample(rng, 30, dim)
    near = displaced_points(points, 10.0 ** rng.uniform(-7, -1, 30), np.full(30, 1 / 30), 2.0, 200, 30)
    frames, weights, _ = near.mixture.draw(20_000, rng)
    assert_allclose(np.einsum("lij,lik->ljk", frames, frames), np.broadcast_to(np.eye(2), (20_000, 2, 2)), atol=1e-12)
    squares = np.sum((points[0] @ frames) ** 2, axis=1)
    for values, mean in ((weights, 1.0), (weights * squares, 2 / dim)):
        assert abs(np.mean(values) - mean) <= 4 * np.std(values) / np.sqrt(20_000)
    assert np.max(weights) <= 1 / 0.3 + 1e-9


def test_the_cost_of_displaced_points_is_that_of_its_integral():
    """In dimension 4, r^2 is uniform, and the mean of s^2 / (r^2 + s^2) is s^2 log(1 + 1 / s^2)."""
    distance = 0.01
    near = displaced_points(np.eye(4)[:2], np.array([0.0, distance]), np.array([0.5, 0.5]), 2.0, 200, 2)
    square = (distance / (np.pi * np.sqrt(3))) ** 2
    assert_allclose(near.mean, 0.125 * square * np.log1p(1 / square), rtol=0.1)
    assert displaced_points(np.eye(4)[:2], np.zeros(2), np.array([0.5, 0.5]), 2.0, 200, 2) is None
