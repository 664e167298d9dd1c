"""`sphereot test` and `sphereot uniformity`: whether two files are alike, and whether one is uniform on the sphere."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereot.cli.errors import reports_errors
from sphereot.cli.options import (
    AsJson,
    FirstFile,
    NoWeights,
    Order,
    Projections,
    ReadOptions,
    SecondFile,
    Seed,
    reads_points,
)
from sphereot.cli.outputs import finite_or_none, print_json
from sphereot.cli.points import label, read_files, refuse_weights, waiting

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.stats import TwoSampleResult

__all__ = ["two_samples", "uniformity"]

_COLUMNS_NAMED = 3


@reports_errors()
@reads_points
def two_samples(
    a: FirstFile,
    b: SecondFile,
    reading: ReadOptions,
    weights: NoWeights = None,
    p: Order = 2.0,
    permutations: Annotated[int, typer.Option("--permutations", help="How many random partings of the points.")] = 999,
    projections: Projections = 200,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Test whether the points of two files come from one law on the sphere.

    A permutation test on the Spherical Sliced-Wasserstein distance. The p-value is exact: if both files are samples of
    one law, it is at most 5% in 5% of all cases. Points that depend on each other break this.

    Two samples of unit vectors: sphereot test a.npy b.npy

    Embeddings, only their directions: sphereot test old.parquet new.parquet --columns embedding --normalize

    Places on the earth, for a script: sphereot test quakes.csv fires.geojson --lonlat --permutations 9999 --json
    """
    from sphereot.stats import two_sample_test

    refuse_weights(weights, "test")
    with waiting("Reading ..."):
        x, y = read_files([a, b], reading)
    found = two_sample_test(
        x.points, y.points, p=p, permutations=permutations, n_projections=projections, seed=seed, progress=True
    )
    if not as_json:
        typer.echo(str(found))
        if len(x.columns) == found.dim and found.circles:
            typer.echo(f"  its plane is mostly that of the columns {', '.join(_leading_columns(found, x.columns))}")
        typer.echo(f"{label(x)}\n{label(y)}")
        return
    record = {
        "statistic": found.statistic,
        "p_value": found.p_value,
        "effect": finite_or_none(found.effect),
        "ratio": finite_or_none(found.ratio),
        "excess": found.excess,
        "circles": [
            {"cost": c.cost, "null_mean": c.null_mean, "effect": finite_or_none(c.effect), "frame": c.frame.tolist()}
            for c in found.circles
        ],
        "permutations": found.permutations,
    }
    _print_test(record, found, seed, x, y)


@reports_errors()
@reads_points
def uniformity(
    a: Annotated[Path, typer.Argument(help="The file.", show_default=False)],
    reading: ReadOptions,
    weights: NoWeights = None,
    p: Order = 2.0,
    simulations: Annotated[int, typer.Option("--simulations", help="How many uniform samples to simulate.")] = 999,
    projections: Projections = 200,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Test whether the points of a file are uniform on the sphere.

    By the Spherical Sliced-Wasserstein distance to the uniform measure, beside the Rayleigh, Bingham and Giné tests.
    All p-values come from simulated uniform samples: of the same size, or of 2000 points if there are more.

    Unit vectors: sphereot uniformity a.npy

    Embeddings: sphereot uniformity vectors.parquet --columns embedding --normalize

    Places on the earth, for a script: sphereot uniformity quakes.csv --lonlat --json
    """
    from sphereot.stats import uniformity_test

    refuse_weights(weights, "uniformity")
    with waiting("Reading ..."):
        (x,) = read_files([a], reading)
    found = uniformity_test(x.points, p=p, simulations=simulations, n_projections=projections, seed=seed, progress=True)
    if not as_json:
        typer.echo(f"{found}\n{label(x)}")
        return
    record = {
        "statistic": found.statistic,
        "p_value": found.p_value,
        "effect": finite_or_none(found.effect),
        "ratio": finite_or_none(found.ratio),
        "classical": {t.name: {"statistic": t.statistic, "p_value": t.p_value} for t in found.classical},
        "simulations": found.simulations,
    }
    _print_test(record, found, seed, x)


def _leading_columns(found: "TwoSampleResult", names: tuple[str, ...]) -> list[str]:
    """The columns whose axes lie closest to the plane of the great circle that differs most."""
    share = (found.circles[0].frame ** 2).sum(axis=1)
    return [names[k] for k in share.argsort()[::-1][:_COLUMNS_NAMED]]


def _print_test(record: dict[str, Any], found: Any, seed: int, *sets: "PointSet") -> None:
    files = [{"path": str(one.path), "points": len(one), "dropped": one.dropped} for one in sets]
    shared = {"p": found.p, "n_projections": found.n_projections, "seed": seed, "dim": found.dim, "files": files}
    print_json({**record, **shared})
