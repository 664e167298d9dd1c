"""Names that come with data, fit for a terminal and a page."""

__all__ = ["printable", "shortened"]


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
