"""One module per figure or table of the paper; each has an `EXPERIMENT`."""
