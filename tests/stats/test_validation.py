"""Public functions validate, and what they call does not: one check of the unit length per array."""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.unit_length import count_unit_length_checks

from sphereot.density import SphericalKDE
from sphereot.stats import drift_test, two_sample_test, uniformity_test

RNG = np.random.default_rng(0)
X, Y = sphere_sample(RNG, 30, 3), sphere_sample(RNG, 20, 3)
WINDOWS = [sphere_sample(RNG, n, 3) for n in range(10, 16)]
FEW = {"n_projections": 4, "seed": 0}


def kde_density():
    return SphericalKDE(bandwidth=0.3).fit(X).density(Y)


def kde_score():
    return SphericalKDE(bandwidth=0.3).fit(X).score(Y)


CALLS = {
    "two samples": (lambda: two_sample_test(X, Y, permutations=9, **FEW), [X, Y]),
    "uniformity": (lambda: uniformity_test(X, simulations=9, **FEW), [X]),
    "drift": (lambda: drift_test(X, WINDOWS, permutations=199, **FEW), [X, *WINDOWS]),
    "density": (kde_density, [X, Y]),
    "score": (kde_score, [X, Y]),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_array_is_checked_once(name, monkeypatch):
    call, arrays = CALLS[name]
    checks = count_unit_length_checks(monkeypatch)
    call()
    assert checks == {array.shape: 1 for array in arrays}


def test_arrays_of_another_library_are_checked_once(monkeypatch):
    torch = pytest.importorskip("torch")
    checks = count_unit_length_checks(monkeypatch)
    drift_test(torch.asarray(X), [torch.asarray(window) for window in WINDOWS], permutations=199, **FEW)
    assert checks == {array.shape: 1 for array in (X, *WINDOWS)}
