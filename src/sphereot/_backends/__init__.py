"""The implementations of the mathematics, and which one an array takes.

`_native` is the compiled kernel, for NumPy arrays; `_portable` is array-API code, for every library. Both give the same
functions, and so do the doors of the frameworks (`torch`, `jax`), which choose between the two and add gradients.
"""

from types import ModuleType

from sphereot._arrays.libraries import Array, framework
from sphereot._backends import native as _native

__all__ = ["path_for"]


def path_for(array: Array) -> ModuleType:
    """The module of slice functions for arrays of this kind."""
    kind = framework(array)
    if kind == "torch":
        from sphereot._backends.torch import backend as torch_path

        return torch_path
    if kind == "jax":
        from sphereot._backends.jax import backend as jax_path

        return jax_path
    if kind == "numpy" and _native.available:
        from sphereot._backends.native import costs as native_path

        return native_path
    from sphereot._backends.array_api import costs as portable_path

    return portable_path
