"""
Gradient descent in JAX: aligning two samples
=============================================

`ssw` works in `jax.jit` and `jax.grad`. This example finds the rotation that takes one sample of unlabeled points onto
another: SSW between them is a function of three parameters, which compiled gradient descent minimizes.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import sphereot
from sphereot import plotting

# %%
# The target has three clusters of different sizes. The other sample is a new draw of it, rotated by a large angle.

keys = jax.random.split(jax.random.key(0), 4)
means = jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.3], [0.3, -0.2, 1.0]])


def draw(key, n=600):
    """Draw unlabeled points from three clusters."""
    of_cluster, of_noise = jax.random.split(key)
    cluster = jax.random.choice(of_cluster, 3, (n,), p=jnp.array([0.5, 0.3, 0.2]))
    return sphereot.sphere.normalize(means[cluster] + 0.15 * jax.random.normal(of_noise, (n, 3)))


def rotate(points, rotation):
    """Rotate points about an axis; the length of the vector is the angle in radians."""
    x, y, z = rotation
    return points @ jax.scipy.linalg.expm(jnp.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])).T


true_rotation = jnp.array([0.4, -1.2, 0.9])
target, moved = draw(keys[0]), rotate(draw(keys[1]), -true_rotation)

# %%
# One compiled step. Under `jax.jit` the seed of the great circles is a key, so that every step has new ones.


@jax.jit
def step(rotation, key):
    """One step of gradient descent: the new rotation, and the loss before."""

    def loss(rotation):
        return sphereot.ssw(rotate(moved, rotation), target, n_projections=50, seed=key)

    value, gradient = jax.value_and_grad(loss)(rotation)
    return rotation - 5.0 * gradient, value


rotation, history = jnp.zeros(3), []
for key in jax.random.split(keys[2], 150):
    rotation, value = step(rotation, key)
    history.append(float(value))
print("rotation in radians:", np.asarray(rotation).round(2), "true:", np.asarray(true_rotation).round(2))

# %%
# The rotated sample (orange) lies on the target (blue) in the end, though no point has a known partner.

with plotting.style():
    fig = plt.figure(figsize=(7.2, 2.7))
    for k, (vector, title) in enumerate(((jnp.zeros(3), "before"), (rotation, "after"))):
        ax = plotting.sphere_axes(fig.add_subplot(1, 3, k + 1, projection="3d"), elev=25, azim=40)
        plotting.scatter_sphere(np.asarray(target), ax=ax, size=3)
        plotting.scatter_sphere(np.asarray(rotate(moved, vector)), ax=ax, size=3)
        ax.set_title(f"{title} the descent")
    ax = fig.add_subplot(1, 3, 3)
    ax.semilogy(history)
    ax.set(xlabel="step", ylabel="SSW$_2^2$ (turns$^2$)")
plt.show()
