"""The backend for JAX arrays."""
