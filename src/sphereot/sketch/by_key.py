"""Sketches of a stream of points, one per key, in bounded memory: few are open at a time, the others are bytes."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from sphereot._arrays.validation import require_labels
from sphereot.sketch.sketch import Sketch

__all__ = ["SketchesByKey", "rows_by_key"]


class SketchesByKey:
    """Sketches of points by key, such as a day or a file, updated batch by batch.

    Parameters
    ----------
    options : mapping
        Arguments of `Sketch` besides the dimension, which is that of the first points.
    most_open : int
        How many sketches are held open (16 L B bytes each, 13 MB by default); the others are held as compressed bytes.

    Examples
    --------
    >>> from sphereot import sphere
    >>> from sphereot.sketch.by_key import SketchesByKey
    >>> days = SketchesByKey({"n_projections": 20, "bins": 64})
    >>> for day in ("monday", "tuesday"):
    ...     days.update(sphere.random_uniform(10, 3, seed=0), keys=[day] * 10)
    >>> {day: sketch.n for day, sketch in days.items()}
    {'monday': 10, 'tuesday': 10}
    """

    def __init__(self, options: Mapping[str, Any], most_open: int = 16):
        self._options, self._most_open = dict(options), most_open
        self._open: dict[Hashable, Sketch] = {}  # the one used last is the last
        self._closed: dict[Hashable, bytes] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._closed)

    def update(self, points: Any, weights: Any = None, groups: Any = None, keys: Any = None) -> None:
        """Add points (n, d) to the sketches of their keys; without keys, to that of the key None."""
        if len(points) == 0:
            return
        if keys is None:
            self._opened(None, points.shape[1]).update(points, weights, groups)
            return
        for key, rows in rows_by_key(keys):
            chosen = (None if values is None else np.asarray(values)[rows] for values in (weights, groups))
            self._opened(key, points.shape[1]).update(points[rows], *chosen)

    def keys(self) -> list[Hashable]:
        """The keys, in order."""
        return sorted([*self._open, *self._closed], key=str)

    def items(self) -> Iterator[tuple[Hashable, Sketch]]:
        """Pairs of a key and its sketch, in the order of the keys; sketches are opened one by one."""
        for key in self.keys():
            yield key, self._open[key] if key in self._open else Sketch.from_bytes(self._closed[key])

    def to_bytes(self) -> dict[Hashable, bytes]:
        """The sketches as bytes by key, from which `restore` goes on."""
        return self._closed | {key: sketch.to_bytes() for key, sketch in self._open.items()}

    def restore(self, contents: Mapping[Hashable, bytes]) -> None:
        """Replace all sketches by those that `to_bytes` gave."""
        self._open, self._closed = {}, dict(contents)

    def _opened(self, key: Hashable, dim: int) -> Sketch:
        if key in self._open:
            sketch = self._open.pop(key)
        elif key in self._closed:
            sketch = Sketch.from_bytes(self._closed.pop(key))
        else:
            sketch = Sketch(dim, **self._options)
        self._open[key] = sketch
        if len(self._open) > self._most_open:
            oldest = next(iter(self._open))
            self._closed[oldest] = self._open.pop(oldest).to_bytes()
        return sketch


def rows_by_key(keys: Any) -> Iterator[tuple[Hashable, Any]]:
    """Pairs of a key and the indices of its rows, in order.

    >>> [(key, rows.tolist()) for key, rows in rows_by_key(["b", "a", "b"])]
    [('a', [1]), ('b', [0, 2])]
    """
    require_labels("by", keys)
    values = np.asarray(keys)
    distinct, inverse = np.unique(values, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(np.bincount(inverse, minlength=len(distinct)))
    # Times stay times: as Python numbers they would be nanoseconds.
    named = list(distinct) if distinct.dtype.kind in "mM" else distinct.tolist()
    yield from zip(named, np.split(order, ends[:-1]), strict=True)
