"""The table of everything in the paper, and the records that its verdicts are computed from."""

import re
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("torch")

from typer.testing import CliRunner

from paper import overview
from paper.__main__ import app

ROOT = Path(__file__).parents[2]


def test_every_figure_and_table_has_a_verdict():
    rows = overview.table()
    numbers = " ".join(row[0] for row in rows)
    assert {int(n) for n in re.findall(r"\bFigures? (\d+)", numbers)} | {14} == set(range(1, 21))
    assert {int(n) for n in re.findall(r"\bTable (\d)", numbers)} == set(range(1, 6))
    verdicts = {overview.MET, overview.SMALLER, overview.NOT_MET, overview.NOT_COMPARABLE}
    assert {row[4] for row in rows} <= verdicts


def test_tests_and_programs_that_the_table_names_exist():
    for item in overview.ITEMS:
        assert not item.where or (ROOT / item.where).exists(), item.where


def test_a_record_that_shows_something_else_is_not_met(monkeypatch):
    """A verdict comes from the record: with a maximum elsewhere, Figure 8 is not met."""
    record = overview._record("rotation")
    changed = record | {"table": record["table"] | {"rows": [["3", "0.14 at 90°"]]}}
    monkeypatch.setattr(overview, "_record", lambda folder: changed)
    (item,) = (item for item in overview.ITEMS if item.number == "Figure 8")
    assert item.as_row()[4] == overview.NOT_MET


@pytest.mark.parametrize("command", [["list"], ["compare"]])
def test_commands_begin_with_the_table(command):
    printed = CliRunner().invoke(app, command, env={"COLUMNS": "240"}).output
    assert printed.index("Figure 1 ") < printed.index("Proposition 11")


def test_documents_have_the_table():
    """After a change of a record: python -m paper compare --markdown."""
    assert overview.markdown() in (ROOT / "docs" / "benchmarks" / "reproducing.md").read_text()
