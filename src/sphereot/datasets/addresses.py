"""Files at addresses such as s3://bucket/day.parquet: fsspec copies them to a temporary folder while they are read."""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import glob, has_magic
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from sphereot._support.column_names import natural_order
from sphereot._support.extras import require

__all__ = ["address_of", "expand_patterns", "local_copy", "size_and_version"]

# `Path` writes s3://bucket/x as s3:/bucket/x. A scheme has two letters at least, since C:/ is a drive.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.+)", re.DOTALL)
_LOCAL_SCHEMES = ("file", "local")
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


@contextmanager
def local_copy(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path on this machine: the path itself, or a copy of what is at the address, removed at the end.

    Errors of value in the body name the address in place of the copy.
    """
    address = address_of(path)
    if address is None:
        yield Path(path)
        return
    with TemporaryDirectory(prefix="sphereot-") as folder:
        copy = Path(folder) / PurePosixPath(urlsplit(address).path or "file").name
        system, remote = _file_system(address)
        with _address_errors(address):
            if system.isdir(remote):
                system.get(remote.rstrip("/") + "/", f"{copy}/", recursive=True)
            else:
                system.get(remote, str(copy))
        try:
            yield copy
        except ValueError as error:
            raise ValueError(str(error).replace(str(copy), address)) from error


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


def expand_patterns(paths: Sequence[Path]) -> list[Path]:
    """Paths with those that hold `*`, `?` or `[` replaced by the files they match, week2 before week10.

    A file whose name holds such a character is taken as it is.
    """
    expanded: list[Path] = []
    for path in paths:
        if not has_magic(str(path)) or path.exists():
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
