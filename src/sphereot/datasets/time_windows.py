"""Windows of time: divide rows by hours, days, weeks, months, quarters or years."""

import math
from collections.abc import Collection, Iterable
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime
from decimal import Decimal, InvalidOperation
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from sphereot._arrays.types import SupportsArray

Period = Literal["hour", "day", "week", "month", "quarter", "year"]
_PERIODS: tuple[str, ...] = get_args(Period)

_TICKS = {10: 1, 13: 1_000, 16: 1_000_000, 19: 1_000_000_000}  # digits of times from 2001 to 2286: ticks per second
_DIGITS_OF_DATE = 8  # of 20260301
_FIRST_YEAR, _LAST_YEAR = 1900, 2100  # of digits that could be a date


def time_windows(
    times: SupportsArray | Iterable[str | date | np.datetime64], every: Period = "week"
) -> dict[str, np.ndarray[Any, Any]]:
    """Divide rows by hours, days, weeks, months, quarters or years.

    Parameters
    ----------
    times : array of datetime64, or sequence of datetime, date or str
        One time per row, of the years 1 to 9999. Text must be ISO 8601 ("2026-03-01", "2026-03-01T12:30:00+02:00").
        Times with an offset are converted to UTC. Numbers, also as text, are seconds, milliseconds, microseconds or
        nanoseconds since 1970. Numbers of the years 2001 to 2286 have 10, 13, 16 or 19 digits. Other numbers, such as
        negative ones and fractions, have the unit of the largest number: seconds up to 10 digits, milliseconds up to
        13, and so on. Numbers are dates if all of them have eight digits, such as 20260301. Digits that could also be a
        date with a time, such as 2026030112, raise an error.
    every : {"hour", "day", "week", "month", "quarter", "year"}, default "week"
        Length of a window. Weeks begin on Monday, and have the numbers of ISO 8601.

    Returns
    -------
    dict of str to int array
        Row indices by the name of the window, in the order of time. Windows without rows are left out.

    Examples
    --------
    >>> from sphereot.datasets import time_windows
    >>> time_windows(["2026-03-01", "2026-03-02T08:00", "2026-03-05"], every="week")
    {'2026-W09': array([0]), '2026-W10': array([1, 2])}
    """
    labels, inverse = np.unique(period_labels(times, every), return_inverse=True)
    return {str(label): np.flatnonzero(inverse == k) for k, label in enumerate(labels)}


def period_labels(times: Any, every: str) -> np.ndarray[Any, Any]:
    """Return the name of the period of every time, as text that sorts in the order of time."""
    if every not in _PERIODS:
        raise ValueError(f"every must be one of {', '.join(_PERIODS)}, got {every!r}.")
    moments = _as_moments(times)
    if every == "week":
        days, inverse = np.unique(moments.astype("datetime64[D]"), return_inverse=True)
        weeks = [day.isocalendar() for day in days.tolist()]
        return np.array([f"{week.year:04}-W{week.week:02}" for week in weeks])[inverse]
    if every == "quarter":
        months = moments.astype("datetime64[M]").astype(np.int64)
        quarters, inverse = np.unique(months // 3, return_inverse=True)
        return np.array([f"{1970 + q // 4:04}-Q{q % 4 + 1}" for q in quarters.tolist()])[inverse]
    unit = {"hour": "h", "day": "D", "month": "M", "year": "Y"}[every]
    return np.datetime_as_string(moments.astype(f"datetime64[{unit}]"))


def _as_moments(times: Any) -> np.ndarray[Any, Any]:
    """Convert times to an array of datetime64 in UTC, of the years 1 to 9999."""
    given = np.asarray(times) if hasattr(times, "__array__") else np.asarray(list(times), dtype=object)
    if given.ndim != 1:
        raise ValueError(f"times must have shape (n,), got {given.shape}.")
    if not np.issubdtype(given.dtype, np.datetime64):
        values = given.tolist()
        moments = dict.fromkeys(values)
        counts = {value: count for value in moments if (count := _as_count(value)) is not None}
        are_dates = all(len(_digits(counts[value])) == _DIGITS_OF_DATE for value in counts if isinstance(value, Real))
        for value in [*counts]:  # numbers of eight digits are dates if all numbers are
            if len(_digits(counts[value])) == _DIGITS_OF_DATE and (are_dates or isinstance(value, str)):
                del counts[value]
        if counts and all(_begins_with_date(count) for count in counts.values()):
            value = next(iter(counts))
            raise ValueError(
                "times must not be digits that could be a date with a time or a number of seconds since 1970, got "
                f"{value!r} in row {values.index(value)}. Write it as 2026-03-01T12:30:00."
            )
        ticks = _ticks_per_second(counts.values())
        for value in moments:
            try:
                moments[value] = _as_moment(value, counts.get(value), ticks)
            except (ValueError, OverflowError) as error:
                raise ValueError(
                    f"times must be of the years 1 to 9999, got {value!r} in row {values.index(value)}. Write it as "
                    "2026-03-01 or 2026-03-01T12:30:00."
                ) from error
        given = np.array([moments[value] for value in values], dtype="datetime64[us]")
    missing = np.flatnonzero(np.isnat(given))
    if missing.size:
        raise ValueError(f"times must not be missing, got no time in row {missing[0]}. Leave out such rows first.")
    years = given.astype("datetime64[Y]").astype(np.int64) + 1970
    outside = np.flatnonzero((years < MINYEAR) | (years > MAXYEAR))
    if outside.size:  # names of windows sort in the order of time only if all years have four digits
        row = int(outside[0])
        raise ValueError(f"times must be of the years 1 to 9999, got the year {years[row]} in row {row}.")
    return given


def _as_count(value: Any) -> Decimal | None:
    """Return a number, such as a time since 1970 in an unknown unit; None for other values."""
    if isinstance(value, np.datetime64 | date) or value is None or value != value:
        return None
    try:
        count = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return count if count.is_finite() and count.adjusted() < max(_TICKS) else None


def _digits(count: Decimal) -> str:
    """Return the digits of a nonnegative integer, also of 20260301.0, and no digits for other numbers."""
    return str(int(count)) if count >= 0 and count == int(count) else ""


def _begins_with_date(count: Decimal) -> bool:
    digits = _digits(count)
    try:
        day = date.fromisoformat(digits[:_DIGITS_OF_DATE])
    except ValueError:
        return False
    return len(digits) > _DIGITS_OF_DATE and _FIRST_YEAR <= day.year <= _LAST_YEAR


def _ticks_per_second(counts: Collection[Decimal]) -> int | None:
    """Return the unit of times since 1970, from the largest time; None if that could be a year or an index."""
    smallest, largest = min(counts, default=Decimal(0)), max(map(abs, counts), default=Decimal(0))
    if smallest >= 0 and largest.adjusted() + 1 < min(_TICKS):
        return None
    return next(ticks for digits, ticks in _TICKS.items() if largest.adjusted() < digits)


def _as_moment(value: Any, count: Decimal | None, ticks: int | None) -> np.datetime64:
    if isinstance(value, np.datetime64) or value is None or value != value:
        return np.datetime64("NaT") if value is None or value != value else value
    if count is not None:
        ticks = _TICKS.get(len(_digits(count)), ticks)  # a column may mix units
        if ticks is None:
            raise ValueError
        return np.datetime64(math.floor(count * 1_000_000 / ticks), "us")
    text = str(value).strip().removesuffix(".0")  # dates as numbers are floats in a column with missing values
    moment = value if isinstance(value, date) else datetime.fromisoformat(text)
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(moment, "us")
