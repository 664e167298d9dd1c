"""Locations of earthquakes, floods and fires, the paper's data for density estimation (Section 5), and of eruptions.

Sizes of data, training and test sets are equal to those in the paper's appendix on density estimation.
"""

import hashlib
import math
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from sphereot._arrays.validation import as_int
from sphereot._support.atomic_write import reason_of, write_aside
from sphereot._support.extras import require
from sphereot.datasets.files import read_points
from sphereot.sphere import from_lonlat

_FOLDER_VARIABLE = "SPHEREOT_DATA"
_READ_SECONDS = 30  # for each response of the server
_TOTAL_SECONDS = 300  # for a whole download: a server can send a byte at a time
_CHUNK = 1 << 16
_MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class _Record:
    """Source of a data set."""

    file: str
    url: str
    sha256: str
    source: str


# Pinned to commits. The two repositories differ in fire.csv; the paper uses its own.
_SCORE = "https://raw.githubusercontent.com/oxcsml/riemannian-score-sde/5b48a7f7e175894afb6933f5e5f367b5a0eb65d7/data"
_PAPER = (
    "https://raw.githubusercontent.com/clbonet/Spherical_Sliced-Wasserstein/d8305f8577b23017abd54dca4f131aba1d47bf9e/"
    "Density%20Estimation/data/earth_data"
)
_RECORDS = {
    "earthquake": _Record(
        "earth/quakes_all.csv",
        f"{_SCORE}/quakes_all.csv",
        "3e5e1a10fb2faf1899106264289334037d039f00f5265d13dad388a93d8ff2f7",
        "NOAA National Geophysical Data Center, significant earthquakes",
    ),
    "flood": _Record(
        "earth/flood.csv",
        f"{_SCORE}/flood.csv",
        "ffb1e3182c3053afcdeceec4727c262a29da10255d20747c08144da5b0963486",
        "Dartmouth Flood Observatory",
    ),
    "fire": _Record(
        "earth/fire.csv",
        f"{_PAPER}/fire.csv",
        "c1fb69d204ab2d743ed0234bb11c1d0692a994ef51788002ad795d1d632516c0",
        "NASA FIRMS, active fires",
    ),
    "volcano": _Record(
        "earth/volerup.csv",
        f"{_SCORE}/volerup.csv",
        "f7bbaf32a412f5fe82350f48e0c55100be260803969c16557343f687fd0593fc",
        "NOAA National Geophysical Data Center, significant volcanic eruptions",
    ),
}

NAMES: Sequence[str] = tuple(_RECORDS)
"""Names of the data sets, for `load`."""


@dataclass(frozen=True, eq=False)
class EarthData:
    """Locations of events on the Earth.

    Attributes
    ----------
    name : str
        Kind of the events: "earthquake", "flood", "fire" or "volcano".
    lonlat : array, shape (n, 2)
        Longitudes and latitudes in degrees.
    source : str
        Organization that collected the data.
    """

    name: str
    lonlat: np.ndarray[Any, Any]
    source: str

    @cached_property
    def points(self) -> np.ndarray[Any, Any]:
        """The locations as unit vectors (float64), shape (n, 3)."""
        return np.asarray(from_lonlat(self.lonlat))

    def __len__(self) -> int:
        return len(self.lonlat)

    def split(self, seed: int, test_size: float = 0.3, *, by: Literal["row", "location"] = "row") -> "Split":
        """Split into a training set and a test set, at random without replacement.

        Parameters
        ----------
        seed : int
            Seed of the split. The same seed gives the same split on every machine.
        test_size : float, default 0.3
            Fraction of rows or locations in the test set, strictly between 0 and 1. The size of the test set is rounded
            up, as in the paper: of 4,875 floods, 3,412 are for training and 1,463 for the test.
        by : {"row", "location"}, default "row"
            Unit of the draw. With "row", as in the paper, a location that occurs more than once can be in both sets.
            With "location", all rows of a location are in the same set.

        Returns
        -------
        Split
            Named pair of `train` and `test`.

        Notes
        -----
        Locations can occur more than once: 673 of 6,120 earthquakes repeat another, and the 827 eruptions have 267
        locations. For seed 0 and ``by="row"``, 15% of the earthquakes and 80% of the eruptions in the test set are also
        in the training set, and less than 1% of floods and fires.
        """
        seed = as_int("seed", seed, 0, "the seed")
        if not isinstance(test_size, Real) or not 0 < float(test_size) < 1:
            raise ValueError(f"test_size must be strictly between 0 and 1, got {test_size!r}.")
        if by not in ("row", "location"):
            raise ValueError(f"by must be 'row' or 'location', got {by!r}.")
        if by == "row":
            unit = np.arange(len(self))
        else:
            unit = np.unique(self.lonlat + 0.0, axis=0, return_inverse=True)[1].reshape(-1)
        n_units = int(unit.max()) + 1
        # The rounding error of a product such as 0.07 * 100 must not add a location.
        n_test = math.ceil(float(test_size) * n_units - 1e-9)
        if not 0 < n_test < n_units:
            empty = "training" if n_test else "test"
            raise ValueError(
                f"test_size must not leave an empty {empty} set of {n_units} locations, got {test_size!r}."
            )
        order = np.random.default_rng(seed).permutation(n_units)
        is_test = np.zeros(n_units, dtype=bool)
        is_test[order[:n_test]] = True
        rows = is_test[unit]
        train, test = (EarthData(self.name, self.lonlat[part], self.source) for part in (~rows, rows))
        return Split(train, test)


class Split(NamedTuple):
    """Training set and test set of `EarthData.split`."""

    train: EarthData
    test: EarthData


def load(name: str) -> EarthData:
    """Load a data set of locations on the Earth, by name.

    Parameters
    ----------
    name : {"earthquake", "flood", "fire", "volcano"}
        Name of the data set, with 6,120, 4,875, 12,809 or 827 locations.

    Returns
    -------
    EarthData
        The locations in degrees and as unit vectors.

    Raises
    ------
    ValueError
        If the name is unknown, or the file has a wrong checksum.
    OSError
        If there is no file and the download fails.

    Notes
    -----
    The file is read from the folder that the environment variable SPHEREOT_DATA names, if it is there. Otherwise it is
    downloaded once from a public repository at a fixed commit, and stored in `cache_folder()`.

    Examples
    --------
    >>> from sphereot import datasets
    >>> data = datasets.load("flood")  # doctest: +SKIP
    >>> train, test = data.split(seed=0)  # doctest: +SKIP
    >>> len(data), len(train), len(test)  # doctest: +SKIP
    (4875, 3412, 1463)
    """
    record = _RECORDS.get(name) if isinstance(name, str) else None
    if record is None:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}.")
    path = fetch(record.file, record.url, record.sha256)
    point_set = read_points(path, lonlat=True)
    assert point_set.lonlat is not None
    return EarthData(name, point_set.lonlat, record.source)


# ---- files and downloads ----


def cache_folder() -> Path:
    """Return the folder of downloaded data: `sphereot` in the user's cache folder.

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
        if not os.path.isabs(base):  # the XDG specification ignores relative paths
            base = str(Path.home() / ".cache")
    return Path(base, "sphereot")


def fetch(name: str, url: str, sha256: str, *, seconds: float | None = None) -> Path:
    """Return the path of a data file, and download it first if necessary.

    The file is in the folder that SPHEREOT_DATA names, or in `cache_folder()`. Another checksum raises a ValueError,
    and a failed download an OSError.

    Parameters
    ----------
    name : str
        Path below the folder, such as "earth/fire.csv".
    url, sha256 : str
        URL of the file, and its checksum in hexadecimal digits.
    seconds : float, default 300
        Time limit of the whole download.
    """
    local = find_local(name, sha256, "put the right file there, or unset SPHEREOT_DATA to download it")
    if local is not None:
        return local
    cached = cache_folder() / name
    if cached.is_file() and _checksum(cached) == sha256:
        return cached
    require("pooch", f"{name}: downloading it")
    with write_aside(cached) as aside:
        try:
            with aside.open("r+b") as file:
                _download(url, file, _TOTAL_SECONDS if seconds is None else seconds)
        except OSError as error:
            raise ConnectionError(
                f"{name}: is neither in {_FOLDER_VARIABLE} ({os.environ.get(_FOLDER_VARIABLE) or 'not set'}) nor in "
                f"{cache_folder()}, and cannot be downloaded from {url} ({reason_of(error)}). Connect to the network, "
                f"or put the file into a folder and set {_FOLDER_VARIABLE} to it."
            ) from error
        _require_checksum(aside, url, sha256, "the download is incomplete, or its source has changed")
    return cached


def find_local(name: str, sha256: str, remedy: str) -> Path | None:
    """Return the path of a data file in the folder that SPHEREOT_DATA names, or None if it is not there.

    The file "earth/fire.csv" can also be "fire.csv" in this folder. `remedy` is the end of the message if the file has
    another checksum.
    """
    folder = os.environ.get(_FOLDER_VARIABLE)
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"{_FOLDER_VARIABLE}: there is no folder {folder}. Correct or unset the variable.")
    candidates = (Path(folder, name), Path(folder, *Path(name).parts[1:]))
    local = next((path for path in candidates if path.is_file()), None)
    if local is not None:
        _require_checksum(local, str(local), sha256, remedy)
    return local


class _LimitedFile:
    """File of a download, with a limit of time and of size."""

    def __init__(self, file: BinaryIO):
        self.expired, self._file = False, file

    def write(self, chunk: bytes) -> None:
        """Write a part of the download."""
        if self.expired or self._file.tell() + len(chunk) > _MAX_BYTES:
            raise OSError(f"it is larger than {_MAX_BYTES >> 20} MB, or needs too much time")
        self._file.write(chunk)

    def flush(self) -> None:
        """Do nothing: the file is read once it is complete."""


def _download(url: str, file: BinaryIO, seconds: float) -> None:
    """Download to a file, and raise a TimeoutError after this number of seconds.

    The download runs in a separate thread, since looking up host names and reading headers has no timeout.
    """
    from pooch import HTTPDownloader

    errors: list[Exception] = []
    responses: list[Any] = []  # pooch leaves them open after an error
    limited = _LimitedFile(file)
    hooks = {"response": lambda response, **_: responses.append(response)}

    def run() -> None:
        try:
            HTTPDownloader(timeout=_READ_SECONDS, chunk_size=_CHUNK, hooks=hooks)(url, limited, None)
        except Exception as error:
            errors.append(error)
        finally:
            for response in responses:
                response.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        thread.join(seconds)
    finally:
        limited.expired = True
    if thread.is_alive():
        raise TimeoutError(f"it needs more than {seconds:g} seconds")
    if errors:
        raise errors[0]


def _require_checksum(path: Path, where: str, sha256: str, remedy: str) -> None:
    checksum = _checksum(path)
    if checksum != sha256:
        raise ValueError(f"{where}: the sha256 must be {sha256[:16]}..., got {checksum[:16]}...; {remedy}.")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
