"""Sketches of Dask arrays, dataframes and bags: one sketch per partition, merged in a tree."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sphereot._arrays.types import DaskCollection
from sphereot._arrays.validation import as_int
from sphereot._support.extras import require
from sphereot.sketch.sketch import Sketch
from sphereot.sketch.streams import Partial, PointColumns, merge_partials, reduce_tree, sketch_partition

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
    if kind == "Array":
        form = PointColumns(("lon", "lat") if lonlat else ("x",), lonlat, normalize)
        tasks = _array_tasks(x, _Roles(weights, groups, by), form, options)
    elif hasattr(x, "columns") and kind:
        form = PointColumns.of(columns, lonlat=lonlat, normalize=normalize)
        tasks = _frame_tasks(x, _Roles(weights, groups, by), form, options)
    elif kind == "Bag":
        if not (weights is None and groups is None and by is None):
            raise ValueError("weights, groups, by: a bag has no columns; make a dataframe of it with to_dataframe().")
        form = PointColumns(("lon", "lat") if lonlat else ("x",), lonlat, normalize)
        tasks = [delayed(_summarize_items)(part, form, options) for part in x.to_delayed()]
    else:
        raise TypeError(
            f"x: got {type(x).__module__}.{type(x).__name__}; give a Dask array, dataframe or bag. For data in memory, "
            "use sphereot.Sketch(dim).update(x)."
        )
    total = reduce_tree(tasks, delayed(merge_partials), split_every)
    return delayed(_finish)(total, by is not None)


class _Roles(NamedTuple):
    """Where weights, labels of groups and keys come from: Dask arrays, or names of columns."""

    weights: Any
    groups: Any
    by: Any


def _array_tasks(x: Any, roles: _Roles, form: PointColumns, options: dict[str, Any]) -> list[Any]:
    from dask import delayed

    if x.ndim != 2:
        raise ValueError(f"x: shape is {x.shape}, but points need shape (n, d).")
    blocks = x.rechunk({1: -1}).to_delayed().ravel()
    rows = {}
    for name, values in zip(roles._fields, roles, strict=True):
        if values is not None and getattr(values, "shape", None) != x.shape[:1]:
            raise ValueError(
                f"{name}: got {getattr(values, 'shape', type(values).__name__)}, but a Dask array with one value per "
                f"point, shape {x.shape[:1]}, is needed."
            )
        rows[name] = [None] * len(blocks) if values is None else values.rechunk((x.chunks[0],)).to_delayed()
    return [
        delayed(_summarize_block)(block, *values, form, options)
        for block, *values in zip(blocks, *rows.values(), strict=True)
    ]


def _frame_tasks(x: Any, roles: _Roles, form: PointColumns, options: dict[str, Any]) -> list[Any]:
    from dask import delayed

    form.require_in("x", list(x.columns), roles)
    chosen = list(dict.fromkeys([*form.names, *(name for name in roles if name is not None)]))
    return [delayed(_summarize_frame)(part, roles, form, options) for part in x[chosen].to_delayed()]


def _summarize_block(
    block: Any, weights: Any, groups: Any, keys: Any, form: PointColumns, options: dict[str, Any]
) -> Partial:
    columns = [block] if len(form.names) == 1 else block.T
    points = form.points(dict(zip(form.names, columns, strict=True)))
    return sketch_partition(points, options, weights=weights, groups=groups, keys=keys)


def _summarize_frame(frame: Any, roles: _Roles, form: PointColumns, options: dict[str, Any]) -> Partial:
    if len(frame) == 0:
        return {}
    points = form.points({name: frame[name].to_numpy() for name in form.names})
    weights, groups, keys = (None if name is None else frame[name].to_numpy() for name in roles)
    return sketch_partition(points, options, weights=weights, groups=groups, keys=keys)


def _summarize_items(items: Any, form: PointColumns, options: dict[str, Any]) -> Partial:
    arrays = [np.atleast_2d(np.asarray(item)) for item in items]
    if not arrays:
        return {}
    return _summarize_block(np.concatenate(arrays), None, None, None, form, options)


def _finish(total: Partial, divided: bool) -> Any:
    if not total:
        raise ValueError("x: has no rows; there is nothing to summarize.")
    sketches = {key: Sketch.from_bytes(content) for key, content in total.items()}
    return dict(sorted(sketches.items(), key=lambda item: str(item[0]))) if divided else sketches[None]
