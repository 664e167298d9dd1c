"""Mergeable summaries of points on the sphere: histograms on great circles, and distances with error bounds.

A `Sketch` has the same bits for any division of the data, order of merges, number of threads and kind of processor. See
:doc:`/background/sketches` for the error bounds and the format of the bytes.
"""

from typing import TYPE_CHECKING

from sphereot._support.lazy_modules import import_on_use
from sphereot.sketch.sketch import PairwiseSketchDistances, Sketch, SketchDistance, pairwise

if TYPE_CHECKING:
    from sphereot.sketch import dask as dask
    from sphereot.sketch import spark as spark

__all__ = ["PairwiseSketchDistances", "Sketch", "SketchDistance", "pairwise"]

__getattr__ = import_on_use(__name__, "dask", "spark")
