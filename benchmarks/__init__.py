"""Benchmarks of sphereot against its peers and against the limits of the machine: `make bench`."""
