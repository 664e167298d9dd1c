"""JAX support: what works with JAX arrays, and under which transformations.

`sphereot.ssw`, `ssw_uniform`, `pairwise_ssw`, `circle.wasserstein` and `circle.wasserstein_uniform` take JAX arrays
under `jax.jit`, `jax.vmap` and `jax.grad`, in float32 and float64, and a JAX key as their seed. They have derivatives
of first order in points, turns and weights, in reverse and in forward mode; great circles are constants to
differentiation.

Under `jax.jit`, `jax.lax.scan` and `jax.checkpoint` a seed is needed: a key, passed into the function, gives new great
circles with every key; an int gives the same circles in every call. None is an error there, because what is drawn
while JAX traces is a constant of the program. Outside of them, `jax.grad` and `jax.vmap` draw in every call.

On the CPU the compiled kernel computes value and gradients in one call; on accelerators `jax.numpy` code does. Under
`jit` values cannot be checked, so bad input raises no error there: points or weights that are not finite, negative
weights and weights that are all zero give NaN. Inside `jax.shard_map`, pass it `check_vma=False`.
"""

from sphereot._support.extras import require

require("jax", "sphereot.jax")

__all__: list[str] = []
