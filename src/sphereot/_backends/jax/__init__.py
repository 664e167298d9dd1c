"""The backend for JAX arrays."""

__all__: list[str] = []
