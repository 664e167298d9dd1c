import math
from functools import cache
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from helpers.bad_input import refusal_test
from numpy.testing import assert_allclose

import sphereot
from sphereot import sphere, uniform_kernel
from sphereot._backends.uniform_kernel import kernel_value, variance_polynomials
from sphereot.stats._kernel_spectrum import gegenbauer_eigenvalues

DIMS = [2, 3, 4, 5, 8, 32, 128, 768]
ANGLES = np.array([1e-3, 0.1, 0.7, 1.4, math.pi / 2, 2.2, 3.0, math.pi - 1e-3])


# ---- the definition, by quadrature ----


def tanh_sinh(step: float, most: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on (0, 1) for integrands with singular ends."""
    u = np.arange(-most, most + step / 2, step)
    nodes = 1 / (1 + np.exp(-np.pi * np.sinh(u)))
    return nodes, step * np.pi * np.cosh(u) * nodes * (1 - nodes)


@cache
def distortion_ratios(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the ratio s of the singular values of the 2 x 2 corner of a Haar orthogonal matrix."""
    nodes, weights = tanh_sinh(0.05, 3.1)
    if dim == 2:
        return np.ones(1), np.ones(1)
    if dim > 3:
        # The joint density (a^2 - b^2) ((1 - a^2) (1 - b^2))^((d-5)/2), with b = s a, integrated over a.
        b = mpmath.mpf(dim - 5) / 2
        weights = weights * [float((1 - s**2) * mpmath.hyp2f1(-b, 2, b + 3, s**2)) for s in map(mpmath.mpf, nodes)]
    return nodes, weights / weights.sum()


def kernel_by_quadrature(angle: float, dim: int) -> float:
    """Half the mean of B2 of the difference of two projected turns, over s and over the direction in the plane."""
    s, s_weights = distortion_ratios(dim)
    u, u_weights = tanh_sinh(0.04, 3.4)
    total = np.zeros_like(s)
    # Projected angles turn fastest where either point has the direction that is shortened.
    for start, length in ((math.pi / 2 - angle, angle), (math.pi / 2, math.pi - angle)):
        phi = start + length * u
        projected = [np.arctan2(s[:, None] * np.sin(direction), np.cos(direction)) for direction in (phi + angle, phi)]
        turns = (projected[0] - projected[1]) / (2 * math.pi) % 1
        total += length / math.pi * ((turns**2 - turns + 1 / 6) @ u_weights)
    return float(total @ s_weights) / 2


@pytest.mark.parametrize("dim", DIMS)
def test_equals_quadrature_of_definition(dim):
    """The differential equation and its series are right, in every dimension."""
    expected = [kernel_by_quadrature(angle, dim) for angle in ANGLES]
    assert_allclose(kernel_value(np.sin(ANGLES / 2) ** 2, dim), expected, rtol=0, atol=1e-12)
    assert_allclose(uniform_kernel(np.cos(ANGLES), dim), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dim", [6, 24, 25, 100_000])
@mpmath.workdps(20)
def test_equals_integrated_equation(dim):
    """The series and the fitted polynomials lose nothing, on either side of where the recurrence turns around."""
    power = dim - 2
    constant = power * (mpmath.digamma(mpmath.mpf(dim - 1) / 2) - mpmath.digamma(mpmath.mpf(dim) / 2))
    width = 12 / mpmath.sqrt(dim)

    def slope(angle):
        def integrand(t):
            return (constant - 2 * power * mpmath.log(mpmath.sin(t))) * (mpmath.sin(t) / mpmath.sin(angle)) ** power

        lower = max(mpmath.mpf(0), angle - width)
        return mpmath.quad(integrand, [lower, (lower + angle) / 2, angle])

    # Differences of angles: at right angles the slope is zero, at angle 0 the integral is singular.
    angles = [mpmath.mpf(3) / 5, mpmath.mpf(1), mpmath.pi / 2]
    steps = [mpmath.quad(slope, [a, b], maxdegree=4) for a, b in pairwise(angles)]
    values = kernel_value(np.array([float(mpmath.sin(a / 2) ** 2) for a in angles]), dim)
    plane = np.array([float(a * a / (8 * mpmath.pi**2) - a / (4 * mpmath.pi)) for a in angles])
    got = np.diff(values - plane)
    assert_allclose(got, [float(step / (8 * mpmath.pi**2)) for step in steps], rtol=0, atol=1e-14)


def test_closed_forms():
    """On the circle B2, on S^2 two logarithms, and in high dimension a dilogarithm."""
    h2 = np.linspace(0.01, 0.99, 99)
    angles = 2 * np.arcsin(np.sqrt(h2))
    circle = (angles / (2 * math.pi)) ** 2 / 2 - angles / (4 * math.pi) + 1 / 12
    assert_allclose(kernel_value(h2, 2), circle, rtol=0, atol=1e-15)
    sphere_value = circle + np.log(h2) * np.log1p(-h2) / (8 * math.pi**2)
    assert_allclose(kernel_value(h2, 3), sphere_value, rtol=0, atol=1e-15)
    dilogarithm = np.array([float(mpmath.polylog(2, c * c).real) for c in np.cos(angles)])
    limit = circle + 1 / 96 - dilogarithm / (16 * math.pi**2)
    assert_allclose(kernel_value(h2, 10**9), limit, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dim", DIMS)
def test_mean_zero_under_uniform_distribution(dim):
    """The uniform distribution is at distance zero from itself."""
    nodes, weights = tanh_sinh(0.005, 3.2)
    density = weights * np.sin(math.pi * nodes) ** (dim - 2)
    mean = kernel_value(np.sin(math.pi * nodes / 2) ** 2, dim) @ density / density.sum()
    assert abs(mean) < 1e-14


@pytest.mark.parametrize("dim", DIMS)
def test_ends(dim):
    """Equal points give 1/12, opposite ones -1/24; the kink at 0 has slope -1 / (4 pi), and there is none at pi."""
    ends = uniform_kernel(np.array([1.0, -1.0, 1 + 1e-15, -1 - 1e-15]), dim)
    assert_allclose(ends, [1 / 12, -1 / 24, 1 / 12, -1 / 24], rtol=0, atol=1e-16)
    small = 1e-6
    near, far = kernel_value(np.sin([small / 2, (math.pi - small) / 2]) ** 2, dim)
    assert_allclose((near - 1 / 12) / small, -1 / (4 * math.pi), atol=1e-6)
    assert abs(far + 1 / 24) < 1e-12


@pytest.mark.parametrize("dim", DIMS)
def test_odd_part_is_the_angle_in_every_dimension(dim):
    """K(gamma) - K(pi - gamma) is linear in the angle: Ajne's statistic."""
    cosines = np.linspace(-0.99, 0.99, 41)
    odd = uniform_kernel(cosines, dim) - uniform_kernel(-cosines, dim)
    assert_allclose(odd, np.arcsin(cosines) / (4 * math.pi), rtol=0, atol=1e-15)


# ---- derivative ----


def kernel_derivative(half_chord_squares: np.ndarray, dim: int) -> np.ndarray:
    """The derivative of K_d by the cosine of the angle; zero at both ends, where it is infinite."""
    inside = (half_chord_squares > 0) & (half_chord_squares < 1)
    h2 = np.where(inside, half_chord_squares, 0.5)
    z = 4 * h2 * (1 - h2)
    slope = np.zeros_like(z)  # of D_d = z (P(2 z - 1) + R(2 z - 1) log z), by z
    if dim > 2:
        p, r = map(np.polynomial.Polynomial, variance_polynomials(dim))
        u, log = 2 * z - 1, np.log(z)
        slope = p(u) + r(u) * log + r(u) + 2 * z * (p.deriv()(u) + r.deriv()(u) * log)
    supplement = np.pi - 2 * np.arcsin(np.sqrt(h2))
    derivative = (supplement / np.sqrt(z) - (1 - 2 * h2) * slope) / (4 * np.pi**2)
    return np.where(inside, derivative, 0.0)


@pytest.mark.parametrize("dim", DIMS)
def test_derivative_equals_finite_differences(dim):
    angles = np.array([0.01, 0.3, 1.0, math.pi / 2, 2.0, 3.1])
    step = 1e-4 * angles * (math.pi - angles)

    def value(gamma):
        return kernel_value(np.sin(gamma / 2) ** 2, dim)

    slope = (
        8 * (value(angles + step) - value(angles - step)) - value(angles + 2 * step) + value(angles - 2 * step)
    ) / (12 * step)
    got = -np.sin(angles) * kernel_derivative(np.sin(angles / 2) ** 2, dim)
    assert_allclose(got, slope, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dim", [2, 3, 8, 128])
def test_automatic_differentiation(dim):
    """Torch differentiates the value to `kernel_derivative`, with zeros where points are equal or opposite."""
    torch = pytest.importorskip("torch")
    cosines = torch.tensor([-1.0, -0.99, -0.3, 0.0, 0.8, 0.9999, 1.0], dtype=torch.float64, requires_grad=True)
    uniform_kernel(cosines, dim).sum().backward()
    expected = kernel_derivative(0.5 - 0.5 * cosines.detach().numpy(), dim)
    assert_allclose(cosines.grad.numpy(), expected, rtol=1e-10)
    assert expected[0] == expected[-1] == 0
    assert np.all(expected[1:-1] > 0)


# ---- eigenvalues ----


@pytest.mark.parametrize("dim", DIMS)
def test_eigenvalues_equal_projections(dim):
    """The closed form equals the mean of K_d times each Gegenbauer polynomial."""
    spectrum = gegenbauer_eigenvalues(dim, 12)
    nodes, weights = tanh_sinh(0.005, 3.2)
    angles = math.pi * nodes
    density = weights * np.sin(angles) ** (dim - 2)
    density /= density.sum()
    values = kernel_value(np.sin(angles / 2) ** 2, dim)
    previous, current = np.ones_like(angles), np.cos(angles)  # normalized to 1 at angle 0
    for degree in range(1, 13):
        if spectrum.multiplicities[degree - 1] > 1e7:
            break  # the mean is less than the rounding error of its terms
        # The square of a polynomial has the mean 1 / multiplicity.
        share = (values * current) @ density / (current**2 @ density)
        assert_allclose(spectrum.shares[degree - 1], share, rtol=1e-8, atol=1e-14)
        assert_allclose(1 / spectrum.multiplicities[degree - 1], current**2 @ density, rtol=1e-8)
        following = (2 * degree + dim - 2) * np.cos(angles) * current - degree * previous
        previous, current = current, following / (degree + dim - 2)


@pytest.mark.parametrize("dim", DIMS)
def test_eigenvalues_are_positive_and_sum_to_value_at_equal_points(dim):
    """Positive: zero only for the uniform distribution. The tail of the sum is a series in 1 / degree."""
    count = 100 * max(dim, 50)
    spectrum = gegenbauer_eigenvalues(dim, 8 * count)
    assert np.all(spectrum.shares > 0)
    sums = np.cumsum(spectrum.shares)[np.array([1, 2, 4, 8]) * count - 1]
    for power in (1, 2, 3):  # Richardson's extrapolation to infinite degree
        sums = (2**power * sums[1:] - sums[:-1]) / (2**power - 1)
    assert_allclose(sums[-1], 1 / 12, rtol=0, atol=1e-9)


def test_eigenvalues_stay_finite_in_high_dimension():
    spectrum = gegenbauer_eigenvalues(100_000, 500)
    assert np.all(np.isfinite(spectrum.shares))
    assert np.all(spectrum.shares > 0)
    assert_allclose(spectrum.shares[0], 1 / (8 * math.pi), rtol=1e-5)


def test_eigenvalues_of_the_circle():
    spectrum = gegenbauer_eigenvalues(2, 6)
    assert_allclose(spectrum.eigenvalues, 1 / (4 * math.pi**2 * np.arange(1, 7) ** 2), rtol=1e-14)
    assert_allclose(spectrum.multiplicities, 2)


# ---- SSW_2 to uniform ----


def exact_ssw_uniform(x: np.ndarray, *, unbiased: bool = False) -> float:
    """The double sum over points of any length, or over the pairs i != j."""
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    n, dim = x.shape
    differences = x[:, None, :] - x[None, :, :]
    values = kernel_value(np.sum(differences**2, axis=-1) / 4, dim)
    return float((values.sum() - n / 12) / (n * (n - 1))) if unbiased else float(values.mean())


@pytest.mark.parametrize("dim", [3, 8, 128])
@pytest.mark.parametrize("concentration", [0.0, 1.0, 20.0])
def test_equals_mean_over_great_circles(dim, concentration, rng):
    """The double sum is the expectation that slices estimate."""
    x = rng.normal(size=(60, dim))
    x[:, 0] += concentration
    x = sphere.normalize(x)
    frames = sphereot.great_circles(20_000, dim, seed=1)
    costs = np.array([float(sphereot.ssw_uniform(x, projections=part)) for part in np.split(frames, 200)])
    assert abs(costs.mean() - exact_ssw_uniform(x)) < 3 * costs.std(ddof=1) / math.sqrt(len(costs))


@pytest.mark.parametrize("dim", [2, 3, 8, 128])
def test_unbiased_under_uniform_distribution(dim, rng):
    """Without the terms i = j the mean is zero for every n, two points included."""
    values = np.array([exact_ssw_uniform(rng.normal(size=(2, dim)), unbiased=True) for _ in range(2000)])
    assert abs(values.mean()) < 3.5 * values.std() / math.sqrt(len(values))


# ---- properties of a measure of uniformity (Fang et al., ICLR 2024, Section 3) ----


@pytest.fixture(params=[2, 3, 16])
def features(request, rng):
    return rng.normal(size=(30, request.param)) + 0.5


def test_instance_permutation(features, rng):
    assert_allclose(exact_ssw_uniform(rng.permutation(features)), exact_ssw_uniform(features), rtol=1e-12)


def test_instance_scaling(features, rng):
    lengths = rng.exponential(size=(len(features), 1)) + 0.1
    assert_allclose(exact_ssw_uniform(lengths * features), exact_ssw_uniform(features), rtol=1e-12)


def test_instance_cloning(features):
    """A measure does not change when each of its points is counted twice; the unbiased version sees the ties."""
    clones = np.concatenate([features, features])
    assert_allclose(exact_ssw_uniform(clones), exact_ssw_uniform(features), rtol=1e-12)
    assert exact_ssw_uniform(clones, unbiased=True) > exact_ssw_uniform(features, unbiased=True) + 1e-4


@pytest.mark.parametrize("unbiased", [False, True])
def test_feature_cloning(features, unbiased):
    """Redundant coordinates make a sample less uniform."""
    clones = np.concatenate([features, features], axis=1)
    assert exact_ssw_uniform(clones, unbiased=unbiased) > exact_ssw_uniform(features, unbiased=unbiased) + 1e-5


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("extra", [1, 5])
def test_feature_baby(features, extra, unbiased):
    """Constant zero coordinates make a sample less uniform, the more of them the less."""
    values = [
        exact_ssw_uniform(np.pad(features, ((0, 0), (0, zeros))), unbiased=unbiased) for zeros in (0, extra, extra + 1)
    ]
    assert values[0] < values[1] < values[2]


def test_points_on_one_axis_have_one_value_in_every_dimension():
    """Where feature cloning and feature baby hold with equality."""
    axis = np.array([[1.0], [1.0], [-1.0]])
    values = [exact_ssw_uniform(np.pad(axis, ((0, 0), (0, zeros)))) for zeros in (1, 2, 7)]
    assert_allclose(values, (5 / 12 - 4 / 24) / 9, rtol=1e-12)


@pytest.mark.parametrize("dim", [3, 8, 64])
def test_dimensional_collapse(dim):
    """The value grows as uniform points are confined to fewer dimensions: means of K_d under smaller spheres."""
    nodes, weights = tanh_sinh(0.005, 3.2)
    values = kernel_value(np.sin(math.pi * nodes / 2) ** 2, dim)
    means = []
    for rank in range(2, dim + 1):
        density = weights * np.sin(math.pi * nodes) ** (rank - 2)
        means.append(values @ density / density.sum())
    assert np.all(np.diff(means) < 0)
    assert abs(means[-1]) < 1e-14


# ---- libraries and bad input ----


@pytest.mark.parametrize("dim", [2, 3, 100])
def test_libraries(library, dim):
    cosines = np.array([[-1.0, -0.625, -0.25], [0.0, 0.5, 1.0]])
    expected = kernel_value(0.5 - 0.5 * cosines, dim)
    got = uniform_kernel(library.array(cosines), dim)
    library.check(got, expected, shape=(2, 3))


@pytest.mark.parametrize("dim", DIMS)
def test_float32(dim):
    """Single precision has an error of 1e-7 at most, at random cosines and near the ends."""
    cosines = np.concatenate([np.linspace(-1, 1, 4001), 1 - np.logspace(-7, -2, 50)]).astype(np.float32)
    got = uniform_kernel(cosines, dim)
    assert got.dtype == np.float32
    assert_allclose(got, uniform_kernel(cosines.astype(np.float64), dim), rtol=0, atol=4e-8)


def test_jit_and_gradient_in_jax():
    jax = pytest.importorskip("jax")
    cosines = jax.numpy.asarray([-1.0, 0.2, 1.0])
    value = jax.jit(lambda c: uniform_kernel(c, 5))(cosines)
    assert_allclose(value, uniform_kernel(np.asarray(cosines), 5), atol=1e-7)
    gradient = jax.grad(lambda c: uniform_kernel(c, 5).sum())(cosines)
    assert_allclose(gradient, kernel_derivative(np.asarray(0.5 - 0.5 * cosines), 5), rtol=1e-6)


def test_numbers_and_lists():
    assert float(uniform_kernel(1, 3)) == pytest.approx(1 / 12)
    assert uniform_kernel([0.0, 0.5], 3).shape == (2,)


FAULTS = {
    "NaN": (lambda: uniform_kernel(np.array([0.0, np.nan]), 3), ValueError, "cosines holds NaN"),
    "outside": (
        lambda: uniform_kernel(np.array([0.0, 1.5]), 3),
        ValueError,
        "cosines must be in .-1, 1., got a value of size 1.5",
    ),
    "below": (lambda: uniform_kernel(np.array([0.0, -1.001]), 3), ValueError, "normalize"),
    "complex": (
        lambda: uniform_kernel(np.array([1j]), 3),
        TypeError,
        "cosines must have a real floating dtype, got complex",
    ),
    "text": (lambda: uniform_kernel("0.5", 3), TypeError, "cosines must be an array .*got str"),
    "dim 1": (lambda: uniform_kernel(np.array([0.0]), 1), ValueError, "dim: .*at least 2"),
    "dim 2.5": (lambda: uniform_kernel(np.array([0.0]), 2.5), ValueError, "dim: .*int"),
}
test_bad_input = refusal_test(FAULTS)
