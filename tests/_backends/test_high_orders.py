"""Orders p above 4: points are converted to float64, whose range holds all powers up to the largest order, 16.

The reference minimizes over all cuts in arithmetic of 40 digits.
"""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.high_orders import Problem
from mpmath import mp
from numpy.testing import assert_allclose

import sphereot
from sphereot import circle

BACKENDS = ["numpy", "array_api_strict", "torch", "torch portable"]
# JAX traces both of its implementations anew for every order, which takes seconds.
CASES = [(name, p) for name in BACKENDS for p in (5, 10, 16)] + [("jax", 16)]


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(40):
        yield


@pytest.fixture
def kind(request):
    """Function that converts NumPy arrays to those of a backend, which is active during the test."""
    name, _, path = request.param.partition(" ")
    if name == "numpy":
        yield np.asarray
        return
    library = pytest.importorskip(name)
    if name != "torch":
        yield library.numpy.asarray if name == "jax" else library.asarray
        return
    from sphereot._backends.torch.backend import array_api_backend

    with array_api_backend(force=path == "portable"):
        yield lambda array: library.from_numpy(np.asarray(array))


@pytest.mark.parametrize(("kind", "p"), CASES, indirect=["kind"])
def test_root_in_double_precision(kind, p):
    problem = Problem(0.2)
    assert_allclose(problem.found(p, kind), problem.expected(p), rtol=1e-9)


@pytest.mark.parametrize(("kind", "p"), CASES, indirect=["kind"])
def test_root_of_points_in_single_precision(kind, p):
    problem = Problem(0.2, np.float32)
    assert_allclose(problem.found(p, kind), problem.expected(p), rtol=1e-5, atol=3e-7)


@pytest.mark.parametrize("kind", BACKENDS, indirect=True)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_displacements_do_not_underflow(kind, dtype):
    """(1e-4)^16 is far below the range of float32."""
    problem = Problem(1e-4, dtype)
    assert_allclose(problem.found(16, kind)[0], problem.expected(16)[0], rtol=1e-2)


def test_order_just_above_4_agrees():
    problem = Problem(0.2)
    for p in (4, np.nextafter(4, 5)):
        assert_allclose(problem.found(p), problem.expected(p), rtol=1e-9)
        cost = sphereot.ssw(problem.x, problem.y, p=p, projections=problem.frames)
        assert_allclose(cost, problem.expected(p)[0] ** p, rtol=1e-9)


def test_results_are_in_double_precision():
    problem = Problem(0.2, np.float32)
    turns = problem.x[:, 0]
    for p, dtype in ((4, np.float32), (5, np.float64)):
        assert sphereot.ssw(problem.x, problem.y, p=p, seed=0, n_projections=5).dtype == dtype
        assert sphereot.ssw_uniform(problem.x, p=p, seed=0, n_projections=5).dtype == dtype
        assert sphereot.pairwise_ssw([problem.x, problem.y], p=p, seed=0, n_projections=5).dtype == dtype
        assert circle.wasserstein(turns, turns, p=p).dtype == dtype
        assert circle.wasserstein_uniform(turns, p=p).dtype == dtype


@pytest.mark.parametrize("p", [5, 16])
def test_losses_with_root_in_single_precision(p):
    torch = pytest.importorskip("torch")
    from sphereot.torch import SSWLoss, UniformityLoss

    problem = Problem(1e-3)
    for loss, others in ((SSWLoss, [problem.y]), (UniformityLoss, [])):
        values, slopes = [], []
        for dtype in (torch.float32, torch.float64):
            x, *rest = (torch.tensor(t, dtype=dtype) for t in (problem.x, *others))
            value = loss(p, 20, root=True, seed=0)(x.requires_grad_(), *rest)
            values.append(float(value.detach()))
            slopes.append(torch.autograd.grad(value, x)[0])
            assert slopes[-1].dtype == dtype
        assert values[1] > 0
        assert_allclose(values[0], values[1], rtol=1e-3)
        assert_allclose(slopes[0].double(), slopes[1], atol=0.05 * float(slopes[1].abs().max()))
    assert SSWLoss(p, 5, root=True)(x.detach(), x.detach()) == 0


def test_orders_above_the_largest_are_an_error():
    with pytest.raises(ValueError, match=r"p: the order must be a number from 1 to 16, got 16.5"):
        sphereot.ssw(np.eye(3), np.eye(3), p=16.5)


def test_permutations_of_a_high_order():
    """The labeled costs are those of the samples themselves, for equal and unequal sizes."""
    from sphereot.stats import two_sample_test

    rng = np.random.default_rng(3)
    for n in (30, 41):
        x, y = sphere_sample(rng, n, 3), sphere_sample(rng, 30, 3)
        test = two_sample_test(x, y, statistic="ssw", p=6, permutations=9, n_projections=5, seed=0)
        assert_allclose(test.statistic, sphereot.ssw(x, y, p=6, projections=test.projections), rtol=1e-9)
