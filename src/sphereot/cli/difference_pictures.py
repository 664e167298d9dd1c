"""Pictures of a two-sample test: a map of the difference on S^2, the plane that differs most in higher dimension."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphereot._support.column_names import name_sky
from sphereot._support.text import p_value_text, plural, printable, shortened

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.stats import DifferenceMap, TwoSampleResult

__all__ = ["IMAGE_TYPES", "draw_difference", "require_image_name"]

IMAGE_TYPES = (".png", ".pdf", ".svg")
_MAPPED = 5000  # points of a sample that enter a map
_MAX_NAME = 28  # characters of the name of a file in an image


def require_image_name(path: Path) -> None:
    """Raise unless the ending of a file says what to write."""
    if path.suffix.lower() not in (*IMAGE_TYPES, ".html"):
        raise ValueError(f"--map: got {path.name}; give a name that ends in {', '.join(IMAGE_TYPES)} or .html.")


def draw_difference(path: Path, x: "PointSet", y: "PointSet", test: "TwoSampleResult", seed: int) -> str:
    """Write the picture; what it shows in one sentence."""
    if test.dim == 3:
        return _draw_map(path, x, y, test, seed)
    if test.dim == 2:
        return _draw_circle(path, x, y, test)
    return _draw_plane(path, x, y, test)


def _draw_map(path: Path, x: "PointSet", y: "PointSet", test: "TwoSampleResult", seed: int) -> str:
    from sphereot import plotting
    from sphereot.plotting.coastlines import has_coastlines
    from sphereot.stats import difference_map

    names = _names(x, y)
    sky = name_sky(x.columns)
    earth = x.lonlat is not None and not sky
    # More points cost time, and change a map of this resolution little.
    samples = [_random_part(points.points, _MAPPED, seed) for points in (x, y)]
    result = difference_map(*samples, permutations=min(test.permutations, 499), seed=seed, progress=True)
    more, less = result.share
    chance = f"beyond chance at level {result.alpha:g}"
    shares = f"{names[0]} is denser on {more:.1%} of the sphere, {names[1]} on {less:.1%}, {chance}"
    if max(len(x), len(y)) > _MAPPED:
        shares += f" (by {_MAPPED} random points of each larger file)"
    if path.suffix.lower() == ".html":
        _write_globe(path, x, y, result, shares, coastlines=None if earth else False)
    else:
        ax = plotting.difference_map(result, labels=_in_image(names), coastlines=earth and has_coastlines(), sky=sky)
        _save(ax, path)
    return f"Map: {path}: {shares}"


def _write_globe(
    path: Path, x: "PointSet", y: "PointSet", result: "DifferenceMap", shares: str, *, coastlines: bool | None
) -> None:
    from sphereot import plotting
    from sphereot.plotting.difference import fine_regions
    from sphereot.report.scatter_plot import MAX_POINTS, subsample

    names = _names(x, y)
    outlined = "Lines surround these regions." if result.region.any() else "No region is outlined."
    drawn = f" At most {MAX_POINTS:,} points of each file are drawn." if max(len(x), len(y)) > MAX_POINTS else ""
    plotting.globe_page(
        path,
        density=result.difference,
        points=[subsample(x.points), subsample(y.points)],
        labels=list(names),
        title=f"Where {names[0]} and {names[1]} differ",
        coastlines=coastlines,
        density_label=f"density of {names[0]} less that of {names[1]} [1/sr]",
        cmap=plotting.DIFFERENCE_COLORS,
        norm=plotting.difference_norm(result),
        regions=fine_regions(result),
        region_labels=(f"{names[0]} is denser beyond chance", f"{names[1]} is denser beyond chance"),
        note=(
            f"{shares}. {outlined} If both files were samples of one distribution, the probability that any region is "
            f"outlined would be at most {result.alpha:.0%}.{drawn}"
        ),
    )


def _draw_circle(path: Path, x: "PointSet", y: "PointSet", test: "TwoSampleResult") -> str:
    if path.suffix.lower() == ".html":
        raise ValueError("--map: a page is for points with 3 coordinates or more; give the name of an image.")
    from sphereot import plotting

    ax = plotting.circle_projections([x.points, y.points], test.circles[0].frame, labels=_in_image(_names(x, y)))
    _save(ax, path)
    return f"Map: {path}: both files on the circle"


def _draw_plane(path: Path, x: "PointSet", y: "PointSet", test: "TwoSampleResult") -> str:
    """The plane of the most differing great circles: a scatter plot of both files."""
    import numpy as np

    from sphereot.report.scatter_plot import AXIS_NAMES, differing_plane, plane_text, subsample

    if path.suffix.lower() == ".html":
        _write_plane(path, x, y, test)
    else:
        from sphereot.plotting.difference import plane_scatter

        points = [np.asarray(sample.points, np.float64) for sample in (x, y)]
        axes = differing_plane(points[0], points[1], test)
        labels = [f"{name}{_count(len(sample))}" for name, sample in zip(_in_image(_names(x, y)), points, strict=True)]
        planar = [subsample(sample) @ axes for sample in points]
        _save(plane_scatter(planar, labels, AXIS_NAMES, plane_text(points[0], points[1], test, axes)), path)
    return f"Map: {path}: both files in the plane of the great circles that differ most"


def _write_plane(path: Path, x: "PointSet", y: "PointSet", test: "TwoSampleResult") -> None:
    import html

    from sphereot._html.page import asset, html_page
    from sphereot._support.atomic_write import write_text
    from sphereot.report.scatter_plot import DifferingPlanePlot

    names = _names(x, y)
    figure = DifferingPlanePlot(x.points, [y.points], [test]).figure(0, names[1], names[0])
    summary = (
        f"{plural(test.n, 'point')} of {names[0]} and {plural(test.m, 'point')} of {names[1]} in dimension {test.dim}: "
        f"the p-value of the test that both come from one distribution is {p_value_text(test.p_value)}."
    )
    body = f'<p>{html.escape(summary)}</p>\n<div class="panels">{figure}</div>'
    write_text(path, html_page(f"Where {names[0]} and {names[1]} differ", body, css=asset("report.css")))


def _save(ax: Any, path: Path) -> None:
    from sphereot import plotting

    plotting.save(ax, path.with_suffix(""), formats=(path.suffix[1:].lower(),))


def _names(x: "PointSet", y: "PointSet") -> tuple[str, str]:
    return printable(x.path.stem), printable(y.path.stem)


def _in_image(names: tuple[str, str]) -> tuple[str, str]:
    """Names that fit into an image, where a dollar sign would begin a formula."""
    first, second = (shortened(name, _MAX_NAME).replace("$", r"\$") for name in names)
    return first, second


def _count(total: int) -> str:
    from sphereot.report.scatter_plot import MAX_POINTS

    return f" ({MAX_POINTS:,} of {total:,} points)" if total > MAX_POINTS else ""


def _random_part(points: Any, count: int, seed: int) -> Any:
    """At most `count` of the points, chosen at random."""
    import numpy as np

    if len(points) <= count:
        return points
    return points[np.sort(np.random.default_rng(abs(seed)).choice(len(points), count, replace=False))]
