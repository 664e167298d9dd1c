"""What holds points on S^2, with the real packages: each container of the same locations."""

import numpy as np
import pytest

from sphereot.sphere import from_lonlat

__all__ = ["CONTAINERS", "EARTH", "LAT", "LON", "Interchange", "OnlyDLPack"]

LON, LAT = np.array([-78.5, 10.7, 179.0, 0.0]), np.array([-0.2, 59.9, -45.0, 90.0])
EARTH = from_lonlat(LON, LAT)


class Interchange:
    """A table that has the interchange protocol alone."""

    def __init__(self, data):
        self._frame = pytest.importorskip("pandas").DataFrame(data)

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self._frame.__dataframe__(nan_as_null, allow_copy)


class OnlyDLPack:
    """An array that has the protocol of DLPack alone."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def frame(library, data):
    return pytest.importorskip(library).DataFrame(data)


def geo_series():
    return pytest.importorskip("geopandas").GeoSeries.from_xy(LON, LAT, crs=4326)


def sky():
    return pytest.importorskip("astropy.coordinates").SkyCoord(ra=LON % 360, dec=LAT, unit="deg").galactic


def labeled(dims, **coords):
    xr = pytest.importorskip("xarray")
    return xr.DataArray(np.stack([LAT, LON, LON], axis=1), dims=dims, coords=coords)


def earth_data():
    return pytest.importorskip("sphereot.datasets").EarthData("volcano", np.stack([LON, LAT], axis=1), "a test")


def astropy_table(kind, unit):
    """A table of astropy, whose right ascension has a unit of its own."""
    table, units = pytest.importorskip("astropy.table"), pytest.importorskip("astropy.units")
    angles = (units.Quantity(values, "deg").to(unit) for values in (LAT, LON))
    return getattr(table, kind)(dict(zip(("dec", "ra"), angles, strict=True)) | {"name": list("abcd")})


def table_with_sky():
    return pytest.importorskip("astropy.table").QTable({"name": list("abcd"), "at": sky()})


DEGREES = {"lat": LAT, "depth": np.ones(4), "lon": LON}
LISTS = EARTH.tolist()

CONTAINERS = {
    "pandas": lambda: frame("pandas", DEGREES),
    "polars": lambda: frame("polars", DEGREES),
    "arrow": lambda: pytest.importorskip("pyarrow").table(DEGREES),
    "interchange": lambda: Interchange(DEGREES),
    "pandas lists": lambda: frame("pandas", {"name": list("abcd"), "embedding": LISTS}),
    "pandas series": lambda: pytest.importorskip("pandas").Series(LISTS),
    "polars series": lambda: pytest.importorskip("polars").Series(LISTS),
    "arrow column": lambda: pytest.importorskip("pyarrow").chunked_array([LISTS]),
    "data array": lambda: pytest.importorskip("xarray").DataArray(EARTH, dims=("row", "axis")),
    "labeled data array": lambda: labeled(("row", "angle"), angle=["lat", "lon", "time"]),
    "data array of names": lambda: labeled(("row", "angle"), name=("angle", ["Latitude", "Longitude", "other"])),
    "dataset": lambda: pytest.importorskip("xarray").Dataset({key: ("row", value) for key, value in DEGREES.items()}),
    "dataset of vectors": lambda: pytest.importorskip("xarray").Dataset({"point": (("row", "axis"), EARTH)}),
    "geo series": geo_series,
    "geo frame": lambda: pytest.importorskip("geopandas").GeoDataFrame({"depth": np.ones(4)}, geometry=geo_series()),
    "geometry array": lambda: pytest.importorskip("geopandas").points_from_xy(LON, LAT),
    "sky": sky,
    "astropy table": lambda: astropy_table("Table", "rad"),
    "astropy quantities": lambda: astropy_table("QTable", "hourangle"),
    "astropy table of sky": table_with_sky,
    "dlpack": lambda: OnlyDLPack(EARTH),
    "lists": lambda: LISTS,
    "earth data": earth_data,
}
"""Name of a container to a function that makes one of the points `EARTH`."""
