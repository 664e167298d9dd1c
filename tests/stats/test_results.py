"""What the results of all tests share: effect and ratio, in edge cases too."""

import math

import numpy as np
import pytest
from helpers.generators import sphere_sample

from sphereot.stats import TwoSampleResult, UniformityResult, drift_test, two_sample_test, uniformity_test

RNG = np.random.default_rng(0)
X = sphere_sample(RNG, 30, 3)

KINDS = {
    TwoSampleResult: {"circles": (), "m": 2},
    UniformityResult: {"classical": ()},
}


def result_of(kind, statistic, null):
    shared = {"p_value": 1.0, "slice_costs": np.ones(4), "projections": np.ones((4, 3, 2)), "n": 2, "dim": 3, "p": 2.0}
    moments = {"null_mean": np.mean(null), "null_deviation": np.std(null)}
    return kind(statistic=statistic, null=np.array(null), **moments, **shared, **KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("statistic", "null", "effect", "ratio"),
    [
        (3.0, [1.0, 2.0, 3.0], math.sqrt(1.5), 1.5),
        (2.0, [2.0, 2.0], 0.0, 1.0),
        (0.0, [0.0, 0.0], 0.0, 1.0),
        (3.0, [2.0, 2.0], math.inf, 1.5),
        (1.0, [2.0, 2.0], -math.inf, 0.5),
        (3.0, [0.0, 0.0], math.inf, math.inf),
        (0.0, [0.0, 2.0], -1.0, 0.0),
    ],
)
def test_effect_and_ratio(kind, statistic, null, effect, ratio):
    """A null sample without spread explains a statistic that equals it, and no other."""
    result = result_of(kind, statistic, null)
    assert result.effect == pytest.approx(effect)
    assert result.ratio == pytest.approx(ratio)
    assert result.n_projections == 4


def test_one_simulation_or_permutation():
    """A null sample of a single value has no spread."""
    assert math.isinf(uniformity_test(X, simulations=1, n_projections=5, seed=0).effect)
    points = np.eye(3)[[0, 0, 1, 1]]
    apart = two_sample_test(points[:2], points[2:], permutations=1, seed=0)
    assert apart.null == [0]  # each of the new samples has both points
    assert (apart.effect, apart.ratio) == (math.inf, math.inf)


def test_many_repeated_locations_are_noted():
    """More than a tenth of the points of one sample: 4 of 30, not 2 of 30, and not points that two samples share."""
    once, twice = X[[0, *range(29)]], X[[0, 1, *range(28)]]
    few = {"permutations": 99, "n_projections": 5, "seed": 0}
    noted = "4 of the 30 points of {} have the same location as another point."
    assert noted.format("the second sample") in two_sample_test(X, twice, **few).note
    assert noted.format("b") in drift_test(X, [once, twice], labels=["a", "b"], **few).note
    assert noted.format("the sample") in uniformity_test(twice).note
    for result in (
        two_sample_test(X, once, **few),
        drift_test(X, [X], **few),
        uniformity_test(once),
        two_sample_test(X, twice, groups=(range(30), range(30, 60)), **few),
        drift_test(X, [twice], groups=(range(30), range(30, 60)), **few),
    ):
        assert result.note is None
        assert result.as_record()["note"] is None
    for result in (two_sample_test(twice, X, **few), drift_test(twice, [X], **few), uniformity_test(twice)):
        assert result.note in str(result)
        assert result.as_record()["note"] == result.note
