"""The two-sample test: every permuted distance is an exact SSW, and the level holds."""

from itertools import combinations

import numpy as np
import pytest
from helpers.generators import linear_program, random_atoms, sphere_sample
from helpers.kernel import needs_kernel
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

import sphereot
from sphereot._backends import native as _native
from sphereot._backends.array_api import backend as portable
from sphereot._backends.protocol import Labelings
from sphereot.stats import two_sample_test
from sphereot.stats._testing import independent_generator
from sphereot.stats.two_sample import point_labelings

ORDERS = [1, 1.5, 2, 2.7, 3]


def _bits(n, m, permutations, generator):
    return point_labelings(n, m, permutations, generator)[0].labelings.bits


def unpacked(labels, count):
    """Labelings as rows of booleans, (count, n + m)."""
    return (
        np.unpackbits(labels[:, None, :], axis=1, bitorder="little").reshape(-1, labels.shape[1])[:count].astype(bool)
    )


def native_costs(*arguments):
    from sphereot._backends.native.backend import relabeled_costs

    return all_costs(relabeled_costs, *arguments)


def portable_costs(*arguments):
    return all_costs(portable.relabeled_costs, *arguments)


def all_costs(relabeled_costs, pool, n_first, labels, count, frames, p):
    blocks = relabeled_costs(pool, Labelings(labels, count, n_first), frames, p)
    return np.concatenate([costs for _, costs in blocks])


PATHS = [pytest.param(native_costs, marks=needs_kernel, id="native"), pytest.param(portable_costs, id="portable")]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize(
    ("n", "m", "dim"), [(40, 40, 3), (40, 39, 3), (20, 60, 5), (600, 601, 3), (33, 31, 64), (1, 3, 2)]
)
def test_permuted_distances_are_ssw(n, m, dim, p, dtype, rng):
    """Each entry of the null sample is what `ssw` gives for the relabeled points."""
    x, y = sphere_sample(rng, n, dim, dtype=dtype), sphere_sample(rng, m, dim, shift=1, dtype=dtype)
    result = two_sample_test(x, y, statistic="ssw", p=p, permutations=10, n_projections=9, seed=3)
    generator = independent_generator(3, x)
    frames = sphereot.great_circles(9, dim, method="quasi", seed=generator, like=x)
    assert_array_equal(frames, result.projections)
    labels = unpacked(_bits(n, m, 10, generator), 11)
    pool = np.concatenate([x, y])
    expected = [sphereot.ssw(pool[label], pool[~label], p=p, projections=frames) for label in labels]
    # Near zero a cost in float32 is known to the rounding of a turn, 6e-8, to the power p or times a distance.
    rtol, atol = (2e-5, 1e-9) if dtype is np.float32 else (1e-9, 1e-15)
    assert_allclose(result.statistic, expected[0], rtol=rtol, atol=atol)
    assert_allclose(result.statistic, sphereot.ssw(x, y, p=p, projections=frames), rtol=rtol, atol=atol)
    assert_allclose(result.null, expected[1:], rtol=rtol, atol=atol)
    assert result.p_value == (1 + np.sum(result.null >= result.statistic)) / 11


@pytest.mark.parametrize("costs", PATHS)
@pytest.mark.parametrize("p", ORDERS)
def test_equals_linear_program(costs, p):
    """On tied, clustered and extreme atoms too, no coupling of the relabeled samples is cheaper."""
    rng = np.random.default_rng(int(10 * p))
    frame = np.eye(2)[None]
    for _ in range(60):
        n, m = (int(k) for k in rng.integers(1, 13, 2))
        turns = random_atoms(rng, n + m)
        pool = np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], axis=1)
        labels = _bits(n, m, 8, rng)
        found = costs(pool, n, labels, 9, frame, p)
        expected = [linear_program(turns[label], turns[~label], p=p) for label in unpacked(labels, 9)]
        assert_allclose(found[0], expected, atol=1e-9)


@needs_kernel
@pytest.mark.parametrize("shift", [0, 3, 30])
@pytest.mark.parametrize(("n", "m"), [(700, 700), (900, 500), (500, 900)])
def test_paths_agree_where_points_leave_arcs_empty(n, m, shift):
    """Concentrated points: the search starts from empty cells, and must not end there."""
    rng = np.random.default_rng(shift)
    pool = np.concatenate([sphere_sample(rng, n, 3, shift=shift), sphere_sample(rng, m, 3, shift=shift)])
    pool[::50] *= -1
    labels = _bits(n, m, 4, rng)
    frames = sphereot.great_circles(4, 3, seed=rng)
    for p in (1.0, 2.0, 3.0):
        arguments = (pool, n, labels, 5, frames, p)
        assert_allclose(native_costs(*arguments), portable_costs(*arguments), rtol=1e-9, atol=1e-15)


def test_labelings_are_partings_of_the_pool():
    """The first is the observed one; the others have n points each, and every point has the same chance."""
    labels = unpacked(_bits(6, 4, 20_000, np.random.default_rng(0)), 20_001)
    assert_array_equal(labels[0], [True] * 6 + [False] * 4)
    assert np.all(labels.sum(axis=1) == 6)
    counts = np.bincount(labels[1:] @ 2 ** np.arange(10), minlength=1024)
    assert np.count_nonzero(counts) == 210  # 10 choose 6
    assert chisquare(counts[counts > 0]).pvalue > 1e-4


def test_p_value_of_all_partings(rng):
    """With 4 against 4 points there are 70 partings: the p-value is close to the share of those as far apart."""
    x, y = sphere_sample(rng, 4, 3), sphere_sample(rng, 4, 3, shift=1)
    frames = sphereot.great_circles(20, 3, seed=0)
    pool = np.concatenate([x, y])
    all_partings = np.array(
        [
            sphereot.ssw(pool[list(part)], np.delete(pool, part, axis=0), projections=frames)
            for part in combinations(range(8), 4)
        ]
    )
    result = two_sample_test(x, y, statistic="ssw", permutations=4999, projections=frames, seed=1)
    share = np.mean(all_partings >= result.statistic * (1 - 1e-12))
    assert abs(result.p_value - share) < 5 * np.sqrt(share * (1 - share) / 4999) + 1 / 5000
    nearest = np.min(np.abs(result.null[:, None] - all_partings), axis=1)
    assert np.max(nearest) < 1e-15


@pytest.mark.parametrize(("n", "m", "dim", "kappa"), [(30, 30, 3, 0.0), (25, 15, 3, 3.0), (20, 20, 64, 0.0)])
def test_level_is_exact(n, m, dim, kappa):
    """Over 400 pairs of samples of one distribution, p-values with 19 permutations fall evenly on 1/20, ..., 20/20."""
    rng = np.random.default_rng(dim)
    ranks = []
    for _ in range(400):
        x, y = sphere_sample(rng, n, dim, shift=kappa), sphere_sample(rng, m, dim, shift=kappa)
        ranks.append(round(20 * two_sample_test(x, y, permutations=19, n_projections=10, seed=rng).p_value))
    counts = np.bincount(ranks, minlength=21)[1:]
    assert chisquare(counts).pvalue > 1e-4
    # Rejections at 5%: binomial, mean 20 and standard deviation 4.4; five of them do not reach below 0.
    assert 0 < counts[0] < 42


def test_finds_a_difference(rng):
    x, y = sphere_sample(rng, 200, 8), sphere_sample(rng, 150, 8, shift=1.5)
    result = two_sample_test(x, y, permutations=199, seed=0)
    assert result.p_value == 1 / 200
    assert result.effect > 5
    assert result.ratio > 1.5
    assert result.excess == pytest.approx(result.statistic - result.null.mean())
    assert result.effect == pytest.approx(result.excess / result.null.std())
    assert (result.n, result.m, result.dim, result.permutations, result.n_projections) == (200, 150, 8, 199, 200)


def test_circles_are_those_that_differ_most(rng):
    """A shift of the first coordinate shows most on a circle whose plane holds its axis."""
    angles = rng.uniform(0, 2 * np.pi, 300)
    x = np.stack([np.cos(angles), np.sin(angles), rng.normal(size=300), rng.normal(size=300)], axis=1)
    y = x.copy()
    y[:, 0] += 1.0
    x, y = (sphereot.sphere.normalize(points) for points in (x, y))
    planes = np.stack([np.eye(4)[:, [i, j]] for i, j in combinations(range(4), 2)])
    result = two_sample_test(x, y, permutations=99, projections=planes, seed=0, n_circles=3)
    assert len(result.circles) == 3
    first = result.circles[0]
    assert first.frame[0].any()  # its plane holds the first axis
    for circle in result.circles:
        turns = [sphereot.project(points, circle.frame[None])[0] for points in (x, y)]
        assert circle.cost == pytest.approx(float(sphereot.circle.wasserstein(*turns)), rel=1e-9)
        assert circle.effect == pytest.approx((circle.cost - circle.null_mean) / circle.null_deviation)
    effects = [circle.effect for circle in result.circles]
    assert effects == sorted(effects, reverse=True)
    assert result.slice_costs.mean() == pytest.approx(result.statistic)
    assert two_sample_test(x, y, permutations=9, n_circles=0, seed=0).circles == ()


def test_points_in_one_place_do_not_differ():
    pole = np.repeat([[0.0, 0.0, 1.0]], 7, axis=0)
    result = two_sample_test(pole[:4], pole[:3], permutations=19, seed=0)
    assert (result.statistic, result.p_value, result.effect, result.ratio) == (0, 1, 0, 1)


def test_threads_and_blocks_do_not_show(rng, monkeypatch):
    x, y = sphere_sample(rng, 300, 3), sphere_sample(rng, 200, 3)
    before = sphereot.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5):
            sphereot.set_num_threads(threads)
            results.append(two_sample_test(x, y, permutations=50, n_projections=30, seed=0))
    finally:
        sphereot.set_num_threads(before)
    if _native.available:
        from sphereot._backends.native import backend as permutations

        monkeypatch.setattr(permutations, "POINTS_PER_CALL", 1)
        results.append(two_sample_test(x, y, permutations=50, n_projections=30, seed=0))
    for other in results[1:]:
        assert other.statistic == results[0].statistic
        assert_array_equal(other.null, results[0].null)


def test_a_seed_that_made_the_points_too_does_no_harm():
    """Great circles made of the same numbers as one of the samples would know which points are in it."""
    for seed in range(3):
        points = np.random.default_rng(seed).normal(size=(100, 2, 3))
        frames = two_sample_test(X, Y, permutations=1, n_projections=100, seed=seed).projections
        cosines = np.sum(sphereot.sphere.normalize(points)[:, 0] * frames[:, :, 0], axis=1)
        assert abs(cosines.mean()) < 5 / np.sqrt(3 * 100)  # of independent directions: variance 1/d each


def test_seeds(rng):
    x, y = sphere_sample(rng, 30, 3), sphere_sample(rng, 20, 3)

    def null(seed):
        return two_sample_test(x, y, permutations=9, n_projections=5, seed=seed).null

    assert_array_equal(null(7), null(7))
    assert_array_equal(null(np.random.default_rng(7)), null(np.random.default_rng(7)))
    generator = np.random.default_rng(7)
    for one, other in [(null(7), null(8)), (null(None), null(None)), (null(generator), null(generator))]:
        assert np.any(one != other)


@pytest.mark.parametrize("library", ["torch", "jax", "array_api_strict"])
def test_libraries(library, rng):
    """The points of any library give the same result, and so do its own seeds."""
    module = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))
    x, y = sphere_sample(rng, 30, 3), sphere_sample(rng, 20, 3)
    lx, ly = module.asarray(x), module.asarray(y)
    expected = two_sample_test(x, y, permutations=9, n_projections=5, seed=0)
    found = two_sample_test(lx, ly, permutations=9, n_projections=5, seed=0)
    assert_allclose(found.null, expected.null, rtol=1e-9)
    if library == "array_api_strict":
        return
    own = {"torch": lambda: module.Generator().manual_seed(5), "jax": lambda: __import__("jax").random.key(5)}[library]
    one, same = (two_sample_test(lx, ly, permutations=9, n_projections=5, seed=own()) for _ in range(2))
    assert_array_equal(one.null, same.null)
    assert np.any(one.null != expected.null)


def test_mixed_precision_is_computed_in_the_wider(rng):
    x, y = sphere_sample(rng, 30, 3, dtype=np.float32), sphere_sample(rng, 30, 3)
    result = two_sample_test(x, y, p=2, permutations=5, seed=0)
    expected = sphereot.ssw(x.astype(np.float64), y, projections=result.projections)
    assert result.statistic == pytest.approx(float(expected), rel=1e-12)


def test_report(rng):
    x, y = sphere_sample(rng, 30, 3), sphere_sample(rng, 20, 3)
    text = str(two_sample_test(x, y, permutations=19, n_projections=5, seed=0))
    assert "30 and 20 points in dimension 3" in text
    assert "p-value" in text
    assert "19 permutations, 5 great circles" in text


X, Y = (sphere_sample(np.random.default_rng(k), 9, 3) for k in range(2))
FAULTS = {
    "no permutations": (
        {"permutations": 0},
        r"permutations: the number of permutations must be an integer of at least 1, got 0",
    ),
    "half a permutation": ({"permutations": 9.5}, r"permutations: .*, got 9.5"),
    "negative circles": ({"n_circles": -1}, r"n_circles: .*, got -1"),
    "order": ({"p": 0.5}, r"p: .*, got 0.5"),
    "projections": ({"n_projections": 0}, r"n_projections: .*, got 0"),
    "both projections": (
        {"n_projections": 3, "projections": sphereot.great_circles(2, 3)},
        r"n_projections must match the number of given projections .2., got 3",
    ),
    "seed": ({"seed": -1}, r"seed: .*, got -1"),
    "points": ({"y": 3 * Y}, r"y: row 0 has length 3"),
    "dimensions": ({"y": np.eye(4)}, r"x has points in dimension 3 and y in dimension 4"),
    "no points": ({"x": X[:0]}, r"x: there are no points"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input(fault):
    arguments, message = FAULTS[fault]
    with pytest.raises(ValueError, match=message):
        two_sample_test(**{"x": X, "y": Y, **arguments})


@needs_kernel
def test_kernel_refuses_labels_of_another_size():
    """Labels with more points than the first sample has room for never reach the loop that writes them."""
    labels = _bits(4, 5, 7, np.random.default_rng(0))
    frames = sphereot.great_circles(3, 3, seed=0)
    for first, bad in ((3, labels), (4, labels | 4), (4, labels[:, :8]), (0, labels), (9, labels)):
        with pytest.raises(ValueError, match=r"labeling|labels|samples"):
            native_costs(X, first, np.ascontiguousarray(bad), 8, frames, 2.0)


@pytest.mark.parametrize("dim", [3, 64])
def test_progress_is_told_and_changes_nothing(monkeypatch, dim):
    """Blocks of great circles are the steps, and the result is the same to the last bit."""
    if sphereot.info().backend.startswith("native"):
        monkeypatch.setattr("sphereot._backends.native.backend.POINTS_PER_CALL", 1)
    rng = np.random.default_rng(1)
    x, y = sphere_sample(rng, 30, dim), sphere_sample(rng, 20, dim)
    settings = {"permutations": 29, "n_projections": 21, "seed": 4}
    steps = []
    told = two_sample_test(x, y, progress=lambda done, total: steps.append((done, total)), **settings)
    quiet = two_sample_test(x, y, **settings)
    assert steps[-1] == (21, 21)
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})
    if sphereot.info().backend.startswith("native"):
        assert len(steps) == 3  # eight great circles to a block at least
    assert told.p_value == quiet.p_value
    assert_array_equal(told.null, quiet.null)
    assert_array_equal(told.slice_costs, quiet.slice_costs)


def test_progress_that_is_neither_a_flag_nor_a_function():
    x = sphere_sample(np.random.default_rng(1), 5, 3)
    with pytest.raises(TypeError, match=r"progress must be True, False or a function of two numbers .*got 'yes'"):
        two_sample_test(x, x, progress="yes")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize(("corners", "n"), [(3, 1), (4, 2), (6, 2), (6, 3), (12, 5)])
def test_ties_of_symmetry_count(corners, n, p, dtype):
    """Corners of a regular polygon, turned: labelings alike by symmetry are ties, as in exact arithmetic."""
    turns = np.arange(corners) / corners
    labels = unpacked(_bits(n, corners - n, 49, np.random.default_rng(1)), 50)
    exact = np.array([linear_program(turns[label], turns[~label], p=p) ** (1 / p) for label in labels])
    expected = (1 + np.sum(exact[1:] >= exact[0] - 1e-9)) / 50
    for phase in np.random.default_rng(0).random(5):
        angles = 2 * np.pi * (turns + phase)
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(dtype)
        result = two_sample_test(
            points[:n],
            points[n:],
            statistic="ssw",
            p=p,
            permutations=49,
            projections=np.eye(2, dtype=dtype)[None],
            seed=np.random.default_rng(1),
        )
        assert result.p_value == expected
        assert result.p_value == (1 + np.sum(result.null >= result.statistic)) / 50


@pytest.mark.parametrize("p", [1, 2, 16])
def test_ties_have_no_effect(p):
    """A triangle: all labelings are alike, so nothing exceeds chance, on the circle as a whole and in `circles`."""
    for phase in np.random.default_rng(0).random(20):
        angles = 2 * np.pi * (np.arange(3) / 3 + phase)
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        for dtype in (np.float32, np.float64):
            x, y = points[:1].astype(dtype), points[1:].astype(dtype)
            result = two_sample_test(x, y, statistic="ssw", p=p, permutations=99, seed=0)
            assert (result.p_value, result.effect, result.circles[0].effect) == (1, 0, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_that_change_names_are_a_tie(dtype, rng):
    """The distance from y to x is that from x to y, whatever the order of summation."""
    for _ in range(20):
        x, y = sphere_sample(rng, 3, 3, dtype=dtype), sphere_sample(rng, 3, 3, dtype=dtype)
        result = two_sample_test(x, y, permutations=199, n_projections=30, seed=np.random.default_rng(2))
        generator = np.random.default_rng(2)
        sphereot.great_circles(30, 3, method="quasi", seed=generator, like=x)
        labels = unpacked(_bits(3, 3, 199, generator), 200)[1:]
        same = np.all(labels[:, :3] == labels[:, :1], axis=1)  # x and y, or y and x
        assert np.count_nonzero(same) > 5
        assert np.all(result.null[same] == result.statistic)
