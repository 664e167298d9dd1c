"""SSW_2 to the uniform distribution without slices in JAX: the kernel under all transforms, array code elsewhere."""

import importlib

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.kernel import needs_kernel
from numpy.testing import assert_allclose

import sphereot
from sphereot._backends.native.backend import pair_gradients
from sphereot._backends.protocol import Measure, PairOptions, Wanted

jax = pytest.importorskip("jax")
jnp = jax.numpy
traced = importlib.import_module("sphereot._backends.jax.traced")


def cost(x, a, unbiased=False):
    return sphereot.ssw_uniform(x, weights=a, method="exact", unbiased=unbiased)


@pytest.fixture
def sample(rng):
    """Weighted points, some of them equal and opposite."""
    x = sphere_sample(rng, 70, 5)
    x[1], x[2] = x[0], -x[0]
    return jnp.asarray(x), jnp.asarray(0.1 + rng.random(70))


@needs_kernel
def test_platform_is_chosen_when_lowering(sample):
    staged = jax.jit(jax.value_and_grad(cost)).trace(*sample)
    on_cpu, elsewhere = (staged.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda"))
    assert "callback" in on_cpu
    assert "callback" not in elsewhere


@needs_kernel
@pytest.mark.parametrize("unbiased", [False, True])
def test_equals_the_kernel_and_array_code(sample, unbiased):
    """Value and both gradients: those of the kernel, to the bit, and those of automatic differentiation."""
    value, gradients = jax.jit(jax.value_and_grad(cost, argnums=(0, 1)), static_argnums=2)(*sample, unbiased)
    expected, (parts,) = pair_gradients(
        Measure(*map(np.asarray, sample)), Wanted(True, True), PairOptions(unbiased, 1.0)
    )
    assert float(value) == expected
    for gradient, part in zip(gradients, parts, strict=True):
        assert_allclose(gradient, part, rtol=0, atol=0)
    wanted = (Wanted(True, True),)
    array_value, (array_parts,) = traced.costs_and_gradients(
        [Measure(*sample)], None, 2.0, PairOptions(unbiased, 1.0), wanted
    )
    assert_allclose(value, array_value, rtol=0, atol=1e-14)
    for gradient, part in zip(gradients, array_parts, strict=True):
        assert_allclose(gradient, part, rtol=0, atol=1e-13)


def test_forward_mode_equals_reverse_mode(sample, rng):
    moves = tuple(jnp.asarray(rng.normal(size=t.shape)) for t in sample)
    _, slope = jax.jvp(cost, sample, moves)
    gradients = jax.grad(cost, argnums=(0, 1))(*sample)
    assert_allclose(slope, sum(jnp.sum(g * m) for g, m in zip(gradients, moves, strict=True)), rtol=1e-12)


def test_vmap(sample):
    """One call per member; weights that all members share are not copied."""
    x, a = sample
    batch = jnp.stack([x, x[::-1], -x])
    value = jax.jit(jax.vmap(cost, in_axes=(0, None)))(batch, a)
    gradients = jax.vmap(jax.grad(cost), in_axes=(0, None))(batch, a)
    for k in range(3):
        assert_allclose(value[k], cost(batch[k], a), rtol=1e-14)
        assert_allclose(gradients[k], jax.grad(cost)(batch[k], a), rtol=0, atol=1e-15)


def test_bad_values_under_jit_give_nan(sample):
    """From the kernel and from array code, in the value and in the gradient."""
    x, a = sample
    compute = jax.jit(jax.value_and_grad(cost))
    for bad in ((x, a.at[0].set(-1.0)), (x, 0 * a), (2 * x, a), (x.at[0, 0].set(jnp.nan), a)):
        value, gradient = compute(*bad)
        assert np.isnan(value)
        assert np.isnan(gradient).all()


@pytest.mark.parametrize(("dim", "unbiased"), [(2, False), (3, True), (12, False)])
def test_second_derivatives_equal_differences_of_gradients(rng, dim, unbiased):
    """In points and weights. With h = 1e-6 both rounding and the curvature of the gradient are below 1e-6."""
    x, a = jnp.asarray(sphere_sample(rng, 9, dim)), jnp.asarray(0.1 + rng.random(9))
    gradients = jax.jit(jax.grad(lambda x, a: cost(sphereot.sphere.normalize(x), a, unbiased), argnums=(0, 1)))
    h, moves = 1e-6, tuple(jnp.asarray(rng.normal(size=t.shape)) for t in (x, a))
    ahead, behind = (gradients(x + s * moves[0], a + s * moves[1]) for s in (h, -h))
    slopes = jax.jit(lambda *sample: jax.jvp(gradients, sample, moves)[1])(x, a)
    pulled_back = jax.jit(lambda *sample: jax.vjp(gradients, *sample)[1](moves))(x, a)
    for got, reverse, left, right in zip(slopes, pulled_back, ahead, behind, strict=True):
        assert_allclose(got, (left - right) / (2 * h), rtol=1e-5, atol=1e-6 * float(jnp.max(jnp.abs(got))))
        assert_allclose(reverse, got, rtol=1e-10, atol=1e-14)  # a Hessian is symmetric


def test_gradient_penalty(sample):
    """The gradient of a squared gradient, compiled, is finite, at equal and opposite points too."""
    x, a = sample
    penalty = jax.jit(jax.grad(lambda x: jnp.sum(jax.grad(cost)(x, a) ** 2)))
    assert np.isfinite(penalty(x)).all()
    weights_left_out = jax.jit(jax.grad(lambda x: jnp.sum(jax.grad(lambda x: cost(x, None))(x) ** 2)))
    assert np.isfinite(weights_left_out(x)).all()
