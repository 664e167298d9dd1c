"""Geometry of the sphere: maps that invert each other, distances to the last digit, every library and its gradients."""

import warnings

import numpy as np
import pytest
from helpers.bad_input import assert_libraries_do_not_mix
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose
from scipy.stats import kstest

from sphereot import sphere
from sphereot.sphere import maps

DIMS = [2, 3, 7, 50]


def tangents(rng, x, length):
    v = rng.normal(size=x.shape)
    v -= np.sum(x * v, axis=-1, keepdims=True) * x
    return length * v / np.linalg.norm(v, axis=-1, keepdims=True)


def exact_distance(x, y):
    """The angle between two vectors in 60 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        x, y = ([mpmath.mpf(float(value)) for value in vector] for vector in (x, y))
        inner = mpmath.fsum(a * b for a, b in zip(x, y, strict=True))
        lengths = mpmath.sqrt(mpmath.fsum(a * a for a in x) * mpmath.fsum(b * b for b in y))
        return mpmath.acos(max(-1, min(1, inner / lengths)))


# ---- exp, log, transport ----


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("length", [1e-12, 1e-3, 1.0, 3.0, np.pi - 1e-6])
def test_log_inverts_exp(dim, length, rng):
    x = sphere_sample(rng, 20, dim)
    v = tangents(rng, x, length)
    y = sphere.exp(x, v)
    assert_allclose(np.linalg.norm(y, axis=1), 1, rtol=1e-15)
    # Near the antipode a rounding of y by 1e-16 turns the velocity by 1e-16 / (pi - length).
    assert_allclose(sphere.log(x, y), v, atol=4e-15 / min(1, np.pi - length), rtol=0)
    assert_allclose(np.sum(x * sphere.log(x, y), axis=1), 0, atol=1e-14)


@pytest.mark.parametrize("dim", DIMS)
def test_exp_inverts_log_at_antipodes_too(dim, rng):
    x = np.concatenate([sphere_sample(rng, 5, dim), np.eye(dim)[:1]])
    for y in (-x, x, sphere.exp(-x, tangents(rng, x, 1e-9))):
        v = sphere.log(x, y)
        assert_allclose(sphere.exp(x, v), y, atol=1e-14)
        assert_allclose(np.linalg.norm(v, axis=1), sphere.geodesic_distance(x, y), rtol=1e-14)
        assert_allclose(np.sum(x * v, axis=1), 0, atol=1e-14)
    assert np.all(sphere.log(x, x) == 0)


def test_exp_goes_along_the_great_circle(rng):
    """The curve t -> exp(x, t v) has speed |v| and stays in the plane of x and v; a part of v along x has no effect."""
    x = sphere_sample(rng, 6, 4)
    v = tangents(rng, x, 0.7)
    for t in (0.5, 2.0, 9.0):  # 9 * 0.7 is more than once around
        y = sphere.exp(x, t * v)
        basis = np.stack([x, v / 0.7], axis=-1)
        along = np.einsum("ndk,nd->nk", basis, y)
        assert_allclose(along, np.tile([np.cos(0.7 * t), np.sin(0.7 * t)], (6, 1)), atol=1e-14)
        assert_allclose(sphere.exp(x, t * v + 5 * x), y, atol=1e-14)


def test_many_steps_stay_on_the_sphere(rng):
    x = sphere_sample(rng, 1, 3, dtype=np.float32)
    for _ in range(2000):
        x = sphere.exp(x, 0.1 * rng.normal(size=x.shape).astype(np.float32))
    assert_allclose(np.linalg.norm(x), 1, rtol=3e-7)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("length", [0.0, 1e-8, 1.0, np.pi - 1e-7, np.pi])
def test_transport_is_an_isometry_that_carries_the_velocity(dim, length, rng):
    x = sphere_sample(rng, 8, dim)
    y = -x if length == np.pi else sphere.exp(x, tangents(rng, x, length))
    v, w = tangents(rng, x, 2.0), tangents(rng, x, 0.5)
    moved_v, moved_w = sphere.parallel_transport(x, y, v), sphere.parallel_transport(x, y, w)
    assert_allclose(np.sum(moved_v * moved_w, axis=1), np.sum(v * w, axis=1), atol=1e-14)
    # x + y has length 1e-7 next to the antipode, and is known to 1e-16.
    assert_allclose(np.sum(y * moved_v, axis=1), 0, atol=1e-8 if 3 < length < np.pi else 1e-14)
    # Geodesics carry their own velocity: at the end it points away from where they came from.
    there, back = sphere.log(x, y), sphere.log(y, x)
    if length < np.pi:
        assert_allclose(sphere.parallel_transport(x, y, there), -back, atol=1e-8)


def test_transport_solves_its_equation(rng):
    """Schild: the transported vector follows from small steps that only project on the next tangent space."""
    x, y = sphere_sample(rng, 1, 3)[0], sphere_sample(rng, 1, 3)[0]
    v = sphere.to_tangent(x, rng.normal(size=3))
    moved, velocity, steps = v, sphere.log(x, y), 20000
    for k in range(1, steps + 1):
        moved = maps._tangent_part(maps._exp(x, k / steps * velocity), moved)
    assert_allclose(sphere.parallel_transport(x, y, v), moved, atol=3 * np.pi**2 / steps)


def test_to_tangent_is_the_orthogonal_projection(rng):
    x, v = sphere_sample(rng, 5, 6), rng.normal(size=(5, 6))
    expected = np.stack([(np.eye(6) - np.outer(a, a)) @ b for a, b in zip(x, v, strict=True)])
    assert_allclose(sphere.to_tangent(x, v), expected, atol=1e-14)


def test_leading_dimensions_broadcast(rng):
    x, y = sphere_sample(rng, 6, 3).reshape(2, 3, 1, 3), sphere_sample(rng, 4, 3)
    assert sphere.geodesic_distance(x, y).shape == (2, 3, 4)
    assert sphere.log(x, y).shape == sphere.exp(x, y).shape == sphere.parallel_transport(x, y, y).shape == (2, 3, 4, 3)
    assert_allclose(sphere.log(x, y)[1, 2, 3], sphere.log(x[1, 2, 0], y[3]))


# ---- distance ----


@pytest.mark.parametrize("dim", DIMS)
def test_distance_to_the_last_digits(dim, rng):
    for length in (1e-15, 1e-7, 0.3, np.pi / 2, 3.1, np.pi - 1e-7):
        x = sphere_sample(rng, 1, dim)
        y = sphere.exp(x, tangents(rng, x, length))
        x, y = x[0], y[0]
        expected = exact_distance(x, y)
        # Both vectors are of unit length to 1e-16 only, which is what remains of the error.
        assert abs(float(sphere.geodesic_distance(x, y) - expected)) < 4e-16 * max(1, length)


def test_distance_of_tiny_and_special_pairs():
    e = np.eye(2)
    assert sphere.geodesic_distance(e[0], np.array([1.0, 1e-300])) == 1e-300
    assert sphere.geodesic_distance(e[0], np.array([-1.0, 1e-10])) == pytest.approx(np.pi - 1e-10, abs=1e-16)
    assert sphere.geodesic_distance(e[0], -e[0]) == np.pi
    x = sphere_sample(np.random.default_rng(0), 1000, 5, dtype=np.float32)
    assert np.all(sphere.geodesic_distance(x, x) == 0)
    assert sphere.geodesic_distance(x, x).dtype == np.float32


# ---- mean ----


def test_mean_of_symmetric_configurations(rng):
    north = np.array([0.0, 0.0, 1.0])
    for colatitude in (0.1, 1.0, 1.5):
        ring = sphere.from_spherical(colatitude, np.arange(5) * 2 * np.pi / 5)
        assert_allclose(sphere.frechet_mean(ring), north, atol=1e-12)
    assert_allclose(sphere.frechet_mean(np.eye(4)), np.full(4, 0.5), atol=1e-12)
    # On a geodesic the mean is that of the positions, weights included.
    x = sphere.exp(north, np.array([[0.2, 0, 0], [0.5, 0, 0], [-1.0, 0, 0]]))
    weights = np.array([1.0, 2.0, 0.5])
    expected = sphere.exp(north, np.array([(0.2 + 1.0 - 0.5) / 3.5, 0, 0]))
    assert_allclose(sphere.frechet_mean(x, weights=weights), expected, atol=1e-12)
    assert_allclose(sphere.frechet_mean(x[:1]), x[0], atol=1e-15)


@pytest.mark.parametrize("dim", DIMS)
def test_mean_is_stationary_and_least(dim, rng):
    x = sphere_sample(rng, 60, dim, shift=2 * np.sqrt(dim))
    weights = rng.random(60) * (rng.random(60) > 0.3)
    mean = sphere.frechet_mean(x, weights=weights)

    def cost(point):
        return float(weights @ sphere.geodesic_distance(point, x) ** 2 / weights.sum())

    assert_allclose(weights @ sphere.log(mean, x) / weights.sum(), 0, atol=1e-13)
    for other in sphere.exp(mean, tangents(rng, np.tile(mean, (20, 1)), 0.05)):
        assert cost(other) > cost(mean)


def test_mean_says_when_it_is_not_to_be_trusted(rng):
    x = sphere_sample(rng, 1, 3)
    with pytest.raises(ValueError, match="x must have a unique Fréchet mean, but their Euclidean mean is zero"):
        sphere.frechet_mean(np.concatenate([x, -x]))
    with pytest.raises(ValueError, match="Euclidean mean is zero"):
        sphere.frechet_mean(sphere.from_spherical(np.pi / 2, np.arange(7) * 2 * np.pi / 7))
    far = sphere.from_spherical(np.array([0.0, 0.1, 0.2, 2.5]), np.zeros(4))
    with pytest.warns(RuntimeWarning, match="more than a quarter of a turn"):
        sphere.frechet_mean(far)
    with pytest.warns(RuntimeWarning, match="the last step was"):
        sphere.frechet_mean(sphere_sample(rng, 30, 3, shift=2), max_steps=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sphere.frechet_mean(far, weights=np.array([1.0, 1.0, 1.0, 0.0]))  # a point without weight is no point


# ---- uniform points ----


def test_random_points_are_uniform():
    """<x, e> has density proportional to (1 - t^2)^((d - 3) / 2): on S^2 it is uniform (Archimedes)."""
    x = sphere.random_uniform(np.int64(4000), np.int32(3), seed=0)
    assert kstest(x[:, 1], "uniform", args=(-1, 2)).pvalue > 1e-4
    assert kstest(x @ [0.6, 0.0, 0.8], "uniform", args=(-1, 2)).pvalue > 1e-4


@pytest.mark.parametrize(("n", "dim"), [(0, 3), (-1, 3), (2.0, 3), (True, 3), (5, 1), (5, 0), (5, 2.5), ("5", 3)])
def test_random_points_need_integers(n, dim):
    name = "n: .*, got" if dim == 3 else "dim: .*, got"
    with pytest.raises(ValueError, match=name):
        sphere.random_uniform(n, dim)


# ---- coordinates ----

PLACES = {
    (0, 0): (1, 0, 0),
    (90, 0): (0, 1, 0),
    (-180, 0): (-1, 0, 0),
    (0, 90): (0, 0, 1),
    (0, -90): (0, 0, -1),
    (45, 45): (0.5, 0.5, np.sqrt(0.5)),
    (-120, 60): (-0.25, -np.sqrt(3) / 4, np.sqrt(3) / 2),
}


def test_known_locations():
    lonlat, x = np.array(list(PLACES), dtype=float), np.array(list(PLACES.values()), dtype=float)
    assert_allclose(sphere.from_lonlat(lonlat), x, atol=1e-15)
    assert_allclose(sphere.to_lonlat(x), lonlat, atol=1e-13)
    assert_allclose(sphere.from_lonlat(list(PLACES)), x, atol=1e-15)  # whole degrees in a list
    # Paris to New York on a sphere of 6371 km: 5837 km.
    paris, new_york = sphere.from_lonlat(np.array([[2.3522, 48.8566], [-74.0060, 40.7128]]))
    assert 6371 * sphere.geodesic_distance(paris, new_york) == pytest.approx(5837, abs=1)


def test_lonlat_round_trip(rng):
    x = sphere_sample(rng, 500, 3).reshape(5, 100, 3)
    lonlat = sphere.to_lonlat(x)
    assert_allclose(sphere.from_lonlat(lonlat), x, atol=1e-15)
    assert np.all((lonlat[..., 0] >= -180) & (lonlat[..., 0] < 180))
    assert_allclose(sphere.from_lonlat(lonlat + np.array([720, 0])), x, atol=1e-14)
    # +180 degrees, which atan2 can give, is -180: one location, one longitude.
    assert sphere.to_lonlat(np.array([-1.0, 0.0, 0.0]))[0] == sphere.to_lonlat(np.array([-1.0, -0.0, 0.0]))[0] == -180
    assert np.all(sphere.to_lonlat(np.array([[0.0, 0.0, 1.0], [-0.0, 0.0, 1.0]]))[:, 0] == 0)


def test_spherical_round_trip(rng):
    x = sphere_sample(rng, 200, 3)
    theta, phi = sphere.to_spherical(x)
    assert_allclose(sphere.from_spherical(theta, phi), x, atol=1e-15)
    assert_allclose(theta, np.arccos(x[:, 2]), atol=1e-12)
    tiny = sphere.from_spherical(np.array(1e-12), np.array(0.3))  # arccos would give 0
    assert_allclose(sphere.to_spherical(tiny), (1e-12, 0.3), rtol=1e-12)


@pytest.mark.parametrize("dim", DIMS)
def test_stereographic_round_trip(dim, rng):
    x = sphere_sample(rng, 100, dim).reshape(4, 25, dim)
    u = sphere.stereographic(x)
    assert u.shape == (4, 25, dim - 1)
    assert_allclose(u, x[..., 1:] / (1 + x[..., :1]), rtol=1e-9)
    assert_allclose(sphere.inverse_stereographic(u), x, atol=1e-15)
    for scale in (1e-200, 1e-8, 1.0, 1e7):
        v = scale * rng.normal(size=(10, dim - 1))
        assert_allclose(sphere.stereographic(sphere.inverse_stereographic(v)), v, rtol=1e-13)
    assert_allclose(np.linalg.norm(sphere.inverse_stereographic(1e200 * np.ones(dim - 1))), 1)


def test_stereographic_poles():
    assert_allclose(sphere.inverse_stereographic(np.zeros(2)), [1, 0, 0])
    assert_allclose(sphere.stereographic(np.array([1.0, 0.0, 0.0])), [0, 0])
    assert_allclose(sphere.inverse_stereographic(np.array([1e200, 0.0])), [-1, 0, 0], atol=1e-15)
    with pytest.raises(ValueError, match=r"x must not contain the point \(-1, 0, ..., 0\)"):
        sphere.stereographic(-np.eye(3))


# ---- every library ----


def calls(x, y, v, u):
    theta, phi = sphere.to_spherical(x)
    return {
        "to_tangent": sphere.to_tangent(x, v),
        "exp": sphere.exp(x, v),
        "log": sphere.log(x, y),
        "distance": sphere.geodesic_distance(x, y),
        "transport": sphere.parallel_transport(x, y, v),
        "mean": sphere.frechet_mean(x),
        "to_lonlat": sphere.to_lonlat(x),
        "from_lonlat": sphere.from_lonlat(sphere.to_lonlat(x)),
        "spherical": sphere.from_spherical(theta, phi),
        "stereographic": sphere.stereographic(x),
        "inverse": sphere.inverse_stereographic(u),
    }


def inputs(rng):
    x = sphere_sample(rng, 12, 3, shift=2)
    return x, sphere_sample(rng, 12, 3), rng.normal(size=(12, 3)), rng.normal(size=(12, 2))


def test_libraries_agree(library, rng):
    values = inputs(rng)
    expected = calls(*values)
    for name, got in calls(*(library.array(value) for value in values)).items():
        like = library.array([0.0])
        assert got.dtype == like.dtype, name
        assert type(got) is type(like), name
        result = np.asarray(np.from_dlpack(got) if library.name != "numpy" else got)
        # Degrees are numbers of up to 180, and single precision knows them to 1e-5.
        tolerance = 1e-12 if library.dtype == "float64" else 1e-4 if name == "to_lonlat" else 1e-5
        assert_allclose(result, expected[name], atol=tolerance, rtol=tolerance, err_msg=name)


def test_jit_gives_the_same(rng):
    jax = pytest.importorskip("jax")
    values = [jax.numpy.asarray(value) for value in inputs(rng)]
    eager, traced = calls(*values), jax.jit(calls)(*values)
    for name, got in traced.items():
        assert_allclose(got, eager[name], atol=1e-13, err_msg=name)


def test_half_types_are_computed_in_single(rng):
    torch = pytest.importorskip("torch")
    x = torch.tensor(sphere_sample(rng, 5, 3)).to(torch.bfloat16)
    assert sphere.geodesic_distance(x, x).dtype == torch.float32


SCALAR_MAPS = {
    "exp": lambda xp, x, y: sphere.exp(x, y - x),
    "log": lambda xp, x, y: sphere.log(x, y),
    "distance": lambda xp, x, y: sphere.geodesic_distance(x, y),
    "transport": lambda xp, x, y: sphere.parallel_transport(x, y, y * 0.3),
    "lonlat": lambda xp, x, y: sphere.to_lonlat(y),
    "spherical": lambda xp, x, y: sphere.to_spherical(y)[0] + sphere.to_spherical(y)[1],
}
SPECIAL = {
    "equal": ([0.0, 0.6, 0.8], [0.0, 0.6, 0.8]),
    "antipodes": ([0.0, 0.6, 0.8], [0.0, -0.6, -0.8]),
    "poles": ([0.0, 0.0, 1.0], [0.0, 0.0, -1.0]),
    "generic": ([0.6, 0.0, 0.8], [0.0, 0.28, 0.96]),
}


@pytest.mark.parametrize("pair", SPECIAL)
@pytest.mark.parametrize("function", SCALAR_MAPS)
def test_gradients_are_finite(function, pair):
    """No NaN at equal points, antipodes and poles, in torch and in JAX, which agree."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    x, y = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in SPECIAL[pair])
    SCALAR_MAPS[function](torch, x, y).sum().backward()
    jx, jy = (jax.numpy.asarray(value) for value in SPECIAL[pair])
    by_jax = jax.grad(lambda a, b: SCALAR_MAPS[function](jax.numpy, a, b).sum(), argnums=(0, 1))(jx, jy)
    for tensor, other in zip((x, y), by_jax, strict=True):
        gradient = np.zeros(3) if tensor.grad is None else tensor.grad.numpy()
        assert np.all(np.isfinite(gradient))
        assert_allclose(gradient, other, atol=1e-9)


def test_gradients_by_differences(rng):
    """Along tangent directions, against central differences along geodesics."""
    torch = pytest.importorskip("torch")
    x, y = sphere_sample(rng, 6, 4), sphere_sample(rng, 6, 4)
    direction, probe, step = tangents(rng, y, 1.0), rng.normal(size=(6, 4)), 1e-6
    for function in ("log", "distance", "transport"):

        def value(points, function=function):
            result = SCALAR_MAPS[function](np, x, points)
            return np.sum(result * probe[:, : result.shape[1]]) if result.ndim == 2 else np.sum(result)

        tensor = torch.tensor(y, requires_grad=True)
        result = SCALAR_MAPS[function](torch, torch.tensor(x), tensor)
        total = (result * torch.tensor(probe)).sum() if result.ndim == 2 else result.sum()
        (gradient,) = torch.autograd.grad(total, tensor)
        ahead, behind = sphere.exp(y, step * direction), sphere.exp(y, -step * direction)
        expected = (value(ahead) - value(behind)) / (2 * step)
        assert_allclose(float((gradient.numpy() * direction).sum()), expected, rtol=1e-6)


def test_gradient_of_the_mean(rng):
    """Rotating all points rotates the mean, so the derivative along a rotation is known."""
    torch = pytest.importorskip("torch")
    x, probe = sphere_sample(rng, 20, 3, shift=3), rng.normal(size=3)
    spin = np.cross(np.array([[0.3, -1.0, 0.5]]), x)
    tensor = torch.tensor(x, requires_grad=True)
    mean = sphere.frechet_mean(tensor)
    (gradient,) = torch.autograd.grad((mean * torch.tensor(probe)).sum(), tensor)
    expected = probe @ np.cross([0.3, -1.0, 0.5], mean.detach().numpy())
    assert_allclose(float((gradient.numpy() * spin).sum()), expected, rtol=1e-8)


# ---- bad input ----

E = np.eye(3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sphere.exp(2 * E, E), ValueError, "x: row 0 has length 2"),
        (lambda: sphere.log(np.stack([E, 2 * E]), E), ValueError, "x: row 3 has length 2"),
        (lambda: sphere.geodesic_distance(E, np.full((3, 3), np.nan)), ValueError, "y: row 0 holds NaN"),
        (lambda: sphere.log(E, np.eye(4)), ValueError, "x has points in dimension 3 and y in dimension 4"),
        (lambda: sphere.exp(E, np.ones(2)), ValueError, r"v must have shape \(\.\.\., 3\), as its points, got \(2,\)"),
        (lambda: sphere.to_tangent(E, E - np.inf), ValueError, "v holds NaN or infinity"),
        (lambda: sphere.log(np.eye(3, dtype=int), E), TypeError, "x must have a real floating dtype, got int64"),
        (lambda: sphere.geodesic_distance(np.ones((4, 1)), np.ones((4, 1))), ValueError,
         r"x must have shape .*got \(4, 1\)"),
        (lambda: sphere.from_lonlat([[35.7, 139.7]]), ValueError,
         r"lonlat must have latitudes from -90 to 90, got 139.7 degrees.*The order is longitude, latitude"),
        (lambda: sphere.from_lonlat(np.zeros((2, 3))), ValueError,
         r"lonlat must have shape \(\.\.\., 2\), got \(2, 3\)"),
        (lambda: sphere.from_lonlat([[np.nan, 0.0]]), ValueError, "lonlat holds NaN"),
        (lambda: sphere.to_lonlat(np.eye(4)), ValueError,
         r"x must have points on S\^2, shape \(\.\.\., 3\), got dimension 4"),
        (lambda: sphere.from_spherical(np.zeros(3), np.zeros(2)), ValueError, "theta and phi have shapes"),
        (lambda: sphere.inverse_stereographic(1.0), ValueError,
         r"u must have shape \(\.\.\., d-1\) with d-1 of at least 1, got \(\)"),
        (lambda: sphere.frechet_mean(E, weights=np.ones(2)), ValueError,
         "weights must have one weight for each point of x"),
        (lambda: sphere.frechet_mean(E, tolerance=0), ValueError, "tolerance: .*, got 0"),
        (lambda: sphere.frechet_mean(E, max_steps=0), ValueError, "max_steps: .*, got 0"),
    ],
)  # fmt: skip
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_libraries_do_not_mix():
    message = "x and v must be from the same library, got a numpy ndarray and a torch Tensor"
    assert_libraries_do_not_mix({message: lambda torch: sphere.exp(E, torch.eye(3))})


def test_longitudes_and_latitudes_as_two_arrays(rng):
    """`from_lonlat(lon, lat)` is `from_lonlat` of both in one array; plain numbers and other shapes broadcast."""
    lonlat = np.stack([rng.uniform(-180, 180, (4, 5)), rng.uniform(-90, 90, (4, 5))], axis=-1)
    assert_allclose(sphere.from_lonlat(lonlat[..., 0], lonlat[..., 1]), sphere.from_lonlat(lonlat), rtol=0)
    assert_allclose(sphere.from_lonlat([0, 90], [0, 0]), np.eye(3)[:2], atol=1e-15)
    assert_allclose(sphere.from_lonlat(90, [0.0, 90.0]), np.eye(3)[1:], atol=1e-15)
    assert sphere.from_lonlat(np.zeros((4, 1)), np.zeros(5, np.float32)).shape == (4, 5, 3)
    assert sphere.from_lonlat(2.35, 48.86).shape == (3,)
    with pytest.raises(ValueError, match=r"got 139\.7 degrees.*The order is longitude, latitude"):
        sphere.from_lonlat([35.7], [139.7])
    with pytest.raises(ValueError, match=r"longitude and latitude have shapes \(4,\) and \(5,\)"):
        sphere.from_lonlat(np.zeros(4), np.zeros(5))
    with pytest.raises(ValueError, match=r"lonlat must have .*got \(5,\).*Pass two arrays as from_lonlat\(lon, lat\)"):
        sphere.from_lonlat(np.zeros(5))


def test_radians_are_noticed(rng):
    """Many locations within 2 pi of 0 are radians, not degrees; a few may be either."""
    radians = rng.uniform([-np.pi, -np.pi / 2], [np.pi, np.pi / 2], (100, 2))
    eastward = radians + np.array([np.pi, 0])
    for arguments in ((radians,), (radians[:, 0], radians[:, 1]), (radians.reshape(4, 25, 2),), (eastward,)):
        with pytest.warns(UserWarning, match=r"all 100 longitudes and latitudes .* in radians.*numpy\.rad2deg") as seen:
            sphere.from_lonlat(*arguments)
        assert seen[0].filename == __file__  # the caller's line
    sphere.from_lonlat(radians[:99])
    sphere.from_lonlat(np.rad2deg(radians))
    sphere.from_lonlat(np.concatenate([radians, [[0.0, 7.0]]]))


@pytest.mark.parametrize("function", [sphere.geodesic_distance, sphere.log])
def test_pairs_that_do_not_match(function, rng):
    """50 and 40 points have no pairs row by row; the message has the way to all pairs, and it works."""
    x, y = sphere.random_uniform(50, 3, seed=0), sphere.random_uniform(40, 3, seed=1)
    message = r"x has shape \(50, 3\) and y has shape \(40, 3\).*for all pairs pass x\[:, None\] and y\[None\]"
    with pytest.raises(ValueError, match=message):
        function(x, y)
    assert function(x[:, None], y[None]).shape[:2] == (50, 40)


def test_vectors_that_do_not_match():
    x, v = sphere.random_uniform(50, 3, seed=0), np.zeros((40, 3))
    for function in (sphere.exp, sphere.to_tangent):
        with pytest.raises(ValueError, match=r"x has shape \(50, 3\) and v has shape \(40, 3\).*one vector for each"):
            function(x, v)
