"""Run commands and Python code in a new process."""

import os
import subprocess
import sys

__all__ = ["MODULE", "run_python", "start"]

MODULE = (sys.executable, "-m", "sphereot")  # the command line


def start(*command: object, text: bool = True, timeout: float = 120, **options) -> subprocess.CompletedProcess:
    """Run a command to its end, whatever its exit code."""
    return subprocess.run(command, capture_output=True, text=text, check=False, timeout=timeout, **options)


def run_python(code: str, **environment: str) -> str:
    """Output of Python code, which must succeed. It sees no variables SPHEREOT_* but those passed here."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPHEREOT_")}
    done = start(sys.executable, "-c", code, env=inherited | environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
