"""Text for terminals and pages: names and units of distances, plurals, labels; names of columns and their order."""

import re
from collections.abc import Sequence

_SUBSCRIPTS, _SUPERSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"), str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_INDEXED = re.compile(r"\b(SSW)_(\d+)(?:\^(\d+))?(?![\d.]*\d)|\b(turns)\^(\d+)(?![\d.]*\d)")
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
_SYSTEMS = (_LONGITUDE, _LATITUDE), _GALACTIC, _ECLIPTIC  # in order of priority: a catalog may have several
_MAX_LISTED = 12


def cost_name(p: float) -> str:
    """Return the name of SSW_p^p.

    >>> cost_name(1), cost_name(2.0), cost_name(1.5)
    ('SSW_1', 'SSW_2^2', 'SSW_1.5^1.5')
    """
    return "SSW_1" if p == 1 else f"SSW_{p:g}^{p:g}"


def cost_unit(p: float) -> str:
    """Return the unit of SSW_p^p.

    >>> cost_unit(1), cost_unit(2.0), cost_unit(1.5)
    ('turns', 'turns^2', 'turns^1.5')
    """
    return "turns" if p == 1 else f"turns^{p:g}"


def typeset(text: str) -> str:
    """Write the indices and exponents of distances as subscripts and superscripts, except orders with a decimal point.

    >>> typeset("SSW_1, SSW_2^2 in turns^2 and SSW_1.5^1.5 in turns^1.5.")
    'SSW₁, SSW₂² in turns² and SSW_1.5^1.5 in turns^1.5.'
    """

    def typeset_name(match: re.Match[str]) -> str:
        name, index, power, unit, exponent = match.groups("")
        raised_power, raised_exponent = power.translate(_SUPERSCRIPTS), exponent.translate(_SUPERSCRIPTS)
        return name + index.translate(_SUBSCRIPTS) + raised_power + unit + raised_exponent

    return _INDEXED.sub(typeset_name, text)


def p_value_text(p_value: float) -> str:
    """Format a p-value with four digits, or as a bound if it is tiny.

    >>> p_value_text(0.0412345), p_value_text(5e-324)
    ('0.04123', '< 1e-300')
    """
    return "< 1e-300" if p_value < 1e-300 else f"{p_value:.4g}"


def plural(n: int, noun: str) -> str:
    """Format a count with its noun, which gets an "s" unless the count is 1.

    >>> plural(1, "row"), plural(0, "row"), plural(1234, "point")
    ('1 row', '0 rows', '1,234 points')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def printable(label: str) -> str:
    """Replace characters that a terminal or a UTF-8 file cannot show; file names may hold any bytes."""
    valid = label.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join("\ufffd" if ord(c) < 32 or 127 <= ord(c) < 160 else c for c in valid)


def shorten(text: str, max_length: int = 60) -> str:
    """Cut the middle out of a text longer than `max_length` characters.

    >>> shorten("embeddings-of-monday.npy", 11)
    'embed….npy'
    """
    if len(text) <= max_length:
        return text
    half = max_length // 2
    return f"{text[:half]}…{text[len(text) - half + 1 :]}"


def lonlat_order(names: Sequence[str]) -> tuple[int, int] | None:
    """Find longitude and latitude: their indices, or None unless exactly one name stands for each.

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
    """Return whether a column is a longitude on the sky: right ascension, galactic or ecliptic longitude."""
    return any(name.strip().lower() in _RIGHT_ASCENSION | _GALACTIC[0] | _ECLIPTIC[0] for name in names)


def natural_order(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts "x_2" before "x_10".

    >>> sorted(["week10", "week2", "day"], key=natural_order)
    ['day', 'week2', 'week10']
    """
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def listed(names: Sequence[str]) -> str:
    """Quote names for a message: at most the first twelve.

    >>> listed(["a", " b"])
    "'a', 'b'"
    """
    first = ", ".join(repr(name.strip()) for name in names[:_MAX_LISTED])
    return f"{first}, ... ({len(names)} in total)" if len(names) > _MAX_LISTED else first
