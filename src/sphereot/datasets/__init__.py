"""Data sets of locations on the earth and of images (Section 5 of the paper), and points and images from files."""

from sphereot.datasets.earth import NAMES, EarthData, Split, cache_folder, load
from sphereot.datasets.files import PointSet, iter_points, read_points
from sphereot.datasets.images import IMAGE_NAMES, ImageData, ImageSet, load_images, read_images
from sphereot.datasets.time_windows import time_windows

__all__ = [
    "IMAGE_NAMES",
    "NAMES",
    "EarthData",
    "ImageData",
    "ImageSet",
    "PointSet",
    "Split",
    "cache_folder",
    "iter_points",
    "load",
    "load_images",
    "read_images",
    "read_points",
    "time_windows",
]
