"""How often the 95 % interval of `ssw_estimate` holds the true value, and how wide it is.

    python -m benchmarks.coverage [--json out.json] [--repeats 2000] [--repeats-tight 400]

Two tables. The first has ordinary pairs of samples in dimension 3, 10 and 64 at the default number of great circles.
The second has tight samples close to each other, at 2,000 great circles: clusters of 100 points with spreads and
separations of 0.1 to 0.001 rad in dimension 3, 8 and 64, and cities of Germany and of France if SPHEREOT_DATA is set.
The true value is that of an estimate with many more great circles, whose own standard error is given in percent of
the value.
"""

import argparse
import csv
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sphereot
from benchmarks.timing import machine, write_json
from benchmarks.variance import problems

Points = NDArray[np.float64]
SIZES = (0.1, 0.03, 0.01, 0.001)


def clusters(dim: int, spread: float, separation: float, seed: int, n: int = 100) -> tuple[Points, Points]:
    """Two clusters: the root of the mean squared distance to the center is the spread, in radians."""
    generator = np.random.default_rng(seed)
    axes = np.eye(dim)

    def cluster(center: Points) -> Points:
        noise = generator.standard_normal((n, dim))
        noise -= np.outer(noise @ center, center)
        return np.asarray(sphereot.sphere.exp(center, spread / np.sqrt(dim - 1) * noise))

    return cluster(axes[0]), cluster(np.cos(separation) * axes[0] + np.sin(separation) * axes[1])


def cities(country: str, n: int = 100) -> Points:
    """The first n cities of a country in the file of GeoNames."""
    path = Path(os.environ["SPHEREOT_DATA"]) / "geo" / "cities15000.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [(float(row["lon"]), float(row["lat"])) for row in csv.DictReader(file) if row["country"] == country]
    return np.asarray(sphereot.sphere.from_lonlat(np.array(rows[:n])))


def tight_pairs() -> Iterator[tuple[str, Points, Points]]:
    """Pairs of tight samples with their names."""
    for dim in (3, 8, 64):
        for spread in SIZES:
            for separation in SIZES:
                x, y = clusters(dim, spread, separation, seed=dim)
                yield f"d = {dim}, spread {spread:g}, separation {separation:g}", x, y
    if "SPHEREOT_DATA" in os.environ:
        yield "cities of Germany and France", cities("DE"), cities("FR")


def coverage(x: Points, y: Points, n_projections: int, repeats: int, truth_projections: int) -> dict[str, object]:
    """Share of intervals that hold the true value, and the median relative standard error."""
    truth = sphereot.ssw_estimate(x, y, n_projections=truth_projections, seed=10**6)
    covered, errors, methods, reliable = 0, [], set(), 0
    for seed in range(repeats):
        estimate = sphereot.ssw_estimate(x, y, n_projections=n_projections, seed=seed)
        low, high = estimate.confidence_interval(0.95)
        covered += low <= truth.value <= high
        errors.append(estimate.standard_error / truth.value)
        methods.add(estimate.method)
        reliable += estimate.reliable
    return {
        "n_projections": n_projections,
        "repeats": repeats,
        "method": "/".join(sorted(methods)),
        "coverage": covered / repeats,
        "relative_error": float(np.median(errors)),
        "root_mean_square_error": float(np.sqrt(np.mean(np.square(errors)))),
        "truth_relative_error": truth.standard_error / truth.value,
        "reliable": reliable / repeats,
    }


def main() -> None:
    """Measure and print; write the rows to a file with --json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--repeats", type=int, default=2000, help="estimates for each ordinary pair")
    parser.add_argument("--repeats-tight", type=int, default=400, help="estimates for each tight pair")
    arguments = parser.parse_args()
    ordinary = ((f"d = {dim}, {name}", x, y, 200, 80_000) for dim in (3, 10, 64) for name, x, y in problems(dim))
    tight = ((name, x, y, 2000, 400_000) for name, x, y in tight_pairs())
    rows = []
    print(f"{'pair':<46}{'circles':>8}{'coverage':>10}{'error':>9}{'of truth':>9}  method")
    for repeats, pairs in ((arguments.repeats, ordinary), (arguments.repeats_tight, tight)):
        for name, x, y, count, many in pairs if repeats else ():
            row = {"pair": name, **coverage(x, y, count, repeats, many)}
            rows.append(row)
            print(
                f"{name:<46}{count:>8}{row['coverage']:>10.1%}{row['relative_error']:>9.2%}"
                f"{row['truth_relative_error']:>9.2%}  {row['method']}",
                flush=True,
            )
    if arguments.json:
        write_json(arguments.json, {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
