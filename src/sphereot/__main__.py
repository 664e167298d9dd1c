"""`python -m sphereot` is the command `sphereot`."""

from sphereot.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
