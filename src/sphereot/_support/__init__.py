"""Helpers without knowledge of the sphere: files, checkpoints, progress bars, text, special functions."""

__all__: list[str] = []
