"""Combined tests: exact for any statistics, each component against its definition, and what the words say."""

import numpy as np
import pytest
from helpers.bad_input import refusal_test
from helpers.generators import sphere_sample
from helpers.kernel import needs_kernel
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.stats import chisquare, spearmanr

import sphereot
from sphereot import Sketch, circle
from sphereot.sphere import normalize
from sphereot.stats import DriftMonitor, _combined, drift_test, two_sample_test, uniformity_test
from sphereot.stats._combined import AXIAL, EVEN, combine, even_statistics
from sphereot.stats.two_sample import point_labelings


def band(rng, n, dim=3, spread=0.2):
    return normalize(rng.normal(size=(n, dim)) * np.r_[spread, np.ones(dim - 1)])


@given(arrays(np.float64, (3, 12), elements=st.integers(0, 5).map(float)))
def test_exact_for_any_values_with_ties(values):
    """If any labeling may be the observed one, at most k of N have a p-value of at most k / N."""
    p_values = []
    for observed in range(12):
        order = np.r_[observed, np.delete(np.arange(12), observed)]
        named = dict(zip(("SSW_1", "SSW_2", EVEN), values[:, order], strict=True))
        p_values.append(combine(named)[0])
    for k in range(13):
        assert np.sum(np.array(p_values) <= k / 12 + 1e-12) <= k


def test_weights_and_components():
    """By hand, for four labelings: p-values 1/2, 1 and 1/4, divided by the weights 3, 3 and 2."""
    p_value, components = combine({"SSW_1": [2, 1, 3, 0], "SSW_2": [0, 1, 2, 3], EVEN: [5, 1, 1, 1]})
    assert [part.p_value for part in components] == [0.5, 1.0, 0.25]
    assert p_value == 3 / 4  # 0.25 / 2 is more than 0.25 / 3, which the last two labelings have
    assert [part.statistic for part in components] == [2, 0, 5]
    assert components[2].null_mean == 1
    assert components[2].null_deviation == 0


@pytest.mark.parametrize("dim", [2, 3, 10])
@pytest.mark.parametrize(("limit", "max_double"), [(4000, 40), (25, 40), (4000, 10)])
def test_even_statistic_is_a_double_sum(monkeypatch, dim, limit, max_double, rng):
    """Against K_d of the package, which is tested against integrals; a large pool is sampled without its labels."""
    monkeypatch.setattr(_combined, "MAX_POINTS_IN_GRAM", limit)
    monkeypatch.setattr(_combined, "_MAX_DOUBLE", max_double)
    monkeypatch.setattr(_combined, "_ROWS", 7)
    pool = sphere_sample(rng, 40, dim)
    sets = point_labelings(18, 22, 9, np.random.default_rng(1))
    values = even_statistics(pool, sets, np.random.default_rng(2))
    rows = np.arange(40)
    if limit < 40:
        rows = np.sort(np.random.default_rng(2).permutation(40)[:limit])
    cosines = np.clip(pool @ pool.T, -1, 1)[np.ix_(rows, rows)]
    kernel = (sphereot.uniform_kernel(cosines, dim) + sphereot.uniform_kernel(-cosines, dim)) / 2
    for labelings, columns in sets:
        for bits, value in zip(
            np.unpackbits(labelings.bits, axis=0, bitorder="little")[:, rows], values[columns], strict=False
        ):
            w = np.where(bits, 1 / bits.sum(), -1 / (1 - bits.astype(float)).sum())
            assert_allclose(value, w @ kernel @ w, rtol=0, atol=2e-7 if max_double == 10 else 1e-9)


@pytest.mark.parametrize(("n", "m", "kappa"), [(20, 20, 0.0), (20, 9, 3.0)])
def test_level_is_exact(n, m, kappa):
    """Over 400 pairs of samples of one distribution, p-values with 19 permutations fall evenly on 1/20, ..., 20/20."""
    rng = np.random.default_rng(n + m)
    ranks = []
    for _ in range(400):
        x, y = sphere_sample(rng, n, 3, shift=kappa), sphere_sample(rng, m, 3, shift=kappa)
        ranks.append(round(20 * two_sample_test(x, y, permutations=19, n_projections=10, seed=rng).p_value))
    assert chisquare(np.bincount(ranks, minlength=21)[1:]).pvalue > 1e-4


def test_detects_a_band_and_says_so(rng):
    x, y = sphere_sample(rng, 60, 3), band(rng, 60)
    ssw = two_sample_test(x, y, statistic="ssw", permutations=199, seed=0)
    combined = two_sample_test(x, y, permutations=199, seed=0)
    # No labeling has a larger even part. One each may have a larger SSW_1 and SSW_2, whose weights are larger.
    assert combined.components[2].p_value == 1 / 200
    assert combined.p_value <= 3 / 200 < ssw.p_value
    assert [part.name for part in combined.components] == ["SSW_1", "SSW_2", EVEN]
    assert "axes or bands" in str(combined)
    assert "axes or bands" not in str(two_sample_test(x, x[::-1], permutations=19, seed=0))  # no evidence at all
    assert [part["name"] for part in combined.as_record()["components"]] == ["SSW_1", "SSW_2", EVEN]
    window = drift_test(x, [y], seed=0).windows[0]
    assert window.drifted
    assert window.components == window.test.components


@pytest.mark.parametrize(("dim", "shown"), [(3, 1), (5, 2)])
def test_order_changes_what_is_shown_only(dim, shown, rng):
    """Locations show SSW_1 and embeddings SSW_2; the p-value is the same for both."""
    x, y = sphere_sample(rng, 30, dim), sphere_sample(rng, 30, dim, shift=0.5)
    options = {"permutations": 49, "n_projections": 20, "seed": 4}
    results = {p: two_sample_test(x, y, p=p, **options) for p in (None, 1, 2)}
    assert {p: result.p for p, result in results.items()} == {None: shown, 1: 1, 2: 2}
    assert len({result.p_value for result in results.values()}) == 1
    for p in (1, 2):
        alone = two_sample_test(x, y, statistic="ssw", p=p, **options)
        assert results[p].statistic == alone.statistic
        component = next(part for part in results[p].components if part.name == f"SSW_{p}")
        assert (component.statistic, component.p_value) == (alone.statistic, alone.p_value)


@needs_kernel
def test_axial_statistic_of_sketches(rng):
    """On the circle it is SSW_1 of the doubled angles, up to the width of two bins."""
    angles = rng.uniform(0, 1, (2, 50)) * np.array([[1.0], [0.7]])
    points = np.stack([np.cos(2 * np.pi * angles), np.sin(2 * np.pi * angles)], axis=-1)
    options = {"n_projections": 3, "bins": 2048, "groups": 64, "seed": 0}
    sketches = [Sketch(2, **options).update(x, groups=np.arange(50) + 100 * k) for k, x in enumerate(points)]
    window = drift_test(sketches[0], sketches[1:], permutations=19, seed=0).windows[0]
    names = [part.name for part in window.components]
    assert names == ["SSW_1", "SSW_2", AXIAL]
    expected = circle.wasserstein(2 * angles[0] % 1, 2 * angles[1] % 1, p=1)
    assert_allclose(window.components[2].statistic, expected, atol=2 / 2048)


@needs_kernel
def test_monitor_keeps_the_statistic_of_its_history(rng, tmp_path):
    """A history of an SSW_1 test continues as one; a new one is combined and says so."""
    options = {"n_projections": 8, "bins": 64, "groups": 16, "seed": 0}
    sketches = [Sketch(3, **options).update(sphere_sample(rng, 60, 3), groups=np.arange(60) + 60 * k) for k in range(3)]
    for statistic in ("ssw", "combined"):
        path = tmp_path / f"{statistic}.jsonl"
        first = DriftMonitor(sketches[0], history=path, statistic=statistic, horizon=5)
        first.check(sketches[1], label="1")
        again = DriftMonitor(sketches[0], history=path, horizon=5)
        assert again.statistic == statistic
        assert len(again.windows) == 1
        assert again.check(sketches[2], label="2") in again.windows
    assert DriftMonitor(sketches[0], horizon=5).statistic == "combined"


def test_uniformity_is_a_bound_of_two_p_values(rng):
    """min(p_1 / 0.75, p_2 / 0.25), with the statistic of the even part by its definition."""
    x = band(rng, 80, spread=0.5)
    result = uniformity_test(x)
    first, second = result.components
    cosines = np.clip(x @ x.T, -1, 1)
    kernel = (sphereot.uniform_kernel(cosines, 3) + sphereot.uniform_kernel(-cosines, 3)) / 2
    assert_allclose(second.statistic, kernel.mean(), rtol=1e-7)  # angles of 0 have half the digits of their cosine
    assert_allclose(result.p_value, min(first.p_value / 0.75, second.p_value / 0.25), rtol=1e-12)
    assert first.p_value == uniformity_test(x, statistic="ssw").p_value > 0.01 > result.p_value


def test_level_of_the_uniformity_test():
    """2,000 uniform samples: both p-values are uniform, odd and even part are independent, and the level holds."""
    rng = np.random.default_rng(0)
    results = [uniformity_test(normalize(rng.normal(size=(50, 3)))) for _ in range(2000)]
    for p_values in np.transpose([[part.p_value for part in result.components] for result in results]):
        assert chisquare(np.histogram(p_values, bins=10, range=(0, 1))[0]).pvalue > 1e-4
    even = np.array([result.components[1].statistic for result in results])
    odd = np.array([result.statistic for result in results]) - even
    assert abs(spearmanr(odd, even).statistic) < 4 / np.sqrt(2000)
    # Four standard errors are 0.0195. Two p-values that always agree would have the level 0.0375.
    assert 0.025 < np.mean([result.p_value <= 0.05 for result in results]) < 0.05 + 0.0195


X = np.eye(3)
test_bad_input = refusal_test(
    {
        "no statistic": (
            lambda: two_sample_test(X, X, statistic="best"),
            ValueError,
            "statistic must be 'combined' or",
        ),
        "an order": (
            lambda: two_sample_test(X, X, p=3),
            ValueError,
            "p must be 1 or 2 with statistic='combined', got 3",
        ),
        "drift": (lambda: drift_test(X, [X], statistic="best"), ValueError, "statistic must be"),
        "uniformity": (lambda: uniformity_test(X, statistic=1), ValueError, "statistic must be"),
    }
)
