"""Implementations of the sliced costs, one per array library, behind one protocol.

`native` is the compiled kernel, for NumPy arrays. `array_api` runs on every library that follows the array API
standard. `torch` and `jax` choose between the two by device, and add gradients.
"""

from sphereot._arrays.libraries import Array, framework
from sphereot._backends import native
from sphereot._backends.array_api import backend as array_api_backend
from sphereot._backends.array_api import sketches as array_api_sketches
from sphereot._backends.native import backend as native_backend
from sphereot._backends.native import sketches as native_sketches
from sphereot._backends.native import threads_limited_to
from sphereot._backends.protocol import Backend, SketchBackend

__all__ = ["backend_for", "sketch_backend", "threads_limited_to"]


def backend_for(array: Array) -> Backend:
    """Choose the backend for the library of `array`."""
    library = framework(array)
    if library == "torch":
        from sphereot._backends.torch import backend as torch_backend

        return torch_backend
    if library == "jax":
        from sphereot._backends.jax import backend as jax_backend

        return jax_backend
    return native_backend if native.serves(array) else array_api_backend


def sketch_backend() -> SketchBackend:
    """Choose the backend of sketches: the compiled kernel, or NumPy if it is not built."""
    return native_sketches if native.available else array_api_sketches
