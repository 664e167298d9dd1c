"""Sketches of streams and of partitions of a table: one sketch per key, in bounded memory."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import stacked
from sphereot._arrays.validation import require_labels
from sphereot.sketch.sketch import Sketch
from sphereot.sphere import from_lonlat, normalize


class SketchesByKey:
    """Sketches of points by key, such as a day or a file, updated batch by batch.

    Parameters
    ----------
    options : mapping
        Arguments of `Sketch`, except the dimension, which the first points decide.
    most_open : int, default 16
        Number of sketches that are held open (13 MB each by default). All other sketches are compressed.

    Examples
    --------
    >>> from sphereot import sphere
    >>> from sphereot.sketch.streams import SketchesByKey
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
        """Add points (n, d) to the sketches of their keys, or to the key None if there are no keys."""
        if len(points) == 0:
            return
        if keys is None:
            self._open_sketch(None, points.shape[1]).update(points, weights, groups)
            return
        for key, rows in rows_by_key(keys):
            chosen = (None if values is None else np.asarray(values)[rows] for values in (weights, groups))
            self._open_sketch(key, points.shape[1]).update(points[rows], *chosen)

    def keys(self) -> list[Hashable]:
        """Return the keys, in order."""
        return sorted([*self._open, *self._closed], key=str)

    def items(self) -> Iterator[tuple[Hashable, Sketch]]:
        """Yield pairs of a key and its sketch, in the order of the keys; sketches are opened one at a time."""
        for key in self.keys():
            yield key, self._open[key] if key in self._open else Sketch.from_bytes(self._closed[key])

    def to_bytes(self) -> dict[Hashable, bytes]:
        """Return the sketches as bytes by key, for `restore`."""
        return self._closed | {key: sketch.to_bytes() for key, sketch in self._open.items()}

    def restore(self, contents: Mapping[Hashable, bytes]) -> None:
        """Replace all sketches by the result of `to_bytes`."""
        self._open, self._closed = {}, dict(contents)

    def _open_sketch(self, key: Hashable, dim: int) -> Sketch:
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
    """Yield pairs of a key and the indices of its rows, in order.

    >>> [(key, rows.tolist()) for key, rows in rows_by_key(["b", "a", "b"])]
    [('a', [1]), ('b', [0, 2])]
    """
    require_labels("by", keys)
    values = np.asarray(keys)
    distinct, inverse = np.unique(values, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(np.bincount(inverse, minlength=len(distinct)))
    # As a list, times would become numbers of nanoseconds.
    named = list(distinct) if distinct.dtype.kind in "mM" else distinct.tolist()
    yield from zip(named, np.split(order, ends[:-1]), strict=True)


class PointColumns:
    """The columns of a table that contain the points, and their form.

    `columns` is a column of lists, or one column per coordinate. With `lonlat`, they are longitude and latitude in
    degrees, by default the columns "lon" and "lat". With `normalize`, points are scaled to unit length.
    """

    def __init__(self, columns: str | Sequence[str] | None, *, lonlat: bool = False, normalize: bool = False):
        if columns is None:
            columns = ("lon", "lat") if lonlat else ()
        self.names = (columns,) if isinstance(columns, str) else tuple(columns)
        self.lonlat, self.normalize = lonlat, normalize
        if not self.names:
            raise ValueError("columns is required. Name a column of lists, or one column per coordinate.")
        if lonlat and len(self.names) != 2:
            raise ValueError(f"columns must be longitude and latitude with lonlat=True, got {len(self.names)} columns.")

    def require_in(self, table: str, available: Sequence[str], others: Sequence[str | None] = ()) -> None:
        """Raise an error unless a table has the columns, and the `others` that are not None."""
        for name in (*self.names, *(other for other in others if other is not None)):
            if name not in available:
                raise ValueError(f"{table} has no column {name!r}. Its columns are {', '.join(map(str, available))}.")

    def points(self, table: Mapping[str, Any]) -> NDArray[np.floating[Any]]:
        """Return the points (n, d) of a table of arrays by name; a column of lists may have two dimensions."""
        if len(self.names) == 1:
            coordinates = stacked(self.names[0], table[self.names[0]])
        else:
            values, floats = [np.asarray(table[name]) for name in self.names], (np.float32, np.float64)
            coordinates = np.stack([one if one.dtype in floats else one.astype(np.float64) for one in values], 1)
        if self.lonlat:
            coordinates = from_lonlat(np.asarray(coordinates, np.float64))
        return np.asarray(normalize(coordinates) if self.normalize else coordinates)


def merge_sketches(sketches: Iterable[bytes]) -> bytes:
    """Add up sketches; only one sketch and the sum are in memory at a time."""
    total = sum(map(Sketch.from_bytes, sketches))
    if isinstance(total, int):
        raise ValueError("There are no sketches to merge, because the data have no rows.")
    return total.to_bytes()
