"""Pictures of a two-sample test: a map of the difference on S^2, the great circle that differs most elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphereot._support.column_names import name_sky

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.stats import TwoSampleResult

__all__ = ["IMAGE_TYPES", "draw_difference", "require_image_name"]

IMAGE_TYPES = (".png", ".pdf", ".svg")
_DRAWN = 1000  # points of a sample on a globe
_MAPPED = 5000  # points of a sample that enter a map


def require_image_name(path: Path) -> None:
    """Raise unless the ending of a file says what to write."""
    if path.suffix.lower() not in (*IMAGE_TYPES, ".html"):
        raise ValueError(f"--map: got {path.name}; give a name that ends in {', '.join(IMAGE_TYPES)} or .html.")


def draw_difference(path: Path, x: "PointSet", y: "PointSet", test: "TwoSampleResult", seed: int) -> str:
    """Write the picture; what it shows in one sentence."""
    from sphereot import plotting

    names = (x.path.stem, y.path.stem)
    sky = name_sky(x.columns)
    earth = x.lonlat is not None and not sky
    if test.dim != 3:
        if path.suffix.lower() == ".html":
            raise ValueError("--map: a page with a globe is for points on S^2; give the name of an image.")
        circle = test.circles[0]
        ax = plotting.circle_projections([x.points, y.points], circle.frame, labels=names)
        plotting.save(ax, path.with_suffix(""), formats=(path.suffix[1:].lower(),))
        return f"Map: {path}: both files on the great circle that differs most"
    from sphereot.plotting.coastlines import has_coastlines
    from sphereot.stats import difference_map

    # More points cost time, and change a map of this resolution little.
    samples = [_random_part(points.points, _MAPPED, seed) for points in (x, y)]
    result = difference_map(*samples, permutations=min(test.permutations, 499), seed=seed, progress=True)
    if path.suffix.lower() == ".html":
        plotting.globe_page(
            path,
            density=result.difference,
            points=[_few(x.points), _few(y.points)],
            labels=list(names),
            title=f"Where {names[0]} and {names[1]} differ",
            coastlines=None if earth else False,
            density_label=f"density of {names[0]} less that of {names[1]} (sr⁻¹)",
            cmap=plotting.DIFFERENCE_COLORS,
            norm=plotting.difference_norm(result),
        )
    else:
        ax = plotting.difference_map(result, labels=names, coastlines=earth and has_coastlines(), sky=sky)
        plotting.save(ax, path.with_suffix(""), formats=(path.suffix[1:].lower(),))
    more, less = result.share
    return (
        f"Map: {path}: {names[0]} is denser on {more:.1%} of the sphere, {names[1]} on {less:.1%}, beyond chance at "
        f"level {result.alpha:g}"
        + (f" (by {_MAPPED} random points of each larger file)" if max(len(x), len(y)) > _MAPPED else "")
    )


def _random_part(points: Any, count: int, seed: int) -> Any:
    """At most `count` of the points, chosen at random."""
    import numpy as np

    if len(points) <= count:
        return points
    return points[np.sort(np.random.default_rng(abs(seed)).choice(len(points), count, replace=False))]


def _few(points: Any) -> Any:
    return points[:: max(1, -(-len(points) // _DRAWN))]
