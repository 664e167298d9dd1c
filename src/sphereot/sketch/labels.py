"""Groups of labels: a hash that is the same on every machine."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import is_torch, to_numpy
from sphereot._arrays.validation import require_labels

__all__ = ["group_numbers"]


def group_numbers(name: str, labels: Any, n: int, groups: int) -> NDArray[np.int64]:
    """Numbers below `groups` for n labels, ints or strings; equal labels have equal numbers.

    The number is a BLAKE2b hash of the label as text, with a letter for its type, modulo `groups`.

    >>> group_numbers("groups", ["anna", "ben", "anna"], 3, 64).tolist()
    [18, 12, 18]
    """
    values = _as_labels(name, labels)
    if values.shape != (n,):
        raise ValueError(f"{name}: shape is {values.shape}, but there are {n} points and each needs one label.")
    unique, index = np.unique(values, return_inverse=True)
    letter = "s" if unique.dtype.kind == "U" else "i"
    hashes = [hashlib.blake2b(f"{letter}{label}".encode(), digest_size=8).digest() for label in unique.tolist()]
    numbers = np.array([int.from_bytes(digest, "little") % groups for digest in hashes], np.int64)
    return numbers[index]


def _as_labels(name: str, labels: Any) -> NDArray[Any]:
    """Labels as an array of ints or of strings."""
    if is_torch(labels) or hasattr(labels, "__array__"):
        values = np.asarray(to_numpy(labels) if is_torch(labels) else labels)
    elif isinstance(labels, Sequence) and not isinstance(labels, str | bytes):
        values = np.asarray(labels, dtype=object)
    else:
        raise TypeError(f"{name}: got {type(labels).__name__}; pass one int or string per point, in an array or list.")
    require_labels(name, values)
    if values.dtype == object:
        kinds = {type(label) for label in values.ravel().tolist()}
        if kinds == {str}:
            return values.astype(str)
        if len(kinds) == 1 and next(iter(kinds)) is int:
            return values.astype(np.int64)
    if values.dtype.kind not in "iuUT":
        raise TypeError(f"{name}: labels of this kind ({values.dtype}) are not understood; pass ints or strings alone.")
    return values.astype(str) if values.dtype.kind == "T" else values
