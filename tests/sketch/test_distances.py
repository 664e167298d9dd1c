"""Distances of sketches: the error bound always holds against the exact distance, and is small on real data."""

import os
from pathlib import Path

import numpy as np
import pytest
from helpers.kernel import needs_kernel
from hypothesis import given, settings
from hypothesis import strategies as st

import sphereot
from sphereot import Sketch
from sphereot._backends import native
from sphereot._backends.array_api import sketches

FOLDER = os.environ.get("SPHEREOT_DATA", "")
ORDERS = [1, 1.5, 2, 3]


def shifted_sample(rng, n, dim=3):
    return sphereot.sphere.normalize(rng.normal(size=(n, dim)) + rng.normal(size=dim))


@st.composite
def samples(draw, dim):
    """Points with duplicates, clusters, antipodes, axes and points on edges of bins, in either precision."""
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["uniform", "cluster", "duplicates", "antipodes", "axes", "edges"]))
    x = rng.normal(size=(n, dim))
    if kind == "cluster":
        x = np.eye(dim)[0] + 10.0 ** rng.uniform(-9, 0) * x
    elif kind == "duplicates":
        x = x[rng.integers(0, max(1, n // 4), size=n)]
    elif kind == "antipodes":
        x[n // 2 :] = -x[: n - n // 2]
    elif kind == "axes":
        x = np.eye(dim)[rng.integers(0, dim, size=n)] * rng.choice([-1.0, 1.0], size=(n, 1))
    elif kind == "edges":
        frame = Sketch(dim, n_projections=4, bins=8).projections[0]
        angle = 2 * np.pi * rng.integers(0, 64, size=n) / 64
        x = np.cos(angle)[:, None] * frame[:, 0] + np.sin(angle)[:, None] * frame[:, 1]
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    weights = None
    if draw(st.booleans()):
        weights = rng.exponential(size=n) * (rng.uniform(size=n) < 0.8)
        weights[0] = 1.0
    return x.astype(draw(st.sampled_from([np.float32, np.float64]))), weights


@st.composite
def pairs(draw):
    dim = draw(st.sampled_from([2, 3, 4, 5, 8, 9, 10, 384]))
    return draw(samples(dim)), draw(samples(dim)), draw(st.sampled_from([2, 3, 8, 100, 1024, 4096]))


def check_bounds(pair, p):
    (x, a), (y, b), bins = pair
    options = {"n_projections": 4, "bins": bins}
    first, second = (Sketch(x.shape[1], **options).update(z, weights=w) for z, w in ((x, a), (y, b)))
    exact = {"projections": first.projections, "p": p, "root": True}
    x, y = x.astype(np.float64), y.astype(np.float64)
    distance = first.distance(second, p)
    truth = float(sphereot.ssw(x, y, x_weights=a, y_weights=b, **exact))
    assert abs(distance.value - truth) <= distance.error_bound
    uniform = first.distance_to_uniform(p)
    truth = float(sphereot.ssw_uniform(x, weights=a, **exact))
    assert abs(uniform.value - truth) <= uniform.error_bound


@needs_kernel
@pytest.mark.parametrize("p", ORDERS)
@settings(max_examples=400, deadline=None)
@given(pair=pairs())
def test_error_bound_holds(pair, p):
    """Against the exact distance in float64 on the same great circles."""
    check_bounds(pair, p)


@needs_kernel
@pytest.mark.parametrize("p", [2.5, 10])
@settings(max_examples=50, deadline=None)
@given(pair=pairs())
def test_error_bound_holds_for_other_orders(pair, p):
    check_bounds(pair, p)


@needs_kernel
@pytest.mark.parametrize("p", ORDERS)
def test_error_bound_holds_for_many_points(p):
    """Bins with many points each, where the spread within bins matters; 120 pairs for each order."""
    for seed in range(120):
        rng = np.random.default_rng(seed)
        dim, bins = int(rng.integers(2, 6)), int(rng.choice([2, 5, 16, 64, 256]))
        x, y = (shifted_sample(rng, int(rng.integers(50, 600)), dim) for _ in range(2))
        check_bounds(((x, None), (y, None), bins), p)


def test_error_bound_is_reached():
    """Opposite points in the middle of the only two bins: no smaller bound holds for these histograms."""
    sketches = [Sketch(2, n_projections=1, bins=2) for _ in range(2)]
    x = sketches[0].projections[0] @ [[0.0], [1.0]]  # a quarter turn on the only circle
    for sketch, points in zip(sketches, (x.T, -x.T), strict=True):
        sketch.update(points)
    distance = sketches[0].distance(sketches[1], 1)
    assert 0.999 * distance.error_bound <= 0.5 - distance.value <= distance.error_bound


@pytest.mark.parametrize("p", [*ORDERS, 10])
def test_error_bound_holds_without_the_kernel(p, monkeypatch):
    """The distances in NumPy and the array API, with bounds that hold for every cut."""
    monkeypatch.setattr(native, "available", False)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, y = (shifted_sample(rng, 60) for _ in range(2))
        check_bounds(((x, None), (y, rng.exponential(size=60)), int(rng.choice([4, 32]))), p)


@needs_kernel
@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_kernel_agrees_with_the_array_api(p, monkeypatch):
    rng = np.random.default_rng(0)
    a, b = (Sketch(3, n_projections=5, bins=50).update(shifted_sample(rng, 300)) for _ in range(2))
    ours, uniform = a.distance(b, p), a.distance_to_uniform(p)
    monkeypatch.setattr(native, "available", False)
    theirs, theirs_uniform = a.distance(b, p), a.distance_to_uniform(p)
    assert ours.value == pytest.approx(theirs.value, rel=1e-9)
    assert uniform.value == pytest.approx(theirs_uniform.value, rel=1e-9)
    assert ours.error_bound <= theirs.error_bound * (1 + 1e-9)


@pytest.mark.parametrize("p", [1, 2])
def test_identical_sketches(p):
    x = sphereot.sphere.random_uniform(100, 3, seed=0)
    a = Sketch(3, n_projections=10, bins=128).update(x)
    assert a.distance(a, p).value == pytest.approx(0, abs=1e-9)
    assert a.distance(a, p).cost == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("p", [1, 2])
def test_single_points_are_exact_up_to_rounding(p):
    """One point per bin has no spread: what remains is the rounding of its turn."""
    x, y = (sphereot.sphere.random_uniform(1, 3, seed=seed) for seed in range(2))
    a, b = (Sketch(3, n_projections=50).update(z) for z in (x, y))
    distance = a.distance(b, p)
    exact = float(sphereot.ssw(x, y, p=p, projections=a.projections, root=True))
    assert abs(distance.value - exact) <= distance.error_bound
    assert abs(distance.value - exact) < 1e-7


@pytest.mark.parametrize("p", [1, 2])
def test_pairwise_equals_single_distances(p):
    rng = np.random.default_rng(0)
    sketches = [Sketch(3, n_projections=9, bins=40).update(shifted_sample(rng, n)) for n in (20, 30, 40, 50)]
    table = sphereot.sketch.pairwise(sketches, p=p)
    for i in range(4):
        assert table.value[i, i] == table.error_bound[i, i] == 0
        for j in range(i):
            single = sketches[j].distance(sketches[i], p)
            assert table.value[i, j] == table.value[j, i] == single.value
            assert table.error_bound[i, j] == single.error_bound
    with pytest.raises(ValueError, match="at least 2 sketches"):
        sphereot.sketch.pairwise(sketches[:1])


def test_level_distance_brackets_the_truth():
    """The value for p = 1 is a lower bound, and value plus excess an upper bound, before rounding."""
    rng = np.random.default_rng(0)
    x, y = (sphereot.sphere.normalize(rng.normal(size=(200, 3))) for _ in range(2))
    a, b = (Sketch(3, n_projections=20, bins=16).update(z) for z in (x, y))
    parts = [sketches.histogram(*sketch.bins_of_all_groups().cells) for sketch in (a, b)]
    ((cost, excess),) = sketches.level_distances(parts, 20)
    turns = [sphereot.project(z, a.projections) for z in (x, y)]
    exact = sphereot.circle.wasserstein(*turns, p=1)
    assert np.all(cost[:, 0] <= exact + 1e-5)
    assert np.all(exact <= cost[:, 0] + excess[:, 0] + 1e-5)


@needs_kernel
@pytest.mark.skipif(not Path(FOLDER, "earth").is_dir(), reason="SPHEREOT_DATA names no folder with earth/")
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("names", [("earthquake", "flood"), ("earthquake", "fire"), ("flood", "fire")])
def test_error_bound_is_small_on_real_data(names, p):
    """A thousandth of the value, at the default bins."""
    pytest.importorskip("polars")
    x, y = (sphereot.datasets.load(name).points for name in names)
    a, b = (Sketch(3).update(z) for z in (x, y))
    distance = a.distance(b, p)
    exact = float(sphereot.ssw(x, y, p=p, projections=a.projections, root=True))
    assert abs(distance.value - exact) <= distance.error_bound <= 1e-3 * distance.value
    uniform = a.distance_to_uniform(p)
    exact = float(sphereot.ssw_uniform(x, p=p, projections=a.projections, root=True))
    assert abs(uniform.value - exact) <= uniform.error_bound <= 1e-3 * uniform.value
