"""How far a reader must jump to follow one call: files of the package, and changes between them."""

import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.kernel import needs_kernel

import sphereot

pytestmark = needs_kernel


def count_walk(call):
    """Files of the package that a warm call visits, and how often it goes from one to another, by calls and returns."""
    call()
    visited, changes, last = set(), 0, None
    root = str(Path(sphereot.__file__).parent)

    def look(frame, event, _):
        nonlocal changes, last
        if event == "return":
            frame = frame.f_back
        elif event != "call":
            return
        name = None if frame is None else frame.f_code.co_filename
        if name is not None and name.startswith(root):
            visited.add(name)
            changes += last is not None and name != last
            last = name

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    assert visited
    return len(visited), changes


def test_distance_of_arrays():
    rng = np.random.default_rng(0)
    x, y = sphere_sample(rng, 50, 3), sphere_sample(rng, 40, 3)
    files, changes = count_walk(lambda: sphereot.ssw(x, y, seed=0))
    assert files <= 10
    assert changes <= 60


def test_loss_with_backward():
    torch = pytest.importorskip("torch")
    from sphereot.torch import SSWLoss

    rng = np.random.default_rng(0)
    x, y = (torch.tensor(sphere_sample(rng, n, 3), requires_grad=True) for n in (50, 40))
    loss = SSWLoss()
    files, changes = count_walk(lambda: loss(x, y).backward())
    assert files <= 14
    assert changes <= 165
