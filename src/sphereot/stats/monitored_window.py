"""The result of one window of a drift monitor, as the history stores it."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sphereot._support.text import cost_name, printable
from sphereot.sketch import Sketch
from sphereot.stats._circle_density import ProjectedDensities
from sphereot.stats.two_sample import DifferingCircle

__all__ = ["MonitoredWindow"]


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
        """The window of a record; a KeyError, TypeError or ValueError says what is wrong with it."""
        circle, densities = record["circle"], record["densities"]
        index = int(circle["index"])
        if not 0 <= index < reference.n_projections:
            raise ValueError(f"there is no great circle {index}")
        low, high = map(_finite, record["band"])
        first, second = (np.array(densities[name], dtype=np.float64) for name in ("reference", "window"))
        if first.ndim != 1 or first.shape != second.shape or not first.size:
            raise ValueError("the densities are no lists of equal length")
        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            raise ValueError("the densities are not finite")
        costs = (_finite(circle[name]) for name in ("cost", "null_mean", "null_deviation"))
        return cls(
            label=printable(str(record["label"])),
            time=printable(str(record["time"])),
            n=int(record["points"]),
            **{name: _finite(record[name]) for name in ("value", "p_value", "adjusted_p_value")},
            drifted=bool(record["drifted"]),
            permutations=int(record["permutations"]),
            **{name: _finite(record[name]) for name in ("null_mean", "null_deviation")},
            band=(low, high),
            circle_index=index,
            circle=DifferingCircle(reference.projections[index], *costs),
            densities=ProjectedDensities(
                (np.arange(len(first)) + 0.5) / len(first), first, second, _finite(densities["bandwidth"])
            ),
            digest=str(record["digest"]),
        )


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)
