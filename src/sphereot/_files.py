"""Files that are there whole or not at all: written aside, then renamed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["write_aside", "write_text"]


@contextmanager
def write_aside(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; it becomes `target` when the context ends well, and is removed when it does not.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with write_aside(f"{folder}/page.txt") as path:
    ...         _ = path.write_text("all of it")
    ...     Path(folder, "page.txt").read_text()
    'all of it'
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        umask = os.umask(0)
        os.umask(umask)
        aside.chmod(0o666 & ~umask)  # mkstemp makes files that only their owner can read
        aside.replace(target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_text(target: str | os.PathLike[str], text: str) -> Path:
    """Write a text file whole."""
    with write_aside(target) as aside:
        aside.write_text(text, encoding="utf-8", newline="\n")
    return Path(target)
