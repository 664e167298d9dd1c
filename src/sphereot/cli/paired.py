"""`sphereot paired`: compare the same rows before and after a change of the model that embeds them."""

import shlex
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sphereot._support.text import listed, plural, printable, shorten
from sphereot.cli import files as reader
from sphereot.cli import options as opt
from sphereot.cli import show

if TYPE_CHECKING:
    from sphereot.datasets import PointSet

_COUNT = 20  # rows that moved most, or that only one file has, in JSON
_SHOWN = 5  # rows that moved most, as text


@show.command()
def paired(
    before: Annotated[Path, typer.Argument(help=f"Points before the change: {opt.SAMPLE}.")],
    after: Annotated[Path, typer.Argument(help="Points of the same rows after the change, in the same form.")],
    reading: opt.UnweightedReadOptions,
    identifier: Annotated[
        str | None, typer.Option("--id", help="Column of identifiers. Without it, rows are matched by their numbers.")
    ] = None,
    max_angle: Annotated[
        float | None, typer.Option(help="Limit of the angle between both points of a row, in degrees.")
    ] = None,
    allowed: Annotated[float, typer.Option(help="Share of rows that may be beyond --max-angle.")] = 0.0,
    neighbors: Annotated[int, typer.Option(help="Number of nearest neighbors to compare.")] = 10,
    permutations: Annotated[int, typer.Option(help="Number of random exchanges within the pairs.")] = 999,
    projections: opt.Projections = 200,
    groups: opt.Groups = None,
    report: opt.Report = None,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
) -> None:
    """Compare the same rows, such as texts, in two models or two builds of a model.

    The output shows the angles between both points of the rows, how much of the change is a rotation of all points,
    how many of the nearest neighbors are the same, and a permutation test for a change of the distribution. Points of
    different dimensions are compared by their nearest neighbors only.

    Exit codes: 0 within the limit or without one, 3 more rows than --allowed are beyond --max-angle, 2 error.

    Compare two models on the same texts:
        sphereot paired before.parquet after.parquet --id text --columns embedding

    Allow one row of a thousand to move by more than 2 degrees, and write a report:
        sphereot paired before.npy after.npy --max-angle 2 --allowed 0.001 --report paired.html
    """
    from sphereot.stats import paired_test

    if report is not None:
        show.require_writable("--report", [report], [before, after])
        from sphereot.report import paired_page  # an error here, before the work, if a package is missing
    columns = tuple(dict.fromkeys(name for name in (identifier, groups) if name is not None))
    sets = reader.read_files([before, after], reading, labels=columns, same_dim=False)
    old, new = (_places(points, identifier) for points in sets)
    names = [name for name in old if name in new]
    alone = [(before, [name for name in old if name not in new]), (after, [name for name in new if name not in old])]
    dropped = sum(points.dropped for points in sets)
    if not names or (identifier is None and dropped < sum(len(rest) for _, rest in alone)):
        sizes = " and ".join(plural(len(points), "row") for points in sets)
        raise ValueError(f"{before} and {after}: the rows do not match ({sizes}). Match them by a column with --id.")
    rows = [old[name] for name in names]
    labels = [] if groups is None else reader.read_labels(sets[0], groups)
    result = paired_test(
        sets[0].points[rows], sets[1].points[[new[name] for name in names]], max_angle=max_angle, allowed=allowed,
        neighbors=neighbors, permutations=permutations, n_projections=projections,
        groups=None if groups is None else [labels[row] for row in rows],
        seed=seed, progress=True,
    )  # fmt: skip
    if report is not None:
        now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
        settings = {"Seed": str(seed), "Command": shlex.join(["sphereot", *sys.argv[1:]]), "Made on": now}
        paired_page(report, result, title=f"{before.name} and {after.name}", names=names, settings=settings)
    moved = [(names[row], angle) for row, angle in result.moved(_COUNT)]
    if as_json:
        record = result.as_record() | {"moved": [{"id": name, "angle": angle} for name, angle in moved]}
        only = [{"path": str(path), "rows": len(rest), "first": rest[:_COUNT]} for path, rest in alone]
        show.print_json({**record, "unmatched": only, "seed": seed, "report": None if report is None else str(report)})
    else:
        typer.echo(show.for_reader(str(result)))
        if moved:
            most = (f"{shorten(printable(name))} ({angle:.3g})" for name, angle in moved[:_SHOWN])
            typer.echo(f"  moved most  {', '.join(most)}")
        for path, rest in alone:
            if rest:
                typer.echo(printable(f"  {plural(len(rest), 'row')} only in {path}: {listed([*map(shorten, rest)])}"))
        if report is not None:
            typer.echo(f"Report: {printable(str(report))}")
    if result.exceeded:
        raise typer.Exit(show.EXIT_DRIFT)


def _places(points: "PointSet", identifier: str | None) -> dict[str, int]:
    """Return the place of each point by its identifier, or by the number of its row in the file."""
    if identifier is None:
        numbers = range(len(points)) if points.rows is None else points.rows
        return {f"row {number}": k for k, number in enumerate(numbers)}
    names = reader.read_labels(points, identifier)
    places = {name: k for k, name in enumerate(names)}
    if len(places) < len(names):
        name, count = Counter(names).most_common(1)[0]
        raise ValueError(
            f"{points.path}: the identifier {name!r} in column {identifier!r} occurs {count} times, but must be "
            "unique. Remove repeated rows, or name another column with --id."
        )
    return places
