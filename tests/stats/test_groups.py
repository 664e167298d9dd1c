"""Permutation of whole groups: the level holds although points of one group depend on each other."""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose
from scipy.stats import binom

import sphereot
from sphereot.stats import drift_test, two_sample_test
from sphereot.stats._testing import independent_generator
from sphereot.stats.two_sample import group_labelings


def documents(rng, count, dim=5, spread=0.15):
    """Points in groups: each group has a center of its own, and between 1 and 12 points near it; with their labels."""
    sizes = rng.integers(1, 13, count)
    centers = np.repeat(rng.normal(size=(count, dim)), sizes, axis=0)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    points = sphereot.sphere.normalize(centers + spread * rng.normal(size=centers.shape))
    return points, np.repeat(np.arange(count), sizes)


@pytest.mark.parametrize("p", [1, 2])
def test_permuted_distances_are_ssw_of_whole_groups(rng, p):
    (x, of_x), (y, of_y) = documents(rng, 7), documents(rng, 5)
    result = two_sample_test(x, y, p=p, groups=(of_x, of_y + 100), permutations=30, n_projections=6, seed=3)
    generator = independent_generator(3, x)
    frames = sphereot.great_circles(6, 5, method="quasi", seed=generator, like=x)
    pool, groups = np.concatenate([x, y]), np.concatenate([of_x, of_y + 7])
    sets = group_labelings(groups, 7, 30, generator)
    expected = np.empty(31)
    for labelings, columns in sets:
        bits = np.unpackbits(labelings.bits[:, None, :], axis=1, bitorder="little").reshape(-1, len(pool))
        for row, column in zip(bits.astype(bool), columns, strict=False):
            assert row.sum() == labelings.n_first
            kept = [set(row[groups == g]) for g in range(12)]
            assert all(len(values) == 1 for values in kept)  # no group is divided
            assert sum(values == {True} for values in kept) == 7
            expected[column] = sphereot.ssw(pool[row], pool[~row], p=p, projections=frames)
    assert_allclose(result.statistic, expected[0], rtol=1e-9)
    assert_allclose(result.statistic, sphereot.ssw(x, y, p=p, projections=frames), rtol=1e-9)
    assert_allclose(result.null, expected[1:], rtol=1e-9)
    assert result.n_groups == (7, 5)
    assert "permutations of 7 and 5 groups" in str(result)


def test_level_under_dependence():
    """Without groups nearly every test rejects; with them at most a share of 5%, up to chance (1 in 10,000)."""
    rng = np.random.default_rng(1)
    trials, alarms, alarms_by_points = 200, 0, 0
    for trial in range(trials):
        (x, of_x), (y, of_y) = documents(rng, 30), documents(rng, 15)
        options = {"permutations": 39, "n_projections": 10, "seed": trial}
        alarms += two_sample_test(x, y, groups=(of_x, of_y + 30), **options).p_value <= 0.05
        alarms_by_points += two_sample_test(x, y, **options).p_value <= 0.05
    assert alarms <= binom.ppf(0.9999, trials, 0.05)
    assert alarms >= binom.ppf(0.0001, trials, 0.05)
    assert alarms_by_points > 0.5 * trials


def test_power_remains(rng):
    (x, of_x), (y, of_y) = documents(rng, 40), documents(rng, 40)
    y = sphereot.sphere.normalize(y + 1.5 * np.eye(5)[0])
    assert two_sample_test(x, y, groups=(of_x, of_y + 40), permutations=199, seed=0).p_value <= 0.01


def test_groups_of_one_point_are_points(rng):
    """The test is then the usual one, with other random permutations."""
    x, y = sphere_sample(rng, 20, 3), sphere_sample(rng, 15, 3)
    groups = (np.arange(20), 20 + np.arange(15))
    result = two_sample_test(x, y, groups=groups, permutations=999, n_projections=20, seed=0)
    usual = two_sample_test(x, y, permutations=999, n_projections=20, seed=0)
    assert result.statistic == usual.statistic
    # Both are shares of 999 permutations: standard error 0.016 each at most.
    assert abs(result.p_value - usual.p_value) < 4 * 0.016 * 2**0.5


def test_drift_of_windows(rng):
    reference, of_reference = documents(rng, 40)
    windows, labels = zip(*(documents(rng, 20) for _ in range(2)), strict=True)
    names = [["r" + str(label) for label in of_reference], *(["w" + str(label) for label in row] for row in labels)]
    result = drift_test(reference, list(windows), groups=names, permutations=199, seed=0)
    assert not result.drifted
    assert [window.test.n_groups for window in result.windows] == [(40, 20), (40, 20)]
    by_points = drift_test(reference, list(windows), permutations=199, seed=0)
    assert by_points.drifted
    for window, other in zip(result.windows, by_points.windows, strict=True):
        assert_allclose(window.value, other.value, rtol=1e-12)


def test_messages(rng):
    x, y = sphere_sample(rng, 4, 3), sphere_sample(rng, 3, 3)
    with pytest.raises(ValueError, match="groups: the label 'b' occurs in both x and y"):
        two_sample_test(x, y, groups=(list("aabb"), list("bcd")))
    with pytest.raises(ValueError, match=r"groups of y must have one label per point, shape \(3,\), got \(2,\)"):
        two_sample_test(x, y, groups=(list("aabb"), list("cd")))
    with pytest.raises(ValueError, match="groups must be 2 sequences of labels"):
        two_sample_test(x, y, groups=list("aabb"))
    with pytest.raises(ValueError, match="groups must be 3 sequences of labels"):
        drift_test(x, [y, y], groups=(list("aabb"), list("cde")))
