"""One rule for missing labels of groups, keys and times: every command refuses them, and says which column has them."""

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl
from helpers.cli import run
from helpers.kernel import needs_kernel

from sphereot import Sketch, sphere
from sphereot.sketch.streams import SketchesByKey
from sphereot.stats import drift_test, two_sample_test

NAMES = ["x", "y", "z"]
POINTS = sphere.random_uniform(40, 3, seed=0)
MISSING = {"null": None, "empty": "", "blank": "  ", "NaN": "NaN"}


@pytest.fixture(params=MISSING)
def folder(request, tmp_path):
    """Two tables whose second column of text lacks a value in one row, and a reference for a monitor."""
    for name in ("reference", "window"):
        labels = [f"{name}-{k // 4}" for k in range(40)]
        table = pl.DataFrame(POINTS, schema=NAMES).with_columns(whole=pl.Series(labels))
        labels[7] = MISSING[request.param]
        table = table.with_columns(label=pl.Series(labels))
        table.write_parquet(tmp_path / f"{name}.parquet")
    Sketch(3, 8, 64, groups=8).update(POINTS, groups=list(range(40))).save(tmp_path / "reference.sketch")
    return tmp_path


COMMANDS = {
    "drift": ["drift", "reference.parquet", "window.parquet", "--groups"],
    "test": ["test", "reference.parquet", "window.parquet", "--groups"],
    "sketch --groups": ["sketch", "window.parquet", "-o", "out.sketch", "--groups"],
    "sketch --by": ["sketch", "window.parquet", "-o", "out", "--by"],
    "sketch --time": ["sketch", "window.parquet", "-o", "out", "--every", "day", "--time"],
    "drift --time": ["drift", "window.parquet", "--every", "day", "--time"],
    "monitor": ["monitor", "reference.sketch", "window.parquet", "--history", "h.jsonl", "--groups"],
}


@needs_kernel
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_missing_labels(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = run(*COMMANDS[command], "label", "--columns", "x,y,z")
    assert done.exit_code == 2
    assert "column 'label': 1 of 40 labels are missing (null, NaN or empty text)" in " ".join(done.stderr.split())
    assert not list(folder.glob("out*"))


@pytest.mark.parametrize("missing", [None, "", float("nan"), np.datetime64("NaT"), np.ma.masked], ids=repr)
def test_the_library_has_the_same_rule(missing):
    labels = [*(f"a{k}" for k in range(39)), missing]
    if missing is np.ma.masked:
        labels = np.ma.array([f"a{k}" for k in range(40)], mask=[False] * 39 + [True])
    others = [f"b{k}" for k in range(40)]
    calls = {
        "groups of y": lambda: two_sample_test(POINTS, POINTS, groups=(others, labels), permutations=9),
        r"groups of windows\[0\]": lambda: drift_test(POINTS, [POINTS], groups=[others, labels]),
        "groups": lambda: Sketch(3, 8, 64, groups=8).update(POINTS, groups=labels),
        "by": lambda: SketchesByKey({"n_projections": 8, "bins": 64}).update(POINTS, keys=labels),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"^{name}: 1 of 40 labels are missing"):
            call()
