"""How the report writes names and distances."""

import html

from sphereot._support.text import printable, shortened

__all__ = ["cost_markup", "data_name", "distance", "distance_markup", "distance_name"]

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
    """What the distance is called where there is no markup: in charts, and for readers who hear the page.

    >>> distance_name(2), distance_name(1.5)
    ('SSW₂', 'SSW₁.₅')
    """
    return "SSW" + f"{p:g}".translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def distance_markup(p: float, name: str = "SSW") -> str:
    """HTML of the name of the distance.

    >>> distance_markup(2)
    'SSW<sub>2</sub>'
    """
    return f"{name}<sub>{p:g}</sub>"


def cost_markup(p: float, name: str = "SSW") -> str:
    """HTML of the name of the distance to the power p, which p = 1 leaves out.

    >>> cost_markup(1), cost_markup(2, "W")
    ('SSW<sub>1</sub>', 'W<sub>2</sub><sup>2</sup>')
    """
    power = "" if p == 1 else f"<sup>{p:g}</sup>"
    return f"{distance_markup(p, name)}{power}"
