"""Public functions validate, and what they call does not: one check of the unit length per array."""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.unit_length import count_unit_length_checks

import sphereot

RNG = np.random.default_rng(0)
X, Y, Z = (sphere_sample(RNG, n, 3) for n in (30, 20, 10))
FEW = {"n_projections": 4, "seed": 0}
CALLS = {
    "ssw": (lambda convert: sphereot.ssw(convert(X), convert(Y), **FEW), [X, Y]),
    "ssw_uniform": (lambda convert: sphereot.ssw_uniform(convert(X), **FEW), [X]),
    "ssw_estimate": (lambda convert: sphereot.ssw_estimate(convert(X), convert(Y), rtol=0.1, **FEW), [X, Y]),
    "pairwise_ssw": (lambda convert: sphereot.pairwise_ssw([convert(t) for t in (X, Y, Z)], **FEW), [X, Y, Z]),
}


@pytest.mark.parametrize("library", ["numpy", "torch", "jax.numpy"])
@pytest.mark.parametrize("name", CALLS)
def test_every_array_is_checked_once(name, library, monkeypatch):
    convert = pytest.importorskip(library).asarray
    call, arrays = CALLS[name]
    checks = count_unit_length_checks(monkeypatch)
    call(convert)
    assert checks == {array.shape: 1 for array in arrays}


def test_losses_check_every_array_once(monkeypatch):
    torch = pytest.importorskip("torch")
    from sphereot.torch import SSWLoss, UniformityLoss

    checks = count_unit_length_checks(monkeypatch)
    SSWLoss(n_projections=4)(torch.asarray(X), torch.asarray(Y))
    UniformityLoss(n_projections=4)(torch.asarray(Z))
    assert checks == {array.shape: 1 for array in (X, Y, Z)}
