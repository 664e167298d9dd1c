"""Names that come with data, fit for a terminal and a page."""

__all__ = ["cost_name", "cost_unit", "printable", "shortened"]


def cost_name(p: float) -> str:
    """What SSW_p^p is called.

    >>> cost_name(1), cost_name(2.0), cost_name(1.5)
    ('SSW_1', 'SSW_2^2', 'SSW_1.5^1.5')
    """
    return "SSW_1" if p == 1 else f"SSW_{p:g}^{p:g}"


def cost_unit(p: float) -> str:
    """The unit of SSW_p^p.

    >>> cost_unit(1), cost_unit(2.0), cost_unit(1.5)
    ('turns', 'turns^2', 'turns^1.5')
    """
    return "turns" if p == 1 else f"turns^{p:g}"


def printable(label: str) -> str:
    """The label as a terminal and a file in UTF-8 can take it: file names may hold any bytes."""
    known = label.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join("\ufffd" if ord(c) < 32 or 127 <= ord(c) < 160 else c for c in known)


def shortened(text: str, most: int = 60) -> str:
    """A text of at most so many characters: a longer one loses its middle.

    >>> shortened("embeddings-of-monday.npy", 11)
    'embed….npy'
    """
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[len(text) - most // 2 + 1 :]}"
