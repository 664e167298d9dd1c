"""Variance of the SSW estimate for each way of drawing great circles, relative to independent ones.

    python -m benchmarks.variance [--json out.json] [--dims 3 32] [--projections 64] [--p 2] [--repeats 500]

The two point clouds stay fixed; only the great circles are drawn again. A ratio of 0.25 means that independent circles
need four times as many slices for the same precision. The last column is the ratio averaged over the test problems.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import vonmises_fisher

import sphereot
from benchmarks.timing import machine, write_json

Points = NDArray[np.float64]
N_POINTS = 500


def problems(dim: int) -> Iterator[tuple[str, Points, Points]]:
    """Pairs of point clouds, from easy to rugged."""
    generator = np.random.default_rng(dim)
    concentration = 10.0 if dim == 3 else 2.0 * dim  # Keeps the angle between a point and its mode alike.

    def vmf(mode: Points, concentration: float, n: int) -> Points:
        return np.asarray(vonmises_fisher(mode, concentration).rvs(n, random_state=generator)).reshape(n, dim)

    def uniform(n: int) -> Points:
        gaussian = generator.standard_normal((n, dim))
        return np.asarray(gaussian / np.linalg.norm(gaussian, axis=1, keepdims=True))

    def mixture(n_modes: int) -> Points:
        return np.concatenate([vmf(mode, 2 * concentration, N_POINTS // n_modes) for mode in uniform(n_modes)])

    north, east = np.eye(dim)[:2]
    tilted = np.cos(np.pi / 6) * north + np.sin(np.pi / 6) * east
    yield "vMF, vMF at 30 deg", vmf(north, concentration, N_POINTS), vmf(tilted, concentration, N_POINTS)
    yield "vMF, uniform", vmf(north, concentration, N_POINTS), uniform(N_POINTS)
    yield "5 vMF, 5 vMF", mixture(5), mixture(5)
    yield "10 vMF, uniform", mixture(10), uniform(N_POINTS)


def variance(x: Points, y: Points, p: float, n_projections: int, method: str, repeats: int) -> tuple[float, float]:
    """Variance of the estimate over redrawn great circles, and its relative standard error."""
    values = np.empty(repeats)
    for seed in range(repeats):
        frames = sphereot.great_circles(n_projections, x.shape[1], method=method, seed=seed)
        values[seed] = sphereot.ssw(x, y, p=p, projections=frames)
    squares = (values - values.mean()) ** 2
    return float(values.var(ddof=1)), float(squares.std() / squares.mean() / np.sqrt(repeats))


def measure(dim: int, n_projections: int, p: float, repeats: int) -> Iterator[dict[str, object]]:
    """One row for each problem and method: the ratio of variances and its standard error."""
    for name, x, y in problems(dim):
        reference, reference_error = variance(x, y, p, n_projections, "iid", repeats)
        for method in ("orthogonal", "quasi"):
            value, error = variance(x, y, p, n_projections, method, repeats)
            ratio = value / reference
            yield {
                "dim": dim,
                "n_projections": n_projections,
                "p": p,
                "problem": name,
                "method": method,
                "ratio": ratio,
                "standard_error": ratio * float(np.hypot(error, reference_error)),
            }


def table(rows: list[dict[str, object]]) -> str:
    """Rows of one (dim, n_projections) as text."""
    names = list(dict.fromkeys(str(row["problem"]) for row in rows))
    lines = ["  method      " + "".join(f"{name:>21}" for name in [*names, "mean"])]
    for method in ("orthogonal", "quasi"):
        found = [(float(str(r["ratio"])), float(str(r["standard_error"]))) for r in rows if r["method"] == method]
        ratios, errors = np.array(found).T
        found.append((ratios.mean(), np.sqrt(np.sum(errors**2)) / len(errors)))
        lines.append(f"  {method:<12}" + "".join(f"{f'{ratio:.2g} ± {error:.1g}':>21}" for ratio, error in found))
    return "\n".join(lines)


def main() -> None:
    """Measure and print; write the rows to a file if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--dims", type=int, nargs="+", default=[3, 32], help="dimensions d of the space")
    parser.add_argument("--projections", type=int, nargs="+", default=[64], help="numbers L of great circles")
    parser.add_argument("--p", type=float, default=2.0, help="order of the distance")
    parser.add_argument("--repeats", type=int, default=500, help="draws of the great circles for each variance")
    arguments = parser.parse_args()

    rows = []
    for dim in arguments.dims:
        for n_projections in arguments.projections:
            here = list(measure(dim, n_projections, arguments.p, arguments.repeats))
            print(f"S^{dim - 1} (d = {dim}), L = {n_projections}, p = {arguments.p:g}: Var(method) / Var(iid)")
            print(table(here), flush=True)
            rows += here
    if arguments.json:
        write_json(
            arguments.json, {"machine": machine(), "n_points": N_POINTS, "repeats": arguments.repeats, "rows": rows}
        )


if __name__ == "__main__":
    main()
