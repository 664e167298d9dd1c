"""Short scripts that show one thing each."""
