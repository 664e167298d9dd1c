"""Array utilities for every library: library detection, input validation, random numbers."""
