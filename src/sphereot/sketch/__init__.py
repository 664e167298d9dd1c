"""Mergeable summaries of points on the sphere: histograms on great circles, and distances between them with bounds.

A `Sketch` has the same bits for every division of the data, order of merges, number of threads and kind of processor.
See :doc:`/sketch` for the mathematics of the bounds and the format of the bytes.
"""

from typing import TYPE_CHECKING

from sphereot._support.lazy_modules import import_on_use
from sphereot.sketch.distances import PairwiseSketchDistances, SketchDistance
from sphereot.sketch.sketch import Sketch, pairwise

if TYPE_CHECKING:
    from sphereot.sketch import dask as dask
    from sphereot.sketch import spark as spark

__all__ = ["PairwiseSketchDistances", "Sketch", "SketchDistance", "pairwise"]

__getattr__ = import_on_use(__name__, "dask", "spark")
