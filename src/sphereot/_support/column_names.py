"""Names of columns: which stand for longitude and latitude, and their natural order."""

import re
from collections.abc import Sequence

__all__ = ["listed", "lonlat_order", "name_sky", "natural_order"]

_RIGHT_ASCENSION = {"ra", "ra_deg", "right_ascension", "raj2000", "ra_j2000", "_raj2000", "ra_icrs"}
_LATITUDE = {
    "lat", "latitude", "y_lat", "lat_deg", "latitude_deg", "decimallatitude", "breite",
    "dec", "dec_deg", "declination", "dej2000", "dec_j2000", "_dej2000", "de_icrs",
}  # fmt: skip
_LONGITUDE = {
    "lon", "long", "lng", "longitude", "x_lon", "lon_deg", "longitude_deg", "decimallongitude", "laenge", "länge",
    *_RIGHT_ASCENSION,
}  # fmt: skip
_GALACTIC = {"glon", "gal_lon", "l"}, {"glat", "gal_lat", "b"}
_ECLIPTIC = {"elon", "ecl_lon"}, {"elat", "ecl_lat"}
_SYSTEMS = (_LONGITUDE, _LATITUDE), _GALACTIC, _ECLIPTIC  # catalogs may have several: the first that is complete counts
_MAX_LISTED = 12


def lonlat_order(names: Sequence[str]) -> tuple[int, int] | None:
    """Indices of longitude and latitude, if exactly one name stands for each.

    >>> lonlat_order(["magnitude", "Latitude", " LONGITUDE"]), lonlat_order(["lat", "latitude", "lon"])
    ((2, 1), None)
    >>> lonlat_order(["GLAT", "GLON"]), lonlat_order(["l", "b", "ra", "dec"])
    ((1, 0), (2, 3))
    """
    plain = [name.strip().lower() for name in names]
    if {"l", "a", "b"} <= set(plain):  # a color space
        plain = ["" if name in {"l", "b"} else name for name in plain]
    for of_longitude, of_latitude in _SYSTEMS:
        longitudes = [k for k, name in enumerate(plain) if name in of_longitude]
        latitudes = [k for k, name in enumerate(plain) if name in of_latitude]
        if longitudes and latitudes:
            return (longitudes[0], latitudes[0]) if len(longitudes) == len(latitudes) == 1 else None
    return None


def name_sky(names: Sequence[str]) -> bool:
    """Whether one of the columns is a longitude on the sky: right ascension, galactic or ecliptic longitude."""
    return any(name.strip().lower() in _RIGHT_ASCENSION | _GALACTIC[0] | _ECLIPTIC[0] for name in names)


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
