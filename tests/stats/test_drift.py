"""Drift: decisions against closed testing, bands that say the same as p-values, values of `ssw`, the level by trial."""

from itertools import combinations

import numpy as np
import pytest
from helpers.generators import sphere_sample
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sphereot
from sphereot._support.text import printable, shorten
from sphereot.stats import drift_test, two_sample_test
from sphereot.stats.drift import _holm
from sphereot.stats.sketch_tests import projected_densities

RNG = np.random.default_rng(7)
X = sphere_sample(RNG, 150, 3, shift=1)
WINDOWS = [sphere_sample(RNG, n, 3, shift=shift) for n, shift in ((80, 1), (90, 0.2), (150, 1), (60, 0.6))]


@given(st.lists(st.integers(1, 60).map(lambda k: k / 60), min_size=1, max_size=6))
def test_correction_is_closed_testing(p_values):
    """Holm's correction is the closed test whose local tests are Bonferroni's: over all sets that hold a window."""
    indices = range(len(p_values))
    for k in indices:
        sets = [s for size in range(1, len(p_values) + 1) for s in combinations(indices, size) if k in s]
        expected = max(min(1.0, len(s) * min(p_values[i] for i in s)) for s in sets)
        assert_allclose(_holm(p_values)[k], expected, rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.02, 0.05, 0.3, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_above_the_band_is_drift_and_nothing_else(alpha, seed):
    """Windows from far away to the same distribution: the picture must say what the p-values say, ties and all."""
    rng = np.random.default_rng(seed)
    x = sphere_sample(rng, 20, 3, shift=1)
    windows = [sphere_sample(rng, 12, 3, shift=shift) for shift in (1, 1, 0.7, 0.4, 0, -0.3)]
    found = drift_test(x, windows, statistic="ssw", alpha=alpha, permutations=299, n_projections=10, seed=seed)
    decisions = [window.drifted for window in found.windows]
    assert decisions == [window.value > window.band[1] for window in found.windows]
    assert decisions == [window.adjusted_p_value <= alpha + 1e-12 for window in found.windows]
    assert all(window.band[0] <= window.band[1] for window in found.windows)
    assert found.drifted == any(decisions)


def test_values_are_ssw_and_circles_are_shared():
    found = drift_test(X, WINDOWS, statistic="ssw", permutations=99, n_projections=30, seed=3)
    frames = found.windows[0].test.projections
    for points, window in zip(WINDOWS, found.windows, strict=True):
        assert_allclose(window.value, sphereot.ssw(X, points, p=1, projections=frames), rtol=1e-10)
        assert window.p_value == (1 + np.sum(window.test.null >= window.value)) / 100
        costs = sphereot.ssw_estimate(X, points, p=1, projections=frames).slice_costs
        assert np.min(np.abs(costs - window.circle.cost)) < 1e-12
        assert window.n == len(points)
    assert [window.drifted for window in found.windows] == [False, True, False, False]
    assert found.most_significant is found.windows[1]


def test_given_circles_are_used():
    frames = sphereot.great_circles(12, 3, seed=5)
    found = drift_test(X, WINDOWS[:2], p=1, permutations=39, projections=frames, seed=0)
    expected = two_sample_test(X, WINDOWS[0], p=1, permutations=39, projections=frames, seed=0)
    assert found.windows[0].value == expected.statistic
    assert found.n_projections == 12
    assert found.p == 1


def test_repeatable_and_later_windows_change_nothing():
    short, long = (
        drift_test(X, windows, permutations=99, n_projections=20, seed=1) for windows in (WINDOWS[:2], WINDOWS)
    )
    for one, other in zip(short.windows, long.windows, strict=False):
        assert (one.value, one.p_value) == (other.value, other.p_value)
        assert np.array_equal(one.test.null, other.test.null)


def test_libraries_agree():
    torch = pytest.importorskip("torch")
    told = {"permutations": 99, "n_projections": 20, "seed": 1}
    ours = drift_test(X, WINDOWS[:2], **told)
    theirs = drift_test(torch.tensor(X), [torch.tensor(window) for window in WINDOWS[:2]], **told)
    assert [w.p_value for w in ours.windows] == [w.p_value for w in theirs.windows]
    drawn = drift_test(torch.tensor(X), [torch.tensor(X)], permutations=19, seed=torch.Generator().manual_seed(0))
    assert not drawn.drifted


def test_any_false_alarm_is_as_rare_as_the_level():
    """400 times three windows of the reference's distribution: alarms in at most the level's share, plus 4 errors.

    The windows depend on each other by the reference alone, so that Holm's bound is nearly reached: half as many alarms
    would be a fault too.
    """
    rng = np.random.default_rng(11)
    alarms = 0
    for seed in range(400):
        samples = [sphere_sample(rng, n, 3, shift=0.5) for n in (40, 20, 20, 20)]
        alarms += drift_test(samples[0], samples[1:], alpha=0.2, permutations=59, n_projections=8, seed=seed).drifted
    error = np.sqrt(0.2 * 0.8 / 400)
    assert 0.1 < alarms / 400 < 0.2 + 4 * error


def test_densities_are_sums_of_wrapped_kernels():
    frame = sphereot.great_circles(1, 3, seed=2)[0]
    found = projected_densities(X, WINDOWS[1], frame)
    for points, density in ((X, found.reference), (WINDOWS[1], found.window)):
        turns = sphereot.project(points, frame[None])[0]
        away = found.turns[:, None] - turns[None] + np.arange(-3, 4)[:, None, None]
        kernels = np.exp(-0.5 * (away / found.bandwidth) ** 2) / (found.bandwidth * np.sqrt(2 * np.pi))
        assert_allclose(density, kernels.sum(axis=0).mean(axis=1), atol=0.03 * density.max())  # counted in cells
        assert_allclose(density.mean(), 1, rtol=1e-3)


def test_points_in_one_place():
    """No spread, no distance, no drift, and no division by zero."""
    found = drift_test(np.eye(3)[[0, 0]], [np.eye(3)[[0]]], permutations=19, seed=0)
    assert not found.drifted
    assert found.windows[0].band == (0.0, 0.0)
    assert found.windows[0].densities.reference.max() > 10


def test_sentence_and_table():
    calm = drift_test(X, [X], permutations=19, seed=0)
    assert calm.summary == "No drift detected in 1 window (alpha = 0.05, p-value 1)."
    found = drift_test(X, [WINDOWS[0], *[WINDOWS[1]] * 5], labels=list("abcdef"), permutations=199, seed=0)
    assert found.summary.startswith("Drift detected in 5 of 6 windows (alpha = 0.05): ")
    assert found.summary.endswith(", and 2 more. The first is b.")
    rows = str(found).splitlines()
    assert [row.split()[0] for row in rows[2:8]] == list("abcdef")
    assert [row.endswith("drift") for row in rows[2:8]] == [False, *[True] * 5]
    assert "smallest adjusted p-value 1" in drift_test(X, [X, X], permutations=39, seed=0).summary


def test_labels_are_fit_to_print():
    found = drift_test(X, [X], labels=["a\x1b[31m\nb\udcff"], permutations=19, seed=0)
    assert found.windows[0].label == "a\ufffd[31m\ufffdb\\udcff"
    assert printable("größer, 日本") == "größer, 日本"
    assert len(shorten("x" * 500, 21)) <= 21
    assert shorten("x" * 21, 21) == "x" * 21


def test_permutations_grow_with_the_windows():
    assert drift_test(X, [X], n_projections=2, seed=0).permutations == 999
    assert drift_test(X[:4], [X[:4]] * 20, n_projections=2, seed=0).permutations == 1599
    assert drift_test(X, [X] * 3, n_projections=2, permutations=59, seed=0).permutations == 59


def test_tells_how_far_it_is():
    """A window is done after each `n_projections` great circles."""
    windows_done = []

    def progress(done, total):
        if done % 2 == 0:
            windows_done.append((done // 2, total // 2))

    drift_test(X, WINDOWS[:3], permutations=59, n_projections=2, seed=0, progress=progress)
    assert windows_done == [(1, 3), (2, 3), (3, 3)]


FAULTS = {
    "no list": ((X, X), {}, TypeError, r"windows must be a list of arrays, got ndarray. Pass one window as \[y\]"),
    "no windows": ((X, []), {}, ValueError, "windows must contain at least one window"),
    "dimension": ((X, [X, np.eye(4)]), {}, ValueError, r"windows\[1\]"),
    "length": ((X, [2 * X]), {}, ValueError, r"windows\[0\]: row 0 has length 2"),
    "NaN": ((X * np.nan, [X]), {}, ValueError, "reference: "),
    "alpha": ((X, [X]), {"alpha": 0.7}, ValueError, "alpha: .*, got 0.7"),
    "alpha of text": ((X, [X]), {"alpha": "5%"}, ValueError, "alpha: .*, got '5%'"),
    "labels": ((X, [X]), {"labels": ["a", "b"]}, ValueError, "labels must be a list of 1 label, one per window, got 2"),
    "one label": ((X, [X]), {"labels": "a"}, ValueError, "labels must be .* got the string 'a'"),
    "permutations": (
        (X, [X] * 3),
        {"permutations": 58},
        ValueError,
        "permutations=58 is too small: .* can reach alpha=0.05. Use at least 59 permutations; 239 are recommended",
    ),
    "p": ((X, [X]), {"p": 0.5}, ValueError, "p: .*, got 0.5"),
    "seed": ((X, [X]), {"seed": "now"}, TypeError, "seed: .*, got str"),
    "unknown option": ((X, [X]), {"on_window": print}, TypeError, "unexpected keyword argument 'on_window'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input(fault):
    arguments, options, error, message = FAULTS[fault]
    with pytest.raises(error, match=message):
        drift_test(*arguments, **options)


def test_progress_counts_the_circles_of_all_windows(monkeypatch):
    if sphereot.info().backend.startswith("native"):
        monkeypatch.setattr("sphereot._backends.native.backend.POINTS_PER_CALL", 1)
    steps = []
    settings = {"permutations": 99, "n_projections": 16, "seed": 3}
    told = drift_test(X, WINDOWS, progress=lambda done, total: steps.append((done, total)), **settings)
    quiet = drift_test(X, WINDOWS, **settings)
    assert {total for _, total in steps} == {16 * len(WINDOWS)}
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})
    assert steps[-1][0] == 16 * len(WINDOWS)
    for one, other in zip(told.windows, quiet.windows, strict=True):
        assert (one.value, one.p_value, one.band) == (other.value, other.p_value, other.band)


def test_the_default_sees_clusters_that_move():
    """Four clusters on the equator, turned by 30 degrees: SSW_2 misses most such cases, the default finds all."""

    def clusters(rng, turn):
        angles = 2 * np.pi * (rng.integers(4, size=100) / 4 + turn)
        centers = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
        return sphereot.sphere.normalize(centers + rng.normal(size=(100, 3)) / np.sqrt(50))

    settings = {"default": {}, "SSW_1": {"statistic": "ssw"}, "SSW_2": {"statistic": "ssw", "p": 2}}
    found = dict.fromkeys(settings, 0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        reference, window = clusters(rng, 0), clusters(rng, 30 / 360)
        for name, options in settings.items():
            test = drift_test(reference, [window], permutations=99, n_projections=100, seed=seed, **options)
            assert test.p == options.get("p", 1)
            found[name] += test.drifted
    assert found["default"] >= 18
    assert found["SSW_2"] <= found["SSW_1"] - 5


def test_order_and_other_windows_change_nothing_for_a_window():
    """The verdict on a window is one on the reference and this window alone."""
    settings = {"permutations": 99, "n_projections": 20}
    for seed in (1, np.random.default_rng(1)):
        state = None if isinstance(seed, int) else seed.bit_generator.state
        results = []
        for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2]):
            if state is not None:
                seed.bit_generator.state = state
            tested = drift_test(X, [WINDOWS[k] for k in order], seed=seed, **settings)
            results.append(dict(zip(order, tested.windows, strict=True)))
        for other in results[1:]:
            for k, window in other.items():
                assert window.p_value == results[0][k].p_value
                assert np.array_equal(window.test.null, results[0][k].test.null)
                assert np.array_equal(window.circle.frame, results[0][k].circle.frame)


def test_a_generator_goes_on_between_calls():
    frames, generator = sphereot.great_circles(4, 3, seed=0), np.random.default_rng(0)
    first, second = (
        drift_test(X, WINDOWS[:1], permutations=39, projections=frames, seed=generator).windows[0] for _ in range(2)
    )
    assert not np.array_equal(first.test.null, second.test.null)
