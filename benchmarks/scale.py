"""Sketches: updates, distances, all pairs of a year of days, a long stream, KLL sketches, and Dask workers.

    python -m benchmarks.scale [update] [distance] [pairwise] [stream] [kll] [dask] [--points N] [--json out/scale.json]

Times are the minimum of several repeats, in one run. The bars are those of two cores without other load.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import sphereot
from benchmarks.timing import Row, argument_parser, best_of, report, sphere_sample

RNG = np.random.default_rng(0)
DAYS = 365


def update() -> Iterator[Row]:
    """Nanoseconds per point and slice, against the projection only and against NumPy's histograms."""
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


def stream(points: int) -> Iterator[Row]:
    """One pass over points on S^2 that are made in chunks: seconds, and peak memory beyond the first chunk."""
    chunk = 1_000_000
    sketch = sphereot.Sketch(3).update(sphere_sample(RNG, chunk))
    before, seconds = _kilobytes("VmRSS"), 0.0
    while sketch.n < points:
        x = sphere_sample(RNG, min(chunk, points - sketch.n))
        start = time.perf_counter()
        sketch.update(x)
        seconds += time.perf_counter() - start
    memory = (_kilobytes("VmHWM") - before) / 1e3
    nanoseconds = 1e9 * seconds / ((points - chunk) * sketch.n_projections)
    yield Row(f"stream of {points:,} x 3, updates", seconds, "s", "", None, nanoseconds, float("inf"), "less")
    yield Row("stream, memory beyond a chunk", memory, "MB", "", None, memory, 200.0, "less")


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def kll() -> Iterator[Row]:
    """Against DataSketches' vector of KLL sketches, one per slice: error of SSW_1 and time, at about equal memory."""
    from datasketches import vector_of_kll_floats_sketches

    n, n_slices, bins = 100_000, 200, 4096
    x, y = sphere_sample(RNG, n), sphereot.sphere.normalize(sphere_sample(RNG, n) + np.float32([0, 0, 0.2]))
    a, b = (sphereot.Sketch(3, n_slices, bins).update(points) for points in (x, y))
    frames = a.projections.astype(np.float32)
    exact = sphereot.ssw(x.astype(float), y.astype(float), p=1, projections=a.projections)
    turns = [np.ascontiguousarray(sphereot.project(points, frames).T) for points in (x, y)]
    edges = ((np.arange(bins) + 0.5) / bins).astype(np.float32)
    (ours,) = best_of(lambda: sphereot.Sketch(3, n_slices, bins).update(x), repeats=3)
    value = a.distance(b, p=1)
    error = abs(value.value - exact)
    work = f"error of SSW_1 = {exact:.4f}, {a.nbytes / 1e6:.1f} MB per sketch"
    for k in (200, 4000):
        sketches = []
        start = time.perf_counter()
        for part in turns:
            vector = vector_of_kll_floats_sketches(k, n_slices)
            vector.update(part)
            sketches.append(vector)
        seconds = (time.perf_counter() - start) / 2
        levels = [np.asarray(sketch.get_ranks(edges)) for sketch in sketches]
        difference = levels[0] - levels[1]
        other = np.mean(np.abs(difference - np.median(difference, axis=1, keepdims=True)))
        size = float(np.sum(sketches[0].get_num_retained())) * 4 / 1e6
        against = f"KLL, k={k}, {size:.1f} MB"
        yield Row(work, error, "turns", against, abs(other - exact), abs(other - exact) / error, 1.0, "more")
        yield Row("update, n=100,000, d=3", ours, "s", f"{against}, without projecting", seconds, seconds / ours,
                  float("-inf"), "more")  # fmt: skip


def dask_workers() -> Iterator[Row]:
    """Two Dask workers of one thread each against one, end to end, on chunks that the workers make."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from sphereot.sketch.dask import sketch

    chunks = 100
    seconds = []
    for n_workers in (1, 2):
        with (
            LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
            Client(cluster) as client,
        ):
            cluster.wait_for_workers(n_workers)
            x = da.random.default_rng(0).standard_normal(
                (chunks * 1_000_000, 3), chunks=(1_000_000, 3), dtype="float32"
            )
            start = time.perf_counter()
            total = client.compute(sketch(x, normalize=True)).result()
            seconds.append(time.perf_counter() - start)
            assert total.n == chunks * 1_000_000
    one, two = seconds
    yield Row("Dask, 10^8 x 3, two workers", two, "s", "one worker", one, one / two, 1.7, "more")


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "update": update,
    "distance": distance,
    "pairwise": pairwise,
    "kll": kll,
    "dask": dask_workers,
}


def main() -> None:
    parser = argument_parser(__doc__)
    names = [*PARTS, "stream"]
    parser.add_argument("parts", nargs="*", help=f"parts to measure, of {', '.join(names)}; all by default")
    parser.add_argument("--points", type=float, default=1e9, help="points of the stream, by default 10^9 (minutes)")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts if part not in names]
    if unknown:
        parser.error(f"unknown part {unknown[0]}; choose of {', '.join(names)}")
    rows = []
    for part in arguments.parts or names:
        rows += stream(int(arguments.points)) if part == "stream" else PARTS[part]()
    report(rows, arguments.json)


if __name__ == "__main__":
    main()
