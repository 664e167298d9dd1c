"""The door for torch arrays."""

__all__: list[str] = []
