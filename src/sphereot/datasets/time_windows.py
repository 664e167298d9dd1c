"""Windows of time: which rows belong to which hour, day, week, month or year."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any, Literal, get_args

import numpy as np

from sphereot._arrays.types import SupportsArray

__all__ = ["Period", "period_labels", "time_windows"]

Period = Literal["hour", "day", "week", "month", "quarter", "year"]
_PERIODS: tuple[str, ...] = get_args(Period)

_EPOCH_WEEKDAY = 3  # 1970-01-01 was a Thursday
_EPOCH_DIGITS = {10: 1, 13: 1_000, 16: 1_000_000}  # length of the number: ticks per second


def time_windows(
    times: SupportsArray | Iterable[str | date | np.datetime64], every: Period = "week"
) -> dict[str, np.ndarray[Any, Any]]:
    """Divide rows by the calendar: the rows of each hour, day, week, month, quarter or year.

    Parameters
    ----------
    times : array of datetime64, or sequence of datetime, date or str
        One time per row. Text is ISO 8601 ("2026-03-01", "2026-03-01T12:30:00+02:00"), or the number of seconds,
        milliseconds or microseconds since 1970. Times with an offset are converted to UTC.
    every : {"hour", "day", "week", "month", "quarter", "year"}
        The length of a window. Weeks begin on Monday, and have the numbers of ISO 8601.

    Returns
    -------
    dict of str to int array
        The indices of the rows of each window, in the order of time; windows without rows are left out.

    Examples
    --------
    >>> from sphereot.datasets import time_windows
    >>> time_windows(["2026-03-01", "2026-03-02T08:00", "2026-03-05"], every="week")
    {'2026-W09': array([0]), '2026-W10': array([1, 2])}
    """
    labels, inverse = np.unique(period_labels(times, every), return_inverse=True)
    return {str(label): np.flatnonzero(inverse == k) for k, label in enumerate(labels)}


def period_labels(times: Any, every: str) -> np.ndarray[Any, Any]:
    """The name of the period of every time, as text that sorts in the order of time."""
    if every not in _PERIODS:
        raise ValueError(f"every: got {every!r}; give one of {', '.join(_PERIODS)}.")
    moments = _as_moments(times)
    if every == "week":
        days = moments.astype("datetime64[D]")
        index = (days.astype(np.int64) + _EPOCH_WEEKDAY) // 7
        starts, inverse = np.unique(index, return_inverse=True)
        names = []
        for start in starts:
            iso = (np.datetime64(0, "D") + int(start) * 7 - _EPOCH_WEEKDAY).item().isocalendar()
            names.append(f"{iso.year:04}-W{iso.week:02}")
        return np.array(names)[inverse]
    if every == "quarter":
        months = moments.astype("datetime64[M]").astype(np.int64)
        quarters, inverse = np.unique(months // 3, return_inverse=True)
        return np.array([f"{1970 + q // 4}-Q{q % 4 + 1}" for q in quarters.tolist()])[inverse]
    unit = {"hour": "h", "day": "D", "month": "M", "year": "Y"}[every]
    return np.datetime_as_string(moments.astype(f"datetime64[{unit}]"))


def _as_moments(times: Any) -> np.ndarray[Any, Any]:
    """Times as an array of datetime64 in UTC."""
    given = np.asarray(times) if hasattr(times, "__array__") else np.asarray(list(times), dtype=object)
    if given.ndim != 1:
        raise ValueError(f"times: got shape {given.shape}, but one time per row is needed.")
    if not np.issubdtype(given.dtype, np.datetime64):
        distinct: dict[Any, np.datetime64] = {}
        for row, value in enumerate(given.tolist()):
            if value not in distinct:
                distinct[value] = _as_moment(value, row)
        given = np.array([distinct[value] for value in given.tolist()], dtype="datetime64[us]")
    missing = np.flatnonzero(np.isnat(given))
    if missing.size:
        raise ValueError(f"times: row {missing[0]} has no time; leave such rows out first.")
    return given


def _as_moment(value: Any, row: int) -> np.datetime64:
    if isinstance(value, np.datetime64) or value is None or value != value:
        return np.datetime64("NaT") if value is None or value != value else value
    try:
        moment = value if isinstance(value, date) else _parsed(str(value).strip())
    except ValueError as error:
        raise ValueError(
            f"times: row {row} holds {value!r}, which is no time; write it as 2026-03-01 or 2026-03-01T12:30:00."
        ) from error
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(moment, "us")


def _parsed(text: str) -> date:
    ticks = _EPOCH_DIGITS.get(len(text)) if text.isdecimal() else None
    return datetime.fromisoformat(text) if ticks is None else datetime.fromtimestamp(int(text) / ticks, tz=UTC)
