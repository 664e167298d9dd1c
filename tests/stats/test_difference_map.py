"""Maps of differences: kernel estimates, the level of regions, where they are, and pictures of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from sphereot import sphere
from sphereot.density import SphericalKDE
from sphereot.stats import difference_map

RNG = np.random.default_rng(0)
X = sphere.normalize(RNG.normal(size=(200, 3)) + np.eye(3)[0])
Y = sphere.normalize(RNG.normal(size=(150, 3)))


def test_difference_is_that_of_kernel_estimates():
    result = difference_map(X, Y, bandwidth=0.3, permutations=19, resolution=12, seed=0)
    latitude, longitude = (np.arange(12) + 0.5) * 15 - 90, (np.arange(24) + 0.5) * 15 - 180
    cells = sphere.from_lonlat(*(angle.ravel() for angle in np.meshgrid(longitude, latitude)))
    expected = SphericalKDE(0.3).fit(X).density(cells) - SphericalKDE(0.3).fit(Y).density(cells)
    assert_allclose(result.difference.ravel(), expected, atol=1e-12)
    assert result.bandwidth == 0.3
    area = np.cos(np.radians(latitude))[:, None] * np.ones(24)
    assert abs(np.sum(result.difference * area) / area.sum()) < 1e-3  # both densities integrate to 1


def test_regions_are_where_the_samples_differ():
    result = difference_map(X, Y, permutations=199, resolution=30, seed=0)
    assert result.region[15, 30] == 1  # the direction of the shift
    assert result.region[15, 0] == -1  # its antipode
    assert result.p_value == 1 / 200
    assert all(0.02 < share < 0.5 for share in result.share)
    assert "x is significantly denser on" in str(result)
    assert ((result.standardized > result.threshold) == (result.region == 1)).all()
    assert ((result.standardized < -result.threshold) == (result.region == -1)).all()
    other = difference_map(Y, X, permutations=199, resolution=30, seed=0)
    assert other.region[15, 30] == -1


def test_level():
    """At most 5 % of pairs of one distribution have any region, up to chance (1 in 10,000)."""
    rng = np.random.default_rng(1)
    marked = 0
    for trial in range(200):
        x, y = (sphere.normalize(rng.normal(size=(n, 3)) + 0.5 * np.eye(3)[0]) for n in (40, 60))
        marked += bool(difference_map(x, y, bandwidth=0.4, permutations=39, resolution=8, seed=trial).region.any())
    assert binom.ppf(0.0001, 200, 0.05) <= marked <= binom.ppf(0.9999, 200, 0.05)


def test_level_with_groups():
    """Points of one group lie close together: whole groups are permuted, and the level holds; of points it does not."""
    rng = np.random.default_rng(2)

    def sample(count):
        centers = np.repeat(sphere.normalize(rng.normal(size=(count, 3))), 8, axis=0)
        return sphere.normalize(centers + 0.05 * rng.normal(size=centers.shape)), np.repeat(np.arange(count), 8)

    alarms = {"groups": 0, "points": 0}
    for trial in range(60):
        (x, of_x), (y, of_y) = sample(10), sample(10)
        options = {"bandwidth": 0.3, "permutations": 39, "resolution": 8, "seed": trial}
        alarms["groups"] += bool(difference_map(x, y, groups=(of_x, of_y + 100), **options).region.any())
        alarms["points"] += bool(difference_map(x, y, **options).region.any())
    assert alarms["groups"] <= binom.ppf(0.9999, 60, 0.05)
    assert alarms["points"] > 50


def test_messages():
    with pytest.raises(ValueError, match=r"x must have points with 3 coordinates \(on the sphere S\^2\), got 4"):
        difference_map(np.eye(4), np.eye(4))
    with pytest.raises(ValueError, match=r"permutations must be at least 20 for alpha=0\.05, got 9"):
        difference_map(X, Y, permutations=9)
    for bad in ({"bandwidth": 0}, {"alpha": 0.9}, {"resolution": 1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            difference_map(X, Y, **bad)
    constant = difference_map(np.eye(3)[:1], np.eye(3)[:1], bandwidth=0.2, permutations=19, resolution=4, seed=0)
    assert not constant.region.any()
