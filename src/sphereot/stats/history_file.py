"""The file of a drift history: JSON lines that several processes extend, with a checksum in every line.

The first line contains the settings of the monitor and the checksum of the last line; every other line is a window. The
checksum of a line also covers the checksum of the line before it. A changed, repeated, moved or missing line is an
error when the file is read, also if lines are missing at the end. A window is written to the disk before the first line
names it. A process that was killed in between leaves one more window, or a torn line that was never reported. The file
itself is locked, so links to it share the lock.
"""

import errno
import hashlib
import io
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sphereot._support.atomic_write import open_locked, write_aside

Record = dict[str, Any]

_FORMAT, _VERSION = "sphereot drift history", 2
_WITHOUT_CHECKSUMS = 1  # the version of histories that sphereot 0.2 wrote
_CREATION_SECONDS = 1.0  # how long another process may need between making a file and locking it
_RESTORE = "Restore the file from a copy."


@contextmanager
def open_history(
    path: Path, settings: Mapping[str, Any], *, wait: float, write: bool = False
) -> Iterator["HistoryFile"]:
    """Open a history, lock it, and check every line.

    The settings of the file must equal `settings`. Another process may hold the lock for `wait` seconds. If a record
    will be appended (`write`), the file is created if it does not exist.
    """
    real = Path(os.path.realpath(path))
    if real.exists() and not stat.S_ISREG(real.stat().st_mode):
        raise ValueError(f"{path} is not a regular file. Use a regular file as the history.")
    file, created = _open_file(path, real, wait, write)
    with file:
        try:
            yield HistoryFile(path, real, file, settings, created)
        finally:
            if created and not os.fstat(file.fileno()).st_size:
                real.unlink()


def stored_settings(path: Path) -> Record:
    """Read the settings of a history without a check, or return an empty dict if there is no such file."""
    if not path.is_file():  # a pipe would wait for its other end
        return {}
    with path.open("rb") as file:
        return _object(file.readline()) or {}


class HistoryFile:
    """An open history, with the windows as `records`.

    `has_checksums` is False for a history that an earlier version wrote; `append` then adds checksums to all lines.
    """

    def __init__(self, path: Path, real: Path, file: io.FileIO, settings: Mapping[str, Any], created: bool):
        self._path, self._real, self._file, self._settings = path, real, file, settings
        self.records: list[Record] = []
        self.has_checksums = True
        self._last = _checksum("", settings)
        self._end = 0
        self._complete = True  # whether the first line names the last window
        if not created:
            self._read(file.readall())

    def append(self, *records: Record) -> None:
        """Add windows, and write them to the disk."""
        self.records += records
        if not self.has_checksums:
            self._add_checksums()
            return
        if not self._end:
            self._write(0, self._content())
            return
        if not self._complete:
            self._write(0, _header_line(self._settings, self._last))
        for record in records:
            self._last = _checksum(self._last, record)
            self._write(self._end, _line(self._last, record))
            self._write(0, _header_line(self._settings, self._last))

    def _content(self) -> bytes:
        """Return the whole history: the settings, then one line per window."""
        last, lines = _checksum("", self._settings), []
        for record in self.records:
            last = _checksum(last, record)
            lines.append(_line(last, record))
        return b"".join([_header_line(self._settings, last), *lines])

    def _write(self, position: int, data: bytes) -> None:
        """Write data and flush it to the disk; a torn line at the end of the file is removed."""
        end = max(position, self._end)
        try:
            self._file.truncate(end)
            self._file.seek(position)
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(end)
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        self._end = max(end, position + len(data))

    def _add_checksums(self) -> None:
        names = os.fstat(self._file.fileno()).st_nlink
        if names > 1:
            raise ValueError(
                f"{self._path} is a history without checksums with {names} names (hard links). The new file with "
                "checksums would get only one of these names. Remove the other names, then link them again."
            )
        with write_aside(self._real) as aside, aside.open("wb") as file:
            file.write(self._content())
            file.flush()
            os.fsync(file.fileno())

    def _read(self, data: bytes) -> None:
        *lines, tail = data.split(b"\n")
        stored = _object(lines[0]) if lines else None
        if stored is None or stored.get("format") != _FORMAT:
            raise ValueError(f"{self._path} is not a drift history. Use another file.")
        self.has_checksums = stored.get("version") != _WITHOUT_CHECKSUMS
        if not self.has_checksums:
            _require_same(self._path, stored, {**_versioned(self._settings), "version": _WITHOUT_CHECKSUMS})
            lines += [tail] if tail else []
            self.records = [self._parse(number, line) for number, line in enumerate(lines[1:], start=2)]
            return
        if stored.get("version") != _VERSION:
            raise ValueError(
                f"{self._path} must have version {_WITHOUT_CHECKSUMS} or {_VERSION}, got {stored.get('version')!r}. "
                "Update sphereot."
            )
        stored = self._verified(1, lines[0], "")
        last = stored.pop("last", None)
        _require_same(self._path, stored, _versioned(self._settings))
        checksums = [self._last]
        for number, line in enumerate(lines[1:], start=2):
            self.records.append(self._verified(number, line, checksums[-1]))
            checksums.append(_checksum(checksums[-1], self.records[-1]))
        self._last, self._end = checksums[-1], sum(len(line) + 1 for line in lines)
        if last not in checksums:
            raise ValueError(
                f"{self._path}: windows are missing at the end, because the last line that line 1 names is missing. "
                f"{_RESTORE}"
            )
        behind = len(checksums) - 1 - checksums.index(last)
        if behind > 1:
            raise ValueError(f"{self._path} has {behind} windows after the last window that line 1 names. {_RESTORE}")
        self._complete = behind == 0

    def _parse(self, number: int, line: bytes) -> Record:
        record = _object(line)
        if record is None:
            raise ValueError(f"{self._path}, line {number} is not a JSON object. {_RESTORE}")
        return record

    def _verified(self, number: int, line: bytes, previous: str) -> Record:
        """Return the record of a line, after a check that its bytes are the bytes that were written."""
        record = self._parse(number, line)
        record.pop("checksum", None)
        try:
            written = _line(_checksum(previous, record), record)
        except (ValueError, RecursionError):  # NaN, or too many brackets
            written = b""
        if written != line + b"\n":
            raise ValueError(
                f"{self._path}, line {number} does not match its checksum. The line was changed, or a line before it "
                f"was added, removed or moved. {_RESTORE}"
            )
        return record


def _open_file(path: Path, real: Path, wait: float, write: bool) -> tuple[io.FileIO, bool]:
    """Return the locked file, and whether it was created."""
    busy = (
        f"{path}: another process held the lock of this history for more than {wait:g} seconds. Try again later, or "
        "wait longer (--wait, or wait= in Python)."
    )
    deadline = time.monotonic() + _CREATION_SECONDS
    while True:
        created = False
        if write:
            real.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(real, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
                created = True
        try:
            handle = open_locked(real, busy, wait=wait, flags=os.O_RDWR if write else os.O_RDONLY)
        except FileNotFoundError:
            if write:
                continue  # the process that created it could not write to it, and removed it
            raise
        if created or os.fstat(handle).st_size:
            return io.FileIO(handle, "r+" if write else "r"), created
        os.close(handle)  # the process that created it may not have locked it yet
        if time.monotonic() > deadline:
            raise ValueError(f"{path} is empty, so it is not a drift history. {_RESTORE} Or remove it to start again.")
        time.sleep(0.01)


def _require_same(path: Path, stored: Record, mine: Record) -> None:
    """Raise an error unless the settings of the file equal the settings of the monitor."""
    reference = stored.get("reference")
    if reference != mine["reference"]:
        points = reference.get("points") if isinstance(reference, dict) else None
        raise ValueError(
            f"{path} belongs to another reference ({points} points, got {mine['reference']['points']}, or other great "
            "circles). Use the same reference, or start a new history file."
        )
    different = [
        f"{name}={stored.get(name)!r}, got {name}={mine.get(name)!r}"
        for name in {**mine, **stored}
        if stored.get(name) != mine.get(name)
    ]
    if different:
        raise ValueError(
            f"{path} was created with {'; '.join(different)}. Use the same settings, or start a new history file."
        )


def _versioned(settings: Mapping[str, Any]) -> Record:
    return {"format": _FORMAT, "version": _VERSION, **settings}


def _header_line(settings: Mapping[str, Any], last: str) -> bytes:
    """Return the first line. Its length does not depend on `last`, so it can be replaced."""
    record = {"last": last, **_versioned(settings)}
    return _line(_checksum("", record), record)


def _line(checksum: str, record: Record) -> bytes:
    return json.dumps({"checksum": checksum, **record}, allow_nan=False).encode() + b"\n"


def _checksum(previous: str, record: Mapping[str, Any]) -> str:
    """Return the checksum of a record and of all lines before it; 64 bits find accidents, not forgers."""
    content = json.dumps([previous, dict(record)], allow_nan=False)
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _object(line: bytes) -> Record | None:
    """Return a JSON object, or None if the line is not one."""
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
