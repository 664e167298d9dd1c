"""Variance of the SSW estimate for each method of drawing great circles, relative to independent ones.

    python -m benchmarks.variance [--json out.json] [--dims 3 32] [--projections 64] [--p 2] [--repeats 500] [--range]
                                  [--sentences out/embeddings]

The two point clouds stay fixed; only the great circles are drawn again. A ratio of 0.25 means that independent circles
need four times as many slices for the same precision. The last column is the ratio averaged over the test problems.
"estimate" is `ssw_estimate` by its default method, with control variates from dimension 5 on.

--sentences compares embeddings of sentences, d = 384, instead: 500 of movie reviews with 500 of product reviews, and
with 500 others of movie reviews. It needs the files that `python -m benchmarks.embeddings` writes into that folder.

With --range there are 15 pairs instead of four. Tight clusters close to each other are among them, which gain nothing:
their variance comes from the few circles whose poles are near the clusters. For each pair it prints how many
independent slices have the variance of L slices, and then the range and the median over the pairs. Rare circles need
many --repeats.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import vonmises_fisher

import sphereot
from benchmarks.timing import machine, write_json

Points = NDArray[np.float64]
Problems = Callable[[int], Iterator[tuple[str, Points, Points]]]
N_POINTS = 500
METHODS = ("orthogonal", "quasi", "estimate")


def problems(dim: int) -> Iterator[tuple[str, Points, Points]]:
    """Pairs of point clouds, from smooth to irregular."""
    generator = np.random.default_rng(dim)
    concentration = 10.0 if dim == 3 else 2.0 * dim  # keeps the angle between a point and its mode about the same

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


def many_problems(dim: int) -> Iterator[tuple[str, Points, Points]]:
    """The four pairs of `problems` and eleven more, of all kinds: spread, ringed, opposite, tight, close, single."""
    yield from problems(dim)
    generator = np.random.default_rng(1000 + dim)
    axes = np.eye(dim)

    def uniform(n: int) -> Points:
        return sphereot.sphere.normalize(generator.standard_normal((n, dim)))

    def cluster(degrees: float, spread: float, n: int = N_POINTS) -> Points:
        """Points around one at this angle from the first axis; the spread is in degrees too."""
        angle = np.radians(degrees)
        center = np.cos(angle) * axes[0] + np.sin(angle) * axes[1]
        return sphereot.sphere.exp(center, np.radians(spread) * generator.standard_normal((n, dim)))

    def ring(height: float) -> Points:
        """Points at one distance from the plane orthogonal to the last axis."""
        flat = uniform(N_POINTS)
        flat[:, -1] = 0
        return np.sqrt(1 - height**2) * sphereot.sphere.normalize(flat) + height * axes[-1]

    def bipolar(spread: float) -> Points:
        return generator.choice([-1.0, 1.0], (N_POINTS, 1)) * cluster(0, spread)

    yield "uniform, uniform", uniform(N_POINTS), uniform(N_POINTS)
    yield "one distribution twice", cluster(0, 20), cluster(0, 20)
    yield "wide, narrow", cluster(0, 40), cluster(0, 15)
    yield "opposite clusters", cluster(0, 10), cluster(180, 10)
    yield "two poles, ring", bipolar(15), ring(0)
    yield "rings at 0 and 30 deg", ring(0), ring(0.5)
    yield "20 points, 20 points", uniform(20), uniform(20)
    yield "one point, one at 40 deg", cluster(0, 0, 1), cluster(40, 0, 1)
    yield "clusters of 3 deg at 10 deg", cluster(0, 3), cluster(10, 3)
    yield "clusters of 2 deg at 5 deg", cluster(0, 2), cluster(5, 2)
    yield "clusters of 1 deg at 2 deg", cluster(0, 1), cluster(2, 1)


def sentences(dim: int, folder: Path) -> Iterator[tuple[str, Points, Points]]:
    """Embeddings of sentences of movie and product reviews."""
    movies, products = (
        sphereot.sphere.normalize(np.load(next(folder.glob(f"{topic}*.npy"))).astype(np.float64))
        for topic in ("movies", "products")
    )
    yield "movies, products", movies[:N_POINTS], products[:N_POINTS]
    yield "movies, other movies", movies[:N_POINTS], movies[N_POINTS : 2 * N_POINTS]


def variance(x: Points, y: Points, p: float, n_projections: int, method: str, repeats: int) -> tuple[float, float]:
    """Variance of the estimate over draws of great circles, and the relative standard error of the variance."""
    values = np.empty(repeats)
    for seed in range(repeats):
        options = {"p": p, "n_projections": n_projections, "seed": seed}
        if method == "estimate":
            values[seed] = sphereot.ssw_estimate(x, y, **options).value
        else:
            values[seed] = sphereot.ssw(x, y, method=method, **options)
    squares = (values - values.mean()) ** 2
    return float(values.var(ddof=1)), float(squares.std() / squares.mean() / np.sqrt(repeats))


def measure(
    dim: int, n_projections: int, p: float, repeats: int, pairs: Problems = problems
) -> Iterator[dict[str, object]]:
    """One row for each problem and method: the ratio of variances and its standard error."""
    for name, x, y in pairs(dim):
        reference, reference_error = variance(x, y, p, n_projections, "iid", repeats)
        for method in METHODS:
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
    for method in METHODS:
        cells = [(float(str(r["ratio"])), float(str(r["standard_error"]))) for r in rows if r["method"] == method]
        ratios, errors = np.array(cells).T
        cells.append((ratios.mean(), np.sqrt(np.sum(errors**2)) / len(errors)))
        lines.append(f"  {method:<12}" + "".join(f"{f'{ratio:.2g} ± {error:.1g}':>21}" for ratio, error in cells))
    return "\n".join(lines)


def worth(rows: list[dict[str, object]]) -> str:
    """Number of independent slices with the variance of L slices, per problem, with minimum, median and maximum."""
    names = list(dict.fromkeys(str(row["problem"]) for row in rows))
    columns = []
    for method in METHODS:
        of_method = [row for row in rows if row["method"] == method]
        ratios, errors = (np.array([float(str(row[key])) for row in of_method]) for key in ("ratio", "standard_error"))
        counts = np.array([float(str(row["n_projections"])) for row in of_method]) / ratios
        columns.append((counts, counts * errors / ratios))
    lines = [f"  {'pair':<30}" + "".join(f"{method:>20}" for method in METHODS)]
    for k, name in enumerate(names):
        cells = (f"{counts[k]:,.0f} ± {errors[k]:,.0f}" for counts, errors in columns)
        lines.append(f"  {name:<30}" + "".join(f"{cell:>20}" for cell in cells))
    for name, of in (("minimum", np.min), ("median", np.median), ("maximum", np.max)):
        lines.append(f"  {name:<30}" + "".join(f"{of(counts):>20,.0f}" for counts, _ in columns))
    return "\n".join(lines)


def main() -> None:
    """Measure and print; write the rows to a file with --json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--dims", type=int, nargs="+", default=[3, 32], help="dimensions d of the space")
    parser.add_argument("--projections", type=int, nargs="+", default=[64], help="numbers L of great circles")
    parser.add_argument("--p", type=float, default=2.0, help="order of the distance")
    parser.add_argument("--repeats", type=int, default=500, help="draws of the great circles for each variance")
    parser.add_argument("--sentences", type=Path, help="folder with embeddings of sentences, compared instead")
    parser.add_argument("--range", action="store_true", help="15 pairs: how many independent slices L are worth")
    arguments = parser.parse_args()

    rows = []
    for dim in arguments.dims if arguments.sentences is None else [384]:
        for n_projections in arguments.projections:
            pairs = many_problems if arguments.range else problems
            if arguments.sentences is not None:
                pairs = partial(sentences, folder=arguments.sentences)
            here = list(measure(dim, n_projections, arguments.p, arguments.repeats, pairs))
            what = "independent slices of the same variance" if arguments.range else "Var(method) / Var(iid)"
            print(f"S^{dim - 1} (d = {dim}), L = {n_projections}, p = {arguments.p:g}: {what}")
            print(worth(here) if arguments.range else table(here), flush=True)
            rows += here
    if arguments.json:
        write_json(
            arguments.json, {"machine": machine(), "n_points": N_POINTS, "repeats": arguments.repeats, "rows": rows}
        )


if __name__ == "__main__":
    main()
