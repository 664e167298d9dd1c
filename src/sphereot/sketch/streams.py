"""Sketches of streams and of the partitions of a table: one sketch per key, in bounded memory, merged as bytes.

Engines send partial results between their processes as bytes. Sketches of few points are small, so that many keys fit
into memory.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import stacked
from sphereot._arrays.validation import require_labels
from sphereot._backends import threads_limited_to
from sphereot.sketch.sketch import Sketch
from sphereot.sphere import from_lonlat, normalize

Partial = dict[Hashable, bytes]
"""Sketches of a part of the data as bytes, by key; the key is None if the data are not divided."""


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
        """Add points (n, d) to the sketches of their keys; without keys, to that of the key None."""
        if len(points) == 0:
            return
        if keys is None:
            self._open_sketch(None, points.shape[1]).update(points, weights, groups)
            return
        for key, rows in rows_by_key(keys):
            chosen = (None if values is None else np.asarray(values)[rows] for values in (weights, groups))
            self._open_sketch(key, points.shape[1]).update(points[rows], *chosen)

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


@dataclass(frozen=True)
class PointColumns:
    """Which columns of a table hold the points, and in which form.

    Attributes
    ----------
    names : tuple of str
        One column of lists, or one column per coordinate; with `lonlat`, longitude and latitude in degrees.
    lonlat : bool
        Whether the columns are longitude and latitude.
    normalize : bool
        Scale the points to unit length.
    """

    names: tuple[str, ...]
    lonlat: bool = False
    normalize: bool = False

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError("columns: got none; name a column of lists, or one column per coordinate.")
        if self.lonlat and len(self.names) != 2:
            raise ValueError(
                f"columns: got {len(self.names)} with lonlat=True; name two, longitude first: ('lon', 'lat')."
            )

    @classmethod
    def of(cls, columns: str | Sequence[str] | None, *, lonlat: bool, normalize: bool) -> "PointColumns":
        """Columns as a user names them; with `lonlat`, by default "lon" and "lat"."""
        if columns is None:
            if not lonlat:
                raise ValueError("columns: got None; name a column of lists, or one column per coordinate.")
            columns = ("lon", "lat")
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        return cls(names, lonlat, normalize)

    def require_in(self, table: str, available: Sequence[str], others: Sequence[str | None] = ()) -> None:
        """Raise unless the columns, and the `others` that are not None, are among those of a table."""
        for name in (*self.names, *(other for other in others if other is not None)):
            if name not in available:
                raise ValueError(f"{table}: has no column {name!r}; it has {', '.join(map(str, available))}.")

    def points(self, table: Mapping[str, Any]) -> NDArray[np.floating[Any]]:
        """Points (n, d) of a table, given as arrays by name; a column of lists may be an array of two dimensions."""
        if len(self.names) == 1:
            coordinates = stacked(self.names[0], table[self.names[0]])
        else:
            values, floats = [np.asarray(table[name]) for name in self.names], (np.float32, np.float64)
            coordinates = np.stack([one if one.dtype in floats else one.astype(np.float64) for one in values], 1)
        if self.lonlat:
            coordinates = from_lonlat(np.asarray(coordinates, np.float64))
        return np.asarray(normalize(coordinates) if self.normalize else coordinates)


def sketch_partition(
    points: Any,
    options: Mapping[str, Any],
    *,
    weights: Any = None,
    groups: Any = None,
    keys: Any = None,
    threads: int = 1,
) -> Partial:
    """Sketch the points (n, d) of a partition, one sketch per key.

    Parameters
    ----------
    options : mapping
        Arguments of `Sketch` besides the dimension.
    weights, groups, keys : array, shape (n,), optional
        A weight, the label of a group, and a key of each point.
    threads : int
        Engines run one task per core, so that one thread is enough.
    """
    if len(points) == 0:
        return {}
    sketches = SketchesByKey(options, most_open=1)
    with threads_limited_to(threads):
        sketches.update(points, weights, groups, keys)
        return sketches.to_bytes()


def merge_sketches(sketches: Iterable[bytes]) -> bytes:
    """The sum of sketches; one at a time is held in memory beside the sum."""
    total: Sketch | None = None
    for content in sketches:
        sketch = Sketch.from_bytes(content)
        total = sketch if total is None else total.__iadd__(sketch)
    if total is None:
        raise ValueError("there are no sketches to merge; the data have no rows.")
    return total.to_bytes()


def merge_partials(partials: Iterable[Partial]) -> Partial:
    """The sum of partial results, key by key."""
    by_key: dict[Hashable, list[bytes]] = {}
    for partial in partials:
        for key, sketch in partial.items():
            by_key.setdefault(key, []).append(sketch)
    return {key: sketches[0] if len(sketches) == 1 else merge_sketches(sketches) for key, sketches in by_key.items()}


def reduce_tree(parts: list[Any], combine: Callable[[list[Any]], Any], split_every: int) -> Any:
    """Combine parts, `split_every` at a time, until one is left."""
    while len(parts) > 1:
        parts = [combine(parts[start : start + split_every]) for start in range(0, len(parts), split_every)]
    return parts[0]
