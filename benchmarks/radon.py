"""Error of the spherical Radon transform with random directions (d = 7 or more), for von Mises-Fisher densities.

    python -m benchmarks.radon [--draws 20] [--directions 2048]

Each draw has its own mean direction, great circle and directions. The error is the largest over 16 turns, relative to
the largest exact value among them, which `projected_von_mises_fisher_density` gives.
"""

import argparse

import numpy as np
from numpy.typing import NDArray

import sphereot
from sphereot.density.components import scaled_log_normalizer
from sphereot.distributions import projected_von_mises_fisher_density
from sphereot.radon import radon_transform

TURNS = np.arange(16) / 16


def error(dim: int, kappa: float, n_directions: int, seed: int) -> float:
    """Largest error of one draw, relative to the peak."""
    generator = np.random.default_rng(seed)
    mean = sphereot.sphere.random_uniform(1, dim, seed=generator)[0]
    frames = sphereot.great_circles(1, dim, seed=generator)

    def density(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(scaled_log_normalizer(dim, kappa) + kappa * (x @ mean - 1))

    transform = radon_transform(density, frames, TURNS, n_directions=n_directions, seed=seed)
    exact = projected_von_mises_fisher_density(TURNS, mean, kappa, frames)
    return float(np.max(np.abs(transform - exact)) / np.max(exact))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20, help="mean directions and great circles for each density")
    parser.add_argument("--directions", type=int, default=2048, help="directions of each transform")
    arguments = parser.parse_args()
    print(f"{'d':>3}{'kappa':>7}{'smallest':>11}{'median':>11}{'largest':>11}")
    for dim in (7, 20):
        for kappa in (1.0, 10.0):
            errors = [error(dim, kappa, arguments.directions, seed) for seed in range(arguments.draws)]
            print(f"{dim:>3}{kappa:>7g}{min(errors):>11.1e}{np.median(errors):>11.1e}{max(errors):>11.1e}", flush=True)


if __name__ == "__main__":
    main()
