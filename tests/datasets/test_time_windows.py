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
    "hour": lambda t: t.strftime("%Y-%m-%dT%H"),
    "day": lambda t: t.strftime("%Y-%m-%d"),
    "week": lambda t: f"{t.isocalendar().year:04}-W{t.isocalendar().week:02}",
    "month": lambda t: t.strftime("%Y-%m"),
    "quarter": lambda t: f"{t.year}-Q{(t.month + 2) // 3}",
    "year": lambda t: t.strftime("%Y"),
}
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))


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


def test_series_of_pandas():
    pd = pytest.importorskip("pandas")
    times = pd.Series(pd.to_datetime(["2026-03-01", "2026-03-09"]))
    assert list(time_windows(times, every="week")) == ["2026-W09", "2026-W11"]


@pytest.mark.parametrize(
    ("times", "every", "message"),
    [
        (["2026-03-01", "soon"], "day", "times: row 1 holds 'soon', which is no time; write it as 2026-03-01"),
        (["2026-03-01", None], "day", "times: row 1 has no time"),
        (["2026-03-01"], "fortnight", "every: got 'fortnight'; give one of hour, day, week"),
        (np.zeros((2, 2), "datetime64[s]"), "day", r"times: got shape \(2, 2\)"),
    ],
)
def test_errors(times, every, message):
    with pytest.raises(ValueError, match=message):
        time_windows(times, every)
