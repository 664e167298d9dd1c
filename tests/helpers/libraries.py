"""The array libraries that are tested, and a check of the arrays that they return."""

import array_api_compat
import numpy as np
import pytest
from numpy.testing import assert_allclose

__all__ = ["DTYPES", "LIBRARIES", "Library"]

LIBRARIES = ["numpy", "torch", "jax", "array_api_strict"]
DTYPES = ["float32", "float64"]


class Library:
    """Arrays of one library and dtype."""

    def __init__(self, name: str, dtype: str):
        self.name, self.dtype = name, dtype
        self.module = pytest.importorskip({"jax": "jax.numpy"}.get(name, name))

    def array(self, values):
        return self.module.asarray(np.asarray(values), dtype=getattr(self.module, self.dtype))

    def rtol(self):
        return 1e-9 if self.dtype == "float64" else 2e-4

    def check(self, got, expected, *, shape=()):
        """Same library and dtype as the inputs, and the value that NumPy's float64 gives."""
        like = self.array([0.0])
        assert array_api_compat.is_array_api_obj(got)
        assert array_api_compat.array_namespace(got) is array_api_compat.array_namespace(like)
        assert got.dtype == like.dtype
        assert tuple(got.shape) == shape
        assert_allclose(np.asarray(np.from_dlpack(got) if self.name != "numpy" else got), expected, rtol=self.rtol())
