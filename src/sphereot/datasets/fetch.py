"""Download data files, with a cache and checksums.

A file is looked for in the folder SPHEREOT_DATA, then in the cache, and then downloaded. Its checksum is verified in
all cases.
"""

import hashlib
import os
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sphereot._support.atomic_write import write_aside

_FOLDER_VARIABLE = "SPHEREOT_DATA"
_SCHEMES = ("http", "https")
_READ_SECONDS = 30  # for each response of the server
_TOTAL_SECONDS = 300  # for a whole download, by default: a server can send a byte at a time
_CHUNK = 1 << 16
_MAX_BYTES = 1 << 30


def cache_folder() -> Path:
    """Folder of downloaded data: `sphereot` in the user's cache folder of the platform.

    Examples
    --------
    >>> cache_folder().name
    'sphereot'
    """
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):  # the XDG specification says to ignore relative paths
            base = str(Path.home() / ".cache")
    return Path(base, "sphereot")


def fetch(name: str, url: str, sha256: str, *, seconds: float | None = None) -> Path:
    """Path of a data file, which is downloaded if necessary.

    Parameters
    ----------
    name : str
        Path below the folder, e.g. "earth/fire.csv".
    url : str
        Address to download it from.
    sha256 : str
        Its checksum, in hexadecimal digits.
    seconds : float, optional
        Time limit of the whole download; 300 by default.

    Returns
    -------
    Path
        In the folder that the environment variable SPHEREOT_DATA names (also directly in it, without "earth/"), or else
        in `cache_folder()`.

    Raises
    ------
    ValueError
        For a file in SPHEREOT_DATA, or a download, with another checksum.
    OSError
        If there is no file and the download fails, or the folder that SPHEREOT_DATA names does not exist.
    """
    local = find_local(name, sha256, "put the right file there, or unset SPHEREOT_DATA to download it")
    if local is not None:
        return local
    cached = cache_folder() / name
    if cached.is_file() and _checksum(cached) == sha256:
        return cached
    with write_aside(cached) as aside:
        _download(name, url, aside, _TOTAL_SECONDS if seconds is None else seconds)
        _require_checksum(aside, url, sha256, "the download broke off, or its source has changed; try again")
    return cached


def find_local(name: str, sha256: str, remedy: str) -> Path | None:
    """Path of a data file in the folder that the environment variable SPHEREOT_DATA names.

    Parameters
    ----------
    name : str
        Path below the folder, e.g. "earth/fire.csv"; also found without its first part, as "fire.csv".
    sha256 : str
        Its checksum, in hexadecimal digits.
    remedy : str
        What to do if the file has another checksum, for the message.

    Returns
    -------
    Path or None
        None if the variable is not set, or there is no such file in the folder.

    Raises
    ------
    ValueError
        If the file has another checksum.
    FileNotFoundError
        If the folder does not exist.
    """
    folder = os.environ.get(_FOLDER_VARIABLE)
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"{_FOLDER_VARIABLE}: there is no folder {folder}; correct or unset the variable.")
    candidates = (Path(folder, name), Path(folder, *Path(name).parts[1:]))
    local = next((path for path in candidates if path.is_file()), None)
    if local is not None:
        _require_checksum(local, str(local), sha256, remedy)
    return local


def _download(name: str, url: str, target: Path, seconds: float) -> None:
    try:
        _with_timeout(seconds, lambda expired: _copy(url, target, expired))
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConnectionError(
            f"{name}: is neither in {_FOLDER_VARIABLE} ({os.environ.get(_FOLDER_VARIABLE) or 'not set'}) nor in "
            f"{cache_folder()}, and cannot be downloaded from {url} ({reason}); connect to the network, or put the "
            f"file in a folder and set {_FOLDER_VARIABLE} to it."
        ) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirect handler for http and https only; urllib's own also follows redirects to FTP servers."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme not in _SCHEMES:
            fp.close()
            raise urllib.error.URLError(f"it redirects to {newurl}, but only http and https are followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _copy(url: str, target: Path, expired: threading.Event) -> None:
    """Download to a file; stop early when `expired` is set."""
    if urlsplit(url).scheme not in _SCHEMES:
        raise urllib.error.URLError("only http and https addresses are downloaded")
    request = urllib.request.Request(url, headers={"User-Agent": "sphereot"})
    try:
        response = urllib.request.build_opener(_Redirects).open(request, timeout=_READ_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise
    with response, target.open("r+b") as file:
        left = _MAX_BYTES
        while not expired.is_set() and (chunk := response.read1(min(_CHUNK, left))):
            file.write(chunk)
            left -= len(chunk)


def _with_timeout(seconds: float, work: Callable[[threading.Event], None]) -> None:
    """Run `work`, and raise TimeoutError if it takes longer; its argument is set when the time is over.

    On a separate thread, since no timeout can be set for looking up host names and reading headers.
    """
    errors: list[BaseException] = []
    expired = threading.Event()

    def run() -> None:
        try:
            work(expired)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        thread.join(seconds)
    finally:
        expired.set()
    if thread.is_alive():
        raise TimeoutError(f"it takes longer than {seconds:g} seconds")
    if errors:
        raise errors[0]


def _require_checksum(path: Path, where: str, sha256: str, remedy: str) -> None:
    checksum = _checksum(path)
    if checksum != sha256:
        raise ValueError(f"{where}: got sha256 {checksum[:16]}..., but {sha256[:16]}... is expected; {remedy}.")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
