"""For a JAX researcher: move images of ones onto images of zeros by gradient descent on SSW.

The data are scikit-learn's digits: 1,797 images of 8 x 8 pixels, written by 43 people. Their first 16 principal
components, scaled to unit length, are points on S^15. Read the cells from top to bottom, run them one at a time in an
editor that supports `# %%`, or run all of them from the root of the repository: `python -m examples.jax_descent` (a few
seconds).
"""

# %%
# One point per image. The ones will move; the zeros are the target.

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import sphereot

images, labels = load_digits(return_X_y=True)
points = sphereot.sphere.normalize(PCA(16, random_state=0).fit_transform(images))
ones, zeros = (jnp.asarray(points[labels == digit]) for digit in (1, 0))
print(f"{len(ones)} ones, {len(zeros)} zeros")

# %%
# `sphereot.ssw` is a loss for `jit` and `grad`. The key is an argument of the compiled step, so that every call has new
# great circles. A point has 1 / n of the mass, and so the gradient of one point is of order 1 / n: multiply it by n.


@jax.jit
def step(moving: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One descent step on the great circles of `key`: the new points, and the loss before."""

    def loss(moving: jax.Array) -> jax.Array:
        return sphereot.ssw(moving, zeros, n_projections=100, seed=key)

    value, gradient = jax.value_and_grad(loss)(moving)
    return sphereot.sphere.normalize(moving - 5.0 * len(moving) * gradient), value


def move(steps: int) -> jax.Array:
    """The ones after this number of steps toward the zeros."""
    moving = ones
    for k, key in enumerate(jax.random.split(jax.random.key(0), steps)):
        moving, value = step(moving, key)
        if k % max(1, steps // 10) == 0:
            print(f"step {k:4d}  SSW_2^2 {float(value):.6f}")
    return moving


# %%
# After 60 steps SSW_2^2 is less than 1 % of what it was. Both values are on the same 500 great circles, none of which
# the descent has used.


def distance_to_zeros(moving: jax.Array) -> float:
    return float(sphereot.ssw(moving, zeros, n_projections=500, seed=jax.random.key(1)))


def descend(steps: int) -> tuple[float, float]:
    """SSW_2^2 between the ones and the zeros, before and after this number of steps."""
    return distance_to_zeros(ones), distance_to_zeros(move(steps))


moved = move(60)
before, after = distance_to_zeros(ones), distance_to_zeros(moved)
print(f"SSW_2^2 to the zeros: {before:.6f} before, {after:.6f} after")

# %%
# A check that knows nothing of SSW: among the images of all other digits, the nearest is a zero for none of the ones,
# and for every one of them after the descent.

others, digits = points[labels != 1], labels[labels != 1]
near_zeros = [float(np.mean(digits[np.argmax(np.asarray(x) @ others.T, axis=1)] == 0)) for x in (ones, moved)]
print(f"the nearest image of another digit is a zero: {near_zeros[0]:.0%} before, {near_zeros[1]:.0%} after")
