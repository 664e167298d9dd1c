"""Sketches: time per point and slice of an update, of distances, and of all pairs of a year of days.

    python -m benchmarks.scale [update] [distance] [pairwise] [--json out/scale.json]

Times are the minimum of several repeats, in one run. The bars are those of two cores without other load.
"""

from collections.abc import Callable, Iterator

import numpy as np

import sphereot
from benchmarks.timing import Row, argument_parser, best_of, report, sphere_sample

RNG = np.random.default_rng(0)
DAYS = 365


def update() -> Iterator[Row]:
    """Nanoseconds per point and slice, against the projection alone and against NumPy's histograms."""
    for n, d, bar in ((1_000_000, 3, 2.0), (50_000, 16, 2.0), (20_000, 384, 2.0)):
        x = sphere_sample(RNG, n, d)
        sketch = sphereot.Sketch(d).update(x[:1])
        frames = sketch.projections.astype(np.float32)
        scale = 1e9 / (n * sketch.n_projections)
        ours, project = best_of(lambda: sketch.update(x), lambda: sphereot.project(x, frames), repeats=3)  # noqa: B023
        work = f"update, n={n:,}, d={d}, per point and slice"
        yield Row(work, scale * ours, "ns", "projection to turns", scale * project, ours / project, bar, "less")
    x = sphere_sample(RNG, 100_000)
    sketch = sphereot.Sketch(3).update(x[:1])
    frames = sketch.projections.astype(np.float32)

    def numpy_histograms() -> None:
        for turns in sphereot.project(x, frames):
            np.histogram(turns, bins=sketch.bins, range=(0.0, 1.0))

    ours, theirs = best_of(lambda: sketch.update(x), numpy_histograms, repeats=3)
    work = "update, n=100,000, d=3"
    yield Row(work, ours, "s", "project and np.histogram", theirs, theirs / ours, float("-inf"), "more")


def sketches(count: int, n: int) -> list[sphereot.Sketch]:
    """Sketches of samples that drift."""
    days = (sphere_sample(RNG, n) + np.float32([0, 0, 0.3 * day / count]) for day in range(count))
    return [sphereot.Sketch(3).update(sphereot.sphere.normalize(day)) for day in days]


def distance() -> Iterator[Row]:
    """Milliseconds of one distance at the defaults, L = 200 and B = 4096."""
    a, b = sketches(2, 100_000)
    works: list[tuple[str, Callable[[], object], float]] = [
        ("distance, p=1", lambda: a.distance(b, p=1), 5.0),
        ("distance, p=2", lambda: a.distance(b, p=2), 20.0),
        ("distance, p=1.5", lambda: a.distance(b, p=1.5), float("inf")),
        ("distance to uniform, p=2", lambda: a.distance_to_uniform(p=2), float("inf")),
        ("to_bytes", a.to_bytes, float("inf")),
    ]
    for (name, _, bar), seconds in zip(works, best_of(*(work for _, work, _ in works)), strict=True):
        yield Row(name, seconds, "s", "", None, 1e3 * seconds, bar, "less")


def pairwise() -> Iterator[Row]:
    """Minutes of all pairs of a year, p = 1."""
    year = sketches(DAYS, 2_000)
    (seconds,) = best_of(lambda: sphereot.sketch.pairwise(year, p=1), repeats=1, min_seconds=0)
    yield Row(f"pairwise, {DAYS} sketches, p=1", seconds, "s", "", None, seconds / 60, 5.0, "less")


PARTS = {"update": update, "distance": distance, "pairwise": pairwise}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("parts", nargs="*", help=f"parts to measure, of {', '.join(PARTS)}; all by default")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]}; choose of {', '.join(PARTS)}")
    rows = [row for part in arguments.parts or PARTS for row in PARTS[part]()]
    report(rows, arguments.json)


if __name__ == "__main__":
    main()
