"""The implementations of the mathematics, and which one an array takes.

`_native` is the compiled kernel, for NumPy arrays; `_portable` is array-API code, for every library. Both give the same
functions, and so do the doors of the frameworks (`torch`, `jax`), which choose between the two and add gradients.
"""

import importlib
from types import ModuleType

from sphereot import _native
from sphereot.arrays import Array, framework

__all__ = ["path_for"]

_DOORS = {"torch": "sphereot.torch.path", "jax": "sphereot.jax.path"}


def path_for(array: Array) -> ModuleType:
    """The module of slice functions for arrays of this kind."""
    kind = framework(array)
    if kind in _DOORS:
        return importlib.import_module(_DOORS[kind])
    if kind == "numpy" and _native.available:
        return importlib.import_module("sphereot._native.slices")
    return importlib.import_module("sphereot._portable.slices")
