"""Names of columns: which stand for longitude and latitude, and their natural order."""

import re
from collections.abc import Sequence

__all__ = ["listed", "lonlat_order", "name_sky", "natural_order"]

_RIGHT_ASCENSION = {"ra", "ra_deg", "right_ascension", "raj2000", "ra_j2000"}
_LATITUDE = {
    "lat", "latitude", "y_lat", "lat_deg", "latitude_deg", "decimallatitude", "breite",
    "dec", "dec_deg", "declination", "dej2000", "dec_j2000",
}  # fmt: skip
_LONGITUDE = {
    "lon", "long", "lng", "longitude", "x_lon", "lon_deg", "longitude_deg", "decimallongitude", "laenge", "länge",
    *_RIGHT_ASCENSION,
}  # fmt: skip
_MAX_LISTED = 12


def lonlat_order(names: Sequence[str]) -> tuple[int, int] | None:
    """Indices of longitude and latitude, if exactly one name stands for each.

    >>> lonlat_order(["magnitude", "Latitude", " LONGITUDE"]), lonlat_order(["lat", "latitude", "lon"])
    ((2, 1), None)
    """
    plain = [name.strip().lower() for name in names]
    longitudes = [k for k, name in enumerate(plain) if name in _LONGITUDE]
    latitudes = [k for k, name in enumerate(plain) if name in _LATITUDE]
    return (longitudes[0], latitudes[0]) if len(longitudes) == len(latitudes) == 1 else None


def name_sky(names: Sequence[str]) -> bool:
    """Whether one of the columns is the right ascension, so that the points are on the sky."""
    return any(name.strip().lower() in _RIGHT_ASCENSION for name in names)


def natural_order(name: str) -> list[tuple[int, str]]:
    """Sort key that puts "x_2" before "x_10".

    >>> sorted(["week10", "week2", "day"], key=natural_order)
    ['day', 'week2', 'week10']
    """
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def listed(names: Sequence[str]) -> str:
    """Quoted names for a message, the first twelve of many.

    >>> listed(["a", " b"])
    "'a', 'b'"
    """
    first = ", ".join(repr(name.strip()) for name in names[:_MAX_LISTED])
    return f"{first}, ... ({len(names)} in all)" if len(names) > _MAX_LISTED else first
