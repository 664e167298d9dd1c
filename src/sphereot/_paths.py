"""The two implementations of the mathematics, and which one an array takes.

`_native` is the compiled kernel, for NumPy arrays; `_portable` is array-API code, for every other library and for NumPy
where no kernel was built. Both give the same functions.
"""

from types import ModuleType

from sphereot import _native
from sphereot.arrays import Array, is_numpy

__all__ = ["path_for"]


def path_for(array: Array) -> ModuleType:
    """The module of slice functions for arrays of this kind."""
    if _native.available and is_numpy(array):
        from sphereot._native import slices as native_slices

        return native_slices
    from sphereot._portable import slices as portable_slices

    return portable_slices
