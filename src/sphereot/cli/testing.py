"""`sphereot test` and `sphereot uniformity`: two-sample test and test of uniformity for files of points."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sphereot._arrays.validation import as_method
from sphereot._support.text import name_sky, plural, printable, shorten
from sphereot._support.units import finite_or_none
from sphereot.cli.files import (
    REMEDY_GROUPS,
    SKETCH_NOTE,
    any_sketch,
    file_summary,
    load_sketch,
    note_repeated_locations,
    read_files,
    refuse_weights,
    status,
    texts,
)
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
    Unit,
    order_for,
    refuse_for_sketches,
)
from sphereot.cli.show import (
    IMAGE_TYPES,
    command,
    for_reader,
    lengths_for,
    names_missing_extra,
    print_json,
    require_writable,
    two_sample_text,
    uniformity_text,
)

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.stats import TwoSampleResult

_NAMED_COLUMNS = 3
_MAP_ROWS = 120  # so that cells are hardly seen
_MAPPED = 5000  # points of a sample that enter a map
_MAX_NAME = 28  # characters of the name of a file in an image


@command()
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
    lengths = lengths_for(p, x.points.shape[1], unit)
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
            squared_lengths = (result.circles[0].frame ** 2).sum(axis=1)  # of the axes projected on the plane
            leading = [x.columns[k] for k in squared_lengths.argsort()[::-1][:_NAMED_COLUMNS]]
            typer.echo(f"  its plane is mostly that of the columns {', '.join(leading)}")
        typer.echo(f"{file_summary(x)}\n{file_summary(y)}")
        if shown is not None:
            typer.echo(printable(shown))
        return
    record = {
        "statistic": result.statistic,
        **lengths.record(lengths.turns(result.statistic)),
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


@command()
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
        _print_sketch(a, p, unit=unit, as_json=as_json)
        return
    with status("Reading ..."):
        (x,) = read_files([a], reading)
    note_repeated_locations([x], "Keep one row of each group, such as one of each location.")
    lengths = lengths_for(p, x.points.shape[1], unit)
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
        **lengths.record(lengths.turns(result.statistic)),
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


def _print_sketch(path: Path, p: float, *, unit: str | None = None, as_json: bool) -> None:
    """Print the distance of a sketch to the uniform distribution."""
    sketch = load_sketch(path)
    lengths = lengths_for(p, sketch.dim, unit)
    distance = sketch.distance_to_uniform(p=p)
    if as_json:
        record = lengths.record(distance.value)
        record |= {"error_bound": distance.error_bound, "p": p, "points": sketch.n}
        print_json({**record, "n_projections": sketch.n_projections, "bins": sketch.bins, "note": SKETCH_NOTE})
        return
    name = for_reader(f"SSW_{p:g}")
    typer.echo(f"{name} to uniform = {lengths.roots_with_error(distance.value, distance.error_bound)}")
    typer.echo(
        f"{printable(str(path))}: {plural(sketch.n, 'point')}. {SKETCH_NOTE} "
        "A test with a p-value needs the points themselves."
    )


def _print_test(record: dict[str, Any], result: Any, seed: int, *sets: "PointSet") -> None:
    files = [{"path": str(points.path), "points": len(points), "dropped": points.dropped} for points in sets]
    shared = {"p": result.p, "n_projections": result.n_projections, "seed": seed, "dim": result.dim, "files": files}
    print_json({**record, **shared})


# ---- pictures ----


def require_image_name(path: Path) -> None:
    """Raise unless the ending of a file says what to write."""
    if path.suffix.lower() not in (*IMAGE_TYPES, ".html"):
        raise ValueError(f"--map: got {path.name}; give a name that ends in {', '.join(IMAGE_TYPES)} or .html.")


def draw_difference(path: Path, x: "PointSet", y: "PointSet", test: "TwoSampleResult", seed: int) -> str:
    """Write the picture; what it shows in one sentence."""
    from sphereot import plotting

    names = (printable(x.path.stem), printable(y.path.stem))
    # In an image a dollar sign would begin a formula.
    short = tuple(shorten(name, _MAX_NAME).replace("$", r"\$") for name in names)
    is_page = path.suffix.lower() == ".html"
    ax: Any = None
    if test.dim == 3:
        ax, shown = _draw_map(path, x, y, test, seed, names, short)
    elif test.dim == 2:
        if is_page:
            raise ValueError("--map: a page is for points with 3 coordinates or more; give the name of an image.")
        ax = plotting.circle_projections([x.points, y.points], test.circles[0].frame, labels=short)
        shown = "both files on the circle"
    else:
        from sphereot.plotting.difference import plane_scatter
        from sphereot.report.charts import AXIS_NAMES, count_drawn, project_on_plane
        from sphereot.report.drift import plane_page

        if is_page:
            plane_page(path, x.points, y.points, names, test)
        else:
            labels = [f"{name}{count_drawn(len(sample))}" for name, sample in zip(short, (x, y), strict=True)]
            planar, text = project_on_plane(x.points, y.points, test)
            ax = plane_scatter(planar, labels, AXIS_NAMES, text)
        shown = "both files in the plane of the great circles that differ most"
    if ax is not None:
        plotting.save(ax, path.with_suffix(""), formats=(path.suffix[1:].lower(),))
    return f"Map: {path}: {shown}"


def _draw_map(
    path: Path, x: "PointSet", y: "PointSet", test: "TwoSampleResult", seed: int, names: Any, short: Any
) -> tuple[Any, str]:
    """The Axes of a map, or None after a page with a globe was written; and the shares of the regions."""
    from sphereot import plotting
    from sphereot.plotting.coastlines import has_coastlines
    from sphereot.plotting.difference import difference_regions
    from sphereot.report.charts import MAX_POINTS, subsample
    from sphereot.stats import difference_map

    sky = name_sky(x.columns)
    earth = x.lonlat is not None and not sky
    largest = max(len(x), len(y))
    # More points cost time, and change a map of this resolution little.
    samples = [subsample(points.points, _MAPPED, abs(seed)) for points in (x, y)]
    result = difference_map(
        *samples, permutations=min(test.permutations, 499), resolution=_MAP_ROWS, seed=seed, progress=True
    )
    more, less = result.share
    chance = f"beyond chance at level {result.alpha:g}"
    shares = f"{names[0]} is denser on {more:.1%} of the sphere, {names[1]} on {less:.1%}, {chance}"
    if largest > _MAPPED:
        shares += f" (by {_MAPPED} random points of each larger file)"
    if path.suffix.lower() != ".html":
        return plotting.difference_map(result, labels=short, coastlines=earth and has_coastlines(), sky=sky), shares
    outlined = "Lines surround these regions." if result.region.any() else "No region is outlined."
    drawn = f" At most {MAX_POINTS:,} points of each file are drawn." if largest > MAX_POINTS else ""
    plotting.globe_page(
        path,
        density=result.difference,
        points=[subsample(x.points), subsample(y.points)],
        labels=list(names),
        title=f"Where {names[0]} and {names[1]} differ",
        coastlines=None if earth else False,
        density_label=f"density of {names[0]} less that of {names[1]} [1/sr]",
        cmap=plotting.DIFFERENCE_COLORS,
        norm=plotting.difference_norm(result),
        regions=difference_regions(result),
        region_labels=(f"{names[0]} is denser beyond chance", f"{names[1]} is denser beyond chance"),
        note=(
            f"{shares}. {outlined} If both files were samples of one distribution, the probability that any region is "
            f"outlined would be at most {result.alpha:.0%}.{drawn}"
        ),
    )
    return None, shares
