"""The test of uniformity without slices: level, power, critical values, and its statistic compared with great circles.

    python -m benchmarks.uniformity [levels] [power] [watson] [circles] [errors] [large] [--json out.json]

Levels are shares of uniform samples with p <= 5 % and 1 %, of the exact statistic with its asymptotic null distribution
and of the classical tests. Power is that of `benchmarks.power`, on the same data sets.
"""

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import sphereot
from benchmarks.power import Row, markdown, one_sample, uniform
from benchmarks.timing import machine, sphere_sample, write_json
from sphereot.stats import uniformity_test
from sphereot.stats._uniformity_null import null_distribution
from sphereot.stats._uniformity_statistics import estimate_by_blocks, estimate_by_circles

SAMPLES = 4000
LEVELS = (0.05, 0.01)


def levels() -> list[Row]:
    """Percent of 4,000 uniform samples that are found significant; the bounds are 3 binomial standard errors."""
    bounds = ", ".join(f"{100 * level:g} +- {300 * math.sqrt(level * (1 - level) / SAMPLES):.2f}" for level in LEVELS)
    print(f"\nLevels over {SAMPLES} uniform samples, in percent; bounds {bounds}\n")
    rows: list[Row] = []
    for n in (10, 50, 1000):
        for dim in (2, 3, 10, 128):
            rng = np.random.default_rng([n, dim])
            sampler, p_values = uniform(dim), []
            for _ in range(SAMPLES):
                result = uniformity_test(sampler(rng, n))
                tests = (*result.components, *result.classical)
                p_values.append([result.p_value, *(test.p_value for test in tests)])
            shares = [100 * np.mean(np.array(p_values) <= level, axis=0) for level in LEVELS]
            names = ("combined", "SSW_2", "even part", "Rayleigh", "Bingham", "Giné")
            cells = {name: f"{five:.1f}, {one:.2f}" for name, five, one in zip(names, *shares, strict=True)}
            rows.append({"n": n, "d": dim, **cells})
            print(markdown(rows[-1:], header=len(rows) == 1), flush=True)
    return rows


def power() -> list[Row]:
    """Percent of 400 data sets with p <= 5 %, of the exact statistic and of 100 circles with simulated samples."""
    print("\nPower, percent of 400 data sets of 100 points with p <= 5 %\n")
    return one_sample(400)


def watson() -> list[Row]:
    """Critical values of Watson's U^2: ours, and those of Stephens' published modification for n points."""
    published = {0.1: 0.152, 0.05: 0.187, 0.025: 0.221, 0.01: 0.267}
    print("\nCritical values of n SSW_2^2 on the circle, ours / published (Stephens, 1970)\n")
    rows: list[Row] = []
    for n in (10, 20, 50, 1000):
        row: Row = {"n": n}
        for level, value in published.items():
            theirs = value / (1 + 0.8 / n) + 0.1 / n - 0.1 / n**2
            row[f"{100 * level:g} %"] = f"{null_distribution(n, 2).quantile(level):.4f} / {theirs:.4f}"
        rows.append(row)
    print(markdown(rows))
    return rows


def circles() -> list[Row]:
    """The exact value compared with the mean over 10^6 independent great circles, in units of its standard error."""
    print("\nSSW_2^2 compared with the mean over 1,000,000 great circles\n")
    rng = np.random.default_rng(0)
    cities = sphereot.sphere.from_lonlat(*np.array(_CITIES).T)
    samples = {
        "cities": cities,
        "clusters": sphereot.sphere.normalize(rng.normal(size=(40, 8)) + 2 * np.eye(8)[rng.integers(3, size=40)]),
        "uniform": sphere_sample(rng, 30, 64, np.float64),
    }
    rows: list[Row] = []
    for name, x in samples.items():
        costs = np.concatenate([_slice_costs(x, rng) for _ in range(100)])
        exact, error = float(sphereot.ssw_uniform(x, method="exact")), costs.std() / math.sqrt(len(costs))
        rows.append(
            {
                "sample": f"{name}, {x.shape[0]} x {x.shape[1]}",
                "exact": f"{exact:.8f}",
                "circles": f"{costs.mean():.8f}",
                "standard errors": float((costs.mean() - exact) / error),
            }
        )
    print(markdown(rows))
    return rows


def _slice_costs(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    turns = sphereot.project(x, sphereot.great_circles(10_000, x.shape[1], seed=rng))
    return np.asarray(sphereot.circle.wasserstein_uniform(turns))


def errors() -> list[Row]:
    """Root mean square error of the two estimates for many points, over the null's standard deviation."""
    n, repeats = 6000, 8
    print(f"\nError of {repeats} estimates for {n} uniform points over the null's standard deviation\n")
    rng, rows = np.random.default_rng(0), []
    for dim in (3, 10, 64, 128, 768):
        x = sphere_sample(rng, n, dim, np.float64)
        exact = float(sphereot.ssw_uniform(x, method="exact"))
        deviation = math.sqrt(null_distribution(n, dim).variance) / n
        row: Row = {"d": dim}
        for name, estimate in (
            ("great circles", estimate_by_circles),
            ("harmonics and blocks", estimate_by_blocks),
        ):
            squares = [(estimate(x, rng).value - exact) ** 2 for _ in range(repeats)]
            row[name] = f"{math.sqrt(np.mean(squares)) / deviation:.2g}"
        rows.append(row)
    print(markdown(rows))
    return rows


def large() -> list[Row]:
    """Time and standard error of the statistic for many points."""
    print("\nMany points\n")
    rows: list[Row] = []
    for n, dim in ((20_000, 3), (20_000, 128), (100_000, 3), (1_000_000, 3), (1_000_000, 10), (1_000_000, 128)):
        x = np.random.default_rng(0).standard_normal((n, dim), dtype=np.float32)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        start = time.perf_counter()
        result = uniformity_test(x, seed=0)
        seconds = time.perf_counter() - start
        share = 100 * result.standard_error / result.null_deviation
        rows.append({"n": n, "d": dim, "seconds": seconds, "error, % of the null's deviation": share})
        print(markdown(rows[-1:], header=len(rows) == 1), flush=True)
    return rows


# Longitude and latitude of large cities.
_CITIES = [
    (139.7, 35.7), (77.2, 28.6), (121.5, 31.2), (90.4, 23.8), (-46.6, -23.5), (-99.1, 19.4), (31.2, 30.0),
    (116.4, 39.9), (72.9, 19.1), (135.5, 34.7), (67.0, 24.9), (106.6, 29.6), (29.0, 41.0), (88.4, 22.6),
    (15.3, -4.3), (3.4, 6.5), (121.0, 14.6), (-43.2, -22.9), (113.3, 23.1), (-74.0, 40.7), (-58.4, -34.6),
    (37.6, 55.8), (114.1, 22.5), (77.6, 13.0), (2.4, 48.9), (-74.1, 4.7), (106.8, -6.2), (80.3, 13.1),
    (-77.0, -12.0), (100.5, 13.8), (-0.1, 51.5), (151.2, -33.9),
]  # fmt: skip

PARTS: dict[str, Callable[[], list[Row]]] = {
    "levels": levels,
    "power": power,
    "watson": watson,
    "circles": circles,
    "errors": errors,
    "large": large,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(PARTS)} (default: all)")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    rows = {name: PARTS[name]() for name in arguments.parts or PARTS}
    if arguments.json:
        write_json(arguments.json, {"machine": machine(), **rows})


if __name__ == "__main__":
    main()
