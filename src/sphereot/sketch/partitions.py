"""Sketches of the partitions of a table, as bytes by key, and their merge: what engines run on their workers.

Partial results are bytes: engines send them between processes, and many keys fit into memory, because sketches of few
points are small.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from sphereot._backends.native import threads_limited_to
from sphereot.sketch.by_key import SketchesByKey
from sphereot.sketch.sketch import Sketch

__all__ = ["Partial", "merged", "merged_partials", "summarized", "tree_reduced"]

Partial = dict[Hashable, bytes]
"""Sketches of a part of the data as bytes, by key; the key is None where the data are not divided."""


def summarized(
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


def merged(sketches: Iterable[bytes]) -> bytes:
    """The sum of sketches; one at a time is held in memory beside the sum."""
    total: Sketch | None = None
    for content in sketches:
        sketch = Sketch.from_bytes(content)
        total = sketch if total is None else total.__iadd__(sketch)
    if total is None:
        raise ValueError("there are no sketches to merge; the data have no rows.")
    return total.to_bytes()


def merged_partials(partials: Iterable[Partial]) -> Partial:
    """The sum of partial results, key by key."""
    by_key: dict[Hashable, list[bytes]] = {}
    for partial in partials:
        for key, sketch in partial.items():
            by_key.setdefault(key, []).append(sketch)
    return {key: sketches[0] if len(sketches) == 1 else merged(sketches) for key, sketches in by_key.items()}


def tree_reduced(parts: list[Any], combine: Callable[[list[Any]], Any], split_every: int) -> Any:
    """Combine parts, `split_every` at a time, until one is left."""
    while len(parts) > 1:
        parts = [combine(parts[start : start + split_every]) for start in range(0, len(parts), split_every)]
    return parts[0]
