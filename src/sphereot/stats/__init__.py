"""Statistics of samples on the sphere: kernel densities, and tests whether samples are alike or uniform."""

from sphereot.stats.kde import SphericalKDE
from sphereot.stats.two_sample import DifferingCircle, TwoSampleResult, two_sample_test
from sphereot.stats.uniformity import ClassicalTest, UniformityResult, clear_null_cache, uniformity_test

__all__ = [
    "ClassicalTest",
    "DifferingCircle",
    "SphericalKDE",
    "TwoSampleResult",
    "UniformityResult",
    "clear_null_cache",
    "two_sample_test",
    "uniformity_test",
]
