"""Text for terminals and pages: printable and short labels, plurals, names and units of SSW_p^p."""

import re

__all__ = ["cost_name", "cost_unit", "p_value_text", "plural", "printable", "shortened", "typeset"]

_SUBSCRIPTS, _SUPERSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"), str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_INDEXED = re.compile(r"\b(SSW)_(\d+)(?:\^(\d+))?(?![\d.]*\d)|\b(turns)\^(\d+)(?![\d.]*\d)")


def cost_name(p: float) -> str:
    """Name of SSW_p^p.

    >>> cost_name(1), cost_name(2.0), cost_name(1.5)
    ('SSW_1', 'SSW_2^2', 'SSW_1.5^1.5')
    """
    return "SSW_1" if p == 1 else f"SSW_{p:g}^{p:g}"


def cost_unit(p: float) -> str:
    """Unit of SSW_p^p.

    >>> cost_unit(1), cost_unit(2.0), cost_unit(1.5)
    ('turns', 'turns^2', 'turns^1.5')
    """
    return "turns" if p == 1 else f"turns^{p:g}"


def typeset(text: str) -> str:
    """Indices and exponents of distances as subscripts and superscripts; orders with a decimal point stay as they are.

    >>> typeset("SSW_1, SSW_2^2 in turns^2 and SSW_1.5^1.5 in turns^1.5.")
    'SSW₁, SSW₂² in turns² and SSW_1.5^1.5 in turns^1.5.'
    """

    def typeset_name(match: re.Match[str]) -> str:
        name, index, power, unit, exponent = match.groups("")
        raised_power, raised_exponent = power.translate(_SUPERSCRIPTS), exponent.translate(_SUPERSCRIPTS)
        return name + index.translate(_SUBSCRIPTS) + raised_power + unit + raised_exponent

    return _INDEXED.sub(typeset_name, text)


def p_value_text(p_value: float) -> str:
    """A p-value with four digits; below the smallest that is worth telling, a bound.

    >>> p_value_text(0.0412345), p_value_text(5e-324)
    ('0.04123', '< 1e-300')
    """
    return "< 1e-300" if p_value < 1e-300 else f"{p_value:.4g}"


def plural(n: int, noun: str) -> str:
    """A count with its noun, which gets an "s" unless the count is 1.

    >>> plural(1, "row"), plural(0, "row"), plural(1234, "point")
    ('1 row', '0 rows', '1,234 points')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def printable(label: str) -> str:
    """Replace characters that a terminal or a UTF-8 file cannot show; file names may hold any bytes."""
    valid = label.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join("\ufffd" if ord(c) < 32 or 127 <= ord(c) < 160 else c for c in valid)


def shortened(text: str, max_length: int = 60) -> str:
    """Cut the middle out of a text longer than `max_length` characters.

    >>> shortened("embeddings-of-monday.npy", 11)
    'embed….npy'
    """
    if len(text) <= max_length:
        return text
    half = max_length // 2
    return f"{text[:half]}…{text[len(text) - half + 1 :]}"
