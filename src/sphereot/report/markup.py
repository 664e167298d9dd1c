"""HTML of names of data and of distances."""

import html

from sphereot._support.text import printable, shortened

__all__ = ["cost_markup", "data_name", "distance_markup", "distance_name", "legend"]

_MAX_LENGTH = 120  # characters


def data_name(label: str) -> str:
    """HTML of a label of the data: escaped, isolated from the text direction around it, shortened if very long."""
    label = printable(label)
    text = html.escape(shortened(label, _MAX_LENGTH))
    whole = f' title="{html.escape(label)}"' if len(label) > _MAX_LENGTH else ""
    return f"<bdi{whole}>{text}</bdi>"


def legend(*entries: tuple[str, str]) -> str:
    """HTML of the legend of a chart, above its caption: kinds of marks, with what they mean in HTML.

    >>> legend(("reference", "reference"))
    '<p class="legend"><span><span class="key key-reference"></span> reference</span></p>'
    """
    spans = [f'<span><span class="key key-{kind}"></span> {meaning}' for kind, meaning in entries]
    return f'<p class="legend">{"</span> ".join(spans)}</span></p>'


def distance_name(p: float) -> str:
    """Name of the distance without markup, for charts and screen readers.

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
    """HTML of the name of the distance to the power p; no power for p = 1.

    >>> cost_markup(1), cost_markup(2, "W")
    ('SSW<sub>1</sub>', 'W<sub>2</sub><sup>2</sup>')
    """
    power = "" if p == 1 else f"<sup>{p:g}</sup>"
    return f"{distance_markup(p, name)}{power}"
