"""Long work: its errors, callbacks after every step, and checkpoints from which it resumes after a kill."""

import hashlib
import io
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sphereot._support.atomic_write import reason_of, remove_leftovers, write_aside
from sphereot._support.extras import Progress, progress_bar

_DIGEST = "sha256:"
_REMEDY = "remove the file to start again (--fresh on the command line)"


class NotFiniteError(ValueError):
    """A network returned NaN or infinity."""


class DivergenceError(ArithmeticError):
    """An iterative method diverged: a loss or a state became NaN or infinite, or a step exploded.

    `sphereot.gradient_flow`, `sphereot.density.FlowDensity.fit` and `sphereot.sampling.fit_sampler` raise it, with
    a message that names the step and the step size or learning rate to reduce.

    Parameters
    ----------
    message : str
        What diverged, where, and what to do.
    result : object
        What was computed before, of the type that the function returns: `FlowResult`, `History` or `SamplerFit`.

    Attributes
    ----------
    result : object
        As above. Models that are fitted in place have the last parameters that gave a finite loss.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> try:
    ...     sphereot.gradient_flow(np.eye(3), step_size=1e6, seed=0)
    ... except sphereot.DivergenceError as error:
    ...     print(error.result.particles.shape)
    (3, 3)
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


Callback = Callable[[int, float, Any], object]
"""Called as ``callback(step, loss, state)`` after each step; the work stops early if it returns True.

`step` is the number of steps taken, `loss` the loss of the last one as a float, and `state` what the work changes, as
that step left it: the particles of `gradient_flow`, the flow of `FlowDensity.fit`, the sampler of `fit_sampler`.
"""


def asks_to_stop(callback: Callback | None, step: int, loss: float, state: Any) -> bool:
    """Call a callback, if there is one, and tell whether it returned True; other values do not stop the work.

    >>> asks_to_stop(lambda step, loss, state: step == 3, 3, 0.5, None), asks_to_stop(None, 3, 0.5, None)
    (True, False)
    """
    answer = None if callback is None else callback(step, loss, state)
    return isinstance(answer, bool | np.bool_) and bool(answer)


def run_steps(
    take: Callable[[int], float],
    steps: int,
    *,
    label: str,
    done: int = 0,
    progress: Progress = False,
    callback: Callback | None = None,
    state: Callable[[], Any],
    settled: Callable[[], bool] | None = None,
    save: Callable[[], object] | None = None,
) -> bool:
    """Run an iterative method: steps with a progress bar, a callback and checkpoints.

    Parameters
    ----------
    take : callable (step) -> loss
        Takes the step of this number, from 1.
    steps, done : int
        The number of steps in all, and of those that a resumed run has behind it.
    label : str
        Name of the work for the progress bar.
    progress, callback
        As users give them.
    state : callable () -> state
        What the callback receives.
    settled : callable () -> bool, optional
        Whether the work is complete before all steps are taken.
    save : callable (), optional
        Saves a checkpoint; called after every step but the last.

    Returns
    -------
    bool
        Whether `settled` ended the work.

    Examples
    --------
    >>> run_steps(lambda step: 1 / step, 3, label="sum", state=list, callback=lambda step, loss, state: print(loss))
    1.0
    0.5
    0.3333333333333333
    False
    """
    with progress_bar(progress, label, steps, done) as show:
        for step in range(done + 1, steps + 1):
            loss = take(step)
            show(step)
            stops = callback is not None and asks_to_stop(callback, step, loss, state())
            if settled is not None and settled():
                return True
            if stops:
                return False
            if save is not None and step < steps:
                save()
    return False


class LastGood:
    """Tensors as they were when the loss was last finite, to go back to when it no longer is.

    >>> import torch
    >>> weights = torch.ones(2)
    >>> good = LastGood([weights])
    >>> _ = weights.fill_(torch.nan)
    >>> good.restore()
    >>> weights
    tensor([1., 1.])
    """

    def __init__(self, tensors: Iterable[Any]) -> None:
        self._tensors = [tensor.detach() for tensor in tensors]
        self._copies = [tensor.clone() for tensor in self._tensors]

    def keep(self) -> None:
        """Remember the values of now."""
        for copy, tensor in zip(self._copies, self._tensors, strict=True):
            copy.copy_(tensor)

    def restore(self) -> None:
        """Go back to the remembered values."""
        for copy, tensor in zip(self._copies, self._tensors, strict=True):
            tensor.copy_(copy)


class CheckpointStore(Protocol):
    """Checkpoint storage: `load` returns the last state or None; `save` is called after every step, and may skip."""

    def load(self) -> Any | None:
        """The state that was saved last, or None."""

    def save(self, state: Callable[[], Any]) -> None:
        """Save what `state()` returns, or skip this step."""


class CheckpointWarning(RuntimeWarning):
    """A checkpoint cannot be written at the moment; the work goes on."""


class WriteWarning:
    """Warns once, at the first failure to write: long work does not end because a disk is full.

    Parameters
    ----------
    what : str
        What cannot be written.
    """

    def __init__(self, what: str):
        self._what, self._has_warned = what, False

    def __call__(self, path: Path, error: OSError) -> None:
        """Warn, unless there was a warning before."""
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{path}: {self._what} cannot be written ({error.strerror or error}); the work goes on, and "
                "writing is tried again later.",
                CheckpointWarning,
                stacklevel=3,
            )


class StateFile:
    """Checkpoint in one file: dicts, lists, numbers, strings and tensors, read back without running any code from it.

    Parameters
    ----------
    path : Path, optional
        The file; without one nothing is saved.
    owner : str
        What the state belongs to. `load` ignores a state of another owner.
    every : float
        Seconds between two writes.
    on_failure : callable (path, error), optional
        Called where the file cannot be written; by default a `WriteWarning`. The next write is tried as usual.

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
            For a file that is damaged, or is no checkpoint.
        """
        if self.path is None or not self.path.exists():
            return None
        import torch

        try:
            # torch does not look at checksums, nor at archives that unpack to more bytes than they have.
            with zipfile.ZipFile(self.path) as archive:
                packed = [entry for entry in archive.infolist() if entry.compress_type != zipfile.ZIP_STORED]
                if packed or sum(entry.file_size for entry in archive.infolist()) > self.path.stat().st_size:
                    raise ValueError("its parts are larger than the file")
                if (damaged := archive.testzip()) is not None:
                    raise ValueError(f"the checksum of {damaged} is wrong")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of some files before it refuses them
                content = torch.load(self.path, map_location="cpu", weights_only=True)
            if not isinstance(content, dict) or set(content) != {"owner", "state"}:
                raise ValueError("it holds something else")
        except (MemoryError, ImportError):
            raise
        # A damaged file can raise any error, an OSError of a wild seek included; the message always names the file.
        except Exception as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise
            raise ValueError(
                f"{self.path}: is no state of unfinished work, or is damaged ({reason_of(error)}); {_REMEDY}."
            ) from error
        return content["state"] if content["owner"] == self._owner else None

    def save(self, state: Callable[[], Any]) -> None:
        """Write what `state()` returns, unless the last write was less than `every` seconds ago; writes are atomic."""
        if self.path is None or time.monotonic() - self._written < self.every:
            return
        import torch

        content = io.BytesIO()  # torch's own writing of a file raises other errors on a full disk
        torch.save({"owner": self._owner, "state": state()}, content)
        try:
            with write_aside(self.path) as aside:
                aside.write_bytes(content.getbuffer())
        except OSError as error:
            self._on_failure(self.path, error)
        self._written = time.monotonic()

    def remove(self) -> None:
        """Remove the file, and what a kill left half-written: the work is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            remove_leftovers(self.path)


def digest(*arrays: NDArray[Any]) -> str:
    """Hash of the values, shapes and dtypes of arrays.

    >>> digest(np.arange(3)) == digest(np.arange(3)), digest(np.zeros(4)) == digest(np.zeros((2, 2)))
    (True, False)
    """
    sha256 = hashlib.sha256()
    for array in arrays:
        sha256.update(f"{array.dtype.str}{array.shape}".encode())
        sha256.update(np.ascontiguousarray(array).data)
    return _DIGEST + sha256.hexdigest()


def store_name(store: CheckpointStore) -> str:
    """The name of a store in messages: its file, if it has one."""
    path = getattr(store, "path", None)
    return "checkpoint" if path is None else str(path)


def require_same_work(name: str, saved: Any, current: Mapping[str, Any]) -> None:
    """Raise if a saved state belongs to other work, and say what differs.

    Parameters
    ----------
    name : str
        The file or store that holds the state.
    saved, current : mapping
        What the state was saved for, and what it is needed for: settings by name, and digests (`digest`) of data.

    Examples
    --------
    >>> require_same_work("m.unfinished", {"data": "sha256:5f", "seed": 0}, {"data": "sha256:8a", "seed": 7})
    Traceback (most recent call last):
    ...
    ValueError: m.unfinished: holds the unfinished work of a call with other settings (other data; seed was 0, now 7); \
repeat that call to resume it, or remove the file to start again (--fresh on the command line).
    """
    if not isinstance(saved, Mapping):
        raise ValueError(f"{name}: holds a state that does not say what work it belongs to; {_REMEDY}.")
    if saved == current:
        return
    changed = [
        key
        for key in dict.fromkeys([*current, *saved])
        if key not in saved or key not in current or saved[key] != current[key]
    ]
    differences = []
    for key in changed:
        before, now = saved.get(key), current.get(key)
        is_data = any(str(value).startswith(_DIGEST) for value in (before, now))
        differences.append(f"other {key}" if is_data else f"{key} was {before!r}, now {now!r}")
    raise ValueError(
        f"{name}: holds the unfinished work of a call with other settings ({'; '.join(differences)}); repeat that call "
        f"to resume it, or {_REMEDY}."
    )
