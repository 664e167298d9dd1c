"""Every array library gets the same values, in its own array type, dtype and device, also under jit."""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose

import sphereot
from sphereot import circle
from sphereot._arrays.validation import require_same_kind


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    x, y = sphere_sample(rng, 40, 4), sphere_sample(rng, 30, 4, shift=1)
    return x, y, rng.random(40), rng.random(30)


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_ssw(library, points, p):
    x, y, a, b = points
    frames = sphereot.great_circles(8, 4, seed=0)
    lx, ly, la, lb, lf = (library.array(v) for v in (x, y, a, b, frames))
    weights, given = {"x_weights": a, "y_weights": b}, {"x_weights": la, "y_weights": lb}
    library.check(sphereot.ssw(lx, ly, p=p, projections=lf), sphereot.ssw(x, y, p=p, projections=frames))
    library.check(sphereot.ssw(lx[:30, :], ly, p=p, projections=lf), sphereot.ssw(x[:30], y, p=p, projections=frames))
    library.check(
        sphereot.ssw(lx, ly, p=p, projections=lf, root=True, **given),
        sphereot.ssw(x, y, p=p, projections=frames, root=True, **weights),
    )
    library.check(
        sphereot.ssw_uniform(lx, p=p, projections=lf, weights=la),
        sphereot.ssw_uniform(x, p=p, projections=frames, weights=a),
    )
    estimate = sphereot.ssw_estimate(lx, ly, p=p, projections=lf)
    expected = sphereot.ssw_estimate(x, y, p=p, projections=frames)
    assert_allclose(estimate.value, expected.value, rtol=library.rtol())
    assert_allclose(estimate.standard_error, expected.standard_error, rtol=library.rtol())
    library.check(
        sphereot.pairwise_ssw([lx, ly], p=p, projections=lf),
        sphereot.pairwise_ssw([x, y], p=p, projections=frames),
        shape=(2, 2),
    )


def test_one_seed_gives_the_same_slices_in_every_library(library, points):
    x, y, _, _ = points
    lx, ly = library.array(x), library.array(y)
    library.check(sphereot.ssw(lx, ly, seed=7, n_projections=9), sphereot.ssw(x, y, seed=7, n_projections=9))
    met = sphereot.ssw_estimate(lx, seed=7, n_projections=20, rtol=0.1)
    assert met.n_projections == sphereot.ssw_estimate(x, seed=7, n_projections=20, rtol=0.1).n_projections
    library.check(sphereot.project(lx, library.array(np.eye(4)[None, :, :2])), project_by_hand(x), shape=(1, 40))


def project_by_hand(x):
    return (np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi) % 1)[None]


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_circle(library, p, rng):
    u, v, a, b = rng.random((3, 1, 7)), rng.random((2, 5)), rng.random(7), rng.random((2, 5))
    lu, lv, la, lb = (library.array(t) for t in (u, v, a, b))
    library.check(
        circle.wasserstein(lu, lv, p=p, u_weights=la, v_weights=lb),
        circle.wasserstein(u, v, p=p, u_weights=a, v_weights=b),
        shape=(3, 2),
    )
    library.check(
        circle.wasserstein_uniform(lu, p=p, weights=la), circle.wasserstein_uniform(u, p=p, weights=a), shape=(3, 1)
    )
    plan = circle.transport_plan(lu[0, 0, :], lv[0, :], p=p, u_weights=la)
    library.check(plan.cost, circle.wasserstein(u[0, 0], v[0], p=p, u_weights=a))
    assert_allclose(float(plan.mass.sum() if library.name != "array_api_strict" else library.module.sum(plan.mass)), 1)


def test_normalize_and_random_points(library, rng):
    vectors = rng.normal(size=(2, 5, 3))
    expected = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    library.check(sphereot.sphere.normalize(library.array(vectors)), expected, shape=(2, 5, 3))
    like = library.array([0.0])
    library.check(
        sphereot.sphere.random_uniform(6, 3, seed=1, like=like),
        sphereot.sphere.random_uniform(6, 3, seed=1),
        shape=(6, 3),
    )


def test_generators_of_torch_and_jax(points):
    """A torch.Generator advances, a JAX key does not, and no global random state changes."""
    torch = pytest.importorskip("torch")
    x, y = (torch.tensor(v) for v in points[:2])
    before = torch.random.get_rng_state()
    first = sphereot.ssw(x, y, seed=torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    assert sphereot.ssw(x, y, seed=generator) == first
    assert sphereot.ssw(x, y, seed=generator) != first
    assert torch.equal(before, torch.random.get_rng_state())

    jax = pytest.importorskip("jax")
    jx, jy = (jax.numpy.asarray(v) for v in points[:2])
    key = jax.random.key(3)
    assert sphereot.ssw(jx, jy, seed=key) == sphereot.ssw(jx, jy, seed=key)
    assert sphereot.ssw(jx, jy, seed=key) != sphereot.ssw(jx, jy, seed=jax.random.key(4))


@pytest.mark.parametrize("p", [1, 2])
def test_under_jit(p, points):
    """Shapes are static and no value is read, so everything traces."""
    jax = pytest.importorskip("jax")
    x, y, a, _ = (jax.numpy.asarray(v) for v in points)

    def distances(x, y, a, key):
        together = sphereot.ssw(x, y, p=p, seed=key, n_projections=5)
        weighted = sphereot.ssw(x, y, p=p, seed=key, n_projections=5, x_weights=a)
        return together, weighted, sphereot.ssw_uniform(x, p=p, seed=0, n_projections=5)

    key = jax.random.key(0)
    for traced, eager in zip(jax.jit(distances)(x, y, a, key), distances(x, y, a, key), strict=True):
        assert_allclose(traced, eager, rtol=1e-10)


def test_half_types_are_computed_in_single(points):
    torch = pytest.importorskip("torch")
    expected = sphereot.ssw(points[0], points[1], seed=0)
    for dtype, rtol in ((torch.float16, 2e-2), (torch.bfloat16, 0.1)):
        got = sphereot.ssw(torch.tensor(points[0]).to(dtype), torch.tensor(points[1]).to(dtype), seed=0)
        assert got.dtype == torch.float32
        assert_allclose(float(got), expected, rtol=rtol)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda array, x, y: sphereot.ssw(array(x), array(np.where(np.arange(30)[:, None] == 4, 3 * y, y))),
         "y: row 4 has length 3"),
        (lambda array, x, y: sphereot.ssw(array(x), array(y), x_weights=array(np.zeros(40))),
         "x_weights: at least one weight must be positive, got zeros"),
    ],
)  # fmt: skip
def test_bad_values_are_an_error_in_every_library(library, points, call, message):
    with pytest.raises(ValueError, match=message):
        call(library.array, *points[:2])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: require_same_kind(x=x, y=x.to("meta")), ValueError,
         "x and y must be on the same device, got cpu and meta"),
        (lambda x: sphereot.ssw(x, x.to("meta")), TypeError,
         "y is on the meta device, which has shapes without values"),
        (lambda x: sphereot.great_circles(4, 3, like=x.to("meta")), TypeError, "like is on the meta device"),
    ],
)  # fmt: skip
def test_devices_do_not_mix(call, error, message):
    with pytest.raises(error, match=message):
        call(pytest.importorskip("torch").tensor([[1.0, 0.0]]))
