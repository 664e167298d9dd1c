"""The paired test: angles, rotations and neighbors against other programs, and an exact permutation of pairs."""

import json
from itertools import product

import numpy as np
import pytest
from helpers.bad_input import refusal_test
from helpers.generators import sphere_sample
from helpers.unit_length import count_unit_length_checks
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import orthogonal_procrustes
from scipy.spatial.distance import cdist
from scipy.stats import binom

import sphereot
from sphereot._backends.uniform_kernel import kernel_value
from sphereot.sphere import geodesic_distance, normalize
from sphereot.stats import _combined, paired, paired_test
from sphereot.stats._combined import LabelingSet, even_statistics
from sphereot.stats._testing import independent_generator
from sphereot.stats.paired import _rotated, _swapped_labelings

RNG = np.random.default_rng(0)
X = sphere_sample(RNG, 60, 5, shift=0.5)
Y = normalize(X + 0.1 * RNG.normal(size=X.shape))
FEW = {"permutations": 19, "n_projections": 5, "seed": 0}


def reflection(dim, seed=0):
    """A random orthogonal matrix with determinant -1."""
    matrix = np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0]
    matrix[:, 0] *= -np.sign(np.linalg.det(matrix))
    return matrix


def swaps_of(labelings, n):
    """Whether each labeling keeps each pair, (labelings, n)."""
    bits = labelings.bits[:, None, :]
    rows = np.unpackbits(bits, axis=1, bitorder="little").reshape(-1, 2 * n)[: labelings.n_labelings]
    assert_array_equal(rows[:, :n], 1 - rows[:, n:])  # one point of each pair is in the first sample
    return rows[:, :n].astype(bool)


# ---- angles ----


def test_angles_are_geodesic_distances():
    result = paired_test(X, Y, **FEW)
    expected = np.degrees(geodesic_distance(X, Y))
    assert_allclose(result.angles, expected, rtol=1e-7)
    rows, angles = zip(*result.moved(7), strict=True)
    assert_array_equal(rows, np.argsort(-expected)[:7])
    assert_allclose(angles, np.sort(expected)[::-1][:7])
    record = result.as_record()["angles"]
    assert record == pytest.approx(
        {"median": np.median(expected), "90%": np.quantile(expected, 0.9), "99%": np.quantile(expected, 0.99)}
        | {"largest": expected.max()}
    )


@pytest.mark.parametrize("angle", [1e-9, 1e-3, 30, 90, 179, 180])
def test_angles_of_known_size(angle):
    after = X.copy()
    tangent = normalize(X[3][::-1] - (X[3] @ X[3][::-1]) * X[3])
    after[3] = np.cos(np.radians(angle)) * X[3] + np.sin(np.radians(angle)) * tangent
    result = paired_test(X, after, **FEW)
    assert result.moved(1) == [(3, pytest.approx(angle, rel=1e-6))]
    assert_array_equal(np.delete(result.angles, 3), 0)


@pytest.mark.parametrize(("allowed", "exceeded"), [(0, True), (0.049, True), (0.05, False), (1, False)])
def test_limit(allowed, exceeded):
    after = X.copy()
    after[:3] *= -1  # a share of 0.05
    result = paired_test(X, after, max_angle=90, allowed=allowed, **FEW)
    assert result.n_beyond == 3
    assert result.exceeded is result.as_record()["exceeded"] is exceeded
    assert result.summary == f"3 of 60 rows (5 %, {100 * allowed:.3g} % allowed) moved by more than 90 degrees."


def test_an_angle_at_the_limit_is_within_it():
    result = paired_test(X, -X, max_angle=180, **FEW)
    assert (result.n_beyond, result.exceeded) == (0, False)
    assert paired_test(X, X, **FEW).n_beyond is None


# ---- rotation ----


def test_rotation_is_that_of_scipy_on_the_other_half():
    half = np.random.default_rng(3).permutation(60) % 2 == 0
    rotated = _rotated(X, Y, np.random.default_rng(3))
    for rows in (half, ~half):
        assert_allclose(rotated[rows], X[rows] @ orthogonal_procrustes(X[~rows], Y[~rows])[0], atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rotated_copy(dtype):
    """A reflection explains everything and keeps all neighbors, although the rows are far from where they were."""
    x = sphere_sample(RNG, 200, 8, shift=0.3, dtype=dtype)
    result = paired_test(x, (x @ reflection(8)).astype(dtype), **FEW)
    assert np.median(result.angles) > 30
    assert np.max(result.rotated_angles) < (1e-4 if dtype is np.float32 else 1e-6)
    assert result.explained == pytest.approx(1, abs=1e-6)
    assert result.overlap == 1


@pytest.mark.parametrize("n", [40, 400])
def test_no_rotation_explains_unrelated_rows(n):
    """The rotation that fits all rows best would seem to explain about 0.85 sqrt(d / n): 24 % of 400 rows, d = 32."""
    x, y = sphere_sample(RNG, n, 32), sphere_sample(RNG, n, 32)
    matrix, _ = orthogonal_procrustes(x, y)
    if n == 400:
        assert 1 - np.sum((x @ matrix - y) ** 2) / np.sum((x - y) ** 2) > 0.2
    assert paired_test(x, y, **FEW).explained < 0.05


def test_rows_in_few_directions():
    """Directions without rows keep theirs: the rotation of 20 rows in 64 dimensions is not an arbitrary one."""
    x = sphere_sample(RNG, 20, 64)
    result = paired_test(x, x, **FEW)
    assert_allclose(result.rotated_angles, 0, atol=1e-5)
    assert result.explained == 0


# ---- neighbors ----


def brute_force(x, y, k):
    kept = []
    for i in range(len(x)):
        near = [set(np.argsort(np.where(np.arange(len(x)) == i, np.inf, cdist(p[[i]], p)[0]))[:k]) for p in (x, y)]
        kept.append(len(near[0] & near[1]) / k)
    return np.mean(kept)


@pytest.mark.parametrize("k", [1, 3, 10, 59])
@pytest.mark.parametrize("dim", [5, 9])
def test_neighbors_are_those_of_brute_force(k, dim, monkeypatch):
    after = Y if dim == 5 else normalize(np.concatenate([Y, 0.3 * RNG.normal(size=(60, 4))], axis=1))
    expected = brute_force(X, after, k)
    result = paired_test(X, after, neighbors=k, **FEW)
    assert result.overlap == pytest.approx(expected)
    assert (result.neighbors, result.n_queries) == (k, 60)
    monkeypatch.setattr(paired, "_BLOCK_ENTRIES", 7 * 60)  # 7 queries at once
    assert paired_test(X, after, neighbors=k, **FEW).overlap == result.overlap


def test_a_sample_of_queries(monkeypatch):
    """The mean over a random sample, which the result states, is near the mean over all rows."""
    monkeypatch.setattr(paired, "_MAX_QUERIES", 30)
    results = [paired_test(X, Y, **{**FEW, "seed": seed}) for seed in range(20)]
    assert {result.n_queries for result in results} == {30}
    assert "30 rows against all 60" in str(results[0])
    assert len({result.overlap for result in results}) > 1
    assert np.mean([result.overlap for result in results]) == pytest.approx(brute_force(X, Y, 10), abs=0.03)


# ---- the test ----


@pytest.mark.parametrize("p", [1, 2])
def test_permuted_distances_are_ssw_of_swapped_pairs(p):
    result = paired_test(X, Y, statistic="combined", **FEW)
    frames = result.test.projections
    generator = independent_generator(0, X)
    assert_array_equal(frames, sphereot.great_circles(5, 5, method="quasi", seed=generator, like=X))
    kept = swaps_of(_swapped_labelings(np.arange(60), 19, generator), 60)
    assert kept[0].all()
    assert 0.4 < kept[1:].mean() < 0.6
    swapped = [(np.where(row[:, None], X, Y), np.where(row[:, None], Y, X)) for row in kept]
    values = [sphereot.ssw(*pair, p=p, projections=frames) for pair in swapped]
    component = next(part for part in result.test.components if part.name == f"SSW_{p}")
    assert_allclose(component.statistic, values[0], rtol=1e-9)
    assert_allclose(component.null_mean, np.mean(values[1:]), rtol=1e-9)
    assert component.p_value == np.mean(np.array(values) >= values[0] * (1 - 1e-9))


@pytest.mark.parametrize("dim", [2, 3, 5, 64])
def test_even_part_is_the_sum_over_all_pairs_of_points(dim, monkeypatch):
    """w^T K_even w with w = 1/n on one sample and -1/n on the other one, with the kernel of all 2 n points."""
    x, y = sphere_sample(RNG, 30, dim), sphere_sample(RNG, 30, dim)
    generator = np.random.default_rng(0)
    labelings = _swapped_labelings(np.arange(30), 9, generator)
    pool = np.concatenate([x, y])
    squares = cdist(pool, pool, "sqeuclidean") / 4
    even = (kernel_value(squares, dim) + kernel_value(1 - squares, dim)) / 2
    weights = [np.where(np.concatenate([kept, ~kept]), 1, -1) / 30 for kept in swaps_of(labelings, 30)]
    expected = [weight @ even @ weight for weight in weights]
    sets = [LabelingSet(labelings, np.arange(10))]
    for rows in (256, 7):
        monkeypatch.setattr(_combined, "_ROWS", rows)
        assert_allclose(even_statistics(pool, sets, generator, paired=True), expected, rtol=0, atol=1e-9)
    monkeypatch.setattr(_combined, "MAX_POINTS_IN_GRAM", 40)
    rows = np.sort(np.random.default_rng(1).permutation(30)[:20])
    weights = [1.5 * weight[np.concatenate([rows, rows + 30])] for weight in weights]
    expected = [w @ even[np.ix_([*rows, *(rows + 30)], [*rows, *(rows + 30)])] @ w for w in weights]
    found = even_statistics(pool, sets, np.random.default_rng(1), paired=True)
    assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("n", "dim"), [(20, 3), (300, 64), (1700, 16)])
def test_equal_rows_have_p_value_one(n, dim):
    """No rounding decides: with equal rows, all labelings are ties."""
    x = sphere_sample(RNG, n, dim, dtype=np.float32)
    assert [part.p_value for part in paired_test(x, x.copy(), **FEW).test.components] == [1, 1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_equals_enumeration_of_all_swaps(seed):
    """With 6 pairs there are 64 swaps. The p-value of 3,999 random ones is within 4.5 binomial standard errors."""
    rng = np.random.default_rng(seed)
    x = sphere_sample(rng, 6, 3)
    y = normalize(x + 0.4 * rng.normal(size=x.shape) + [0.3, 0, 0])
    result = paired_test(x, y, neighbors=2, statistic="ssw", permutations=3999, n_projections=10, seed=seed)
    values = []
    for kept in product([True, False], repeat=6):
        rows = np.array(kept)[:, None]
        values.append(sphereot.ssw(np.where(rows, x, y), np.where(rows, y, x), projections=result.test.projections))
    assert result.test.statistic == pytest.approx(values[0])
    exact = np.mean(np.array(values) >= values[0] * (1 - 1e-9))
    assert result.test.p_value == pytest.approx(exact, abs=4.5 * np.sqrt(exact * (1 - exact) / 3999) + 1 / 4000)


def noisy_pairs(rng, n, *, shift):
    """Two noisy copies of common points; with `shift`, the second is moved."""
    centers = 2 * rng.normal(size=(n, 4))
    return [normalize(centers + 0.3 * rng.normal(size=centers.shape) + by) for by in (0, shift)]


@pytest.mark.parametrize("statistic", ["combined", "ssw"])
def test_level(statistic):
    """P(p <= 0.05) is 2 of 40 ranks: the count lies between the 0.0001 quantiles of its binomial distribution."""
    trials, rng = 400, np.random.default_rng(1)
    options = {"permutations": 39, "n_projections": 10, "neighbors": 1, "statistic": statistic}
    alarms = sum(
        paired_test(*noisy_pairs(rng, 20, shift=0), **options, seed=k).test.p_value <= 0.05 for k in range(trials)
    )
    assert binom.ppf(0.0001, trials, 0.05) <= alarms <= binom.ppf(0.9999, trials, 0.05)


def test_pairs_detect_what_two_samples_do_not():
    """The common points cancel within pairs, so a small shift of all rows is found."""
    x, y = noisy_pairs(np.random.default_rng(2), 100, shift=0.2)
    options = {"permutations": 199, "n_projections": 20, "seed": 0}
    assert paired_test(x, y, **options).test.p_value == 0.005
    assert sphereot.stats.two_sample_test(x, y, **options).p_value > 0.2


def test_groups_are_exchanged_together():
    groups = np.repeat(np.arange(12), 5)
    kept = swaps_of(_swapped_labelings(groups, 30, np.random.default_rng(0)), 60)
    assert all(len(set(row[groups == g])) == 1 for row in kept for g in range(12))
    result = paired_test(X, Y, groups=[f"text {g}" for g in groups], **FEW)
    assert result.test.n_groups == (12, 12)


def test_level_of_groups():
    """A common shift of all rows of a group is dependence: without groups, a test rejects far too often."""
    trials, rng, alarms, alarms_of_rows = 150, np.random.default_rng(4), 0, 0
    groups = np.repeat(np.arange(15), 8)
    for trial in range(trials):
        centers = rng.normal(size=(120, 3))
        x, y = (normalize(centers + 0.6 * rng.normal(size=(15, 3))[groups]) for _ in range(2))
        options = {"permutations": 39, "n_projections": 10, "seed": trial, "neighbors": 1}
        alarms += paired_test(x, y, groups=groups, **options).test.p_value <= 0.05
        alarms_of_rows += paired_test(x, y, **options).test.p_value <= 0.05
    assert binom.ppf(0.0001, trials, 0.05) <= alarms <= binom.ppf(0.9999, trials, 0.05)
    assert alarms_of_rows > 0.2 * trials


# ---- results and input ----


def test_different_dimensions():
    """Only the neighbors are compared, and the result says so."""
    after = normalize(Y[:, :4])
    result = paired_test(X, after, **FEW)
    assert result.dims == (5, 4)
    assert (result.angles, result.rotated_angles, result.explained, result.test) == (None, None, None, None)
    assert (result.n_beyond, result.exceeded, result.moved()) == (None, False, [])
    assert "The dimensions differ (5 and 4), so only the nearest neighbors are compared" in str(result)
    record = json.loads(json.dumps(result.as_record(), allow_nan=False))
    assert record["angles"] is record["test"] is record["explained"] is None
    assert record["overlap"] == result.overlap


def test_record_and_text():
    result = paired_test(X, Y, max_angle=5, **FEW)
    record = json.loads(json.dumps(result.as_record(), allow_nan=False))
    assert record["n"] == 60
    assert record["dims"] == [5, 5]
    assert record["test"]["p_value"] == result.test.p_value
    assert record["n_beyond"] == result.n_beyond
    lines = str(result).splitlines()
    assert lines[0] == result.summary
    assert [line.split()[0] for line in lines[1:6]] == ["angles", "rotated", "rotation", "neighbors", "test"]
    assert f"p-value {result.test.p_value:.4g} (19 random exchanges within pairs)" in lines[5]


def test_only_directions_in_half_precision():
    half = X.astype(np.float16)
    result = paired_test(X, half, **FEW)
    assert 0 < np.max(result.angles) < 0.05
    assert result.angles.dtype == np.float64


def test_tensors_give_the_same_result():
    torch = pytest.importorskip("torch")
    result, expected = paired_test(torch.asarray(X), torch.asarray(Y), **FEW), paired_test(X, Y, **FEW)
    assert_array_equal(result.angles, expected.angles)
    assert result.as_record() == expected.as_record()


def test_every_array_is_checked_once(monkeypatch):
    checks = count_unit_length_checks(monkeypatch)
    paired_test(X, Y[:, :5], **FEW)
    assert checks == {(60, 5): 2}  # two arrays of this shape


HOLE, LONG = X.copy(), X.copy()
HOLE[4, 2], LONG[5] = np.nan, 2 * X[5]

test_bad_input = refusal_test(
    {
        "rows": (
            lambda: paired_test(X, Y[:50]),
            ValueError,
            "must have the same rows, at least 2, got 60 and 50. Match",
        ),
        "one row": (lambda: paired_test(X[:1], Y[:1]), ValueError, "the same rows, at least 2, got 1 and 1"),
        "NaN": (lambda: paired_test(X, HOLE), ValueError, "after: row 4 holds NaN or infinity. Remove or fix"),
        "length": (lambda: paired_test(LONG, Y), ValueError, "before: row 5 has length 2, .* Normalize them first"),
        "no neighbors": (lambda: paired_test(X, Y, neighbors=0), ValueError, "must be an integer of at least 1, got 0"),
        "neighbors": (
            lambda: paired_test(X, Y, neighbors=60),
            ValueError,
            r"neighbors must be less than the number of rows \(60\), got 60. Use 59 or less",
        ),
        "max_angle": (
            lambda: paired_test(X, Y, max_angle=181),
            ValueError,
            "max_angle: the limit must be from 0 to 180 degrees, got 181",
        ),
        "allowed": (
            lambda: paired_test(X, Y, max_angle=1, allowed=2),
            ValueError,
            "allowed: the share must be from 0 to 1, got 2",
        ),
        "dimensions": (
            lambda: paired_test(X, normalize(Y[:, :4]), max_angle=1),
            ValueError,
            "max_angle needs points of equal dimensions, got 5 and 4. Leave it out",
        ),
        "permutations": (lambda: paired_test(X, Y, permutations=0), ValueError, "number of permutations must be"),
        "statistic": (lambda: paired_test(X, Y, statistic="mmd"), ValueError, "must be 'combined' or 'ssw', got 'mmd'"),
        "groups": (lambda: paired_test(X, Y, groups=[1, 2]), ValueError, r"one label per point, shape \(60,\)"),
        "no array": (lambda: paired_test("a", Y), TypeError, "before must be an array"),
    }
)
