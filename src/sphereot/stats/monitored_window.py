"""The result of one window of a drift monitor, as the history stores it."""

import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from sphereot._support.text import cost_name, printable, shortened
from sphereot.sketch import Sketch
from sphereot.stats._circle_density import ProjectedDensities
from sphereot.stats.two_sample import DifferingCircle

__all__ = ["MonitoredWindow"]

_DIGEST = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class MonitoredWindow:
    """Result of `DriftMonitor.check` for one window.

    Attributes
    ----------
    label : str
        Name of the window, with control characters replaced.
    time : str
        When it was tested, ISO 8601 with the offset from UTC.
    n : int
        Number of points.
    value : float
        SSW_p^p between reference and window, in turns to the power p.
    p_value : float
        P-value of the test of this window alone.
    adjusted_p_value : float
        The p-value times the horizon of the monitor, at most 1.
    drifted : bool
        Whether `adjusted_p_value` is at most the level: an alarm.
    permutations : int
        Number of permutations of the p-value.
    null_mean, null_deviation : float
        Mean and standard deviation of the value under permutation.
    band : tuple of two floats
        Between them lie 98 % of the values under permutation.
    circle_index : int
        Index of the great circle of the sketches on which the window differs most.
    circle : DifferingCircle
        That great circle.
    densities : ProjectedDensities
        Densities of reference and window on `circle`.
    digest : str
        `Sketch.digest` of the window.
    """

    label: str
    time: str
    n: int
    value: float
    p_value: float
    adjusted_p_value: float
    drifted: bool
    permutations: int
    null_mean: float
    null_deviation: float
    band: tuple[float, float]
    circle_index: int
    circle: DifferingCircle = field(repr=False)
    densities: ProjectedDensities = field(repr=False)
    digest: str

    @property
    def ratio(self) -> float:
        """The value divided by its mean under permutation: 1 where chance explains all of it."""
        if self.null_mean > 0:
            return self.value / self.null_mean
        return math.inf if self.value > 0 else 1.0

    def summary(self, p: float) -> str:
        """The result in one line."""
        verdict = "DRIFT" if self.drifted else "no drift"
        return (
            f"{self.label}: {verdict}; {cost_name(p)} {self.value:.4g}, {self.ratio:.3g} times that of chance; "
            f"corrected p-value {self.adjusted_p_value:.2g}; {self.n} points"
        )

    def as_record(self) -> dict[str, Any]:
        """The result as one object of JSON."""
        return {
            "label": self.label,
            "time": self.time,
            "points": self.n,
            "value": self.value,
            "ratio": self.ratio if math.isfinite(self.ratio) else None,
            "p_value": self.p_value,
            "adjusted_p_value": self.adjusted_p_value,
            "drifted": self.drifted,
            "permutations": self.permutations,
            "null_mean": self.null_mean,
            "null_deviation": self.null_deviation,
            "band": list(self.band),
            "circle": {
                "index": self.circle_index,
                "cost": self.circle.cost,
                "null_mean": self.circle.null_mean,
                "null_deviation": self.circle.null_deviation,
            },
            "densities": {
                "reference": self.densities.reference.tolist(),
                "window": self.densities.window.tolist(),
                "bandwidth": self.densities.bandwidth,
            },
            "digest": self.digest,
        }

    @classmethod
    def of_record(cls, record: dict[str, Any], reference: Sketch) -> "MonitoredWindow":
        """The window of a record; a KeyError, TypeError, ValueError or OverflowError says what is wrong with it."""
        circle, densities = record["circle"], record["densities"]
        index = _integer("circle", circle["index"])
        if not 0 <= index < reference.n_projections:
            raise ValueError(f"there is no great circle {index}")
        costs = (_nonnegative(name, circle[name]) for name in ("cost", "null_mean", "null_deviation"))
        low, high = (_nonnegative("band", value) for value in record["band"])
        first, second = (
            np.array([_nonnegative("density", value) for value in densities[name]]) for name in ("reference", "window")
        )
        if first.shape != second.shape or not first.size:
            raise ValueError("the densities are not lists of equal length")
        window = cls(
            label=_text("label", record["label"]),
            time=_text("time", record["time"]),
            n=_integer("points", record["points"]),
            value=_nonnegative("value", record["value"]),
            p_value=_nonnegative("p_value", record["p_value"]),
            adjusted_p_value=_nonnegative("adjusted_p_value", record["adjusted_p_value"]),
            drifted=_boolean("drifted", record["drifted"]),
            permutations=_integer("permutations", record["permutations"]),
            null_mean=_nonnegative("null_mean", record["null_mean"]),
            null_deviation=_nonnegative("null_deviation", record["null_deviation"]),
            band=(low, high),
            circle_index=index,
            circle=DifferingCircle(reference.projections[index], *costs),
            densities=ProjectedDensities(
                (np.arange(len(first)) + 0.5) / len(first),
                first,
                second,
                _nonnegative("bandwidth", densities["bandwidth"]),
            ),
            digest=_text("digest", record["digest"]),
        )
        window._require_possible()
        if window.as_record() != record:  # the ratio, or a field too many
            raise ValueError("the record is not as a monitor writes it")
        return window

    def _require_possible(self) -> None:
        """Raise a ValueError if the numbers could not be those of a test."""
        if self.n < 1 or self.permutations < 1:
            raise ValueError(f"{self.n} points and {self.permutations} permutations: both are at least 1")
        smallest = 1 / (1 + self.permutations)
        if not smallest <= self.p_value <= self.adjusted_p_value <= 1:
            raise ValueError(
                f"the p-value {self.p_value} and the adjusted p-value {self.adjusted_p_value} are not in order between "
                f"{smallest:.3g} and 1"
            )
        if self.band[0] > self.band[1]:
            raise ValueError(f"the band from {self.band[0]} to {self.band[1]} is empty")
        datetime.fromisoformat(self.time).timestamp()
        if not _DIGEST.fullmatch(self.digest):
            raise ValueError(f"the digest {shortened(self.digest)!r} is not made of 32 hexadecimal digits")


def _nonnegative(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{name}: {value!r} is not a number of at least 0")
    return float(value)


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name}: {value!r} is not an integer")
    return value


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name}: {value!r} is neither true nor false")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name}: {value!r} is not text")
    return printable(value)
