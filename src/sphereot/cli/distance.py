"""`sphereot distance` and `sphereot pairwise`: how far apart the points of files are."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereot._support.progress import progress_bar
from sphereot.cli.errors import reports_errors
from sphereot.cli.options import (
    AsJson,
    FirstFile,
    Order,
    Projections,
    SecondFile,
    Seed,
    WeightedReadOptions,
    reads_points,
)
from sphereot.cli.outputs import finite_or_none, print_json
from sphereot.cli.points import label, read_files, waiting

if TYPE_CHECKING:
    from sphereot.datasets import PointSet

__all__ = ["distance", "pairwise"]

Tolerance = Annotated[
    float | None,
    typer.Option(
        "--rtol",
        help="Double the number of great circles until the standard error is at most this fraction of the value.",
    ),
]
Most = Annotated[int, typer.Option("--max-projections", help="Largest number of great circles with --rtol.")]

_GROUPS = 50
_WORK_A_STEP, _LEAST_CIRCLES_A_STEP = 100_000_000, 8  # about a second, and work for several threads


@reports_errors()
@reads_points
def distance(
    a: FirstFile,
    b: SecondFile,
    reading: WeightedReadOptions,
    p: Order = 2.0,
    projections: Projections = 200,
    rtol: Tolerance = None,
    max_projections: Most = 100_000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Spherical Sliced-Wasserstein distance between the points of two files.

    The files are .npy, .npz, .csv, .parquet, .geojson, .pt or .safetensors; each row is a point on the sphere. The
    values are SSW_p^p and its root SSW_p; a great circle is one turn long, and on S^2 the root is also in degrees.
    The standard error after ± is that from the choice of great circles only, not from the sampling of the points.
    SSW_p compares distributions: it is not how far points moved.
    Rows that cannot be points end the command with exit code 2 and the file and line; nothing is ever unpickled.

    Two samples of unit vectors: sphereot distance a.npy b.npy

    Embeddings, only their directions: sphereot distance old.parquet new.parquet --columns embedding --normalize

    Columns that begin alike, to one percent: sphereot distance a.csv b.csv --prefix x_ --rtol 0.01

    Places on the earth: sphereot distance quakes.csv fires.geojson --lonlat

    Cities, weighted, for a script: sphereot distance then.csv now.csv --lonlat --weights population --json
    """
    with waiting("Reading ..."):
        x, y = read_files([a, b], reading)
    value, error, count = _estimate(x, y, p, projections, rtol, max_projections, seed)
    number = _Number(value, error, p, x.points.shape[1])
    if as_json:
        record = {**number.record(), "note": _note([number]), "p": p, "n_projections": count, "seed": seed}
        print_json({**record, "files": [_file_record(x), _file_record(y)]})
        return
    from sphereot._support.text import cost_name, cost_unit

    drawn = f"({count} great circles)"
    if p == 1:  # the distance is its own power
        typer.echo(f"SSW_1 = {number.root()}   {drawn}")
    else:
        power = cost_name(p)
        typer.echo(f"{power} = {number.power()} {cost_unit(p)}   {drawn}")
        typer.echo(f"{f'SSW_{p:g}':<{len(power)}} = {number.root()}")
    typer.echo(_note([number]))
    typer.echo(f"{label(x)}\n{label(y)}")
    _warn_short(rtol, [number], count)


@reports_errors()
@reads_points
def pairwise(
    files: Annotated[list[Path], typer.Argument(help="Two or more files.", show_default=False)],
    reading: WeightedReadOptions,
    p: Order = 2.0,
    projections: Projections = 200,
    rtol: Tolerance = None,
    max_projections: Most = 100_000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Distances between all pairs of several files, on shared great circles.

    Each file is read, projected and sorted once, so that many pairs cost little more than the files themselves.
    Options, files and errors are those of `sphereot distance`.

    A week against itself: sphereot pairwise monday.npy tuesday.npy wednesday.npy

    All lists of places in a folder, as JSON: sphereot pairwise places/*.csv --lonlat --json
    """
    if len(files) < 2:
        raise ValueError(f"FILES: {len(files)} given, but pairs need at least two files.")
    with waiting("Reading ..."):
        sets = read_files(files, reading)
    values, errors, count = _pairwise(sets, p, projections, rtol, max_projections, seed)
    dim = sets[0].points.shape[1]
    pairs = {
        (i, j): _Number(float(values[i, j]), float(errors[i, j]), p, dim) for i, j in combinations(range(len(sets)), 2)
    }
    if as_json:
        print_json(
            {
                "values": values.tolist(),
                "standard_errors": [[finite_or_none(error) for error in row] for row in errors.tolist()],
                "note": _note(list(pairs.values())),
                "p": p,
                "n_projections": count,
                "seed": seed,
                "files": [_file_record(one) for one in sets],
            }
        )
        return
    for k, one in enumerate(sets):
        typer.echo(f"[{k}] {label(one)}")
    from sphereot._support.text import cost_name, cost_unit

    head = "SSW_1" if p == 1 else f"{cost_name(p)} in {cost_unit(p)}, and SSW_{p:g}"
    typer.echo(f"{head}; {count} great circles")
    for (i, j), number in pairs.items():
        power = "" if p == 1 else f"{number.power():<26} "
        typer.echo(f"[{i}] [{j}]  {power}{number.root()}")
    typer.echo(_note(list(pairs.values())))
    _warn_short(rtol, list(pairs.values()), count)


@dataclass(frozen=True)
class _Number:
    """SSW_p^p with its standard error, and what follows for the distance SSW_p."""

    value: float
    error: float
    p: float
    dim: int

    @property
    def distance(self) -> tuple[float, float]:
        """SSW_p and its standard error, to first order, in turns."""
        if self.value <= 0:
            return 0.0, 0.0 if not math.isnan(self.error) else math.nan
        root = self.value ** (1 / self.p)
        return root, self.error * root / (self.p * self.value)

    def power(self) -> str:
        return _with_error(self.value, self.error)

    def root(self) -> str:
        value, error = self.distance
        # On S^2 people think of angles in degrees.
        degrees = f" = {_with_error(360 * value, 360 * error)} degrees" if self.dim == 3 else ""
        return f"{_with_error(value, error)} turns{degrees}"

    def record(self) -> dict[str, Any]:
        value, error = self.distance
        record = {
            "value": self.value,
            "standard_error": finite_or_none(self.error),
            "distance_turns": value,
            "distance_turns_standard_error": finite_or_none(error),
        }
        if self.dim == 3:
            record |= {"distance_degrees": 360 * value, "distance_degrees_standard_error": finite_or_none(360 * error)}
        return record


def _estimate(
    x: "PointSet", y: "PointSet", p: float, projections: int, rtol: float | None, most: int, seed: int
) -> tuple[float, float, int]:
    """Value, standard error and number of great circles, as `ssw_estimate` gives them; step by step, for the bar."""
    import numpy as np

    from sphereot._arrays.validation import as_order, as_points, as_weights
    from sphereot._backends import backend_for
    from sphereot._backends.protocol import Measure

    p = as_order(p)
    dtype = np.result_type(x.points, y.points)
    # Checked here once: each call of `ssw_estimate` would look at all points again.
    first, second = (as_points(str(one.path), one.points).astype(dtype, copy=False) for one in (x, y))
    a, b = (as_weights("weights", one.weights, str(one.path), one.points) for one in (x, y))
    costs: Any = np.empty(0)
    value, error = math.nan, math.nan
    rounds = _rounds([x, y], projections, rtol, most, seed, lambda tolerance: error <= tolerance * value)
    for frames in rounds:
        by_work = len(frames) * (len(x) + len(y)) // _WORK_A_STEP
        steps = max(1, min(len(frames) // _LEAST_CIRCLES_A_STEP, by_work))
        with progress_bar(True, "great circles", len(costs) + len(frames), len(costs)) as show:
            for part in np.array_split(frames, steps):
                costs = np.concatenate(
                    [costs, backend_for(first).slice_costs([Measure(first, a), Measure(second, b)], part, p)]
                )
                show(len(costs))
        value = float(np.mean(costs))
        error = float(np.std(costs, ddof=1)) / math.sqrt(len(costs)) if len(costs) > 1 else math.nan
    return value, error, len(costs)


def _pairwise(
    sets: "Sequence[PointSet]", p: float, projections: int, rtol: float | None, most: int, seed: int
) -> tuple[Any, Any, int]:
    """Values and standard errors (N, N), and the number of great circles.

    Great circles come in groups, and the spread of the groups' means gives the standard error: the sum over groups of
    n_g (m_g - m)^2 / (G - 1) estimates the variance of a slice, whatever the sizes n_g.
    """
    import numpy as np

    from sphereot import pairwise_ssw
    from sphereot._arrays.orders import LARGEST_PLAIN_ORDER, costs_of

    large = p > LARGEST_PLAIN_ORDER
    points, weights = [one.points for one in sets], [one.weights for one in sets]
    sizes: list[int] = []
    means: list[Any] = []
    values = errors = np.full((len(sets), len(sets)), np.nan)
    rounds = _rounds(sets, projections, rtol, most, seed, lambda tolerance: bool((errors <= tolerance * values).all()))
    for frames in rounds:
        with progress_bar(True, "great circles", sum(sizes) + len(frames), sum(sizes)) as show:
            for group in np.array_split(frames, min(_GROUPS, len(frames))):
                sizes.append(len(group))
                found = pairwise_ssw(points, p=p, weights=weights, projections=group, root=large).astype(np.float64)
                means.append(costs_of(found[None], p)[0] if large else found)
                show(sum(sizes))
        share, stack, total = np.array(sizes)[:, None, None], np.array(means), sum(sizes)
        values = (share * stack).sum(axis=0) / total
        if len(sizes) > 1:
            variance = (share * (stack - values) ** 2).sum(axis=0) / (len(sizes) - 1)
            errors = np.sqrt(variance / total)
        else:
            errors = np.where(np.eye(len(sets), dtype=bool), 0.0, np.nan)
    return values, errors, sum(sizes)


def _rounds(
    sets: "Sequence[PointSet]",
    projections: int,
    rtol: float | None,
    most: int,
    seed: int,
    enough: Callable[[float], bool],
) -> Iterator[Any]:
    """Great circles in rounds: one without `rtol`; with it each doubles their number, until there are enough."""
    import numpy as np

    from sphereot import great_circles
    from sphereot._arrays.validation import as_slice_count, as_whole_number

    if rtol is not None and not 0 < rtol < math.inf:
        raise ValueError(f"rtol: got {rtol!r}, but a positive number is needed.")
    count = as_slice_count(projections)
    most = as_whole_number("max_projections", most, 1, "the most great circles to draw")
    source = np.random.default_rng(as_whole_number("seed", seed, 0, "a seed"))
    like = np.empty((0, sets[0].points.shape[1]), np.result_type(*(one.points for one in sets)))
    fresh, total = count if rtol is None else min(count, most), 0
    while fresh > 0:
        yield great_circles(fresh, like.shape[1], seed=source, like=like)
        total += fresh
        fresh = 0 if rtol is None or enough(rtol) else min(total, most - total)


def _note(numbers: Sequence[_Number]) -> str:
    """What the numbers are not: an error that counts the points too, and a displacement."""
    meaning = f"SSW_{numbers[0].p:g} compares distributions: it is not how far points moved."
    if any(math.isnan(number.error) for number in numbers):  # nothing after ± is printed
        return meaning
    return f"± is the error from the choice of great circles only, not from the sampling of the points. {meaning}"


def _warn_short(rtol: float | None, numbers: Sequence[_Number], count: int) -> None:
    worst = max((one.error / one.value for one in numbers if one.value > 0), default=0.0)
    if rtol is not None and not worst <= rtol:
        typer.echo(
            f"Note: {count} great circles reach a relative standard error of {worst:.2g}, not {rtol:g}; give more with "
            "--max-projections.",
            err=True,
        )


def _with_error(value: float, error: float) -> str:
    return f"{value:.6g}" if math.isnan(error) else f"{value:.6g} ± {error:.2g}"


def _file_record(points: "PointSet") -> dict[str, Any]:
    n, dim = points.points.shape
    return {
        "path": str(points.path),
        "points": n,
        "dim": dim,
        "columns": list(points.columns) if dim <= 16 else None,
        "weighted": points.weights is not None,
        "dropped": points.dropped,
    }
