"""State of a drift monitor in the text format of Prometheus, for the textfile collector of its node exporter."""

import math
from datetime import datetime

from sphereot.stats.monitor import DriftMonitor

__all__ = ["prometheus_text"]


def prometheus_text(monitor: DriftMonitor, name: str) -> str:
    r"""Metrics of a monitor, in the text exposition format of Prometheus.

    Parameters
    ----------
    monitor : DriftMonitor
        With at least one window, or only the counters are given.
    name : str
        Value of the label `monitor`, which tells several monitors apart.

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
    metrics: list[tuple[str, str, str, float]] = [
        ("windows_total", "counter", "Number of windows that were tested.", len(monitor.windows)),
        ("alarms_total", "counter", "Number of windows that have drifted from the reference.", len(monitor.alarms)),
    ]
    if monitor.windows:
        last = monitor.windows[-1]
        distance = last.value ** (1 / monitor.p)
        metrics += [
            ("alarm", "gauge", "Whether the last window has drifted: 1 or 0.", int(last.drifted)),
            ("distance_turns", "gauge", "SSW distance of the last window from the reference, in turns.", distance),
            ("ratio", "gauge", "Cost of the last window, divided by its mean if there is no drift.", last.ratio),
            ("p_value", "gauge", "P-value of the last window alone.", last.p_value),
            ("corrected_p_value", "gauge", "P-value of the last window times the horizon.", last.adjusted_p_value),
            ("points", "gauge", "Number of points of the last window.", last.n),
            ("tested_timestamp_seconds", "gauge", "When the last window was tested.", _seconds(last.time)),
        ]
    label = name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    lines = []
    for metric, kind, text, value in metrics:
        full = f"sphereot_drift_{metric}"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}", f'{full}{{monitor="{label}"}} {_number(value)}']
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:  # a history that somebody edited
        return math.nan
