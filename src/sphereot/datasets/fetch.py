"""Data files that are not part of the package: found in a folder of one's own, in the cache, or downloaded.

What is used has the checksum that it should have, wherever it comes from.
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

__all__ = ["cache_folder", "fetch"]

_FOLDER_VARIABLE = "SPHEREOT_DATA"
_SCHEMES = ("http", "https")
_SECONDS = 30  # for each answer of the server
_TOTAL_SECONDS = 300  # for a download as a whole: a server can answer a byte at a time
_CHUNK = 1 << 16
_MOST_BYTES = 1 << 30


def cache_folder() -> Path:
    """Where downloads are kept: `sphereot` in the user's cache folder, as the platform has it.

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
        if not os.path.isabs(base):  # the XDG specification has relative paths ignored
            base = str(Path.home() / ".cache")
    return Path(base, "sphereot")


def fetch(name: str, url: str, sha256: str) -> Path:
    """The path of a data file, downloaded if it has to be.

    Parameters
    ----------
    name : str
        Where it stands below the folders, e.g. "earth/fire.csv".
    url : str
        Where it is downloaded from.
    sha256 : str
        Its checksum, in hexadecimal digits.

    Returns
    -------
    Path
        In the folder that the environment variable SPHEREOT_DATA names (there also without "earth/"), or else in
        `cache_folder()`.

    Raises
    ------
    ValueError
        For a file in SPHEREOT_DATA, or a download, with another checksum.
    OSError
        If there is neither a file nor a network, or the folder that SPHEREOT_DATA names does not exist.
    """
    own = _in_own_folder(name)
    if own is not None:
        _require_checksum(own, str(own), sha256, "put the right file there, or unset SPHEREOT_DATA to download it")
        return own
    cached = cache_folder() / name
    if cached.is_file() and _checksum(cached) == sha256:
        return cached
    with write_aside(cached) as aside:
        _download(name, url, aside)
        _require_checksum(aside, url, sha256, "the download broke off, or its source has changed; try again")
    return cached


def _in_own_folder(name: str) -> Path | None:
    folder = os.environ.get(_FOLDER_VARIABLE)
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"{_FOLDER_VARIABLE}: there is no folder {folder}; correct or unset the variable.")
    places = (Path(folder, name), Path(folder, Path(name).name))
    return next((place for place in places if place.is_file()), None)


def _download(name: str, url: str, target: Path) -> None:
    try:
        _within(_TOTAL_SECONDS, lambda expired: _copy(url, target, expired))
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConnectionError(
            f"{name}: is neither in {_FOLDER_VARIABLE} ({os.environ.get(_FOLDER_VARIABLE) or 'not set'}) nor in "
            f"{cache_folder()}, and cannot be downloaded from {url} ({reason}); connect to the network, or put the "
            f"file in a folder and set {_FOLDER_VARIABLE} to it."
        ) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to web addresses alone; urllib follows those to FTP servers as well."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme not in _SCHEMES:
            fp.close()
            raise urllib.error.URLError(f"it redirects to {newurl}, but only http and https are followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _copy(url: str, target: Path, expired: threading.Event) -> None:
    """Download to a file; stop early where the time has expired."""
    if urlsplit(url).scheme not in _SCHEMES:
        raise urllib.error.URLError("only http and https addresses are downloaded")
    request = urllib.request.Request(url, headers={"User-Agent": "sphereot"})
    try:
        answer = urllib.request.build_opener(_Redirects).open(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()  # it is the answer as well, with its connection
        raise
    with answer, target.open("r+b") as file:
        left = _MOST_BYTES
        while not expired.is_set() and (chunk := answer.read1(min(_CHUNK, left))):
            file.write(chunk)
            left -= len(chunk)


def _within(seconds: float, work: Callable[[threading.Event], None]) -> None:
    """Do the work, or raise TimeoutError if it takes longer; its argument is set when nobody waits for it any more.

    On a thread of its own: looking up a name and reading headers have no limit of their own that could be set.
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
    found = _checksum(path)
    if found != sha256:
        raise ValueError(f"{where}: sha256 is {found[:16]}..., but {sha256[:16]}... is expected; {remedy}.")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
