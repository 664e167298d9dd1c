"""How often the 95 % interval of `ssw_estimate` holds the true value, and how wide it is.

    python -m benchmarks.coverage [--json out.json] [--repeats 2000] [--repeats-tight 400] [--repeats-near 300]

Three tables. The first has ordinary pairs of samples in dimension 3, 10 and 64 at the default number of great circles.
The second has tight samples close to each other, at 2,000 great circles: clusters of 100 points with spreads and
separations of 0.1 to 0.001 rad in dimension 3, 8 and 64, and cities of Germany and of France if SPHEREOT_DATA is set.
The third has pairs of samples whose points nearly coincide, at the default number of great circles. The true value
comes from an estimate with many more great circles. Its standard error is given in percent of the value.
"""

import argparse
import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def near_pairs() -> Iterator[tuple[str, Points, Points, dict[str, object]]]:
    """Pairs whose points nearly coincide, or lie near each other at several scales; with options of `ssw_estimate`."""
    generator = np.random.default_rng(2026)

    def sample(n: int, dim: int) -> Points:
        return np.asarray(sphereot.sphere.normalize(generator.standard_normal((n, dim))))

    def moved(x: Points, size: float | Points) -> Points:
        return np.asarray(sphereot.sphere.normalize(x + size * generator.standard_normal(x.shape)))

    for dim, n in ((3, 40), (20, 25), (100, 30), (300, 40)):
        x = sample(n, dim)
        yield f"d = {dim}, all points moved by 1e-3", x, moved(x, 1e-3), {}
    x = sample(300, 3)
    yield "d = 3, 300 points moved by 1e-4", x, moved(x, 1e-4), {}
    x = sample(50, 10)
    yield "d = 10, 5 of 50 points moved by 1e-3", x, moved(x, 1e-3 * (np.arange(50) < 5)[:, None]), {}
    for p in (1, 2):
        x, y = clusters(3, 0.005 * 2**0.5, np.radians(1.1), seed=5, n=60)
        yield f"d = 3, two tight clusters, p = {p}", x, y, {"p": p}

    # The pairs below were chosen before the method was written.
    for dim, n in ((3, 60), (20, 50), (300, 50)):
        x, plane = sample(n, dim), np.linalg.qr(generator.standard_normal((dim, 2)))[0]
        turn = 2e-3 * (np.outer(plane[:, 0], plane[:, 1]) - np.outer(plane[:, 1], plane[:, 0]))
        yield f"d = {dim}, a rotation by 2e-3", x, np.asarray(sphereot.sphere.normalize(x + x @ turn)), {}
    x = np.repeat(sample(20, 3), 5, axis=0)
    yield "d = 3, 5 copies of 20 points, moved by 1e-4", x, moved(x, 1e-4), {}
    x = sample(80, 5)
    yield "d = 5, 3 outliers among 80 points", x, np.concatenate([sample(3, 5), x[3:]]), {}
    x = sample(1, 8)
    yield "d = 8, one point and a cluster", x, moved(np.repeat(x, 50, axis=0), 0.02), {}
    x = sample(50, 3)
    yield "d = 3, moved by 1e-3, p = 1", x, moved(x, 1e-3), {"p": 1}
    x = sample(50, 6)
    yield "d = 6, moved by 1e-3, p = 3", x, moved(x, 1e-3), {"p": 3}
    x, weights = sample(50, 4), generator.exponential(size=50)
    yield "d = 4, moved by 1e-3, weights", x, moved(x, 1e-3), {"x_weights": weights, "y_weights": weights}
    x = sample(60, 10)
    yield "d = 10, moved by 1e-2 or 1e-5", x, moved(x, np.where(np.arange(60) < 30, 1e-2, 1e-5)[:, None]), {}
    x = sample(30, 3)
    yield "d = 3, 30 points and 60 near them", x, moved(np.repeat(x, 2, axis=0), 1e-3), {}
    x = np.repeat(sample(12, 16), 8, axis=0)
    yield "d = 16, 12 clusters of 8 points, moved by 1e-4", moved(x, 1e-4), moved(x, 1e-4), {}
    for dim, p, size in ((6, 1, 1e-5), (4, 1, 1e-5), (100, 1, 1e-5), (3, 1.3, 1e-2)):
        x = sample(40, dim)
        yield f"d = {dim}, moved by {size:g}, p = {p}", x, moved(x, size), {"p": p}


def coverage(
    x: Points, y: Points, n_projections: int, repeats: int, truth_projections: int, **options: Any
) -> dict[str, object]:
    """Share of intervals that hold the true value, and the median relative standard error."""
    truth = sphereot.ssw_estimate(x, y, n_projections=truth_projections, seed=10**6, **options)
    covered, errors, methods, reliable = 0, [], set(), 0
    for seed in range(repeats):
        estimate = sphereot.ssw_estimate(x, y, n_projections=n_projections, seed=seed, **options)
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
    parser.add_argument("--repeats-near", type=int, default=300, help="estimates for each nearly equal pair")
    arguments = parser.parse_args()
    ordinary = ((f"d = {dim}, {name}", x, y, 200, 80_000, {}) for dim in (3, 10, 64) for name, x, y in problems(dim))
    tight = ((name, x, y, 2000, 400_000, {}) for name, x, y in tight_pairs())
    near = ((name, x, y, 200, 40_000, options) for name, x, y, options in near_pairs())
    rows = []
    print(f"{'pair':<46}{'circles':>8}{'coverage':>10}{'error':>9}{'of truth':>9}{'reliable':>9}  method")
    tables = ((arguments.repeats, ordinary), (arguments.repeats_tight, tight), (arguments.repeats_near, near))
    for repeats, pairs in tables:
        for name, x, y, count, many, options in pairs if repeats else ():
            row = {"pair": name, **coverage(x, y, count, repeats, many, **options)}
            rows.append(row)
            print(
                f"{name:<46}{count:>8}{row['coverage']:>10.1%}{row['relative_error']:>9.2%}"
                f"{row['truth_relative_error']:>9.2%}{row['reliable']:>9.0%}  {row['method']}",
                flush=True,
            )
    if arguments.json:
        write_json(arguments.json, {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
