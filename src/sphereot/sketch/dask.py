"""Sketches of Dask arrays, dataframes and bags: one sketch per partition, merged in a tree."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sphereot._arrays.types import DaskCollection
from sphereot._arrays.validation import as_int
from sphereot._backends import threads_limited_to
from sphereot._support.extras import require
from sphereot.sketch.sketch import Sketch
from sphereot.sketch.streams import PointColumns, SketchesByKey, merge_sketches

if TYPE_CHECKING:
    from dask.delayed import Delayed

__all__ = ["sketch"]


def sketch(
    x: DaskCollection,
    by: str | DaskCollection | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    lonlat: bool = False,
    normalize: bool = False,
    weights: str | DaskCollection | None = None,
    groups: str | DaskCollection | None = None,
    split_every: int = 8,
    **options: Any,
) -> "Delayed":
    """Summarize points that Dask holds, without loading them into one memory.

    Parameters
    ----------
    x : dask.array.Array (n, d), dask.dataframe.DataFrame, or dask.bag.Bag
        The points. The items of a bag are vectors, or arrays of vectors (m, d).
    by : str, or array of shape (n,), optional
        Make one sketch for each value: the name of a column of a dataframe, or a Dask array beside an array.
    columns : str or sequence of str
        For dataframes: a column of lists, or one column per coordinate. Longitude and latitude in degrees with `lonlat`
        (by default the columns "lon" and "lat").
    lonlat, normalize : bool
        Take the coordinates as longitude and latitude; scale points to unit length.
    weights, groups : str, or array of shape (n,), optional
        Weights of points, and labels of groups (see `Sketch.update`): names of columns, or Dask arrays.
    split_every : int
        How many partial results are merged at a time.
    **options
        Arguments of `sphereot.Sketch`: `n_projections`, `bins`, `seed`, `method`, ...

    Returns
    -------
    dask.delayed.Delayed
        Lazy: ``.compute()`` gives a `Sketch`, or a dict of sketches by the values of `by`. It is the same to the last
        bit for every chunking, scheduler and number of workers.

    Examples
    --------
    >>> import dask.array as da
    >>> from sphereot import sphere
    >>> from sphereot.sketch.dask import sketch
    >>> x = da.from_array(sphere.random_uniform(1000, 3, seed=0), chunks=(100, 3))
    >>> sketch(x, n_projections=20, bins=64).compute().n
    1000
    """
    require("dask", "sphereot.sketch.dask", extra="dask")
    from dask import delayed

    split_every = as_int("split_every", split_every, 2, "the number of results merged at a time")
    kind = type(x).__name__ if type(x).__module__.startswith("dask") else ""
    is_table = bool(kind) and hasattr(x, "columns")
    if not is_table:
        columns = None if lonlat else "x"
    form = PointColumns(columns, lonlat=lonlat, normalize=normalize)
    data: Any = x
    roles: dict[str, Any] = {"weights": weights, "groups": groups, "by": by}
    if kind == "Array":
        if data.ndim != 2:
            raise ValueError(f"x: shape is {data.shape}, but points need shape (n, d).")
        blocks = data.rechunk({1: -1}).to_delayed().ravel()
        rows = []
        for name, values in roles.items():
            if values is not None and getattr(values, "shape", None) != data.shape[:1]:
                raise ValueError(
                    f"{name}: got {getattr(values, 'shape', type(values).__name__)}, but a Dask array with one value "
                    f"per point, shape {data.shape[:1]}, is needed."
                )
            rows.append([None] * len(blocks) if values is None else values.rechunk((data.chunks[0],)).to_delayed())
        parts = [delayed(_sketch_block)(*values, form, options) for values in zip(blocks, *rows, strict=True)]
    elif is_table:
        form.require_in("x", list(data.columns), list(roles.values()))
        chosen = list(dict.fromkeys([*form.names, *(name for name in roles.values() if name is not None)]))
        parts = [
            delayed(_sketch_frame)(part, list(roles.values()), form, options) for part in data[chosen].to_delayed()
        ]
    elif kind == "Bag":
        if any(value is not None for value in roles.values()):
            raise ValueError("weights, groups, by: a bag has no columns; make a dataframe of it with to_dataframe().")
        parts = [delayed(_sketch_items)(part, form, options) for part in data.to_delayed()]
    else:
        raise TypeError(
            f"x: got {type(x).__module__}.{type(x).__name__}; give a Dask array, dataframe or bag. For data in memory, "
            "use sphereot.Sketch(dim).update(x)."
        )
    while len(parts) > 1:
        parts = [delayed(_merge)(parts[start : start + split_every]) for start in range(0, len(parts), split_every)]
    return delayed(_finish)(parts[0], by is not None)


Partial = dict[Hashable, bytes]
"""Sketches of a part of the data as bytes, by key; the key is None if the data are not divided."""


def _sketch_block(
    block: Any, weights: Any, groups: Any, keys: Any, form: PointColumns, options: dict[str, Any]
) -> Partial:
    columns = [block] if len(form.names) == 1 else block.T
    return _sketch_table(dict(zip(form.names, columns, strict=True)), (weights, groups, keys), form, options)


def _sketch_frame(frame: Any, roles: list[str | None], form: PointColumns, options: dict[str, Any]) -> Partial:
    table = {name: frame[name].to_numpy() for name in frame.columns}
    return _sketch_table(table, [None if name is None else table[name] for name in roles], form, options)


def _sketch_items(items: Any, form: PointColumns, options: dict[str, Any]) -> Partial:
    arrays = [np.atleast_2d(np.asarray(item)) for item in items]
    return _sketch_block(np.concatenate(arrays), None, None, None, form, options) if arrays else {}


def _sketch_table(table: dict[str, Any], rows: Sequence[Any], form: PointColumns, options: dict[str, Any]) -> Partial:
    """Sketches of the points of a table by key; `rows` are their weights, groups and keys."""
    if len(table[form.names[0]]) == 0:
        return {}
    sketches = SketchesByKey(options, most_open=1)
    with threads_limited_to(1):  # the scheduler runs one task per core
        sketches.update(form.points(table), *rows)
    return sketches.to_bytes()


def _merge(partials: Sequence[Partial]) -> Partial:
    """The sum of partial results, key by key."""
    by_key: dict[Hashable, list[bytes]] = {}
    for partial in partials:
        for key, sketch in partial.items():
            by_key.setdefault(key, []).append(sketch)
    return {key: merge_sketches(sketches) for key, sketches in by_key.items()}


def _finish(total: Partial, divided: bool) -> Any:
    if not total:
        raise ValueError("x: has no rows; there is nothing to summarize.")
    sketches = {key: Sketch.from_bytes(content) for key, content in total.items()}
    return dict(sorted(sketches.items(), key=lambda item: str(item[0]))) if divided else sketches[None]
