"""Points in the columns of a table: a column of lists, one column per coordinate, or longitude and latitude."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import stacked
from sphereot.sphere import from_lonlat, normalize

__all__ = ["PointColumns"]


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
        values = [table[name] for name in self.names]
        coordinates = (
            stacked(self.names[0], values[0]) if len(values) == 1 else np.stack(list(map(_numbers, values)), 1)
        )
        if self.lonlat:
            coordinates = from_lonlat(np.asarray(coordinates, np.float64))
        return np.asarray(normalize(coordinates) if self.normalize else coordinates)


def _numbers(values: Any) -> NDArray[np.floating[Any]]:
    array = np.asarray(values)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
