"""Two processes over gloo, each with half a batch: run by test_losses.py. Prints `ranks agree` or fails."""

import os
import socket
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from paper.learning.view_losses import GaussianPotentialLoss, NTXentLoss, SWUniformityLoss
from sphereot.torch import AlignmentUniformityLoss, SSWLoss, UniformityLoss


def batches() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(12, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    return torch.nn.functional.normalize(x), torch.nn.functional.normalize(y + 1)


def message_of(call: Callable[[], object]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    raise AssertionError("the call was not refused")


def refuse_unlike_batches(rank: int) -> None:
    """Batches that cannot be gathered raise an error before that, with the same message on both ranks."""
    x, y = batches()
    held = "(6, 4) torch.float64 without gradient"
    cases = {
        "(5, 4) torch.float64 without gradient": x[:5],
        "(6, 3) torch.float64 without gradient": torch.nn.functional.normalize(x[:6, :3]),
        "(6, 4) torch.float32 without gradient": x[:6].float(),
        "(2, 6, 4) torch.float64 without gradient": x[:6].repeat(2, 1, 1),
        "(6, 4) torch.float64 with gradient": x[:6].clone().requires_grad_(),
    }
    for words, unlike in cases.items():
        own = unlike if rank else x[:6]
        loss = UniformityLoss(gather=True, seed=0, n_projections=4)
        message = message_of(lambda loss=loss, own=own: loss(own))
        assert f"gather: x is {held} on rank 0 and {words} on rank 1" in message, message
    loss = SSWLoss(gather=True, seed=0, n_projections=4)
    message = message_of(lambda: loss(x[:6], y[: 6 + rank]))
    assert "gather: y is (6, 4)" in message, message
    assert "(7, 4)" in message, message
    dist.barrier()  # both ranks are still there, and can go on
    assert torch.isfinite(loss(x[:6], y[:6]))


def compare_views(own: slice) -> None:
    """Losses of two views: value and gradient of the whole batch on both ranks, for every uniformity term."""
    terms = {
        "sliced": lambda gather: UniformityLoss(n_projections=20, seed=3, gather=gather),
        "exact": lambda gather: UniformityLoss(method="exact", gather=gather),
        "unbiased": lambda gather: UniformityLoss(method="exact", unbiased=True, gather=gather),
        "Gaussian": lambda gather: GaussianPotentialLoss(gather=gather),
        "SW": lambda gather: SWUniformityLoss(20, seed=3, gather=gather),
        "default": lambda gather: None,
    }
    losses = {
        name: lambda gather, term=term: AlignmentUniformityLoss(20.0, term(gather), gather=gather)
        for name, term in terms.items()
    }
    losses["NT-Xent"] = lambda gather: NTXentLoss(0.2, gather=gather)
    for name, loss in losses.items():
        x, y = (t.requires_grad_() for t in batches())
        value = loss(False).forward_components(x, y)
        expected = torch.autograd.grad(value.total, (x, y))
        mine = [t[own].requires_grad_() for t in batches()]
        shared = loss(True).forward_components(*mine)
        for got, whole in zip(shared, value, strict=True):
            torch.testing.assert_close(got, whole, msg=name)
        for got, whole in zip(torch.autograd.grad(shared.total, mine), expected, strict=True):
            torch.testing.assert_close(got, whole[own], msg=name)


def compare(rank: int, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    own = slice(6 * rank, 6 * rank + 6)
    for p, root in ((2, False), (2, True), (16, True)):
        options = {"p": p, "n_projections": 20, "seed": 3, "root": root}
        x, y = (t.requires_grad_() for t in batches())
        value = SSWLoss(**options)(x, y) + UniformityLoss(**options)(x)
        expected = torch.autograd.grad(value, (x, y))
        mine = [t[own].requires_grad_() for t in batches()]
        shared = SSWLoss(gather=True, **options)(*mine) + UniformityLoss(gather=True, **options)(mine[0])
        torch.testing.assert_close(shared, value)
        for got, whole in zip(torch.autograd.grad(shared, mine), expected, strict=True):
            torch.testing.assert_close(got, whole[own])
    compare_views(own)
    assert "seed must be given with gather=True" in message_of(lambda: SSWLoss(gather=True)(*batches()))
    refuse_unlike_batches(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    mp.spawn(compare, args=(free,), nprocs=2)
    print("ranks agree")
