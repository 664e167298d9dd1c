"""Windows of time, against the calendar of the standard library."""

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sphereot.datasets import time_windows
from sphereot.datasets.time_windows import period_labels

LABELS = {
    "hour": lambda t: t.isoformat()[:13],
    "day": lambda t: t.isoformat()[:10],
    "week": lambda t: f"{t.isocalendar().year:04}-W{t.isocalendar().week:02}",
    "month": lambda t: t.isoformat()[:7],
    "quarter": lambda t: f"{t.year:04}-Q{(t.month + 2) // 3}",
    "year": lambda t: t.isoformat()[:4],
}
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))


@pytest.mark.parametrize("every", LABELS)
@given(moments=st.lists(MOMENTS, min_size=1, max_size=20))
def test_labels_are_those_of_the_calendar(every, moments):
    expected = [LABELS[every](moment) for moment in moments]
    assert period_labels(moments, every).tolist() == expected
    assert period_labels([moment.isoformat() for moment in moments], every).tolist() == expected
    assert period_labels(np.array(moments, "datetime64[us]"), every).tolist() == expected


@pytest.mark.parametrize("every", LABELS)
@given(moments=st.lists(MOMENTS, min_size=1, max_size=20))
def test_windows_divide_the_rows_in_the_order_of_time(every, moments):
    windows = time_windows(moments, every)
    assert sorted(np.concatenate(list(windows.values())).tolist()) == list(range(len(moments)))
    ends = [(min(moments[k] for k in rows), max(moments[k] for k in rows)) for rows in windows.values()]
    assert all(before[1] < after[0] for before, after in pairwise(ends))


def test_kinds_of_times():
    """Offsets are converted to UTC; numbers count from 1970; dates and spaces are read."""
    moment = datetime(2026, 3, 2, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    seconds = int(moment.timestamp())
    times = [moment, moment.isoformat(), "2026-03-01 22:30:00.000000", "2026-03-01T22:30:00Z", "20260301"]
    times += [str(ticks * seconds) for ticks in (1, 1_000, 1_000_000)]
    times += [date(2026, 3, 1), np.datetime64("2026-03-01")]
    assert set(period_labels(times, "day").tolist()) == {"2026-03-01"}
    assert period_labels([datetime(2026, 3, 1, 22, tzinfo=UTC)], "hour").tolist() == ["2026-03-01T22"]


@pytest.mark.parametrize("ticks", [1, 1_000, 1_000_000, 1_000_000_000])
@given(moments=st.lists(st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1)), min_size=1, max_size=20))
def test_numbers_since_1970_have_the_unit_of_the_largest(ticks, moments):
    """Integers as text and as ints, also negative and near 0, beside one of this century."""
    moments = [datetime(2026, 3, 2), *(moment.replace(microsecond=0) for moment in moments)]
    counts = [ticks * ((moment - datetime(1970, 1, 1)) // timedelta(seconds=1)) for moment in moments]
    kept = [k for k, count in enumerate(counts) if len(str(count)) not in {8, 10, 13, 16, 19} or count >= 10**9 * ticks]
    expected = [moments[k].isoformat()[:13] for k in kept]
    for kind in (str, int):
        assert period_labels([kind(counts[k]) for k in kept], "hour").tolist() == expected


def test_fractions_and_negative_numbers():
    """As polars and pandas write a column of floats; a fraction before 1970 belongs to the hour before."""
    labels = ["2026-03-01T22", "2026-03-01T22", "1969-12-31T23", "1970-01-01T00"]
    times = [1772404200.25, 1772404200.0, -0.5, 0.0]
    assert period_labels(np.array(times), "hour").tolist() == labels
    assert period_labels(["1.77240420025e9", "1772404200.0", "-0.5", "0.0"], "hour").tolist() == labels
    assert period_labels(["-86400"], "day").tolist() == ["1969-12-31"]
    assert period_labels(["-86400000", "1772404200000"], "day").tolist() == ["1969-12-31", "2026-03-01"]
    assert period_labels(np.array([1772404200123456789]), "hour").tolist() == ["2026-03-01T22"]
    assert period_labels(np.array([20260301.0, 20260302.0]), "day").tolist() == ["2026-03-01", "2026-03-02"]
    assert period_labels(np.array([-86400, 0, 31536000]), "day").tolist() == ["1969-12-31", "1970-01-01", "1971-01-01"]
    # Digits of a date are a number of seconds if another number is not a date.
    assert period_labels([-86400, 19991231, 100000000], "year").tolist() == ["1969", "1970", "1973"]


def test_series_of_pandas():
    pd = pytest.importorskip("pandas")
    times = pd.Series(pd.to_datetime(["2026-03-01", "2026-03-09"]))
    assert list(time_windows(times, every="week")) == ["2026-W09", "2026-W11"]


@pytest.mark.parametrize(
    ("times", "every", "message"),
    [
        (["2026-03-01", "soon"], "day", "times must be of the years 1 to 9999, got 'soon' in row 1"),
        (["2026-03-01", None], "day", "times must not be missing, got no time in row 1"),
        (
            ["2026030112", "2026030113"],
            "day",
            "could be a date with a time or a number .*got '2026030112' in row 0",
        ),
        (["202603011230"], "day", "could be a date with a time"),
        (["20260301123000"], "day", "could be a date with a time"),
        (["20260301123"], "day", "could be a date with a time"),
        (["2026-03-01", "2026"], "day", "got '2026' in row 1"),
        ([0.5, 3.5], "day", "got 0.5 in row 0"),
        (["1e400000000"], "day", "got '1e400000000' in row 0"),
        (
            ["9999-12-31T23:59:59-01:00"],
            "day",
            "times must be of the years 1 to 9999, got '9999-12-31T23:59:59-01:00' in row 0",
        ),
        (["0001-01-01T00:00:00+01:00"], "week", "times must be of the years 1 to 9999"),
        (
            np.array(["2026-03-01", "10000-01-01"], "datetime64[D]"),
            "week",
            "times must be of the years 1 to 9999, got the year 10000 in row 1",
        ),
        (
            np.array(["0000-01-01"], "datetime64[D]"),
            "quarter",
            "times must be of the years 1 to 9999, got the year 0 in row 0",
        ),
        (["2026-03-01"], "fortnight", "every must be one of hour, day, week, .*got 'fortnight'"),
        (np.zeros((2, 2), "datetime64[s]"), "day", r"times must have shape \(n,\), got \(2, 2\)"),
    ],
)
def test_errors(times, every, message):
    with pytest.raises(ValueError, match=message):
        time_windows(times, every)
