"""One-line error and exit code 2 if the command `sphereot` cannot start (exit code 1 means drift).

Python itself exits with code 1 after an error during imports, such as a bad environment variable or too little memory
for NumPy. This module imports the standard library alone, so that it is loaded before such an error can occur.
"""

import mmap
import os.path
import sys
from types import TracebackType

__all__ = ["FAILURE", "end_with_message"]

FAILURE = 2
_MEGABYTES = 256  # with less, linear algebra libraries exit the process themselves, with code 1


def _runs_command() -> bool:
    """Whether this process was started as `sphereot` or `python -m sphereot`."""
    if sys.argv[:1] == ["-m"]:  # until Python has located the module
        words = sys.orig_argv
        return any(words[k : k + 2] == ["-m", "sphereot"] for k in range(1, len(words))) or "-msphereot" in words
    return bool(sys.argv) and os.path.basename(sys.argv[0]).removesuffix(".exe") in ("sphereot", "sphereot-script.py")


def _install_hook() -> None:
    """Make uncaught errors of the command end it with one line and exit code 2."""
    if not _runs_command():
        return
    sys.excepthook = _excepthook
    try:
        mmap.mmap(-1, _MEGABYTES << 20).close()  # address space alone: nothing is written to it
    except OSError as error:
        raise MemoryError from error


def end_with_message(error: BaseException) -> None:
    """Print in one line why the command cannot start (with --debug, the traceback), and exit with code 2."""
    if "--debug" in sys.argv:
        sys.__excepthook__(type(error), error, error.__traceback__)
    else:
        print(f"Error: {_one_line(error)}", file=sys.stderr)
    sys.exit(FAILURE)


def _excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if isinstance(error, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    end_with_message(error)


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"there is not enough memory; at least {_MEGABYTES} MB are needed."
    # NumPy wraps the reason in a page of advice and keeps it as the cause.
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0] if lines else type(error).__name__
    return reason if isinstance(error, ImportError) else f"{type(error).__name__}: {reason}"


_install_hook()
