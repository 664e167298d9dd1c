"""Statistics of samples on the sphere: kernel density estimates, mixtures, two-sample, uniformity and drift tests."""

from sphereot.stats._circle_density import ProjectedDensities
from sphereot.stats.adaptive_kde import AdaptiveKDE
from sphereot.stats.components import VonMisesFisherComponents
from sphereot.stats.contributions import RowContributions, row_contributions
from sphereot.stats.difference_map import DifferenceMap, difference_map
from sphereot.stats.drift import DriftResult, DriftWindow, drift_test
from sphereot.stats.kde import SphericalKDE
from sphereot.stats.mixture import VonMisesFisherMixture
from sphereot.stats.monitor import DriftMonitor
from sphereot.stats.monitored_window import MonitoredWindow
from sphereot.stats.two_sample import DifferingCircle, TwoSampleResult, two_sample_test
from sphereot.stats.uniformity import ClassicalTest, UniformityResult, clear_null_cache, uniformity_test

__all__ = [
    "AdaptiveKDE",
    "ClassicalTest",
    "DifferenceMap",
    "DifferingCircle",
    "DriftMonitor",
    "DriftResult",
    "DriftWindow",
    "MonitoredWindow",
    "ProjectedDensities",
    "RowContributions",
    "SphericalKDE",
    "TwoSampleResult",
    "UniformityResult",
    "VonMisesFisherComponents",
    "VonMisesFisherMixture",
    "clear_null_cache",
    "difference_map",
    "drift_test",
    "row_contributions",
    "two_sample_test",
    "uniformity_test",
]
