"""The Radon transform, its dual and the hemispherical transform: the propositions, by quadrature and by samples."""

import array_api_compat
import numpy as np
import pytest
from helpers.bad_input import assert_libraries_do_not_mix
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

import sphereot
from sphereot.radon import (
    IntegrationSet,
    dual_radon_transform,
    hemispherical_transform,
    integration_set,
    radon_transform,
)

EQUATOR = np.eye(3)[None, :, :2]
TURNS = np.arange(64) / 64


def area(dim):
    """Surface of S^{d-1}."""
    return 2 * np.pi ** (dim / 2) / special.gamma(dim / 2)


def bumpy(x):
    """A positive function, neither even nor odd, that no axis of the space is special to."""
    k = np.arange(1.0, x.shape[-1] + 1)
    return np.exp(x @ np.cos(k)) + np.sin(2 * x @ np.sin(3 * k)) ** 2


def product_rule(n):
    """Points and weights on S^2, from the pole e_3: Gauss in height, equal steps in longitude."""
    heights, weights = np.polynomial.legendre.leggauss(n)
    angle = np.pi * (np.arange(2 * n) + 0.5) / n
    radius = np.sqrt(1 - heights**2)[:, None]
    level = np.broadcast_to(heights[:, None], (n, 2 * n))
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), level], axis=-1).reshape(-1, 3)
    return points, np.repeat(weights, 2 * n) * np.pi / n


def harmonics(degree):
    """Real spherical harmonics of one degree on S^2, orthonormal, as functions of unit vectors."""

    def real(x, order):
        longitude, colatitude = np.arctan2(x[..., 1], x[..., 0]), np.arccos(np.clip(x[..., 2], -1, 1))
        value = special.sph_harm_y(degree, abs(order), colatitude, longitude)
        return np.real(value) if order == 0 else np.sqrt(2) * (np.real(value) if order > 0 else np.imag(value))

    return [lambda x, order=order: real(x, order) for order in range(-degree, degree + 1)]


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 6, 9])
def test_integration_set_is_what_projects_there(dim):
    """Proposition 6: unit vectors in F = E^perp + Uz with <x, Uz> > 0; all of them have the given turn."""
    frame = sphereot.great_circles(1, dim, seed=dim)[0]
    actual = integration_set(frame, 0.3, n_nodes=4, n_directions=30)
    assert isinstance(actual, IntegrationSet)
    assert_allclose(np.linalg.norm(actual.points, axis=1), 1, rtol=1e-13)
    assert_allclose(sphereot.project(actual.points, frame[None]), 0.3, rtol=1e-12)
    assert np.all(actual.points @ frame @ [np.cos(0.6 * np.pi), np.sin(0.6 * np.pi)] > 0)
    assert np.all(actual.weights > 0)
    assert_allclose(np.sum(actual.weights), area(dim), rtol=1e-12)
    assert_allclose(
        np.sum(actual.weights * bumpy(actual.points)),
        radon_transform(bumpy, frame[None], [0.3], n_nodes=4, n_directions=30)[0, 0],
    )


@pytest.mark.parametrize(("dim", "degree"), [(3, 9), (4, 9), (5, 9), (6, 9), (8, 3)])
def test_polynomials_are_exact(dim, degree):
    """With five nodes, powers up to 9 (3 from d = 7 on) of coordinates along the circle and beside it.

    x = r Uz + sqrt(1 - r^2) w has the surface measure r (1 - r^2)^{(d-4)/2} dr dw, so that the integrals are products
    of beta functions: 2 pi int r^{a+1} (1 - r^2)^{(d-4+b)/2} dr times int w_1^b over S^{d-3}.
    """
    frame = np.eye(dim)[None, :, :2]
    for a in range(degree + 1):
        for b in range(degree + 1 - a):
            expected = 0.0
            if b % 2 == 0:
                # w_1 over S^{d-3}: B((b+1)/2, (d-3)/2) times the area of S^{d-4}; 2 for the two points of S^0.
                around = 2.0 if dim == 3 else special.beta((b + 1) / 2, (dim - 3) / 2) * area(dim - 3)
                expected = np.pi * special.beta((a + 2) / 2, (dim - 2 + b) / 2) * around
            actual = radon_transform(
                lambda x, a=a, b=b: x[..., 0] ** a * x[..., 2] ** b, frame, [0.0], n_nodes=5, n_directions=50
            )
            assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 6, 7, 30, 300])
def test_uniform_goes_to_uniform(dim):
    frames = sphereot.great_circles(2, dim, seed=0)
    actual = radon_transform(
        lambda x: np.full(x.shape[:-1], 1 / area(dim)), frames, TURNS[::32], n_nodes=6, n_directions=64
    )
    assert_allclose(actual, np.ones((2, 2)), rtol=1e-11)


def test_against_adaptive_quadrature_on_the_sphere():
    """On S^2, R f(t) dt is the integral of f over the lune between the turns t and t + dt, here of a twentieth."""
    frame = sphereot.great_circles(1, 3, seed=3)[0]
    normal = np.cross(frame[:, 0], frame[:, 1])

    def on_sphere(latitude, turn):
        angle = 2 * np.pi * turn
        x = np.cos(latitude) * (frame @ [np.cos(angle), np.sin(angle)]) + np.sin(latitude) * normal
        return 2 * np.pi * np.cos(latitude) * bumpy(x)

    lune = integrate.dblquad(on_sphere, 0.2, 0.25, -np.pi / 2, np.pi / 2, epsabs=0, epsrel=1e-9)[0]
    nodes, weights = np.polynomial.legendre.leggauss(8)
    actual = radon_transform(bumpy, frame[None], 0.225 + 0.025 * nodes)[0]
    assert_allclose(0.025 * np.sum(weights * actual), lune, rtol=1e-8)


@pytest.mark.parametrize("dim", [3, 4, 5, 6])
def test_keeps_the_total(dim):
    """The transform of a density is one on each circle: the integral over a turn is that over the sphere."""
    kappa, mean = 6.0, sphere_sample(np.random.default_rng(1), 1, dim)[0]
    frames = sphereot.great_circles(2, dim, seed=1)
    actual = radon_transform(stats.vonmises_fisher(mean, kappa).pdf, frames, TURNS[::2], n_nodes=12)
    assert_allclose(np.mean(actual, axis=1), 1, rtol=1e-8)


@pytest.mark.parametrize("dim", [3, 4, 5, 6])
def test_is_the_density_of_projected_samples(dim):
    """Proposition 3, against SciPy's sampler: by the test of Pearson over 32 arcs, p > 1e-4 with a fixed seed.

    From d = 4 on this tells the weight <x, Uz> from other powers of it, which the uniform density cannot.
    """
    kappa = 8.0
    frame = sphereot.great_circles(1, dim, seed=2)[0]
    mean = sphereot.sphere.normalize(frame[:, 0] + np.linspace(-0.3, 0.5, dim))
    distribution = stats.vonmises_fisher(mean, kappa, seed=np.random.default_rng(0))
    turns = sphereot.project(sphereot.sphere.normalize(distribution.rvs(50_000)), frame[None])[0]
    counts = np.histogram(turns, 32, (0, 1))[0]
    nodes, weights = np.polynomial.legendre.leggauss(4)
    arcs = (np.arange(32)[:, None] + (nodes + 1) / 2) / 32
    density = radon_transform(distribution.pdf, frame[None], arcs.reshape(-1), n_nodes=16)[0].reshape(32, 4)
    expected = 50_000 * density @ weights / 64
    assert_allclose(np.sum(expected), 50_000, rtol=1e-6)
    kept = expected > 5
    assert stats.chisquare(counts[kept], expected[kept] / expected[kept].sum() * counts[kept].sum()).pvalue > 1e-4


@pytest.mark.parametrize("dim", [8, 20])
def test_high_dimensions_by_rotated_bases(dim):
    """A linear-exponential density of small concentration: the error of 2048 directions is below a thousandth."""
    mean = np.full(dim, dim**-0.5)
    distribution = stats.vonmises_fisher(mean, 2.0)
    frames = sphereot.great_circles(1, dim, seed=0)
    one, two = (radon_transform(distribution.pdf, frames, TURNS[::16], seed=seed) for seed in (0, 1))
    assert_allclose(one, two, rtol=2e-3)
    assert np.any(one != two)
    assert_allclose(one, radon_transform(distribution.pdf, frames, TURNS[::16]), rtol=0, atol=0)
    # Against samples: the first Fourier coefficient, whose standard error is below 1 / sqrt(2 N).
    turns = sphereot.project(sphereot.sphere.normalize(distribution.rvs(100_000, random_state=1)), frames)[0]
    grid = np.arange(16) / 16
    actual = np.mean(radon_transform(distribution.pdf, frames, grid)[0] * np.exp(2j * np.pi * grid))
    assert abs(actual - np.mean(np.exp(2j * np.pi * turns))) < 5 / np.sqrt(200_000)


def test_even_and_odd_functions():
    """Opposite turns have opposite half subspheres: even functions go to period 1/2, odd ones to a change of sign."""
    frames = sphereot.great_circles(3, 4, seed=0)
    turns = TURNS[:8]
    for sign in (1, -1):
        here, opposite = (
            radon_transform(lambda x, s=sign: bumpy(x) + s * bumpy(-x), frames, t) for t in (turns, turns + 0.5)
        )
        assert_allclose(opposite, sign * here, atol=1e-10)
        assert np.max(np.abs(here)) > 0.1


@pytest.mark.parametrize("degree", range(1, 9))
def test_no_harmonic_is_lost(degree):
    """R^* R commutes with rotations, so it is one number on all harmonics of a degree; and none of the numbers is 0.

    This is the kernel of Proposition 4: even functions of total 0, degrees 2, 4, ..., are not in it, nor are odd ones.
    A mean over all great circles is one over their normals, for which a product rule is exact; each circle carries
    polynomials of degree 2 l in the turn.
    """
    normals, weights = product_rule(degree + 1)
    axis = np.where(np.abs(normals[:, 2:]) < 0.9, [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]])
    first = sphereot.sphere.normalize(np.cross(normals, axis))
    frames = np.stack([first, np.cross(normals, first)], axis=-1)
    turns = np.arange(4 * degree + 2) / (4 * degree + 2)
    norms = [
        weights @ np.mean(radon_transform(f, frames, turns, n_nodes=degree + 2) ** 2, axis=1) / (4 * np.pi)
        for f in harmonics(degree)
    ]
    assert_allclose(norms, norms[0], rtol=1e-9)
    assert norms[0] > 0.05


def test_duality():
    """Proposition 2: <R f, g> = <f, R^* g>, with a rule on S^2 that knows nothing of the circles.

    g(P^U(x), U) jumps at the two points orthogonal to the plane, where the rule with n rows errs by a fraction of the
    area of a cell, (pi / n)^2, times f and the jump, which are a few units.
    """
    frames = sphereot.great_circles(3, 3, seed=4)

    def g(turns, frames):
        return np.cos(2 * np.pi * turns + frames[:, :1, 0]) ** 3 + frames[:, 2:, 1] * np.sin(4 * np.pi * turns)

    left = np.mean(radon_transform(bumpy, frames, TURNS) * g(np.tile(TURNS, (3, 1)), frames))
    points, weights = product_rule(500)
    right = np.sum(weights * bumpy(points) * dual_radon_transform(g, points, projections=frames))
    assert abs(left) > 0.2
    assert_allclose(right, left, rtol=0, atol=2 * (np.pi / 500) ** 2)


@pytest.mark.parametrize("dim", [4, 5, 6])
def test_duality_by_samples(dim):
    """The same in higher dimension, by the mean over 200,000 uniform points, to five standard errors."""
    frames = sphereot.great_circles(2, dim, seed=5)

    def g(turns, frames):
        return np.exp(np.cos(2 * np.pi * turns + frames[:, :1, 0]))

    left = np.mean(radon_transform(bumpy, frames, TURNS[::2], n_nodes=12) * g(np.tile(TURNS[::2], (2, 1)), frames))
    points = sphereot.sphere.random_uniform(200_000, dim, seed=6)
    products = area(dim) * bumpy(points) * dual_radon_transform(g, points, projections=frames)
    assert abs(np.mean(products) - left) < 5 * np.std(products) / np.sqrt(len(products))


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_back_projection_of_the_circle_itself(dim):
    """g(z, U) = <Uz, a> goes to E|U^T x| <x, a>, by symmetry; |U^T x|^2 follows Beta(1, (d-2)/2)."""
    x, a = sphere_sample(np.random.default_rng(0), 4, dim), np.eye(dim)[0]
    actual = dual_radon_transform(
        lambda turns, frames: (
            np.cos(2 * np.pi * turns) * (a @ frames)[:, :1] + np.sin(2 * np.pi * turns) * (a @ frames)[:, 1:]
        ),
        x,
        n_projections=20_000,
        seed=1,
    )
    length = special.beta(1.5, (dim - 2) / 2) / special.beta(1, (dim - 2) / 2) if dim > 2 else 1.0
    # g is within [-1, 1], and its variance at most 1/d + the square of its mean.
    assert_allclose(actual, length * x[:, 0], rtol=0, atol=5 / np.sqrt(20_000))


def test_dual_draws_great_circles():
    x = sphere_sample(np.random.default_rng(0), 3, 3)
    seen = []

    def g(turns, frames):
        seen.append(frames)
        return turns

    first, again, other = (dual_radon_transform(g, x, seed=seed) for seed in (1, 1, 2))
    assert seen[0].shape == (200, 3, 2)
    assert_allclose(first, again, rtol=0)
    assert_allclose(first, np.mean(sphereot.project(x, seen[0]), axis=0))
    assert np.all(first != other)


def test_hemispheres_against_adaptive_quadrature():
    def on_sphere(longitude, height):
        radius = np.sqrt(1 - height**2)
        return bumpy(np.array([radius * np.cos(longitude), radius * np.sin(longitude), height]))

    expected = integrate.dblquad(on_sphere, 0, 1, 0, 2 * np.pi, epsabs=0, epsrel=1e-9)[0]
    assert_allclose(hemispherical_transform(bumpy, [[0.0, 0.0, 1.0]]), expected, rtol=1e-8)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 7])
def test_hemispheres_of_even_and_linear_functions(dim):
    """Of an even function H sees the total alone; <a, y> goes to <a, x> times the volume of the ball of R^{d-1}."""
    x = sphere_sample(np.random.default_rng(0), 5, dim)
    volume = np.pi ** ((dim - 1) / 2) / special.gamma((dim + 1) / 2)
    n = {"n_nodes": 6, "n_directions": 60}
    assert_allclose(hemispherical_transform(lambda y: y[..., 0] ** 2, x, **n), area(dim) / (2 * dim), rtol=1e-12)
    assert_allclose(hemispherical_transform(lambda y: y[..., 0], x, **n), volume * x[:, 0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dim", [3, 4, 5, 6])
def test_radon_is_a_weighted_hemispherical_transform(dim):
    """Proposition 7, on the hyperplane F of Proposition 6, with the weight that its print leaves out."""
    frame = sphereot.great_circles(1, dim, seed=6)[0]
    for turn in (0.1, 0.7):
        pole = frame @ [np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)]
        left_out = frame @ [-np.sin(2 * np.pi * turn), np.cos(2 * np.pi * turn)]
        basis = np.linalg.svd(left_out[None])[2][1:].T  # of F, whatever its axes
        inside = pole @ basis

        def weighted(y, basis=basis, inside=inside):
            return 2 * np.pi * bumpy(y @ basis.T) * (y @ inside)

        actual = radon_transform(bumpy, frame[None], [turn], n_nodes=14)[0, 0]
        assert_allclose(hemispherical_transform(weighted, inside[None], n_nodes=14)[0], actual, rtol=1e-6)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax", "array_api_strict"])
@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-4), ("float64", 1e-11)])
def test_every_library(library, dtype, rtol):
    module = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))

    def array(values):
        return module.asarray(np.asarray(values), dtype=getattr(module, dtype))

    def f(x):
        return array_api_compat.array_namespace(x).exp(x[..., 0] - x[..., 1] * x[..., 2])

    def g(turns, frames):
        return turns * turns

    frames = sphereot.great_circles(2, 4, seed=0)
    x = sphere_sample(np.random.default_rng(0), 3, 4)
    options = {"n_nodes": 10}
    pairs = [
        (lambda a: radon_transform(f, a(frames), a([0.1, 0.6]), **options)),
        (lambda a: radon_transform(f, a(frames), a([[0.1], [0.6]]), **options)),
        (lambda a: hemispherical_transform(f, a(x), **options)),
        (lambda a: dual_radon_transform(g, a(x), projections=a(frames))),
        (lambda a: integration_set(a(frames[0]), 0.2, n_nodes=3).points),
    ]
    for call in pairs:
        actual, expected = call(array), call(np.asarray)
        assert array_api_compat.array_namespace(actual) is array_api_compat.array_namespace(array([0.0]))
        assert actual.dtype == array([0.0]).dtype
        assert_allclose(np.from_dlpack(actual), expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: radon_transform(bumpy, EQUATOR[0], TURNS), ValueError,
         r"projections must have shape .L, d, 2. .*got \(3, 2\)"),
        (lambda: radon_transform(bumpy, np.ones((1, 1, 2)), TURNS), ValueError, "d at least 2"),
        (lambda: radon_transform(bumpy, np.ones((1, 3, 2)), TURNS), ValueError,
         "projections: the frames are not orthonormal"),
        (lambda: radon_transform(bumpy, EQUATOR * np.nan, TURNS), ValueError, "projections: the frames"),
        (lambda: radon_transform(bumpy, EQUATOR.astype(int), TURNS), TypeError,
         "projections must have a real floating dtype"),
        (lambda: radon_transform(bumpy, EQUATOR, np.ones(0)), ValueError, "turns: there are no atoms"),
        (lambda: radon_transform(bumpy, EQUATOR, np.ones((2, 4))), ValueError,
         r"turns must have shape \(n,\) or \(1, n\) for 1 projections, got \(2, 4\)"),
        (lambda: radon_transform(bumpy, EQUATOR, TURNS, n_nodes=0), ValueError,
         "n_nodes: the number of nodes must be an integer of at least 1, got 0"),
        (lambda: radon_transform(bumpy, EQUATOR, TURNS, n_nodes=1.5), ValueError, "n_nodes: .*, got 1.5"),
        (lambda: hemispherical_transform(bumpy, np.eye(8), n_directions=0), ValueError, "n_directions: .*, got 0"),
        (lambda: radon_transform(lambda x: 1.0, EQUATOR, TURNS), ValueError,
         r"f must return values of shape \(64, 96\), got \(\)"),
        (lambda: dual_radon_transform(lambda turns, frames: frames, np.eye(3)), ValueError,
         r"g must return values of shape .*, got \(200, 3, 2\)"),
        (lambda: dual_radon_transform(lambda turns, frames: turns, 2 * np.eye(3)), ValueError, "x: row 0 has length 2"),
        (lambda: dual_radon_transform(lambda turns, frames: turns, np.eye(3), projections=EQUATOR, n_projections=2),
         ValueError, "n_projections must match the number of given projections .1., got 2"),
        (lambda: hemispherical_transform(bumpy, 2 * np.eye(3)), ValueError, "directions: row 0 has length 2"),
        (lambda: integration_set(EQUATOR, 0.0), ValueError, r"frame must have shape \(d, 2\) .*got \(1, 3, 2\)"),
        (lambda: integration_set(np.ones((3, 2)), 0.0), ValueError, "frame: the frames are not orthonormal"),
        (lambda: integration_set(EQUATOR[0], np.nan), ValueError, "turn holds NaN"),
    ],
)  # fmt: skip
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_libraries_do_not_mix():
    message = "turns and projections must be from the same library, got a numpy ndarray and a torch Tensor"
    assert_libraries_do_not_mix({message: lambda torch: radon_transform(bumpy, torch.tensor(EQUATOR), TURNS)})
