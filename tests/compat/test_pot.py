"""`sphereot.compat.pot` against POT itself, and against a linear program where POT is wrong."""

import numpy as np
import pytest
from helpers.containers import CONTAINERS, EARTH
from numpy.testing import assert_allclose

from sphereot.compat import pot
from sphereot.sphere import normalize, random_uniform

ot = pytest.importorskip("ot")

RNG = np.random.default_rng(0)
X, Y = random_uniform(40, 4, seed=1), normalize(RNG.normal(size=(60, 4)) + 0.5)
A, B = (RNG.uniform(0.2, 1.0, n) for n in (40, 60))
A, B = A / A.sum(), B / B.sum()


def linear_program(u, v, a, b, p):
    gap = np.abs(u[:, None] - v[None])
    a, b = map(np.ascontiguousarray, (a, b))
    return ot.emd2(a, b, np.minimum(gap, 1 - gap) ** p)


# ---- the same as POT ----


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_two_samples(p, weighted):
    """An int seed gives POT's great circles, so that values agree to the precision of its search."""
    weights = (A, B) if weighted else (None, None)
    mine, log = pot.sliced_wasserstein_sphere(X, Y, *weights, 30, p, seed=5, log=True)
    theirs, their_log = ot.sliced_wasserstein_sphere(X, Y, *weights, 30, p, seed=5, log=True)
    assert_allclose(log["projections"], their_log["projections"], atol=1e-12)
    assert_allclose(log["projected_emds"], their_log["projected_emds"], rtol=1e-4)
    assert_allclose(mine, theirs, rtol=1e-4)
    assert_allclose(pot.sliced_wasserstein_sphere(X, Y, *weights, 30, p, seed=5), mine, rtol=1e-12)
    assert_allclose(pot.sliced_wasserstein_sphere(X, Y, *weights, 30, p, seed=5, root=False), mine**p, rtol=1e-12)


def test_uniform():
    mine, log = pot.sliced_wasserstein_sphere_unif(X, n_projections=30, seed=5, log=True)
    theirs, their_log = ot.sliced_wasserstein_sphere_unif(X, n_projections=30, seed=5, log=True)
    assert_allclose(mine, theirs, rtol=1e-9)
    assert_allclose(log["projected_emds"], their_log["projected_emds"], rtol=1e-7)
    assert_allclose(pot.sliced_wasserstein_sphere_unif(X, n_projections=30, seed=5), mine, rtol=1e-12)


def test_circle_batches():
    """One sample per column, as in POT; positions are taken modulo 1."""
    u, v = RNG.uniform(-1, 2, (20, 3)), RNG.uniform(-1, 2, (30, 3))
    a, b = RNG.uniform(0.1, 1, (20, 3)), RNG.uniform(0.1, 1, (30, 3))
    a, b = a / a.sum(axis=0), b / b.sum(axis=0)
    for p in (1, 2):
        expected = [linear_program(u[:, k] % 1, v[:, k] % 1, a[:, k], b[:, k], p) for k in range(3)]
        assert_allclose(pot.wasserstein_circle(u, v, a, b, p=p), expected, rtol=1e-9)
        costs, log = pot.binary_search_circle(u, v, a, b, p=p, log=True)
        assert_allclose(costs, expected, rtol=1e-9)
        assert log["optimal_theta"].shape == (3,)
    assert_allclose(pot.wasserstein_circle(u[:, 0], v[:, 0]), ot.wasserstein_circle(u[:, 0], v[:, 0]), rtol=1e-4)
    assert_allclose(
        pot.semidiscrete_wasserstein2_unif_circle(u), ot.semidiscrete_wasserstein2_unif_circle(u), rtol=1e-9
    )


def test_points_as_precise_as_pot_takes_them():
    """Lengths within 5e-5 of 1 are accepted, and scaled."""
    rough = X * (1 + RNG.uniform(-4e-5, 4e-5, (40, 1)))
    assert_allclose(
        pot.sliced_wasserstein_sphere(rough, Y, seed=0), pot.sliced_wasserstein_sphere(X, Y, seed=0), rtol=1e-9
    )
    with pytest.raises(ValueError, match="X_s must be unit vectors"):
        pot.sliced_wasserstein_sphere(1.01 * X, Y)
    with pytest.raises(ValueError, match="number of coordinates, got 4 and 3"):
        pot.sliced_wasserstein_sphere(X, np.eye(3))
    with pytest.raises(ValueError, match=r"number of columns.*got 2 and 1"):
        pot.wasserstein_circle(RNG.uniform(size=(5, 2)), RNG.uniform(size=(5, 1)))


def test_torch():
    torch = pytest.importorskip("torch")
    x, y = torch.tensor(X, requires_grad=True), torch.tensor(Y)
    mine, theirs = (module.sliced_wasserstein_sphere(x, y, n_projections=20, seed=3) for module in (pot, ot))
    assert_allclose(mine.detach(), theirs.detach(), rtol=1e-4)
    gradients = [torch.autograd.grad(value, x)[0] for value in (mine, theirs)]
    # POT differentiates along the sphere's radius too, in which the projection does not change.
    tangent = [gradient - (gradient * x.detach()).sum(1, keepdim=True) * x.detach() for gradient in gradients]
    assert_allclose(tangent[0], tangent[1], atol=2e-4 * float(tangent[1].abs().max()))


def test_jax():
    jnp = pytest.importorskip("jax.numpy")
    value = pot.sliced_wasserstein_sphere(jnp.asarray(X), jnp.asarray(Y), seed=3)
    assert_allclose(value, pot.sliced_wasserstein_sphere(X, Y, seed=3), rtol=1e-5)


def test_numpy_with_jax():
    jnp = pytest.importorskip("jax.numpy")
    value = pot.sliced_wasserstein_sphere(X, jnp.asarray(Y), seed=3)
    assert isinstance(value, type(jnp.ones(1)))
    assert_allclose(value, pot.sliced_wasserstein_sphere(X, Y, seed=3), rtol=1e-5)


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name):
    """POT takes arrays alone; here whatever holds points is read, and the result is that of a NumPy array."""
    container = CONTAINERS[name]()
    y = random_uniform(9, 3, seed=2)
    assert_allclose(
        pot.sliced_wasserstein_sphere(container, y, seed=0), pot.sliced_wasserstein_sphere(EARTH, y, seed=0), rtol=1e-9
    )
    value, log = pot.sliced_wasserstein_sphere_unif(container, seed=0, log=True)
    assert_allclose(value, pot.sliced_wasserstein_sphere_unif(EARTH, seed=0), rtol=1e-9)
    assert isinstance(log["projected_emds"], np.ndarray)


def test_containers_on_the_circle():
    """Lists and columns of tables; a table has one measure per column, as an array has."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    u, v = RNG.uniform(size=(6, 2)), RNG.uniform(size=(5, 2))
    expected = pot.wasserstein_circle(u, v)
    assert_allclose(pot.wasserstein_circle(pd.DataFrame(u), pl.DataFrame(v)), expected, rtol=1e-12)
    assert_allclose(pot.wasserstein_circle(u[:, 0].tolist(), pd.Series(v[:, 0])), expected[:1], rtol=1e-12)
    assert_allclose(
        pot.semidiscrete_wasserstein2_unif_circle(pl.Series(u[:, 0])),
        pot.semidiscrete_wasserstein2_unif_circle(u[:, 0]),
        rtol=1e-12,
    )


def test_no_points():
    for value, message in (
        ("points.csv", "X_s must be an array .*got str"),
        (X[0], r"X_s must have shape \(n, d\).*got \(4,\)"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            pot.sliced_wasserstein_sphere(value, Y)
    with pytest.raises(ValueError, match=r"u_values must have shape .*got \(1, 1, 1\)"):
        pot.wasserstein_circle(np.zeros((1, 1, 1)), np.zeros(3))


# ---- where POT is wrong ----


def test_weights_against_uniform():
    """POT sorts positions without their weights: 0.02483 for this measure, where the truth is 0.021233."""
    u, a = np.array([0.7, 0.1, 0.4]), np.array([0.6, 0.3, 0.1])
    fine = (np.arange(20_000) + 0.5) / 20_000
    gap = np.abs(u[:, None] - fine[None])
    exact = ot.emd2(a, np.full(20_000, 1 / 20_000), np.minimum(gap, 1 - gap) ** 2, numItermax=10**7)
    assert_allclose(pot.semidiscrete_wasserstein2_unif_circle(u, a), exact, atol=1e-6)
    assert abs(ot.semidiscrete_wasserstein2_unif_circle(u, a)[0] - exact) > 1e-3


def test_number_of_projections_that_is_not_the_default():
    """POT fails where `projections` has another count than `n_projections`."""
    frames = np.linalg.qr(RNG.normal(size=(7, 4, 2)))[0]
    _, log = pot.sliced_wasserstein_sphere(X, Y, projections=frames, log=True)
    assert log["projected_emds"].shape == (7,)
    _, log = pot.sliced_wasserstein_sphere_unif(X, projections=frames, log=True)
    assert log["projected_emds"].shape == (7,)


def test_search_that_ends_at_a_wrong_cut():
    """On few of many random pairs of unlike sizes POT's search ends at a wrong cut; ours all equal a linear program."""
    rng = np.random.default_rng(3)
    for _ in range(600):
        n, m = rng.integers(2, 12, 2)
        u, v, a, b = rng.uniform(size=n), rng.uniform(size=m), rng.uniform(size=n), rng.uniform(size=m)
        a, b = a / a.sum(), b / b.sum()
        exact = linear_program(u, v, a, b, 2)
        assert_allclose(pot.wasserstein_circle(u, v, a, b, p=2)[0], exact, atol=1e-9)
