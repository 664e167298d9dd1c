"""`sphereot test` and `sphereot uniformity`: two-sample test and test of uniformity for samples in files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sphereot._arrays.validation import as_method
from sphereot._support.text import cost_unit, name_sky, plural, printable, shorten
from sphereot._support.units import Lengths
from sphereot.cli import files as reader
from sphereot.cli import options as opt
from sphereot.cli import show

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.stats import TwoSampleResult

_NAMED_COLUMNS = 3
_MAP_ROWS = 120
_MAPPED = 5000  # points of a sample for a map: more change it little
_MAX_NAME = 28  # characters of the name of a file in an image


@show.command()
def two_samples(
    a: opt.FirstFile,
    b: opt.SecondFile,
    reading: opt.UnweightedReadOptions,
    statistic: opt.Statistic = "combined",
    p: opt.OrderShown = None,
    permutations: Annotated[int, typer.Option(help="Number of random permutations of the points.")] = 999,
    projections: opt.Projections = 200,
    method: opt.Method = "quasi",
    groups: opt.Groups = None,
    seed: opt.Seed = 0,
    unit: opt.Unit = None,
    as_json: opt.AsJson = False,
    frames: opt.Frames = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--map",
            help="Draw where the samples differ, as an image or an interactive page (.html): a map or a globe on S^2, "
            "and the plane of the great circles that differ most in higher dimensions.",
        ),
    ] = None,
) -> None:
    """Test whether two samples come from the same distribution.

    This is a permutation test of the Spherical Sliced-Wasserstein distances SSW_1 and SSW_2, and of a statistic of axes
    and bands, with one p-value. A small p-value means that the distributions differ: if they are equal, it is at most
    0.05 in 5% of all cases. The output also shows which of the statistics has the strongest evidence, and the expected
    distance if the distributions are equal.

    The points must be independent. If rows belong together, such as the measurements of a station, name the column
    that identifies them with --groups.

    Compare two samples of unit vectors:
        sphereot test a.npy b.npy

    Compare locations on the Earth, and draw a map of the difference:
        sphereot test quakes.csv fires.geojson --lonlat --map difference.png

    Permute whole stations:
        sphereot test 2024.csv 2025.csv --lonlat --groups station

    Get a smaller p-value, with JSON output for a script:
        sphereot test a.npy b.npy --permutations 9999 --json
    """
    from sphereot.stats import two_sample_test

    if statistic == "ssw":
        p = opt.order_for(p, reading)
    if picture is not None:
        if picture.suffix.lower() not in (*show.IMAGE_TYPES, ".html"):
            raise ValueError(
                f"--map must have the extension {', '.join(show.IMAGE_TYPES)} or .html, got {picture.name}."
            )
        show.require_writable("--map", [picture], [a, b])
        from sphereot import plotting  # noqa: F401  (an error here, before the work, if a package is missing)
    x, y = reader.read_files([a, b], reading, labels=() if groups is None else (groups,))
    show.lengths_for(1, x.points.shape[1], unit)  # an error here, before the work, if the unit does not fit
    result = two_sample_test(
        x.points,
        y.points,
        statistic=cast(Any, statistic),
        p=p,
        permutations=permutations,
        groups=None if groups is None else (reader.read_labels(x, groups), reader.read_labels(y, groups)),
        n_projections=projections,
        method=as_method(method),
        seed=seed,
        progress=True,
    )
    lengths = show.lengths_for(result.p, result.dim, unit)
    shown = None if picture is None else draw_difference(picture, x, y, result, seed)
    if as_json:
        record = result.as_record()
        if frames:
            for circle, fields in zip(result.circles, record["circles"], strict=True):
                fields["frame"] = circle.frame.tolist()
        if picture is not None:
            record["map"] = str(picture)
        _print_test(record, lengths, seed, [x, y])
        return
    typer.echo(show.two_sample_text(result, lengths))
    if len(x.columns) == result.dim and result.circles:
        squared_lengths = (result.circles[0].frame ** 2).sum(axis=1)  # of the axes projected on the plane
        leading = [x.columns[k] for k in squared_lengths.argsort()[::-1][:_NAMED_COLUMNS]]
        typer.echo(f"  columns with the largest part in this great circle: {', '.join(leading)}")
    typer.echo(f"{reader.file_summary(x)}\n{reader.file_summary(y)}")
    if shown is not None:
        typer.echo(printable(shown))


@show.command()
def uniformity(
    context: typer.Context,
    a: opt.Sample,
    reading: opt.UnweightedReadOptions,
    statistic: Annotated[
        str,
        typer.Option(
            help="combined: SSW and its even part, which detects axes and bands, in one p-value. ssw: SSW only."
        ),
    ] = "combined",
    p: opt.Order = 2.0,
    method: Annotated[
        str | None,
        typer.Option(
            help="exact: average over all great circles, for p = 2. "
            "quasi, orthogonal or iid: draw great circles in this way.",
            show_default="exact for p = 2 without --projections, otherwise quasi",
        ),
    ] = None,
    null: Annotated[
        str | None,
        typer.Option(
            help="Null distribution: asymptotic (for the exact method) or simulated.",
            show_default="asymptotic for the exact method and at least 10 points",
        ),
    ] = None,
    simulations: Annotated[
        int | None,
        typer.Option(help="Number of uniform samples to simulate. Implies --null simulated.", show_default="999"),
    ] = None,
    projections: Annotated[
        int | None, typer.Option(help="Number of great circles. Implies --method quasi.", show_default="200")
    ] = None,
    seed: opt.Seed = 0,
    unit: opt.Unit = None,
    as_json: opt.AsJson = False,
) -> None:
    """Test whether a sample is uniform on the sphere.

    The test statistics are the Spherical Sliced-Wasserstein distance to the uniform distribution, and its even part,
    which detects axes and bands. A small combined p-value means that the distribution is not uniform. The output also
    shows the Rayleigh, Bingham and Giné tests of the same points.

    For p = 2 and 10 points or more, the p-value is computed from a formula. In all other cases, it is computed from
    simulated uniform samples of the same size, up to 2000 points.

    Test unit vectors:
        sphereot uniformity a.npy

    Test embeddings:
        sphereot uniformity vectors.parquet --columns embedding --normalize

    Test locations on the Earth, with JSON output for a script:
        sphereot uniformity quakes.csv --lonlat --json
    """
    from sphereot.stats import uniformity_test

    if reader.any_sketch([a]):
        opt.refuse_for_sketches(context, reading, "statistic", "method", "null", "simulations", "projections", "seed")
        sketch = reader.load_sketch(a)
        lengths, distance = show.lengths_for(p, sketch.dim, unit), sketch.distance_to_uniform(p=p)
        if as_json:
            sizes = {"points": sketch.n, "n_projections": sketch.n_projections, "bins": sketch.bins}
            error = {"error_bound": distance.error_bound, "p": p}
            show.print_json({**lengths.record(distance.value), **error, **sizes, "note": reader.SKETCH_NOTE})
            return
        name = show.for_reader(f"SSW_{p:g}")
        typer.echo(f"{name} to uniform = {lengths.roots_with_error(distance.value, distance.error_bound)}")
        typer.echo(f"{printable(str(a))}: {plural(sketch.n, 'point')}. {reader.SKETCH_NOTE}")
        typer.echo("A test with a p-value needs the data file, not a sketch.")
        return
    (x,) = reader.read_files([a], reading)
    lengths = show.lengths_for(p, x.points.shape[1], unit)
    result = uniformity_test(
        x.points,
        statistic=cast(Any, statistic),
        p=p,
        method=None if method is None else as_method(method, also=("exact",)),
        null=cast(Any, null),
        simulations=simulations,
        n_projections=projections,
        seed=seed,
        progress=True,
    )
    if as_json:
        _print_test(result.as_record(), lengths, seed, [x])
        return
    roots = f"SSW_{p:g} = {lengths.roots(lengths.turns(result.statistic))}"
    text = f"{result}\n  {lengths.name} of the table is in {cost_unit(p)}; {roots}\n  {lengths.meaning}"
    typer.echo(f"{show.for_reader(text)}\n{reader.file_summary(x)}")


def _print_test(record: dict[str, Any], lengths: Lengths, seed: int, sets: "Sequence[PointSet]") -> None:
    """Print the record of a test as JSON, with its distance in units, the seed and the files."""
    files = [{"path": str(points.path), "points": len(points), "dropped": points.dropped} for points in sets]
    show.print_json({**record, **lengths.record(lengths.turns(record["statistic"])), "seed": seed, "files": files})


# ---- pictures ----


def draw_difference(path: Path, x: "PointSet", y: "PointSet", test: "TwoSampleResult", seed: int) -> str:
    """Draw where two samples differ, as an image or a page, and describe it in one line."""
    from sphereot.plotting import save

    names = (printable(x.path.stem), printable(y.path.stem))
    first, second = (shorten(name, _MAX_NAME).replace("$", r"\$") for name in names)  # "$" would start a formula
    is_page = path.suffix.lower() == ".html"
    ax: Any = None
    if test.dim == 3:
        ax, shown = _draw_map(path, x, y, test, seed, (first, second))
    elif test.dim == 2:
        from sphereot.plotting import circle_projections

        if is_page:
            raise ValueError("--map: a page needs points with 3 coordinates or more. Give the name of an image.")
        ax = circle_projections([x.points, y.points], test.circles[0].frame, labels=(first, second))
        shown = "both files on the circle"
    else:
        from sphereot.plotting import difference
        from sphereot.report.charts import AXIS_NAMES, count_drawn, project_on_plane
        from sphereot.report.drift import plane_page

        if is_page:
            plane_page(path, x.points, y.points, names, test)
        else:
            labels = [f"{first}{count_drawn(len(x))}", f"{second}{count_drawn(len(y))}"]
            planar, text = project_on_plane(x.points, y.points, test)
            ax = difference.plane_scatter(planar, labels, AXIS_NAMES, text)
        shown = "both files in the plane of the great circles that differ most"
    if ax is not None:
        save(ax, path)
    return f"Map: {path}: {shown}"


def _draw_map(
    path: Path, x: "PointSet", y: "PointSet", test: "TwoSampleResult", seed: int, labels: tuple[str, str]
) -> tuple[Any, str]:
    """Draw a map and return its Axes, or write a page with a globe and return None; also describe the regions."""
    from sphereot.plotting import difference, globe
    from sphereot.plotting.coastlines import has_coastlines
    from sphereot.report.charts import MAX_POINTS, subsample
    from sphereot.stats import difference_map

    names = (printable(x.path.stem), printable(y.path.stem))
    sky = name_sky(x.columns)
    earth = x.lonlat is not None and not sky
    largest = max(len(x), len(y))
    samples = [subsample(points.points, _MAPPED, abs(seed)) for points in (x, y)]
    result = difference_map(
        *samples, permutations=min(test.permutations, 499), resolution=_MAP_ROWS, seed=seed, progress=True
    )
    more, less = result.share
    random = f", {_MAPPED} random points of each larger file" if largest > _MAPPED else ""
    shares = (
        f"{names[0]} is significantly denser on {more:.1%} of the sphere, {names[1]} on {less:.1%} "
        f"(alpha = {result.alpha:g}{random})"
    )
    if path.suffix.lower() != ".html":
        ax = difference.difference_map(result, labels=labels, coastlines=earth and has_coastlines(), sky=sky)
        return ax, shares
    outlined = "Lines surround these regions." if result.region.any() else "No region is outlined."
    drawn = f" At most {MAX_POINTS:,} points of each file are drawn." if largest > MAX_POINTS else ""
    globe.globe_page(
        path,
        density=result.difference,
        points=[subsample(x.points), subsample(y.points)],
        labels=list(names),
        title=f"Where {names[0]} and {names[1]} differ",
        coastlines=None if earth else False,
        density_label=f"density of {names[0]} minus density of {names[1]} [1/sr]",
        cmap=difference.DIFFERENCE_COLORS,
        norm=difference.difference_norm(result),
        regions=difference.difference_regions(result),
        region_labels=(f"{names[0]} is significantly denser", f"{names[1]} is significantly denser"),
        note=(
            f"{shares}. {outlined} If both files had the same distribution, the probability that any region is "
            f"outlined would be at most {result.alpha:.0%}.{drawn}"
        ),
    )
    return None, shares
