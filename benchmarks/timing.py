"""Measurement of time and memory, and tables of the results."""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

__all__ = [
    "Row",
    "argument_parser",
    "best_of",
    "machine",
    "peak_memory",
    "report",
    "sphere_sample",
    "table",
    "write_json",
]


@dataclass(frozen=True)
class Row:
    """One row of a table: what was measured, against what, the ratio of both, and the bar that it should meet."""

    work: str
    ours: float
    unit: str
    against: str
    theirs: float | None
    figure: float
    bar: float
    better: str  # "more" or "less"

    @property
    def met(self) -> bool:
        """Whether the figure meets the bar."""
        return bool(self.figure >= self.bar if self.better == "more" else self.figure <= self.bar)


def best_of(*works: Callable[[], object], repeats: int = 7, min_seconds: float = 0.3) -> list[float]:
    """Minimum time of each function over several repeats, in seconds.

    The functions are called alternately, so that other load on the machine affects all of them equally.
    """
    times = [float("inf")] * len(works)
    start, done = time.perf_counter(), 0
    while done < repeats or time.perf_counter() - start < min_seconds:
        for k, work in enumerate(works):
            begin = time.perf_counter()
            work()
            times[k] = min(times[k], time.perf_counter() - begin)
        done += 1
    return times


def peak_memory(setup: str, work: str) -> int:
    """Peak memory of `work` in a new process, in bytes beyond that after `setup`. Linux only."""
    code = f"""
{setup}
def kilobytes(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field))
import ctypes, gc
gc.collect()
ctypes.CDLL(None).malloc_trim(0)  # return what the setup has freed to the system
open("/proc/self/clear_refs", "w").write("5")  # reset the peak
before = kilobytes("VmRSS")
{work}
print(kilobytes("VmHWM") - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return 1024 * int(done.stdout)


def sphere_sample(rng: np.random.Generator, n: int, d: int = 3, dtype: type = np.float32) -> np.ndarray:
    """Uniform points on the sphere."""
    x = rng.normal(size=(n, d))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(dtype)


def machine() -> dict[str, object]:
    """Date, processor and versions, to interpret the figures."""
    import sphereot

    info = sphereot.info()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "architecture": platform.machine(),
        "kernel": info.instruction_set,
        "threads": info.threads,
        "python": info.python,
        "numpy": info.numpy,
    }


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """Parser with the option that all benchmarks have, --json."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    return parser


def table(rows: Sequence[Row]) -> str:
    """Rows as text in aligned columns; no bar is shown where it is infinite."""
    cells = [("work", "ours", "against", "theirs", "figure", "bar")]
    for row in rows:
        theirs = "" if row.theirs is None else _quantity(row.theirs, row.unit)
        limit = f"{'at least' if row.better == 'more' else 'at most'} {row.bar:g}: {'met' if row.met else 'MISSED'}"
        bar = "" if math.isinf(row.bar) else limit
        cells.append((row.work, _quantity(row.ours, row.unit), row.against, theirs, _number(row.figure), bar))
    widths = [max(len(line[k]) for line in cells) for k in range(6)]
    left_aligned = {0, 2, 5}
    return "\n".join(
        "  ".join(
            text.ljust(width) if k in left_aligned else text.rjust(width)
            for k, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def _quantity(value: float, unit: str) -> str:
    return f"{_number(1e3 * value)} ms" if unit == "s" else f"{_number(value)} {unit}"


def _number(value: float) -> str:
    """Three digits, or all before the decimal point."""
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{digits}f}"


def report(rows: Sequence[Row], path: Path | None) -> None:
    """Print the rows as a table; if a path is given, write them there as JSON, with the machine."""
    print(table(rows))
    if path is not None:
        write_json(path, {"machine": machine(), "rows": [asdict(row) for row in rows]})


def write_json(path: Path, content: object) -> None:
    """Write JSON to a temporary file that is then renamed, so that `path` is always complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    aside.write_text(json.dumps(content, indent=2) + "\n")
    aside.replace(path)
