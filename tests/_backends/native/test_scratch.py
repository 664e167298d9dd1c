"""Memory that is used again: never while an array refers to it, and never more than a bounded part."""

import gc

import numpy as np
import pytest

from sphereot._backends.native import expmap as module
from sphereot._backends.native.expmap import scratch


@pytest.fixture(autouse=True)
def no_blocks(monkeypatch):
    monkeypatch.setattr(module, "_blocks", {})


def address(array):
    return array.__array_interface__["data"][0]


def test_shape_and_type():
    array = scratch((3, 4), np.float32)
    assert array.shape == (3, 4)
    assert array.dtype == np.float32
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert address(array) % 16 == 0
    assert scratch((0, 4), np.float64).shape == (0, 4)


def test_memory_is_used_again_only_when_nothing_refers_to_it():
    first = scratch((100,), np.float64)
    row, start = first[10:], address(first)
    del first
    gc.collect()
    second = scratch((100,), np.float64)
    assert address(second) != start  # `row` is still there
    del row
    gc.collect()
    assert address(scratch((90,), np.float64)) == start


def test_blocks_are_of_a_like_size_and_few():
    small = scratch((10,), np.float64)
    start = address(small)
    del small
    assert address(scratch((6,), np.float64)) == start
    assert address(scratch((4,), np.float64)) != start  # less than half of the block
    arrays = [scratch((50,), np.float64) for _ in range(20)]
    del arrays
    assert len(module._blocks) <= 6
    assert scratch((1 << 24,), np.float64).base is None  # 128 MB: not kept


def test_a_new_size_takes_the_place_of_old_ones():
    """A second training of another size uses its memory again, too."""
    for size in (10, 100, 1000, 10_000):
        arrays = [scratch((size,), np.float64) for _ in range(6)]
        starts = {address(array) for array in arrays}
        del arrays
        assert {address(array) for array in [scratch((size,), np.float64) for _ in range(6)]} == starts
    assert len(module._blocks) == 6


def test_two_graphs_at_a_time():
    """The records of two forward passes are alive together, and a kept graph can be differentiated again."""
    torch = pytest.importorskip("torch")
    from sphereot.flows import ExponentialMapFlow

    flow = ExponentialMapFlow(3, 4, 5, strength=0.5, seed=0)
    x = torch.nn.functional.normalize(torch.randn(300, 3, generator=torch.Generator().manual_seed(0)), dim=1)
    parameters = list(flow.parameters())

    def gradients(loss, **options):
        return torch.autograd.grad(loss, parameters, **options)

    def losses(part):
        return flow(part)[:, 0].sum(), flow.forward_and_log_det(part)[1].sum()

    expected = [gradients(loss) for part in (x, x[:150], -x) for loss in losses(part)]
    together = [loss for part in (x, x[:150], -x) for loss in losses(part)]
    for k in reversed(range(len(together))):
        for _ in range(2):
            again = gradients(together[k], retain_graph=True)
            assert all(torch.equal(a, b) for a, b in zip(again, expected[k], strict=True))
