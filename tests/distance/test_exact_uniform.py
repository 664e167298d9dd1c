"""SSW_2 to the uniform distribution without slices: against the double sum, great circles and finite differences."""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.kernel import needs_kernel
from numpy.testing import assert_allclose

import sphereot
from sphereot._arrays.libraries import to_numpy
from sphereot._backends.array_api import backend as array_api

DIMS = [2, 3, 8, 9, 40, 128]


def double_sum(x, weights=None, unbiased=False):
    """By the public kernel, one n x n array."""
    n, dim = x.shape
    a = np.full(n, 1 / n) if weights is None else weights / np.sum(weights)
    values = sphereot.uniform_kernel(np.clip(x @ x.T, -1, 1), dim)
    np.fill_diagonal(values, 1 / 12)
    if unbiased:
        np.fill_diagonal(values, 0)
        return a @ values @ a / (1 - a @ a)
    return a @ values @ a


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("n", [1, 2, 64, 65, 200])
def test_equals_the_double_sum(dim, n, library, rng):
    """Sizes about those of a tile. In float32 K_d is known to 5e-8 per pair, and errors average."""
    x, weights = sphere_sample(rng, n, dim), rng.random(n) + 0.1
    for w in (None, weights):
        given = {} if w is None else {"weights": library.array(w)}
        value = sphereot.ssw_uniform(library.array(x), method="exact", **given)
        assert value.dtype == library.array(x).dtype
        assert_allclose(float(value), double_sum(x, w), rtol=0, atol=1e-7 if "32" in str(value.dtype) else 2e-9)
        if n > 1:
            value = sphereot.ssw_uniform(library.array(x), method="exact", unbiased=True, **given)
            expected = double_sum(x, w, unbiased=True)
            assert_allclose(float(value), expected, rtol=0, atol=3e-7 if "32" in str(value.dtype) else 4e-9)


@pytest.mark.parametrize("dim", [3, 8, 128])
def test_equals_the_mean_over_great_circles(dim, rng):
    """Within three standard errors of 10^5 independent circles."""
    x = sphere_sample(rng, 30, dim, shift=1)
    estimate = sphereot.ssw_estimate(x, n_projections=100_000, seed=1)
    exact = float(sphereot.ssw_uniform(x, method="exact"))
    assert abs(exact - estimate.value) <= 3 * estimate.standard_error


def test_on_the_circle_it_is_proposition_1(rng):
    turns = rng.random(50)
    x = np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], axis=1)
    assert_allclose(sphereot.ssw_uniform(x, method="exact"), sphereot.circle.wasserstein_uniform(turns), atol=1e-15)


@needs_kernel
@pytest.mark.parametrize("dim", [3, 20])
def test_backends_agree_on_blocks(dim, rng, monkeypatch):
    """Rows of pairs in several blocks; close and opposite points among them."""
    x = sphere_sample(rng, 150, dim)
    x[1], x[2], x[3] = x[0], -x[0], x[0] + 1e-6
    x = sphereot.sphere.normalize(x)
    monkeypatch.setattr(array_api, "PAIRS_PER_BLOCK", 1000)
    expected = array_api.pair_cost(sphereot._backends.protocol.Measure(x))
    assert_allclose(sphereot.ssw_uniform(x, method="exact"), expected, rtol=0, atol=1e-11)


@needs_kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_threads_does_not_change_a_bit(dtype, rng):
    torch = pytest.importorskip("torch")
    before = sphereot.get_num_threads()
    values = []
    for dim in (3, 40):
        x = torch.tensor(sphere_sample(rng, 700, dim).astype(dtype), requires_grad=True)
        for threads in (1, 2, 5):
            sphereot.set_num_threads(threads)
            x.grad = None
            value = sphereot.ssw_uniform(x, method="exact")
            value.backward()
            values.append((float(value.detach()), x.grad.numpy().tobytes()))
        sphereot.set_num_threads(before)
        assert len(set(values)) == 1
        values.clear()


@pytest.mark.parametrize("portable", [pytest.param(False, marks=needs_kernel), True], ids=["kernel", "portable"])
@pytest.mark.parametrize("dim", [2, 3, 12])
@pytest.mark.parametrize("unbiased", [False, True])
def test_gradients_are_slopes(portable, dim, unbiased, rng):
    """In points and weights, along random directions; the value does not depend on the length of a point."""
    torch = pytest.importorskip("torch")
    from sphereot._backends.protocol import Measure
    from sphereot._backends.torch.backend import array_api_backend, pair_cost

    x, a = sphere_sample(rng, 70, dim), rng.random(70) + 0.5

    def cost(points, weights):
        with array_api_backend(force=portable):
            return pair_cost(Measure(torch.as_tensor(points), torch.as_tensor(weights)), unbiased=unbiased)

    leaves = [torch.tensor(t, requires_grad=True) for t in (x, a)]
    gradients = [t.numpy() for t in torch.autograd.grad(cost(*leaves), leaves)]
    assert_allclose(np.sum(gradients[0] * x, axis=1), 0, atol=1e-15)
    for _ in range(5):
        moves, h = [rng.normal(size=t.shape) for t in (x, a)], 1e-6
        slope = sum(np.sum(g * m) for g, m in zip(gradients, moves, strict=True))
        ahead, behind = (float(cost(x + s * moves[0], a + s * moves[1])) for s in (h, -h))
        assert_allclose((ahead - behind) / (2 * h), slope, rtol=1e-6, atol=1e-10)


def test_gradients_in_jax(rng):
    """Those of torch; also where points are equal or opposite."""
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    x = sphere_sample(rng, 40, 5)
    x[1], x[2] = x[0], -x[0]
    points = torch.tensor(x, requires_grad=True)
    sphereot.ssw_uniform(points, method="exact").backward()
    gradient = jax.jit(jax.grad(lambda x: sphereot.ssw_uniform(x, method="exact")))(jax.numpy.asarray(x))
    assert_allclose(np.asarray(gradient), points.grad.numpy(), atol=1e-12)


def test_gradients_at_equal_points_are_zero():
    torch = pytest.importorskip("torch")
    x = torch.tensor([[0.0, 0.0, 1.0]] * 3, requires_grad=True)
    sphereot.ssw_uniform(x, method="exact").backward()
    assert torch.equal(x.grad, torch.zeros(3, 3))


def test_unbiased_has_mean_zero_for_uniform_points():
    """Whatever n is: over 4,000 samples, within 3.5 standard errors."""
    rng = np.random.default_rng(5)
    for n in (2, 5, 20):
        values = [
            float(sphereot.ssw_uniform(sphere_sample(rng, n, 4), method="exact", unbiased=True)) for _ in range(4000)
        ]
        assert abs(np.mean(values)) < 3.5 * np.std(values) / np.sqrt(4000)


def test_root(rng):
    x = sphere_sample(rng, 20, 3)
    value = sphereot.ssw_uniform(x, method="exact")
    assert_allclose(sphereot.ssw_uniform(x, method="exact", root=True), np.sqrt(value), rtol=1e-15)


X = np.eye(3)
FAULTS = {
    "order": ({"p": 1}, "p: got 1, but method='exact' is for p = 2"),
    "projections": ({"n_projections": 10}, "n_projections: got a value, but method='exact' draws no great circles"),
    "seed": ({"seed": 0}, "seed: got a value"),
    "root": ({"root": True, "unbiased": True}, "root: got True with unbiased=True"),
    "one point": ({"x": X[:1], "unbiased": True}, "x: unbiased=True needs at least 2 points, got 1"),
    "length": ({"x": 2 * X}, "x: row 0 has length 2"),
    "sliced": (
        {"method": "iid", "unbiased": True},
        "unbiased and even_weight: got a value with method='iid'. Pass method='exact'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input(fault):
    options, message = FAULTS[fault]
    with pytest.raises(ValueError, match=message):
        sphereot.ssw_uniform(**{"x": X, "method": "exact", **options})


def test_two_samples_have_no_exact_method():
    with pytest.raises(ValueError, match=r"method must be one of 'iid', .*, got 'exact'"):
        sphereot.ssw(X, X, method="exact")


# ---- the loss ----


def test_loss(rng):
    torch = pytest.importorskip("torch")
    from sphereot.torch import UniformityLoss

    x = torch.tensor(sphere_sample(rng, 30, 6))
    for unbiased in (False, True):
        loss = UniformityLoss(method="exact", unbiased=unbiased)
        expected = sphereot.ssw_uniform(x, method="exact", unbiased=unbiased)
        assert loss(x) == expected
        assert torch.compile(loss, fullgraph=True, backend="aot_eager")(x) == expected
        batch = torch.stack([x, -x])
        assert_allclose(loss(batch).numpy(), float(expected), rtol=1e-12)
        assert_allclose(torch.func.vmap(loss)(batch).numpy(), float(expected), rtol=1e-12)
    with pytest.raises(ValueError, match="p: got 1, but method='exact' is for p = 2"):
        UniformityLoss(p=1, method="exact")
    with pytest.raises(ValueError, match="seed: got a value"):
        UniformityLoss(method="exact", seed=0)
    with pytest.raises(ValueError, match="x: unbiased=True needs at least 2 points"):
        UniformityLoss(method="exact", unbiased=True)(x[:1])
    assert to_numpy(UniformityLoss(method="exact", normalize=True)(3 * x)) == pytest.approx(
        float(sphereot.ssw_uniform(x, method="exact")), abs=1e-15
    )


def test_loss_trains(rng):
    """Gradient descent brings clustered points toward a uniform distribution."""
    torch = pytest.importorskip("torch")
    from sphereot.torch import UniformityLoss

    x = torch.tensor(sphere_sample(rng, 40, 3, shift=2), requires_grad=True)
    loss = UniformityLoss(method="exact", normalize=True)
    first = float(loss(x).detach())
    for _ in range(50):
        (gradient,) = torch.autograd.grad(loss(x), x)
        with torch.no_grad():
            x -= 40 * gradient
    assert float(loss(x).detach()) < 0.1 * first
