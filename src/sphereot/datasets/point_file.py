"""What every file format gives: rows of numbers on their way to points, and how to say where a row stands."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Batch", "Source", "Wanted", "default_rows", "no_quote", "require_in_proportion"]

_BATCH_VALUES = 1 << 22
_HARMLESS_BYTES, _MOST_TIMES = 1 << 28, 100  # numbers that differ do not compress to a hundredth


def default_rows(width: int) -> int:
    """Rows of `width` numbers that are 32 MB in double precision."""
    return max(_BATCH_VALUES // max(width, 1), 1)


@dataclass(frozen=True)
class Wanted:
    """Which numbers of a file are asked for; the arguments of `read_points` of the same names."""

    columns: tuple[str | int, ...] | None = None
    prefix: str | None = None
    key: str | None = None
    weights: str | int | None = None
    lonlat: bool = False
    normalize: bool = False
    batch_rows: int | None = None
    in_parts: bool = False  # rows are not all held, so that reading should need little memory

    def rows_of(self, width: int) -> int:
        """Rows to read at a time, for rows of `width` numbers: 32 MB of them unless told."""
        return self.batch_rows or default_rows(width)


@dataclass(frozen=True)
class Batch:
    """Some rows: `values` (n, k), with NaN for what is missing or no number; `weights` (n,) if asked for.

    `rows` are their numbers in the file, counted from 0; blank lines have numbers too, but give no row.
    """

    values: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any] | None
    rows: Sequence[int] | np.ndarray[Any, Any]


def no_quote(row: int, column: int) -> str | None:
    """What `Source.quote` is where a file has no text to show."""
    return None


def require_in_proportion(path: Path, name: str, declared: int, stored: int) -> None:
    """Raise where a few bytes of a file declare so many in memory that the file may be made to exhaust it."""
    if declared > max(_HARMLESS_BYTES, _MOST_TIMES * stored):
        raise ValueError(
            f"{path}: {name} takes {declared / 1e6:,.0f} MB in memory, more than {_MOST_TIMES} times its "
            f"{stored / 1e6:,.3f} MB in the file, which may be made to exhaust memory; if it is right, read it in "
            "parts with iter_points or max_points (--max-points), or save it as .npy."
        )


@dataclass(frozen=True)
class Source:
    """An opened file of points.

    Attributes
    ----------
    path : Path
    columns : tuple of str
        Names of the coordinates; longitude before latitude if `lonlat`.
    lonlat : bool
        Whether the coordinates are degrees.
    batches : callable () -> iterator of Batch
    locate : callable (row) -> str
        Where a row, counted from 0, stands: "line 17", "row 15", "feature 15".
    quote : callable (row, column) -> str or None
        The text of a value as the file has it, None where there is no text; the weights are column -1.
    whole : array or None
        All values, where the file is mapped to memory and can be used as it is.
    weights_name : str
    absent : str
        What is wrong with a row that has NaN in it, where there is no text to quote.
    """

    path: Path
    columns: tuple[str, ...]
    lonlat: bool
    batches: Callable[[], Iterator[Batch]]
    locate: Callable[[int], str]
    quote: Callable[[int, int], str | None] = no_quote
    whole: np.ndarray[Any, Any] | None = None
    weights_name: str = "weights"
    absent: str = "holds NaN or infinity"
