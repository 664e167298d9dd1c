"""Run the command line in this process, and write files of points for it. Needs typer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner, Result

from sphereot.cli import build_app

__all__ = ["answer", "run", "save_points"]


def run(*arguments: object, **options: Any) -> Result:
    """Run a command; an error that it does not report itself is raised here."""
    return CliRunner().invoke(build_app(), [str(argument) for argument in arguments], catch_exceptions=False, **options)


def answer(*arguments: object) -> Any:
    """Output of a successful command, parsed from JSON."""
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def save_points(folder: Path, samples: Mapping[str, np.ndarray], *, csv: bool = False) -> Path:
    """Write samples as .npy files, or also as tables with the columns east, north and up; returns the folder."""
    for name, points in samples.items():
        np.save(folder / f"{name}.npy", points)
        if csv:
            import polars as pl

            pl.DataFrame(points, schema=["east", "north", "up"]).write_csv(folder / f"{name}.csv")
    return folder
