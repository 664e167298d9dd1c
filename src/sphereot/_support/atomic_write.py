"""Atomic file writing, to a temporary file that is then renamed, and locks on files."""

import errno
import os
import re
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sphereot._support.extras import require

_MAX_PREFIX = 50  # characters, of up to four bytes each: file names have at most 255 bytes
_MAX_REASON = 200  # characters
_POLL_SECONDS = 0.02
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EPIPE}


@contextmanager
def write_aside(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file atomically: the context gives a temporary path, which is renamed to `target` at the end.

    If the context ends with an error, the temporary file is removed and `target` is unchanged. Symbolic links are
    followed, and an existing file keeps its mode and owner. A device or a FIFO is not replaced: the content is copied
    to it when the context ends.

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
    before = _status(target)
    if before is not None and stat.S_ISDIR(before.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if before is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    if is_stream(target):
        with _named_after(target), tempfile.TemporaryDirectory() as folder:
            aside = Path(folder, "content")
            aside.touch()
            yield aside
            with aside.open("rb") as content, target.open("wb") as stream:
                shutil.copyfileobj(content, stream)
        return
    final = Path(os.path.realpath(target))
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle, name = tempfile.mkstemp(dir=final.parent, prefix=_prefix(final))
    except OSError as error:  # it names the temporary file, which the caller does not know
        raise OSError(error.errno, error.strerror, str(final)) from error
    os.close(handle)
    aside = Path(name)
    try:
        with _named_after(target, aside):
            yield aside
            _copy_mode(aside, before)
            aside.replace(final)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_text(target: str | os.PathLike[str], text: str) -> Path:
    """Write a text file atomically, in UTF-8."""
    with write_aside(target) as aside:
        aside.write_text(text, encoding="utf-8", newline="\n")
    return Path(target)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Return whether a path, with links followed, is neither a regular file nor a folder, such as a device.

    >>> is_stream(os.devnull), is_stream("no such file")
    (True, False)
    """
    status = _status(Path(path))
    if status is None or stat.S_ISDIR(status.st_mode):
        return False
    # A path such as /dev/fd/3 may refer to a deleted file, which cannot be replaced either.
    return not stat.S_ISREG(status.st_mode) or not os.path.exists(os.path.realpath(path))


def reason_of(error: Exception) -> str:
    r"""Return the message of an error in one line, as a part of a message that names the file.

    >>> reason_of(KeyError("dim")), reason_of(RuntimeError("two\n\tlines"))
    ("there is no 'dim'", 'two lines')
    """
    text = f"there is no {error}" if isinstance(error, KeyError) else str(error)
    return " ".join(text.split()).rstrip(".")[:_MAX_REASON] or type(error).__name__


def remove_leftovers(target: Path) -> None:
    """Remove temporary files that a killed process left behind in `write_aside(target)`."""
    final = Path(os.path.realpath(target))
    pattern = re.compile(re.escape(_prefix(final)) + r"[a-z0-9_]{8}")  # the names that mkstemp gives
    if final.parent.is_dir():
        for file in final.parent.iterdir():
            if pattern.fullmatch(file.name):
                file.unlink(missing_ok=True)


@contextmanager
def hold_lock(path: Path, message: str) -> Iterator[None]:
    """Hold the lock file `path`; raise a ValueError with `message` if another process or thread holds it.

    The lock also ends if the process is killed. The file is removed at the end of the context.
    """
    handle = open_locked(path, message)
    try:
        yield
    finally:
        with suppress(PermissionError):  # Windows keeps files that are open
            path.unlink(missing_ok=True)  # still locked, so that no other process can hold it
        os.close(handle)


def open_locked(path: Path, message: str, *, wait: float = 0.0, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open a file, lock it, and return its handle; the lock ends when the handle is closed.

    A ValueError with `message` is raised if another process or thread still holds the lock after `wait` seconds. On a
    file system without locks, a warning is given instead. `flags` are those of `os.open`.
    """
    deadline = time.monotonic() + wait
    while True:
        handle = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666)
        try:
            held = _try_lock(handle, path)
            status = _status(path)
            # Its holder may have removed or replaced the file since it was opened.
            if held and status is not None and os.path.samestat(status, os.fstat(handle)):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        if not held:
            if time.monotonic() >= deadline:
                raise ValueError(message)
            time.sleep(_POLL_SECONDS)


def _try_lock(handle: int, path: Path) -> bool:
    """Lock an open file without waiting, and return False if another handle holds the lock."""
    try:
        return bool(require("filelock", "locking a file").lock_descriptor(handle, blocking=False))
    except OSError as error:
        warnings.warn(
            f"{path}: the file system cannot lock this file ({error.strerror}). Run one process at a time that writes "
            "to it.",
            RuntimeWarning,
            stacklevel=4,
        )
        return True


def _status(path: Path) -> os.stat_result | None:
    """Status of a file, None if it does not exist."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _prefix(final: Path) -> str:
    return f".{final.name[:_MAX_PREFIX]}."


def _copy_mode(aside: Path, before: os.stat_result | None) -> None:
    """Give a file the mode and owner of the file it replaces, or those of a new file."""
    if before is None:
        umask = os.umask(0)
        os.umask(umask)
        aside.chmod(0o666 & ~umask)  # mkstemp creates files that only their owner can read
        return
    if hasattr(os, "chown"):
        with suppress(OSError):  # only the superuser can give files away
            os.chown(aside, before.st_uid, before.st_gid)
    aside.chmod(stat.S_IMODE(before.st_mode))


@contextmanager
def _named_after(target: Path, aside: Path | None = None) -> Iterator[None]:
    """Name the target in errors of writing, which otherwise name no file or the temporary one."""
    try:
        yield
    except OSError as error:
        nameless = error.filename is None and error.errno in _WRITE_ERRORS
        if nameless or (aside is not None and error.filename is not None and str(error.filename) == str(aside)):
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise
