"""The projected von Mises-Fisher density: the theorem of Jung by other means, at its limits, and against samples."""

from itertools import pairwise

import array_api_compat
import numpy as np
import pytest
from helpers.bad_input import assert_libraries_do_not_mix
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

import sphereot
from sphereot.radon import radon_transform

pytest.importorskip("torch")  # the package of distributions is made for it
from sphereot.distributions.projected import projected_von_mises_fisher_density

TURNS = np.arange(512) / 512


def mean_and_frame(dim, share=None, seed=0):
    """A frame, and a mean direction whose part in its plane has the length `share`."""
    frame = sphereot.great_circles(1, dim, seed=seed)[0]
    mean = sphere_sample(np.random.default_rng(1000 + seed), 1, dim)[0]
    if share is not None:
        beside = mean - frame @ (frame.T @ mean)
        beside = beside / np.linalg.norm(beside) if dim > 2 else beside
        mean = share * frame @ [0.8, -0.6] + np.sqrt(1 - share**2) * beside
    return mean, frame


def theorem(turn, mean, kappa, frame):
    """The integral as the paper prints it, adaptively; I*_m(z) = 0F1(; m + 1; z^2 / 4) / Gamma(m + 1)."""
    dim = len(mean)
    nu = (dim - 2) / 2
    planar = frame.T @ mean
    cosine = np.hypot(*planar)
    t = 2 * np.pi * turn - np.arctan2(planar[1], planar[0])

    def mixing(r):  # f_R, with 2 Gamma(nu + 1) / Gamma(nu) = d - 2
        star = special.hyp0f1(nu, kappa**2 * (1 - cosine**2) * (1 - r**2) / 4) / special.hyp0f1(nu + 1, kappa**2 / 4)
        return (dim - 2) * star * special.i0(kappa * cosine * r) * r * (1 - r**2) ** (nu - 1)

    def von_mises(r):  # as printed, without 1 / (2 pi)
        return np.exp(kappa * cosine * r * np.cos(t)) / special.i0(kappa * cosine * r)

    edges = np.unique(np.minimum(np.append(np.arange(8) / np.sqrt(dim + kappa), 1), 1))
    parts = [
        integrate.quad(lambda r: mixing(r) * von_mises(r), low, high, epsabs=1e-200, epsrel=1e-11, limit=200)[0]
        for low, high in pairwise(edges)
    ]
    return sum(parts)


@pytest.mark.parametrize("dim", [4, 5, 8, 50, 1000])
@pytest.mark.parametrize("kappa", [0.5, 10, 60])
def test_equals_the_theorem_as_printed(dim, kappa):
    """Printed without the 1 / (2 pi) of the von Mises density, the formula is the density in turns."""
    mean, frame = mean_and_frame(dim, share=0.7, seed=dim)
    turns = np.array([0.03, 0.41, 0.77])
    expected = [theorem(turn, mean, kappa, frame) for turn in turns]
    assert_allclose(projected_von_mises_fisher_density(turns, mean, kappa, frame), expected, rtol=1e-9)


@pytest.mark.parametrize("kappa", [0.0, 2.0, 40.0, 3000.0])
def test_integral_over_a_meridian(kappa):
    """On S^2 the points above a turn are a half circle from pole to pole, and the area shrinks towards the poles."""
    mean = np.array([0.6, 0.0, 0.8])
    scale = 2 * np.pi * (kappa / (2 * np.pi * -np.expm1(-2 * kappa)) if kappa else 1 / (4 * np.pi))
    for turn in (0.0, 0.07, 0.3):
        along = 0.6 * np.cos(2 * np.pi * turn)

        def above(latitude, along=along):
            height = along * np.cos(latitude) + 0.8 * np.sin(latitude)
            return scale * np.cos(latitude) * np.exp(kappa * (height - 1))

        peak = np.arctan2(0.8, along)
        expected = integrate.quad(above, -np.pi / 2, np.pi / 2, points=[peak], epsabs=0, epsrel=1e-11, limit=500)[0]
        density = projected_von_mises_fisher_density([turn], mean, kappa, np.eye(3)[:, :2])
        assert_allclose(density, expected, rtol=1e-9)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 9, 64, 1000])
@pytest.mark.parametrize("kappa", [0.0, 1e-6, 3.0, 300.0, 1e5])
def test_integrates_to_one(dim, kappa):
    """The trapezoidal rule, exact to rounding for a smooth periodic density as soon as it resolves the peak."""
    mean, frame = mean_and_frame(dim, share=1.0 if dim == 2 else 0.6, seed=dim)
    turns = np.arange(200 if kappa < 100 else 6000) / (200 if kappa < 100 else 6000)
    density = projected_von_mises_fisher_density(turns, mean, kappa, frame)
    assert np.all(np.isfinite(density))
    assert_allclose(np.mean(density), 1, rtol=1e-11)


@pytest.mark.parametrize("dim", [2, 3, 4, 7, 500])
def test_uniform(dim):
    """Without concentration, and with a mean direction orthogonal to the plane, every turn is as likely."""
    mean, frame = mean_and_frame(dim, seed=1)
    assert_allclose(projected_von_mises_fisher_density(TURNS, mean, 0, frame), 1, rtol=1e-12)
    if dim > 2:
        mean, frame = mean_and_frame(dim, share=0.0, seed=1)
        assert_allclose(projected_von_mises_fisher_density(TURNS, mean, 25.0, frame), 1, rtol=1e-12)


@pytest.mark.parametrize("kappa", [0.5, 20.0, 1e5])
def test_on_the_circle_it_is_von_mises(kappa):
    frame = sphereot.great_circles(1, 2, seed=3)[0]
    turns = 0.3 + np.linspace(-2, 2, 41) / np.sqrt(1 + kappa)
    mean = frame @ [np.cos(0.6 * np.pi), np.sin(0.6 * np.pi)]
    expected = 2 * np.pi * stats.vonmises.pdf(2 * np.pi * (turns - 0.3), kappa)
    assert_allclose(projected_von_mises_fisher_density(turns, mean, kappa, frame), expected, rtol=1e-9)


@pytest.mark.parametrize(("dim", "kappa"), [(3, 5.0), (4, 30.0), (10, 20.0), (60, 200.0)])
def test_projected_samples_follow_it(dim, kappa):
    """Kolmogorov and Smirnov's test against samples drawn by SciPy; with a fixed seed, p > 1e-4."""
    mean, frame = mean_and_frame(dim, share=0.8, seed=2)
    sample = stats.vonmises_fisher(mean, kappa, seed=np.random.default_rng(4)).rvs(20_000)
    turns = sphereot.project(sphereot.sphere.normalize(sample), frame[None])[0]
    grid = np.linspace(0, 1, 4097)
    density = projected_von_mises_fisher_density(grid, mean, kappa, frame)
    cumulative = integrate.cumulative_simpson(density, x=grid, initial=0)
    assert_allclose(cumulative[-1], 1, rtol=1e-9)
    assert stats.kstest(turns, lambda t: np.interp(t, grid, cumulative)).pvalue > 1e-4


@pytest.mark.parametrize(("dim", "kappa", "rtol"), [(2, 9.0, 1e-10), (3, 50.0, 1e-8), (4, 20.0, 1e-9), (5, 8.0, 1e-9)])
def test_is_the_radon_transform(dim, kappa, rtol):
    """Proposition 3: the density of the projected measure is the Radon transform of the density."""
    mean, frame = mean_and_frame(dim, seed=5)
    density = stats.vonmises_fisher(mean, kappa).pdf
    found = radon_transform(density, frame[None], TURNS[::64])[0]
    assert_allclose(projected_von_mises_fisher_density(TURNS[::64], mean, kappa, frame), found, rtol=rtol)


def test_peak_of_a_concentrated_distribution_is_normal():
    """Near the mean direction the sphere is flat: the turn is normal, of standard deviation 1 / (2 pi sqrt(kappa))."""
    frame = np.eye(6)[:, :2]
    turns = np.linspace(-3, 3, 13) / (2 * np.pi * 1e4)
    density = projected_von_mises_fisher_density(turns, np.eye(6)[0], 1e8, frame)
    assert_allclose(density, stats.norm.pdf(turns, scale=1 / (2 * np.pi * 1e4)), rtol=1e-6)


def test_far_from_the_peak_it_vanishes_quietly():
    density = projected_von_mises_fisher_density(TURNS, np.eye(7)[0], 1e5, np.eye(7)[:, :2])
    assert density[256] == 0
    assert np.all(np.diff(density[:256]) <= 0)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax", "array_api_strict"])
@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-3), ("float64", 1e-11)])
@pytest.mark.parametrize(("dim", "kappa"), [(2, 3.0), (40, 900.0)])
def test_every_library(library, dtype, rtol, dim, kappa):
    module = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))
    mean, frame = mean_and_frame(dim, share=1.0 if dim == 2 else 0.9)
    turns = np.linspace(-0.1, 0.1, 12).reshape(3, 4) - np.arctan2(0.6, 0.8) / (2 * np.pi)
    arrays = [module.asarray(a, dtype=getattr(module, dtype)) for a in (turns, mean, frame)]
    found = projected_von_mises_fisher_density(arrays[0], arrays[1], kappa, arrays[2])
    assert array_api_compat.array_namespace(found) is array_api_compat.array_namespace(arrays[0])
    assert found.dtype == arrays[0].dtype
    rounded = [np.from_dlpack(a).astype(np.float64) for a in arrays]
    expected = projected_von_mises_fisher_density(rounded[0], rounded[1], kappa, rounded[2])
    assert_allclose(np.from_dlpack(found), expected, rtol=rtol, atol=1e-30)  # float32 ends at 1e-38


def test_gradients_against_differences():
    torch = pytest.importorskip("torch")
    mean, frame = mean_and_frame(5)
    inputs = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in ([0.1, 0.6], mean, 7.0)]

    def density(turns, vector, kappa):
        return projected_von_mises_fisher_density(turns, vector / torch.norm(vector), kappa, torch.tensor(frame))

    assert torch.autograd.gradcheck(density, inputs)


def test_runs_under_jit():
    jax = pytest.importorskip("jax")
    mean, frame = (jax.numpy.asarray(a) for a in mean_and_frame(60))
    turns = jax.numpy.asarray(TURNS[::100])
    expected = projected_von_mises_fisher_density(turns, mean, 3.0, frame)
    assert_allclose(jax.jit(projected_von_mises_fisher_density)(turns, mean, jax.numpy.asarray(3.0), frame), expected)


def test_many_frames_and_many_turns():
    mean, _ = mean_and_frame(60)
    frames = sphereot.great_circles(3, 60, seed=1)
    turns = np.random.default_rng(0).random((3, 6000))  # more than one block
    found = projected_von_mises_fisher_density(turns, mean, 6.0, frames)
    for i in range(3):
        assert_allclose(found[i, ::999], projected_von_mises_fisher_density(turns[i, ::999], mean, 6.0, frames[i]))
    shared = projected_von_mises_fisher_density(turns[1, :5], mean, 6.0, frames)
    assert shared.shape == (3, 5)
    assert_allclose(shared[1], found[1, :5])


MEAN, FRAME = np.array([0.0, 0.6, 0.8]), np.eye(3)[:, :2]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.array([np.nan]), MEAN, 1.0, FRAME), ValueError, "turns holds NaN"),
        ((TURNS, 2 * MEAN, 1.0, FRAME), ValueError, "mean_direction: row 0 has length 2"),
        ((TURNS, MEAN[None], 1.0, FRAME), ValueError,
         r"mean_direction must be one unit vector, shape \(d,\), got shape \(1, 3\)"),
        ((TURNS, np.ones(1), 1.0, np.ones((1, 2))), ValueError, "mean_direction: points have 1 coord"),
        ((TURNS, MEAN, 1.0, np.eye(4)[:, :2]), ValueError,
         r"frame must have shape \(3, 2\) or \(L, 3, 2\) for a mean direction in dimension 3, got \(4, 2\)"),
        ((TURNS, MEAN, 1.0, np.ones((3, 2))), ValueError, "frame: the frames are not orthonormal"),
        ((TURNS, MEAN, 1.0, np.eye(3, dtype=int)[:, :2]), TypeError,
         "frame must have a real floating dtype, got int64"),
        ((TURNS, MEAN, -1.0, FRAME), ValueError, r"concentration must be finite and at least 0, got -1\.0"),
        ((TURNS, MEAN, np.inf, FRAME), ValueError, "concentration must be finite and at least 0, got inf"),
        ((TURNS, MEAN, np.ones(2), FRAME), TypeError,
         r"concentration must be one number of at least 0, got array\(\[1\., 1\.\]\)"),
        ((TURNS, MEAN, "1", FRAME), TypeError, "concentration must be one number of at least 0, got '1'"),
        ((np.zeros((2, 5)), MEAN, 1.0, np.stack([FRAME] * 3)), ValueError,
         r"turns must have shape \(n,\) or \(3, n\) with 3 frames, got \(2, 5\)"),
    ],
)  # fmt: skip
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        projected_von_mises_fisher_density(*arguments)


def test_libraries_do_not_mix():
    density = projected_von_mises_fisher_density
    assert_libraries_do_not_mix(
        {
            "turns and mean_direction must be from the same library, got a numpy ndarray and a torch Tensor": (
                lambda torch: density(TURNS, torch.tensor(MEAN), 1.0, FRAME)
            ),
            "frame": lambda torch: density(TURNS, MEAN, 1.0, torch.tensor(FRAME)),
        }
    )
