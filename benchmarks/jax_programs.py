"""Time of SSW in compiled JAX programs on a CPU: by the kernel, and by `jax.numpy` in its place.

python -m benchmarks.jax_programs
"""

import argparse
import json
import os
import subprocess
import sys

import numpy as np

import sphereot
from benchmarks.timing import best_of, machine, sphere_sample

SIZES = ((64, 50), (500, 200), (10_000, 200))  # points of each sample, great circles


def measure(n: int, n_projections: int) -> list[float]:
    """Milliseconds of SSW_2^2, and of value and gradient, in JAX; and of the value on NumPy arrays."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x, y = sphere_sample(rng, n), sphere_sample(rng, n)
    frames = sphereot.great_circles(n_projections, 3, seed=0, like=x)
    points, others, circles = jnp.asarray(x), jnp.asarray(y), jnp.asarray(frames)

    def loss(points: jax.Array) -> jax.Array:
        return sphereot.ssw(points, others, projections=circles)

    value, gradient = jax.jit(loss), jax.jit(jax.value_and_grad(loss))
    works = (
        lambda: value(points).block_until_ready(),
        lambda: jax.block_until_ready(gradient(points)),
        lambda: sphereot.ssw(x, y, projections=frames),
    )
    for work in works:
        work()  # compiles
    return [1000 * seconds for seconds in best_of(*works)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().worker:
        print(json.dumps([measure(*size) for size in SIZES]))
        return
    command = [sys.executable, "-m", "benchmarks.jax_programs", "--worker"]
    times = []
    for kernel in ("auto", "off"):
        environment = os.environ | {"SPHEREOT_KERNEL": kernel, "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        times.append(json.loads(done.stdout))
    print(machine())
    print("milliseconds: value / value and gradient in the points; float32, S^2, p = 2, compiled")
    print(f"{'n = m, slices':<16}{'kernel':>20}{'jax.numpy':>20}{'kernel, NumPy':>16}")
    for (n, count), native, portable in zip(SIZES, *times, strict=True):
        cells = [f"{value:.3g} / {both:.3g}" for value, both, _ in (native, portable)]
        print(f"{f'{n:,}, {count}':<16}{cells[0]:>20}{cells[1]:>20}{native[2]:>16.3g}")


if __name__ == "__main__":
    main()
