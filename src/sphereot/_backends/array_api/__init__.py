"""Array-API backend: runs on every library and device that the compiled kernel does not support."""
