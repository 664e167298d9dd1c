"""Type checkers on a program of a user: right calls pass, wrong ones are refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("program.py")
ROOT = PROGRAM.parents[2]
WRONG = {number for number, line in enumerate(PROGRAM.read_text().splitlines(), start=1) if line.endswith("# WRONG")}


def test_mypy():
    """`mypy --strict` has a message for exactly the lines that are marked."""
    pytest.importorskip("mypy")
    pytest.importorskip("jax")
    pytest.importorskip("matplotlib")
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert {int(line.split(":")[1]) for line in errors} == WRONG, done.stdout + done.stderr


def test_pyright():
    """So has pyright."""
    pytest.importorskip("pyright")
    pytest.importorskip("jax")
    pytest.importorskip("matplotlib")
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    try:
        diagnostics = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        pytest.skip(f"pyright cannot be run here: {done.stderr[-200:]}")
    errors = [item for item in diagnostics if item["severity"] == "error" and item["file"] == str(PROGRAM)]
    assert {item["range"]["start"]["line"] + 1 for item in errors} == WRONG, errors
