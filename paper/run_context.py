"""Run context of an experiment: seeds, progress, a log of finished units, and checkpoints inside long units."""

import json
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sphereot._support.atomic_write import write_text
from sphereot._support.checkpoints import StateFile, WriteWarning

Row = dict[str, Any]
"""One row of measurements: numbers, strings and flags by name, as JSON has them."""

LOG_NAME = "unfinished.jsonl"
"""The log in the folder of a run that is not finished."""


class Reporter(Protocol):
    """Receiver of progress reports, such as the progress bar of the command line."""

    def begin(self, label: str, total: int, done: int) -> None:
        """A part of the experiment starts, with `done` of its `total` units finished in an earlier run."""

    def advance(self) -> None:
        """One more unit is finished."""


class _Silent:
    def begin(self, label: str, total: int, done: int) -> None:
        pass

    def advance(self) -> None:
        pass


class UnitLog:
    """Log of finished units, one line per unit, written as they end: a killed run resumes after the last whole line.

    Parameters
    ----------
    path : Path
        The log file; created if missing.
    header : dict
        What the units depend on (experiment, configuration, seed, version). A log with another header is an error.
    fresh : bool
        Discard an existing log.
    """

    def __init__(self, path: Path, header: Row, *, fresh: bool = False):
        self.path, self.header = path, json.loads(json.dumps(header))
        self._warning, self._state_warning = WriteWarning("the log"), WriteWarning("the state")
        if fresh:
            self.remove()
        self.resumed = _checkpoint_path(path).exists()
        self.known: dict[str, Row] = {}
        text = _read(path)
        entries = _parse(text)
        if text.strip() and (not entries or entries[0] != self.header):
            raise ValueError(
                f"{path.parent}: holds an unfinished run with other settings, or a damaged log ({path.name}); "
                "choose another folder, or discard that run with --fresh."
            )
        units = [entry for entry in entries[1:] if _is_unit(entry)]
        self.known = {_key(entry["unit"]): entry["result"] for entry in units}
        self._earlier, self._start = max((entry["seconds"] for entry in units), default=0.0), time.perf_counter()
        self.resumed = self.resumed or bool(self.known)
        whole = _as_lines([self.header, *units])
        if text != whole:  # new, or with a line that a kill may have torn
            write_text(path, whole)
        self._end, self._waiting = path.stat().st_size, b""

    @property
    def seconds(self) -> float:
        """Duration of the run so far, with the parts before interruptions."""
        return self._earlier + time.perf_counter() - self._start

    def count_earlier(self, seconds: float) -> None:
        """Count the duration up to a checkpoint of an earlier process, which the units in the log do not include."""
        self._earlier = max(self._earlier, seconds)

    def add(self, unit: Row, result: Row) -> None:
        """Append a finished unit; if the disk is full, it is written with the next unit."""
        entry = {"unit": unit, "result": result, "seconds": round(self.seconds, 3)}
        self._waiting += (json.dumps(entry) + "\n").encode()
        try:
            with self.path.open("r+b") as log:
                log.seek(self._end)
                log.truncate()  # what a failed write has left
                log.write(self._waiting)
        except OSError as error:
            self._warning(self.path, error)
            return
        self._end, self._waiting = self._end + len(self._waiting), b""

    def checkpoint(self, unit: Row) -> "Checkpoint":
        """The checkpoint of a long unit."""
        owner = {"header": self.header, "unit": unit}
        return Checkpoint(_checkpoint_path(self.path), owner, self._state_warning, self)

    def shared_state(self, name: str) -> "Checkpoint":
        """The file of a state that several units need, such as a trained network."""
        path = self.path.with_suffix(f".{name}.pt")
        return Checkpoint(path, {"header": self.header, "shared": name}, self._state_warning, self)

    def remove(self) -> None:
        """Remove the log, the checkpoint and shared states: the run is complete."""
        Checkpoint(_checkpoint_path(self.path)).remove()
        for path in self.path.parent.glob(f"{self.path.stem}.*.pt"):
            Checkpoint(path).remove()
        self.path.unlink(missing_ok=True)


def join_logs(folders: Sequence[Path], out: Path) -> tuple[int, list[str]]:
    """Write the log with the units of several unfinished runs of the same experiment; `out` continues from it.

    A unit takes the seconds that its log shows, so that the sum counts all processes. Of a unit in several logs the
    first result is kept.

    Parameters
    ----------
    folders : sequence of Path
        The folders of the runs. Units that are not finished, and their checkpoints, are left out.
    out : Path
        A folder without results; created if missing.

    Returns
    -------
    units : int
        The number of units in the new log.
    differing : list of str
        The units with different results in several logs, as JSON.
    """
    if len(folders) < 2:
        raise ValueError(f"folders must be at least 2, got {len(folders)}.")
    target = out / LOG_NAME
    if target.exists() or (out / "result.json").exists():
        raise ValueError(f"{out}: holds results already; choose another folder with --out.")
    header: Row = {}
    joined: dict[str, Row] = {}
    differing, seconds = [], 0.0
    for folder in folders:
        path = folder / LOG_NAME
        entries = _parse(_read(path))
        if not entries or not {"experiment", "configuration", "seed", "version"} <= set(entries[0]):
            raise ValueError(f"{folder}: holds no unfinished run ({path.name} is missing or damaged).")
        header = header or entries[0]
        if entries[0] != header:
            raise ValueError(
                f"{folder}: is a run with another experiment, configuration, seed or version than {folders[0]}."
            )
        before = 0.0
        for entry in filter(_is_unit, entries[1:]):
            key = _key(entry["unit"])
            if key not in joined:
                seconds += entry["seconds"] - before
                joined[key] = entry | {"seconds": round(seconds, 3)}
            elif joined[key]["result"] != entry["result"]:
                differing.append(key)
            before = entry["seconds"]
    out.mkdir(parents=True, exist_ok=True)
    write_text(target, _as_lines([header, *joined.values()]))
    return len(joined), differing


def _checkpoint_path(log: Path) -> Path:
    """The file, next to the log, with the state inside the current unit."""
    return log.with_suffix(".pt")


class Checkpoint(StateFile):
    """Checkpoint inside a unit that takes minutes, from which a killed run resumes.

    Parameters
    ----------
    path : Path, optional
        The file; by default nothing is saved.
    owner : dict, optional
        What the state belongs to. `load` ignores a state of another owner.
    on_failure : callable (path, error), optional
        Called where the file cannot be written.
    log : UnitLog, optional
        The log of the run, whose duration is saved too.
    """

    every: float = 10.0
    """Seconds between two writes."""

    def __init__(
        self,
        path: Path | None = None,
        owner: Row | None = None,
        on_failure: Callable[[Path, OSError], None] | None = None,
        log: UnitLog | None = None,
    ):
        super().__init__(path, "" if owner is None else _key(owner), self.every, on_failure)
        self._log = log

    def load(self) -> Any | None:
        """The state that was saved last, or None."""
        content = super().load()
        if content is None or self._log is None:
            return content
        self._log.count_earlier(content["seconds"])
        return content["state"]

    def save(self, state: Callable[[], Any]) -> None:
        """Write what `state()` returns, unless the last write was less than `every` seconds ago."""
        log = self._log
        super().save(state if log is None else lambda: {"seconds": log.seconds, "state": state()})


class RunContext:
    """The context in which an experiment takes its measurements.

    Parameters
    ----------
    seed : int
        The seed of a unit is derived from this seed and from the unit's values, so that neither the order of units nor
        an interruption changes the numbers.
    log : UnitLog, optional
        Log of finished units; none by default.
    reporter : Reporter, optional
        Receiver of progress reports; none by default.
    start : float, default 0
        Share of the units of each part that come last: several processes begin at different units.

    Examples
    --------
    >>> from paper.run_context import RunContext
    >>> RunContext(seed=0).measure("squares", [{"n": n} for n in (2, 3)], lambda n, seed: {"square": n * n})
    [{'part': 'squares', 'n': 2, 'square': 4}, {'part': 'squares', 'n': 3, 'square': 9}]
    """

    def __init__(self, seed: int, log: UnitLog | None = None, reporter: Reporter | None = None, *, start: float = 0.0):
        self.seed, self._log, self._reporter, self._start = seed, log, reporter or _Silent(), start
        self._shared: dict[str, Any] = {}

    def measure(
        self,
        part: str,
        units: Iterable[Mapping[str, Any]],
        work: Callable[..., Mapping[str, Any]],
        *,
        checkpoints: bool = False,
    ) -> list[Row]:
        """Measure units: rows `unit | work(**unit, seed=...)`, taken from the log for finished units.

        Parameters
        ----------
        part : str
            Name of this part of the experiment: a column of the rows, and the label of the progress bar.
        units : iterable of dict
            What to measure, by name; values as JSON has them.
        work : callable
            Takes the values of a unit by name, and `seed`; returns measurements by name: numbers, strings, flags, or
            lists of numbers for the figures.
        checkpoints : bool
            Pass a `Checkpoint` to `work` as `checkpoint`: for units that take a minute or more.
        """
        todo = [{"part": part, **unit} for unit in units]
        known = {} if self._log is None else self._log.known
        self._reporter.begin(part, len(todo), sum(_key(unit) in known for unit in todo))
        rows: dict[str, Row] = {}
        first = int(self._start * len(todo))
        for unit in todo[first:] + todo[:first]:
            result = known.get(_key(unit))
            if result is None:
                arguments = {name: value for name, value in unit.items() if name != "part"}
                checkpoint = Checkpoint() if self._log is None else self._log.checkpoint(unit)
                if checkpoints:
                    arguments["checkpoint"] = checkpoint
                result = {name: _plain(value) for name, value in work(**arguments, seed=self.unit_seed(unit)).items()}
                if self._log is not None:
                    self._log.add(unit, result)
                checkpoint.remove()
                self._reporter.advance()
            rows[_key(unit)] = unit | result
        return [rows[_key(unit)] for unit in todo]

    def shared(self, name: str, make: Callable[[int], Any]) -> Any:
        """State that several units need, such as a trained network: `make(seed)`, computed once per run.

        It is kept next to the log until the run is complete, so that a resumed run has the same state.

        Parameters
        ----------
        name : str
            Part of the name of its file.
        make : callable (seed) -> state
            Computes it: dicts, lists, numbers, strings and tensors.
        """
        if name not in self._shared:
            store = Checkpoint() if self._log is None else self._log.shared_state(name)
            state = store.load()
            if state is None:
                state = make(self.unit_seed({"shared": name}))
                store.every = 0.0
                store.save(lambda: state)
            self._shared[name] = state
        return self._shared[name]

    def unit_seed(self, unit: Row) -> int:
        """The seed of a unit, from the experiment's seed and the unit's values."""
        return int(np.random.SeedSequence([self.seed, zlib.crc32(_key(unit).encode())]).generate_state(1)[0])


def _key(unit: Row) -> str:
    return json.dumps(unit, sort_keys=True)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _parse(text: str) -> list[Row]:
    """The whole lines of a log; a kill may have torn the last one."""
    return [entry for entry in map(_entry, text.splitlines()) if entry is not None]


def _as_lines(entries: Iterable[Row]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def _entry(line: str) -> Row | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _is_unit(entry: Row) -> bool:
    kinds = {"unit": dict, "result": dict, "seconds": int | float}
    return all(isinstance(entry.get(name), kind) for name, kind in kinds.items())


def _plain(value: Any) -> Any:
    """Convert numbers of NumPy and torch to Python numbers, and arrays to lists, without loss of digits."""
    return value.tolist() if hasattr(value, "tolist") else value
