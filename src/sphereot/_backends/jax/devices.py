"""Arrays in programs for several devices: `jax.shard_map`, and meshes with explicit sharding."""

from typing import Any, TypeVar

import jax
from jax.sharding import NamedSharding, PartitionSpec

from sphereot._arrays.libraries import Array

T = TypeVar("T")


def on_every_device(arrays: T) -> T:
    """Arrays (a tree) that are whole on every device, and vary over the same axes of `jax.shard_map`.

    The order of points on a great circle depends on all of them, so a shard of a measure is not enough.
    """

    def whole(array: Array) -> Array:
        sharding = jax.typeof(array).sharding
        sharded = any(axis is not None for axis in sharding.spec)
        return jax.sharding.reshard(array, NamedSharding(sharding.mesh, PartitionSpec())) if sharded else array

    return varying_like(arrays, jax.tree.map(whole, arrays))


def varying_like(like: Any, arrays: T) -> T:
    """Mark `arrays` (a tree) as different on the devices of each axis of `jax.shard_map` over which `like` varies."""
    axes = frozenset[Any]().union(*map(_varying_axes, jax.tree.leaves(like)))

    def varying(array: Array) -> Array:
        missing = tuple(axes - _varying_axes(array))
        return jax.lax.pcast(array, missing, to="varying") if missing else array

    return jax.tree.map(varying, arrays)


def _varying_axes(array: Array) -> frozenset[Any]:
    axis_type = getattr(jax.typeof(array), "manual_axis_type", None)  # jax 0.10 or newer
    return axis_type.varying if axis_type else frozenset()
