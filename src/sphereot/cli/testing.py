"""`sphereot test` and `sphereot uniformity`: two-sample test and test of uniformity for files of points."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sphereot._arrays.validation import as_method
from sphereot._support.text import printable
from sphereot.cli.difference_pictures import draw_difference, require_image_name
from sphereot.cli.errors import names_missing_extra, reports_errors
from sphereot.cli.labels import texts
from sphereot.cli.options import (
    AsJson,
    FirstFile,
    Frames,
    Groups,
    Method,
    NoWeights,
    Order,
    OrderByData,
    Projections,
    ReadOptions,
    Sample,
    SecondFile,
    Seed,
    order_for,
    reads_points,
)
from sphereot.cli.outputs import finite_or_none, print_json, require_writable
from sphereot.cli.points import REMEDY_GROUPS, file_summary, note_repeated_locations, read_files, refuse_weights, status
from sphereot.cli.result_text import two_sample_text, uniformity_text
from sphereot.cli.sketch_distances import any_sketch, print_uniformity, refuse_for_sketches
from sphereot.cli.units import Lengths, Unit, as_unit

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.stats import TwoSampleResult

__all__ = ["two_samples", "uniformity"]

_NAMED_COLUMNS = 3


@reports_errors()
@reads_points
def two_samples(
    a: FirstFile,
    b: SecondFile,
    reading: ReadOptions,
    weights: NoWeights = None,
    p: OrderByData = None,
    permutations: Annotated[
        int, typer.Option("--permutations", help="Number of random permutations of the points.")
    ] = 999,
    projections: Projections = 200,
    method: Method = "quasi",
    groups: Groups = None,
    seed: Seed = 0,
    unit: Unit = None,
    as_json: AsJson = False,
    frames: Frames = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--map",
            help="Also draw where the two differ, as an image or a page (.html): a map or a globe for points on S^2; "
            "in higher dimension, the plane of the great circles that differ most.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Test whether the points of two files come from the same distribution on the sphere.

    A permutation test on the Spherical Sliced-Wasserstein distance. The p-value is exact: if both files are samples of
    one distribution, it is at most 5% in 5% of all cases. Points must be independent, or --groups must say which belong
    together.

    Two samples of unit vectors: sphereot test a.npy b.npy

    Directions of embeddings: sphereot test old.parquet new.parquet --columns embedding --normalize

    Where do they differ? sphereot test quakes.csv fires.geojson --lonlat --map difference.png

    Locations on the earth, in kilometers: sphereot test quakes.csv 'fires/*.csv.gz' --lonlat --unit km

    Measurements of stations: sphereot test 2024.csv 2025.csv --lonlat --groups station

    For a script: sphereot test quakes.csv fires.geojson --lonlat --permutations 9999 --json
    """
    from sphereot.stats import two_sample_test

    refuse_weights(weights, "test")
    p = order_for(p, reading)
    if picture is not None:
        require_image_name(picture)
        require_writable("--map", [picture], [a, b])
        with names_missing_extra("plot"):  # before the work, not after it
            import matplotlib  # noqa: F401
    with status("Reading ..."):
        x, y = read_files([a, b], reading, labels=() if groups is None else (groups,))
    lengths = Lengths(p, x.points.shape[1], as_unit(unit, x.points.shape[1]))
    if groups is None:
        note_repeated_locations([x, y], REMEDY_GROUPS)
    result = two_sample_test(
        x.points,
        y.points,
        p=p,
        permutations=permutations,
        groups=None if groups is None else (texts(x, groups), texts(y, groups)),
        n_projections=projections,
        method=as_method(method),
        seed=seed,
        progress=True,
    )
    shown = None if picture is None else draw_difference(picture, x, y, result, seed)
    if not as_json:
        typer.echo(two_sample_text(result, lengths))
        if len(x.columns) == result.dim and result.circles:
            typer.echo(f"  its plane is mostly that of the columns {', '.join(_leading_columns(result, x.columns))}")
        typer.echo(f"{file_summary(x)}\n{file_summary(y)}")
        if shown is not None:
            typer.echo(printable(shown))
        return
    record = {
        "statistic": result.statistic,
        **lengths.record(result.statistic),
        "p_value": result.p_value,
        "effect": finite_or_none(result.effect),
        "ratio": finite_or_none(result.ratio),
        "excess": result.excess,
        "circles": [
            {"cost": c.cost, "null_mean": c.null_mean, "effect": finite_or_none(c.effect)}
            | ({"frame": c.frame.tolist()} if frames else {})
            for c in result.circles
        ],
        "permutations": result.permutations,
        "n_groups": result.n_groups,
    }
    if picture is not None:
        record["map"] = str(picture)
    _print_test(record, result, seed, x, y)


@reports_errors()
@reads_points
def uniformity(
    context: typer.Context,
    a: Sample,
    reading: ReadOptions,
    weights: NoWeights = None,
    p: Order = 2.0,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="exact: the mean over all great circles, for p = 2; or how circles are drawn: iid, orthogonal, quasi.",
            show_default="exact for p = 2, without --projections; else quasi",
        ),
    ] = None,
    null: Annotated[
        str | None,
        typer.Option(
            "--null",
            help="Null distribution: asymptotic, for the exact method, or simulated.",
            show_default="asymptotic for the exact method and at least 10 points",
        ),
    ] = None,
    simulations: Annotated[
        int | None,
        typer.Option(
            "--simulations",
            help="Number of uniform samples to simulate; implies --null simulated.",
            show_default="999 where samples are simulated",
        ),
    ] = None,
    projections: Annotated[
        int | None,
        typer.Option(
            "--projections",
            help="Number of great circles; implies --method quasi.",
            show_default="200 where circles are drawn",
        ),
    ] = None,
    seed: Seed = 0,
    unit: Unit = None,
    as_json: AsJson = False,
) -> None:
    """Test whether the points of a file are uniform on the sphere.

    A test on the Spherical Sliced-Wasserstein distance to the uniform distribution, with the Rayleigh, Bingham and Giné
    tests of the same points. For p = 2 it takes the mean over all great circles, and p-values need no simulation from
    10 points on. Otherwise they come from simulated uniform samples of the same size, but of at most 2000 points.

    Unit vectors: sphereot uniformity a.npy

    Embeddings: sphereot uniformity vectors.parquet --columns embedding --normalize

    Locations on the earth, for a script: sphereot uniformity quakes.csv --lonlat --json
    """
    from sphereot.stats import uniformity_test

    refuse_weights(weights, "uniformity")
    if any_sketch([a]):
        refuse_for_sketches(context, reading, "method", "null", "simulations", "projections", "seed")
        print_uniformity(a, reading, p, unit=unit, as_json=as_json)
        return
    with status("Reading ..."):
        (x,) = read_files([a], reading)
    note_repeated_locations([x], "Keep one row of each group, such as one of each location.")
    lengths = Lengths(p, x.points.shape[1], as_unit(unit, x.points.shape[1]))
    result = uniformity_test(
        x.points,
        p=p,
        method=None if method is None else as_method(method, also=("exact",)),
        null=cast(Any, null),
        simulations=simulations,
        n_projections=projections,
        seed=seed,
        progress=True,
    )
    if not as_json:
        typer.echo(f"{uniformity_text(result, lengths)}\n{file_summary(x)}")
        return
    record = {
        "statistic": result.statistic,
        **lengths.record(result.statistic),
        "p_value": result.p_value,
        "effect": finite_or_none(result.effect),
        "ratio": finite_or_none(result.ratio),
        "classical": {t.name: {"statistic": t.statistic, "p_value": t.p_value} for t in result.classical},
        "method": result.method,
        "null_method": result.null_method,
        "standard_error": result.standard_error,
        "simulations": result.simulations,
    }
    _print_test(record, result, seed, x)


def _leading_columns(result: "TwoSampleResult", names: tuple[str, ...]) -> list[str]:
    """The columns whose axes are closest to the plane of the great circle that differs most."""
    squared_lengths = (result.circles[0].frame ** 2).sum(axis=1)  # of the axes projected on the plane
    return [names[k] for k in squared_lengths.argsort()[::-1][:_NAMED_COLUMNS]]


def _print_test(record: dict[str, Any], result: Any, seed: int, *sets: "PointSet") -> None:
    files = [{"path": str(points.path), "points": len(points), "dropped": points.dropped} for points in sets]
    shared = {"p": result.p, "n_projections": result.n_projections, "seed": seed, "dim": result.dim, "files": files}
    print_json({**record, **shared})
