"""Script that connects two pipes to the descriptors that chromium uses (3 and 4), and executes chromium."""

import fcntl
import os
import sys


def become_chromium(hears: int, speaks: int, command: list[str]) -> None:
    # First out of the way of 3 and 4, which either may be.
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in (hears, speaks)]
    for target, descriptor in zip((3, 4), high, strict=True):
        os.dup2(descriptor, target, inheritable=True)
        os.close(descriptor)
    os.execv(command[0], command)


if __name__ == "__main__":
    become_chromium(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
