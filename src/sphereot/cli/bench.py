"""`sphereot bench`: time of the distance on this machine, compared with POT."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer

from sphereot._support.extras import progress_bar
from sphereot.cli.errors import reports_errors
from sphereot.cli.options import AsJson
from sphereot.cli.outputs import for_reader, print_json

__all__ = ["bench"]

_SLICES = 200
_SECONDS = 0.5


@dataclass(frozen=True)
class _Case:
    """A distance to time: order, number of points per sample, dimension, and whether to the uniform distribution."""

    p: int
    n: int
    dim: int
    uniform: bool = False

    def __str__(self) -> str:
        target = " to uniform" if self.uniform else ""
        return f"SSW_{self.p}{target}, {self.n:,} points, d = {self.dim}"


_CASES = (
    _Case(2, 500, 3),
    _Case(2, 1000, 3),
    _Case(1, 1000, 3),
    _Case(2, 500, 128),
    _Case(2, 10_000, 3, uniform=True),
)


@reports_errors("bench")
def bench(as_json: AsJson = False) -> None:
    """Time the distance on this machine, and the same call of POT.

    Samples are float32 NumPy arrays, with 200 great circles. Each time is the shortest of the runs that fit into half a
    second, of one at least. The command takes about ten seconds.

    For example: sphereot bench

    For a script: sphereot bench --json
    """
    import ot

    import sphereot

    rows = []
    with progress_bar(True, "cases", len(_CASES)) as show:
        for case in _CASES:
            ours, theirs = _times(case, sphereot, ot)
            rows.append((case, ours, theirs))
            show(len(rows))
    if as_json:
        cases = [
            {**vars(case), "n_projections": _SLICES, "sphereot_seconds": ours, "pot_seconds": theirs}
            for case, ours, theirs in rows
        ]
        machine = {"threads": sphereot.get_num_threads(), "path": sphereot.info().path, "pot": ot.__version__}
        print_json({"cases": cases, **machine})
        return
    typer.echo(f"{_SLICES} great circles, float32, {sphereot.get_num_threads()} threads, POT {ot.__version__}")
    typer.echo(f"  {'':<42}{'sphereot':>12}{'POT':>12}{'ratio':>9}")
    for case, ours, theirs in rows:
        typer.echo(f"  {for_reader(str(case)):<42}{1e3 * ours:>9.2f} ms{1e3 * theirs:>9.1f} ms{theirs / ours:>8.0f}x")


def _times(case: _Case, sphereot: Any, ot: Any) -> tuple[float, float]:
    """Shortest times of both libraries in seconds, for the same points."""
    x, y = (sphereot.sphere.random_uniform(case.n, case.dim, seed=seed).astype("float32") for seed in (1, 2))
    if case.uniform:
        return (
            _shortest_time(lambda: sphereot.ssw_uniform(x, p=case.p, n_projections=_SLICES, seed=0)),
            _shortest_time(lambda: ot.sliced_wasserstein_sphere_unif(x, n_projections=_SLICES, seed=0)),
        )
    return (
        _shortest_time(lambda: sphereot.ssw(x, y, p=case.p, n_projections=_SLICES, seed=0)),
        _shortest_time(lambda: ot.sliced_wasserstein_sphere(x, y, p=case.p, n_projections=_SLICES, seed=0)),
    )


def _shortest_time(call: Callable[[], object]) -> float:
    times: list[float] = []
    began = time.perf_counter()
    while not times or time.perf_counter() - began < _SECONDS:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
