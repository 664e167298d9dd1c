"""The implementations of the mathematics, and which one an array takes.

`_native` is the compiled kernel, for NumPy arrays; `_portable` is array-API code, for every library. Both give the same
functions, and so do the doors of the frameworks (`torch`, `jax`), which choose between the two and add gradients.
"""

from types import ModuleType

from sphereot import _native
from sphereot._libraries import Array, framework

__all__ = ["path_for"]


def path_for(array: Array) -> ModuleType:
    """The module of slice functions for arrays of this kind."""
    kind = framework(array)
    if kind == "torch":
        from sphereot.torch import path as torch_path

        return torch_path
    if kind == "jax":
        from sphereot.jax import path as jax_path

        return jax_path
    if kind == "numpy" and _native.available:
        from sphereot._native import slices as native_path

        return native_path
    from sphereot._portable import slices as portable_path

    return portable_path
