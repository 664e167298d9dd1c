"""State of a drift monitor in the text format of Prometheus, for the textfile collector of its node exporter."""

from collections.abc import Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sphereot._support.extras import require

if TYPE_CHECKING:
    from sphereot.stats.monitor import DriftMonitor

_PREFIX = "sphereot_drift_"
_SUCCESS, _FAILURE = "last_success_timestamp_seconds", "last_error_timestamp_seconds"
_STATUS = {
    "error": "Whether the last run ended with an error: 1 or 0.",
    _SUCCESS: "When the monitor last ran without an error; 0 if never.",
    _FAILURE: "When the monitor last ended with an error; 0 if never.",
    "age_seconds": "Time from the last success to the writing of this file.",
}


def prometheus_text(monitor: "DriftMonitor", name: str, *, previous: str = "", now: datetime | None = None) -> str:
    """Return the metrics of a monitor, in the text format of Prometheus.

    `name` is the value of the label `monitor`, which distinguishes several monitors. `previous` is the text that will
    be replaced: the time of its last error is kept. `now` is the time of the success, by default the current time.

    >>> import sphereot
    >>> from sphereot.stats import DriftMonitor
    >>> from sphereot.stats.prometheus import prometheus_text
    >>> points = sphereot.sphere.random_uniform(100, 3, seed=0)
    >>> sketch = sphereot.Sketch(3, n_projections=4, bins=16, groups=16).update(points, groups=range(100))
    >>> print(prometheus_text(DriftMonitor(sketch), "texts").splitlines()[2])
    sphereot_drift_windows_total{monitor="texts"} 0.0
    """
    core = _client()
    counter, gauge = core.CounterMetricFamily, core.GaugeMetricFamily
    families = [
        _family(counter, name, "windows", "Number of windows that were tested.", len(monitor.windows)),
        _family(
            counter, name, "alarms", "Number of windows that have drifted from the reference.", len(monitor.alarms)
        ),
    ]
    if monitor.windows:
        last = monitor.windows[-1]
        distance = last.value ** (1 / monitor.p)
        tested = datetime.fromisoformat(last.time).timestamp()
        for metric, text, value in (
            ("alarm", "Whether the last window has drifted: 1 or 0.", int(last.drifted)),
            ("distance_turns", "SSW distance of the last window from the reference, in turns.", distance),
            ("ratio", "Cost of the last window, divided by its expected value without drift.", last.ratio),
            ("p_value", "P-value of the last window only.", last.p_value),
            ("corrected_p_value", "P-value of the last window times the horizon.", last.adjusted_p_value),
            ("points", "Number of points of the last window.", last.n),
            ("tested_timestamp_seconds", "When the last window was tested.", tested),
        ):
            families.append(_family(gauge, name, metric, text, value))
    error = _value(_read(previous), _FAILURE, name)
    return _text([*families, *_status(name, _seconds(now), error, failed=False)])


def failure_text(previous: str, name: str, *, now: datetime | None = None) -> str:
    """Return the metrics after an error: the metrics of the last success, and the times of the success and the error.

    `previous` is the text that will be replaced, or empty. See `prometheus_text` for the other arguments.
    """
    families = _read(previous)
    kept = [family for family in families if family.name.removeprefix(_PREFIX) not in _STATUS]
    return _text([*kept, *_status(name, _value(families, _SUCCESS, name), _seconds(now), failed=True)])


def _client() -> Any:
    require("prometheus_client", "writing metrics", extra="monitor")
    from prometheus_client import core

    return core


def _family(kind: Any, name: str, metric: str, text: str, value: float) -> Any:
    family = kind(f"{_PREFIX}{metric}", text, labels=["monitor"])
    family.add_metric([name], value)
    return family


def _status(name: str, success: float, error: float, *, failed: bool) -> list[Any]:
    """Return the metrics that say whether the last run failed, and the times of the last success and the last error."""
    values = (float(failed), success, error, error - success if failed else 0.0)
    gauge = _client().GaugeMetricFamily
    return [_family(gauge, name, *about, value) for about, value in zip(_STATUS.items(), values, strict=True)]


def _text(families: Iterable[Any]) -> str:
    from prometheus_client import generate_latest

    text: bytes = generate_latest(SimpleNamespace(collect=lambda: families))
    return text.decode()


def _read(text: str) -> list[Any]:
    """Return the metrics of monitors in a text, or none if it is not valid."""
    _client()
    from prometheus_client.parser import text_string_to_metric_families

    try:
        return [family for family in text_string_to_metric_families(text) if family.name.startswith(_PREFIX)]
    except ValueError:
        return []


def _value(families: Iterable[Any], metric: str, name: str) -> float:
    """Return the value of a metric, or 0 if it is missing."""
    samples = (sample for family in families for sample in family.samples)
    ours = (s for s in samples if s.name == _PREFIX + metric and s.labels.get("monitor") == name)
    return float(next((sample.value for sample in ours), 0.0))


def _seconds(time: datetime | None) -> float:
    return (datetime.now(UTC) if time is None else time).timestamp()
