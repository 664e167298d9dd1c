"""Locations of earthquakes, floods, fires and volcanic eruptions: the paper's data for density estimation (Section 5).

The sizes of data, train and test sets are those of the paper's table of data sets (appendix on density estimation);
the volcanic eruptions, which the paper leaves out, often accompany them in the literature.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from sphereot._arrays.validation import as_int
from sphereot.datasets.fetch import fetch
from sphereot.datasets.files import read_points
from sphereot.sphere import from_lonlat


@dataclass(frozen=True)
class _Record:
    """Where a data set comes from."""

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
    """Locations on the earth.

    Attributes
    ----------
    name : str
        What happened there: "earthquake", "flood", "fire" or "volcano".
    lonlat : array, shape (n, 2)
        Longitudes and latitudes in degrees.
    source : str
        Who collected them.
    points : array, shape (n, 3)
        The same locations as unit vectors, float64; see `sphereot.sphere.from_lonlat`.
    """

    name: str
    lonlat: np.ndarray[Any, Any]
    source: str

    @cached_property
    def points(self) -> np.ndarray[Any, Any]:
        """The locations as unit vectors, shape (n, 3)."""
        points: np.ndarray[Any, Any] = from_lonlat(self.lonlat)
        return points

    def __len__(self) -> int:
        return len(self.lonlat)

    def split(self, seed: int, test_size: float = 0.3, *, by: Literal["row", "location"] = "row") -> "Split":
        """Split into train and test sets, at random without replacement.

        Parameters
        ----------
        seed : int
            Seed of the split; the same seed gives the same split on every machine.
        test_size : float
            Share of the test set, strictly between 0 and 1. The size of the test set is rounded up, as in the paper's
            table: of 4,875 floods, 3,412 are for training and 1,463 for the test.
        by : {"row", "location"}
            What is drawn. Rows, as in the paper, can put a location that occurs more than once into both parts; with
            "location" all rows of a location are in one part, and `test_size` is the share of locations.

        Returns
        -------
        Split
            `.train` and `.test`, each EarthData; unpacks as a pair.

        Notes
        -----
        Locations can occur more than once in the data (673 of 6,120 earthquakes repeat another; the 827 eruptions have
        267 locations), so that some of the test set can be in the training set too, as in the paper's splits: 15% of
        the earthquakes and 80% of the eruptions in the test set of seed 0, and below 1% of floods and fires.
        """
        seed = as_int("seed", seed, 0, "a seed")
        if not isinstance(test_size, Real) or not 0 < float(test_size) < 1:
            raise ValueError(f"test_size: got {test_size!r}, but a share strictly between 0 and 1 is needed.")
        if by not in ("row", "location"):
            raise ValueError(f"by: got {by!r}; choose 'row' or 'location'.")
        if by == "row":
            unit = np.arange(len(self))
        else:
            unit = np.unique(self.lonlat + 0.0, axis=0, return_inverse=True)[1].reshape(-1)
        n_units = int(unit.max()) + 1
        # 0.3 times 10 is a little above 3: the rounding of the product must not add a location.
        n_test = math.ceil(float(test_size) * n_units - 1e-9)
        if not 0 < n_test < n_units:
            empty = "training" if n_test else "the test"
            raise ValueError(
                f"test_size: got {test_size!r}, which of {n_units} locations leaves none for {empty}; choose another "
                "share."
            )
        order = np.random.default_rng(seed).permutation(n_units)
        is_test = np.zeros(n_units, dtype=bool)
        is_test[order[:n_test]] = True
        rows = is_test[unit]
        return Split(self._part(np.flatnonzero(~rows)), self._part(np.flatnonzero(rows)))

    def _part(self, rows: np.ndarray[Any, Any]) -> "EarthData":
        return EarthData(self.name, self.lonlat[rows], self.source)


class Split(NamedTuple):
    """Train and test sets of `EarthData.split`."""

    train: EarthData
    test: EarthData


def load(name: str) -> EarthData:
    """Load a data set of locations on the earth, by name.

    Parameters
    ----------
    name : str
        "earthquake" (6,120 locations), "flood" (4,875), "fire" (12,809) or "volcano" (827).

    Returns
    -------
    EarthData
        With `.lonlat`, `.points`, `.source` and `.split(seed)`.

    Raises
    ------
    ValueError
        For an unknown name, or a file with a wrong checksum.
    OSError
        If there is no file and the download fails.

    Notes
    -----
    The file is taken from the folder that the environment variable SPHEREOT_DATA names, if it exists; otherwise it is
    downloaded once from a public repository, pinned to a commit, checked against its sha256, and stored in
    `cache_folder()`.

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
        raise ValueError(f"name: got {name!r}; give one of {', '.join(NAMES)}.")
    path = fetch(record.file, record.url, record.sha256)
    point_set = read_points(path, lonlat=True)
    assert point_set.lonlat is not None
    return EarthData(name, point_set.lonlat, record.source)
