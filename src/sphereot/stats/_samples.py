"""Two samples of a test, validated."""

from typing import Any

from sphereot._arrays.containers import SampleColumns
from sphereot._arrays.libraries import namespace
from sphereot._arrays.types import Points
from sphereot._arrays.validation import as_same_kind, as_samples, require_same_dim

__all__ = ["two_samples"]


def two_samples(x: Points, y: Points, columns: SampleColumns | None) -> tuple[Any, Any]:
    """Two samples of unit vectors, of one library, device, dimension and dtype."""
    first, second = as_samples(columns, x=x, y=y)
    first, second = as_same_kind(x=first, y=second)
    require_same_dim("x", first, "y", second)
    xp = namespace(first)
    dtype = xp.result_type(first, second)
    return xp.astype(first, dtype, copy=False), xp.astype(second, dtype, copy=False)
