"""State of a drift monitor in the text format of Prometheus, for the textfile collector of its node exporter."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from sphereot.stats.monitor import DriftMonitor

__all__ = ["failure_text", "prometheus_text"]

Metric = tuple[str, str, str, float]  # name, type, help and value

_SUCCESS, _FAILURE = "last_success_timestamp_seconds", "last_error_timestamp_seconds"
_PREFIX = "sphereot_drift_"


def prometheus_text(monitor: DriftMonitor, name: str, *, previous: str = "", now: datetime | None = None) -> str:
    r"""Metrics of a monitor, in the text exposition format of Prometheus.

    Parameters
    ----------
    monitor : DriftMonitor
        With at least one window, or only the counters are given.
    name : str
        Value of the label `monitor`, which tells several monitors apart.
    previous : str
        Text that this one will replace; the time of the last error is kept.
    now : datetime, optional
        When the monitor succeeded; now by default.

    Examples
    --------
    >>> import sphereot
    >>> from sphereot.stats import DriftMonitor
    >>> from sphereot.stats.prometheus import prometheus_text
    >>> points = sphereot.sphere.random_uniform(100, 3, seed=0)
    >>> sketch = sphereot.Sketch(3, n_projections=4, bins=16, groups=16).update(points, groups=range(100))
    >>> print(prometheus_text(DriftMonitor(sketch), "texts").splitlines()[2])
    sphereot_drift_windows_total{monitor="texts"} 0
    """
    metrics: list[Metric] = [
        ("windows_total", "counter", "Number of windows that were tested.", len(monitor.windows)),
        ("alarms_total", "counter", "Number of windows that have drifted from the reference.", len(monitor.alarms)),
    ]
    if monitor.windows:
        last = monitor.windows[-1]
        distance = last.value ** (1 / monitor.p)
        tested = _seconds(datetime.fromisoformat(last.time))
        metrics += [
            ("alarm", "gauge", "Whether the last window has drifted: 1 or 0.", int(last.drifted)),
            ("distance_turns", "gauge", "SSW distance of the last window from the reference, in turns.", distance),
            ("ratio", "gauge", "Cost of the last window, divided by its mean if there is no drift.", last.ratio),
            ("p_value", "gauge", "P-value of the last window alone.", last.p_value),
            ("corrected_p_value", "gauge", "P-value of the last window times the horizon.", last.adjusted_p_value),
            ("points", "gauge", "Number of points of the last window.", last.n),
            ("tested_timestamp_seconds", "gauge", "When the last window was tested.", tested),
        ]
    success = _seconds(now)
    status = _status(name, success, success=success, error=_value(previous, name, _FAILURE), failed=False)
    return _lines(metrics, name) + status


def failure_text(previous: str, name: str, *, now: datetime | None = None) -> str:
    """The metrics after an error: those of the last success, and when success and error were.

    Parameters
    ----------
    previous : str
        The text that this one will replace, empty if there is none.
    name : str
        Value of the label `monitor`.
    now : datetime, optional
        When the error was; now by default.
    """
    error = _seconds(now)
    kept = previous.partition(f"# HELP {_PREFIX}error ")[0] if previous.startswith(f"# HELP {_PREFIX}") else ""
    return kept + _status(name, error, success=_value(previous, name, _SUCCESS), error=error, failed=True)


def _status(name: str, now: float, *, success: float, error: float, failed: bool) -> str:
    metrics: list[Metric] = [
        ("error", "gauge", "Whether the last run ended with an error: 1 or 0.", int(failed)),
        (_SUCCESS, "gauge", "When the monitor last ran without an error; 0 if never.", success),
        (_FAILURE, "gauge", "When the monitor last ended with an error; 0 if never.", error),
        ("age_seconds", "gauge", "Time from the last success to the writing of this file.", now - success),
    ]
    return _lines(metrics, name)


def _lines(metrics: Sequence[Metric], name: str) -> str:
    lines = []
    for metric, kind, text, value in metrics:
        full = f"{_PREFIX}{metric}"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}", f"{_series(metric, name)}{_number(value)}"]
    return "\n".join(lines) + "\n"


def _series(metric: str, name: str) -> str:
    """What stands before the value in the line of a metric."""
    label = name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{_PREFIX}{metric}{{monitor="{label}"}} '


def _value(text: str, name: str, metric: str) -> float:
    """Value of a metric in a text, 0 if it is not there."""
    series = _series(metric, name)
    for line in text.split("\n"):
        if line.startswith(series):
            try:
                return float(line.removeprefix(series))
            except ValueError:  # somebody edited it
                break
    return 0.0


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)


def _seconds(time: datetime | None) -> float:
    return (datetime.now(UTC) if time is None else time).timestamp()
