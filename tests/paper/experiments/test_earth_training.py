"""The study of the training by SSW: a flow that has learned nothing, and one that has learned the sample."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from paper.experiments.earth_training import _ratio_to_chance
from sphereot import sphere
from sphereot.density import FlowDensity


def identity_flow():
    """A flow that hardly moves points."""
    return FlowDensity(n_blocks=1, n_components=2, epochs=1, lr=1e-12, seed=0).fit(np.eye(3)).flow_


def test_ratio_of_uniform_samples_has_mean_one():
    """The mean of SSW_2^2 over samples of n is 1/(12 n); 200 samples have a standard error of at most 0.05."""
    flow = identity_flow()
    ratios = [_ratio_to_chance(flow, sphere.random_uniform(50, 3, seed=seed)) for seed in range(200)]
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert error < 0.05
    assert abs(np.mean(ratios) - 1) < 4 * error
    assert _ratio_to_chance(flow, np.concatenate([np.eye(3), -np.eye(3)])) < 0.4  # as even as six points can be
