"""Data sets of locations on the Earth (Section 5 of the paper), and points from files."""

from sphereot.datasets.earth import NAMES, EarthData, Split, cache_folder, load
from sphereot.datasets.files import PointSet, iter_points, read_points
from sphereot.datasets.time_windows import time_windows

__all__ = [
    "NAMES",
    "EarthData",
    "PointSet",
    "Split",
    "cache_folder",
    "iter_points",
    "load",
    "read_points",
    "time_windows",
]
