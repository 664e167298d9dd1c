"""Labels of points from a column of a file: keys and groups of sketches."""

from typing import Any

__all__ = ["texts"]


def texts(batch: Any, column: str) -> list[str]:
    """The values of a column as text; an error if one is missing."""
    labels = batch.labels[column].tolist()
    missing = sum(label is None for label in labels)
    if missing:
        raise ValueError(f"{batch.path}: {missing} rows of a part hold no value in {column!r}; fill them in first.")
    return [str(label) for label in labels]
