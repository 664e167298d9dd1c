"""Values that any implementation of SSW can test against: `values.json`, and the program that makes it."""
