"""Time and memory of `sphereot distance` for two large Parquet files, compared with the distance in memory.

    python -m benchmarks.files [--json out.json] [--points 1000000]

Two files of unit vectors on S^2, float32, are written to a temporary folder. Measured are reading and comparing them in
this process, and the whole command in a new one: start, imports, reading, comparing, printing, with its peak memory.
Both use 200 great circles, the default.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

import sphereot
from benchmarks.timing import Row, argument_parser, best_of, report, sphere_sample
from sphereot import datasets

REPEATS = 3
MAX_RATIO = 3  # to the distance in memory
MAX_MEMORY = 1000  # MB

COMMAND = "import sys; from sphereot.cli import main; sys.argv[0] = 'sphereot'; main()"


def measure(points: int, folder: Path) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    samples = [sphere_sample(rng, points) for _ in range(2)]
    paths = [folder / f"{name}.parquet" for name in "ab"]
    for path, sample in zip(paths, samples, strict=True):
        pl.DataFrame(sample, schema=["x", "y", "z"]).write_parquet(path)

    peaks = []
    in_memory, from_files, command = best_of(
        lambda: sphereot.ssw(*samples, seed=0),
        lambda: sphereot.ssw(*(datasets.read_points(path).points for path in paths), seed=0),
        lambda: peaks.append(peak_of_command("distance", *paths)),
        repeats=REPEATS,
    )
    work = f"two files of {points:,} x 3"
    for name, seconds in ((f"{work}, read and compared", from_files), (f"{work}, the command", command)):
        yield Row(name, seconds, "s", "ssw in memory", in_memory, seconds / in_memory, MAX_RATIO, "less")
    yield Row(f"{work}, peak memory", max(peaks), "MB", "", None, max(peaks), MAX_MEMORY, "less")


def peak_of_command(*arguments: str | Path) -> float:
    """Peak resident memory of the command in a new process, in MB."""
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)  # of this child only; the peak of all children includes earlier ones
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the command ended with exit code {process.returncode}")
    return usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def main() -> None:
    """Measure and print; write the rows to a file with --json; exit with 1 if a bar is missed."""
    parser = argument_parser(__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = list(measure(arguments.points, Path(folder)))
    print(f"{sphereot.get_num_threads()} threads, minimum of {REPEATS} repeats")
    report(rows, arguments.json)
    sys.exit(not all(row.met for row in rows))


if __name__ == "__main__":
    main()
