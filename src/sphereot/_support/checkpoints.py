"""Long work: errors, callbacks after every step, and checkpoints to resume from after a kill."""

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
_REMEDY = "To start again, remove the file (--fresh on the command line)."


class NotFiniteError(ValueError):
    """A network returned NaN or infinity."""


class DivergenceError(ArithmeticError):
    """Error of an iterative method whose loss or state became NaN or infinite, or whose step exploded.

    `sphereot.gradient_flow`, `sphereot.density.FlowDensity.fit` and `sphereot.sampling.fit_sampler` raise it. The
    message names the step, and the step size or learning rate to reduce.

    Attributes
    ----------
    result : FlowResult, History or SamplerFit
        The result until the divergence, of the type that the function returns. Models that are fitted in place keep the
        last parameters with a finite loss.

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
"""Function ``callback(step, loss, state)``, called after each step. If it returns True, the work stops early.

`step` is the number of steps so far, and `loss` the loss of the last step. `state` is the current state of the work:
the particles of `gradient_flow`, the flow of `FlowDensity.fit`, or the sampler of `fit_sampler`.
"""


def asks_to_stop(callback: Callback | None, step: int, loss: float, state: Any) -> bool:
    """Call the callback, if there is one, and return whether it returned True."""
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
        Function that performs a step. Steps are counted from 1.
    steps, done : int
        Total number of steps, and number of steps that a resumed run has already performed.
    label : str
        Name of the steps for the progress bar.
    state : callable () -> state
        Function that returns the state for the callback.
    settled : callable () -> bool, optional
        Function that returns True if the work is complete before all steps are performed.
    save : callable (), optional
        Function that saves a checkpoint, called after every step except the last.

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
    """Copies of tensors from the last step with a finite loss, to restore them later.

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
        """Copy the current values."""
        for copy, tensor in zip(self._copies, self._tensors, strict=True):
            copy.copy_(tensor)

    def restore(self) -> None:
        """Restore the values of the last call of `keep`."""
        for copy, tensor in zip(self._copies, self._tensors, strict=True):
            tensor.copy_(copy)


class CheckpointStore(Protocol):
    """Storage of checkpoints. `save` is called after every step, and may skip a step."""

    def load(self) -> Any | None:
        """Return the last saved state, or None."""

    def save(self, state: Callable[[], Any]) -> None:
        """Save the result of `state()`, or skip this step."""


class CheckpointWarning(RuntimeWarning):
    """A checkpoint cannot be written at the moment. The work continues."""


class WriteWarning:
    """Warning at the first failure to write `what`, so that long work does not end because a disk is full."""

    def __init__(self, what: str):
        self._what, self._has_warned = what, False

    def __call__(self, path: Path, error: OSError) -> None:
        """Warn, unless it has warned before."""
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{path}: {self._what} cannot be written ({error.strerror or error}). The work continues, and will "
                "try again later.",
                CheckpointWarning,
                stacklevel=3,
            )


class StateFile:
    """Checkpoint in one file: dicts, lists, numbers, strings and tensors. Loading never runs code from the file.

    Parameters
    ----------
    path : Path, optional
        The file. Without a path, nothing is saved.
    owner : str, default ""
        What the state belongs to. `load` ignores a state of another owner.
    every : float, default 10
        Minimum number of seconds between two writes.
    on_failure : callable (path, error), optional
        Function that is called if the file cannot be written. By default it is a `WriteWarning`.

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
        """Return the last saved state, or None; raise a ValueError if the file is damaged or is not a checkpoint."""
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
                warnings.simplefilter("ignore")  # torch warns about some files before it rejects them
                content = torch.load(self.path, map_location="cpu", weights_only=True)
            if not isinstance(content, dict) or set(content) != {"owner", "state"}:
                raise ValueError("it holds something else")
        except (MemoryError, ImportError):
            raise
        # A damaged file can raise any error, even an OSError of a seek. The message always names the file.
        except Exception as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise
            raise ValueError(
                f"{self.path}: is not a state of unfinished work, or is damaged ({reason_of(error)}). {_REMEDY}"
            ) from error
        return content["state"] if content["owner"] == self._owner else None

    def save(self, state: Callable[[], Any]) -> None:
        """Write the result of `state()` atomically, unless the last write was less than `every` seconds ago."""
        if self.path is None or time.monotonic() - self._written < self.every:
            return
        import torch

        content = io.BytesIO()  # if torch itself writes the file, a full disk raises other errors
        torch.save({"owner": self._owner, "state": state()}, content)
        try:
            with write_aside(self.path) as aside:
                aside.write_bytes(content.getbuffer())
        except OSError as error:
            self._on_failure(self.path, error)
        self._written = time.monotonic()

    def remove(self) -> None:
        """Remove the file, and temporary files that a killed process left behind."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            remove_leftovers(self.path)


def digest(*arrays: NDArray[Any]) -> str:
    """Compute a hash of the values, shapes and dtypes of arrays."""
    sha256 = hashlib.sha256()
    for array in arrays:
        sha256.update(f"{array.dtype.str}{array.shape}".encode())
        sha256.update(np.ascontiguousarray(array).data)
    return _DIGEST + sha256.hexdigest()


def store_name(store: CheckpointStore) -> str:
    """Return the name of a store for messages: its file, if it has one."""
    path = getattr(store, "path", None)
    return "checkpoint" if path is None else str(path)


def require_same_work(name: str, saved: Any, current: Mapping[str, Any]) -> None:
    """Raise an error that lists the differences if a saved state belongs to other work.

    Parameters
    ----------
    name : str
        Name of the file or store that contains the state.
    saved, current : mapping
        Settings by name, and digests of data, of the saved state and of the current work.

    Examples
    --------
    >>> require_same_work("m.unfinished", {"data": "sha256:5f", "seed": 0}, {"data": "sha256:8a", "seed": 7})
    Traceback (most recent call last):
    ...
    ValueError: m.unfinished: the unfinished work has other settings (other data; seed was 0, now 7). To resume it, \
repeat the same call. To start again, remove the file (--fresh on the command line).
    """
    if not isinstance(saved, Mapping):
        raise ValueError(f"{name}: the settings of the unfinished work are missing. {_REMEDY}")
    differences = []
    for key in dict.fromkeys([*current, *saved]):
        before, now = saved.get(key), current.get(key)
        if before == now and (key in saved) == (key in current):
            continue
        is_data = str(before).startswith(_DIGEST) or str(now).startswith(_DIGEST)
        differences.append(f"other {key}" if is_data else f"{key} was {before!r}, now {now!r}")
    if differences:
        raise ValueError(
            f"{name}: the unfinished work has other settings ({'; '.join(differences)}). To resume it, repeat the same "
            f"call. {_REMEDY}"
        )
