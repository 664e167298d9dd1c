"""Drift monitor: windows are tested against a stored reference as they arrive, with a bound on false alarms.

The reference is a sketch with groups, so the monitor needs neither its points nor the points of earlier windows. All
tests share the reference, so they depend on each other. Evidence that is multiplied over windows (e-values) would need
tests that are independent given the past; Bonferroni's inequality does not.
"""

import json
import math
import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from sphereot._arrays.validation import as_int, as_level, as_order, as_weight_factor
from sphereot._support.atomic_write import reason_of
from sphereot._support.text import cost_name, plural, printable, shorten
from sphereot.sketch import Sketch
from sphereot.stats._combined import Component, Statistic, as_order_shown, as_statistic
from sphereot.stats.history_file import HistoryFile, open_history, stored_settings
from sphereot.stats.sketch_tests import (
    ROUNDING,
    DriftWindow,
    ProjectedDensities,
    as_permutations,
    count_units,
    evidence,
    find_circle,
    least_permutations,
    require_permutable,
    sketch_densities,
    sketch_permutation_result,
    window_fields,
)
from sphereot.stats.two_sample import DifferingCircle

_FIRST_PERMUTATIONS = 999
_REFINED_BELOW = 0.02  # the largest first p-value that is refined with all permutations
_BAND = (0.01, 0.99)
_DENSITY_POINTS = 128
_DENSITY_DIGITS = 3  # after the point: densities are only drawn
_COMPONENT_FIELDS = ("statistic", "null_mean", "null_deviation", "p_value")
_DIGEST = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, kw_only=True)
class MonitoredWindow(DriftWindow):
    """Result of `DriftMonitor.check` for one window, with the attributes of `DriftWindow`, and the attributes below.

    Attributes
    ----------
    time : str
        When the window was tested, in ISO 8601 with the offset from UTC.
    circle_index : int
        Index of `circle` among the great circles of the sketches.
    digest : str
        `Sketch.digest` of the window.
    """

    time: str
    circle_index: int
    digest: str

    def summary(self, p: float) -> str:
        """Return the result in one line; `p` is the order of the monitor."""
        verdict = "DRIFT" if self.drifted else "no drift"
        return (
            f"{self.label}: {verdict}; {cost_name(p)} is {self.value:.4g}, {self.ratio:.3g} times its expected value "
            f"without drift; adjusted p-value {self.adjusted_p_value:.2g}; {plural(self.n, 'point')}"
        )

    def as_record(self) -> dict[str, Any]:
        """Return the result as one object of JSON, with the fields in the order of the history."""
        record = super().as_record()
        circle = {"index": self.circle_index, **record["circle"]}
        return {"label": self.label, "time": self.time, **record, "circle": circle, "digest": self.digest}

    @classmethod
    def from_record(cls, record: dict[str, Any], reference: Sketch) -> "MonitoredWindow":
        """Read a window; a KeyError, TypeError, ValueError or OverflowError says what is wrong with the record."""
        circle, densities = record["circle"], record["densities"]
        numbers: dict[str, Any] = {name: float(record[name]) for name in ("value", "null_mean", "null_deviation")}
        costs = [float(circle[name]) for name in ("cost", "null_mean", "null_deviation")]
        before, after = (np.array(densities[name], np.float64) for name in ("reference", "window"))
        positions, bandwidth = (np.arange(before.size) + 0.5) / before.size, float(densities["bandwidth"])
        low, high = map(float, record["band"])
        index = int(circle["index"])
        components = tuple(
            Component(str(part["name"]), *(float(part[name]) for name in _COMPONENT_FIELDS))
            for part in record.get("components", ())
        )
        if not 0 <= index < reference.n_projections:
            raise ValueError(f"there is no great circle {index}")
        window = cls(
            label=printable(str(record["label"])),
            time=str(record["time"]),
            n=int(record["points"]),
            p_value=float(record["p_value"]),
            adjusted_p_value=float(record["adjusted_p_value"]),
            drifted=bool(record["drifted"]),
            permutations=int(record["permutations"]),
            components=components,
            band=(low, high),
            circle_index=index,
            circle=DifferingCircle(reference.projections[index], *costs),
            densities=ProjectedDensities(positions, before, after, bandwidth),
            digest=str(record["digest"]),
            **numbers,
        )
        datetime.fromisoformat(window.time).timestamp()
        drawable = before.ndim == 1 and before.size > 0 and before.shape == after.shape
        possible = {
            "points": window.n > 0,
            "p_value": window.permutations > 0 and 1 / (1 + window.permutations) <= window.p_value,
            "adjusted_p_value": window.p_value <= window.adjusted_p_value <= 1,
            "band": 0 <= low <= high < math.inf,
            "circle": 0 <= min(costs) <= max(costs) < math.inf,
            "densities": drawable and min(before.min(), after.min()) >= 0 and 0 <= bandwidth < math.inf,
            "digest": _DIGEST.fullmatch(window.digest) is not None,
            "components": all(map(_is_possible, components)),
            **{name: 0 <= number < math.inf for name, number in numbers.items()},
        }
        # Compare text, because True == 1 == 1.0 in Python.
        mine = {name: json.dumps(value, allow_nan=False) for name, value in window.as_record().items()}
        given = {name: json.dumps(value) for name, value in record.items()}
        wrong = [name for name in mine | given if mine.get(name) != given.get(name) or not possible.get(name, True)]
        if wrong:
            raise ValueError(f"{wrong[0]}: {shorten(given.get(wrong[0], 'nothing'))} is not a possible value")
        return window


def _is_possible(component: Component) -> bool:
    numbers = [getattr(component, name) for name in _COMPONENT_FIELDS]
    return component.p_value <= 1 and 0 <= min(numbers) <= max(numbers) < math.inf


class DriftMonitor:
    """Test windows for drift from a reference as they arrive, with a bound on the probability of a false alarm.

    A window has drifted if its p-value is at most `alpha` / `horizon`. The bound follows from Bonferroni's inequality,
    for any dependence between the windows. A decision never changes later.

    Parameters
    ----------
    reference : Sketch
        Sketch with groups of a sample of the distribution that the windows should have. With 64 groups, windows should
        have at least a twentieth of its points. A window that is too small for the significance level is an error.
    history : path, optional
        File of JSON lines with the settings and the results. It is created, or continued, by any number of processes.
        This needs filelock (``pip install 'sphereot[monitor]'``). Without a history, results are only in memory.
    alpha : float, default 0.05
        Significance level, above 0 and at most 0.5: a bound on the probability of any alarm in `horizon` consecutive
        windows if there is no drift.
    horizon : int, default 365
        Number of consecutive windows to which `alpha` applies.
    statistic : {"combined", "ssw"}, optional
        What measures the difference; see `drift_test`. The default is the statistic of an existing history, and
        ``"combined"`` for a new one.
    p : float, optional
        Order of the distance in the results; see `drift_test`.
    permutations : int, optional
        Number of permutations of a window that may have drifted, 4 `horizon` / `alpha` by default. Each window gets 999
        permutations first. Only if its p-value is at most 0.02, it gets `permutations` new ones.
    seed : int, default 0
        Seed of the permutations, together with the content of the window.
    wait : float, default 60
        How long to wait while another process writes to the history, in seconds.

    Attributes
    ----------
    windows : tuple of MonitoredWindow
        Results of all windows so far, in the order in which they were tested.

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
        statistic: Statistic | None = None,
        p: float | None = None,
        permutations: int | None = None,
        seed: int = 0,
        wait: float = 60.0,
    ):
        if not isinstance(reference, Sketch):
            raise TypeError(f"reference must be a Sketch with groups, got {type(reference).__name__}.")
        require_permutable("reference", reference)
        self.reference = reference
        self._path = None if history is None else Path(history)
        if statistic is None:
            stored = {} if self._path is None else stored_settings(self._path)
            statistic = stored.get("statistic", "ssw") if stored else "combined"
        self.statistic = as_statistic(statistic)
        order = None if p is None else as_order(p)
        self.alpha, self.p = as_level(alpha), as_order_shown(order, self.statistic, reference.dim, default=1)
        self.horizon = as_int("horizon", horizon, 1, "the number of windows to which alpha applies")
        self.seed = as_int("seed", seed, 0, "a seed")
        least = least_permutations(self.horizon, self.alpha)
        default = max(_FIRST_PERMUTATIONS, 4 * (least + 1) - 1)
        self.permutations = as_permutations(permutations, default, self.horizon, self.alpha)
        self.wait = as_weight_factor("wait", wait, "a time in seconds")
        self.windows: tuple[MonitoredWindow, ...] = ()
        self._reload()

    @property
    def alarms(self) -> tuple[MonitoredWindow, ...]:
        """The windows that have drifted."""
        return tuple(window for window in self.windows if window.drifted)

    def check(
        self, window: Sketch, *, label: str | None = None, name: str = "window", time: datetime | None = None
    ) -> MonitoredWindow:
        """Test a window, and append the result to the history.

        A window that is already in the history, with the same points, is not tested again: its result is returned, so a
        job can be repeated.

        Parameters
        ----------
        window : Sketch
            Sketch of the window, with the great circles, bins and groups of the reference.
        label : str, optional
            Label of the window. The same label with other points is an error.
        name : str, default "window"
            Name for the default label, which is this name with the date of `time` in UTC, and a number if the history
            contains this label: "window 2026-03-01", "window 2026-03-01 (2)".
        time : datetime, optional
            When the window was tested, now by default.

        Returns
        -------
        MonitoredWindow
            The main attributes are `drifted`, `value` (in turns to the power p), `ratio` and `adjusted_p_value`.
        """
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
        MonitoredWindow.from_record(result.as_record(), self.reference)  # write nothing that cannot be read
        # The history is not locked during the test, which may take seconds.
        with nullcontext() if self._path is None else self._open(write=True) as history:
            if history is not None and history.records:
                self.windows = self._read_windows(history.records)
            if (known := self._known(label, digest)) is not None:
                return known
            if label is None:
                result = replace(result, label=self._new_label(result.label, tested_at))
            if history is not None:
                earlier = [] if history.records else [stored.as_record() for stored in self.windows]
                history.append(*earlier, result.as_record())
            self.windows = (*self.windows, result)
        return result

    def verify(self) -> str:
        """Read the history again, check every line and every field, and return what was checked in one sentence.

        A ValueError says what is wrong, and in which line.
        """
        if self._path is None:
            raise ValueError("This monitor has no history to verify. Use DriftMonitor(history=...).")
        with self._open() as history:
            self.windows = self._read_windows(history.records)
            count = plural(len(self.windows), "window")
            if history.has_checksums:
                return f"{count}: all checksums and fields are right."
            return (
                f"{count}: all fields are right. An earlier version wrote this history without checksums. The next "
                "window adds them to all lines."
            )

    @property
    def summary(self) -> str:
        """All windows so far in one sentence."""
        if not self.windows:
            return "No window was tested yet."
        count = plural(len(self.windows), "window")
        level = f"alpha = {self.alpha:g} for {plural(self.horizon, 'window')}"
        if not self.alarms:
            return f"No drift detected in {count} ({level})."
        last = f"the last is {self.alarms[-1].label} ({evidence(self.alarms[-1], self.p)})"
        return f"Drift detected in {len(self.alarms)} of {count} ({level}): {last}."

    def _reload(self) -> None:
        """Read windows that other processes have added."""
        if self._path is not None and self._path.exists():
            with self._open() as history:
                self.windows = self._read_windows(history.records)

    def _known(self, label: str | None, digest: str) -> MonitoredWindow | None:
        """Return the earlier result of this window, or None; a ValueError if another window has its label."""
        for earlier in self.windows:
            if earlier.digest == digest and label in (None, earlier.label):
                return earlier
            if earlier.label == label:
                raise ValueError(
                    f"The history already contains a window {label!r} with other points, tested {earlier.time}. Use "
                    "another label."
                )
        return None

    def _new_label(self, name: str, tested_at: datetime) -> str:
        """Return a name with a date, and a number if an earlier window has this label."""
        dated = f"{name} {tested_at.astimezone(UTC).date().isoformat()}"
        labels = {earlier.label for earlier in self.windows}
        numbered = (f"{dated} ({number})" for number in count(2))
        return next(label for label in chain([dated], numbered) if label not in labels)

    def _test_window(self, window: Sketch, digest: str, label: str, tested_at: datetime) -> MonitoredWindow:
        """Test with few permutations, or with all of them if the window may have drifted.

        All permutations are drawn again, so the significance level is valid for any result of the first permutations.
        """
        generator = np.random.default_rng([self.seed, int(digest, 16)])
        first, arguments = min(_FIRST_PERMUTATIONS, self.permutations), (self.reference, window, self.p)
        test = sketch_permutation_result(*arguments, first, generator, statistic=self.statistic)
        if first < self.permutations and test.p_value <= _REFINED_BELOW:
            test = sketch_permutation_result(*arguments, self.permutations, generator, statistic=self.statistic)
        adjusted, drifted = self._decide(test.p_value)
        index = find_circle(self.reference, test.circles[0])
        low, high = np.quantile(test.null, _BAND)
        fine = sketch_densities(self.reference, window, index)
        # Fewer positions and digits need less room in the history.
        turns, before, after = (
            array.reshape(_DENSITY_POINTS, -1).mean(axis=1) for array in (fine.turns, fine.reference, fine.window)
        )
        return MonitoredWindow(
            label=label,
            time=tested_at.isoformat(timespec="seconds"),
            adjusted_p_value=adjusted,
            drifted=drifted,
            band=(float(low), float(high)),
            circle_index=index,
            densities=ProjectedDensities(
                turns, before.round(_DENSITY_DIGITS), after.round(_DENSITY_DIGITS), fine.bandwidth
            ),
            digest=digest,
            **window_fields(test),
        )

    def _decide(self, p_value: float) -> tuple[float, bool]:
        """Return the adjusted p-value, and whether it is an alarm."""
        adjusted = min(1.0, p_value * self.horizon)
        return adjusted, adjusted <= self.alpha * (1 + ROUNDING)

    def _require_reachable(self, window: Sketch) -> None:
        """Raise an error if the groups have too few divisions for any p-value to reach the significance level."""
        first, second = count_units(self.reference, window)
        divisions = math.comb(first + second, second)
        level = self.alpha / self.horizon
        if divisions * level < 1:
            raise ValueError(
                f"The window is too small for this reference ({window.n} and {self.reference.n} points): only "
                f"{divisions} permutations of {second} and {first} merged groups are possible, so no p-value can reach "
                f"alpha / horizon = {level:.2g}. Use larger windows, a smaller reference, sketches with more "
                "groups, or a shorter horizon."
            )

    def _open(self, *, write: bool = False) -> AbstractContextManager[HistoryFile]:
        assert self._path is not None
        return open_history(self._path, self._settings(), wait=self.wait, write=write)

    def _settings(self) -> dict[str, Any]:
        """Return the settings of a history. Checksums depend on the order of the fields."""
        layout = self.reference.layout
        fields = {name: getattr(layout, name) for name in ("dim", "n_projections", "bins", "method", "groups", "seed")}
        return {
            "reference": {"digest": self.reference.digest(), "points": self.reference.n, **fields},
            **{name: getattr(self, name) for name in ("alpha", "horizon", "p", "permutations", "seed")},
            # Histories of a test on SSW_p only have no such field.
            **({} if self.statistic == "ssw" else {"statistic": self.statistic}),
        }

    def _read_windows(self, records: Sequence[dict[str, Any]]) -> tuple[MonitoredWindow, ...]:
        """Return the windows of a history, after a check of every field."""
        windows: dict[str, MonitoredWindow] = {}
        for number, record in enumerate(records, start=2):
            try:
                window = MonitoredWindow.from_record(record, self.reference)
                if (window.adjusted_p_value, window.drifted) != self._decide(window.p_value):
                    raise ValueError("the adjusted p-value or the decision does not follow from the p-value")
                if window.label in windows:
                    raise ValueError(f"an earlier line has the label {window.label!r}")
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise ValueError(
                    f"{self._path}, line {number} is not the result of a window ({reason_of(error)}). Restore the file "
                    "from a copy."
                ) from error
            windows[window.label] = window
        return tuple(windows.values())
