"""Optimal transport on the circle equals the solution of a linear program, in both backends."""

import numpy as np
import pytest
from helpers.generators import Pair, known_pairs, linear_program, random_atoms, random_pair, random_weights
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad

from sphereot import circle
from sphereot._backends.array_api import backend as portable
from sphereot._backends.native import backend as native
from sphereot._backends.protocol import Measure

ORDERS = [1, 1.5, 2, 3]
BACKENDS = [pytest.param(native, id="native"), pytest.param(portable, id="portable")]

seeds = st.integers(0, 2**32 - 1)


def cost(pair: Pair, p: float, path=native) -> float:
    a, b = (None if w is None else w[None] for w in (pair.a, pair.b))
    return float(path.circle_costs([Measure(pair.u[None] % 1, a), Measure(pair.v[None] % 1, b)], float(p))[0])


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("path", BACKENDS)
def test_equals_linear_program(path, p):
    """The cut is exact: no coupling is cheaper than ours, and ours is one. 1,500 pairs for each order and backend."""
    rng = np.random.default_rng([7, int(2 * p)])
    for trial in range(1500):
        pair = random_pair(rng)
        exact = linear_program(pair.u, pair.v, pair.a, pair.b, p=p)
        assert cost(pair, p, path) == pytest.approx(exact, rel=0, abs=1e-9), (trial, pair)


@pytest.mark.parametrize("p", [2.7, 7, 16])
def test_uncommon_orders_equal_linear_program(p):
    rng = np.random.default_rng(8)
    for _ in range(200):
        pair = random_pair(rng, most_atoms=15)
        # The network simplex rounds costs below 1e-9 away: large orders are held against the other path, relatively.
        exact = linear_program(pair.u, pair.v, pair.a, pair.b, p=p) if p < 5 else cost(pair, p, portable)
        assert_allclose(cost(pair, p), exact, rtol=1e-6, atol=1e-9 if p < 5 else 1e-18 * 0.5**p)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize(("n", "m"), [(1000, 1000), (1000, 700), (3000, 1)])
def test_backends_agree_on_many_atoms(n, m, p, rng):
    """Two implementations that share no code give the same minimum."""
    for weighted in (False, True):
        a, b = (random_weights(rng, n), random_weights(rng, m)) if weighted else (None, None)
        pair = Pair(rng.random(n), rng.random(m) ** 2, a, b)
        assert_allclose(cost(pair, p, native), cost(pair, p, portable), rtol=1e-10)


@pytest.mark.parametrize("p", ORDERS)
def test_backends_agree_in_float32(p, rng):
    """Turns in float32 are known to 6e-8, and the cost of one atom changes by p * 0.5^(p-1) times that at most."""
    for _ in range(100):
        pair = random_pair(rng)
        u, v = pair.u.astype(np.float32)[None] % 1, pair.v.astype(np.float32)[None] % 1
        rows = [None if w is None else w[None] for w in (pair.a, pair.b)]
        single = native.circle_costs(list(map(Measure, (u, v), rows)), float(p))
        double = native.circle_costs(list(map(Measure, (u.astype(float), v.astype(float)), rows)), float(p))
        assert single.dtype == np.float32
        assert_allclose(single, double, rtol=1e-6, atol=2 * p * 0.5 ** (p - 1) * 6e-8)
        other = portable.circle_costs(list(map(Measure, (u, v), rows32(rows))), float(p))
        assert_allclose(other, double, rtol=1e-5, atol=1e-6)


def rows32(rows):
    return [None if w is None else w.astype(np.float32) for w in rows]


@pytest.mark.parametrize("p", [*ORDERS, 5])
@pytest.mark.parametrize("known", known_pairs(), ids=lambda known: known.name)
def test_known_by_hand(known, p):
    assert_allclose(circle.wasserstein(known.u, known.v, p=p), known.cost(p), atol=1e-15)


@given(seed=seeds, p=st.sampled_from(ORDERS), angle=st.floats(-3, 3))
def test_rotating_both_changes_nothing(seed, p, angle):
    pair = random_pair(np.random.default_rng(seed))
    turned = circle.wasserstein(pair.u + angle, pair.v + angle, p=p, **pair.weights())
    assert_allclose(turned, cost(pair, p), atol=1e-13)


@given(seed=seeds, p=st.sampled_from(ORDERS))
def test_swapping_and_reflecting_change_nothing(seed, p):
    pair = random_pair(np.random.default_rng(seed))
    swapped = circle.wasserstein(pair.v, pair.u, p=p, u_weights=pair.b, v_weights=pair.a)
    reflected = circle.wasserstein(-pair.u, -pair.v, p=p, **pair.weights())
    assert_allclose([swapped, reflected], cost(pair, p), atol=1e-13)


@given(seed=seeds, p=st.sampled_from(ORDERS))
def test_cost_depends_on_the_measure_alone(seed, p):
    """Permuting atoms, splitting one in two, adding atoms of no weight: the measure stays, and so does the cost."""
    rng = np.random.default_rng(seed)
    pair = random_pair(rng)
    n = len(pair.u)
    a = np.ones(n) if pair.a is None else pair.a
    order = rng.permutation(n)
    split, share = rng.integers(n), rng.random()
    u = np.concatenate([pair.u[order], [pair.u[split]], rng.random(3)])
    weights = np.concatenate([a[order], [share * a[split]], np.zeros(3)])
    weights[np.flatnonzero(order == split)] *= 1 - share
    rewritten = circle.wasserstein(u, pair.v, p=p, u_weights=weights, v_weights=pair.b)
    assert_allclose(rewritten, cost(pair, p), atol=1e-13)


@given(seed=seeds, p=st.sampled_from(ORDERS))
def test_distance_of_a_metric(seed, p):
    """W_p satisfies the triangle inequality and is at most half a turn."""
    rng = np.random.default_rng(seed)
    x, y, z = (random_atoms(rng, int(rng.integers(1, 20))) for _ in range(3))
    xy, yz, xz = (circle.wasserstein(s, t, p=p) ** (1 / p) for s, t in ((x, y), (y, z), (x, z)))
    # Roots of rounding errors: 1e-16 to the power 1/3.
    assert xz <= xy + yz + 1e-5
    assert xz <= 0.5 + 1e-12


def test_shapes_broadcast(rng):
    u, v = rng.random((4, 1, 6)), rng.random((3, 5))
    costs = circle.wasserstein(u, v)
    assert costs.shape == (4, 3)
    assert costs[2, 1] == circle.wasserstein(u[2, 0], v[1])
    weights = rng.random((3, 5))
    weighted = circle.wasserstein(u, v, v_weights=weights)
    assert_allclose(weighted[2, 1], circle.wasserstein(u[2, 0], v[1], v_weights=weights[1]), atol=1e-15)
    assert circle.wasserstein(rng.random(3), rng.random(3)).shape == ()


@pytest.mark.parametrize("p", [1, 2, 16])
def test_extreme_weights(p):
    """Weights whose sum overflows, subnormal ones, and one that dominates all give the right cost, in little time."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        pair = random_pair(rng, most_atoms=12)
        a, b = (10.0 ** rng.uniform(-320, 0, len(t)) for t in (pair.u, pair.v))
        a[0] = b[0] = 1.0
        value = circle.wasserstein(pair.u, pair.v, p=p, u_weights=a, v_weights=b)
        dropped = [np.where(w < 1e-20, 0, w) for w in (a, b)]
        assert value >= 0
        assert_allclose(
            value, circle.wasserstein(pair.u, pair.v, p=p, u_weights=dropped[0], v_weights=dropped[1]), atol=1e-12
        )
        huge = circle.wasserstein(pair.u, pair.v, p=p, u_weights=1.5e308 * a, v_weights=b)
        assert_allclose(huge, value, rtol=1e-9, atol=1e-12)


def test_empty_batch_gives_empty_result():
    assert circle.wasserstein(np.zeros((0, 5)), np.zeros(3)).shape == (0,)
    assert circle.wasserstein_uniform(np.zeros((2, 0, 5))).shape == (2, 0)


# ---- against the uniform measure ----


def quadrature_uniform(u, a, p):
    """min over alpha of the integral of |F^-1(t) - t - alpha|^p, by SciPy alone."""
    from scipy.optimize import minimize_scalar

    order = np.argsort(u % 1)
    x = (u % 1)[order]
    levels = np.concatenate([[0], np.cumsum(a[order]) / a.sum()])

    def objective(alpha):
        return sum(
            quad(
                lambda t, x=x_i: abs(x - t - alpha) ** p,
                low,
                high,
                epsabs=1e-13,
                points=_inside(x_i - alpha, low, high),
            )[0]
            for x_i, low, high in zip(x, levels[:-1], levels[1:], strict=True)
            if high > low
        )

    return minimize_scalar(objective, bounds=(-1, 1), method="bounded", options={"xatol": 1e-12}).fun


def _inside(point, low, high):
    return [point] if low < point < high else None


@pytest.mark.parametrize("p", [*ORDERS, 2.5])
@pytest.mark.parametrize("path", BACKENDS)
def test_uniform_equals_quadrature(path, p):
    rng = np.random.default_rng(3)
    for _ in range(6):
        n = int(rng.integers(1, 8))
        u, a = random_atoms(rng, n), random_weights(rng, n)
        exact = quadrature_uniform(u, a, p)
        assert_allclose(path.circle_costs([Measure(u[None] % 1, a[None])], float(p))[0], exact, rtol=1e-7, atol=1e-10)
        exact = quadrature_uniform(u, np.ones(n), p)
        assert_allclose(path.circle_costs([Measure(u[None] % 1)], float(p))[0], exact, rtol=1e-7, atol=1e-10)


@given(seed=seeds)
def test_proposition_1_both_forms(seed):
    """The closed form and the integral of Proposition 1, as the paper prints them, equal ours."""
    rng = np.random.default_rng(seed)
    x = np.sort(random_atoms(rng, int(rng.integers(1, 60))))
    n, i = len(x), np.arange(1, len(x) + 1)
    closed = np.mean(x**2) - np.mean(x) ** 2 + np.sum((n + 1 - 2 * i) * x) / n**2 + 1 / 12
    offset = x - (np.mean(x) - 0.5)  # integral of (x_i - t - alpha)^2 over ((i - 1) / n, i / n]
    integral = np.sum((offset - (i - 1) / n) ** 3 - (offset - i / n) ** 3) / 3
    assert_allclose(circle.wasserstein_uniform(x), closed, atol=1e-14)
    assert_allclose(integral, closed, atol=1e-13)


@pytest.mark.parametrize("p", [*ORDERS, 2.2])
def test_uniform_is_the_limit_of_even_atoms(p, rng):
    """m even atoms are within 1 / (2m) of the uniform measure in W_p, for all p."""
    u, a, m = rng.random(9), random_weights(rng, 9), 20_000
    discrete = circle.wasserstein(u, np.arange(m) / m, p=p, u_weights=a) ** (1 / p)
    assert abs(discrete - circle.wasserstein_uniform(u, p=p, weights=a) ** (1 / p)) <= 0.5 / m


@pytest.mark.parametrize("p", ORDERS)
def test_uniform_backends_agree(p, rng):
    u = rng.random((5, 300))
    a = rng.random((5, 300))
    for weights in (None, a, a[:1]):
        assert_allclose(
            native.circle_costs([Measure(u, weights)], float(p)),
            portable.circle_costs([Measure(u, weights)], float(p)),
            rtol=1e-9,
        )


# ---- plans ----


@given(seed=seeds, p=st.sampled_from(ORDERS))
def test_plan_is_an_optimal_coupling(seed, p):
    pair = random_pair(np.random.default_rng(seed))
    plan = circle.transport_plan(pair.u, pair.v, p=p, **pair.weights())
    n, m = len(pair.u), len(pair.v)
    a = np.full(n, 1 / n) if pair.a is None else pair.a / pair.a.sum()
    b = np.full(m, 1 / m) if pair.b is None else pair.b / pair.b.sum()
    assert np.all(plan.mass > 0)
    assert len(plan.mass) <= n + m
    assert_allclose(np.bincount(plan.source, plan.mass, minlength=n), a, atol=1e-14)
    assert_allclose(np.bincount(plan.target, plan.mass, minlength=m), b, atol=1e-14)
    distance = np.abs(pair.u[plan.source] - pair.v[plan.target]) % 1
    paid = np.sum(plan.mass * np.minimum(distance, 1 - distance) ** p)
    assert_allclose([paid, plan.cost], cost(pair, p), atol=1e-12)


# ---- faults of public codes (each is a regression test) ----


def test_arc_before_the_first_atom_counts():
    assert_allclose(circle.wasserstein(np.array([0.2]), np.array([0.9]), p=1), 0.3, atol=1e-15)


def test_cut_of_small_unequal_sizes_is_right():
    """2,000 random pairs of 2 to 11 atoms, where the usual bisection is off by up to 0.8 on a few."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        u, v = rng.random(int(rng.integers(2, 12))), rng.random(int(rng.integers(2, 12)))
        value = circle.wasserstein(u, v)
        assert value <= 0.25
        assert_allclose(value, linear_program(u, v, p=2), atol=1e-9)


def test_weights_are_sorted_with_their_atoms():
    value = circle.wasserstein_uniform(np.array([0.7, 0.1, 0.4]), weights=np.array([0.6, 0.3, 0.1]))
    # By Proposition 1 with masses .3, .1, .6 at .1, .4, .7: mean .49, cut -.01, middles .15, .35, .7.
    by_hand = sum(
        w * ((x + 0.01 - t) ** 2 + w**2 / 12) for w, x, t in [(0.3, 0.1, 0.15), (0.1, 0.4, 0.35), (0.6, 0.7, 0.7)]
    )
    assert_allclose(value, by_hand, rtol=1e-12)
    assert round(float(value), 6) == 0.021233
