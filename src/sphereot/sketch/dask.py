"""Sketches of Dask arrays, dataframes and bags: one sketch per partition, merged in a tree."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sphereot._arrays.validation import as_int
from sphereot._backends import threads_limited_to
from sphereot._support.extras import require
from sphereot.sketch.sketch import Sketch
from sphereot.sketch.streams import PointColumns, SketchesByKey, merge_sketches

if TYPE_CHECKING:
    from dask.delayed import Delayed

__all__ = ["sketch"]


class _DaskCollection(Protocol):
    """An array, a dataframe or a bag of Dask."""

    def to_delayed(self) -> Any:
        """Return one delayed object per partition."""


def sketch(
    x: _DaskCollection,
    by: str | _DaskCollection | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    lonlat: bool = False,
    normalize: bool = False,
    weights: str | _DaskCollection | None = None,
    groups: str | _DaskCollection | None = None,
    split_every: int = 8,
    **options: Any,
) -> "Delayed":
    """Create a sketch of a Dask collection, without loading it into the memory of one machine.

    Parameters
    ----------
    x : dask.array.Array (n, d), dask.dataframe.DataFrame, or dask.bag.Bag
        The points. The items of a bag are vectors, or arrays of vectors (m, d).
    by : str, or array of shape (n,), optional
        Column of a dataframe, or Dask array, with a key of every point. Each key gets its own sketch.
    columns : str or sequence of str, optional
        Coordinates in a dataframe: a column of lists, or one column per coordinate. With `lonlat`, the default is
        ("lon", "lat").
    lonlat : bool, default False
        Whether the coordinates are longitude and latitude in degrees.
    normalize : bool, default False
        Whether to scale points to unit length.
    weights, groups : str, or array of shape (n,), optional
        Weights of points, and labels of groups, as columns or Dask arrays; see `Sketch.update`.
    split_every : int, default 8
        Number of partial results that are merged at a time.
    **options
        Arguments of `sphereot.Sketch`, such as `n_projections`, `bins`, `seed` and `method`.

    Returns
    -------
    dask.delayed.Delayed
        ``.compute()`` returns a `Sketch`, or a dict of sketches by key. Its bits are the same for any chunks, scheduler
        and number of workers.

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

    split_every = as_int("split_every", split_every, 2, "the number of results that are merged at a time")
    kind = type(x).__name__ if type(x).__module__.startswith("dask") else ""
    is_table = bool(kind) and hasattr(x, "columns")
    if not is_table:
        columns = None if lonlat else "x"
    form = PointColumns(columns, lonlat=lonlat, normalize=normalize)
    data: Any = x
    roles: dict[str, Any] = {"weights": weights, "groups": groups, "by": by}
    if kind == "Array":
        if data.ndim != 2:
            raise ValueError(f"x must have shape (n, d), got {data.shape}.")
        blocks = data.rechunk({1: -1}).to_delayed().ravel()
        rows = []
        for name, values in roles.items():
            if values is not None and getattr(values, "shape", None) != data.shape[:1]:
                got = getattr(values, "shape", type(values).__name__)
                raise ValueError(f"{name} must be a Dask array with one value per point, {data.shape[:1]}, got {got}.")
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
            raise ValueError("weights, groups and by are not supported for bags. Convert the bag with to_dataframe().")
        parts = [delayed(_sketch_items)(part, form, options) for part in data.to_delayed()]
    else:
        raise TypeError(
            f"x must be a Dask array, dataframe or bag, got {type(x).__module__}.{type(x).__name__}. For data in "
            "memory, use sphereot.Sketch(dim).update(x)."
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
    """Create the sketches of the points of a table by key; `rows` are their weights, groups and keys."""
    if len(table[form.names[0]]) == 0:
        return {}
    sketches = SketchesByKey(options, most_open=1)
    with threads_limited_to(1):  # the scheduler runs one task per core
        sketches.update(form.points(table), *rows)
    return sketches.to_bytes()


def _merge(partials: Sequence[Partial]) -> Partial:
    """Add up partial results, key by key."""
    by_key: dict[Hashable, list[bytes]] = {}
    for partial in partials:
        for key, sketch in partial.items():
            by_key.setdefault(key, []).append(sketch)
    return {key: merge_sketches(sketches) for key, sketches in by_key.items()}


def _finish(total: Partial, divided: bool) -> Any:
    if not total:
        raise ValueError("x must contain points, got no rows.")
    sketches = {key: Sketch.from_bytes(content) for key, content in total.items()}
    return dict(sorted(sketches.items(), key=lambda item: str(item[0]))) if divided else sketches[None]
