"""Statistics of samples on the sphere."""

from sphereot.stats.kde import SphericalKDE

__all__ = ["SphericalKDE"]
