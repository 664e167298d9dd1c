"""Sketches: the same bits for every division and order, merging, groups, and clear errors."""

import copy
import pickle
import sys

import numpy as np
import pytest
from helpers.kernel import needs_kernel
from helpers.processes import run_python

import sphereot
from sphereot import Sketch
from sphereot._backends import native
from sphereot._backends.array_api.sketches import integer_turns
from sphereot._backends.protocol import COORDINATE_GRID
from sphereot.sketch.bins import add, split, subtract, to_float

SMALL = {"n_projections": 12, "bins": 64}


def points(n, d=3, seed=0, dtype=np.float64):
    x = np.random.default_rng(seed).normal(size=(n, d))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(dtype)


X = points(3)
EMPTY, FULL = Sketch(3, **SMALL), Sketch(3, **SMALL).update(X)


@pytest.mark.parametrize("dim", [2, 3, 8, 9, 20, 150])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_any_division_order_and_thread_count_gives_the_same_bits(dim, dtype, weighted):
    """Also for chunks of one point, and sketches merged as a tree."""
    n = 700
    x, rng = points(n, dim, dtype=dtype), np.random.default_rng(1)
    w = rng.exponential(size=n) * 10.0 ** rng.integers(-12, 6, size=n) if weighted else None
    threads = sphereot.get_num_threads()
    whole = Sketch(dim, **SMALL).update(x, weights=w)
    try:
        for count in (1, 3):
            sphereot.set_num_threads(count)
            order = rng.permutation(n)
            cuts = np.sort(rng.choice(n, 9, replace=False))
            parts = [
                Sketch(dim, **SMALL).update(x[rows], weights=None if w is None else w[rows])
                for rows in np.split(order, cuts)
                if len(rows)
            ]
            while len(parts) > 1:
                first = parts.pop(rng.integers(len(parts)))
                parts.append(first + parts.pop(rng.integers(len(parts))))
            assert parts[0] == whole
            assert parts[0].to_bytes() == whole.to_bytes()
    finally:
        sphereot.set_num_threads(threads)


CODE = """
import hashlib, sys
import numpy as np, sphereot
for dim in (2, 3, 5, 9, 40, 384):
    for dtype in (np.float32, np.float64):
        x = np.random.default_rng(dim).normal(size=(300, dim))
        x[:20] = np.sign(x[:20, :1]) * np.eye(dim)[0]
        x[20:40, 2:] *= 1e-7
        x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(dtype)
        for weights in (None, np.random.default_rng(1).exponential(size=300)):
            sketch = sphereot.Sketch(dim, n_projections=7, bins=100).update(x, weights=weights)
            print(hashlib.sha256(sketch.to_bytes()).hexdigest())
"""


@needs_kernel
@pytest.mark.parametrize("build", native.kernel.supported_instruction_sets() if native.kernel else [])
def test_every_build_gives_the_bits_of_numpy(build):
    """Each instruction set, with fused multiply-add or without, against code that shares nothing with the kernel."""
    assert run_python(CODE, SPHEREOT_KERNEL=build) == run_python(CODE, SPHEREOT_KERNEL="off")


@needs_kernel
def test_large_updates_equal_numpy(monkeypatch):
    """More points than the kernel holds in its scratch memory at a time."""
    x = points(40_000, 3, dtype=np.float32)
    ours = Sketch(3, n_projections=5, bins=4096).update(x)
    monkeypatch.setattr(native, "available", False)
    assert Sketch(3, n_projections=5, bins=4096).update(x) == ours


def test_projections_are_exact():
    """Sums in any order, in extended precision too: the reason why builds agree."""
    rng = np.random.default_rng(0)
    frames = Sketch(40, n_projections=5).projections
    x = np.rint(points(50, 40) * COORDINATE_GRID) / COORDINATE_GRID
    exact = x @ frames[:, :, 0].T
    for _ in range(5):
        order = rng.permutation(40)
        total = np.zeros((50, 5))
        for k in order:
            total = total + x[:, k, None] * frames[:, k, 0]
        np.testing.assert_array_equal(total, exact)
    assert np.max(np.abs(frames * 2.0**23 - np.rint(frames * 2.0**23))) == 0


def test_turns_have_the_stated_error():
    angle = np.random.default_rng(0).uniform(size=400_000)
    length = 10.0 ** np.random.default_rng(1).uniform(-4, 0, size=len(angle))
    turns, squares = integer_turns(length * np.cos(2 * np.pi * angle), length * np.sin(2 * np.pi * angle))
    gap = np.abs(turns / 2.0**31 - angle)
    assert np.max(np.minimum(gap, 1 - gap)) < 2.0**-25
    np.testing.assert_allclose(squares, length**2, rtol=1e-6)


def test_counts_are_those_of_the_projections():
    """Each bin has the points whose turn lies in it, and the mean of their offsets."""
    x = points(5000)
    sketch = Sketch(3, n_projections=4, bins=32).update(x)
    turns = sphereot.project(x, sketch.projections)
    counts = sketch.bins_of_all_groups()
    for index, row in enumerate(turns):
        expected = np.histogram(row, bins=32, range=(0, 1))[0]
        assert np.sum(np.abs(counts.mass[0, 0, index].astype(int) - expected)) <= 2  # within 2^-25 of an edge
        mean = (counts.moment[0, 0, index] / counts.mass[0, 0, index] + 0.5) / 2**16
        offsets = [np.mean(32 * row[np.floor(32 * row) == j] - j) for j in range(32)]
        np.testing.assert_allclose(mean, offsets, atol=1e-2)


def test_weights_are_exact_sums():
    rng = np.random.default_rng(0)
    w = rng.exponential(size=1000) * 10.0 ** rng.integers(-15, 8, size=1000)
    sketch = Sketch(3, **SMALL).update(points(1000), weights=w)
    assert sketch.total == pytest.approx(float(np.sum(w)), rel=1e-15)
    assert sketch.n == 1000
    ones = Sketch(3, **SMALL).update(points(1000), weights=np.ones(1000))
    plain = Sketch(3, **SMALL).update(points(1000))
    np.testing.assert_array_equal(
        to_float(ones.bins_of_all_groups().mass[0]), to_float(plain.bins_of_all_groups().mass[0])
    )
    assert ones.total == plain.total == 1000


def test_fixed_point_numbers_add_and_subtract():
    rng = np.random.default_rng(0)
    a, b = (np.stack(split(rng.exponential(size=100) * 10.0 ** rng.integers(-18, 9, size=100))) for _ in range(2))
    total = add(a, b)
    np.testing.assert_array_equal(subtract(total, b), a)
    assert subtract(a, total) is None
    exact = [(int(h) << 48) + int(w) for h, w in total.T]
    assert exact == [(int(h) << 48) + int(w) + (int(i) << 48) + int(v) for (h, w), (i, v) in zip(a.T, b.T, strict=True)]


def test_merging():
    x, y = points(200, seed=1), points(300, seed=2)
    a, b = Sketch(3, **SMALL).update(x), Sketch(3, **SMALL).update(y)
    both = a + b
    assert both.n == 500
    assert both == Sketch(3, **SMALL).update(np.concatenate([x, y]))
    assert both - b == a
    assert both - a - b == Sketch(3, **SMALL, weighted=False)
    assert sum([a, b]) == both
    empty = Sketch(3, **SMALL)
    assert empty + a == a + empty == a
    assert (empty + empty).n == 0
    before = copy.deepcopy(a)
    c = a
    c += b
    assert c is a
    assert a == both
    assert before + b == a


def test_merged_sketches_do_not_share_memory():
    a, empty = Sketch(3, **SMALL).update(points(10)), Sketch(3, **SMALL)
    merged = empty + a
    merged.update(points(5))
    assert (a.n, merged.n) == (10, 15)
    part = next(a.group_sketches())
    part.update(points(5))
    assert a.n == 10


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"n_projections": 13, "bins": 64}, "n_projections"),
        ({"n_projections": 12, "bins": 65}, "bins"),
        ({**SMALL, "seed": 1}, "seed"),
        ({**SMALL, "method": "iid"}, "method"),
        ({**SMALL, "groups": 2}, "groups"),
    ],
)
def test_other_circles_or_bins_refuse_to_merge(options, name):
    a, b = Sketch(3, **SMALL).update(points(10)), Sketch(3, **options)
    for work in (lambda: a + b, lambda: a - b, lambda: a.distance(b), lambda: sphereot.sketch.pairwise([a, b])):
        with pytest.raises(ValueError, match=f"differ in {name} "):
            work()


def test_weights_and_none_refuse_to_merge():
    a, b = Sketch(3, **SMALL).update(points(5)), Sketch(3, **SMALL).update(points(5), weights=np.ones(5))
    with pytest.raises(ValueError, match="differ in weights"):
        a + b
    with pytest.raises(ValueError, match="for points without weights"):
        a.update(points(5), weights=np.ones(5))
    with pytest.raises(ValueError, match="for points with weights"):
        b.update(points(5))
    assert a.distance(b).value == pytest.approx(0, abs=1e-6)


def test_groups():
    x, labels = points(400), [f"user {k % 37}" for k in range(400)]
    sketch = Sketch(3, **SMALL, groups=8).update(x[:150], groups=labels[:150]).update(x[150:], groups=labels[150:])
    parts = list(sketch.group_sketches())
    assert len(parts) == 8
    assert sum(part.n for part in parts) == sketch.n == 400
    plain = Sketch(3, **SMALL).update(x)
    assert sum(parts) == plain
    assert sketch.distance(sketch, p=1).value == 0
    other = Sketch(3, **SMALL, groups=8).update(points(50, seed=3), groups=np.arange(50))
    merged = sketch + other
    assert merged - other == sketch
    assert Sketch.from_bytes(merged.to_bytes()) == merged
    again = Sketch(3, **SMALL, groups=8).update(x[::-1], groups=np.array(labels[::-1]))
    assert again == sketch
    weighted = Sketch(3, **SMALL, groups=4).update(x, weights=np.ones(400), groups=np.arange(400) % 11)
    assert sum(part.total for part in weighted.group_sketches()) == 400


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"dim": 1}, "dim"),
        ({"dim": 3.0}, "dim"),
        ({"dim": 3, "bins": 1}, "bins"),
        ({"dim": 3, "bins": 20_000}, "bins"),
        ({"dim": 3, "n_projections": 0}, "n_projections"),
        ({"dim": 60_000, "n_projections": 200}, "n_projections"),
        ({"dim": 3, "groups": 60_000}, "bins"),
        ({"dim": 3, "seed": -1}, "seed"),
        ({"dim": 3, "method": "grid"}, "method"),
        ({"dim": 3, "weighted": "yes"}, "weighted"),
    ],
)
def test_bad_arguments(arguments, name):
    with pytest.raises((ValueError, TypeError), match=rf"^{name}\b"):
        Sketch(**arguments)


@pytest.mark.parametrize(
    ("groups", "arguments", "error", "message"),
    [
        (4, {}, ValueError, "groups is required"),
        (1, {"groups": [1, 2, 3]}, ValueError, "groups is not supported"),
        (4, {"groups": [1, 2]}, ValueError, "one label per point"),
        (4, {"groups": [None] * 3}, ValueError, "3 of 3 labels are missing"),
        *((4, {"groups": wrong}, TypeError, "ints or strings")
          for wrong in ([1.5, 2.0, 3.0], [1, "a", 2], [True, False, True])),
        *((1, {"x": wrong}, ValueError, r"^x\b") for wrong in (2 * X, points(3, 2), np.full((2, 3), np.nan))),
        *((1, {"weights": wrong}, ValueError, r"^weights\b")
          for wrong in ([1, 2], [1, 2, -1], [1, np.nan, 1], [1, 2, 2.0**40])),
        (1, {"x": points(40_000), "weights": np.full(40_000, 2.0**31)}, ValueError, "total weight must be at most"),
    ],
)  # fmt: skip
def test_a_bad_update_changes_nothing(groups, arguments, error, message):
    sketch = Sketch(3, **SMALL, groups=groups)
    with pytest.raises(error, match=message):
        sketch.update(**{"x": X} | arguments)
    assert (sketch.n, sketch.weighted) == (0, None)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (EMPTY.distance_to_uniform, ValueError, "The sketch is empty"),
        (lambda: EMPTY.distance(FULL), ValueError, "The sketch is empty"),
        (lambda: EMPTY - FULL, ValueError, "Cannot subtract"),
        (lambda: FULL - Sketch(3, **SMALL).update(points(5, seed=2)), ValueError, "Cannot subtract"),
        (Sketch(3, **SMALL).update(X, weights=np.zeros(3)).distance_to_uniform, ValueError, "all weights are zero"),
        (lambda: FULL.distance_to_uniform(p=0.5), ValueError, "p: "),
        (lambda: hash(FULL), TypeError, "unhashable"),
    ],
)
def test_bad_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_interrupted_update_is_noticed(monkeypatch):
    """Counting is in place: after Ctrl-C some circles lack points, and the sketch must not be used."""
    sketch = Sketch(3, **SMALL).update(points(10))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["sphereot.sketch.sketch"], "count_points", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sketch.update(points(10))
    with pytest.raises(RuntimeError, match="was interrupted"):
        sketch.to_bytes()


def test_other_libraries_give_the_same_sketch():
    torch = pytest.importorskip("torch")
    x = points(100, dtype=np.float32)
    expected = Sketch(3, **SMALL).update(x)
    assert Sketch(3, **SMALL).update(torch.from_numpy(x)) == expected
    assert Sketch(3, **SMALL).update(np.asfortranarray(x)) == expected
    weights = np.random.default_rng(0).uniform(size=100).astype(np.float32)
    halves = (
        Sketch(3, **SMALL).update(x[:50], weights=weights[:50]).update(x[50:], weights=torch.from_numpy(weights[50:]))
    )
    assert halves == Sketch(3, **SMALL).update(x, weights=weights)


def test_copies_and_pickles():
    for sketch in (Sketch(3, **SMALL), Sketch(3, **SMALL).update(points(10), weights=np.arange(10.0))):
        for other in (copy.copy(sketch), copy.deepcopy(sketch), pickle.loads(pickle.dumps(sketch))):
            assert other == sketch
            assert other is not sketch
    sketch = Sketch(3).update(points(10))
    assert repr(sketch) == ("Sketch(dim=3, n_projections=200, bins=4096, seed=0, method='quasi'): 10 points, 13.1 MB")
    assert len(sketch.to_bytes()) < 200_000
    assert sketch != 3


@pytest.mark.parametrize(
    ("dim", "method", "digest"),
    [
        (3, "quasi", "adeaf1518a2c79ba1d5f5676edff0048"),
        (16, "orthogonal", "31fcf33c3a47908d5335599ec6273a4b"),
        (384, "quasi", "51995a687fc885f0295cb8e2812b5871"),
        (5, "iid", "564650439a983f9b3ef3af47eafc9aa5"),
    ],
)
def test_great_circles_never_change(dim, method, digest):
    """Stored sketches are compared for years: great circles are the same with every version and on every machine."""
    assert Sketch(dim, 40, 64, seed=(1 << 40) + 7, method=method).layout.digest().hex() == digest
