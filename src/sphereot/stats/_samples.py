"""Two samples of a test, validated."""

from typing import Any

from sphereot._arrays.containers import Columns
from sphereot._arrays.libraries import namespace
from sphereot._arrays.types import Points
from sphereot._arrays.validation import as_points, as_same_kind, require_same_dim

__all__ = ["two_samples"]


def two_samples(x: Points, y: Points, columns: Columns | None) -> tuple[Any, Any]:
    """Two samples of unit vectors, of one library, device, dimension and dtype."""
    first, second = as_same_kind(x=as_points("x", x, columns), y=as_points("y", y, columns))
    require_same_dim("x", first, "y", second)
    xp = namespace(first)
    dtype = xp.result_type(first, second)
    return xp.astype(first, dtype, copy=False), xp.astype(second, dtype, copy=False)
