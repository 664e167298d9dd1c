"""Gradient flows of the paper: resuming inside a flow."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("ot")

import paper
from paper.experiment import run_experiment
from paper.run_context import RunContext


class KilledError(Exception):
    pass


@pytest.mark.parametrize(("name", "model"), [("flow_mixture", "riemannian"), ("flow_mixture", "mlp"), ("flow_vmf", "")])
def test_a_reproduction_killed_inside_a_flow_ends_with_the_same_numbers(name, model, tmp_path, monkeypatch):
    """The state inside a unit is kept: particles, optimizer, generators. Timings aside, nothing differs."""
    # The collection of doctests may load a module a second time: this is the class that runs use.
    kept = RunContext.measure.__globals__["Checkpoint"]
    experiment = paper.find(name)
    small = {"n": 40, "n_projections": 10, "target_size": 200, "runs": 1, "fresh_samples": 2}
    small |= {"epochs": (0, 3, 12)} if name == "flow_vmf" else {"epochs": 12, "timed_steps": 1}
    config = replace(experiment.presets["quick"], **small)
    experiment = replace(experiment, presets={"quick": config}, plot=lambda rows, config: {})
    whole = run_experiment(experiment, out=tmp_path / "whole")

    save, saved = kept.save, []

    def save_and_die(checkpoint, state):
        checkpoint.every = 0.0
        save(checkpoint, state)
        if model in checkpoint._owner:
            saved.append(len(saved))
            if len(saved) == 7:
                raise KilledError

    monkeypatch.setattr(kept, "save", save_and_die)
    with pytest.raises(KilledError):
        run_experiment(experiment, out=tmp_path / "broken")
    assert (tmp_path / "broken" / "unfinished.pt").exists()
    again = run_experiment(experiment, out=tmp_path / "broken")
    if model in ("", "riemannian"):
        assert len(saved) == 12  # five more, not twelve
    results = [[row for row in one.rows if row["part"] != "cost"] for one in (whole, again)]
    assert results[0] == results[1]
    assert {file.name for file in (tmp_path / "broken").iterdir()} == {"result.json", "result.csv", "series.json"}
