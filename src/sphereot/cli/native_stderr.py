"""Panics of native code while a file is read, raised as one-line errors.

A damaged Parquet file makes polars panic on a thread of its own. The message of the panic is written to file descriptor
2, not through Python, and the stream of batches ends as usual: the message is the only sign that rows are missing.
"""

import faulthandler
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["raise_panics"]

_PANIC = re.compile(r"panicked at [^\n]*\n([^\n]*)")
_MAX_REASON_LENGTH = 160


@contextmanager
def raise_panics(path: Path) -> Iterator[None]:
    """Raise a ValueError that names the file if native code panics inside the context.

    Other text is written to stderr at the end; after an error it becomes a note of the error, which `--debug` shows.
    """
    captured: list[str] = []
    failed: Exception | None = None
    with _captured_stderr(captured):
        try:
            yield
        except Exception as error:
            failed = error
    text = "".join(captured)
    panic = _PANIC.search(text)
    if panic is not None:
        reason = panic[1].strip()[:_MAX_REASON_LENGTH]
        raise ValueError(f"{path}: cannot be read; it seems to be damaged ({reason}).") from RuntimeError(text)
    if failed is not None:
        if text:
            failed.add_note(text)
        raise failed
    if text and sys.stderr is not None:
        sys.stderr.write(text)


@contextmanager
def _captured_stderr(captured: list[str]) -> Iterator[None]:
    """Append to `captured` what is written to file descriptor 2 inside the context."""
    try:
        stderr, buffer = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115
    except OSError:  # stderr is closed, or there is no folder for temporary files
        yield
        return
    _flush()
    # A damaged file can make native code allocate too much and abort the process: show where it happened.
    enabled_here = not faulthandler.is_enabled()
    if enabled_here:
        faulthandler.enable(stderr, all_threads=False)
    with buffer:
        os.dup2(buffer.fileno(), 2)
        try:
            yield
        finally:
            _flush()
            os.dup2(stderr, 2)
            if enabled_here:
                faulthandler.disable()
            os.close(stderr)
            buffer.seek(0)
            captured.append(buffer.read().decode(errors="replace"))


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
