"""Processes in which installed packages cannot be imported, as if they were not installed."""

from helpers.processes import run_python

__all__ = ["import_error", "without"]

# Only PathFinder finds installed packages. Unlike None in sys.modules this leaves no trace of the package, and
# importlib.util.find_spec gives None.
HIDE = """
from importlib.machinery import PathFinder

def _find_others(name, *rest, find_spec=PathFinder.find_spec):
    return None if name in {names!r} else find_spec(name, *rest)

PathFinder.find_spec = _find_others
"""


def without(*names: str) -> str:
    """Code that hides packages from the code after it."""
    return HIDE.format(names=names)


def import_error(statement: str, *, absent: str) -> str:
    """Message of the ImportError that a statement raises if a package is not installed."""
    code = f"""
{without(absent)}
import numpy as np, sphereot
try:
    {statement}
except ImportError as error:
    print(error)
"""
    return run_python(code)
