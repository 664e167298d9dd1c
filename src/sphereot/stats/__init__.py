"""Statistical tests of samples on the sphere: two samples, pairs, uniformity, drift, and where samples differ."""

from typing import TYPE_CHECKING

from sphereot._support.lazy_modules import import_on_use
from sphereot.stats.differences import DifferenceMap, RowContributions, difference_map, row_contributions
from sphereot.stats.drift import DriftResult, drift_test
from sphereot.stats.monitor import DriftMonitor, MonitoredWindow
from sphereot.stats.paired import PairedResult, paired_test
from sphereot.stats.sketch_tests import DriftWindow, ProjectedDensities
from sphereot.stats.two_sample import DifferingCircle, TwoSampleResult, two_sample_test
from sphereot.stats.uniformity import ClassicalTest, UniformityResult, clear_null_cache, uniformity_test

if TYPE_CHECKING:
    from sphereot.stats import prometheus as prometheus

__all__ = [
    "ClassicalTest",
    "DifferenceMap",
    "DifferingCircle",
    "DriftMonitor",
    "DriftResult",
    "DriftWindow",
    "MonitoredWindow",
    "PairedResult",
    "ProjectedDensities",
    "RowContributions",
    "TwoSampleResult",
    "UniformityResult",
    "clear_null_cache",
    "difference_map",
    "drift_test",
    "paired_test",
    "row_contributions",
    "two_sample_test",
    "uniformity_test",
]

__getattr__ = import_on_use(__name__, "prometheus")
