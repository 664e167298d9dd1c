"""The file of a drift history: damage is found, nothing is lost by writers at the same time, old files are read."""

import errno
import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from functools import cache

import numpy as np
import pytest
from helpers.kernel import needs_kernel

from sphereot import Sketch, sphere
from sphereot.stats import DriftMonitor

pytestmark = needs_kernel
filelock = pytest.importorskip("filelock")

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@cache
def sketch(seed):
    shift = np.array([0.0, 0.0, 2.0 if seed == 4 else 0.0])
    points = sphere.normalize(np.random.default_rng(seed).normal(size=(200, 3)) + shift)
    return Sketch(3, n_projections=4, bins=16, groups=16).update(points, groups=range(200))


def monitor(path, **options):
    return DriftMonitor(sketch(0), history=path, horizon=10, **options)


def check(path, seed, **options):
    return monitor(path, **options).check(sketch(seed), label=f"day {seed}", time=NOON)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """The bytes of a history of four windows, the last with an alarm."""
    path = tmp_path_factory.mktemp("history") / "history.jsonl"
    for seed in range(1, 5):
        check(path, seed)
    return path.read_bytes()


@pytest.fixture
def history(tmp_path, content):
    """A file with that history."""
    (tmp_path / "history.jsonl").write_bytes(content)
    return tmp_path / "history.jsonl"


def without_checksums(history):
    """The lines of a history as sphereot 0.2 wrote them."""
    records = [json.loads(line) for line in history.read_text().splitlines()]
    for record in records:
        del record["checksum"]
    del records[0]["last"]
    return [json.dumps(record) for record in [records[0] | {"version": 1}, *records[1:]]]


def labels(path):
    return [window.label for window in monitor(path).windows]


# ---- damage ----


def test_every_flipped_bit_is_found(history):
    """Also in parts that would be read as the same numbers, such as 1e-05 and 1E-05."""
    whole = history.read_bytes()
    generator = np.random.default_rng(0)
    for position in generator.choice(8 * len(whole), size=800, replace=False):
        damaged = bytearray(whole)
        damaged[position // 8] ^= 1 << position % 8
        history.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"history\.jsonl"):
            monitor(history)
    history.write_bytes(whole)
    assert len(monitor(history).windows) == 4


def test_lost_repeated_and_moved_lines_are_found(history):
    first, *lines = history.read_text().splitlines(keepends=True)
    one, two, three, four = lines
    assert monitor(history).alarms[0].label == "day 4"
    for kept in (
        [], [one], [one, two], [one, two, three],  # cut at the end of a line
        [two, three, four], [one, three, four], [one, three, two, four], [two, one, three, four],
        [one, one, two, three, four], [one, two, three, four, four], [one, two, three, four, one],
    ):  # fmt: skip
        history.write_text("".join([first, *kept]))
        with pytest.raises(ValueError, match=r"windows are missing at the end|does not match its checksum"):
            monitor(history)


def test_a_cut_anywhere_is_found(history):
    whole = history.read_bytes()
    for size in [0, len(whole) - 1, *np.random.default_rng(0).choice(len(whole), size=50, replace=False)]:
        history.write_bytes(whole[:size])
        for call in (monitor, lambda path: check(path, 5)):
            with pytest.raises(ValueError, match=r"Restore the file|is not a drift history"):
                call(history)


def test_lines_of_another_history_are_found(history, tmp_path):
    """Windows are bound to the settings, by the first link of the chain."""
    DriftMonitor(sketch(0), history=tmp_path / "other", horizon=20).check(sketch(1), label="day 1", time=NOON)
    other = (tmp_path / "other").read_text().splitlines(keepends=True)
    history.write_text("".join([history.read_text().splitlines(keepends=True)[0], other[1]]))
    with pytest.raises(ValueError, match="line 2 does not match its checksum"):
        monitor(history)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (b"{}\n", "is not a drift history"),
        (b"\n", "is not a drift history"),
        (b"\xff\xfe binary", "is not a drift history"),
        (b'{"format": "sphereot drift history", "version": 1, "reference": 5}\n', "belongs to another reference"),
        (b'{"format": "sphereot drift history", "version": 3}\n', "must have version 1 or 2, got 3"),
        (b'{"format": "sphereot drift history", "version": 2}\n', "line 1 does not match its checksum"),
    ],
)
def test_other_files(tmp_path, other, message):
    path = tmp_path / "history.jsonl"
    path.write_bytes(other)
    with pytest.raises(ValueError, match=message):
        check(path, 1)
    assert path.read_bytes() == other


def test_a_device_is_no_history(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (os.devnull, tmp_path / "fifo"):
        with pytest.raises(ValueError, match="is not a regular file"):
            check(path, 1)


# ---- interrupted writes ----


def test_a_window_that_the_first_line_does_not_name_yet(history, tmp_path):
    """A process was killed between the two writes of an append: the window counts, and the next one completes it."""
    whole = history.read_bytes()
    before = whole.splitlines(keepends=True)[0]
    check(history, 5)
    complete = history.read_bytes()
    history.write_bytes(before + b"".join(complete.splitlines(keepends=True)[1:]))
    assert labels(history)[-1] == "day 5"
    check(history, 6)
    assert labels(history)[-2:] == ["day 5", "day 6"]
    lines = history.read_bytes().splitlines(keepends=True)
    history.write_bytes(before + b"".join(lines[1:]))
    with pytest.raises(ValueError, match="has 2 windows after the last window that line 1 names"):
        monitor(history)


@pytest.mark.parametrize("torn", [b'{"checksum": "12', b"\0" * 5000])
def test_a_torn_line_was_never_reported(history, torn):
    whole = history.read_bytes()
    history.write_bytes(whole + torn)
    assert len(monitor(history).windows) == 4
    check(history, 5)
    assert history.read_bytes().startswith(whole[-200:], len(whole) - 200)
    assert labels(history) == [f"day {seed}" for seed in range(1, 6)]


@pytest.mark.parametrize("exists", [True, False])
def test_a_full_disk_leaves_the_history_as_it_was(history, tmp_path, monkeypatch, exists):
    path = history if exists else tmp_path / "new.jsonl"
    before = history.read_bytes()

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    watching = monitor(path)
    known = watching.windows
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left") as raised:
            watching.check(sketch(5), label="day 5")
    assert len(watching.windows) == len(known)
    assert raised.value.filename == str(path)
    assert history.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["history.jsonl"]
    check(path, 5)
    assert labels(path)[-1] == "day 5"


# ---- histories of sphereot 0.2 ----


def test_a_history_without_checksums_is_read_and_gets_them(history):
    expected = history.read_bytes()
    old = "".join(f"{line}\n" for line in without_checksums(history)[:4])
    history.write_text(old)
    assert labels(history) == ["day 1", "day 2", "day 3"]
    assert "without checksums" in monitor(history).verify()
    check(history, 3)
    assert history.read_text() == old
    os.link(history, history.with_name("second"))
    with pytest.raises(ValueError, match="with 2 names"):
        check(history, 4)
    history.with_name("second").unlink()
    check(history, 4)
    assert history.read_bytes() == expected
    assert monitor(history).verify() == "4 windows: all checksums and fields are right."


BAD_FIELDS = [
    {"drifted": "no"}, {"drifted": 0}, {"drifted": True}, {"p_value": 7}, {"p_value": -3}, {"p_value": 0},
    {"p_value": True}, {"p_value": 1e-4}, {"adjusted_p_value": 5.0}, {"adjusted_p_value": 0.5}, {"points": -5},
    {"points": 0}, {"points": 1.5}, {"points": "5"}, {"points": True}, {"permutations": 0}, {"permutations": "999"},
    {"value": -0.1}, {"value": "high"}, {"value": float("nan")}, {"value": 10**400}, {"ratio": 3.0}, {"null_mean": -1},
    {"null_deviation": -1}, {"band": [1]}, {"band": None}, {"band": [2, 1]}, {"circle": {"index": 99}}, {"circle": 5},
    {"densities": {"reference": [1.0], "window": [1.0, 2.0], "bandwidth": 1.0}}, {"digest": "x"}, {"digest": None},
    {"densities": {"reference": [], "window": [], "bandwidth": 1.0}}, {"time": "noon"}, {"time": 5}, {"label": 5},
    {"densities": {"reference": ["1"], "window": [1.0], "bandwidth": 1.0}}, {"label": "a\nb"}, {"label": "day 1"},
    {"more": 1}, {"checksum": "0123456789abcdef"},
]  # fmt: skip


@pytest.mark.parametrize("change", BAD_FIELDS, ids=str)
def test_fields_without_checksums(history, change):
    """Every field is checked, also where no checksum protects it."""
    lines = without_checksums(history)
    record = json.loads(lines[2])
    assert record["adjusted_p_value"] > 0.5
    history.write_text("\n".join([*lines[:2], json.dumps(record | change), *lines[3:]]))
    with pytest.raises(ValueError, match="line 3 is not the result of a window"):
        monitor(history)


@pytest.mark.parametrize("field", ["label", "p_value", "circle", "digest", "ratio"])
def test_missing_fields(history, field):
    lines = without_checksums(history)
    record = json.loads(lines[1])
    del record[field]
    for line in (json.dumps(record), "{}", lines[1][:200], "[" * 100_000):
        history.write_text(f"{lines[0]}\n{line}\n")
        with pytest.raises(ValueError, match="line 2 is not"):
            monitor(history)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda path: monitor(path).check(sketch(1), time=datetime(1, 1, 1)), ValueError, "year"),
        (lambda path: monitor(path).verify(), FileNotFoundError, r"history\.jsonl"),
        (lambda path: monitor(None).verify(), ValueError, "This monitor has no history"),
        (lambda path: monitor(path, wait=-1), ValueError, r"wait: .*, got -1"),
    ],
)
def test_bad_calls_write_nothing(tmp_path, call, error, message):
    with pytest.raises(error, match=message):
        call(tmp_path / "history.jsonl")
    assert not any(tmp_path.iterdir())


# ---- several writers ----

WRITER = """
import sys
import numpy as np
from sphereot import Sketch
from sphereot.stats import DriftMonitor
reference, history, *windows = sys.argv[1:]
monitor = DriftMonitor(Sketch.load(reference), history=history, horizon=10)
print("ready", flush=True)
sys.stdin.readline()
for window in windows:
    monitor.check(Sketch.load(window), label=window[-10:])
"""


@pytest.mark.parametrize("exists", [True, False])
def test_processes_through_links(tmp_path, exists):
    """A symbolic link, and a hard link if the file is there, in other folders: no window is lost."""
    for folder in ("data", "soft", "hard"):
        (tmp_path / folder).mkdir()
    names = [tmp_path / folder / "h.jsonl" for folder in ("data", "soft", "hard")]
    names[1].symlink_to(names[0])
    if exists:
        check(names[0], 1)
        os.link(names[0], names[2])
    else:
        names[2].symlink_to(os.path.join("..", "soft", "h.jsonl"))
    sketch(0).save(tmp_path / "reference")
    files = [[sketch(10 * k + j).save(tmp_path / f"window{10 * k + j:04}") for j in range(6)] for k in (1, 2, 3)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path / "reference", name, *windows],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name, windows in zip(names, files, strict=True)
    ]  # fmt: skip
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 3
    for process in processes:
        process.communicate("go\n", timeout=100)
        assert process.returncode == 0
    expected = {file.name for windows in files for file in windows} | ({"day 1"} if exists else set())
    for name in names:
        assert sorted(labels(name)) == sorted(expected)
    assert [path.name for folder in ("data", "soft", "hard") for path in (tmp_path / folder).iterdir()] == 3 * [
        "h.jsonl"
    ]


@pytest.mark.parametrize("exists", [True, False])
def test_threads_through_links(tmp_path, exists):
    names = [tmp_path / name for name in ("h.jsonl", "soft.jsonl", "hard.jsonl")]
    names[1].symlink_to("h.jsonl")
    if exists:
        check(names[0], 1)
        os.link(names[0], names[2])
    else:
        names[2].symlink_to("soft.jsonl")
    seeds, errors = range(10, 22), []
    for seed in seeds:
        sketch(seed)
    barrier = threading.Barrier(len(seeds))

    def work(seed):
        barrier.wait()
        try:
            check(names[seed % 3], seed)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    expected = {f"day {seed}" for seed in seeds} | ({"day 1"} if exists else set())
    assert sorted(labels(names[0])) == sorted(expected)


def test_one_window_tested_by_two_at_the_same_time(history, monkeypatch):
    """The second finds the result of the first when it has the lock."""
    first, second = monitor(history), monitor(history)
    tested = second._test_window

    def slow(*arguments):
        first.check(sketch(5), time=NOON)
        return tested(*arguments)

    monkeypatch.setattr(second, "_test_window", slow)
    assert second.check(sketch(5), time=NOON).label == "window 2026-03-01"
    assert len(monitor(history).windows) == 5


def test_a_second_writer_waits(history):
    handle = os.open(history, os.O_RDWR)
    assert filelock.lock_descriptor(handle, blocking=False)
    with pytest.raises(ValueError, match=r"held the lock of this history for more than 0.1 seconds.*--wait"):
        check(history, 5, wait=0.1)
    timer = threading.Timer(0.3, os.close, [handle])
    timer.start()
    check(history, 5, wait=30)
    timer.join()
    assert labels(history)[-1] == "day 5"


def test_a_file_system_without_locks(history, monkeypatch):
    def none(handle, *, blocking):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock, "lock_descriptor", none)
    with pytest.warns(RuntimeWarning, match="the file system cannot lock this file.*Run one process at a time"):
        check(history, 5)
    with pytest.warns(RuntimeWarning, match="cannot lock"):
        assert labels(history)[-1] == "day 5"


def test_a_history_that_nobody_may_write_is_read(history):
    history.chmod(0o444)
    assert len(monitor(history).windows) == 4
    assert monitor(history).verify().startswith("4 windows: all checksums")
