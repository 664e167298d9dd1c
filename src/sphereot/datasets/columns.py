"""Which columns are the coordinates: by name, place or prefix, or by the usual names of longitude and latitude."""

import re
from collections.abc import Sequence
from pathlib import Path

from sphereot.datasets.point_file import Wanted

__all__ = ["Choice", "choose", "find", "lonlat_order"]

_LATITUDE = {"lat", "latitude", "y_lat", "lat_deg", "latitude_deg", "dec", "dec_deg", "declination"}
_LONGITUDE = {"lon", "long", "lng", "longitude", "x_lon", "lon_deg", "longitude_deg", "ra", "ra_deg"}

Choice = tuple[list[int], int | None]
"""Places of the coordinates, and of the weights if there are any."""


def choose(path: Path, names: Sequence[str], wanted: Wanted) -> Choice:
    """Places of the wanted columns among `names`.

    Examples
    --------
    >>> choose(Path("a.csv"), ["id", "x_0", "x_1", "w"], Wanted(prefix="x_", weights="w"))
    ([1, 2], 3)
    >>> choose(Path("a.csv"), ["LATITUDE", " LONGITUDE"], Wanted(lonlat=True))
    ([1, 0], None)
    """
    weights = None if wanted.weights is None else find(path, names, wanted.weights, "weights")
    if wanted.columns is not None and wanted.prefix is not None:
        raise ValueError("columns and prefix are both given; give one of them.")
    if wanted.columns is not None:
        places = [find(path, names, column, "columns") for column in wanted.columns]
        if len(set(places)) < len(places):
            raise ValueError(f"columns: one is named twice in {_listed([str(c) for c in wanted.columns])}.")
        return (_told_lonlat(path, names, places) if wanted.lonlat else places), weights
    if wanted.prefix is not None:
        places = [k for k, name in enumerate(names) if name.strip().startswith(wanted.prefix) and k != weights]
        if not places:
            raise ValueError(f"{path}: no column begins with {wanted.prefix!r}; there are {_listed(names)}.")
        # By number where the names have one, so that files with columns in another order agree.
        places.sort(key=lambda k: _natural(names[k].strip()))
        return (_told_lonlat(path, names, places) if wanted.lonlat else places), weights
    if wanted.lonlat:
        return _found_lonlat(path, names, weights), weights
    places = [k for k in range(len(names)) if k != weights]
    if len(places) == 2 and lonlat_order([names[k] for k in places]) is not None:
        raise ValueError(
            f"{path}: the columns {_listed(names)} look like longitudes and latitudes; pass lonlat=True (--lonlat), or "
            "name the columns."
        )
    return places, weights


def find(path: Path, names: Sequence[str], column: str | int, argument: str) -> int:
    """The place of one column: by its name, blanks around it aside, or by its number counted from 0."""
    stripped = [name.strip() for name in names]
    if isinstance(column, str) and column.strip() in stripped:
        return stripped.index(column.strip())
    if isinstance(column, int) or re.fullmatch(r"\d+", column.strip()):
        number = int(column)
        if 0 <= number < len(names):
            return number
    raise ValueError(f"{path}: {argument}: there is no column {column!r}; there are {_listed(names)}.")


def lonlat_order(names: Sequence[str]) -> tuple[int, int] | None:
    """Places of longitude and latitude, if exactly one name says each."""
    plain = [name.strip().lower() for name in names]
    longitudes = [k for k, name in enumerate(plain) if name in _LONGITUDE]
    latitudes = [k for k, name in enumerate(plain) if name in _LATITUDE]
    return (longitudes[0], latitudes[0]) if len(longitudes) == len(latitudes) == 1 else None


def _told_lonlat(path: Path, names: Sequence[str], places: list[int]) -> list[int]:
    if len(places) != 2:
        raise ValueError(
            f"{path}: lonlat needs two columns, longitude and latitude in this order, but {len(places)} are named."
        )
    order = lonlat_order([names[k] for k in places])  # names that speak for themselves may come in any order
    return places if order is None else [places[order[0]], places[order[1]]]


def _found_lonlat(path: Path, names: Sequence[str], weights: int | None) -> list[int]:
    order = lonlat_order(["" if k == weights else name for k, name in enumerate(names)])
    if order is not None:
        return list(order)
    rest = [k for k in range(len(names)) if k != weights]
    if len(rest) == 2 and all(re.fullmatch(r"\d+", names[k]) for k in rest):
        return rest  # columns without names: longitude, latitude
    raise ValueError(
        f"{path}: which columns are longitude and latitude? There are {_listed(names)}; name the two, longitude first, "
        "with columns (--columns)."
    )


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name.strip()) for name in names[:12])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > 12 else shown
