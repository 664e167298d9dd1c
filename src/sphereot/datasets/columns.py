"""Which columns hold the coordinates: by name, number or prefix, or by the usual names of longitude and latitude."""

import re
from collections.abc import Sequence
from pathlib import Path

from sphereot._support.column_names import listed, lonlat_order, natural_order
from sphereot._support.text import plural
from sphereot.datasets.addresses import partition_keys
from sphereot.datasets.point_file import Selection

__all__ = ["LABEL_OPTIONS", "Choice", "choose", "find", "find_label"]

LABEL_OPTIONS = "--time, --by, --groups or --id"
"""The options of commands that name columns of text."""

Choice = tuple[list[int], int | None]
"""Column indices of the coordinates, and that of the weights if there are any."""


def choose(path: Path, names: Sequence[str], selection: Selection) -> Choice:
    """Indices of the selected columns among `names`, and that of the weights.

    Examples
    --------
    >>> choose(Path("a.csv"), ["id", "x_0", "x_1", "w"], Selection(prefix="x_", weights="w"))
    ([1, 2], 3)
    >>> choose(Path("a.csv"), ["LATITUDE", " LONGITUDE"], Selection(lonlat=True))
    ([1, 0], None)
    """
    weights = None if selection.weights is None else find(path, names, selection.weights, "weights")
    if selection.columns is not None and selection.prefix is not None:
        raise ValueError("columns, prefix: got both; give one of them.")
    if selection.columns is not None:
        indices = [find(path, names, column, "columns") for column in selection.columns]
        if len(set(indices)) < len(indices):
            raise ValueError(
                f"columns: got a column twice in {listed([str(c) for c in selection.columns])}; name each once."
            )
        return (_named_lonlat(path, names, indices) if selection.lonlat else indices), weights
    if selection.prefix is not None:
        indices = [k for k, name in enumerate(names) if name.strip().startswith(selection.prefix) and k != weights]
        if not indices:
            raise ValueError(f"{path}: no column begins with {selection.prefix!r}; there are {listed(names)}.")
        # By the numbers in the names, so that files with columns in another order agree.
        indices.sort(key=lambda k: natural_order(names[k].strip()))
        return (_named_lonlat(path, names, indices) if selection.lonlat else indices), weights
    if selection.lonlat:
        return _detected_lonlat(path, names, weights), weights
    labels = [find_label(path, names, label) for label in selection.labels]
    indices = [k for k in range(len(names)) if k != weights and k not in labels]
    order = lonlat_order([names[k] for k in indices])
    if order is not None:
        longitude, latitude = (names[indices[k]].strip() for k in order)
        raise ValueError(
            f"{path}: the columns {longitude!r} and {latitude!r} look like longitudes and latitudes; pass lonlat=True "
            "(--lonlat), or name the columns of the coordinates."
        )
    return indices, weights


def find(path: Path, names: Sequence[str], column: str | int, argument: str) -> int:
    """Index of a column, by its name (without blanks around it) or by its number counted from 0."""
    index = _index(names, column)
    if index is not None:
        return index
    remedy = "; for a file without weights give - (--weights)" if argument == "weights" else ""
    raise ValueError(f"{path}: {argument}: there is no column {column!r}; there are {listed(names)}{remedy}.")


def find_label(path: Path, names: Sequence[str], label: str) -> int | None:
    """Index of a column of text; None if it is a key of the partition instead, as `day` in day=2026-03-01/a.parquet."""
    index = _index(names, label)
    keys = partition_keys(path)
    if index is None and label not in keys:
        there = listed([*names, *keys])
        raise ValueError(f"{path}: there is no column {label!r} (of {LABEL_OPTIONS}); there are {there}.")
    return index


def _index(names: Sequence[str], column: str | int) -> int | None:
    stripped = [name.strip() for name in names]
    if isinstance(column, str) and column.strip() in stripped:
        return stripped.index(column.strip())
    if isinstance(column, int) or re.fullmatch(r"\d+", column.strip()):
        number = int(column)
        if 0 <= number < len(names):
            return number
    return None


def _named_lonlat(path: Path, names: Sequence[str], indices: list[int]) -> list[int]:
    if len(indices) != 2:
        raise ValueError(
            f"{path}: lonlat: got {plural(len(indices), 'column')}; name two, longitude and latitude in this order."
        )
    order = lonlat_order([names[k] for k in indices])  # columns with the usual names may come in any order
    return indices if order is None else [indices[order[0]], indices[order[1]]]


def _detected_lonlat(path: Path, names: Sequence[str], weights: int | None) -> list[int]:
    order = lonlat_order(["" if k == weights else name for k, name in enumerate(names)])
    if order is not None:
        return list(order)
    rest = [k for k in range(len(names)) if k != weights]
    if len(rest) == 2 and all(re.fullmatch(r"\d+", names[k]) for k in rest):
        return rest  # columns without names are longitude, latitude
    raise ValueError(
        f"{path}: got the columns {listed(names)}, but which are longitude and latitude is not clear; name the two, "
        "longitude first, with columns (--columns)."
    )
