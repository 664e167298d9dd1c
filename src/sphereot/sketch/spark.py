"""Sketches of Spark dataframes: an Arrow function creates one per partition and key, and these sketches are merged."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sphereot._arrays.validation import require_labels
from sphereot._backends import threads_limited_to
from sphereot._support.extras import require
from sphereot.sketch.streams import PointColumns, SketchesByKey, merge_sketches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["merge_agg", "sketch_agg"]

_MERGED_AT_ONCE = 32
_STEP = "_sphereot_step"


def sketch_agg(
    df: "DataFrame",
    columns: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
    *,
    lonlat: bool = False,
    normalize: bool = False,
    weights: str | None = None,
    groups: str | None = None,
    **options: Any,
) -> "DataFrame":
    """Create sketches of the points of a Spark dataframe.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Table with one point per row.
    columns : str or sequence of str, optional
        Coordinates: a column of arrays of numbers, or one column per coordinate. With `lonlat`, the default is
        ("lon", "lat").
    by : str or sequence of str, optional
        Columns to group by, such as a day. Each of their values gets its own sketch.
    lonlat : bool, default False
        Whether the coordinates are longitude and latitude in degrees.
    normalize : bool, default False
        Whether to scale points to unit length.
    weights, groups : str, optional
        Columns with weights of points, and with labels of groups; see `Sketch.update`.
    **options
        Arguments of `sphereot.Sketch`, such as `n_projections`, `bins`, `seed` and `method`.

    Returns
    -------
    pyspark.sql.DataFrame
        The columns of `by`, and a binary column `sketch` for `Sketch.from_bytes` and `merge_agg`. The bytes do not
        depend on the partitions.

    Examples
    --------
    >>> days = sketch_agg(df, "embedding", by="day", normalize=True)  # doctest: +SKIP
    >>> {row.day: Sketch.from_bytes(bytes(row.sketch)) for row in days.collect()}  # doctest: +SKIP
    """
    require("pyspark", "sphereot.sketch.spark", extra="spark")
    form = PointColumns(columns, lonlat=lonlat, normalize=normalize)
    keys = _names(by)
    form.require_in("df", df.columns, [*keys, weights, groups])
    chosen = list(dict.fromkeys([*keys, *form.names, *(name for name in (weights, groups) if name is not None)]))
    options = dict(options)

    def summarize(batches: Iterable[Any]) -> Iterator[Any]:
        sketches = SketchesByKey(options, most_open=1)
        numbers: dict[tuple[Any, ...], int | None] = {} if keys else {(): None}
        types: list[Any] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            types = [batch.schema.field(name).type for name in keys]
            labels = [batch.column(name).to_pylist() for name in keys]
            for name, values in zip(keys, labels, strict=True):
                require_labels(f"by: {name}", values)
            of_rows = [numbers.setdefault(key, len(numbers)) for key in zip(*labels, strict=True)] if keys else None
            points = form.points({name: _values(name, batch.column(name)) for name in form.names})
            masses, members = (
                None if name is None else np.asarray(batch.column(name).to_pylist()) for name in (weights, groups)
            )
            with threads_limited_to(1):  # Spark runs one task per core
                sketches.update(points, masses, members, of_rows)
        contents = sketches.to_bytes()
        if contents:
            import pyarrow

            values = [pyarrow.array([key[k] for key in numbers], kind) for k, kind in enumerate(types)]
            column = pyarrow.array([contents[number] for number in numbers.values()], pyarrow.binary())
            yield pyarrow.RecordBatch.from_arrays([*values, column], names=[*keys, "sketch"])

    return _merge_by_key(df.select(*chosen).mapInArrow(summarize, _schema(df, keys)), keys)


def merge_agg(df: "DataFrame", column: str = "sketch", by: str | Sequence[str] | None = None) -> "DataFrame":
    """Merge stored sketches, for example sketches of days to sketches of months.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Table with a binary column of sketches, as returned by `sketch_agg`.
    column : str, default "sketch"
        Name of this column.
    by : str or sequence of str, optional
        Columns to group by.

    Returns
    -------
    pyspark.sql.DataFrame
        The columns of `by`, and the binary column `sketch`.
    """
    require("pyspark", "sphereot.sketch.spark", extra="spark")
    keys = _names(by)
    PointColumns((column,)).require_in("df", df.columns, keys)
    return _merge_by_key(df.select(*keys, df[column].alias("sketch")), keys)


def _names(by: str | Sequence[str] | None) -> list[str]:
    return [] if by is None else [by] if isinstance(by, str) else list(by)


def _schema(df: Any, keys: list[str]) -> Any:
    """Return the columns of keys as in `df`, and the binary column of sketches."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    return StructType([*(df.schema[name] for name in keys), StructField("sketch", BinaryType())])


def _merge_by_key(df: Any, keys: list[str]) -> Any:
    """Add up sketches by key, in two steps, so that no task holds the sketches of all partitions at a time."""
    from pyspark.sql import functions

    schema = _schema(df, keys)

    def merge(table: Any) -> Any:
        import pyarrow

        content = merge_sketches(table.column("sketch").to_pylist())
        columns = {name: table.column(name).slice(0, 1) for name in keys}
        return pyarrow.table(columns | {"sketch": pyarrow.array([content], pyarrow.binary())})

    step = functions.spark_partition_id() % _MERGED_AT_ONCE
    partial = df.withColumn(_STEP, step).groupBy(*keys, _STEP).applyInArrow(merge, schema)
    return partial.groupBy(*keys).applyInArrow(merge, schema)


def _values(name: str, column: Any) -> Any:
    """Convert a column of numbers to an array (n,), or a column of lists of equal length to an array (n, d)."""
    import pyarrow

    if column.null_count:
        raise ValueError(f"{name} must not contain nulls, got {column.null_count}. Leave them out with df.dropna().")
    if not pyarrow.types.is_list(column.type) and not pyarrow.types.is_fixed_size_list(column.type):
        return column.to_numpy(zero_copy_only=False)
    flat = column.flatten()
    if flat.null_count or len(flat) % len(column) or len(set(column.value_lengths().to_pylist())) != 1:
        raise ValueError(f"{name} must contain lists of equal length without nulls. Leave out all other rows.")
    return flat.to_numpy(zero_copy_only=False).reshape(len(column), -1)
