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
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sphereot._arrays.validation import as_int, as_level, as_order
from sphereot._support.atomic_write import locked, reason_of, write_text
from sphereot._support.keyword_options import options_by_name
from sphereot._support.text import cost_name, plural, printable
from sphereot.sketch import Sketch
from sphereot.stats._circle_density import ProjectedDensities
from sphereot.stats.monitored_window import MonitoredWindow
from sphereot.stats.sketch_tests import (
    count_units,
    require_permutable,
    sketch_densities,
    sketch_permutation_result,
)
from sphereot.stats.two_sample import TwoSampleResult

__all__ = ["DriftMonitor"]

_FORMAT, _VERSION = "sphereot drift history", 1
_FIRST_PERMUTATIONS = 999
_REFINED_BELOW = 0.02  # p-values of the first permutations below which all are drawn
_BAND = (0.01, 0.99)
_DENSITY_POINTS = 128
_DENSITY_DIGITS = 3  # after the point: densities are drawn, not computed with
_ROUNDING = 1e-9


class DriftMonitor:
    """Test windows for drift from a reference as they come, with a bound on the probability of a false alarm.

    Parameters
    ----------
    reference : Sketch
        A sketch with groups of the points that the windows should be like. Windows should have at least a twentieth
        of its points at 64 groups: an error says if a window is too small for the level.
    history : path, optional
        A file of JSON lines with the settings and the results, which is made or continued. It is written atomically
        after every window; without it results are in memory alone.
    alpha : float
        Level, above 0 and at most 0.5: bound on the probability of any alarm in `horizon` consecutive windows if there
        is no drift.
    horizon : int
        Number of windows that share the level: 365 for a window per day and a level per year.
    p : float
        Order of the distance, from 1 to 1000.
    permutations : int, optional
        Permutations of a window that differs: 4 `horizon` / `alpha` by default. A window gets 999 first, and all of
        them, drawn anew, only if its p-value is then below 0.02.
    seed : int
        Seed of the permutations, together with the content of the window.

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

    @options_by_name
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
    ):
        if not isinstance(reference, Sketch):
            raise TypeError(f"reference: got {type(reference).__name__}, but a Sketch with groups is needed.")
        require_permutable("reference", reference)
        self.reference = reference
        self.alpha, self.p = as_level(alpha), as_order(p)
        self.horizon = as_int("horizon", horizon, 1, "the number of windows that share the level")
        self.seed = as_int("seed", seed, 0, "a seed")
        self.permutations = self._as_permutations(permutations)
        self._path = None if history is None else Path(history)
        self.windows: tuple[MonitoredWindow, ...] = ()
        if self._path is not None and self._path.exists():
            self.windows = self._read(self._path)

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

    def check(self, window: Sketch, *, label: str | None = None, time: datetime | None = None) -> MonitoredWindow:
        """Test a window, and append the result to the history.

        Parameters
        ----------
        window : Sketch
            Points of the window, on the great circles, bins and groups of the reference.
        label : str, optional
            Name of the window; "window 1" and so on by default. A window that the history has, under the same label and
            with the same points, is not tested again: its result is returned, so that a job can be repeated.
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
        if self._path is None:
            return self._appended(window, label, time)
        busy = f"{self._path}: another process is writing to this history; wait until it ends."
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._path.with_name(self._path.name + ".lock"), busy):
            if self._path.exists():  # windows that other processes have added
                self.windows = self._read(self._path)
            before = len(self.windows)
            result = self._appended(window, label, time)
            if len(self.windows) > before or not self._path.exists():
                write_text(self._path, self.history_text())
        return result

    def history_text(self) -> str:
        """The history as JSON lines: the settings, then one line per window."""
        lines = [self._header(), *(window.as_record() for window in self.windows)]
        return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)

    @property
    def summary(self) -> str:
        """All windows so far in one sentence."""
        count = len(self.windows)
        if not count:
            return "No windows: none was tested yet."
        if not self.alarms:
            verdict = f"{plural(count, 'window')} tested, none differs from the reference more than chance explains"
            return f"No drift found: {verdict} (level {self.alpha:g} in {plural(self.horizon, 'window')})."
        last = self.alarms[-1]
        return (
            f"Drift in {len(self.alarms)} of {plural(count, 'window')} at level {self.alpha:g} in "
            f"{plural(self.horizon, 'window')}: the last is {last.label} ({cost_name(self.p)} {last.ratio:.3g} times "
            f"that of chance, corrected p-value {last.adjusted_p_value:.2g})."
        )

    def _appended(self, window: Sketch, label: str | None, time: datetime | None) -> MonitoredWindow:
        name = f"window {len(self.windows) + 1}" if label is None else printable(str(label))
        digest = window.digest()
        for earlier in self.windows:
            if earlier.label == name:
                if earlier.digest == digest:
                    return earlier
                raise ValueError(
                    f"label: the history has a window {name!r} with other points, tested {earlier.time}; give this one "
                    "another label."
                )
        self._require_reachable(window)
        test = self._tested(window, digest)
        adjusted = min(1.0, test.p_value * self.horizon)
        index = int(np.argmin(np.abs(self.reference.projections - test.circles[0].frame).sum(axis=(1, 2))))
        low, high = np.quantile(test.null, _BAND)
        result = MonitoredWindow(
            label=name,
            time=(datetime.now(UTC) if time is None else time).isoformat(timespec="seconds"),
            n=window.n,
            value=test.statistic,
            p_value=test.p_value,
            adjusted_p_value=adjusted,
            drifted=adjusted <= self.alpha * (1 + _ROUNDING),
            permutations=test.permutations,
            null_mean=test.null_mean,
            null_deviation=test.null_deviation,
            band=(float(low), float(high)),
            circle_index=index,
            circle=test.circles[0],
            densities=_coarser(sketch_densities(self.reference, window, test.circles[0].frame)),
            digest=digest,
        )
        self.windows = (*self.windows, result)
        return result

    def _tested(self, window: Sketch, digest: str) -> TwoSampleResult:
        """The test with few permutations, or with all of them if the window may have drifted.

        An alarm needs a small p-value among all permutations, which are drawn anew, so that the level holds whatever
        the first ones were.
        """
        generator = np.random.default_rng([self.seed, int(digest, 16)])
        first = min(_FIRST_PERMUTATIONS, self.permutations)
        test = sketch_permutation_result(self.reference, window, self.p, first, generator)
        if first == self.permutations or test.p_value > _REFINED_BELOW:
            return test
        return sketch_permutation_result(self.reference, window, self.p, self.permutations, generator)

    def _as_permutations(self, permutations: int | None) -> int:
        least = math.ceil(self.horizon / self.alpha * (1 - _ROUNDING)) - 1
        if permutations is None:
            return max(_FIRST_PERMUTATIONS, 4 * (least + 1) - 1)
        count = as_int("permutations", permutations, 1, "the number of permutations")
        if count < least:
            raise ValueError(
                f"permutations: with {count}, no p-value can reach the level {self.alpha:g} / {self.horizon} of a "
                f"window; give at least {least}, better {4 * (least + 1) - 1}."
            )
        return count

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

    def _header(self) -> dict[str, Any]:
        layout = self.reference.layout
        return {
            "format": _FORMAT,
            "version": _VERSION,
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

    def _read(self, path: Path) -> tuple[MonitoredWindow, ...]:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise ValueError(f"{path}: is no drift history; give another file.") from None
        header = _object(lines[0]) if lines else None
        if header is None or header.get("format") != _FORMAT:
            raise ValueError(f"{path}: is no drift history; give another file.")
        if header.get("version") != _VERSION:
            raise ValueError(f"{path}: has version {header.get('version')!r}, but {_VERSION} is understood.")
        self._require_same_settings(path, header)
        windows = []
        for number, line in enumerate(lines[1:], start=2):
            record = _object(line)
            if record is None:
                raise ValueError(f"{path}, line {number}: is no object of JSON; restore the file from a copy.")
            try:
                windows.append(MonitoredWindow.of_record(record, self.reference))
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"{path}, line {number}: is no result of a window ({reason_of(error)}).") from error
        return tuple(windows)

    def _require_same_settings(self, path: Path, stored: dict[str, Any]) -> None:
        mine = self._header()
        if stored.get("reference") != mine["reference"]:
            raise ValueError(
                f"{path}: belongs to another reference ({stored.get('reference', {}).get('points')} points, not "
                f"{mine['reference']['points']}, or other great circles); give that one, or start another history."
            )
        names: Sequence[str] = ("alpha", "horizon", "p", "permutations", "seed")
        different = [
            f"{name} ({stored.get(name)!r}, not {mine[name]!r})" for name in names if stored.get(name) != mine[name]
        ]
        if different:
            raise ValueError(
                f"{path}: was begun with another {', '.join(different)}; its level holds for one setting: give that "
                "one, or start another history."
            )


def _object(line: str) -> dict[str, Any] | None:
    """An object of JSON, or None if the line is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _coarser(densities: ProjectedDensities) -> ProjectedDensities:
    """Densities at fewer turns and with fewer digits, which take less room in the history."""
    arrays = (densities.turns, densities.reference, densities.window)
    turns, reference, window = (array.reshape(_DENSITY_POINTS, -1).mean(axis=1) for array in arrays)
    reference, window = (array.round(_DENSITY_DIGITS) for array in (reference, window))
    return ProjectedDensities(turns, reference, window, densities.bandwidth)
