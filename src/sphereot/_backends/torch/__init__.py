"""The backend for PyTorch tensors."""
