"""The door for jax arrays."""

__all__: list[str] = []
