"""Time of a permutation test in units of one distance: 1,000 permutations compared with one call of `ssw`.

    python -m benchmarks.permutations [--json out.json] [--permutations 1000]

A test that calls `ssw` for each permutation takes 1,000 of them; ours projects and sorts the pooled points once per
slice. The figure is the time of the whole test, with the drawing of permutations, over that of one distance. Both run
on one thread. Processor time is measured, since on a busy machine a long call is interrupted more often.
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import sphereot
from benchmarks.timing import Row, argument_parser, report, sphere_sample
from sphereot.stats import two_sample_test

REPEATS = 3
DISTANCES_PER_REPEAT = 20

# n, m, d, L, and the bar: the time of 1,000 permutations in distances. Unequal sizes need a more general cut search.
SIZES = [
    (2000, 2000, 64, 100, 200),
    (2000, 2000, 3, 100, 300),
    (200, 200, 3, 200, 300),
    (2000, 1500, 64, 100, 300),
    (2000, 1999, 64, 100, 500),
]


def measure(n: int, m: int, dim: int, n_projections: int, bar: float, permutations: int) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        x, y = sphere_sample(rng, n, dim, dtype), sphere_sample(rng, m, dim, dtype)
        frames = sphereot.great_circles(n_projections, dim, seed=0, like=x)
        test = partial(two_sample_test, x, y, permutations=permutations, projections=frames, seed=0)
        distance = partial(sphereot.ssw, x, y, projections=frames)
        tests, distances = [], []
        for _ in range(REPEATS):  # alternately, so that other load affects both equally
            tests.append(processor_seconds(test, 1))
            distances.append(processor_seconds(distance, DISTANCES_PER_REPEAT))
        work = f"n={n:,} m={m:,} d={dim} L={n_projections}, {np.dtype(dtype).name}"
        yield Row(work, min(tests), "s", "one distance", min(distances), min(tests) / min(distances), bar, "less")


def processor_seconds(work: Callable[[], object], times: int) -> float:
    begin = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begin) / times


def main() -> None:
    """Measure and print; write the rows to a file with --json; exit with 1 if a bar is missed."""
    parser = argument_parser(__doc__)
    parser.add_argument("--permutations", type=int, default=1000)
    arguments = parser.parse_args()
    sphereot.set_num_threads(1)
    rows = [row for size in SIZES for row in measure(*size, arguments.permutations)]
    print(f"{arguments.permutations:,} permutations, one thread, processor time")
    report(rows, arguments.json)
    sys.exit(not all(row.met for row in rows))


if __name__ == "__main__":
    main()
