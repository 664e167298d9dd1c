"""Labels of points from a column of a file: keys and groups."""

from typing import Any

from sphereot._arrays.validation import require_labels

__all__ = ["texts"]


def texts(batch: Any, column: str) -> list[str]:
    """The values of a column as text; an error if one is missing."""
    require_labels(f"{batch.path}: column {column!r}", batch.labels[column])
    return [str(label) for label in batch.labels[column].tolist()]
