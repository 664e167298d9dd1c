"""Drift tests on sketches with groups: the distances of the sketches, and the level under dependence within groups."""

import numpy as np
import pytest
from helpers.kernel import needs_kernel
from numpy.testing import assert_allclose
from scipy.stats import binom

from sphereot import Sketch, sphere
from sphereot._backends import native
from sphereot.stats import drift_test

pytestmark = needs_kernel

OPTIONS = {"n_projections": 10, "bins": 64, "groups": 16}


def documents(rng, count, first=0, dim=5, shift=0.0):
    """A sketch of documents: each has a center of its own, and between 1 and 12 points near it."""
    sizes = rng.integers(1, 13, count)
    centers = np.repeat(rng.normal(size=(count, dim)), sizes, axis=0)
    points = sphere.normalize(centers / np.linalg.norm(centers, axis=1, keepdims=True)
                              + 0.15 * rng.normal(size=centers.shape) + shift * np.eye(dim)[0])  # fmt: skip
    return Sketch(dim, **OPTIONS).update(points, groups=np.repeat(first + np.arange(count), sizes))


@pytest.mark.parametrize("p", [1, 2, 1.5])
def test_statistic_is_the_distance_of_the_sketches(rng, p):
    reference, window = documents(rng, 60), documents(rng, 60, 1000)
    result = drift_test(reference, [window], statistic="ssw", p=p, permutations=99, seed=0).windows[0]
    assert_allclose(result.value, reference.distance(window, p=p).cost, rtol=1e-9)
    nonempty = [sum(part.n > 0 for part in sketch.group_sketches()) for sketch in (reference, window)]
    assert list(result.test.n_groups) == nonempty
    assert len(result.densities.turns) == 256
    assert_allclose(result.densities.window.mean(), 1.0, rtol=1e-6)


def test_null_is_that_of_sums_of_groups(rng):
    """One permutation by hand: the distance between the sums of the units on either side."""
    reference, window = documents(rng, 40), documents(rng, 40, 1000)
    units = [*reference.group_sketches(), *window.group_sketches()]
    test = drift_test(reference, [window], p=1, permutations=19, seed=3).windows[0].test
    candidates = []
    state = np.random.default_rng(0)
    for _ in range(3):  # sums of random halves have distances of the same size as the null
        order = state.permutation(32)
        halves = [sum((units[k] for k in part[1:]), units[part[0]]) for part in (order[:16], order[16:])]
        candidates.append(halves[0].distance(halves[1], p=1).value)
    assert 0.5 * min(candidates) < np.mean(test.null) < 2 * max(candidates)


@pytest.mark.parametrize("ratio", [1, 3])
def test_level_under_dependence(ratio):
    """At most 5% false alarms, up to chance (1 in 10,000), for samples of equal and of different size."""
    rng = np.random.default_rng(ratio)
    trials = 200
    alarms = sum(
        drift_test(documents(rng, 60 * ratio), [documents(rng, 60, 10_000)], permutations=39, seed=trial).drifted
        for trial in range(trials)
    )
    assert binom.ppf(0.0001, trials, 0.05) <= alarms <= binom.ppf(0.9999, trials, 0.05)


def test_power(rng):
    result = drift_test(documents(rng, 150), [documents(rng, 150, 10_000, shift=0.7)], permutations=199, seed=0)
    assert result.drifted


def test_messages(rng):
    plain = Sketch(5, n_projections=10, bins=64).update(sphere.random_uniform(10, 5, seed=0))
    grouped = documents(rng, 20)
    with pytest.raises(ValueError, match="reference must be a sketch with groups"):
        drift_test(plain, [plain])
    with pytest.raises(TypeError, match="compared with a Sketch, got ndarray"):
        drift_test(grouped, [sphere.random_uniform(10, 5, seed=0)])
    with pytest.raises(ValueError, match="empty sketch"):
        drift_test(grouped, [Sketch(5, **OPTIONS)])
    points, labels = sphere.random_uniform(9, 5, seed=0), range(9)
    other = Sketch(5, n_projections=11, bins=64, groups=16).update(points, groups=labels)
    with pytest.raises(ValueError, match="differ in"):
        drift_test(grouped, [other])
    few = Sketch(5, groups=2).update(points, groups=labels)
    with pytest.raises(ValueError, match="too few groups to permute"):
        drift_test(few, [few], permutations=99)
    with pytest.raises(ValueError, match="which have their own groups and great circles"):
        drift_test(grouped, [grouped], n_projections=5)


@pytest.mark.parametrize("p", [1, 2])
def test_results_without_the_kernel(rng, p, monkeypatch):
    """NumPy computes the same distances and p-values."""
    reference, window = documents(rng, 40), documents(rng, 40, 1000, shift=0.1)
    ours = drift_test(reference, [window], p=p, permutations=99, seed=0).windows[0]
    monkeypatch.setattr(native, "available", False)
    theirs = drift_test(reference, [window], p=p, permutations=99, seed=0).windows[0]
    assert_allclose(theirs.test.null, ours.test.null, rtol=1e-9)
    assert theirs.test.p_value == ours.test.p_value
