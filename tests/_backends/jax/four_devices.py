"""Programs on four host devices: run by test_devices.py with `--xla_force_host_platform_device_count=4`.

Prints `devices agree`, or fails. Each program is compared with the same computation on one device.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from numpy.testing import assert_allclose

import sphereot
from sphereot import circle

N = 4
KEY = jax.random.key(0)
Function = Callable[..., Any]

# Functions of points x, y with weights a of x: values on one device, or of one shard.
COSTS: dict[str, Function] = {
    "ssw": lambda x, y, a: sphereot.ssw(x, y, seed=KEY, n_projections=5),
    "weights, p = 1": lambda x, y, a: sphereot.ssw(x, y, x_weights=a, p=1, seed=KEY, n_projections=5),
    "large order": lambda x, y, a: sphereot.ssw(x, y, p=8, root=True, seed=KEY, n_projections=5),
    "uniform": lambda x, y, a: sphereot.ssw_uniform(x, seed=KEY, method="quasi", n_projections=5) * jnp.sum(y) ** 0,
    "exact": lambda x, y, a: sphereot.ssw_uniform(x, weights=a, method="exact") * jnp.sum(y) ** 0,
    "pairs": lambda x, y, a: sphereot.pairwise_ssw([x, y, x], seed=KEY, n_projections=5)[0, 1],
    "circle": lambda x, y, a: circle.wasserstein(x[:, 0], y[:, 0]),
    "circle, uniform": lambda x, y, a: circle.wasserstein_uniform(x[:, 0], weights=a) * jnp.sum(y) ** 0,
}


def main(names: list[str]) -> None:
    assert len(jax.devices()) == N
    sample = arrays()
    mesh = jax.make_mesh((N,), ("d",), axis_types=(AxisType.Auto,))
    explicit = jax.make_mesh((N,), ("d",))
    for name in names or COSTS:
        cost = COSTS[name]
        whole, by_shard = (value_and_gradients(c)(*sample) for c in (cost, partial(mean_over_shards, cost)))
        for program, spec, expected in (
            (partial(per_shard, cost), P("d"), by_shard),
            (partial(gathered, cost), P("d"), whole),
            *([(cost, P(), whole)] if name == "ssw" else []),
        ):
            mapped = jax.shard_map(
                program, mesh=mesh, in_specs=(spec,) * 3, out_specs=P()
            )  # with the default check_vma
            assert_close(value_and_gradients(mapped)(*sample), expected)
        with jax.set_mesh(explicit):
            on_mesh = [jax.device_put(t, NamedSharding(explicit, P("d"))) for t in sample]
            assert_close(value_and_gradients(cost)(*on_mesh), whole)
    if not names:
        gradient_of_shared_points(mesh)
        second_derivatives(mesh)
        rows_of_turns(mesh, explicit)
        arrays_on_a_mesh(explicit)
    print("devices agree")


def arrays() -> tuple[jax.Array, ...]:
    keys = jax.random.split(jax.random.key(1), 3)
    x, y = (sphereot.sphere.normalize(jax.random.normal(key, (n, 3))) for key, n in zip(keys, (16, 12), strict=False))
    return x, y, 0.1 + jax.random.uniform(keys[2], (16,))


def value_and_gradients(cost: Function) -> Function:
    return jax.jit(jax.value_and_grad(cost, argnums=(0, 1, 2)))


def per_shard(cost: Function, *sample: jax.Array) -> jax.Array:
    return jax.lax.pmean(cost(*sample), "d")


def gathered(cost: Function, *sample: jax.Array) -> jax.Array:
    """All devices compute the same; the mean says so to JAX."""
    return jax.lax.pmean(cost(*(jax.lax.all_gather(t, "d", tiled=True) for t in sample)), "d")


def mean_over_shards(cost: Function, *sample: jax.Array) -> jax.Array:
    """The same as `per_shard`, on one device."""
    return jnp.mean(jax.vmap(cost)(*map(shards, sample)))


def shards(array: jax.Array) -> jax.Array:
    return jnp.reshape(array, (N, -1, *array.shape[1:]))


def assert_close(got: Any, expected: Any) -> None:
    for left, right in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert_allclose(left, right, rtol=1e-9, atol=1e-12)


def gradient_of_shared_points(mesh: jax.sharding.Mesh) -> None:
    """Points that all devices share get the gradient of the mean, from outside and from inside of `shard_map`."""
    x, y, _ = arrays()
    cost = COSTS["ssw"]

    def shard_cost(x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.lax.pmean(cost(x, y, None), "d")

    expected = jax.grad(lambda x: jnp.mean(jax.vmap(lambda y: cost(x, y, None))(shards(y))))(x)
    options = {"mesh": mesh, "in_specs": (P(), P("d")), "out_specs": P()}
    assert_close(jax.jit(jax.grad(jax.shard_map(shard_cost, **options)))(x, y), expected)
    assert_close(jax.jit(jax.shard_map(jax.grad(shard_cost), **options))(x, y), expected)


def second_derivatives(mesh: jax.sharding.Mesh) -> None:
    x, _, _ = arrays()

    def penalty(x: jax.Array) -> jax.Array:
        return jnp.sum(jax.grad(lambda x: sphereot.ssw_uniform(x, method="exact"))(x) ** 2)

    total = jax.shard_map(lambda x: jax.lax.psum(penalty(x), "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
    expected = jax.jit(jax.grad(lambda x: jnp.sum(jax.vmap(penalty)(shards(x)))))(x)
    assert_close(jax.jit(jax.grad(total))(x), expected)


def rows_of_turns(mesh: jax.sharding.Mesh, explicit: jax.sharding.Mesh) -> None:
    """Each device has some of the circles."""
    first, second = jax.random.split(KEY)
    u, v = jax.random.uniform(first, (8, 6)), jax.random.uniform(second, (8, 5))
    expected = circle.wasserstein(u, v)
    assert_close(jax.shard_map(circle.wasserstein, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(u, v), expected)
    with jax.set_mesh(explicit):
        on_mesh = (jax.device_put(t, NamedSharding(explicit, P("d"))) for t in (u, v))
        assert_close(jax.jit(circle.wasserstein)(*on_mesh), expected)


def arrays_on_a_mesh(explicit: jax.sharding.Mesh) -> None:
    """Values of sharded arrays outside of `jax.set_mesh`; great circles that are drawn follow the mesh."""
    x, y, _ = arrays()
    x_mesh, y_mesh = (jax.device_put(t, NamedSharding(explicit, P("d"))) for t in (x, y))
    for function in (
        partial(sphereot.ssw, seed=0, n_projections=5),
        lambda x, y: sphereot.ssw(x, y, projections=sphereot.great_circles(5, 3, seed=KEY, like=x)),
        lambda x, y: sphereot.ssw_estimate(x, y, seed=0).value,
        lambda x, y: sphereot.project(x, sphereot.great_circles(5, 3, seed=0, like=y)),
    ):
        assert_close(function(x_mesh, y_mesh), function(x, y))


if __name__ == "__main__":
    main(sys.argv[1:])
