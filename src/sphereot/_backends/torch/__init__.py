"""The backend for PyTorch tensors."""

__all__: list[str] = []
