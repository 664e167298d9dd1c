"""Mergeable summaries of points on the sphere: histograms on great circles, and distances between them with bounds.

A `Sketch` has the same bits for every division of the data, order of merges, number of threads and kind of processor.
docs/sketch.md has the mathematics of the bounds and the format of the bytes.
"""

from sphereot.sketch.distances import PairwiseSketchDistances, SketchDistance, pairwise
from sphereot.sketch.sketch import Sketch

__all__ = ["PairwiseSketchDistances", "Sketch", "SketchDistance", "pairwise"]
