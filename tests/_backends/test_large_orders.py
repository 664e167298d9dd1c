"""Large orders p: W_p is right where W_p^p lies outside the range of floating-point numbers, in every backend.

The reference minimizes over all cuts in arithmetic of 40 digits.
"""

import json
from pathlib import Path

import helpers
import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.kernel import needs_kernel
from helpers.large_orders import Problem
from helpers.processes import run_python
from mpmath import mp
from numpy.testing import assert_allclose

import sphereot
from sphereot import circle
from sphereot._arrays.orders import LARGEST_ORDER
from sphereot._backends.protocol import Measure

ORDERS = [10, 45, 70, LARGEST_ORDER]
SHIFTS = [1e-5, 1e-3, 0.2]
BACKENDS = ["numpy", "array_api_strict", "torch", "torch portable"]
# JAX traces both of its implementations anew for every order, which takes seconds.
CASES = [(name, shift, p) for name in BACKENDS for shift in SHIFTS for p in ORDERS] + [("jax", 1e-5, 70)]


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


@pytest.mark.parametrize(("kind", "shift", "p"), CASES, indirect=["kind"])
def test_root_in_double_precision(kind, shift, p):
    problem = Problem(shift)
    assert_allclose(problem.found(p, kind), problem.expected(p), rtol=1e-9)


@pytest.mark.parametrize(("kind", "shift", "p"), CASES, indirect=["kind"])
def test_root_in_single_precision(kind, shift, p):
    """Turns are rounded to 6e-8."""
    problem = Problem(shift, np.float32)
    assert_allclose(problem.found(p, kind), problem.expected(p), rtol=1e-5, atol=3e-7)


def test_root_in_jax_without_double_precision(tmp_path):
    """On accelerators there may be nothing but float32, in sums and levels too: `jax.numpy`, without the kernel."""
    pytest.importorskip("jax")
    program = (
        "import numpy as np, jax; from helpers.large_orders import Problem\n"
        "assert jax.numpy.asarray(1.0).dtype == np.float32\n"
        "print(*Problem(1e-3, np.float32).found(70, jax.numpy.asarray))\n"
    )
    (tmp_path / "helpers").symlink_to(Path(helpers.__file__).parent)  # and nothing beside it
    environment = {"SPHEREOT_KERNEL": "off", "JAX_ENABLE_X64": "0", "PYTHONPATH": str(tmp_path)}
    environment |= {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    result = [float(t) for t in run_python(program, **environment).split()]
    assert_allclose(result, Problem(1e-3, np.float32).expected(70), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("p", [45, LARGEST_ORDER])
def test_cut_is_right_where_the_cost_underflows(p):
    """A plan depends on the cut alone: atoms go to their neighbors though all costs underflow to 0."""
    rng = np.random.default_rng(0)
    u = np.sort(rng.random(20))
    plan = circle.transport_plan(u, (u + 1e-9) % 1, p=p)
    assert np.array_equal(plan.source, plan.target)
    weighted = circle.transport_plan(u, (u + 1e-9) % 1, p=p, u_weights=u, v_weights=u)
    assert np.array_equal(weighted.source, weighted.target)


@pytest.mark.parametrize("kind", BACKENDS, indirect=True)
@pytest.mark.parametrize("p", [5, 70])
def test_rounding_of_weights_is_ignored(kind, p):
    """Levels that should be equal differ in the last digit; that trace of mass would travel far, and is ignored."""
    rng = np.random.default_rng(0)
    x, w = sphere_sample(rng, 40, 3), rng.random(40)
    x[:10] = sphereot.sphere.normalize(x[0] + 1e-7 * rng.normal(size=(10, 3)))  # in another order on each circle
    y = sphereot.sphere.normalize(x + 1e-6 * rng.normal(size=x.shape))
    frames = sphereot.great_circles(10, 3, seed=0)
    x, y, twice, w, frames = (kind(t) for t in (x, y, np.concatenate([y, y]), w, frames))
    options = {"p": p, "projections": frames, "root": True}
    moved = sphereot.ssw(x, y, **options)
    assert 1e-7 < moved < 1e-4
    assert 1e-7 < sphereot.ssw(x, y, x_weights=w, y_weights=w, **options) < 1e-4
    assert_allclose(float(sphereot.ssw(x, twice, **options)), float(moved), rtol=1e-9)


def test_order_just_above_the_plain_ones_agrees():
    problem = Problem(0.2)
    for p in (4, np.nextafter(4, 5)):
        assert_allclose(problem.found(p), problem.expected(p), rtol=1e-9)
        cost = sphereot.ssw(problem.x, problem.y, p=p, projections=problem.frames)
        assert_allclose(cost, problem.expected(p)[0] ** p, rtol=1e-9)


# ---- gradients ----


def gradients(problem, p, dtype=np.float64, portable=False):
    """SSW_p of losses, with its gradients in the points and, by the kernel, in the weights."""
    torch = pytest.importorskip("torch")
    from sphereot._backends.torch.backend import array_api_backend, mean_cost

    arrays = (problem.x, problem.y, problem.a, problem.b)
    x, y, a, b = (torch.tensor(t.astype(dtype), requires_grad=True) for t in arrays)
    frames = torch.tensor(problem.frames.astype(dtype))
    weights = [t.detach() if portable else t for t in (a, b)]
    wanted = [x, y] if portable else [x, y, a, b]
    with array_api_backend(force=portable):
        between = mean_cost([Measure(x, weights[0]), Measure(y, weights[1])], frames, p, root=True)
        to_uniform = mean_cost([Measure(x, a)], frames, p, root=True)
    result = [*torch.autograd.grad(between, wanted), *torch.autograd.grad(to_uniform, [x, a])]
    return [t.numpy() for t in result]


@needs_kernel
@pytest.mark.parametrize("p", [10, 70, LARGEST_ORDER])
@pytest.mark.parametrize("shift", SHIFTS)
def test_gradients_equal_finite_differences(p, shift):
    """Along random directions, in points and weights; the weights only where their potentials are of the same size."""
    torch = pytest.importorskip("torch")
    problem = Problem(shift)
    problem.a = problem.a + 1  # an atom without mass has a kink
    dx, dy, da, db, ex, ea = gradients(problem, p)
    rng = np.random.default_rng(1)
    frames, h = torch.tensor(problem.frames), 1e-6 * shift
    from sphereot._backends.torch.backend import mean_cost

    def value(moves, *arrays):
        """The slope along moves of points and weights: those of x, y, a, b or of x, a."""

        def distance(sign):
            tensors = [torch.tensor(m + sign * h * d) for m, d in zip(arrays, moves, strict=True)]
            count = len(tensors) // 2
            return float(mean_cost(list(map(Measure, tensors[:count], tensors[count:])), frames, p, root=True))

        return (distance(1) - distance(-1)) / (2 * h)

    arrays = [problem.x, problem.y, problem.a * 1.0, problem.b * 1.0]
    for _ in range(3):
        moves = [rng.normal(size=t.shape) for t in arrays]
        if shift < 0.1:
            moves[2:] = [np.zeros(7), np.zeros(7)]
        slope = sum(np.sum(g * d) for g, d in zip((dx, dy, da, db), moves, strict=True) if np.any(d))
        assert_allclose(value(moves, *arrays), slope, rtol=2e-4, atol=1e-6)
        slope = np.sum(ex * moves[0]) + np.sum(ea * moves[2])
        assert_allclose(value([moves[0], moves[2]], *arrays[::2]), slope, rtol=2e-4, atol=1e-6)


@needs_kernel
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("p", ORDERS)
def test_gradients_of_the_array_api_backend(p, shift):
    expected = gradients(Problem(shift), p)
    portable = gradients(Problem(shift), p, portable=True)
    for k, got in zip((0, 1, 4, 5), portable, strict=True):
        assert_allclose(got, expected[k], atol=1e-6 * np.abs(expected[k]).max())


@needs_kernel
@pytest.mark.parametrize("implementation", ["kernel", "jax.numpy"])
def test_gradients_in_jax(implementation, monkeypatch):
    jax = pytest.importorskip("jax")
    from sphereot._backends.jax import callbacks as _host
    from sphereot._backends.jax.backend import mean_cost

    # Programs are kept by their order: one that no other test has.
    p = {"kernel": 20, "jax.numpy": 21}[implementation]
    if implementation == "jax.numpy":
        monkeypatch.setattr(_host, "available", False)
    problem = Problem(0.01)
    problem.a = problem.a + 1  # no levels that meet, where a potential is a matter of choice
    expected = gradients(problem, p)
    arrays = [jax.numpy.asarray(t) for t in (problem.x, problem.y, problem.a * 1.0, problem.b * 1.0, problem.frames)]

    def distance(x, y, a, b, frames):
        return mean_cost([Measure(x, a), Measure(y, b)], frames, p, root=True)

    in_points_and_weights = jax.grad(distance, argnums=(0, 2))

    result = jax.jit(in_points_and_weights, compiler_options={"xla_backend_optimization_level": 0})(*arrays)
    for got, wanted in zip(result, expected[::2], strict=False):
        assert_allclose(got, wanted, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("p", [10, 70])
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
            slopes.append(torch.autograd.grad(value, x)[0].double())
        assert values[1] > 0
        assert_allclose(values[0], values[1], rtol=1e-3)
        assert_allclose(slopes[0], slopes[1], atol=0.05 * float(slopes[1].abs().max()))
    assert SSWLoss(p, 5, root=True)(x.detach(), x.detach()) == 0


def test_compiled_and_batched_roots():
    torch = pytest.importorskip("torch")
    problem = Problem(1e-3)
    x, y, frames = (torch.tensor(t) for t in (problem.x, problem.y, problem.frames))

    def distance(points):
        return sphereot.ssw(points, y, p=50, projections=frames, root=True)

    expected = distance(x)
    batch = torch.stack([x, y])
    assert_allclose(torch.vmap(distance)(batch), [expected, 0])
    slope = torch.autograd.grad(distance(x.requires_grad_()), x)[0]
    assert_allclose(torch.func.grad(distance)(x.detach()), slope)
    assert_allclose(torch.compile(distance, fullgraph=True, backend="eager")(x.detach()), expected.detach())


# ---- refusals ----


def test_costs_that_underflow_are_an_error():
    problem = Problem(1e-5)
    with pytest.raises(ValueError, match=r"p: the largest distance .* root=True"):
        sphereot.ssw_estimate(problem.x, problem.y, p=70, projections=problem.frames)
    from sphereot.stats import two_sample_test

    with pytest.raises(ValueError, match="p: the largest distance"):
        two_sample_test(problem.x, problem.x[::-1] * [1, 1, 1 - 1e-7], p=1000, permutations=9, n_projections=4, seed=0)
    assert sphereot.ssw_estimate(problem.x, problem.x, p=70, projections=problem.frames).value == 0


def test_orders_above_the_largest_are_an_error():
    with pytest.raises(ValueError, match=r"p: got 1000.5, but the order must be at most 1000"):
        sphereot.ssw(np.eye(3), np.eye(3), p=1000.5)


@pytest.mark.parametrize("p", [6, 200])
def test_permutations_of_large_orders(p):
    """The labeled costs are those of the samples themselves, for equal and unequal sizes."""
    from sphereot.stats import two_sample_test

    rng = np.random.default_rng(3)
    for n in (30, 41):
        x, y = sphere_sample(rng, n, 3), sphere_sample(rng, 30, 3)
        test = two_sample_test(x, y, p=p, permutations=9, n_projections=5, seed=0)
        assert_allclose(test.statistic, sphereot.ssw(x, y, p=p, projections=test.projections), rtol=1e-9)


@needs_kernel
def test_command_line(tmp_path):
    """Distances of float32 files whose costs underflow are right, in degrees; where they cannot be, an error, not 0."""
    pytest.importorskip("typer")
    from helpers.cli import run, save_points

    def compare(problem, command, *options):
        folder = save_points(tmp_path, {"x": problem.x, "y": problem.y})
        return run(command, folder / "x.npy", folder / "y.npy", *options)

    problem = Problem(0.01, np.float32)
    expected = sphereot.ssw(problem.x, problem.y, p=45, n_projections=50, seed=0, root=True)
    options = ["--p", "45", "--projections", "50", "--method", "iid", "--json"]
    result = json.loads(compare(problem, "distance", *options).stdout)
    assert_allclose(result["distance_turns"], expected, rtol=1e-5)
    values = np.array(json.loads(compare(problem, "pairwise", *options).stdout)["values"])
    assert_allclose(values[0, 1] ** (1 / 45), expected, rtol=1e-5)
    for command in ("distance", "pairwise"):
        refused = compare(Problem(1e-5), command, "--p", "100")
        assert refused.exit_code == 2
        assert "take a smaller p" in refused.stderr
