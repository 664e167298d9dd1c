"""State of a drift monitor in the text format of Prometheus, for the textfile collector of its node exporter."""

from collections.abc import Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sphereot._support.extras import require

if TYPE_CHECKING:
    from sphereot.stats.monitor import DriftMonitor

_PREFIX = "sphereot_drift_"
_SUCCESS, _FAILURE = f"{_PREFIX}last_success_timestamp_seconds", f"{_PREFIX}last_error_timestamp_seconds"
_STATUS = {
    f"{_PREFIX}error": "Whether the last run ended with an error: 1 or 0.",
    _SUCCESS: "When the monitor last ran without an error; 0 if never.",
    _FAILURE: "When the monitor last ended with an error; 0 if never.",
    f"{_PREFIX}age_seconds": "Time from the last success to the writing of this file.",
}


def prometheus_text(monitor: "DriftMonitor", name: str, *, previous: str = "", now: datetime | None = None) -> str:
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
    sphereot_drift_windows_total{monitor="texts"} 0.0
    """
    core = _client()
    counters = {
        "windows": ("Number of windows that were tested.", len(monitor.windows)),
        "alarms": ("Number of windows that have drifted from the reference.", len(monitor.alarms)),
    }
    gauges: dict[str, tuple[str, float]] = {}
    if monitor.windows:
        last = monitor.windows[-1]
        distance = last.value ** (1 / monitor.p)
        tested = datetime.fromisoformat(last.time).timestamp()
        gauges = {
            "alarm": ("Whether the last window has drifted: 1 or 0.", int(last.drifted)),
            "distance_turns": ("SSW distance of the last window from the reference, in turns.", distance),
            "ratio": ("Cost of the last window, divided by its mean if there is no drift.", last.ratio),
            "p_value": ("P-value of the last window alone.", last.p_value),
            "corrected_p_value": ("P-value of the last window times the horizon.", last.adjusted_p_value),
            "points": ("Number of points of the last window.", last.n),
            "tested_timestamp_seconds": ("When the last window was tested.", tested),
        }
    families = [
        _family(core.CounterMetricFamily if metric in counters else core.GaugeMetricFamily, metric, text, value, name)
        for metric, (text, value) in (counters | gauges).items()
    ]
    success = _seconds(now)
    return _text([*families, *_status(name, success, _value(_read(previous), _FAILURE, name), failed=False)])


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
    families, error = _read(previous), _seconds(now)
    kept = [family for family in families if family.name not in _STATUS]
    return _text([*kept, *_status(name, _value(families, _SUCCESS, name), error, failed=True)])


def _client() -> Any:
    require("prometheus_client", "writing metrics", extra="monitor")
    from prometheus_client import core

    return core


def _family(kind: Any, metric: str, text: str, value: float, name: str) -> Any:
    family = kind(f"{_PREFIX}{metric}", text, labels=["monitor"])
    family.add_metric([name], value)
    return family


def _status(name: str, success: float, error: float, *, failed: bool) -> list[Any]:
    """Whether the last run failed, and when the last success and the last error were; one of both is now."""
    values = (float(failed), success, error, error - success if failed else 0.0)
    gauge = _client().GaugeMetricFamily
    return [
        _family(gauge, metric.removeprefix(_PREFIX), text, value, name)
        for (metric, text), value in zip(_STATUS.items(), values, strict=True)
    ]


def _text(families: Iterable[Any]) -> str:
    from prometheus_client import generate_latest

    text: bytes = generate_latest(SimpleNamespace(collect=lambda: families))
    return text.decode()


def _read(text: str) -> list[Any]:
    """The metrics of a monitor in a text; none if somebody edited it."""
    _client()
    from prometheus_client.parser import text_string_to_metric_families

    try:
        return [family for family in text_string_to_metric_families(text) if family.name.startswith(_PREFIX)]
    except ValueError:
        return []


def _value(families: Iterable[Any], metric: str, name: str) -> float:
    """Value of a metric, 0 if it is not there."""
    for family in families:
        for sample in family.samples:
            if sample.name == metric and sample.labels.get("monitor") == name:
                return float(sample.value)
    return 0.0


def _seconds(time: datetime | None) -> float:
    return (datetime.now(UTC) if time is None else time).timestamp()
