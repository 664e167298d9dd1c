"""The door to data: places on the earth as in the paper (Section 5), and points from files of one's own."""

from sphereot.datasets.earth import NAMES, EarthData, Split, load
from sphereot.datasets.fetch import cache_folder
from sphereot.datasets.files import PointSet, iter_points, read_points

__all__ = ["NAMES", "EarthData", "PointSet", "Split", "cache_folder", "iter_points", "load", "read_points"]
