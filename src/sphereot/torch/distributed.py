"""Losses over the processes of `torch.distributed`, in which every rank has a part of the batch.

The points of all ranks are gathered, the great circles are divided among the ranks, and their costs are averaged over
the ranks. Every rank gets the value and the gradients of its points that one process with the whole batch would have.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def world_size() -> int:
    """Return the number of processes; 1 if `torch.distributed` is not in use."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def require_equal_batches(**points: Tensor) -> None:
    """Raise the same error on every rank unless all have points of the same shapes and dtypes.

    Call it before anything is gathered: if the sizes differ, backends end the process or wait forever.
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
                    "batches of all ranks must have the same shape and dtype; give every rank the same number of "
                    "points (for a DataLoader, drop_last=True), and differentiate on all ranks or on none."
                )


def _description(points: Tensor) -> list[int]:
    """Return the numbers of samples (0 without this dimension), points and coordinates, the dtype, and requires_grad.

    If only some ranks were differentiated, they would wait for the others in the backward pass.
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
    """Concatenate the points of all ranks, differentiably; see `require_equal_batches`."""
    if world_size() == 1:
        return points
    whole: Tensor = _Gather.apply(points)
    return whole


class _Gather(torch.autograd.Function):
    """Gather the points of all ranks; in the backward pass, sum the gradients of a point on all ranks."""

    @staticmethod
    def forward(ctx: Any, points: Tensor) -> Tensor:
        local = points.contiguous()
        parts = [torch.empty_like(local) for _ in range(world_size())]
        dist.all_gather(parts, local)
        return torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        # Every backend of torch.distributed supports all_reduce, unlike a sum of only the part of this rank.
        total = upstream[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total.chunk(world_size())[dist.get_rank()]


def local_frames(frames: Tensor) -> Tensor:
    """Select the great circles that this rank computes."""
    if world_size() == 1:
        return frames
    if frames.shape[0] % world_size():
        raise ValueError(
            f"gather: {frames.shape[0]} great circles cannot be divided evenly among {world_size()} ranks; make "
            "n_projections a multiple of the number of ranks."
        )
    return frames[dist.get_rank() :: world_size()]


def mean_over_ranks(value: Tensor) -> Tensor:
    """Average the values of all ranks, with the same result on each rank.

    The gradient of a rank's value has the factor 1 / ranks. `gather_batch` adds the gradients of a point on all ranks,
    so the sum is the gradient in one process.
    """
    ranks = world_size()
    if ranks == 1:
        return value
    total = value.detach().clone()
    dist.all_reduce(total)
    return value / ranks + (total - value.detach()) / ranks
