"""Density estimation on earth data: both protocols, and presets whose runs can be resumed."""

import os
from dataclasses import asdict

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from paper.common import select
from paper.experiments import earth
from paper.run_context import RunContext


def test_settings_of_the_paper_keep_their_names():
    """An unfinished run is resumed only with the same configuration: new settings belong to a class of their own."""
    for name in ("quick", "cpu", "paper", "table", "ssw", "sw", "stereo"):
        settings = asdict(earth.EXPERIMENT.presets[name])
        assert "Auto" not in settings["columns"]
        assert "location_columns" not in settings


@pytest.mark.skipif("SPHEREOT_DATA" not in os.environ, reason="SPHEREOT_DATA does not name the folder of earth data")
def test_both_protocols(tmp_path):
    """80% of the eruptions of a test set are at locations of the training set: without them the likelihood is lower."""
    config = earth.TwoProtocolsConfig(
        data=("volcano",), columns=("Auto", "KDE"), location_columns=("Auto", "KDE"), splits=2, grid=30
    )
    rows = earth.run(config, RunContext(seed=0))
    assert len(rows) == 8
    by_row = select(rows, part="trainings", column="Auto")
    by_location = select(rows, part="splits by location", column="Auto")
    assert max(row["test_nll"] for row in by_row) < min(row["test_nll"] for row in by_location)
    table = earth.summarize(rows, config)
    assert [line[0] for line in table.rows] == ["Auto", "KDE", "Auto, by location", "KDE, by location"]
    assert "all rows of a location" in table.note
    figures = earth.plot(rows, config)
    assert set(figures) == {"maps", "likelihoods"}
    figures["likelihoods"].savefig(tmp_path / "likelihoods.png")
    assert (tmp_path / "likelihoods.png").stat().st_size > 5000
