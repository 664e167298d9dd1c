"""Losses over the processes of `torch.distributed`, where every rank has a part of the batch.

The points of all ranks are gathered, the slices are divided among the ranks, and the mean over slices is taken over the
ranks. Every rank gets the value that one process with the whole batch would have, and its points their gradient there.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def world_size() -> int:
    """The number of processes; 1 where `torch.distributed` is not in use."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def require_equal_batches(**points: Tensor) -> None:
    """Raise the same error on every rank unless all have points of the same shapes and dtypes.

    To be called before anything is gathered: backends end the process, or wait forever, when the sizes differ.
    """
    if world_size() == 1:
        return
    first = next(iter(points.values()))
    descriptions = torch.tensor([_description(t) for t in points.values()], device=first.device)
    tables = [torch.empty_like(descriptions) for _ in range(world_size())]
    dist.all_gather(tables, descriptions)
    by_rank = torch.stack(tables).tolist()
    for rank, table in enumerate(by_rank):
        for name, here, there in zip(points, by_rank[0], table, strict=True):
            if here != there:
                raise ValueError(
                    f"gather: {name} is {_in_words(here)} on rank 0 and {_in_words(there)} on rank {rank}, but the "
                    "batches of all ranks must be alike; give every rank as many points (for a DataLoader, "
                    "drop_last=True), in the same dimension and dtype, and differentiate on all of them or on none."
                )


def _description(points: Tensor) -> list[int]:
    """The number of samples (0 if there is no such dimension), of points, of coordinates; dtype; differentiated or not.

    Ranks that differ in the last would wait for each other in the backward pass.
    """
    samples = points.shape[0] if points.ndim == 3 else 0
    differentiated = points.requires_grad and torch.is_grad_enabled()
    dtype = _DTYPES.index(points.dtype) if points.dtype in _DTYPES else len(_DTYPES)
    return [samples, *points.shape[-2:], dtype, int(differentiated)]


def _in_words(description: list[int]) -> str:
    samples, n, dim, dtype, differentiated = description
    shape = (samples, n, dim) if samples else (n, dim)
    name = str(_DTYPES[dtype]) if dtype < len(_DTYPES) else "of another dtype"
    return f"{shape} {name} {'with' if differentiated else 'without'} gradient"


def gather_batch(points: Tensor) -> Tensor:
    """The points of all ranks, one after the other, differentiably; they must be alike (`require_equal_batches`)."""
    if world_size() == 1:
        return points
    whole: Tensor = _Gather.apply(points)
    return whole


class _Gather(torch.autograd.Function):
    """Gathers the points of all ranks; in the backward pass a point gets the sum of its gradients on all ranks."""

    @staticmethod
    def forward(ctx: Any, points: Tensor) -> Tensor:
        local = points.contiguous()
        parts = [torch.empty_like(local) for _ in range(world_size())]
        dist.all_gather(parts, local)
        return torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        # The whole sum, not only this rank's part of it: every backend of torch.distributed supports all_reduce.
        total = upstream[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total.chunk(world_size())[dist.get_rank()]


def local_frames(frames: Tensor) -> Tensor:
    """The slices that this rank computes."""
    if world_size() == 1:
        return frames
    if frames.shape[0] % world_size():
        raise ValueError(
            f"gather: {frames.shape[0]} slices cannot be shared evenly by {world_size()} ranks; make n_projections a "
            "multiple of the number of ranks."
        )
    return frames[dist.get_rank() :: world_size()]


def mean_over_ranks(value: Tensor) -> Tensor:
    """The mean of the ranks' values, the same on each.

    A rank's value enters the mean with the factor 1 / ranks, and so does its gradient: `gather_batch` adds up the
    gradients of a point on all ranks, and the sum is the gradient that the point would have in one process.
    """
    ranks = world_size()
    if ranks == 1:
        return value
    total = value.detach().clone()
    dist.all_reduce(total)
    return value / ranks + (total - value.detach()) / ranks
