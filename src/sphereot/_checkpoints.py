"""The state of long work, kept in a file from which it goes on after a kill."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from sphereot._files import write_aside

__all__ = ["Keeper", "StateFile"]


class Keeper(Protocol):
    """Who keeps the state of long work, where and how often they like."""

    def load(self) -> Any | None:
        """The state that was kept last, or None."""

    def save(self, state: Callable[[], Any]) -> None:
        """Told after every step: keep what `state()` gives, or not."""


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

    Examples
    --------
    >>> keeper = StateFile()
    >>> start = keeper.load() or {"sum": 0, "k": 0}
    >>> for k in range(start["k"], 3):
    ...     start = {"sum": start["sum"] + k, "k": k + 1}
    ...     keeper.save(lambda: start)
    >>> start["sum"]
    3
    """

    def __init__(self, path: Path | None = None, owner: str = "", every: float = 10.0):
        self.path, self.every, self._owner, self._written = path, every, owner, time.monotonic()

    def load(self) -> Any | None:
        """The state that was saved last, or None."""
        if self.path is None or not self.path.exists():
            return None
        import torch

        found = torch.load(self.path, weights_only=True)
        return found["state"] if found["owner"] == self._owner else None

    def save(self, state: Callable[[], Any]) -> None:
        """Keep what `state()` gives, unless that was done a moment ago; the file is whole at any time."""
        if self.path is None or time.monotonic() - self._written < self.every:
            return
        import torch

        with write_aside(self.path) as aside:
            torch.save({"owner": self._owner, "state": state()}, aside)
        self._written = time.monotonic()

    def remove(self) -> None:
        """Forget the state: the work is complete. Files that a kill left half-written go too."""
        if self.path is not None:
            for file in (self.path, *self.path.parent.glob(f".{self.path.name}.*")):
                file.unlink(missing_ok=True)
