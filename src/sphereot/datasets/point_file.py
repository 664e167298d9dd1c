"""What the readers of all file formats share: the selection of columns, an opened file, batches of its rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Batch", "PointFile", "Selection", "default_batch_rows", "no_quote", "require_plausible_size"]

_BATCH_VALUES = 1 << 22
_ALWAYS_ALLOWED_BYTES = 1 << 28
_MAX_COMPRESSION = 100  # distinct numbers do not compress to a hundredth


def default_batch_rows(width: int) -> int:
    """Default number of rows per batch: 32 MB in double precision for rows of `width` numbers."""
    return max(_BATCH_VALUES // max(width, 1), 1)


@dataclass(frozen=True)
class Selection:
    """Which numbers of a file to read: the arguments of `read_points` of the same names."""

    columns: tuple[str | int, ...] | None = None
    prefix: str | None = None
    key: str | None = None
    weights: str | int | None = None
    lonlat: bool = False
    normalize: bool = False
    batch_rows: int | None = None
    in_parts: bool = False  # the caller does not keep all rows, so that reading should need little memory
    labels: tuple[str, ...] = ()

    def rows_per_batch(self, width: int) -> int:
        """Number of rows per batch, for rows of `width` numbers: `batch_rows`, or 32 MB."""
        return self.batch_rows or default_batch_rows(width)


@dataclass(frozen=True)
class Batch:
    """Some rows of a file: `values` (n, k), with NaN for what is missing or no number; `weights` (n,) if selected.

    `labels` are columns of text, (n,) each, by name, if selected. `rows` are their row numbers in the file, counted
    from 0; blank lines are counted, but give no row.
    """

    values: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any] | None
    rows: Sequence[int] | np.ndarray[Any, Any]
    labels: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)


def no_quote(row: int, column: int) -> str | None:
    """`PointFile.quote` of binary files, which have no text to quote."""
    return None


def require_plausible_size(path: Path, name: str, declared: int, stored: int) -> None:
    """Raise if a file declares far more data than it stores, as files made to exhaust memory do."""
    if declared > max(_ALWAYS_ALLOWED_BYTES, _MAX_COMPRESSION * stored):
        raise ValueError(
            f"{path}: {name} takes {declared / 1e6:,.0f} MB in memory, more than {_MAX_COMPRESSION} times its "
            f"{stored / 1e6:,.3f} MB in the file, which may be made to exhaust memory; if it is right, read it in "
            "parts with iter_points or max_points (--max-points), or save it as .npy."
        )


@dataclass(frozen=True)
class PointFile:
    """An opened file of points.

    Attributes
    ----------
    path : Path
    columns : tuple of str
        Names of the coordinates; longitude before latitude if `lonlat`.
    lonlat : bool
        Whether the coordinates are longitude and latitude in degrees.
    batches : callable () -> iterator of Batch
    locate : callable (row) -> str
        Location of a row, counted from 0, for messages: "line 17", "row 15", "feature 15".
    quote : callable (row, column) -> str or None
        The text of a value in the file, None for binary files; the weights are column -1.
    whole : array or None
        All values, if the file is mapped to memory and they can be used unchanged.
    weights_name : str
    nan_message : str
        What is wrong with a row that holds NaN, if there is no text to quote.
    """

    path: Path
    columns: tuple[str, ...]
    lonlat: bool
    batches: Callable[[], Iterator[Batch]]
    locate: Callable[[int], str]
    quote: Callable[[int, int], str | None] = no_quote
    whole: np.ndarray[Any, Any] | None = None
    weights_name: str = "weights"
    nan_message: str = "holds NaN or infinity"
