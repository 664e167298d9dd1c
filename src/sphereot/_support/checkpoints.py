"""The state of long work, kept in a file from which it goes on after a kill."""

import hashlib
import io
import time
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sphereot._support.atomic_write import reason_of, remove_leftovers, write_aside

__all__ = [
    "CheckpointStore",
    "CheckpointWarning",
    "StateFile",
    "WriteWarning",
    "digest",
    "require_same_work",
    "store_name",
]

_DIGEST = "sha256:"
_REMEDY = "remove the file to begin anew (--fresh on the command line)"


class CheckpointStore(Protocol):
    """Who keeps the state of long work, where and how often they like."""

    def load(self) -> Any | None:
        """The state that was kept last, or None."""

    def save(self, state: Callable[[], Any]) -> None:
        """Told after every step: keep what `state()` gives, or not."""


class CheckpointWarning(RuntimeWarning):
    """The state of long work cannot be kept just now."""


class WriteWarning:
    """Warns of the first of several failures to write: long work does not end because a disk is full.

    Parameters
    ----------
    what : str
        What cannot be written.
    """

    def __init__(self, what: str):
        self._what, self._given = what, False

    def __call__(self, path: Path, error: OSError) -> None:
        """Warn, unless that was done before."""
        if not self._given:
            self._given = True
            warnings.warn(
                f"{path}: {self._what} cannot be written ({error.strerror or error}); the work goes on, and it is "
                "tried again later.",
                CheckpointWarning,
                stacklevel=3,
            )


class StateFile:
    """A state in a file: dicts, lists, numbers, names and tensors, read back without running any code from it.

    Parameters
    ----------
    path : Path, optional
        The file; without one nothing is kept.
    owner : str
        What the state belongs to. A state of another owner is not taken up.
    every : float
        Seconds between two writings.
    on_failure : callable (path, error), optional
        Called where the file cannot be written; by default a `WriteWarning`. The next writing is tried as usual.

    Examples
    --------
    >>> store = StateFile()
    >>> start = store.load() or {"sum": 0, "k": 0}
    >>> for k in range(start["k"], 3):
    ...     start = {"sum": start["sum"] + k, "k": k + 1}
    ...     store.save(lambda: start)
    >>> start["sum"]
    3
    """

    def __init__(
        self,
        path: Path | None = None,
        owner: str = "",
        every: float = 10.0,
        on_failure: Callable[[Path, OSError], None] | None = None,
    ):
        self.path, self.every, self._owner, self._written = path, every, owner, time.monotonic()
        self._on_failure = on_failure or WriteWarning("the state")

    def load(self) -> Any | None:
        """The state that was saved last, or None.

        Raises
        ------
        ValueError
            For a file that is damaged, or holds no state.
        """
        if self.path is None or not self.path.exists():
            return None
        held = _read_state(self.path)
        return held["state"] if held["owner"] == self._owner else None

    def save(self, state: Callable[[], Any]) -> None:
        """Keep what `state()` gives, unless that was done a moment ago; the file is whole at any time."""
        if self.path is None or time.monotonic() - self._written < self.every:
            return
        import torch

        content = io.BytesIO()  # torch's own writing of a file ends in other errors where there is no room for it
        torch.save({"owner": self._owner, "state": state()}, content)
        try:
            with write_aside(self.path) as aside:
                aside.write_bytes(content.getbuffer())
        except OSError as error:
            self._on_failure(self.path, error)
        self._written = time.monotonic()

    def remove(self) -> None:
        """Forget the state: the work is complete. Files that a kill left half-written go too."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            remove_leftovers(self.path)


def digest(*arrays: NDArray[Any]) -> str:
    """A hash of the values, shapes and types of arrays.

    >>> digest(np.arange(3)) == digest(np.arange(3)), digest(np.zeros(4)) == digest(np.zeros((2, 2)))
    (True, False)
    """
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return _DIGEST + found.hexdigest()


def store_name(store: CheckpointStore) -> str:
    """How messages call a store: by its file, if it has one."""
    path = getattr(store, "path", None)
    return "checkpoint" if path is None else str(path)


def require_same_work(name: str, saved: Any, current: Mapping[str, Any]) -> None:
    """Refuse a state that belongs to other work, and say what differs.

    Parameters
    ----------
    name : str
        What holds the state.
    saved, current : mapping
        What the state was saved for and what it is wanted for: settings by name, and digests (`digest`) of data.

    Examples
    --------
    >>> require_same_work("m.unfinished", {"data": "sha256:5f", "seed": 0}, {"data": "sha256:8a", "seed": 7})
    Traceback (most recent call last):
    ...
    ValueError: m.unfinished: holds the unfinished work of a call with other settings (other data; seed was 0, now 7); \
give the call of that work to go on with it, or remove the file to begin anew (--fresh on the command line).
    """
    if not isinstance(saved, Mapping):
        raise ValueError(f"{name}: does not say what work its state belongs to; {_REMEDY}.")
    if saved == current:
        return
    changed = [
        key
        for key in dict.fromkeys([*current, *saved])
        if key not in saved or key not in current or saved[key] != current[key]
    ]
    differences = [_difference(key, saved.get(key), current.get(key)) for key in changed]
    raise ValueError(
        f"{name}: holds the unfinished work of a call with other settings ({'; '.join(differences)}); give the call of "
        f"that work to go on with it, or {_REMEDY}."
    )


def _difference(key: str, before: Any, now: Any) -> str:
    if str(before).startswith(_DIGEST) or str(now).startswith(_DIGEST):
        return f"other {key}"
    return f"{key} was {before!r}, now {now!r}"


def _read_state(path: Path) -> dict[str, Any]:
    """What `save` wrote, of a file that is as it was written."""
    import torch

    try:
        _require_whole_archive(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of some files before it refuses them
            held = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(held, dict) or set(held) != {"owner", "state"}:
            raise ValueError("it holds something else")
    except (MemoryError, ImportError):
        raise
    # A damaged file ends in every kind of error, an OSError of a wild seek among them; it is named in all cases.
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise ValueError(
            f"{path}: is no state of unfinished work, or is damaged ({reason_of(error)}); {_REMEDY}."
        ) from error
    return held


def _require_whole_archive(path: Path) -> None:
    """Refuse what torch would read without a look at its checksums, and archives that unpack to more than they are."""
    with zipfile.ZipFile(path) as archive:
        packed = [entry for entry in archive.infolist() if entry.compress_type != zipfile.ZIP_STORED]
        if packed or sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
            raise ValueError("its parts are larger than the file")
        damaged = archive.testzip()
        if damaged is not None:
            raise ValueError(f"the checksum of {damaged} is wrong")
