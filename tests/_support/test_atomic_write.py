"""Atomic file writing: through links, to streams, after errors; lock files; checkpoints."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest

from sphereot._support.atomic_write import hold_lock, is_stream, remove_leftovers, write_aside, write_text
from sphereot._support.checkpoints import StateFile, digest, require_same_work


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# ---- links, streams, modes ----


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "page.html", tmp_path / "link.html"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert names(tmp_path / "there") == ["page.html"]


def test_a_dangling_link_is_followed_too(tmp_path):
    link = tmp_path / "link.html"
    link.symlink_to("new/folder/page.html")
    write_text(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "new" / "folder" / "page.html").read_text() == "new"


def test_a_file_keeps_its_mode(tmp_path):
    target = tmp_path / "private"
    target.write_text("old")
    target.chmod(0o640)
    write_text(target, "new")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_pipe_gets_the_content_and_stays_a_pipe(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write_text(pipe, "all of it")
    assert pipe.is_fifo()
    reader.join(timeout=10)
    assert got == ["all of it"]
    assert names(tmp_path) == ["pipe"]


def test_a_device_stays_a_device(tmp_path):
    """On a node of its own, so that a failure leaves that of the system alone."""
    node = tmp_path / "null"
    try:
        os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        node.write_text("")
    except OSError:
        pytest.skip("making devices is not allowed here")
    write_text(node, "lost")
    assert node.is_char_device()
    link = tmp_path / "link"
    link.symlink_to(node)
    write_text(link, "lost")
    assert link.is_symlink()
    assert node.is_char_device()
    assert is_stream(link)


def test_no_room_is_told_with_the_name_of_the_target(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    link = tmp_path / "page.html"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device.*page\.html") as caught:
        write_text(link, "too much")
    assert caught.value.errno == errno.ENOSPC
    assert link.is_char_device()


def test_a_folder_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(IsADirectoryError, match=str(tmp_path)), write_aside(tmp_path):
        pytest.fail("the work was begun")


def test_long_names_leave_room_for_the_file_aside(tmp_path):
    write_text(tmp_path / ("x" * 250), "all")
    write_text(tmp_path / ("é" * 125), "all")
    assert len(names(tmp_path)) == 2


def test_leftovers_are_removed_and_files_of_other_people_are_not(tmp_path):
    for name in (".state.abcd_123", ".state.bak", ".state.abcd_1234", "state.abcd_123"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "state")
    assert names(tmp_path) == [".state.abcd_1234", ".state.bak", "state.abcd_123"]


# ---- locks ----


def test_a_lock_is_held_once_and_ends_with_its_process(tmp_path):
    lock = tmp_path / "lock"
    holder = "import sys, os\nfrom pathlib import Path\nfrom sphereot._support.atomic_write import hold_lock\n"
    holder += "with hold_lock(Path(sys.argv[1]), 'taken'):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    with subprocess.Popen(
        [sys.executable, "-c", holder, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="taken"), hold_lock(lock, "taken"):
            pytest.fail("two at once")
        process.kill()
    assert lock.exists()  # what a kill leaves
    with hold_lock(lock, "taken"):
        assert lock.exists()
    assert not lock.exists()


def test_a_lock_file_that_was_removed_meanwhile_is_made_anew(tmp_path, monkeypatch):
    """The run before ends between the opening of its lock file and the lock on it."""
    lock, flock, removed = tmp_path / "lock", fcntl.flock, []

    def slow(handle, operation):
        if not removed:
            removed.append(lock.unlink())
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", slow)
    with hold_lock(lock, "taken"), pytest.raises(ValueError, match="taken"), hold_lock(lock, "taken"):
        pytest.fail("two at once")


# ---- states ----


@pytest.fixture
def state(tmp_path):
    torch = pytest.importorskip("torch")
    file = tmp_path / "model.unfinished"
    StateFile(file, every=0.0).save(lambda: {"step": 3, "x": torch.arange(50.0)})
    return file


def test_a_state_comes_back(state):
    assert StateFile(state).load()["step"] == 3
    assert StateFile(state, owner="another").load() is None


def test_damaged_states_are_named_or_read_unchanged(state, rng):
    """Truncations and flipped bytes anywhere: one message with the name, or the state as it was."""
    whole = state.read_bytes()
    expected = StateFile(state).load()
    damaged = [whole[:size] for size in rng.integers(0, len(whole), 60)]
    for place in rng.integers(0, len(whole), 200):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    refused = 0
    for content in [b"", b"\0" * 100, b"PK\x05\x06" + b"\0" * 18, *damaged]:
        state.write_bytes(content)
        try:
            held = StateFile(state).load()
        except ValueError as error:
            assert str(error).startswith(f"{state}: is not a state")
            assert "remove the file" in str(error)
            assert "\n" not in str(error)
            refused += 1
        else:
            assert held["step"] == 3
            assert held["x"].equal(expected["x"])
    assert refused > 150


def test_a_state_that_unpacks_to_more_than_it_is_is_refused(state, tmp_path):
    bomb = tmp_path / "bomb.unfinished"
    with zipfile.ZipFile(state) as plain, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in plain.infolist():
            packed.writestr(entry.filename, plain.read(entry) + b"\0" * 10**6 * entry.filename.endswith("data/0"))
    with pytest.raises(ValueError, match=r"bomb\.unfinished.*larger than the file"):
        StateFile(bomb).load()


def test_a_state_without_room_warns_once_and_is_tried_again(tmp_path):
    torch = pytest.importorskip("torch")
    file = tmp_path / "state"
    file.mkdir()  # a file cannot be written there, even by the superuser
    store = StateFile(file, every=0.0)
    with pytest.warns(RuntimeWarning, match=r"state: the state cannot be written \(Is a directory\)"):
        store.save(lambda: {"x": torch.zeros(2)})
    store.save(lambda: {"x": torch.zeros(2)})  # a second warning would be an error here
    file.rmdir()
    store.save(lambda: {"step": 3})
    assert StateFile(file).load() == {"step": 3}
    assert names(tmp_path) == ["state"]


def test_what_differs_between_two_works_is_told():
    x = np.arange(6.0)
    one = {"data": digest(x), "lr": 0.1, "seed": 0}
    require_same_work("file", dict(one), one)
    with pytest.raises(ValueError, match=r"file: .*\(other data; seed was 0, now 7\)"):
        require_same_work("file", one, one | {"data": digest(x + 1), "seed": 7})
    with pytest.raises(ValueError, match=r"\(patience was None, now 5\)"):
        require_same_work("file", one, one | {"patience": 5})
    with pytest.raises(ValueError, match="settings of the unfinished work are missing"):
        require_same_work("file", None, one)
    assert len({digest(x), digest(x.astype("f4")), digest(x.reshape(2, 3)), digest(x[::-1])}) == 4
