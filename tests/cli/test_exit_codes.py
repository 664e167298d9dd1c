"""Exit codes: 3 means that `drift` has found drift; an error is 2, with one line that says why; 1 is left to Python."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.absent_modules import without
from helpers.generators import sphere_sample
from helpers.processes import MODULE, start

pytest.importorskip("typer")

from helpers.cli import run, save_points
from typer.main import get_command

import sphereot
from sphereot.cli import build_app

X = sphere_sample(np.random.default_rng(0), 40, 3)
SCRIPT = [str(Path(sys.executable).with_name("sphereot"))]
DRIFT = ["drift", "a.npy", "a.npy", "--permutations", "19", "--projections", "4"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return save_points(tmp_path, {"a": X})


def is_one_line(done):
    return done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1 and done.stdout == ""


@pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SPHEREOT_NUM_THREADS", ""),
        ("SPHEREOT_NUM_THREADS", "many"),
        ("SPHEREOT_NUM_THREADS", "0"),
        ("SPHEREOT_NUM_THREADS", "9" * 5000),
        ("SPHEREOT_KERNEL", ""),
        ("SPHEREOT_KERNEL", "mmx"),
    ],
)
def test_bad_environment(folder, command, variable, value):
    """The package cannot be imported, and Python says why in the last line."""
    if not Path(command[0]).exists():
        pytest.skip("the command is not installed beside this Python")
    done = start(*command, *DRIFT, env={**os.environ, variable: value})
    assert done.returncode == 1
    assert done.stdout == ""
    assert variable in done.stderr.splitlines()[-1]


def test_import_installs_no_hook():
    code = "import sys; before = sys.excepthook; import sphereot, sphereot.cli; assert sys.excepthook is before"
    assert start(sys.executable, "-c", code).returncode == 0


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_without_its_packages(folder, name):
    main = [sys.executable, "-c", without(name) + "from sphereot.cli import main; main()"]
    done = start(*main, *DRIFT)
    assert done.returncode == 2
    assert is_one_line(done)
    assert "pip install 'sphereot[cli]'" in done.stderr
    version = start(*main, "--version")
    assert (version.returncode, version.stdout) == (0, f"sphereot {sphereot.info().version}\n")


BROKEN = """
import sys
sys.argv[1:] = {args!r}
from sphereot.cli import main
import sphereot
{breaking}
main()
"""


@pytest.mark.parametrize(
    ("args", "breaking"),
    [
        (DRIFT, "import sphereot.stats; sphereot.stats.drift_test = lambda *_, **__: {}['gone']"),
        (
            ["uniformity", "a.npy"],
            "import sphereot.stats; sphereot.stats.uniformity_test = lambda *_, **__: {}['gone']",
        ),
        (["info"], "sphereot.info = lambda: {}['gone']"),
    ],
    ids=["drift", "uniformity", "info"],
)
def test_an_error_that_nobody_foresaw(folder, args, breaking):
    done = start(sys.executable, "-c", BROKEN.format(args=args, breaking=breaking))
    assert done.returncode == 1
    assert "KeyError: 'gone'" in done.stderr


@pytest.mark.parametrize(("breaking", "code"), [("MemoryError", 2), ("EOFError", 1), ("RecursionError", 1)])
def test_errors_of_every_kind(folder, breaking, code):
    imports = "import sphereot.stats"
    broken = f"{imports}\ndef broken(*_, **__): raise {breaking}\nsphereot.stats.drift_test = broken"
    done = start(sys.executable, "-c", BROKEN.format(args=DRIFT, breaking=broken))
    assert done.returncode == code
    assert done.stdout == ""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes as POSIX has them")
@pytest.mark.parametrize(
    "args",
    [["info"], ["drift", "--help"], DRIFT, [*DRIFT, "--debug"], ["distance", "a.npy", "a.npy"]],
    ids=["info", "help", "drift", "debug", "distance"],
)
def test_nobody_reads_the_output(folder, args):
    """As of `sphereot ... | head -1`: no message, since nothing is wrong with the input."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*MODULE, *args], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.returncode == 1
    assert done.stderr == b""


def test_drift_itself_is_three(folder):
    np.save("far.npy", -np.abs(X))
    np.save("near.npy", np.abs(X))
    arguments = ["drift", "near.npy", "far.npy", "--permutations", "99"]
    assert start(*MODULE, *arguments).returncode == 3
    assert start(*MODULE, *DRIFT).returncode == 0


# ---- version and help ----


def test_version():
    done = run("--version")
    assert (done.exit_code, done.stdout) == (0, f"sphereot {sphereot.info().version}\n")


def commands(group, words=()):
    yield list(words)
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*words, name))


@pytest.mark.parametrize("words", list(commands(get_command(build_app()))), ids=" ".join)
def test_short_option_for_help(words):
    """Every command, and every group of commands."""
    short, long = (run(*words, option) for option in ("-h", "--help"))
    assert short.exit_code == 0
    assert short.stdout == long.stdout
    assert "Usage:" in short.stdout
