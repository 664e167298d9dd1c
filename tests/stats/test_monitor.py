"""The drift monitor: its level over streams of windows, its history, its metrics, and bad input."""

from datetime import UTC, datetime, timedelta, timezone
from functools import cache

import numpy as np
import pytest
from helpers.kernel import needs_kernel
from scipy.stats import binom

from sphereot import Sketch, sphere
from sphereot.stats import DriftMonitor, drift_test
from sphereot.stats.prometheus import failure_text, prometheus_text

pytestmark = needs_kernel

OPTIONS = {"n_projections": 6, "bins": 32, "groups": 16}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def documents(rng, count, shift=0.0, dim=4, options=OPTIONS):
    """A sketch of documents, each with a center of its own and up to five points near it."""
    sizes = rng.integers(1, 6, count)
    centers = np.repeat(sphere.normalize(rng.normal(size=(count, dim))), sizes, axis=0)
    points = sphere.normalize(centers + 0.2 * rng.normal(size=centers.shape) + shift * np.eye(dim)[0])
    labels = np.repeat(rng.integers(2**62, size=count), sizes)
    return Sketch(dim, **options).update(points, groups=labels)


@cache
def stream():
    """A reference and four windows, of which the last has drifted."""
    rng = np.random.default_rng(1)
    return documents(rng, 200), [documents(rng, 60, shift) for shift in (0.0, 0.0, 0.0, 1.5)]


# ---- decisions ----


def test_one_window_is_a_drift_test():
    """The value is the distance of the sketches, and the p-value agrees with `drift_test` up to its simulation."""
    reference, windows = stream()
    monitor = DriftMonitor(reference, horizon=1)
    for window in windows:
        mine = monitor.check(window)
        other = drift_test(reference, [window], permutations=9999, seed=5).windows[0]
        assert mine.value == pytest.approx(reference.distance(window, p=2).cost, rel=1e-9)
        error = np.sqrt(other.p_value * (1 - other.p_value) / mine.permutations) + 1e-3
        assert abs(mine.p_value - other.p_value) < 4 * error
        assert mine.ratio == pytest.approx(other.ratio, rel=0.1)
    assert [window.drifted for window in monitor.windows] == [window.p_value <= 0.05 for window in monitor.windows]
    assert monitor.windows[3].drifted
    assert monitor.windows[3] in monitor.alarms


@pytest.mark.parametrize("part", range(2))
def test_level_over_streams(part, monkeypatch):
    """500 streams of 25 windows without drift: at most 5 % have any alarm, up to chance (1 in 1,000 per part).

    All windows of a stream share a reference, and points within documents depend on each other. The lower bound shows
    that alarms are possible: with independent tests 4.9 % would be expected.
    """
    if part > 0:
        pytest.importorskip("torch")  # where only the core is tested, one part is enough
    monkeypatch.setattr("sphereot.stats.monitor._FIRST_PERMUTATIONS", 99)
    options = {"n_projections": 3, "bins": 16, "groups": 12}
    alarms = 0
    for seed in range(250 * part, 250 * (part + 1)):
        rng = np.random.default_rng(seed)
        monitor = DriftMonitor(documents(rng, 60, options=options), horizon=25, permutations=999, seed=seed)
        alarms += any(monitor.check(documents(rng, 60, options=options)).drifted for _ in range(25))
    assert 1 <= alarms <= binom.ppf(0.999, 250, 0.05)


def test_all_permutations_only_where_needed():
    reference, windows = stream()
    monitor = DriftMonitor(reference, horizon=100)
    assert monitor.permutations == 4 * 100 / 0.05 - 1
    counts = [monitor.check(window).permutations for window in windows]
    assert counts[-1] == monitor.permutations
    assert min(counts) == 999
    assert monitor.windows[-1].adjusted_p_value == pytest.approx(100 * monitor.windows[-1].p_value)


# ---- the history ----


def test_history_goes_on(tmp_path):
    """Windows checked by several processes in turn give the file that one process writes."""
    reference, windows = stream()
    one = DriftMonitor(reference, history=tmp_path / "one.jsonl", horizon=10)
    for k, window in enumerate(windows):
        one.check(window, label=f"day {k}", time=NOON)
        other = DriftMonitor(reference, history=tmp_path / "several.jsonl", horizon=10)
        result = other.check(window, label=f"day {k}", time=NOON)
        assert result == other.windows[-1]
        assert len(other.windows) == k + 1
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "several.jsonl").read_bytes()
    read = DriftMonitor(reference, history=tmp_path / "one.jsonl", horizon=10)
    for stored, fresh in zip(read.windows, one.windows, strict=True):
        assert stored.as_record() == fresh.as_record()
        np.testing.assert_array_equal(stored.densities.window, fresh.densities.window)
        np.testing.assert_array_equal(stored.circle.frame, fresh.circle.frame)
    assert (tmp_path / "one.jsonl").stat().st_size < 4000 * (1 + len(windows))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.jsonl", "several.jsonl"]


def test_repeated_job_spends_nothing(tmp_path):
    reference, windows = stream()
    path = tmp_path / "history.jsonl"
    first = DriftMonitor(reference, history=path, horizon=10).check(windows[3], label="monday", time=NOON)
    before = path.read_bytes()
    again = DriftMonitor(reference, history=path, horizon=10).check(windows[3], label="monday")
    assert again.as_record() == first.as_record()
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="contains a window 'monday' with other points, tested 2026-03-01T12:00:00"):
        DriftMonitor(reference, history=path, horizon=10).check(windows[0], label="monday")


def test_result_depends_on_the_window_alone(tmp_path):
    """Neither the windows before nor their order change a p-value."""
    reference, windows = stream()
    forth, back = (DriftMonitor(reference, horizon=10, seed=3) for _ in range(2))
    ahead = [forth.check(window, label=str(k)).p_value for k, window in enumerate(windows)]
    behind = [back.check(windows[k], label=str(k)).p_value for k in (3, 2, 1, 0)]
    assert ahead == behind[::-1]


SETTINGS = {"alpha": 0.01, "horizon": 20, "p": 1, "permutations": 1000, "seed": 1, "statistic": "ssw"}


@pytest.mark.parametrize("name", SETTINGS)
def test_history_of_other_settings(tmp_path, name):
    reference, windows = stream()
    path = tmp_path / "history.jsonl"
    DriftMonitor(reference, history=path, horizon=10).check(windows[0])
    with pytest.raises(ValueError, match=f"was created with .*{name}="):
        DriftMonitor(reference, history=path, **{"horizon": 10, name: SETTINGS[name]})


def test_history_of_another_reference(tmp_path):
    reference, windows = stream()
    path = tmp_path / "history.jsonl"
    DriftMonitor(reference, history=path, horizon=10).check(windows[0])
    with pytest.raises(ValueError, match="belongs to another reference"):
        DriftMonitor(windows[1], history=path, horizon=10)


def test_default_labels_have_the_date():
    """Windows of one day get numbers; equal points are one window, so that a job can be repeated the day after."""
    reference, windows = stream()
    monitor = DriftMonitor(reference, horizon=10)
    late = datetime(2026, 3, 1, 23, tzinfo=timezone(timedelta(hours=-2)))  # in UTC the day after
    labels = [monitor.check(window, time=NOON).label for window in windows[:2]]
    labels += [monitor.check(windows[2], name="today", time=NOON).label, monitor.check(windows[3], time=late).label]
    assert labels == ["window 2026-03-01", "window 2026-03-01 (2)", "today 2026-03-01", "window 2026-03-02"]
    assert monitor.check(windows[1], name="today", time=late) is monitor.windows[1]
    assert len(monitor.windows) == 4


# ---- input ----


def test_messages():
    reference, _ = stream()
    with pytest.raises(TypeError, match="reference must be a Sketch with groups, got ndarray"):
        DriftMonitor(np.eye(3))
    with pytest.raises(ValueError, match="reference must be a sketch with groups"):
        DriftMonitor(Sketch(3).update(np.eye(3)))
    with pytest.raises(ValueError, match="permutations=99 is too small: with 365 windows"):
        DriftMonitor(reference, permutations=99)
    for bad in ({"alpha": 0.7}, {"horizon": 0}, {"p": 0.5}, {"seed": -1}, {"horizon": 2.5}):
        with pytest.raises((ValueError, TypeError), match=next(iter(bad))):
            DriftMonitor(reference, **bad)
    monitor = DriftMonitor(reference)
    with pytest.raises(TypeError, match="compared with a Sketch, got ndarray"):
        monitor.check(np.eye(3))
    with pytest.raises(ValueError, match="differ in bins"):
        monitor.check(Sketch(4, n_projections=6, bins=64, groups=16))
    with pytest.raises(ValueError, match="window is an empty sketch"):
        monitor.check(Sketch(4, **OPTIONS))
    small = documents(np.random.default_rng(0), 6)
    with pytest.raises(
        ValueError, match=r"only \d+ permutations of .* groups are possible, .* alpha / horizon = 0.00014"
    ):
        monitor.check(small)
    assert monitor.windows == ()
    assert monitor.summary == "No window was tested yet."


# ---- metrics ----


def test_metrics_as_prometheus_reads_them():
    parser = pytest.importorskip("prometheus_client.parser")
    reference, windows = stream()
    monitor = DriftMonitor(reference, horizon=10, p=1)
    name = 'quotes " and \\ and\nlines'
    for count, window in enumerate([None, *windows]):
        if window is not None:
            monitor.check(window, time=NOON)
        families = parser.text_string_to_metric_families(prometheus_text(monitor, name))
        samples = {sample.name: sample for family in families for sample in family.samples}
        assert all(sample.labels == {"monitor": name} for sample in samples.values())
        assert samples["sphereot_drift_windows_total"].value == count
    values = {name.removeprefix("sphereot_drift_"): sample.value for name, sample in samples.items()}
    last = monitor.windows[-1]
    assert values["alarms_total"] == 1
    assert values["alarm"] == 1
    assert values["distance_turns"] == last.value
    assert values["corrected_p_value"] == last.adjusted_p_value
    assert values["tested_timestamp_seconds"] == NOON.timestamp()


def test_metrics_after_an_error():
    """The state stays as it was, with the times of the last success and of the last error, and the age."""
    parser = pytest.importorskip("prometheus_client.parser")
    reference, windows = stream()
    monitor = DriftMonitor(reference, horizon=10)

    def values(text):
        samples = [sample for family in parser.text_string_to_metric_families(text) for sample in family.samples]
        assert len({sample.name for sample in samples}) == len(samples)
        return {sample.name.removeprefix("sphereot_drift_"): sample.value for sample in samples}

    def status(text):
        names = "error", "last_success_timestamp_seconds", "last_error_timestamp_seconds", "age_seconds"
        return tuple(values(text)[name] for name in names)

    day = timedelta(days=1)
    noon, seconds = NOON.timestamp(), day.total_seconds()
    never = failure_text("", "texts", now=NOON)
    assert status(never) == (1, 0, noon, noon)
    assert "windows_total" not in values(never)
    monitor.check(windows[3], time=NOON + day)
    good = prometheus_text(monitor, "texts", previous=never, now=NOON + day)
    assert status(good) == (0, noon + seconds, noon, 0)
    bad = failure_text(good, "texts", now=NOON + 3 * day)
    assert status(bad) == (1, noon + seconds, noon + 3 * seconds, 2 * seconds)
    assert values(bad)["alarm"] == 1
    assert status(prometheus_text(monitor, "texts", previous=bad, now=NOON + 4 * day))[:3] == (
        0, noon + 4 * seconds, noon + 3 * seconds,
    )  # fmt: skip
    assert status(failure_text("another file\n", "texts", now=NOON)) == status(never)


def test_digest_is_of_the_content():
    """Equal sketches have equal digests, however they were made; others differ."""
    points, labels = sphere.random_uniform(50, 4, seed=0), list(range(50))
    whole = Sketch(4, **OPTIONS).update(points, groups=labels)
    parts = Sketch(4, **OPTIONS).update(points[30:], groups=labels[30:]).update(points[:30], groups=labels[:30])
    assert whole.digest() == parts.digest() == Sketch.from_bytes(whole.to_bytes()).digest()
    others = [
        Sketch(4, **OPTIONS),
        Sketch(4, **OPTIONS).update(points[:49], groups=labels[:49]),
        Sketch(4, **OPTIONS | {"bins": 33}).update(points, groups=labels),
        Sketch(4, **OPTIONS, seed=1).update(points, groups=labels),
    ]
    assert len({sketch.digest() for sketch in [whole, *others]}) == 5
