"""How the command `sphereot` ends where it cannot start: with one line and exit code 2, for 1 means drift.

Python itself ends with exit code 1 after an error while modules are imported: a bad environment variable, or too little
memory for NumPy. Nothing but the standard library is imported here, so that this module is there before such an error.
"""

import mmap
import os.path
import sys
from types import TracebackType

__all__ = ["FAILURE", "end_with_message"]

FAILURE = 2
_MEGABYTES = 256  # with less, libraries of linear algebra end the process themselves, with exit code 1


def _runs_command() -> bool:
    """Whether this process was started as `sphereot` or `python -m sphereot`."""
    if sys.argv[:1] == ["-m"]:  # what Python has there until it knows the file
        words = sys.orig_argv
        return any(words[k : k + 2] == ["-m", "sphereot"] for k in range(1, len(words))) or "-msphereot" in words
    return bool(sys.argv) and os.path.basename(sys.argv[0]).removesuffix(".exe") in ("sphereot", "sphereot-script.py")


def _watch() -> None:
    """From now on, an error that nothing catches ends the command with one line and exit code 2."""
    if not _runs_command():
        return
    sys.excepthook = _end
    try:
        mmap.mmap(-1, _MEGABYTES << 20).close()  # address space alone: nothing is written to it
    except OSError as error:
        raise MemoryError from error


def end_with_message(error: BaseException) -> None:
    """Say in one line why the command cannot start, or show the traceback with --debug; end with exit code 2."""
    if "--debug" in sys.argv:
        sys.__excepthook__(type(error), error, error.__traceback__)
    else:
        print(f"Error: {_one_line(error)}", file=sys.stderr)
    sys.exit(FAILURE)


def _end(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    if isinstance(error, KeyboardInterrupt):
        sys.__excepthook__(kind, error, where)
        return
    end_with_message(error)


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"there is not enough memory; {_MEGABYTES} MB at least are needed."
    # NumPy wraps what went wrong in a page of advice, and has the reason as the cause.
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0] if lines else type(error).__name__
    return reason if isinstance(error, ImportError) else f"{type(error).__name__}: {reason}"


_watch()
