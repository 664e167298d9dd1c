"""Move points on the sphere onto a target sample by gradient descent on SSW, in JAX: compiled, new slices each step."""

import argparse

import jax
import jax.numpy as jnp

import sphereot


@jax.jit
def step(points: jax.Array, target: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One descent step on the slices of `key`: the new points, and the loss before."""

    def loss(points: jax.Array) -> jax.Array:
        return sphereot.ssw(points, target, n_projections=100, seed=key)

    value, gradient = jax.value_and_grad(loss)(points)
    # Each point carries 1 / n of the mass: n times the gradient is its own force.
    return sphereot.sphere.normalize(points - 5.0 * len(points) * gradient), value


def descend(steps: int, n: int = 300) -> tuple[float, float]:
    """SSW_2^2 between the points and the target before and after."""
    for_points, for_target, for_check, for_slices = jax.random.split(jax.random.key(0), 4)
    points = sphereot.sphere.normalize(jax.random.normal(for_points, (n, 3)))
    cluster = 0.3 * jax.random.normal(for_target, (n, 3)) + jnp.asarray([1.0, 0.5, 0.0])
    target = sphereot.sphere.normalize(cluster)
    before = float(sphereot.ssw(points, target, seed=for_check))
    for k, key in enumerate(jax.random.split(for_slices, steps)):
        points, value = step(points, target, key)
        if k % max(1, steps // 10) == 0:
            print(f"step {k:4d}  SSW_2^2 {float(value):.6f}")
    return before, float(sphereot.ssw(points, target, seed=for_check))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="descent steps (default: 200)")
    before, after = descend(parser.parse_args().steps)
    print(f"SSW_2^2 to the target: {before:.6f} before, {after:.6f} after, ratio {after / before:.2g}")


if __name__ == "__main__":
    main()
