"""General-purpose helpers: atomic file writing, checkpoints, progress bars, text, Bessel functions."""

__all__: list[str] = []
