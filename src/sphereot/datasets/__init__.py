"""Data sets of locations on the earth (Section 5 of the paper), and points from files."""

from sphereot.datasets.earth import NAMES, EarthData, Split, load
from sphereot.datasets.fetch import cache_folder
from sphereot.datasets.files import PointSet, iter_points, read_points

__all__ = ["NAMES", "EarthData", "PointSet", "Split", "cache_folder", "iter_points", "load", "read_points"]
