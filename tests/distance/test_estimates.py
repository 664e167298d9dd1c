"""Estimates with standard errors: matrices of several samples, progress, the root and its error."""

from itertools import combinations

import numpy as np
import pytest
from helpers.bad_input import refusal_test
from helpers.generators import sphere_sample
from helpers.unit_length import count_unit_length_checks
from numpy.testing import assert_allclose, assert_array_equal

import sphereot

RNG = np.random.default_rng(0)
SAMPLES = [sphere_sample(RNG, n, 3, shift=shift) for n, shift in ((60, 0), (40, 0.5), (50, 1))]
WEIGHTS = [RNG.uniform(0.1, 1, len(x)) for x in SAMPLES[:2]] + [None]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2, 3, 16])
def test_pairwise_values_equal_pairwise_ssw(p, dtype):
    samples = [x.astype(dtype) for x in SAMPLES]
    estimate = sphereot.pairwise_ssw_estimate(samples, p=p, weights=WEIGHTS, n_projections=130, method="iid", seed=2)
    expected = sphereot.pairwise_ssw(samples, p=p, weights=WEIGHTS, n_projections=130, seed=2, root=True)
    rtol = 1e-6 if dtype is np.float32 else 1e-12
    assert_allclose(estimate.distances, expected, rtol=rtol)
    assert_allclose(estimate.values, estimate.distances**p, rtol=1e-10)
    assert estimate.n_projections == 130


def test_pairwise_errors_are_those_of_single_pairs():
    """With one great circle per group the errors are equal; 50 groups of several estimate the error to a tenth."""
    for n_projections, rtol in ((40, 1e-9), (500, 0.5)):
        estimate = sphereot.pairwise_ssw_estimate(SAMPLES, n_projections=n_projections, method="iid", seed=1)
        for i, j in combinations(range(3), 2):
            pair = sphereot.ssw_estimate(SAMPLES[i], SAMPLES[j], n_projections=n_projections, method="iid", seed=1)
            assert_allclose(estimate.values[i, j], pair.value, rtol=1e-12)
            assert_allclose(estimate.standard_errors[i, j], pair.standard_error, rtol=rtol)
            assert_allclose(estimate.distances[i, j], pair.distance, rtol=1e-12)
            assert_allclose(estimate.distance_standard_errors[i, j], pair.distance_standard_error, rtol=rtol)
        for matrix in (estimate.values, estimate.standard_errors, estimate.distances):
            assert_array_equal(matrix, matrix.T)
            assert_array_equal(np.diag(matrix), 0)


@pytest.mark.parametrize("method", ["iid", "orthogonal", "quasi"])
def test_pairwise_errors_are_the_spread_over_seeds(method):
    """The variance of 200 values is known to 10%, the mean of their squared standard errors better than that."""
    several = [
        sphereot.pairwise_ssw_estimate(SAMPLES[:2], n_projections=100, method=method, seed=seed) for seed in range(200)
    ]
    variance = np.var([estimate.values[0, 1] for estimate in several], ddof=1)
    assert_allclose(np.mean([estimate.standard_errors[0, 1] ** 2 for estimate in several]), variance, rtol=0.4)


def test_pairwise_tolerance_holds_for_every_pair():
    estimate = sphereot.pairwise_ssw_estimate(SAMPLES, seed=0, n_projections=10, rtol=0.05)
    assert (estimate.standard_errors <= 0.05 * estimate.values).all()
    assert estimate.n_projections in {10 * 2**k for k in range(20)}
    short = sphereot.pairwise_ssw_estimate(SAMPLES, seed=0, rtol=1e-6, max_projections=333)
    assert short.n_projections == 325  # replicates of 25


def test_one_great_circle_has_no_error():
    estimate = sphereot.pairwise_ssw_estimate(SAMPLES, n_projections=1, seed=0)
    assert_array_equal(np.isnan(estimate.standard_errors), ~np.eye(3, dtype=bool))
    assert_array_equal(np.isnan(estimate.distance_standard_errors), ~np.eye(3, dtype=bool))
    assert np.isnan(sphereot.ssw_estimate(*SAMPLES[:2], n_projections=1).distance_standard_error)


def test_one_sample():
    assert sphereot.pairwise_ssw_estimate(SAMPLES[:1], seed=0, rtol=0.1).values == [[0]]


@pytest.mark.parametrize("p", [1, 2, 5])
def test_error_of_the_root_is_that_of_a_small_step(p):
    estimate = sphereot.ssw_estimate(*SAMPLES[:2], p=p, method="iid", seed=0)
    assert_allclose(estimate.distance, sphereot.ssw(*SAMPLES[:2], p=p, seed=0, root=True), rtol=1e-12)
    step = 1e-4 * estimate.standard_error
    slope = ((estimate.value + step) ** (1 / p) - (estimate.value - step) ** (1 / p)) / (2 * step)
    assert_allclose(estimate.distance_standard_error, slope * estimate.standard_error, rtol=1e-6)
    same = sphereot.ssw_estimate(SAMPLES[0], SAMPLES[0], p=p, seed=0)
    assert (same.distance, same.distance_standard_error) == (0, 0)


@pytest.mark.parametrize("rtol", [None, 0.002])
@pytest.mark.parametrize("other", [SAMPLES[1], None], ids=["sample", "uniform"])
def test_progress_changes_nothing(monkeypatch, rtol, other):
    monkeypatch.setattr("sphereot.distance.estimates._POINTS_PER_STEP", 1)
    steps = []
    settings = {"seed": 3, "rtol": rtol, "n_projections": 50}
    quiet = sphereot.ssw_estimate(SAMPLES[0], other, **settings)
    reported = sphereot.ssw_estimate(SAMPLES[0], other, progress=lambda *step: steps.append(step), **settings)
    assert_array_equal(reported.slice_costs, quiet.slice_costs)
    assert (reported.value, reported.standard_error) == (quiet.value, quiet.standard_error)
    assert steps[-1] == (quiet.n_projections, quiet.n_projections)
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})
    assert len(steps) >= 6  # great circles come in steps of eight at least
    assert all(total in {50 * 2**k for k in range(10)} for _, total in steps)


def test_pairwise_progress_changes_nothing():
    steps = []
    settings = {"seed": 3, "rtol": 0.005}
    quiet = sphereot.pairwise_ssw_estimate(SAMPLES, **settings)
    reported = sphereot.pairwise_ssw_estimate(SAMPLES, progress=lambda *step: steps.append(step), **settings)
    assert_array_equal(reported.values, quiet.values)
    assert_array_equal(reported.standard_errors, quiet.standard_errors)
    assert steps[0] == (25, 200)
    assert steps[-1] == (quiet.n_projections, quiet.n_projections)


@pytest.mark.parametrize("library", ["torch", "jax", "array_api_strict"])
def test_pairwise_in_every_library(library):
    module = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))
    samples = [module.asarray(x) for x in SAMPLES]
    settings = {"seed": 3, "rtol": 0.05}
    expected = sphereot.pairwise_ssw_estimate(SAMPLES, **settings)
    estimate = sphereot.pairwise_ssw_estimate(samples, **settings)
    assert isinstance(estimate.values, np.ndarray)
    assert estimate.n_projections == expected.n_projections
    assert_allclose(estimate.values, expected.values, rtol=1e-9)
    assert_allclose(estimate.standard_errors, expected.standard_errors, rtol=1e-6)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_generators_continue_between_rounds(library):
    """With rtol, later rounds draw other great circles than the first: the error falls as that of independent ones."""
    module = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))
    seed = module.Generator().manual_seed(5) if library == "torch" else pytest.importorskip("jax").random.key(5)
    samples = [module.asarray(x) for x in SAMPLES]
    estimate = sphereot.pairwise_ssw_estimate(samples, seed=seed, n_projections=50, rtol=1e-9, max_projections=800)
    exact = sphereot.pairwise_ssw_estimate(SAMPLES, seed=0, n_projections=20_000)
    assert (abs(estimate.values - exact.values) <= 5 * (estimate.standard_errors + exact.standard_errors)).all()


def test_tensors_that_require_gradients():
    torch = pytest.importorskip("torch")
    samples = [torch.asarray(x).requires_grad_() for x in SAMPLES]
    weights = [torch.ones(len(x), dtype=torch.float64, requires_grad=True) for x in SAMPLES]
    estimate = sphereot.pairwise_ssw_estimate(samples, weights=weights, method="iid", seed=0)
    assert_allclose(estimate.values, sphereot.pairwise_ssw(SAMPLES, seed=0), rtol=1e-9)


def test_points_are_validated_once(monkeypatch):
    checks = count_unit_length_checks(monkeypatch)
    sphereot.pairwise_ssw_estimate(SAMPLES, seed=0, rtol=0.05)
    sphereot.ssw_estimate(*(x[1:] for x in SAMPLES[:2]), seed=0, rtol=0.05, progress=lambda done, total: None)
    assert checks == {x.shape: 1 for x in (*SAMPLES, *(x[1:] for x in SAMPLES[:2]))}


X, Y = SAMPLES[:2]
estimate_of = sphereot.pairwise_ssw_estimate

test_bad_input = refusal_test(
    {
        "no measures": (lambda: estimate_of([]), ValueError, "measures must have at least one sample, got none"),
        "length": (lambda: estimate_of([X, 2 * Y]), ValueError, r"measures\[1\]: row 0 has length 2"),
        "dimensions": (lambda: estimate_of([X, np.eye(4)]), ValueError, r"measures\[1\] in dimension 4"),
        "count of weights": (
            lambda: estimate_of([X, Y], weights=[None]),
            ValueError,
            "weights must have one array, or None, for each of 2 measures, got 1",
        ),
        "weights": (
            lambda: estimate_of([X, Y], weights=[None, -np.ones(40)]),
            ValueError,
            r"weights\[1\]: weights cannot be negative, got -1",
        ),
        "order": (lambda: estimate_of([X, Y], p=0.5), ValueError, "p: .*, got 0.5"),
        "no great circles": (lambda: estimate_of([X, Y], n_projections=0), ValueError, "n_projections: .*, got 0"),
        "tolerance": (lambda: estimate_of([X, Y], rtol=0), ValueError, "rtol: .*, got 0"),
        "most": (lambda: estimate_of([X, Y], rtol=0.1, max_projections=0), ValueError, "max_projections: .* 0"),
        "seed": (lambda: estimate_of([X, Y], seed="now"), TypeError, "seed: .*, got str"),
        "progress": (lambda: estimate_of([X, Y], progress="yes"), TypeError, "progress must be .*got 'yes'"),
        "progress of one pair": (lambda: sphereot.ssw_estimate(X, Y, progress=3), TypeError, "progress must be .*3"),
        "position": (lambda: estimate_of([X, Y], 2), TypeError, "takes 1 positional argument but 2 were given"),
    }
)


# ---- the default method, and intervals ----


def tight_pair(dim, spread, separation, n=100):
    rng = np.random.default_rng(dim)
    axes = np.eye(dim)

    def cluster(center):
        noise = rng.standard_normal((n, dim))
        noise -= np.outer(noise @ center, center)
        return sphereot.sphere.exp(center, spread / np.sqrt(dim - 1) * noise)

    return cluster(axes[0]), cluster(np.cos(separation) * axes[0] + np.sin(separation) * axes[1])


def wide_pair(dim, n=150):
    rng = np.random.default_rng(dim)
    return sphere_sample(rng, n, dim, shift=0.5), sphere_sample(rng, n - 30, dim, shift=1)


def test_the_method_follows_the_data():
    x, y = wide_pair(3)
    assert sphereot.ssw_estimate(x, y, seed=0).method == "quasi"
    assert sphereot.ssw_estimate(x, y, seed=0).n_controls == 0
    assert sphereot.ssw_estimate(*wide_pair(10), seed=0).n_controls == 10
    assert sphereot.ssw_estimate(*wide_pair(10), p=10, seed=0).n_controls == 0
    assert sphereot.ssw_estimate(*tight_pair(3, 0.01, 0.01), seed=0).method == "importance"
    assert sphereot.ssw_estimate(*tight_pair(64, 0.01, 0.01), seed=0).method == "importance"
    assert sphereot.ssw_estimate(x, seed=0).method == "exact"
    assert sphereot.ssw_estimate(x, seed=0, n_projections=50).method == "quasi"
    assert sphereot.ssw_estimate(x, p=1, seed=0).method == "quasi"
    assert sphereot.ssw_estimate(x, y, projections=sphereot.great_circles(9, 3)).method == "given"
    for method in ("iid", "orthogonal", "quasi"):
        assert sphereot.ssw_estimate(x, y, method=method, n_projections=30).method == method


def test_the_exact_estimate_has_no_error():
    x, _ = wide_pair(4)
    estimate = sphereot.ssw_estimate(x, rtol=0.01)
    assert estimate.value == float(sphereot.ssw_uniform(x, method="exact"))
    assert (estimate.standard_error, estimate.n_projections, estimate.n_replicates) == (0, 0, 0)
    assert estimate.confidence_interval() == (estimate.value, estimate.value)
    assert str(estimate) == f"{estimate.value:.6g} (exact, p = 2)"


CASES = {
    "wide, d = 3": wide_pair(3),
    "wide, d = 10": wide_pair(10),
    "tight, d = 3": tight_pair(3, 0.01, 0.01),
    "tight, d = 8": tight_pair(8, 0.03, 0.001),
    "tight, d = 64": tight_pair(64, 0.001, 0.03),
}


@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_true_value(case):
    """Of 200 intervals at 95%, 190 within 4 binomial standard deviations; and the error is at most 10% of the value.

    The true value comes from 300 times as many great circles: its own error is less than a tenth of an estimate's.
    """
    x, y = CASES[case]
    truth = sphereot.ssw_estimate(x, y, n_projections=60_000, seed=10**6).value
    estimates = [sphereot.ssw_estimate(x, y, n_projections=200, seed=seed) for seed in range(200)]
    covered = sum(low <= truth <= high for low, high in (one.confidence_interval() for one in estimates))
    assert abs(covered - 190) <= 4 * np.sqrt(200 * 0.95 * 0.05)
    assert np.median([one.standard_error for one in estimates]) <= 0.1 * truth
    # Unbiased: the mean of 200 values is within 4 of its standard errors.
    values = [one.value for one in estimates]
    assert abs(np.mean(values) - truth) <= 4 * np.std(values) / np.sqrt(200)


def test_importance_agrees_with_many_independent_great_circles():
    x, y = tight_pair(3, 0.1, 0.1)
    estimate = sphereot.ssw_estimate(x, y, n_projections=4000, seed=0, method="importance")
    independent = sphereot.ssw_estimate(x, y, n_projections=400_000, method="iid", seed=1)
    error = np.hypot(estimate.standard_error, independent.standard_error)
    assert abs(estimate.value - independent.value) <= 4 * error
    assert_allclose(np.mean(estimate.slice_weights * estimate.slice_costs), estimate.value, rtol=1e-12)


def test_heavy_tails_are_not_reliable():
    x, y = tight_pair(3, 0.001, 0.001)
    for seed in range(5):
        assert not sphereot.ssw_estimate(x, y, method="iid", n_projections=300, seed=seed).reliable
    estimate = sphereot.ssw_estimate(x, y, n_projections=300, seed=0)
    assert estimate.reliable
    assert "not reliable" in str(sphereot.ssw_estimate(x, y, method="iid", n_projections=300, seed=0))
    assert str(estimate).endswith("(300 great circles, importance, 8 replicates, p = 2)")
    assert sphereot.ssw_estimate(*wide_pair(3), method="iid", n_projections=20, seed=0).reliable


def moved_pair(dim, n=40, size=1e-3, moved=slice(None)):
    """A sample, and the same sample with some of its points moved by a short random vector."""
    rng = np.random.default_rng(dim)
    x = sphere_sample(rng, n, dim)
    y = x.copy()
    y[moved] += size * rng.standard_normal(x[moved].shape)
    return x, sphereot.sphere.normalize(y)


@pytest.mark.parametrize("case", [(3, {}), (20, {"n": 25}), (10, {"n": 50, "moved": slice(5)})])
def test_intervals_hold_for_points_that_nearly_coincide(case):
    """The great circles near the poles of the points carry the value; uniform ones miss most of them."""
    dim, options = case
    x, y = moved_pair(dim, **options)
    truth = sphereot.ssw_estimate(x, y, n_projections=400_000, seed=10**6)
    estimates = [sphereot.ssw_estimate(x, y, seed=seed) for seed in range(200)]
    assert {one.method for one in estimates} == {"importance"}
    covered = sum(low <= truth.value <= high for low, high in (one.confidence_interval() for one in estimates))
    assert abs(covered - 190) <= 4 * np.sqrt(200 * 0.95 * 0.05)
    values = [one.value for one in estimates]
    assert abs(np.mean(values) - truth.value) <= 4 * np.hypot(np.std(values) / np.sqrt(200), truth.standard_error)
    for method in ("iid", "orthogonal", "quasi"):
        assert not any(sphereot.ssw_estimate(x, y, method=method, seed=seed).reliable for seed in range(20))
    assert not sphereot.ssw_estimate(x, y, projections=sphereot.great_circles(200, dim, seed=0)).reliable


@pytest.mark.parametrize(("dim", "p", "size"), [(4, 1, 1e-5), (3, 1.3, 1e-2), (6, 1, 1e-4), (100, 1, 1e-5)])
def test_intervals_hold_for_low_orders_of_nearly_equal_samples(dim, p, size):
    """Control variates explain most of the cost. On the rare great circles where they do not, they add no error."""
    x, y = moved_pair(dim, size=size)
    truth = sphereot.ssw_estimate(x, y, p=p, n_projections=60_000, seed=10**6)
    estimates = [sphereot.ssw_estimate(x, y, p=p, seed=seed) for seed in range(200)]
    assert all(one.reliable and one.method == "importance" and one.n_controls > 0 for one in estimates)
    covered = sum(low <= truth.value <= high for low, high in (one.confidence_interval() for one in estimates))
    assert abs(covered - 190) <= 4 * np.sqrt(200 * 0.95 * 0.05)
    values, errors = np.array([(one.value, one.standard_error) for one in estimates]).T
    assert abs(np.mean(values) - truth.value) <= 4 * np.hypot(np.std(values) / np.sqrt(200), truth.standard_error)
    assert np.median(errors) <= 0.01 * truth.value
    assert not any(sphereot.ssw_estimate(x, y, p=p, method="quasi", seed=seed).reliable for seed in range(20))
    assert all(sphereot.ssw_estimate(x, -y, p=p, seed=seed).reliable for seed in range(5))


def test_higher_orders_of_points_that_nearly_coincide_are_not_reliable():
    """Coverage is 87 % for p = 3 in d = 6 (python -m benchmarks.coverage)."""
    estimates = [sphereot.ssw_estimate(*moved_pair(6), p=3, seed=seed) for seed in range(5)]
    assert {one.method for one in estimates} == {"importance"}
    assert not any(one.reliable for one in estimates)


def test_weights_that_differ_outweigh_a_small_move():
    """Most of the cost comes from masses that differ, so uniform great circles serve, and are reliable."""
    x, y = moved_pair(4)
    weights = np.random.default_rng(0).exponential(size=40)
    estimate = sphereot.ssw_estimate(x, y, x_weights=weights, seed=0)
    assert estimate.method == "quasi"
    assert estimate.reliable


def test_points_without_weight_are_not_neighbors():
    x, y = moved_pair(3)
    far = sphereot.sphere.normalize(x + 0.5)
    estimate = sphereot.ssw_estimate(x, np.concatenate([far, y]), y_weights=np.repeat([1.0, 0.0], 40), seed=0)
    assert estimate.method == "quasi"


def test_heavy_tails_of_order_one():
    x, y = tight_pair(3, 0.005, 0.02)
    truth = sphereot.ssw_estimate(x, y, p=1, n_projections=100_000, seed=10**6).value
    intervals = [sphereot.ssw_estimate(x, y, p=1, seed=seed).confidence_interval() for seed in range(200)]
    assert abs(sum(low <= truth <= high for low, high in intervals) - 190) <= 4 * np.sqrt(200 * 0.95 * 0.05)


def test_several_tight_clusters():
    """Clusters at three places in both samples, a little apart: each has a pole of its own."""
    rng = np.random.default_rng(4)
    pairs = [tight_pair(3, 0.003, 0.005) for _ in range(3)]
    turns = [np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(3)]
    x, y = (np.concatenate([pair[k] @ turn for pair, turn in zip(pairs, turns, strict=True)]) for k in (0, 1))
    estimates = [sphereot.ssw_estimate(x, y, n_projections=1000, seed=seed) for seed in range(30)]
    assert {one.method for one in estimates} == {"importance"}
    spread = np.std([one.value for one in estimates], ddof=1)
    assert spread <= 0.05 * np.mean([one.value for one in estimates])
    assert_allclose(np.mean([one.standard_error for one in estimates]), spread, rtol=0.5)


@pytest.mark.parametrize("library", ["torch", "jax", "array_api_strict"])
@pytest.mark.parametrize("case", ["wide, d = 10", "tight, d = 3"])
def test_estimates_in_every_library(library, case):
    module = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))
    x, y = CASES[case]
    expected = sphereot.ssw_estimate(x, y, seed=3)
    estimate = sphereot.ssw_estimate(module.asarray(x), module.asarray(y), seed=3)
    assert estimate.method == expected.method
    rtol = 1e-3 if library == "jax" else 1e-6  # JAX computes in float32
    assert_allclose(estimate.value, expected.value, rtol=rtol)


def test_importance_needs_concentrated_points():
    with pytest.raises(ValueError, match="neither concentrated nor close to the points of the other sample"):
        sphereot.ssw_estimate(*(sphere_sample(RNG, 50, 3) for _ in range(2)), method="importance")
    with pytest.raises(ValueError, match="Pass one of them"):
        sphereot.ssw_estimate(*SAMPLES[:2], method="iid", projections=sphereot.great_circles(5, 3))
    with pytest.raises(ValueError, match="must be one of 'iid', 'orthogonal', 'quasi', 'importance'"):
        sphereot.ssw_estimate(*SAMPLES[:2], method="sobol")


# ---- hard cases ----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [5, 20, 32])
def test_controls_that_are_constant_explain_nothing(dim, dtype):
    """One point, copies of it with weights, and antipodal points: every great circle has the same, known cost."""
    point = np.eye(dim, dtype=dtype)[:1]
    copies, weights = np.repeat(point, 4, axis=0), np.array([0.3, 0.1, 0.7, 0.2])
    for x, a in ((point, None), (copies, weights)):
        assert_allclose(sphereot.ssw_estimate(x, x_weights=a, p=3, seed=0).value, 2 * 0.5**4 / 4, rtol=1e-4)
        assert_allclose(sphereot.ssw_estimate(x, -x, x_weights=a, seed=0).value, 0.25, rtol=1e-4)
    assert sphereot.ssw_estimate(copies, copies, y_weights=weights, seed=0).value <= 1e-12


@pytest.mark.parametrize("step", [1e-3, 1e-4])
def test_float32_samples_that_are_nearly_equal(step):
    """The control variates are precise enough for costs of 1e-9: float32 agrees with well-placed circles alone."""
    rng = np.random.default_rng(5)
    x = sphere_sample(rng, 300, 8)
    y = sphereot.sphere.normalize(x + step * rng.standard_normal(x.shape))
    x, y = x.astype(np.float32), y.astype(np.float32)
    estimate = sphereot.ssw_estimate(x, y, seed=0)
    plain = sphereot.ssw_estimate(x, y, seed=1, n_projections=2000, method="quasi")
    assert abs(estimate.value - plain.value) <= 4.5 * np.hypot(estimate.standard_error, plain.standard_error)


@pytest.mark.parametrize("p", [10, 16])
def test_high_orders(p):
    x, y = tight_pair(3, 0.001, 0.002, n=30)
    estimate = sphereot.ssw_estimate(x, y, p=p, n_projections=100, seed=0)
    assert estimate.value > 0
    assert estimate.standard_error > 0
    wide = sphereot.ssw_estimate(*(sphere_sample(RNG, n, 3) for n in (30, 20)), p=p, n_projections=100, seed=0)
    assert wide.standard_error > 0
    errors = sphereot.pairwise_ssw_estimate(SAMPLES[:2], p=p, n_projections=40, seed=0).standard_errors
    assert errors[0, 1] > 0


def test_points_without_weight_do_not_matter():
    """Scattered points of weight 0 do not hide that the others are tight."""
    x, y = tight_pair(3, 0.01, 0.01, n=50)
    scattered = sphere_sample(RNG, 70, 3)
    weights = np.repeat([1.0, 0.0], [50, 70])
    estimate = sphereot.ssw_estimate(np.concatenate([x, scattered]), y, x_weights=weights, n_projections=1000, seed=0)
    expected = sphereot.ssw_estimate(x, y, n_projections=1000, seed=1)
    assert estimate.method == "importance"
    assert abs(estimate.value - expected.value) <= 4.5 * np.hypot(estimate.standard_error, expected.standard_error)


def test_replicates_have_one_size_however_many():
    """Replicates that rtol adds have the size of the first ones, so that their variances are equal."""
    x, y = wide_pair(3)
    estimate = sphereot.ssw_estimate(x, y, rtol=1e-9, seed=0, n_projections=200, max_projections=1010)
    assert (estimate.n_projections, estimate.n_replicates) == (1000, 40)
    several = [
        sphereot.ssw_estimate(x, y, rtol=1e-9, seed=seed, n_projections=80, max_projections=399) for seed in range(150)
    ]
    variance = np.var([one.value for one in several], ddof=1)
    # A variance from 150 values is known to 12 percent.
    assert_allclose(np.mean([one.standard_error**2 for one in several]), variance, rtol=0.5)


def test_frames_in_parts_give_the_same_numbers(monkeypatch):
    x, y = wide_pair(8)
    whole = sphereot.ssw_estimate(x, y, seed=0)
    monkeypatch.setattr("sphereot.distance.estimates._MAX_COORDINATES", 1000)
    parts = sphereot.ssw_estimate(x, y, seed=0)
    assert_array_equal(parts.slice_costs, whole.slice_costs)
    assert (parts.value, parts.standard_error) == (whole.value, whole.standard_error)


def test_exact_values_of_float32_points_are_precise():
    turns = np.arange(1000) / 1000
    x = np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], axis=1)
    estimate = sphereot.ssw_estimate(x.astype(np.float32))
    assert_allclose(estimate.value, 1 / (12 * 1000**2), rtol=1e-3)  # rounded points are not equidistant


def test_many_dimensions_and_few_circles(rng):
    x, y = tight_pair(300, 0.01, 0.01, n=20)
    estimate = sphereot.ssw_estimate(x, y, n_projections=40, seed=0)
    assert estimate.method == "importance"
    clusters = np.concatenate([x, sphere_sample(rng, 12, 300)])
    assert sphereot.ssw_estimate(clusters, y, n_projections=40, seed=0).value > 0
