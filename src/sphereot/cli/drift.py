"""`sphereot drift`: whether windows of points have drifted from a reference, for people and for pipelines."""

import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereot.cli.errors import names_missing_extra, reports_errors
from sphereot.cli.options import AsJson, NoWeights, Order, Projections, ReadOptions, Seed, reads_points
from sphereot.cli.outputs import finite_or_none, print_json, require_writable
from sphereot.cli.points import read_files, refuse_weights, waiting

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.stats import DriftResult

__all__ = ["drift"]

_DRIFT = 1
_LARGE = 100_000


@reports_errors()
@reads_points
def drift(
    reference: Annotated[Path, typer.Argument(help="The file of the reference.", show_default=False)],
    current: Annotated[
        list[Path], typer.Argument(help="Files to compare with it, one per window.", show_default=False)
    ],
    reading: ReadOptions,
    report: Annotated[
        Path | None, typer.Option("--report", help="Also write a report, an HTML page that opens from disk.")
    ] = None,
    alpha: Annotated[
        float, typer.Option("--alpha", help="The level: the chance of an alarm in any window where there is no drift.")
    ] = 0.05,
    permutations: Annotated[
        int | None,
        typer.Option(
            "--permutations", help="How many permutations for each window.", show_default="999, more for many windows"
        ),
    ] = None,
    projections: Projections = 200,
    max_points: Annotated[
        int | None,
        typer.Option(
            "--max-points", help="Test at most so many points of each file, chosen at random while it is read.", min=1
        ),
    ] = None,
    p: Order = 1.0,
    seed: Seed = 0,
    weights: NoWeights = None,
    as_json: AsJson = False,
) -> None:
    """Tell whether windows of points have drifted away from a reference.

    Each window gets an exact permutation test on the Spherical Sliced-Wasserstein distance to the reference, with
    Holm's correction for the number of windows. Order 1 sees clusters that move, order 2 a change of their spread. The
    exit code is 0 without drift, 1 with drift in any window, and 2 after an error. Points must be independent: keep one
    sentence of each document, one event of each user. Windows of whole documents differ without any drift.

    This week against last month: sphereot drift month.npy week.npy

    Embeddings day by day, with a page to look at: sphereot drift reference.parquet day-*.parquet --columns embedding
    --normalize --report drift.html

    In a pipeline, on large files: sphereot drift reference.npy today.npy --max-points 20000 --json > drift.json
    """
    _reserve_buffers()
    from sphereot._support.text import printable
    from sphereot.stats import drift_test

    refuse_weights(weights, "drift")
    if report is not None:
        require_writable("--report", [report], [reference, *current])
        with names_missing_extra("plot"):  # said before the work, not after
            from sphereot.report import drift_page
    with waiting("Reading ..."):
        first, *sets = read_files([reference, *current], reading, max_points=max_points, seed=seed)
    if max_points is None:
        _note_large([first, *sets])
    points, *windows = (one.points for one in (first, *sets))
    found = drift_test(
        points, windows, labels=_labels(current), p=p, alpha=alpha, permutations=permutations,
        n_projections=projections, seed=seed, progress=True,
    )  # fmt: skip
    if report is not None:
        with waiting("Writing the report ..."):
            drift_page(
                report,
                found,
                points,
                windows,
                title=f"Drift from {reference.name}",
                columns=_named_columns(first, found.dim),
                earth=first.lonlat is not None,
                settings=_settings(seed),
            )
    if as_json:
        print_json(_record(found, first, sets, seed, report))
    else:
        typer.echo(str(found))
        dropped = sum(one.dropped for one in (first, *sets))
        if dropped:
            typer.echo(f"  {dropped} bad rows left out")
        if report is not None:
            typer.echo(f"Report: {printable(str(report))}")
    if found.drifted:
        raise typer.Exit(_DRIFT)


def _reserve_buffers() -> None:
    """Let NumPy's library of linear algebra take its buffers now, while there is memory.

    It takes them at the first product of matrices, and where it gets none it ends the process with exit code 1, which
    would mean drift.
    """
    import numpy as np

    square = np.ones((256, 256))
    square @ square


def _note_large(sets: "Sequence[PointSet]") -> None:
    largest = max(map(len, sets))
    if largest > _LARGE:
        typer.echo(f"Note: {largest} points take a while; --max-points 20000 tests a part of each file.", err=True)


def _labels(paths: Sequence[Path]) -> list[str]:
    """File names where these tell the files apart, and whole paths where not; numbered where a file comes again."""
    names = [path.name for path in paths]
    if len(set(names)) == len(names):
        return names
    names = [str(path) for path in paths]
    before = [names[:k].count(name) for k, name in enumerate(names)]
    return [f"{name} ({count + 1})" if count else name for name, count in zip(names, before, strict=True)]


def _named_columns(points: "PointSet", dim: int) -> tuple[str, ...] | None:
    """The names of the coordinates, where a file has names and not just numbers for them."""
    names = points.columns
    return None if len(names) != dim or all(name.isdigit() for name in names) else names


def _settings(seed: int) -> dict[str, str]:
    return {
        "Seed": str(seed),
        "Command": shlex.join(["sphereot", *sys.argv[1:]]),
        "Made on": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
    }


def _record(
    found: "DriftResult", first: "PointSet", sets: "Sequence[PointSet]", seed: int, report: Path | None
) -> dict[str, Any]:
    windows = [
        {
            "path": str(one.path),
            "label": window.label,
            "points": one.total,
            "points_tested": window.n,
            "dropped": one.dropped,
            "value": window.value,
            "band": list(window.band),
            "ratio": finite_or_none(window.ratio),
            "p_value": window.p_value,
            "adjusted_p_value": window.adjusted_p_value,
            "drifted": window.drifted,
            "circle": {
                "cost": window.circle.cost,
                "null_mean": window.circle.null_mean,
                "frame": window.circle.frame.tolist(),
            },
        }
        for one, window in zip(sets, found.windows, strict=True)
    ]
    return {
        "drifted": found.drifted,
        "summary": found.summary,
        "windows": windows,
        "reference": {
            "path": str(first.path),
            "points": first.total,
            "points_tested": found.n_reference,
            "dropped": first.dropped,
        },
        "alpha": found.alpha,
        "p": found.p,
        "n_projections": found.n_projections,
        "permutations": found.permutations,
        "seed": seed,
        "dim": found.dim,
        "report": None if report is None else str(report),
    }
