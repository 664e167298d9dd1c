"""Statistical tests of samples on the sphere: two samples, uniformity, drift, and where samples differ."""

from sphereot.stats.differences import DifferenceMap, RowContributions, difference_map, row_contributions
from sphereot.stats.drift import DriftResult, drift_test
from sphereot.stats.monitor import DriftMonitor, MonitoredWindow
from sphereot.stats.sketch_tests import DriftWindow, ProjectedDensities
from sphereot.stats.two_sample import DifferingCircle, TwoSampleResult, two_sample_test
from sphereot.stats.uniformity import ClassicalTest, UniformityResult, clear_null_cache, uniformity_test

__all__ = [
    "ClassicalTest",
    "DifferenceMap",
    "DifferingCircle",
    "DriftMonitor",
    "DriftResult",
    "DriftWindow",
    "MonitoredWindow",
    "ProjectedDensities",
    "RowContributions",
    "TwoSampleResult",
    "UniformityResult",
    "clear_null_cache",
    "difference_map",
    "drift_test",
    "row_contributions",
    "two_sample_test",
    "uniformity_test",
]
