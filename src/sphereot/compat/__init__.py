"""Functions with the names and arguments of other libraries, to replace them by changing one import."""

from sphereot.compat import pot

__all__ = ["pot"]
