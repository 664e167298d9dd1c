"""Benchmarks of sphereot against other packages and against lower bounds on the same machine: `make bench`."""
