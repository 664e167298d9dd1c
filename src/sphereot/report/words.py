"""How the report writes names and distances."""

import html

from sphereot.stats._labels import printable, shortened

__all__ = ["data_name", "distance", "distance_name"]

_LONGEST = 120


def data_name(label: str) -> str:
    """HTML of a name that came with the data: escaped, kept from turning the text around it, cut if very long."""
    label = printable(label)
    shown = html.escape(shortened(label, _LONGEST))
    whole = f' title="{html.escape(label)}"' if len(label) > _LONGEST else ""
    return f"<bdi{whole}>{shown}</bdi>"


def distance(value: float, p: float) -> float:
    """SSW_p in turns, of SSW_p^p."""
    return float(max(value, 0.0) ** (1 / p))


def distance_name(p: float) -> str:
    """What the distance is called in the report.

    >>> distance_name(2)
    'SSW₂'
    """
    digits = f"{p:g}"
    return f"SSW{digits.translate(str.maketrans('0123456789', '₀₁₂₃₄₅₆₇₈₉'))}" if digits.isdigit() else f"SSW_{digits}"
