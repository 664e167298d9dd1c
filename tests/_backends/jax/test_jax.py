"""The JAX backend: the kernel under jit, grad and vmap, and the same values from `jax.numpy` elsewhere."""

import importlib
import os
import sys

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.kernel import needs_kernel
from helpers.processes import start
from numpy.testing import assert_allclose, assert_array_equal

import sphereot
from sphereot import circle
from sphereot._backends import native as _native
from sphereot._backends.protocol import Measure, Wanted

jax = pytest.importorskip("jax")
jnp = jax.numpy
kernel = importlib.import_module("sphereot._backends.native.backend")
backend = importlib.import_module("sphereot._backends.jax.backend")
traced = importlib.import_module("sphereot._backends.jax.traced")

ALL, POINTS, NOTHING = Wanted(True, True), Wanted(True, False), Wanted(False, False)
ORDERS = [1.0, 1.5, 2.0, 3.0]


@pytest.fixture
def sample():
    """Two weighted measures of unequal sizes on S^3, and frames."""
    rng = np.random.default_rng(0)
    x, y = sphere_sample(rng, 17, 4), sphere_sample(rng, 12, 4, shift=1)
    return x, y, 0.1 + rng.random(17), 0.1 + rng.random(12), sphereot.great_circles(9, 4, seed=0)


def in_jax(*arrays):
    return tuple(jnp.asarray(a) for a in arrays)


def compiled(function):
    """`function` under jit, with the optimizations of the compiler turned off to save time."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def weighted(p):
    return lambda x, y, a, b, f: sphereot.ssw(x, y, p=p, x_weights=a, y_weights=b, projections=f)


# ---- the kernel inside JAX ----


@needs_kernel
@pytest.mark.parametrize("p", ORDERS)
def test_gradients_equal_those_of_the_kernel(sample, p):
    x, y, a, b, frames = sample
    measures = [Measure(x, a), Measure(y, b)]
    value, [(dx, da), (dy, db)] = kernel.mean_gradients(measures, frames, p, [ALL, ALL])
    assert_allclose(weighted(p)(*in_jax(*sample)), value, rtol=1e-14)
    got, gradients = jax.jit(jax.value_and_grad(weighted(p), argnums=(0, 1, 2, 3)))(*in_jax(*sample))
    assert_allclose(got, sphereot.ssw(x, y, p=p, x_weights=a, y_weights=b, projections=frames), rtol=1e-14)
    for gradient, expected in zip(gradients, (dx, dy, da, db), strict=True):
        assert_allclose(gradient, expected, rtol=1e-12, atol=1e-15)

    _, [(dx, da)] = kernel.mean_gradients(measures[:1], frames, p, [ALL])
    to_uniform = jax.grad(lambda x, a, f: sphereot.ssw_uniform(x, p=p, weights=a, projections=f), argnums=(0, 1))
    for gradient, expected in zip(to_uniform(*in_jax(x, a, frames)), (dx, da), strict=True):
        assert_allclose(gradient, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("p", ORDERS)
def test_gradients_equal_finite_differences(sample, p, rng):
    """Along random directions, in points and weights at once. A turn does not depend on the length of a point."""
    *measures, frames = in_jax(*sample)
    loss = jax.jit(lambda x, y, *others: weighted(p)(*map(sphereot.sphere.normalize, (x, y)), *others))
    gradients = jax.grad(weighted(p), argnums=(0, 1, 2, 3))(*measures, frames)
    for _ in range(5):
        directions = [rng.normal(size=m.shape) for m in measures]
        slope = sum(float(jnp.sum(g * d)) for g, d in zip(gradients, directions, strict=True))
        ahead, behind = (
            loss(*(m + h * d for m, d in zip(measures, directions, strict=True)), frames) for h in (1e-7, -1e-7)
        )
        assert_allclose(slope, (ahead - behind) / 2e-7, rtol=1e-4, atol=1e-7)


@needs_kernel
def test_circle_gradients(rng):
    """Leading dimensions broadcast, and an array shared by several rows gets the sum of their gradients."""
    u, v, a, b = rng.random((3, 6)), rng.random((3, 5)), rng.random(6), rng.random((3, 5))

    def total(u, v, a, b):
        return jnp.sum(jnp.arange(1, 4) * circle.wasserstein(u, v, p=1.5, u_weights=a, v_weights=b))

    rows = np.arange(1, 4)[:, None]
    costs, [(du, da), (dv, db)] = kernel.circle_gradients([Measure(u, a), Measure(v, b)], 1.5, [ALL, ALL])
    value, gradients = jax.value_and_grad(total, argnums=(0, 1, 2, 3))(*in_jax(u, v, a, b))
    assert_allclose(value, np.sum(rows[:, 0] * costs), rtol=1e-14)
    for got, expected in zip(gradients, (rows * du, rows * dv, np.sum(rows * da, axis=0), rows * db), strict=True):
        assert_allclose(got, expected, rtol=1e-12, atol=1e-15)

    uniform = jax.jacrev(lambda u: circle.wasserstein_uniform(u, p=3))(jnp.asarray(u))
    _, [(du, _)] = kernel.circle_gradients([Measure(u)], 3.0, [POINTS])
    assert_allclose(uniform[1, 1], du[1], rtol=1e-12)
    assert_array_equal(uniform[0, 1], 0)


def test_vmap(sample, rng):
    """vmap over one measure, over both, nested, and over gradients equals a loop."""
    _, y, _, _, frames = in_jax(*sample)
    xs, ys = (jnp.stack([jnp.asarray(sphere_sample(rng, n, 4)) for _ in range(3)]) for n in (17, 12))

    def loss(x, y):
        return sphereot.ssw(x, y, projections=frames)

    assert_allclose(jax.vmap(lambda x: loss(x, y))(xs), [loss(x, y) for x in xs], rtol=1e-12)
    both = jax.jit(jax.vmap(jax.value_and_grad(loss, argnums=(0, 1))))(xs, ys)
    for k in range(3):
        for got, expected in zip(both[1], jax.grad(loss, argnums=(0, 1))(xs[k], ys[k]), strict=True):
            assert_allclose(got[k], expected, rtol=1e-10, atol=1e-14)
    table = jax.vmap(lambda x: jax.vmap(lambda y: loss(x, y))(ys))(xs)
    assert_allclose(table, [[loss(x, y) for y in ys] for x in xs], rtol=1e-12)
    u, v = jnp.asarray(rng.random((4, 6))), jnp.asarray(rng.random(5))
    assert_allclose(jax.vmap(lambda u: circle.wasserstein(u, v))(u), circle.wasserstein(u, v), rtol=1e-12)


def test_keys_are_seeds(sample):
    x, y, *_ = in_jax(*sample)
    loss = jax.jit(lambda x, key: sphereot.ssw(x, y, seed=key, n_projections=7))
    key, other = jax.random.split(jax.random.key(1))
    assert_allclose(loss(x, key), sphereot.ssw(x, y, seed=key, n_projections=7), rtol=1e-12)
    assert loss(x, key) != loss(x, other)


def test_pairwise_gradients(sample):
    x, y, a, _, frames = in_jax(*sample)

    def one_by_one(x, a):
        third, costs = x[:5], []
        for left, right, weights in ((x, y, a), (x, third, a), (y, third, None)):
            costs.append(sphereot.ssw(left, right, x_weights=weights, projections=frames))
        return costs[0] + 2 * costs[1] + 3 * costs[2]

    def together(x, a):
        square = sphereot.pairwise_ssw([x, y, x[:5]], weights=[a, None, None], projections=frames)
        return square[0, 1] + 2 * square[0, 2] + 3 * square[1, 2]

    for got, expected in zip(
        jax.grad(together, argnums=(0, 1))(x, a), jax.grad(one_by_one, argnums=(0, 1))(x, a), strict=True
    ):
        assert_allclose(got, expected, rtol=1e-10, atol=1e-14)


def test_small_descent_step_never_raises_the_loss(sample, rng):
    """On the same slices, a small step against the gradient never raises the loss."""
    _, y, _, _, frames = in_jax(*sample)
    loss = jax.jit(lambda x: sphereot.ssw(x, y, projections=frames))
    for _ in range(10):
        x = jnp.asarray(sphere_sample(rng, 17, 4))
        for _ in range(10):
            ahead = sphereot.sphere.normalize(x - 0.5 * jax.grad(loss)(x))
            assert loss(ahead) < loss(x)
            x = ahead


def test_second_derivatives_are_an_error(sample):
    x, y, _, _, frames = in_jax(*sample)

    def loss(x):
        return sphereot.ssw(x, y, projections=frames)

    for twice in (jax.hessian(loss), jax.jit(jax.grad(lambda x: jnp.sum(jax.grad(loss)(x) ** 2)))):
        with pytest.raises(NotImplementedError, match="first derivatives only"):
            twice(x)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        jax.jvp(lambda x: jax.jvp(loss, (x,), (x,))[1], (x,), (x,))
    with pytest.raises(NotImplementedError, match=r"Differentiate sphereot\.ssw"):
        jax.grad(lambda x: jnp.sum(sphereot.ssw_estimate(x, y, projections=frames).slice_costs))(x)
    constant = jax.grad(lambda x: jnp.sum(x * jax.grad(loss)(jax.lax.stop_gradient(x))))(x)
    assert_allclose(constant, jax.grad(loss)(x))
    assert_array_equal(jax.grad(lambda f: sphereot.ssw(x, y, projections=f))(frames), 0)


def test_bad_values_under_jit_give_nan(sample, rng):
    """No error can be raised there, and the kernel must not crash on invalid values."""
    x, y, a, b, frames = in_jax(*sample)
    compute = jax.jit(jax.value_and_grad(weighted(2.0), argnums=(0, 2)))
    bad_points = (x.at[3, 1].set(jnp.nan), x.at[3].multiply(1.001), 0 * x)
    bad_weights = (a.at[0].set(-1.0), 0 * a, a.at[2].set(jnp.inf))
    for bad in (*((points, a) for points in bad_points), *((x, weights) for weights in bad_weights)):
        value, gradients = compute(bad[0], y, bad[1], b, frames)
        assert np.isnan(value)
        assert all(np.isnan(g).all() for g in gradients) or not _native.available
    half = jax.jit(lambda x: sphereot.ssw(x, y, seed=0))(x.astype(jnp.bfloat16))  # of unit length up to rounding
    assert np.isfinite(half)
    batch = jax.vmap(lambda x: sphereot.ssw(x, y, seed=0))(jnp.stack([x, 2 * x]))
    assert_array_equal(np.isnan(batch), [False, True])
    u = jnp.asarray(rng.random((3, 6)))
    costs = jax.jit(lambda u: circle.wasserstein(u, u[::-1]))(u.at[0, 2].set(jnp.inf))
    assert_array_equal(np.isnan(costs), [True, False, True])


def test_forward_mode_equals_reverse_mode(sample, rng):
    """In points and weights, of the mean over slices, of pairs, and of rows of turns; under vmap too."""
    *measures, frames = in_jax(*sample)
    measures, moves = tuple(measures), tuple(jnp.asarray(rng.normal(size=m.shape)) for m in measures)
    gradients = jax.grad(weighted(2.0), argnums=(0, 1, 2, 3))(*measures, frames)
    expected = sum(jnp.sum(g * m) for g, m in zip(gradients, moves, strict=True))

    def slope(*moves):
        return jax.jvp(lambda *m: weighted(2.0)(*m, frames), measures, moves)[1]

    assert_allclose(slope(*moves), expected, rtol=1e-10)
    assert_allclose(jax.vmap(slope)(*(jnp.stack([m, 2 * m]) for m in moves)), [expected, 2 * expected], rtol=1e-10)
    x, y, *_ = measures

    def pairs(x):
        return sphereot.pairwise_ssw([x, y], projections=frames)[0, 1]

    assert_allclose(jax.jacfwd(pairs)(x), jax.grad(pairs)(x), atol=1e-12)
    u, v = jnp.asarray(rng.random((3, 6))), jnp.asarray(rng.random((3, 5)))
    rows = jax.jvp(lambda u: circle.wasserstein(u, v, p=3), (u,), (jnp.ones_like(u),))[1]
    by_row = jax.jacrev(lambda u: circle.wasserstein(u, v, p=3))(u)
    assert_allclose(rows, jnp.sum(by_row, axis=(1, 2)), atol=1e-12)


# ---- seeds under a trace ----

_DRAWS = {
    "ssw": lambda x, seed: sphereot.ssw(x, x[::2], n_projections=3, seed=seed),
    "ssw_uniform": lambda x, seed: sphereot.ssw_uniform(x, n_projections=3, seed=seed),
    "pairwise_ssw": lambda x, seed: sphereot.pairwise_ssw([x, x[::2]], n_projections=3, seed=seed)[0, 1],
    "great_circles": lambda x, seed: jnp.sum(sphereot.great_circles(3, 4, seed=seed, like=x) ** 3),
    "quasi": lambda x, seed: jnp.sum(sphereot.great_circles(5, 4, method="quasi", seed=seed, like=x) ** 3),
    "random_uniform": lambda x, seed: jnp.sum(sphereot.sphere.random_uniform(3, 4, seed=seed, like=x)),
}


@pytest.mark.parametrize("name", _DRAWS)
def test_jit_without_a_seed_is_an_error(sample, name):
    """Great circles drawn while JAX traces would be the same in every call, so a seed is required."""
    x, draw = jnp.asarray(sample[0]), _DRAWS[name]
    for seed in (None, np.random.default_rng(0)):
        with pytest.raises(ValueError, match=r"seed: got .* while JAX traces .*seed=jax\.random\.key\(0\).* an int"):
            jax.jit(lambda x, seed=seed: draw(x, seed))(x)
    assert draw(x, None) != draw(x, None)
    if name != "random_uniform":
        assert_allclose(jax.jit(lambda x: draw(x, 0))(x), draw(x, 0), rtol=1e-6)
    with_key = jax.jit(draw)
    assert with_key(x, jax.random.key(0)) == with_key(x, jax.random.key(0))
    assert with_key(x, jax.random.key(0)) != with_key(x, jax.random.key(1))


@pytest.mark.parametrize("name", _DRAWS)
def test_integers_of_jax_are_not_keys(sample, name):
    """An int that `jax.jit` traces has no value to seed NumPy with; `jax.random.key` accepts it."""
    x, draw = jnp.asarray(sample[0]), _DRAWS[name]
    for seed in (3, jnp.uint32(3), jnp.arange(2)):
        with pytest.raises(
            TypeError, match=r"seed: a JAX array must be a key, got dtype u?int.* Pass jax\.random\.key\(seed\)"
        ):
            jax.jit(draw)(x, seed)
    by_key = jax.jit(lambda x, seed: draw(x, jax.random.key(seed)))
    assert by_key(x, 3) == jax.jit(draw)(x, jax.random.key(3))
    assert jax.jit(draw)(x, jax.random.PRNGKey(3)) == by_key(x, 3)


def test_functions_that_need_values_say_so(sample):
    x = jnp.asarray(sample[0])
    with pytest.raises(TypeError, match=r"JAX traces a program .* Call it outside"):
        jax.jit(lambda x: sphereot.ssw_estimate(x, x[::2], seed=0).value)(x)


def test_which_transforms_need_a_seed(sample):
    """Transforms that run Python once for many calls, also nested in others and with constant arguments."""
    x = jnp.asarray(sample[0])

    def loss(x):
        return sphereot.ssw_uniform(x, n_projections=3)

    staged = {
        "jit of grad": jax.jit(jax.grad(loss)),
        "grad of jit": jax.grad(jax.jit(loss)),
        "jit of vmap": lambda x: jax.jit(jax.vmap(loss))(x[None]),
        "vmap of jit": lambda x: jax.vmap(jax.jit(loss))(x[None]),
        "scan": lambda x: jax.lax.scan(lambda total, x: (total + loss(x), None), 0.0, x[None]),
        "checkpoint": jax.checkpoint(loss),
        "constant": lambda x: jax.jit(lambda: loss(x))(),
    }
    for name, call in staged.items():
        with pytest.raises(ValueError, match="seed: got None"):
            print(name, call(x))  # the name for whoever sees this fail
    drawn_in_every_call = {
        "grad": jax.grad(loss),
        "vmap": lambda x: jax.vmap(loss)(x[None]),
        "vmap of grad": lambda x: jax.vmap(jax.grad(loss))(x[None]),
        "jvp": lambda x: jax.jvp(loss, (x,), (x + 1,))[1],
    }
    for name, call in drawn_in_every_call.items():
        assert jnp.any(call(x) != call(x)), name


# ---- without the kernel ----


@needs_kernel
@pytest.mark.parametrize("p", ORDERS)
def test_traced_gradients_equal_those_of_the_kernel(sample, p):
    """Two implementations with different algorithms agree on gradients in points and on dual potentials."""
    x, y, a, b, frames = in_jax(*sample)
    both = (Measure(x, a), Measure(y, b))
    for measures in (both, both[:1]) if p in (1.5, 2) else (both,):
        wanted = (ALL,) * len(measures)
        value, gradients = compiled(lambda m, f: traced.costs_and_gradients(m, f, p, None, wanted))(  # noqa: B023
            measures, frames
        )
        expected_value, expected = backend._value_and_gradients(measures, frames, p, None, wanted)
        assert_allclose(value, expected_value, rtol=1e-10)
        for got, wants in zip(jax.tree.leaves(gradients), jax.tree.leaves(expected), strict=True):
            assert_allclose(got, wants, rtol=1e-7, atol=1e-12)


def test_traced_blocks_add_up(sample, monkeypatch):
    """Slices in blocks of four, four and one give the same result as all at once."""
    x, y, a, _, frames = in_jax(*sample)
    three = (Measure(x, a), Measure(y), Measure(y[:4]))
    whole = compiled(lambda f: traced.slice_costs(three[:1], f, 2.0))(frames)
    square = backend.pairwise_costs(three, frames, 1.0) if _native.available else None
    monkeypatch.setattr(traced, "TURNS_PER_BLOCK", 4 * 17)
    assert_allclose(compiled(lambda f: traced.slice_costs(three[:1], f, 2.0))(frames), whole, rtol=1e-12)
    mean, _ = compiled(lambda f: traced.costs_and_gradients(three[:1], f, 2.0, None, (NOTHING,)))(frames)
    assert_allclose(mean, jnp.mean(whole), rtol=1e-12)
    if square is not None:
        monkeypatch.setattr(traced, "TURNS_PER_BLOCK", 4 * 33)
        assert_allclose(compiled(lambda f: traced.pairwise_costs(three, f, 1.0))(frames), square, rtol=1e-10)


def test_traced_weight_gradient_is_a_subgradient(rng):
    """At equal weights the cost has a kink: any change of the weights costs at least what the gradient predicts."""
    u, v, ones = jnp.asarray(rng.random((8, 4))), jnp.asarray(rng.random((8, 4))), jnp.ones((8, 4))
    gradients = compiled(
        lambda u, v, a, b: traced.costs_and_gradients((Measure(u, a), Measure(v, b)), None, 3.0, None, (ALL, ALL))
    )
    cost, ((_, da), (_, db)) = gradients(u, v, ones, ones)
    for _ in range(100):
        a, b = (4 * rng.dirichlet(np.ones(4) / 2, size=8) for _ in range(2))
        foretold = cost + jnp.sum(da * (a - 1) + db * (b - 1), axis=-1)
        moved = circle.wasserstein(np.asarray(u), np.asarray(v), p=3, u_weights=a, v_weights=b)
        assert (moved >= foretold - 1e-12).all()


@pytest.mark.parametrize(
    "compute",
    [pytest.param(backend._value_and_gradients, marks=needs_kernel), traced.costs_and_gradients],
    ids=["kernel", "traced"],
)
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_gradients_are_finite_everywhere(compute, p):
    """At coincident points, antipodes, and points orthogonal to a slice, which get gradient 0 from it."""
    x = jnp.asarray([[1.0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 0, 1], [0, 0, -1], [0, 1, 0]])
    frames = jnp.asarray(np.stack([np.eye(3)[:, :2], np.eye(3)[:, 1:]]))
    gradients = compiled(lambda x, y, f: compute((Measure(x), Measure(y)), f, p, None, (POINTS, POINTS)))
    for y in (x, -x, x[::-1]):
        value, ((dx, _), (dy, _)) = gradients(x, y, frames)
        assert np.isfinite(value)
        assert np.isfinite(dx).all()
        assert np.isfinite(dy).all()
        _, ((dx, _), _) = gradients(x, y, jnp.stack([frames[0]] * 2))
        assert_array_equal(dx[3:5], 0)


@needs_kernel
def test_platform_is_chosen_when_lowering(sample):
    """Programs for the CPU call the kernel, programs for accelerators do not."""
    x, y, *_ = in_jax(*sample)
    staged = jax.jit(jax.grad(lambda x: sphereot.ssw(x, y, n_projections=3, seed=0))).trace(x)
    on_cpu, elsewhere = (staged.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda"))
    assert "python_cpu_callback" in on_cpu
    assert "stablehlo.sort" not in on_cpu
    assert "callback" not in elsewhere
    assert "stablehlo.sort" in elsewhere


@needs_kernel
def test_export(sample):
    """A program that calls the kernel in this process cannot be stored; one for an accelerator can."""
    x, y, *_ = in_jax(*sample)
    program = jax.jit(jax.grad(lambda x: sphereot.ssw(x, y, n_projections=3, seed=0)))
    for platforms in (["cpu"], ["cpu", "cuda"]):
        with pytest.raises(NotImplementedError, match="SPHEREOT_KERNEL=off"):
            jax.export.export(program, platforms=platforms)(x)
    assert jax.export.export(program, platforms=["cuda"])(x).platforms == ("cuda",)


# ---- in processes of their own ----


def run(code, **environment):
    done = start(sys.executable, "-W", "error", "-c", code, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("build", ["auto", "off"])
def test_single_precision(sample, tmp_path, build):
    """Without jax_enable_x64 there is no warning, and the values equal those of NumPy, with and without the kernel."""
    np.savez(tmp_path / "sample.npz", *sample)
    run(
        "import sys, numpy, jax, jax.numpy as jnp, sphereot\n"
        f"given = numpy.load({str(tmp_path / 'sample.npz')!r})\n"
        "x, y, a, b, f = (jnp.asarray(given[k], jnp.float32) for k in given.files)\n"
        "loss = lambda *s: sphereot.ssw(s[0], s[1], x_weights=s[2], y_weights=s[3], projections=s[4])\n"
        "value, gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)))(x, y, a, b, f)\n"
        "assert all(g.dtype == jnp.float32 for g in (value, *gradients))\n"
        f"numpy.savez({str(tmp_path / 'found.npz')!r}, value, *gradients)\n",
        JAX_ENABLE_X64="0",
        SPHEREOT_KERNEL=build,
    )
    expected = jax.value_and_grad(weighted(2), argnums=(0, 1, 2, 3))(*in_jax(*sample))
    with np.load(tmp_path / "found.npz") as found:
        for name, values in zip(found.files, jax.tree.leaves(expected), strict=True):
            assert_allclose(found[name], values, rtol=1e-3, atol=1e-3 * np.abs(values).max())


@needs_kernel
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_single_core_does_not_hang():
    """With one core, a callback that waits for another thread of XLA would wait forever."""
    run(
        "import os\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "import jax, jax.numpy as jnp, sphereot\n"
        "x, y, z = (sphereot.sphere.random_uniform(40_000, 3, seed=s, like=jnp.zeros(0)) for s in range(3))\n"
        "loss = lambda x: sum(sphereot.ssw(x, t, n_projections=2, seed=0) for t in (y, z))\n"
        "step = jax.jit(lambda x: x - jax.grad(loss)(x))\n"
        "for _ in range(5):\n"
        "    x = step(x)\n"
        "assert bool(jnp.isfinite(x).all())\n",
    )


def test_export_without_the_kernel():
    run(
        "import jax, jax.numpy as jnp, sphereot, jax.export\n"
        "x = sphereot.sphere.random_uniform(8, 3, seed=0, like=jnp.zeros(0))\n"
        "program = jax.jit(lambda x: sphereot.ssw_uniform(x, n_projections=3, seed=0))\n"
        "assert jax.export.export(program)(x).call(x) == program(x)\n",
        SPHEREOT_KERNEL="off",
    )


def test_imports():
    """JAX is imported only when it is used."""
    run("import sys, sphereot; assert 'jax' not in sys.modules")


def test_example(capsys):
    before, after = importlib.import_module("examples.jax_descent").descend(30)
    assert after < 0.01 * before
    assert "SSW_2^2" in capsys.readouterr().out
