"""Two processes over gloo, each with half a batch: run by test_torch_losses.py. Prints `ranks agree` or fails."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from sphereot.torch import SSWLoss, UniformityLoss


def batches() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(12, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    return torch.nn.functional.normalize(x), torch.nn.functional.normalize(y + 1)


def compare(rank: int, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    own = slice(6 * rank, 6 * rank + 6)
    for root in (False, True):
        options = {"n_projections": 20, "seed": 3, "root": root}
        x, y = (t.requires_grad_() for t in batches())
        value = SSWLoss(**options)(x, y) + UniformityLoss(**options)(x)
        expected = torch.autograd.grad(value, (x, y))
        mine = [t[own].requires_grad_() for t in batches()]
        shared = SSWLoss(gather=True, **options)(*mine) + UniformityLoss(gather=True, **options)(mine[0])
        torch.testing.assert_close(shared, value)
        for got, whole in zip(torch.autograd.grad(shared, mine), expected, strict=True):
            torch.testing.assert_close(got, whole[own])
    try:
        SSWLoss(gather=True)(*batches())
    except ValueError as error:
        assert "give the loss a seed" in str(error)
    else:
        raise AssertionError("slices that differ between ranks were not refused")
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    mp.spawn(compare, args=(free,), nprocs=2)
    print("ranks agree")
