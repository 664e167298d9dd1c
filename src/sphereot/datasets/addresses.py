"""Files at addresses such as s3://bucket/day.parquet: fsspec copies them to a temporary folder while they are read."""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlsplit

from sphereot._support.extras import require
from sphereot._support.text import natural_order

# `Path` writes s3://bucket/x as s3:/bucket/x. A scheme has two letters at least, since C:/ is a drive.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.+)", re.DOTALL)
_LOCAL_SCHEMES = ("file", "local")
_NO_FOLDERS = ("http", "https")  # "?" begins the query of such an address, and what it lists is not known
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_VERSION_FIELDS = ("ETag", "etag", "LastModified", "last_modified", "mtime", "updated", "created")


def address_of(path: str | os.PathLike[str]) -> str | None:
    """The address that a path stands for, None for a path on this machine.

    >>> address_of(Path("s3://bucket/day.parquet"))
    's3://bucket/day.parquet'
    >>> address_of("day.parquet") is None
    True
    """
    match = _ADDRESS.fullmatch(Path(path).as_posix())
    if match is None or Path(path).exists():
        return None
    scheme, rest = match.groups()
    return f"{scheme}:///{rest}" if scheme in _LOCAL_SCHEMES else f"{scheme}://{rest}"


@dataclass(frozen=True)
class Source:
    """A file to read: its path as it was given, by which messages name it, and the copy of what is at an address."""

    path: Path
    copy: Path | None = None

    @property
    def local(self) -> Path:
        """The file on this machine."""
        return self.copy or self.path

    def __str__(self) -> str:
        return address_of(self.path) or str(self.path)


@contextmanager
def local_copy(path: str | os.PathLike[str]) -> Iterator[Source]:
    """A file on this machine: the path itself, or a copy of what is at the address, removed at the end."""
    address = address_of(path)
    if address is None:
        yield Source(Path(path))
        return
    with TemporaryDirectory(prefix="sphereot-") as folder:
        copy = Path(folder, PurePosixPath(urlsplit(address).path).name or "file")
        system, remote = _file_system(address)
        with _address_errors(address):
            system.get(remote, str(copy))
        yield Source(Path(path), copy)


def size_and_version(path: Path) -> list[Any]:
    """The size of a file in bytes, and what changes when its content does: the time of its last change or a tag."""
    address = address_of(path)
    if address is None:
        status = path.stat()
        return [status.st_size, status.st_mtime_ns]
    system, remote = _file_system(address)
    with _address_errors(address):
        details = system.info(remote)
    return [int(details.get("size") or 0), *(str(details[name]) for name in _VERSION_FIELDS if name in details)]


def size_and_head(path: Path, count: int) -> tuple[int, bytes]:
    """The size of a file in bytes, and its first `count` bytes."""
    address = address_of(path)
    if address is None:
        with path.open("rb") as file:
            return path.stat().st_size, file.read(count)
    system, remote = _file_system(address)
    with _address_errors(address), system.open(remote, "rb") as file:
        return int(system.info(remote).get("size") or 0), bytes(file.read(count))


def partition_keys(path: Path) -> dict[str, str | None]:
    """The keys and values in the names of the folders of a partitioned table.

    >>> partition_keys(Path("log/day=2026-03-01/user=a%20b/part-0.parquet"))
    {'day': '2026-03-01', 'user': 'a b'}
    """
    pairs = [part.partition("=") for part in path.parts[:-1] if "=" in part]
    return {unquote(key): None if value == _NO_VALUE else unquote(value) for key, _, value in pairs}


def is_pattern(path: Path) -> bool:
    """Whether a path holds `*`, `?` or `[`, and is not that of a file whose name holds such a character."""
    if not has_magic(str(path)) or path.exists():
        return False
    address = address_of(path)
    return address is None or urlsplit(address).scheme not in _NO_FOLDERS


def files_at(path: Path) -> list[Path] | None:
    """All files in a folder, or those that a pattern matches, in no order; None if the path is that of one file.

    A pattern that matches folders alone stands for the files in them. Names in a folder that begin with a period or an
    underscore are those of other programs, and left out.
    """
    if is_pattern(path):
        matches = expand_patterns([path])
        files = [match for match in matches if not _is_folder(match)]
        return files or [file for folder in matches for file in _files_in(folder)]
    return _files_in(path) if _is_folder(path) else None


def expand_patterns(paths: Sequence[Path]) -> list[Path]:
    """Paths with those that hold `*`, `?` or `[` replaced by the files they match, week2 before week10.

    A file whose name holds such a character is taken as it is.
    """
    expanded: list[Path] = []
    for path in paths:
        if not is_pattern(path):
            expanded.append(path)
            continue
        address = address_of(path)
        if address is None:
            matches = [Path(name) for name in glob(str(path), recursive=True)]
        else:
            system, remote = _file_system(address)
            with _address_errors(address):
                matches = [Path(system.unstrip_protocol(name)) for name in system.glob(remote)]
        if not matches:
            raise ValueError(f"{path}: there is no file of such a name.")
        expanded += sorted(matches, key=lambda match: natural_order(str(match)))
    return expanded


def _is_folder(path: Path) -> bool:
    address = address_of(path)
    if address is None:
        return path.is_dir()
    if urlsplit(address).scheme in _NO_FOLDERS:
        return False
    system, remote = _file_system(address)
    with _address_errors(address):
        return bool(system.isdir(remote))


def _files_in(folder: Path) -> list[Path]:
    address = address_of(folder)
    if address is None:
        files = [file for file in folder.rglob("*") if file.is_file()]
    else:
        system, remote = _file_system(address)
        with _address_errors(address):
            files = [Path(system.unstrip_protocol(name)) for name in system.find(remote)]
    depth = len(folder.parts)
    return [file for file in files if not any(part.startswith((".", "_")) for part in file.parts[depth:])]


def _file_system(address: str) -> tuple[Any, str]:
    fsspec = require("fsspec", f"{address}: reading an address")
    try:
        system, remote = fsspec.url_to_fs(address)
    except (ValueError, ImportError) as error:  # an unknown scheme, or the package of a known one is missing
        raise ValueError(f"{address}: cannot be opened ({error}).") from error
    return system, remote


@contextmanager
def _address_errors(address: str) -> Iterator[None]:
    """Name the address in errors; each kind of file system has its own kinds of them."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "there is no such file", address) from error
    except Exception as error:
        raise OSError(f"{address}: cannot be read ({type(error).__name__}: {error}).") from error
