"""Drift monitor: windows are tested against a stored reference as they come, for months, with a bound on false alarms.

The reference is a sketch with groups, so that neither its points nor those of earlier windows are needed. Every window
spends an equal part of the level: with a horizon of H windows, each is tested at level alpha / H. The probability of a
false alarm in H consecutive windows is then at most alpha, however the tests depend on each other, and they do: all
share the reference. Evidence that is multiplied over windows (e-values) would need tests that are independent given
the past, which a shared reference does not give.
"""

import json
import math
import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from sphereot._arrays.validation import as_int, as_level, as_order, as_weight_factor
from sphereot._support.atomic_write import reason_of
from sphereot._support.text import cost_name, plural, printable, shorten
from sphereot.sketch import Sketch
from sphereot.stats.history_file import HistoryFile, history_text, open_history
from sphereot.stats.sketch_tests import (
    ROUNDING,
    DriftWindow,
    ProjectedDensities,
    as_permutations,
    count_units,
    find_circle,
    least_permutations,
    require_permutable,
    sketch_densities,
    sketch_permutation_result,
)
from sphereot.stats.two_sample import DifferingCircle

_FIRST_PERMUTATIONS = 999
_REFINED_BELOW = 0.02  # p-values of the first permutations up to which all are drawn
_BAND = (0.01, 0.99)
_DENSITY_POINTS = 128
_DENSITY_DIGITS = 3  # after the point: densities are drawn, not computed with
_DIGEST = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, kw_only=True)
class MonitoredWindow(DriftWindow):
    """Result of `DriftMonitor.check` for one window.

    Attributes
    ----------
    label, n, value, p_value, adjusted_p_value, drifted, permutations
        As in `DriftWindow`, like the other attributes.
    time : str
        When it was tested, ISO 8601 with the offset from UTC.
    circle_index : int
        Index of `circle` among the great circles of the sketches.
    digest : str
        `Sketch.digest` of the window.
    """

    time: str
    circle_index: int
    digest: str

    def summary(self, p: float) -> str:
        """The result in one line; `p` is the order of the monitor."""
        verdict = "DRIFT" if self.drifted else "no drift"
        return (
            f"{self.label}: {verdict}; {cost_name(p)} {self.value:.4g}, {self.ratio:.3g} times that of chance; "
            f"corrected p-value {self.adjusted_p_value:.2g}; {plural(self.n, 'point')}"
        )

    def as_record(self) -> dict[str, Any]:
        """The result as one object of JSON; the order of the fields is that of the history."""
        record = super().as_record()
        circle = {"index": self.circle_index, **record["circle"]}
        return {"label": self.label, "time": self.time, **record, "circle": circle, "digest": self.digest}

    @classmethod
    def from_record(cls, record: dict[str, Any], reference: Sketch) -> "MonitoredWindow":
        """The window of a record; a KeyError, TypeError, ValueError or OverflowError says what is wrong with it."""
        circle, densities = record["circle"], record["densities"]
        costs = (float(circle[name]) for name in ("cost", "null_mean", "null_deviation"))
        before, after = (np.array(densities[name], np.float64) for name in ("reference", "window"))
        low, high = map(float, record["band"])
        index = int(circle["index"])
        if not 0 <= index < reference.n_projections:
            raise ValueError(f"there is no great circle {index}")
        window = cls(
            label=printable(str(record["label"])),
            time=str(record["time"]),
            n=int(record["points"]),
            value=float(record["value"]),
            p_value=float(record["p_value"]),
            adjusted_p_value=float(record["adjusted_p_value"]),
            drifted=bool(record["drifted"]),
            permutations=int(record["permutations"]),
            null_mean=float(record["null_mean"]),
            null_deviation=float(record["null_deviation"]),
            band=(low, high),
            circle_index=index,
            circle=DifferingCircle(reference.projections[index], *costs),
            densities=ProjectedDensities(
                (np.arange(before.size) + 0.5) / before.size, before, after, float(densities["bandwidth"])
            ),
            digest=str(record["digest"]),
        )
        window._require_possible()
        # As text, because True == 1 == 1.0 in Python.
        mine = {name: json.dumps(value, allow_nan=False) for name, value in window.as_record().items()}
        given = {name: json.dumps(value) for name, value in record.items()}
        different = [name for name in mine | given if mine.get(name) != given.get(name)]
        if different:
            raise ValueError(f"{different[0]}: {shorten(given.get(different[0], 'nothing'))} is not a possible value")
        return window

    def _require_possible(self) -> None:
        """Raise a ValueError if the numbers could not be those of a test."""
        smallest = 1 / (1 + self.permutations) if self.permutations > 0 else math.inf
        if self.n < 1 or not smallest <= self.p_value <= self.adjusted_p_value <= 1:
            raise ValueError(
                f"{self.n} points, {self.permutations} permutations, the p-value {self.p_value} and the adjusted "
                f"p-value {self.adjusted_p_value} are not possible together"
            )
        numbers = (self.value, self.null_mean, self.null_deviation, *astuple(self.circle)[1:], self.densities.bandwidth)
        if not 0 <= min(numbers) <= max(numbers) < math.inf or not 0 <= self.band[0] <= self.band[1] < math.inf:
            raise ValueError("a value, mean or deviation is not a number of at least 0, or the band is empty")
        before, after = self.densities.reference, self.densities.window
        if before.ndim != 1 or before.shape != after.shape or not before.size or min(before.min(), after.min()) < 0:
            raise ValueError("the densities are not lists of equal length of numbers of at least 0")
        datetime.fromisoformat(self.time).timestamp()
        if not _DIGEST.fullmatch(self.digest):
            raise ValueError(f"the digest {shorten(self.digest)!r} is not made of 32 hexadecimal digits")


class DriftMonitor:
    """Test windows for drift from a reference as they come, with a bound on the probability of a false alarm.

    Parameters
    ----------
    reference : Sketch
        A sketch with groups of the points that the windows should be like. Windows should have at least a twentieth
        of its points at 64 groups: an error says if a window is too small for the level.
    history : path, optional
        A file of JSON lines with the settings and the results, which is made or continued. Every line has a checksum,
        and every window is flushed to the disk. Several processes and threads can write to it, also through links; this
        needs filelock (``pip install 'sphereot[monitor]'``). Without a history, results are in memory alone.
    alpha : float
        Level, above 0 and at most 0.5: bound on the probability of any alarm in `horizon` consecutive windows if there
        is no drift.
    horizon : int
        Number of windows that share the level: 365 for a window per day and a level per year.
    p : float
        Order of the distance, from 1 to 16.
    permutations : int, optional
        Permutations of a window that differs: 4 `horizon` / `alpha` by default. A window gets 999 first, and all of
        them, drawn again, only if its p-value is then at most 0.02.
    seed : int
        Seed of the permutations, together with the content of the window.
    wait : float, default 60
        How long to wait while another process writes to the history, in seconds.

    Attributes
    ----------
    windows : tuple of MonitoredWindow
        Results of all windows so far, in the order in which they were tested.

    Notes
    -----
    Each window is tested at level `alpha` / `horizon`: the level is spent in equal parts, and the bound follows from
    Bonferroni's inequality, which needs no independence of the windows. The decision of a window never changes later.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> from sphereot.stats import DriftMonitor
    >>> def day(seed, shift):
    ...     x = np.random.default_rng(seed).normal(size=(400, 3)) + [0, 0, shift]
    ...     sketch = sphereot.Sketch(3, n_projections=20, bins=128, groups=32)
    ...     return sketch.update(sphereot.sphere.normalize(x), groups=range(400))
    >>> monitor = DriftMonitor(day(0, 1.0), alpha=0.05, horizon=30)
    >>> [monitor.check(day(seed, shift), label=f"day {seed}").drifted for seed, shift in ((1, 1.0), (2, 0.4))]
    [False, True]
    >>> monitor.alarms[0].label
    'day 2'
    """

    def __init__(
        self,
        reference: Sketch,
        *,
        history: str | os.PathLike[str] | None = None,
        alpha: float = 0.05,
        horizon: int = 365,
        p: float = 1,
        permutations: int | None = None,
        seed: int = 0,
        wait: float = 60.0,
    ):
        if not isinstance(reference, Sketch):
            raise TypeError(f"reference: got {type(reference).__name__}, but a Sketch with groups is needed.")
        require_permutable("reference", reference)
        self.reference = reference
        self.alpha, self.p = as_level(alpha), as_order(p)
        self.horizon = as_int("horizon", horizon, 1, "the number of windows that share the level")
        self.seed = as_int("seed", seed, 0, "a seed")
        least = least_permutations(self.horizon, self.alpha)
        default = max(_FIRST_PERMUTATIONS, 4 * (least + 1) - 1)
        self.permutations = as_permutations(permutations, default, self.horizon, self.alpha)
        self.wait = as_weight_factor("wait", wait, "a time in seconds")
        self._path = None if history is None else Path(history)
        self.windows: tuple[MonitoredWindow, ...] = ()
        self._reload()

    @property
    def threshold(self) -> float:
        """The level at which each window is tested."""
        return self.alpha / self.horizon

    @property
    def alarms(self) -> tuple[MonitoredWindow, ...]:
        """The windows that have drifted."""
        return tuple(window for window in self.windows if window.drifted)

    @property
    def n_reference(self) -> int:
        """Number of points of the reference."""
        return self.reference.n

    @property
    def dim(self) -> int:
        """Dimension d of the space around the sphere."""
        return self.reference.dim

    @property
    def n_projections(self) -> int:
        """Number of great circles."""
        return self.reference.n_projections

    def check(
        self, window: Sketch, *, label: str | None = None, name: str = "window", time: datetime | None = None
    ) -> MonitoredWindow:
        """Test a window, and append the result to the history.

        Parameters
        ----------
        window : Sketch
            Points of the window, on the great circles, bins and groups of the reference.
        label : str, optional
            Label of the window. A window that the history has, under the same label and with the same points, is not
            tested again: its result is returned, so that a job can be repeated. Other points need another label.
        name : str, default "window"
            Without a `label`, the label is this name with the date of `time` in UTC, and a number if the history has
            that label: "window 2026-03-01", "window 2026-03-01 (2)". A window with the same points as an earlier one is
            then not tested again, whatever the label of the earlier one.
        time : datetime, optional
            When the window was tested; now by default.

        Returns
        -------
        MonitoredWindow
            With `.drifted`, `.value`, `.adjusted_p_value` and `.ratio`.
        """
        if not isinstance(window, Sketch):
            raise TypeError(f"window: got {type(window).__name__}, but a Sketch with groups is needed.")
        self.reference.require_mergeable(window)
        require_permutable("window", window)
        self._reload()
        label = None if label is None else printable(str(label))
        digest = window.digest()
        if (known := self._known(label, digest)) is not None:
            return known
        self._require_reachable(window)
        tested_at = datetime.now(UTC) if time is None else time
        result = self._test_window(window, digest, printable(name) if label is None else label, tested_at)
        MonitoredWindow.from_record(result.as_record(), self.reference)  # nothing is written that could not be read
        if self._path is None:
            result = self._add_label(result, label, tested_at)
            self.windows = (*self.windows, result)
            return result
        with self._open(write=True) as history:  # not locked during the test, which may take seconds
            if history.records:
                self.windows = self._read_windows(history.records)
            if (known := self._known(label, digest)) is not None:
                return known
            earlier = [] if history.records else [earlier.as_record() for earlier in self.windows]
            result = self._add_label(result, label, tested_at)
            history.append(*earlier, result.as_record())
            self.windows = (*self.windows, result)
        return result

    def verify(self) -> str:
        """Read the history again, check every line and every field, and say in one sentence what was checked.

        A ValueError says what is wrong, and in which line.
        """
        if self._path is None:
            raise ValueError("history: this monitor has none; give DriftMonitor(history=...).")
        with self._open() as history:
            self.windows = self._read_windows(history.records)
            checked = "all checksums and fields are right"
            if not history.has_checksums:
                checked = (
                    "all fields are right. An earlier version wrote this history without checksums; the next window "
                    "adds them to all lines"
                )
        return f"{plural(len(self.windows), 'window')}: {checked}."

    def history_text(self) -> str:
        """The history as JSON lines: the settings, then one line per window."""
        return history_text(self._settings(), [window.as_record() for window in self.windows])

    @property
    def summary(self) -> str:
        """All windows so far in one sentence."""
        total = len(self.windows)
        if not total:
            return "No windows: none was tested yet."
        if not self.alarms:
            verdict = f"{plural(total, 'window')} tested, none differs from the reference more than chance explains"
            return f"No drift found: {verdict} (level {self.alpha:g} in {plural(self.horizon, 'window')})."
        last = self.alarms[-1]
        return (
            f"Drift in {len(self.alarms)} of {plural(total, 'window')} at level {self.alpha:g} in "
            f"{plural(self.horizon, 'window')}: the last is {last.label} ({cost_name(self.p)} {last.ratio:.3g} times "
            f"that of chance, corrected p-value {last.adjusted_p_value:.2g})."
        )

    def _reload(self) -> None:
        """Read windows that other processes have added."""
        if self._path is not None and self._path.exists():
            with self._open() as history:
                self.windows = self._read_windows(history.records)

    def _known(self, label: str | None, digest: str) -> MonitoredWindow | None:
        """The earlier result of this window, or None; a ValueError if another window has its label."""
        for earlier in self.windows:
            if earlier.digest == digest and label in (None, earlier.label):
                return earlier
            if earlier.label == label:
                raise ValueError(
                    f"label: the history has a window {label!r} with other points, tested {earlier.time}; give this "
                    "one another label."
                )
        return None

    def _add_label(self, result: MonitoredWindow, label: str | None, tested_at: datetime) -> MonitoredWindow:
        """The result with its label, which is one that no other window has."""
        if label is not None:
            return result
        dated = f"{result.label} {tested_at.astimezone(UTC).date().isoformat()}"
        labels = {earlier.label for earlier in self.windows}
        numbered = (f"{dated} ({number})" for number in count(2))
        return replace(result, label=next(name for name in chain([dated], numbered) if name not in labels))

    def _test_window(self, window: Sketch, digest: str, label: str, tested_at: datetime) -> MonitoredWindow:
        """Test with few permutations, or with all of them if the window may have drifted.

        An alarm needs a small p-value among all permutations. They are drawn again, so that the level holds for any
        result of the first ones.
        """
        generator = np.random.default_rng([self.seed, int(digest, 16)])
        first = min(_FIRST_PERMUTATIONS, self.permutations)
        test = sketch_permutation_result(self.reference, window, self.p, first, generator)
        if first < self.permutations and test.p_value <= _REFINED_BELOW:
            test = sketch_permutation_result(self.reference, window, self.p, self.permutations, generator)
        adjusted, drifted = self._decide(test.p_value)
        index = find_circle(self.reference, test.circles[0])
        low, high = np.quantile(test.null, _BAND)
        fine = sketch_densities(self.reference, window, index)
        # Fewer positions and digits take less room in the history.
        turns, before, after = (
            array.reshape(_DENSITY_POINTS, -1).mean(axis=1) for array in (fine.turns, fine.reference, fine.window)
        )
        return MonitoredWindow(
            label=label,
            time=tested_at.isoformat(timespec="seconds"),
            n=window.n,
            value=test.statistic,
            p_value=test.p_value,
            adjusted_p_value=adjusted,
            drifted=drifted,
            permutations=test.permutations,
            null_mean=test.null_mean,
            null_deviation=test.null_deviation,
            band=(float(low), float(high)),
            circle_index=index,
            circle=test.circles[0],
            densities=ProjectedDensities(
                turns, before.round(_DENSITY_DIGITS), after.round(_DENSITY_DIGITS), fine.bandwidth
            ),
            digest=digest,
        )

    def _decide(self, p_value: float) -> tuple[float, bool]:
        """The adjusted p-value, and whether it is an alarm."""
        adjusted = min(1.0, p_value * self.horizon)
        return adjusted, adjusted <= self.alpha * (1 + ROUNDING)

    def _require_reachable(self, window: Sketch) -> None:
        """Raise if the groups can be divided in too few ways for any p-value to reach the level."""
        first, second = count_units(self.reference, window)
        divisions = math.comb(first + second, second)
        if divisions * self.threshold < 1:
            raise ValueError(
                f"window: {window.n} points against {self.reference.n} of the reference make {second} units of groups "
                f"beside {first}, which divide in {divisions} ways: no p-value can reach the level of a window, "
                f"{self.threshold:.2g}. Take larger windows, a smaller reference, sketches with more groups, or a "
                "smaller horizon."
            )

    # ---- the history ----

    def _open(self, *, write: bool = False) -> AbstractContextManager[HistoryFile]:
        assert self._path is not None
        return open_history(self._path, self._settings(), wait=self.wait, write=write)

    def _settings(self) -> dict[str, Any]:
        layout = self.reference.layout
        return {
            "reference": {
                "digest": self.reference.digest(),
                "points": self.reference.n,
                "dim": layout.dim,
                "n_projections": layout.n_projections,
                "bins": layout.bins,
                "method": layout.method,
                "groups": layout.groups,
                "seed": layout.seed,
            },
            "alpha": self.alpha,
            "horizon": self.horizon,
            "p": self.p,
            "permutations": self.permutations,
            "seed": self.seed,
        }

    def _read_windows(self, records: Sequence[dict[str, Any]]) -> tuple[MonitoredWindow, ...]:
        """The windows of a history; every field is checked."""
        windows: dict[str, MonitoredWindow] = {}
        for number, record in enumerate(records, start=2):
            try:
                window = MonitoredWindow.from_record(record, self.reference)
                if (window.adjusted_p_value, window.drifted) != self._decide(window.p_value):
                    raise ValueError("the adjusted p-value or the decision does not follow from the p-value")
                if window.label in windows:
                    raise ValueError(f"the label {window.label!r} is that of an earlier line")
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise ValueError(
                    f"{self._path}, line {number}: is not the result of a window ({reason_of(error)}). Restore the "
                    "file from a copy."
                ) from error
            windows[window.label] = window
        return tuple(windows.values())
