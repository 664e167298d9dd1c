"""SSW is the mean of exact circle costs, and a pseudo-distance as the paper proves."""

import numpy as np
import pytest
from helpers.generators import linear_program, sphere_sample
from numpy.testing import assert_allclose
from scipy.stats import t

import sphereot
from sphereot._backends import native as _native
from sphereot._backends.array_api import backend as portable
from sphereot._backends.protocol import Measure

ORDERS = [1, 1.5, 2, 3]


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("d", [2, 3, 10, 60])
def test_is_the_mean_over_slices_of_the_circle_cost(p, d, rng):
    """Algorithm 1 written out: project, compute turns, solve each circle by linear programming, average."""
    x, y = sphere_sample(rng, 25, d), sphere_sample(rng, 18, d, shift=1)
    frames = sphereot.great_circles(6, d, seed=1)
    costs = []
    for frame in frames:
        turns = [(np.pi + np.arctan2(-q[:, 1], -q[:, 0])) / (2 * np.pi) for q in (x @ frame, y @ frame)]
        costs.append(linear_program(*turns, p=p))
    assert_allclose(sphereot.ssw(x, y, p=p, projections=frames), np.mean(costs), rtol=1e-9)
    assert_allclose(sphereot.ssw(x, y, p=p, projections=frames, root=True), np.mean(costs) ** (1 / p), rtol=1e-9)


@pytest.mark.parametrize("d", [3, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_backends_agree_on_slices(d, dtype, rng):
    x, y = sphere_sample(rng, 300, d, dtype=dtype), sphere_sample(rng, 250, d, shift=1, dtype=dtype)
    a, b = rng.random(300), rng.random(250)
    frames = sphereot.great_circles(20, d, seed=1, like=x)
    rtol = 1e-9 if dtype == np.float64 else 1e-4
    for weights in ((None, None), (a, None), (a, b)):
        native = sphereot.ssw(x, y, projections=frames, x_weights=weights[0], y_weights=weights[1])
        a32, b32 = (None if w is None else w.astype(dtype) for w in weights)
        other = portable.slice_costs([Measure(x, a32), Measure(y, b32)], frames, 2.0)
        assert native.dtype == dtype
        assert_allclose(native, np.mean(other), rtol=rtol)
    uniform = sphereot.ssw_uniform(x, projections=frames, weights=a)
    assert_allclose(uniform, np.mean(portable.slice_costs([Measure(x, a.astype(dtype))], frames, 2.0)), rtol=rtol)


@pytest.mark.parametrize("p", ORDERS)
def test_pseudo_distance(p, rng):
    """Proposition 5, on shared slices: symmetry, zero at equality, triangle inequality."""
    x, y, z = (sphere_sample(rng, n, 4, shift=s) for n, s in ((50, 0), (40, 1), (60, 2)))
    frames = sphereot.great_circles(30, 4, seed=0)

    def distance(s, t):
        return sphereot.ssw(s, t, p=p, projections=frames, root=True)

    assert_allclose(distance(x, y), distance(y, x), rtol=1e-12)
    assert sphereot.ssw(x, x[::-1], p=p, projections=frames) == 0
    assert distance(x, z) <= distance(x, y) + distance(y, z) + 1e-12


@pytest.mark.parametrize("p", ORDERS)
def test_rotating_both_samples_and_the_slices_changes_nothing(p, rng):
    x, y = sphere_sample(rng, 60, 5), sphere_sample(rng, 60, 5, shift=1)
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    frames = sphereot.great_circles(20, 5, seed=0)
    assert_allclose(
        sphereot.ssw(x @ rotation.T, y @ rotation.T, p=p, projections=rotation @ frames),
        sphereot.ssw(x, y, p=p, projections=frames),
        rtol=1e-10,
    )


@pytest.mark.parametrize("p", ORDERS)
def test_a_large_uniform_sample_tends_to_the_uniform_measure(p, rng):
    """|SSW_p(x, u_m) - SSW_p(x, unif)| <= SSW_p(u_m, unif), all on the same slices, and that falls with m."""
    x = sphere_sample(rng, 200, 3, shift=1)
    frames = sphereot.great_circles(50, 3, seed=0)
    against_uniform = sphereot.ssw_uniform(x, p=p, projections=frames, root=True)
    gaps = []
    for m in (200, 20_000):
        sample = sphereot.sphere.random_uniform(m, 3, seed=m)
        rest = sphereot.ssw_uniform(sample, p=p, projections=frames, root=True)
        gap = abs(sphereot.ssw(x, sample, p=p, projections=frames, root=True) - against_uniform)
        assert gap <= rest + 1e-12
        gaps.append(rest)
    assert gaps[1] < 0.25 * gaps[0]  # about 1 / sqrt(100)


def test_monte_carlo_error_falls_like_the_root_of_l(rng):
    """The variance over draws is Var(slice cost) / L, by the paper's proposition on projection complexity."""
    x, y = sphere_sample(rng, 60, 3), sphere_sample(rng, 60, 3, shift=1)
    variances = {}
    for count in (10, 160):
        frames = sphereot.great_circles(400 * count, 3, seed=count)
        costs = sphereot.ssw_estimate(x, y, projections=frames).slice_costs.reshape(400, count)
        variances[count] = np.var(costs.mean(axis=1), ddof=1)
    # Each variance estimate has a relative standard error sqrt(2 / 399) = 7%, the ratio 10%.
    assert variances[10] / variances[160] == pytest.approx(16, rel=0.4)


def test_sample_error_does_not_grow_with_dimension():
    """Each slice of uniform samples is a pair of uniform samples on a circle, whatever d: equal means over trials."""
    means, errors = [], []
    for d in (3, 50, 300):
        values = []
        for trial in range(60):
            rng = np.random.default_rng([d, trial])
            values.append(
                sphereot.ssw(sphere_sample(rng, 200, d), sphere_sample(rng, 200, d), n_projections=50, seed=rng)
            )
        means.append(np.mean(values))
        errors.append(np.std(values, ddof=1) / np.sqrt(60))
    for mean, error in zip(means[1:], errors[1:], strict=True):
        assert abs(mean - means[0]) <= 4 * np.hypot(error, errors[0])


# ---- estimates ----


def test_estimate_is_the_mean_with_its_standard_error(rng):
    x, y = sphere_sample(rng, 80, 3), sphere_sample(rng, 70, 3, shift=1)
    estimate = sphereot.ssw_estimate(x, y, seed=5, n_projections=64, method="iid")
    assert estimate.n_projections == 64
    assert_allclose(estimate.value, sphereot.ssw(x, y, seed=5, n_projections=64), rtol=1e-12)
    assert_allclose(estimate.standard_error, np.std(estimate.slice_costs, ddof=1) / 8, rtol=1e-12)
    low, high = estimate.confidence_interval(0.9)
    assert_allclose([high - estimate.value, estimate.value - low], t.ppf(0.95, 63) * estimate.standard_error)


def test_confidence_interval_covers(rng):
    """Of 300 intervals at 90%, the truth (20,000 slices) is in 90% within 4 binomial standard deviations."""
    x = sphere_sample(rng, 40, 3, shift=1)
    truth = sphereot.ssw_estimate(x, n_projections=20_000, seed=0).value
    n_covering = 0
    for seed in range(300):
        low, high = sphereot.ssw_estimate(x, n_projections=100, seed=seed + 1).confidence_interval(0.9)
        n_covering += low <= truth <= high
    assert abs(n_covering - 270) <= 4 * np.sqrt(300 * 0.9 * 0.1)


def test_tolerance_is_met_or_the_limit_reached(rng):
    x, y = sphere_sample(rng, 50, 3), sphere_sample(rng, 50, 3, shift=2)
    estimate = sphereot.ssw_estimate(x, y, rtol=0.005, seed=0, n_projections=50)
    assert estimate.standard_error <= 0.005 * estimate.value
    assert estimate.n_projections == 50 * estimate.n_replicates // 8
    limited = sphereot.ssw_estimate(x, y, rtol=1e-9, seed=0, n_projections=50, max_projections=300)
    assert 300 - 7 < limited.n_projections <= 300  # replicates of 6 or 7
    same = sphereot.ssw_estimate(x, y, rtol=0.005, seed=0, n_projections=50)
    assert same.value == estimate.value
    assert sphereot.ssw_estimate(x, x, rtol=0.01).value == 0


def test_single_slice_has_no_standard_error(rng):
    assert np.isnan(sphereot.ssw_estimate(sphere_sample(rng, 5, 3), n_projections=1).standard_error)


# ---- pairs ----


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("d", [3, 60])
def test_pairwise_equals_one_by_one(p, d, rng):
    samples = [sphere_sample(rng, n, d, shift=n / 40) for n in (40, 40, 25, 60)]
    weights = [None, None, rng.random(25), rng.random(60)]
    frames = sphereot.great_circles(15, d, seed=3)
    square = sphereot.pairwise_ssw(samples, p=p, weights=weights, projections=frames)
    assert square.shape == (4, 4)
    for i in range(4):
        for j in range(4):
            one = sphereot.ssw(
                samples[i], samples[j], p=p, x_weights=weights[i], y_weights=weights[j], projections=frames
            )
            assert_allclose(square[i, j], one, rtol=1e-9, atol=1e-15)
    assert_allclose(
        sphereot.pairwise_ssw(samples, p=p, weights=weights, projections=frames, root=True),
        square ** (1 / p),
        rtol=1e-12,
    )


def test_pairwise_of_one_and_of_a_cube(rng):
    cube = np.stack([sphere_sample(rng, 20, 3) for _ in range(3)])
    assert sphereot.pairwise_ssw(cube[:1]).tolist() == [[0.0]]
    assert_allclose(sphereot.pairwise_ssw(cube, seed=1), sphereot.pairwise_ssw(list(cube), seed=1))


# ---- seeds, slices, dtypes ----


def test_seeds(rng):
    x, y = sphere_sample(rng, 30, 3), sphere_sample(rng, 30, 3, shift=1)
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (the global state is what must not change)
    assert sphereot.ssw(x, y, seed=4) == sphereot.ssw(x, y, seed=4)
    assert sphereot.ssw(x, y, seed=4) != sphereot.ssw(x, y, seed=5)
    assert sphereot.ssw(x, y) != sphereot.ssw(x, y)
    assert sphereot.ssw(x, y, seed=np.random.default_rng(4)) == sphereot.ssw(x, y, seed=4)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_projections_set_the_number_of_slices(rng):
    """A count of projections other than the default is fine; a contradiction is not."""
    x, y = sphere_sample(rng, 30, 3), sphere_sample(rng, 30, 3, shift=1)
    frames = sphereot.great_circles(17, 3, seed=0)
    assert sphereot.ssw_estimate(x, y, projections=frames).n_projections == 17
    assert sphereot.ssw(x, y, projections=frames, n_projections=17) == sphereot.ssw(x, y, projections=frames)
    with pytest.raises(ValueError, match=r"n_projections must match the number of given projections .17., got 200"):
        sphereot.ssw(x, y, projections=frames, n_projections=200)


def test_float32_is_close_to_float64(rng):
    """A turn in float32 is off by 1e-7 / |U^T x| or less, far below the distance here."""
    x, y = sphere_sample(rng, 2000, 3), sphere_sample(rng, 2000, 3, shift=1)
    double = sphereot.ssw(x, y, seed=0)
    single = sphereot.ssw(x.astype(np.float32), y.astype(np.float32), seed=0)
    assert single.dtype == np.float32
    assert_allclose(single, double, rtol=1e-5)
    half = sphereot.ssw(x.astype(np.float16), y.astype(np.float16), seed=0)
    assert half.dtype == np.float32
    assert_allclose(half, double, rtol=1e-2)
    mixed = sphereot.ssw(x.astype(np.float32), y, seed=0)
    assert mixed.dtype == np.float64


def test_degenerate_inputs_work(rng):
    """Duplicates, points orthogonal to every plane, one atom, antipodes, read-only and strided arrays."""
    x = sphere_sample(rng, 40, 3)
    y = sphere_sample(rng, 40, 3, shift=1)
    expected = sphereot.ssw(x, y, seed=0)
    frozen, strided, fortran = x.copy(), np.repeat(x, 2, axis=0)[::2], np.asfortranarray(x)
    frozen.flags.writeable = False
    for same in (frozen, strided, fortran, np.ascontiguousarray(x[:, ::-1])[:, ::-1]):
        assert sphereot.ssw(same, y, seed=0) == expected
    assert_allclose(sphereot.ssw(np.repeat(x, 3, axis=0), y, seed=0), expected, rtol=1e-12)
    pole = np.array([[0.0, 0.0, 1.0]])
    plane = np.eye(3)[None, :, :2]  # the pole is orthogonal to it
    assert np.isfinite(sphereot.ssw(pole, x, projections=plane))
    assert sphereot.ssw(pole, pole, projections=plane) == 0
    # The antipode of a point projects to the antipode on every circle: half a turn on each.
    assert_allclose(sphereot.ssw(x[:1], -x[:1], seed=0), 0.25, rtol=1e-12)


def test_on_the_circle_every_slice_is_the_circle(rng):
    """d = 2: a frame is a rotation or reflection, so SSW equals W on the circle itself."""
    angles = [rng.random(30), rng.random(25) / 3]
    x, y = (np.stack([np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)], axis=1) for t in angles)
    assert_allclose(sphereot.ssw(x, y, seed=0), sphereot.circle.wasserstein(*angles), rtol=1e-10)
    assert_allclose(
        sphereot.ssw_uniform(x, p=1, seed=0), sphereot.circle.wasserstein_uniform(angles[0], p=1), rtol=1e-10
    )


def test_costs_do_not_depend_on_how_points_are_projected(rng, monkeypatch):
    """In high dimension: by tiles of slices, by matrix products in blocks of any size, or slice by slice."""
    from sphereot._backends.native import backend

    x, y = sphere_sample(rng, 50, 100), sphere_sample(rng, 45, 100, shift=3)
    z = sphere_sample(rng, 30, 100)

    def costs():
        return [
            sphereot.ssw_estimate(x, y, seed=0, n_projections=33).slice_costs,
            sphereot.ssw_uniform(x, seed=0, n_projections=33),
            sphereot.pairwise_ssw([x, y, z], seed=0, n_projections=33),
            sphereot.project(x, sphereot.great_circles(33, 100, seed=0)),
        ]

    whole = costs()
    for name, value in (("MAX_COORDINATES_BY_TILE", 0), ("PLANAR_BYTES", 1), ("LARGEST_DIM_WITHOUT_PRODUCT", 1000)):
        monkeypatch.setattr(backend, name, value)
        for ours, theirs in zip(costs(), whole, strict=True):
            assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


def test_projection_of_points(rng):
    """Lemma 1: the turn is the angle of U^T x."""
    for d in (3, 60):
        x = sphere_sample(rng, 50, d)
        frames = sphereot.great_circles(7, d, seed=0)
        planar = x @ frames
        expected = (np.arctan2(planar[..., 1], planar[..., 0]) / (2 * np.pi)) % 1
        turns = sphereot.project(x, frames)
        assert turns.shape == (7, 50)
        assert np.all((turns >= 0) & (turns < 1))
        assert_allclose((turns - expected + 0.5) % 1, 0.5, atol=1e-15)
    assert sphereot.project(np.array([[0.0, 0.0, 1.0]]), np.eye(3)[None, :, :2])[0, 0] == 0


def test_native_kernel_is_what_runs():
    assert _native.available, "the compiled kernel was not built; see `sphereot info`"


@pytest.mark.parametrize("method", ["iid", "orthogonal", "quasi"])
def test_method_draws_the_circles(method, rng):
    """`method=` gives the value on the great circles that `great_circles` draws by that method."""
    x, y = sphere_sample(rng, 20, 3), sphere_sample(rng, 15, 3, shift=1)
    options = {"n_projections": 7, "method": method, "seed": 3}
    circles = {"projections": sphereot.great_circles(7, 3, method=method, seed=3)}
    assert sphereot.ssw(x, y, **options) == sphereot.ssw(x, y, **circles)
    assert sphereot.ssw_uniform(x, **options) == sphereot.ssw_uniform(x, **circles)
    assert np.array_equal(sphereot.pairwise_ssw([x, y], **options), sphereot.pairwise_ssw([x, y], **circles))


@pytest.mark.parametrize("circles", [{}, {"projections": np.eye(3)[None, :, :2]}])
def test_unknown_method(circles):
    x = np.eye(3)
    for call in (lambda: sphereot.ssw(x, x, method="grid", **circles), lambda: sphereot.ssw_uniform(x, method="grid")):
        with pytest.raises(ValueError, match=r"method must be one of 'iid', 'orthogonal', .*got 'grid'"):
            call()
