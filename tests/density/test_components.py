"""Sums over near components alone equal sums over all, wherever the points are and however wide the kernels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from sphereot import sphere
from sphereot.density import SphericalKDE, VonMisesFisherComponents
from sphereot.density.components import near_components

RNG = np.random.default_rng(0)
CENTERS = sphere.normalize(RNG.normal(size=(400, 3)) * [1, 1, 0.2])
# On a grid with both poles, in one small cluster, and at the antipodes of the centers.
LON, LAT = np.meshgrid(np.linspace(-180, 180, 60), np.linspace(-90, 90, 31))
QUERIES = {
    "grid": sphere.from_lonlat(LON.ravel(), LAT.ravel()),
    "cluster": sphere.normalize(RNG.normal(size=(1500, 3)) * 1e-4 + [0, 0, 1]),
    "antipodes": np.concatenate([-CENTERS] * 4),
    "one point": np.repeat(CENTERS[:1], 1200, axis=0),
}


def all_pairs(points, means, kappas, weights):
    log_normalizer = np.log(kappas) - np.log(2 * np.pi) - np.log1p(-np.exp(-2 * kappas))
    return logsumexp(kappas * (points @ means.T - 1) + log_normalizer + np.log(weights), axis=1)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("width", [2.0, 0.3, 0.03, 0.002])
def test_kernel_estimate(name, width):
    weights = RNG.uniform(0.1, 1, 400)
    kde = SphericalKDE(width, weights=weights).fit(CENTERS)
    expected = all_pairs(QUERIES[name], CENTERS, np.full(400, width**-2), weights / weights.sum())
    assert_allclose(kde.log_density(QUERIES[name]), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", QUERIES)
def test_components_of_unlike_concentrations(name):
    kappas, weights = 10 ** RNG.uniform(-2, 6, 400), RNG.uniform(0.1, 1, 400)
    weights /= weights.sum()
    components = VonMisesFisherComponents(CENTERS, kappas, weights)
    expected = all_pairs(QUERIES[name], CENTERS, kappas, weights)
    assert_allclose(components.log_density(QUERIES[name]), expected, rtol=2e-6, atol=2e-6)


def test_blocks_have_all_points_once_and_few_components():
    points = sphere.random_uniform(40_000, 3, seed=1)
    kappas = np.full(400, 0.02**-2)
    blocks = list(near_components(points, CENTERS, kappas, np.zeros(400)))
    assert_array_equal(np.sort(np.concatenate([rows for rows, _ in blocks])), np.arange(len(points)))
    pairs = sum(len(rows) * len(columns) for rows, columns in blocks)
    assert pairs < 0.3 * len(points) * 400
