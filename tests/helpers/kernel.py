"""Marker of tests that need the compiled kernel."""

import pytest

from sphereot._backends import native

__all__ = ["needs_kernel"]

needs_kernel = pytest.mark.skipif(not native.available, reason="the kernel is not built")
