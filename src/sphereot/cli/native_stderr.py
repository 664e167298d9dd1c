"""What native readers write to stderr on their own, past Python: held back while a file is read, and told in one line.

A damaged Parquet file makes polars panic on a thread of its own. The text of the panic goes straight to file descriptor
2, and the stream of batches just ends: that text is then the only sign that rows are missing.
"""

import faulthandler
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["panics_told"]

_PANIC = re.compile(r"panicked at [^\n]*\n([^\n]*)")
_LONGEST_REASON = 160


@contextmanager
def panics_told(path: Path) -> Iterator[None]:
    """Raise a ValueError that names the file if native code panics meanwhile.

    Other text is passed on at the end; where the file is refused, it is a note of the error, which `--debug` shows.
    """
    held: list[str] = []
    failed: Exception | None = None
    with _held_back(held):
        try:
            yield
        except Exception as error:
            failed = error
    text = "".join(held)
    panic = _PANIC.search(text)
    if panic is not None:
        reason = panic[1].strip()[:_LONGEST_REASON]
        raise ValueError(f"{path}: cannot be read; it seems to be damaged ({reason}).") from RuntimeError(text)
    if failed is not None:
        if text:
            failed.add_note(text)
        raise failed
    if text and sys.stderr is not None:
        sys.stderr.write(text)


@contextmanager
def _held_back(held: list[str]) -> Iterator[None]:
    """Collect what is written to file descriptor 2."""
    try:
        kept, aside = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115
    except OSError:  # stderr is closed and cannot be written to, or there is no place to hold anything
        yield
        return
    _flush()
    # Memory that a damaged file asks for in vain ends the process there and then; it must not end without a word.
    ours = not faulthandler.is_enabled()
    if ours:
        faulthandler.enable(kept, all_threads=False)
    with aside:
        os.dup2(aside.fileno(), 2)
        try:
            yield
        finally:
            _flush()
            os.dup2(kept, 2)
            if ours:
                faulthandler.disable()
            os.close(kept)
            aside.seek(0)
            held.append(aside.read().decode(errors="replace"))


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
