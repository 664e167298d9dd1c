"""JAX support: what works with JAX arrays, and under which transformations.

`sphereot.ssw`, `ssw_uniform`, `pairwise_ssw`, `circle.wasserstein` and `circle.wasserstein_uniform` accept JAX arrays
under `jax.jit`, `jax.vmap`, `jax.grad` and `jax.shard_map`, in float32 and float64, and a JAX key as their seed. They
have derivatives of first order in points, turns and weights, in reverse and in forward mode; great circles are
constants to differentiation. `ssw_uniform` with `method="exact"` has derivatives of every order.

Under `jax.jit`, `jax.lax.scan` and `jax.checkpoint` a seed is needed: a key, passed into the function, gives new great
circles with every key; an int gives the same circles in every call. None is an error there, because what is drawn
while JAX traces is a constant of the program. So is an int that JAX traces: pass `jax.random.key` of it. Outside of
them, `jax.grad` and `jax.vmap` draw in every call.

A call outside of all transformations raises an error for bad values. Inside of one, and on an accelerator, values
cannot be read, and the result is NaN: for points that are not finite or not of unit length, and for weights that are
not finite, negative or all zero.

In `jax.shard_map` a value is that of the points on one device; see :doc:`/guide/loss` for how to gather them. Sharded
arrays under `jax.jit` and on meshes with explicit sharding have the value of the whole arrays.

On the CPU the compiled kernel computes value and gradients in one call; on accelerators `jax.numpy` code does. A
program that calls the kernel cannot be exported: set SPHEREOT_KERNEL=off before Python starts to use `jax.export`.
"""

from sphereot._support.extras import require

require("jax", "sphereot.jax")

__all__: list[str] = []
