"""Variational inference: SSW against SW, the target of the published code, and resuming inside a fit."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from paper.common import select
from paper.experiments import vi_mixture, vi_power_spherical
from paper.run_context import Checkpoint, RunContext, UnitLog


def test_sswvi_of_the_mixture_ends_above_swvi():
    """The paper's flow and Langevin steps; 300 steps at twenty times its learning rate, three paired runs.

    A guard, at settings chosen because the difference is clear there: over eight runs its mean was 1.7 points, with a
    standard error of 0.5. The evidence is the run at the paper's scale, paper/results/vi_mixture: half a point,
    in 10 of 10.
    """
    experiment = vi_mixture.EXPERIMENT
    config = vi_mixture.Config(
        steps=300, record_every=100, lr=0.02, n_particles=200, n_projections=30, runs=3, exact_runs=0
    )
    rows = experiment.run(config, RunContext(0))
    ess = {name: [row["ess"] for row in select(rows, part="fits", method=name)] for name in ("ssw", "sw")}
    assert np.mean(ess["ssw"]) > np.mean(ess["sw"])
    assert np.mean(ess["ssw"]) > 60
    fits = select(rows, part="fits")
    assert min(row["least_share"] for row in fits) > 0.15
    assert max(row["greatest_share"] for row in fits) < 0.35


def test_modes_are_those_of_the_published_code():
    """T(theta, phi) = (sin phi cos theta, sin phi sin theta, cos phi), of the corrected coordinates."""
    theta, phi = np.array([1.5, 1, 5, 4]), np.array([0.7, -1, 0.6, -0.7]) + np.pi / 2
    expected = np.stack([np.sin(phi) * np.cos(theta), np.sin(phi) * np.sin(theta), np.cos(phi)], axis=-1)
    np.testing.assert_allclose(vi_mixture.modes().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("module", [vi_mixture, vi_power_spherical])
def test_a_reproduction_killed_inside_a_fit_ends_with_the_same_numbers(module, tmp_path, monkeypatch):
    class KilledError(Exception):
        pass

    monkeypatch.setattr(Checkpoint, "every", 0.0)
    change = {"steps": 6, "record_every": 3, "n_particles": 30, "mcmc_steps": 2, "n_projections": 5, "runs": 1}
    config = replace(module.EXPERIMENT.presets["quick"], **change)
    whole = module.run(config, RunContext(0))
    log = tmp_path / "unfinished.jsonl"

    save, told = Checkpoint.save, []

    def save_and_die(self, state):
        save(self, state)
        told.append(self)
        if len(told) == 4:
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", save_and_die)
        with pytest.raises(KilledError):
            module.run(config, RunContext(0, UnitLog(log, {"seed": 0})))
    assert told[-1].path.exists()
    assert module.run(config, RunContext(0, UnitLog(log, {"seed": 0}))) == whole
    assert len(told) == 4
