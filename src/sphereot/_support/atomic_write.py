"""Files that are there whole or not at all: written aside, then renamed; and locks on folders."""

import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["is_stream", "locked", "reason_of", "remove_leftovers", "write_aside", "write_text"]

_LONGEST_PREFIX = 50  # characters, of up to four bytes each: names of files have at most 255 bytes
_LONGEST_REASON = 200
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}


@contextmanager
def write_aside(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; it becomes `target` when the context ends well, and is removed when it does not.

    Symbolic links are followed, and a file that is there keeps its mode and owner. What is no regular file, such as a
    device or a FIFO, is not replaced: the content is copied to it when the context ends.

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
    aside = _new_file_beside(final)
    try:
        with _named_after(target, aside):
            yield aside
            _take_over_mode(aside, before)
            aside.replace(final)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_text(target: str | os.PathLike[str], text: str) -> Path:
    """Write a text file whole."""
    with write_aside(target) as aside:
        aside.write_text(text, encoding="utf-8", newline="\n")
    return Path(target)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether there is something at `path`, behind all links, that is neither a regular file nor a folder.

    >>> is_stream(os.devnull), is_stream("no such file")
    (True, False)
    """
    status = _status(Path(path))
    if status is None or stat.S_ISDIR(status.st_mode):
        return False
    # A name such as /dev/fd/3 may lead to a file that has no name any more, and so cannot be replaced either.
    return not stat.S_ISREG(status.st_mode) or not os.path.exists(os.path.realpath(path))


def reason_of(error: Exception) -> str:
    r"""Why a file was refused, as one line for a message that names it.

    >>> reason_of(KeyError("dim")), reason_of(RuntimeError("two\n\tlines"))
    ("there is no 'dim'", 'two lines')
    """
    text = f"there is no {error}" if isinstance(error, KeyError) else str(error)
    return " ".join(text.split()).rstrip(".")[:_LONGEST_REASON] or type(error).__name__


def remove_leftovers(target: Path) -> None:
    """Remove what a kill in the midst of `write_aside(target)` left behind."""
    final = Path(os.path.realpath(target))
    pattern = re.compile(re.escape(_prefix(final)) + r"[a-z0-9_]{8}")  # the names that mkstemp gives
    if final.parent.is_dir():
        for file in final.parent.iterdir():
            if pattern.fullmatch(file.name):
                file.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, message: str) -> Iterator[None]:
    """Hold the lock file `path`, or raise a ValueError with this message if another process or thread holds it.

    The lock ends with the process, however that ends; the file is removed at the end of the context. Where the system
    has no such locks, nothing is locked.
    """
    if fcntl is None:
        yield
        return
    handle = _lock_file(path, message)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # still locked: nobody else can have taken it as theirs
        os.close(handle)


def _lock_file(path: Path, message: str) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise ValueError(message) from None
        except OSError:  # a file system without locks
            return handle
        status = _status(path)
        if status is not None and os.path.samestat(status, os.fstat(handle)):
            return handle
        os.close(handle)  # the run before removed it between the two calls


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _prefix(final: Path) -> str:
    return f".{final.name[:_LONGEST_PREFIX]}."


def _new_file_beside(final: Path) -> Path:
    try:
        handle, name = tempfile.mkstemp(dir=final.parent, prefix=_prefix(final))
    except OSError as error:  # it names the file to write aside, which nobody has heard of
        raise OSError(error.errno, error.strerror, str(final)) from error
    os.close(handle)
    return Path(name)


def _take_over_mode(aside: Path, before: os.stat_result | None) -> None:
    if before is None:
        umask = os.umask(0)
        os.umask(umask)
        aside.chmod(0o666 & ~umask)  # mkstemp makes files that only their owner can read
        return
    if hasattr(os, "chown"):
        with suppress(OSError):  # only the superuser can give files away
            os.chown(aside, before.st_uid, before.st_gid)
    aside.chmod(stat.S_IMODE(before.st_mode))


@contextmanager
def _named_after(target: Path, aside: Path | None = None) -> Iterator[None]:
    """Name the target in errors of writing, which name no file, or the one aside."""
    try:
        yield
    except OSError as error:
        nameless = error.filename is None and error.errno in _NO_ROOM
        if nameless or (aside is not None and error.filename is not None and str(error.filename) == str(aside)):
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise
