"""Random subset of the rows of a file, chosen while the file is read, with memory that does not grow with it."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sphereot.datasets.addresses import size_and_head

__all__ = ["file_generator", "random_rows"]

_STREAM = (0xD21F,)  # makes the choice of rows independent of great circles and permutations of the same seed
_HEAD_BYTES = 1 << 20

Columns = Sequence[np.ndarray[Any, Any] | None]
"""Arrays with the same number of rows; None for those that a file does not have."""


def file_generator(paths: Sequence[Path], seed: int) -> np.random.Generator:
    """Random generator seeded by `seed` and the content of the files (size and first MiB), not by their names."""
    content = hashlib.sha256()
    for path in paths:
        size, head = size_and_head(path, _HEAD_BYTES)
        content.update(size.to_bytes(8, "little") + head)
    digest = content.digest()
    words = np.frombuffer(digest, np.uint32).tolist()
    return np.random.default_rng(np.random.SeedSequence([seed, *words], spawn_key=_STREAM))


def random_rows(parts: Iterable[Columns], count: int, generator: np.random.Generator) -> list[Any]:
    """Choose `count` random rows, in their order, from arrays that come in parts; all rows if there are fewer.

    Every row gets a random key, and the rows with the smallest keys are chosen. So the choice does not depend on how
    the rows are divided into parts, and at most `2 * count` rows are held besides one part.

    Examples
    --------
    >>> parts = [[np.arange(0, 70)], [np.arange(70, 100)]]
    >>> (rows,) = random_rows(parts, 5, np.random.default_rng(0))
    >>> rows
    array([ 3, 11, 13, 20, 92])
    """
    held: list[Columns] = []
    keys: list[np.ndarray[Any, Any]] = []
    size, bound = 0, 1.0
    for part in parts:
        drawn = generator.random(_length(part))
        chosen = np.flatnonzero(drawn < bound)
        held.append(_rows(part, chosen))
        keys.append(drawn[chosen])
        size += len(chosen)
        if size > 2 * count:
            held, keys = _smallest(held, keys, count)
            size, bound = count, float(keys[0].max())
    if not held:
        return []
    if size > count:
        held, keys = _smallest(held, keys, count)
    return list(_joined(held))


def _smallest(
    held: list[Columns], keys: list[np.ndarray[Any, Any]], count: int
) -> tuple[list[Columns], list[np.ndarray[Any, Any]]]:
    """The `count` rows with the smallest keys, as one part and in their order."""
    joined = np.concatenate(keys)
    rows = np.sort(np.argsort(joined, kind="stable")[:count])
    return [_rows(_joined(held), rows)], [joined[rows]]


def _joined(held: list[Columns]) -> Columns:
    return [
        None if column[0] is None else np.concatenate([part for part in column if part is not None])
        for column in zip(*held, strict=True)
    ]


def _rows(columns: Columns, rows: np.ndarray[Any, Any]) -> Columns:
    return [None if column is None else np.asarray(column)[rows] for column in columns]


def _length(columns: Columns) -> int:
    return next(len(column) for column in columns if column is not None)
