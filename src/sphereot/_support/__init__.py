"""General helpers: atomic file writing, checkpoints, optional packages, text, units, Bessel functions."""
