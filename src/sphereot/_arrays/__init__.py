"""Array utilities for every library: library detection, input validation, random numbers, large orders p."""

__all__: list[str] = []
