"""Windows of time from a column of the files: the options of commands, and the points of each window."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from sphereot.cli.labels import texts

if TYPE_CHECKING:
    from sphereot.datasets import PointSet

__all__ = ["LOCATION", "Every", "Time", "divide_by_time", "periods", "require_both"]

LOCATION = "location of the row"
"""Label of the points of windows: the row in its file, counted from 0."""

Time = Annotated[
    str | None,
    typer.Option(
        "--time", help="Column with the time of each point: one window per --every, from all files.", show_default=False
    ),
]
Every = Annotated[
    str | None,
    typer.Option(
        "--every", help="With --time: hour, day, week (from Monday), month, quarter or year.", show_default=False
    ),
]


def require_both(time: str | None, every: str | None) -> None:
    """Raise unless both options are given, or neither."""
    if time is not None and every is None:
        raise ValueError("--time: needs the length of a window; give --every hour, day, week, month, quarter or year.")
    if every is not None and time is None:
        raise ValueError("--every: needs the column of the times; give it with --time.")


def periods(points: "PointSet", time: str, every: str) -> list[str]:
    """The name of the hour, day, week, month, quarter or year of every point."""
    from sphereot.datasets.time_windows import period_labels

    try:
        labels: list[str] = period_labels(texts(points, time), every).tolist()
    except ValueError as error:
        message = str(error)
        remedy = message.replace("times:", f"{points.path}: column {time!r},").replace("every:", "--every:")
        raise ValueError(remedy) from error
    return labels


def divide_by_time(
    reference: "PointSet", sets: "Sequence[PointSet]", time: str, every: str
) -> "tuple[PointSet, list[PointSet], list[str]]":
    """The reference, the windows in the order of time, and their names.

    Without other files the first period of the reference's file is the reference, and the others are the windows.
    """
    windows = _windows_by_time(sets or [reference], time, every)
    if not sets:
        (_, first), *windows = windows
        if not windows:
            raise ValueError(f"--every: all points are of one {every}; choose a shorter time, or give a reference.")
        reference = replace(first, dropped=reference.dropped)
    return reference, [points for _, points in windows], [name for name, _ in windows]


def _windows_by_time(sets: "Sequence[PointSet]", time: str, every: str) -> "list[tuple[str, PointSet]]":
    """The points of each period, in the order of time, with its name; a period may have points of several files.

    Points have the label `LOCATION` besides their own, and the numbers of their rows in the files.
    """
    import numpy as np

    located = len(sets) > 1
    numbers = [np.arange(len(points)) if points.rows is None else np.asarray(points.rows) for points in sets]
    labels = [np.array(periods(points, time, every)) for points in sets]
    windows = []
    for name in sorted(set(np.concatenate(labels).tolist())):
        rows = [np.flatnonzero(label == name) for label in labels]
        parts = [(points, chosen) for points, chosen in zip(sets, rows, strict=True) if chosen.size]
        in_files = [
            (points, number[chosen]) for points, number, chosen in zip(sets, numbers, rows, strict=True) if chosen.size
        ]
        first, _ = parts[0]
        window = replace(
            first,
            points=np.concatenate([points.points[chosen] for points, chosen in parts]),
            lonlat=None
            if first.lonlat is None
            else np.concatenate([points.lonlat[chosen] for points, chosen in parts if points.lonlat is not None]),
            labels={
                LOCATION: np.array(
                    [
                        f"row {row} of {points.path.name}" if located else f"row {row}"
                        for points, chosen in in_files
                        for row in chosen
                    ]
                ),
                **{
                    column: np.concatenate([points.labels[column][chosen] for points, chosen in parts])
                    for column in first.labels
                },
            },
            dropped=0,  # of the file, not of the period
            total=sum(len(chosen) for _, chosen in parts),
            rows=np.concatenate([chosen for _, chosen in in_files]),
        )
        windows.append((str(name), window))
    return windows
